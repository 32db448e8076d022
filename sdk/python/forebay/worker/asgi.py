"""Runs ASGI applications (ASGI 3, HTTP, WebSocket and lifespan)."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Awaitable, Callable, Dict, MutableMapping, Optional, Tuple

from .._reply import HttpError
from .._request import decoded_path
from .._websocket import Closed
from .._wire import HAS_IDENTITY, KIND_NONE, PAIR, REQUEST_TABLE, read_identity, read_pairs
from .answer import error_parts
from .event_loop import AsyncJob
from .job import DONE, EVENT_STREAM, NEW, FilePart, RequestAborted, bounded
from .report import report
from .socket import INTERNAL_ERROR, Connection

Message = MutableMapping[str, Any]
Scope = Dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The extension by which an application names a file instead of sending its content.
_PATHSEND: Dict[str, Any] = {"http.response.pathsend": {}}

#: Maximum number of kept headers and hosts; beyond it, they are forgotten.
SEEN_MAX = 1_024
#: Longest kept header.
PAIR_BYTES_MAX = 256

_VERSIONS = {"version": "3.0", "spec_version": "2.4"}


class Asgi:
    """An ASGI application below a mount point.

    With a `mount` such as `/py`, which becomes `root_path`, the application answers what comes after it, and a path elsewhere is answered
    with 404. As ASGI has it, `path` is the whole path in any case.
    """

    def __init__(self, application: Application, mount: str = "", *, encoded_slashes: bool = False) -> None:
        self._application = application
        self._encoded_slashes = encoded_slashes
        self._mount = mount
        #: The lifespan state, for every request.
        self.state: Dict[str, Any] = {}
        #: Encoded headers that applications have sent.
        self._pairs: Dict[Tuple[bytes, bytes], bytes] = {}
        #: `server` of the scope, by the `host` header.
        self._servers: Dict[bytes, Tuple[Tuple[str, int], Tuple[str, int]]] = {}

    async def __call__(self, job: AsyncJob) -> None:
        """Answers one job; returns when the application does, which may be after the response."""
        try:
            scope = self._scope(job)
        except HttpError as refused:
            await job.respond(*error_parts(refused, job.request_id))
            return
        path = scope["path"]
        mount = self._mount
        if mount and not (path.startswith(mount) and path[len(mount) : len(mount) + 1] in ("", "/")):
            error = HttpError(404, f"nothing answers {path}: the application is mounted at {mount}")
            await job.respond(*error_parts(error, job.request_id))
            return
        is_socket = scope["type"] == "websocket"
        channel = _SocketChannel(job, self._pairs) if is_socket else _Channel(job, scope["method"] == "HEAD", self._pairs)
        try:
            await self._application(scope, channel.receive, channel.send)
        except Exception:
            channel.failed()
            raise
        channel.returned()
        if job.state == DONE or job.gone:
            return
        missing = "an answer" if job.state == NEW else "the last part of its answer"
        raise RuntimeError(f"the ASGI application returned without {missing}")

    def _scope(self, job: AsyncJob) -> Scope:
        data = job.data
        at = job.at
        _, method, path, query, route, params, headers, peer, request_id = REQUEST_TABLE.unpack_from(data, at)
        at += REQUEST_TABLE.size
        verb = data[at : at + method].decode("latin-1")
        at += method
        raw = data[at : at + path]
        at += path
        search = data[at : at + query]
        at += query + route + params
        pairs = read_pairs(data, at, at + headers)
        at += headers
        host = b"localhost"
        upgrade = b""
        for name, value in pairs:
            if name == b"host":
                host = value
            elif name == b"upgrade":
                upgrade = value
        ip = data[at : at + peer].decode("latin-1")
        at += peer
        end = at + (request_id & ~HAS_IDENTITY)
        identity, _ = read_identity(data, end, request_id)
        scope: Scope = {
            "type": "http",
            "asgi": _VERSIONS,
            "http_version": "1.1",
            "method": verb,
            "scheme": "https" if job.secure else "http",
            "path": decoded_path(raw, self._encoded_slashes).decode("utf-8", "replace"),
            "raw_path": raw,
            "query_string": search,
            "root_path": self._mount,
            "headers": pairs,
            "client": (ip, 0) if ip else None,
            "server": (self._servers.get(host) or self._server(host))[job.secure],
            "state": self.state.copy(),
            "extensions": {
                "forebay": {"request_id": data[at:end].decode("latin-1")},
                **(_PATHSEND if job.owner.files else {}),
            },
        }
        if identity:
            scope["extensions"]["forebay"]["user"] = json.loads(identity)
        if upgrade.lower() == b"websocket":
            # The server has checked the rest of the handshake.
            del scope["method"]
            scope["extensions"].pop("http.response.pathsend", None)
            offered = b",".join([value for name, value in pairs if name == b"sec-websocket-protocol"]).decode("latin-1")
            scope.update(type="websocket", scheme="wss" if job.secure else "ws", subprotocols=[each.strip() for each in offered.split(",") if each.strip()])
            scope["extensions"]["websocket.http.response"] = {}
        return scope


    def _server(self, host: bytes) -> Tuple[Tuple[str, int], Tuple[str, int]]:
        """Server name and port, without TLS and with it, from the `host` header: the worker does not know its own address."""
        name, colon, port = host.decode("latin-1").rpartition(":")
        has_port = colon and port.isdecimal()
        known = ((name, int(port)),) * 2 if has_port else ((host.decode("latin-1"), 80), (host.decode("latin-1"), 443))
        if len(self._servers) >= SEEN_MAX:
            self._servers.clear()
        self._servers[host] = known
        return known


class _Channel:
    """The `receive` and `send` of one request."""

    __slots__ = ("_job", "_bare", "_pairs", "_status", "_headers", "_begun", "_received")

    def __init__(self, job: AsyncJob, bare: bool, pairs: Dict[Tuple[bytes, bytes], bytes]) -> None:
        self._job = job
        self._pairs = pairs
        #: Whether the response has no body, whatever the application sends.
        self._bare = bare
        self._status = 0
        self._headers = b""
        #: Whether the part of the body that came with the request was received, and whether all of it was.
        self._begun = False
        self._received = False

    def failed(self) -> None:
        """The application has raised; the response says so, or breaks off."""

    def returned(self) -> None:
        """The application has returned."""

    async def receive(self) -> Message:
        """The next part of the request body; after the last, `http.disconnect` as soon as the request has ended."""
        job = self._job
        if not self._received and job.state != DONE:
            if not self._begun:
                self._begun = True
                table = REQUEST_TABLE.unpack_from(job.data, job.at)
                end = job.at + REQUEST_TABLE.size + sum(table[1:-1]) + (table[-1] & ~HAS_IDENTITY)
                first = job.data[read_identity(job.data, end, table[-1])[1] : job.end]
                if job.whole:
                    self._received = True
                    return {"type": "http.request", "body": first, "more_body": False}
                if first:
                    return {"type": "http.request", "body": first, "more_body": True}
            try:
                part = await job.read_body_async()
            except RequestAborted:
                self._received = True
                return {"type": "http.disconnect"}
            self._received = part is None
            return {"type": "http.request", "body": part or b"", "more_body": not self._received}
        while not job.gone and job.state != DONE:
            await job.changed()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Sends a part of the response, at the client's pace. Raises `OSError` if the client has disconnected."""
        job = self._job
        kind = message["type"]
        if job.gone:
            raise RequestAborted(job.reason)
        if kind == "http.response.start":
            if self._status:
                raise RuntimeError("the ASGI application sent http.response.start a second time")
            self._status = _status(message["status"])
            pairs = self._pairs
            self._headers = bounded(b"".join([pairs.get((name, value)) or self._pair(name, value) for name, value in message.get("headers", ())]))
        elif kind == "http.response.body":
            if not self._status:
                raise RuntimeError("the ASGI application sent http.response.body before http.response.start")
            if job.state == DONE:
                raise RuntimeError("the ASGI application sent more after the last part of its answer")
            await self._body(message.get("body", b""), message.get("more_body", False))
        elif kind == "http.response.pathsend" and job.owner.files:
            if not self._status or job.state != NEW:
                raise RuntimeError("the ASGI application sent http.response.pathsend, which comes right after http.response.start")
            await self._file(message["path"])
        else:
            raise RuntimeError(f"the ASGI application sent {kind!r}, expected http.response.start or http.response.body")

    async def _file(self, path: str) -> None:
        if self._bare:
            await self._body(b"", False)
            return
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            await self._job.respond_file(self._status, self._headers, FilePart(file, 0, os.fstat(file).st_size))
        finally:
            os.close(file)

    def _pair(self, name: bytes, value: bytes) -> bytes:
        """A header as it is sent; short ones are kept, because applications repeat them."""
        name, value = bytes(name), bytes(value)
        pair = PAIR.pack(len(name), len(value)) + name.lower() + value
        if len(pair) <= PAIR_BYTES_MAX:
            if len(self._pairs) >= SEEN_MAX:
                self._pairs.clear()
            self._pairs[name, value] = pair
        return pair

    async def _body(self, body: bytes, more: bool) -> None:
        job = self._job
        if job.state == NEW:
            if not more and not self._bare:
                await job.respond(self._status, KIND_NONE, self._headers, bytes(body))
                return
            if not self._bare and EVENT_STREAM in self._headers:
                job.begin_detached(self._status, KIND_NONE, self._headers)
            else:
                job.begin(self._status, KIND_NONE, self._headers)
        if body and not self._bare:
            await job.send(bytes(body))
        if not more:
            job.finish()


class _SocketChannel(_Channel):
    """The `receive` and `send` of one WebSocket."""

    __slots__ = ("_connection", "_is_connected")

    def __init__(self, job: AsyncJob, pairs: Dict[Tuple[bytes, bytes], bytes]) -> None:
        super().__init__(job, False, pairs)
        self._connection: Optional[Connection] = None
        #: Whether the application has been told that somebody wants to connect.
        self._is_connected = False

    def failed(self) -> None:
        if self._connection is not None:
            self._connection.close(INTERNAL_ERROR, "the application failed")

    def returned(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def receive(self) -> Message:
        """`websocket.connect`, then the client's messages, then `websocket.disconnect`."""
        if not self._is_connected:
            self._is_connected = True
            return {"type": "websocket.connect"}
        job = self._job
        while self._connection is None:
            if job.gone or job.state == DONE:
                return {"type": "websocket.disconnect", "code": 1006, "reason": ""}
            await job.changed()
        message = await self._connection.receive()
        if isinstance(message, Closed):
            return {"type": "websocket.disconnect", "code": message.code, "reason": message.reason}
        if isinstance(message, str):
            return {"type": "websocket.receive", "text": message}
        return {"type": "websocket.receive", "bytes": message}

    async def send(self, message: Message) -> None:
        """Accepts the connection or refuses it, sends messages at the client's pace, closes. Raises `OSError` if the connection has ended."""
        kind = message["type"]
        connection = self._connection
        if connection is None:
            await self._answer(kind, message)
        elif kind == "websocket.send":
            text = message.get("text")
            await connection.send(message.get("bytes") or b"" if text is None else text)
        elif kind == "websocket.close":
            if connection.closed is not None:
                raise RequestAborted(f"the WebSocket is closed ({connection.closed.code})")
            connection.close(message.get("code", 1000), message.get("reason") or "")
        else:
            raise RuntimeError(f"the ASGI application sent {kind!r}, expected websocket.send or websocket.close")

    async def _answer(self, kind: str, message: Message) -> None:
        """Accepts or refuses."""
        job = self._job
        if job.gone or job.state == DONE:
            raise RequestAborted(job.reason if job.gone else "the WebSocket was refused")
        if kind == "websocket.accept":
            headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            protocol = message.get("subprotocol")
            if protocol:
                headers.append((b"sec-websocket-protocol", protocol.encode("latin-1")))
            self._connection = Connection(job, bounded(b"".join([self._pair(name, value) for name, value in headers])))
            job.wake()
        elif kind == "websocket.close":
            await job.respond(403, KIND_NONE, b"", b"")
        elif kind.startswith("websocket.http.response."):
            await super().send({**message, "type": kind[len("websocket.") :]})
        else:
            raise RuntimeError(f"the ASGI application sent {kind!r}, expected websocket.accept, websocket.close or websocket.http.response.start")


def _status(status: int) -> int:
    if not 200 <= status <= 599:
        raise ValueError(f"the status of an answer is 200 to 599, not {status}")
    return int(status)



class LifespanFailed(Exception):
    """The application reported that it cannot start."""


class Lifespan:
    """Startup and shutdown of an ASGI application. Applications without support for the lifespan protocol are left alone."""

    def __init__(self, application: Application, state: Dict[str, Any]) -> None:
        self._application = application
        self._state = state
        self._orders: "asyncio.Queue[Message]" = asyncio.Queue()
        self._answers: "asyncio.Queue[Message]" = asyncio.Queue()
        self._task: Optional["asyncio.Task[None]"] = None
        #: Progress of the application: it has asked for an event, it has started, it has reported an outcome.
        self._has_asked = False
        self._has_begun = False
        self._has_said = False
        #: It raised after it had started.
        self._broke = False

    async def start(self) -> None:
        """Raises `LifespanFailed` if the application reports a failure."""
        scope = {"type": "lifespan", "asgi": _VERSIONS, "state": self._state}
        self._task = asyncio.get_running_loop().create_task(self._lead(scope))
        answer = await self._ask("startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            await self._task
            raise LifespanFailed(answer.get("message") or "the lifespan of the ASGI application failed to start")

    async def stop(self) -> bool:
        """Whether the application has shut down without an error; an error is logged."""
        if self._task is None:
            return True
        if not self._task.done():
            answer = await self._ask("shutdown")
            await self._task
            if answer is not None and answer["type"] != "lifespan.shutdown.complete":
                report(f"the lifespan of the ASGI application failed to end: {answer.get('message') or answer['type']}")
                return False
        return not self._broke

    async def _lead(self, scope: Scope) -> None:
        try:
            await self._application(scope, self._receive, self._send)
        except Exception as error:
            if self._has_said:
                return
            if self._has_begun:
                self._broke = True
                report("the lifespan of the ASGI application failed", error)
            elif self._has_asked:
                report(f"the lifespan of the ASGI application raised {type(error).__name__}: {error}; it is served without one")
            # An application that raises before it asks for an event does not support the lifespan protocol.

    async def _receive(self) -> Message:
        self._has_asked = True
        return await self._orders.get()

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        self._has_begun |= kind == "lifespan.startup.complete"
        self._has_said |= kind.endswith(".failed")
        self._answers.put_nowait(message)

    async def _ask(self, what: str) -> Optional[Message]:
        """Sends an event and returns the application's answer; None if it ended instead."""
        assert self._task is not None, "it was started"
        self._orders.put_nowait({"type": f"lifespan.{what}"})
        answer = asyncio.ensure_future(self._answers.get())
        await asyncio.wait((answer, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() and not self._answers.empty():
            await asyncio.wait((answer,))
        if answer.done():
            return answer.result()
        answer.cancel()
        return None
