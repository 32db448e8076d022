"""The application of `forebay bench pool --runtime python`: each request body is a message, passed to the function `handler` of the file in
`FOREBAY_BENCH_HANDLER`, or to a default that only counts."""

from __future__ import annotations

import os
import runpy
from typing import Any, Callable, Dict

from ._app import App
from ._context import Context
from ._request import Request

app = App()

_count = 0


def _default_handler(message: Dict[str, Any], ctx: Context) -> Any:
    global _count
    _count += 1
    return {"messageNo": message["messageNo"], "workerId": ctx.worker.id, "count": _count}


def _selected_handler() -> Callable[[Any, Context], Any]:
    file = os.environ.get("FOREBAY_BENCH_HANDLER")
    if not file:
        return _default_handler
    handler = runpy.run_path(file).get("handler")
    if not callable(handler):
        raise TypeError(f"{file} has no function `handler(message, ctx)`")
    return handler  # type: ignore[no-any-return]


_handle = _selected_handler()


@app.post("/benchmark")
def _answer(request: Request, ctx: Context) -> Any:
    return _handle(request.json(), ctx)
