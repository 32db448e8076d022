"""Runs the handlers of an `App`."""

from __future__ import annotations

from typing import Any, AsyncIterator

from .._app import App
from .._context import Context, WorkerContext
from .._reply import HttpError, Reply, to_piece, to_reply
from .._request import AsyncRequest, Request
from .._websocket import Upgrade, WebSocket
from .._wire import header_block
from .answer import answer, error_parts, send_error, stream
from .event_loop import AsyncJob, ThreadRunner
from .job import EVENT_STREAM, NEW, Exchange, bounded
from .socket import INTERNAL_ERROR, Connection


class Handlers:
    """Calls the handler of an app for a job, and sends its reply."""

    def __init__(self, app: App, context: WorkerContext) -> None:
        self._route = app._route
        self._context = context

    def __call__(self, exchange: Exchange) -> None:
        job = exchange.job
        request = Request(job.data, job.at, job.end, None if job.whole else exchange, job.secure)
        try:
            answer(exchange, self._route(request).call(request, Context(self._context, exchange)))
        except HttpError as error:
            if job.state != NEW:
                raise
            send_error(exchange, error)


class AsyncHandlers:
    """Like `Handlers`, on an event loop: `async def` handlers run as tasks, others in threads."""

    def __init__(self, app: App, context: WorkerContext, threads: int) -> None:
        self._route = app._route
        self._context = context
        self._blocking = ThreadRunner(Handlers(app, context), threads)

    async def __call__(self, job: AsyncJob) -> None:
        request = AsyncRequest(job.data, job.at, job.end, None if job.whole else job, job.secure)
        try:
            target = self._route(request)
            if not target.is_async:
                await self._blocking(job)
                return
            value = target.call(request, Context(self._context, job))
            # An asynchronous generator is not awaited: it is the body.
            value = value if hasattr(value, "__aiter__") else await value
            if isinstance(value, Upgrade):
                await self._connect(job, request, value)
            else:
                await self._answer(job, value)
        except HttpError as error:
            if job.state != NEW:
                raise
            await job.respond(*error_parts(error, job.request_id))

    async def _connect(self, job: AsyncJob, request: AsyncRequest, upgrade: Upgrade) -> None:
        """Runs a WebSocket to its end."""
        socket = WebSocket(request, lambda headers: Connection(job, bounded(headers)))
        try:
            await upgrade.run(socket)
        except Exception:
            if job.socket is not None:
                job.socket.close(INTERNAL_ERROR, "the handler failed")
            raise
        socket.close()

    async def _answer(self, job: AsyncJob, value: Any) -> None:
        reply = to_reply(value)
        if isinstance(reply.body, bytes):
            await self._send(job, reply)
        elif hasattr(reply.body, "__aiter__"):
            await self._stream(job, reply)
        else:
            # An iterator may block between pieces, so it runs in a thread.
            await self._blocking.run(job, lambda exchange: stream(exchange, reply))

    async def _send(self, job: AsyncJob, reply: Reply) -> None:
        assert isinstance(reply.body, bytes), "the body is there"
        await job.respond(reply.status, reply.kind, header_block(reply.headers), reply.body)

    async def _stream(self, job: AsyncJob, reply: Reply) -> None:
        pieces: AsyncIterator[Any] = reply.body.__aiter__()  # type: ignore[union-attr]
        try:
            if job.is_head:
                job.begin(reply.status, reply.kind, header_block(reply.headers))
                job.finish()
                return
            begun = False
            async for piece in pieces:
                # Runs a generator up to its first piece, so that it can still fail with a status.
                if not begun:
                    headers = header_block(reply.headers)
                    if EVENT_STREAM in headers:
                        job.begin_detached(reply.status, reply.kind, headers)
                    else:
                        job.begin(reply.status, reply.kind, headers)
                    begun = True
                await job.send(to_piece(piece))
            if not begun:
                job.begin(reply.status, reply.kind, header_block(reply.headers))
            job.finish()
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
