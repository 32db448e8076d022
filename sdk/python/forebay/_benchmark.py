"""What the workers of `forebay bench pool --runtime python` run: each request's body is a message, which goes to the function `handler` of
the file that the environment names, or to one that does nothing but count."""

from __future__ import annotations

import os
import runpy
from typing import Any, Callable, Dict

from ._app import App
from ._context import Context
from ._request import Request

app = App()

_count = 0


def _usual(message: Dict[str, Any], ctx: Context) -> Any:
    global _count
    _count += 1
    return {"messageNo": message["messageNo"], "workerId": ctx.worker.id, "count": _count}


def _chosen() -> Callable[[Any, Context], Any]:
    file = os.environ.get("FOREBAY_BENCH_HANDLER")
    if not file:
        return _usual
    found = runpy.run_path(file).get("handler")
    if not callable(found):
        raise TypeError(f"{file} has no function `handler(message, ctx)`")
    return found  # type: ignore[no-any-return]


_handle = _chosen()


@app.post("/benchmark")
def _answer(request: Request, ctx: Context) -> Any:
    return _handle(request.json(), ctx)
