"""Calls handlers in a unit test, without a server:

    from forebay.testing import testing
    from api import app

    with testing(app) as client:
        response = client.get("/users/7")
        assert response.status == 200
        assert response.json() == {"name": "Ada"}
"""

from __future__ import annotations

import asyncio
import inspect
import json as _json
import os
import sys
import tempfile
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _store
from ._app import App
from ._context import Context, JobView, Log, State, WorkerContext, WorkerInfo
from ._fields import Headers
from ._reply import Reply, error_reply, is_failure, pieces_of, to_json, to_piece, to_reply
from ._request import AsyncRequest, Request, User
from ._wire import CONTENT_TYPES, request_payload


class Response(NamedTuple):
    """The response that a client would receive."""

    status: int
    headers: Headers
    body: bytes

    def json(self) -> Any:
        """The body parsed as JSON."""
        return _json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text (UTF-8)."""
        return self.body.decode()


class LogLine(NamedTuple):
    """A line that a handler wrote to `ctx.log`."""

    level: str
    message: str
    fields: Dict[str, Any]


def testing(app: App) -> "Client":
    """Makes a client of the app. As a context manager, it gives the handlers a store in a temporary folder, unless FOREBAY_STORE names one, and runs
    the stop hooks at its end."""
    return Client(app)


class Client:
    """Calls the handlers of an app, one request at a time. The start hooks run before the first."""

    def __init__(self, app: App) -> None:
        if not isinstance(app, App):
            found = f"{type(app).__module__}.{type(app).__qualname__}"
            raise TypeError(
                f"testing() calls the handlers of a forebay.App, and this is a {found}: test an application of another framework with that framework's "
                "client, such as app.test_client() of Flask and fastapi.testclient.TestClient"
            )
        self._app = app
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._started = False
        self._requests = 0
        #: The folder of the handlers' store.
        self._folder: "Optional[tempfile.TemporaryDirectory[str]]" = None
        #: Log lines of the handlers, oldest first.
        self.logs: List[LogLine] = []
        #: Failures of the handlers: everything they raised except an `HttpError`, or a `SqlError` that does not count as the handler's
        #: failure.
        self.errors: List[Exception] = []
        #: The `ctx.state` that the handlers see.
        self.state = State()
        self._log = Log(lambda level, message, fields: self.logs.append(LogLine(level, message, fields)))
        self._context = WorkerContext(self.state, WorkerInfo(0, "test", os.getpid()), self._log)

    def get(self, path: str, **options: Any) -> Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> Response:
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> Response:
        return self.request("PUT", path, **options)

    def patch(self, path: str, **options: Any) -> Response:
        return self.request("PATCH", path, **options)

    def delete(self, path: str, **options: Any) -> Response:
        return self.request("DELETE", path, **options)

    def head(self, path: str, **options: Any) -> Response:
        return self.request("HEAD", path, **options)

    def options(self, path: str, **options: Any) -> Response:
        return self.request("OPTIONS", path, **options)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        body: Union[str, bytes] = b"",
        headers: Optional[Mapping[str, str]] = None,
        params: Optional[Mapping[str, str]] = None,
        ip: str = "127.0.0.1",
        user: Optional[User] = None,
        deadline: Optional[float] = None,
    ) -> Response:
        """Any method. `json` is sent as the JSON body, with its content type; `params` are those of the server's route, `deadline` the
        seconds that the handler has, `user` is who the client has proved to be."""
        self.start()
        self._requests += 1
        sent = {"host": "localhost"}
        if json is not None:
            sent["content-type"] = "application/json"
        sent.update({name.lower(): value for name, value in (headers or {}).items()})
        content = to_json(json) if json is not None else body.encode() if isinstance(body, str) else body
        before, _, query = path.partition("?")
        request_id = sent.get("x-request-id", f"test-{self._requests}")
        payload = request_payload(
            method=method,
            path=before,
            query=query,
            params=list((params or {}).items()),
            headers=list(sent.items()),
            peer=ip,
            request_id=request_id,
            identity="" if user is None else to_json(user._asdict()).decode(),
            body=content,
        )
        return self._answer(payload, request_id, method, deadline)

    def _answer(self, payload: bytes, request_id: str, method: str, deadline: Optional[float]) -> Response:
        context = Context(self._context, _TestJob(self._log, None if deadline is None else time.monotonic() + deadline))
        try:
            reply = self._call(payload, context)
            return self._response(reply, method)
        except Exception as error:
            if is_failure(error):
                self.errors.append(error)
            return self._response(error_reply(error, request_id), method)

    def _call(self, payload: bytes, context: Context) -> Reply:
        request: Union[Request, AsyncRequest] = Request(payload, 0, len(payload), None)
        target = self._app._route(request)
        if target.is_async:
            request = AsyncRequest(payload, 0, len(payload), None)
            self._app._route(request)
        value = target.call(request, context)
        if target.is_async:
            return to_reply(self._done(value))
        # As in a worker, nothing is awaited for handlers that are not `async`.
        reply = to_reply(value)
        if not isinstance(reply.body, bytes):
            pieces_of(reply.body)
        return reply

    def _response(self, reply: Reply, method: str) -> Response:
        headers: List[Tuple[bytes, bytes]] = []
        content_type = CONTENT_TYPES[reply.kind]
        if content_type is not None:
            headers.append((b"content-type", content_type.encode()))
        headers.extend((name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers)
        body = self._collected(reply.body)
        bare = method == "HEAD" or reply.status in (204, 205, 304)
        return Response(reply.status, Headers(lambda: headers), b"" if bare else body)

    def _done(self, value: Any) -> Any:
        """The result of a handler, awaited if necessary: always on the same loop, as in a worker."""
        if not inspect.isawaitable(value):
            return value
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(value)

    def _collected(self, body: Any) -> bytes:
        if isinstance(body, bytes):
            return body
        if hasattr(body, "__aiter__"):
            pieces: bytes = self._done(_joined(body))
            return pieces
        return b"".join([to_piece(piece) for piece in body])

    def start(self) -> None:
        """Runs the start hooks now, if they have not run."""
        if not self._started:
            self._started = True
            for hook in self._app._start:
                self._done(hook(self._context))

    def stop(self) -> None:
        """Runs the stop hooks."""
        for hook in self._app._stop:
            self._done(hook(self._context))
        if self._loop is not None:
            self._loop.close()

    def __enter__(self) -> "Client":
        if "FOREBAY_STORE" not in os.environ and _store.provided is None:
            self._folder = tempfile.TemporaryDirectory()
            _store.provided = self._folder.name
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        if self._folder is not None:
            module = sys.modules.get("forebay.store")
            if module is not None:
                module.store.close()
            _store.provided = None
            self._folder.cleanup()
            self._folder = None


async def _joined(body: Any) -> bytes:
    return b"".join([to_piece(piece) async for piece in body])


class _TestJob(JobView):
    """The job of a request under test; it is never aborted by the client."""

    __slots__ = ("_log", "_due")

    def __init__(self, log: Log, due: Optional[float]) -> None:
        self._log = log
        self._due = due

    @property
    def log(self) -> Log:
        return self._log

    @property
    def due(self) -> Optional[float]:
        return self._due

    @property
    def aborted(self) -> bool:
        return False
