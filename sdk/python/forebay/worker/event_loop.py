"""Runs jobs on an event loop, for asynchronous applications and for blocking ones that run in several threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import socket
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Awaitable, Callable, Coroutine, Deque, Dict, List, Optional, Protocol, Set, cast

from .. import _store
from .._calls import JOB, Calls
from .._context import Log
from .._wire import CLOSE, DETACHED, DETACHED_SLOT, DRAIN, FRAME_PAYLOAD_MAX, HEADER, HEADER_BYTES, MESSAGE, PUBLISH, REQUEST, RETURN, frame
from .answer import fail
from .claims import Page
from .job import BEGUN, BODY_FRAME_MAX, CLIENT_GONE, DONE, SERVER_ENDS, Exchange, FilePart, Job, Owner, RequestAborted, sized
from .report import log_to, report

#: Seconds for which finished responses are collected at most, so that one write carries several.
COLLECT_SECONDS = 0.000_2
#: Seconds for which tasks of WebSockets and event streams may go on after these have ended because the worker ends.
LAST_SECONDS = 1.0
#: Codes of WebSockets (RFC 6455, 7.4.1): the client has left without a word; the server restarts.
ABNORMAL, SERVICE_RESTART = 1006, 1012
#: Log lines are dropped, and counted, while this many bytes wait to be sent.
LOG_BACKLOG_MAX = 1_048_576


class SocketFrames(Protocol):
    """The WebSocket of a job, as frames reach it."""

    def take(self, kind: int, flags: int, payload: bytes) -> None:
        """Handles a MESSAGE or CLOSE frame."""

    def end(self, code: int, reason: str) -> None:
        """The connection is over."""

    def close(self, code: int, reason: str) -> None:
        """Closes the connection."""


class AsyncJob(Job):
    """A job on the event loop. While it waits, it awaits a future."""

    __slots__ = ("task", "socket", "is_detached", "_changed")
    owner: "AsyncEngine"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.task: Optional["asyncio.Task[None]"] = None
        #: The WebSocket that was accepted.
        self.socket: Optional[SocketFrames] = None
        #: Whether it has left its slot.
        self.is_detached = False
        self._changed: Optional["asyncio.Future[None]"] = None

    def take(self, kind: int, flags: int, data: bytes, at: int, end: int) -> None:
        if self.socket is not None and kind in (MESSAGE, CLOSE):
            self.socket.take(kind, flags, data[at:end])
            self.wake()
            return
        super().take(kind, flags, data, at, end)
        if self.gone and self.socket is not None:
            self.socket.end(SERVICE_RESTART if self.gone == SERVER_ENDS else ABNORMAL, "")
        self.wake()
        if self.socket is not None:
            return
        # A handler that is still computing may finish after its client has disconnected; one whose response is being sent is cancelled.
        if self.gone and (self.gone != CLIENT_GONE or self.state == BEGUN) and self.task is not None:
            self.task.cancel()

    def wake(self) -> None:
        """Call it when the state of the job has changed."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def changed(self) -> None:
        """Waits until a frame for this job arrives, or its response has been sent."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    def begin_detached(self, status: int, kind: int, headers: bytes) -> None:
        """Like `begin`, for a response that may last: the job leaves its slot."""
        self.begin(status, kind, headers, DETACHED)
        self.owner.detach(self)

    def write_frame(self, kind: int, flags: int, payload: bytes) -> None:
        """Sends a frame about this job."""
        self.owner.write(frame(kind, flags, self.owner.generation, self.number, self.slot, payload))

    def conclude(self) -> None:
        """The job is over without a frame of its own."""
        if self.state != DONE:
            self.state = DONE
            self.owner.over(self)

    async def respond(self, status: int, kind: int, headers: bytes, body: bytes, flags: int = 0) -> None:
        """Sends a complete response of any length and ends the job."""
        if not self.respond_whole(status, kind, headers, body, flags):
            self.begin(status, kind, sized(headers, body))
            await self.send(body)
            self.finish()

    async def respond_file(self, status: int, headers: bytes, part: FilePart) -> None:
        """Sends a response whose body is a part of a file, and ends the job. Only if the owner has `files`."""
        whole = self.file_response(status, headers, part)
        await self.owner.room()
        while not self.owner.write_with_file(whole, part.descriptor):
            # The link is full: once it has taken something else, it may have room for a descriptor, too.
            self._grant(0)
            await self.owner.room()
        self.state = DONE
        self.owner.over(self)

    async def send(self, piece: bytes) -> None:
        """Sends a piece of the body at the client's pace. Raises `RequestAborted` if the request was aborted."""
        at = self.cut(piece, 0)
        while True:
            await self.owner.room()
            if at == len(piece):
                return
            while self.window == 0 and not self.gone:
                await self.changed()
            at = self.cut(piece, at)

    async def read_body_async(self) -> Optional[bytes]:
        while True:
            part = self.next_part()
            if part is not None:
                return part or None
            await self.changed()


class ThreadExchange(Exchange):
    """A job on the event loop as seen from a thread: the thread blocks while the loop does the work."""

    __slots__ = ("_job", "_loop", "_lock", "_pieces", "_pieces_bytes", "_sending")

    def __init__(self, job: AsyncJob, loop: asyncio.AbstractEventLoop) -> None:
        self._job = job
        self._loop = loop
        self._lock = threading.Lock()
        #: Pieces of the response that the loop has not taken yet. Guarded by `_lock`.
        self._pieces: List[bytes] = []
        self._pieces_bytes = 0
        #: The loop's work on these pieces; None while there are none.
        self._sending: "Optional[concurrent.futures.Future[None]]" = None

    @property
    def job(self) -> Job:
        return self._job

    @property
    def log(self) -> Log:
        return self._job.log

    @property
    def due(self) -> Optional[float]:
        return self._job.due

    @property
    def aborted(self) -> bool:
        return self._job.aborted

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def respond(self, status: int, kind: int, headers: bytes, body: bytes, flags: int = 0) -> None:
        self._do(self._job.respond(status, kind, headers, body, flags))

    def respond_file(self, status: int, headers: bytes, part: FilePart) -> None:
        self._do(self._job.respond_file(status, headers, part))

    def begin(self, status: int, kind: int, headers: bytes) -> None:
        self._do(_called(self._job.begin, status, kind, headers))

    def send(self, piece: bytes) -> None:
        with self._lock:
            # The application may change a buffer that it has given.
            self._pieces.append(bytes(piece))
            self._pieces_bytes += len(piece)
            is_full = self._pieces_bytes > BODY_FRAME_MAX
            sending = self._sending
            if sending is None:
                sending = self._sending = asyncio.run_coroutine_threadsafe(self._send_pieces(), self._loop)
        if is_full or sending.done():
            sending.result()

    async def _send_pieces(self) -> None:
        """Sends the pieces, and those that the thread adds meanwhile."""
        while True:
            with self._lock:
                pieces, self._pieces, self._pieces_bytes = self._pieces, [], 0
                if not pieces:
                    self._sending = None
                    return
            await self._job.send(b"".join(pieces))

    def _wait_for_pieces(self) -> None:
        """Returns when all pieces are sent. Raises what prevented that."""
        sending = self._sending
        if sending is not None:
            sending.result()

    def finish(self) -> None:
        self._wait_for_pieces()
        self._do(_called(self._job.finish))

    def reset(self) -> None:
        # What the application gave before it failed is sent, as far as anybody takes it.
        with suppress(RequestAborted):
            self._wait_for_pieces()
        self._do(_called(self._job.reset))

    def read_body(self) -> Optional[bytes]:
        part: Optional[bytes] = self._do(self._job.read_body_async())
        return part


async def _called(function: Callable[..., None], *arguments: Any) -> None:
    function(*arguments)


class AsyncEngine(asyncio.Protocol, Owner):
    """The link and the running jobs."""

    def __init__(
        self, generation: int, window_bytes: int, files: bool, concurrency: int, page: Optional[Page], calls: Optional[Calls]
    ) -> None:
        self.generation = generation
        self.window_bytes = window_bytes
        self.files = files
        self._concurrency = concurrency
        self._page = page
        self._calls = calls
        #: Requests that have arrived and are not claimed yet.
        self._inbox: Deque[AsyncJob] = deque()
        self._loop = asyncio.get_running_loop()
        self._transport: Optional[asyncio.Transport] = None
        self._link: Optional[socket.socket] = None
        self._handle: Optional[Callable[[AsyncJob], Awaitable[None]]] = None
        self._jobs: Dict[int, AsyncJob] = {}
        #: Jobs that have left their slots, by number.
        self._detached: Dict[int, AsyncJob] = {}
        #: Running tasks, including those that continue after their response.
        self._tasks: Set["asyncio.Task[None]"] = set()
        #: The tasks of jobs that have left their slots.
        self._lasting: Set["asyncio.Task[None]"] = set()
        self._partial = b""
        #: Finished responses that are not written yet.
        self._responses: List[bytes] = []
        #: When the first of them was finished, on the clock of `time.monotonic`.
        self._responses_since = 0.0
        self._paused: Optional["asyncio.Future[None]"] = None
        self._dropped_logs = 0
        self._draining = False
        #: Set when the worker has nothing left to do; False if the server is gone.
        self._over: "asyncio.Future[bool]" = self._loop.create_future()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the worker."""
        return self._loop

    async def open(self, link: socket.socket) -> None:
        """Attaches the link to the loop."""
        if self._calls is not None:
            self._calls.on_loop(self)
        link.setblocking(False)
        self._link = link
        await self._loop.create_unix_connection(lambda: self, sock=link)
        self._loop.add_signal_handler(signal.SIGTERM, self.drain)

    async def serve(self, handle: Callable[[AsyncJob], Awaitable[None]]) -> bool:
        """Runs jobs until the server drains this worker; False if the server closes the link."""
        self._handle = handle
        self._end_if_done()
        is_drained = await self._over
        if is_drained:
            await self._end_detached()
        return is_drained

    async def _end_detached(self) -> None:
        """Ends event streams and WebSockets: their clients connect again, to another worker."""
        for job in list(self._detached.values()):
            if job.socket is not None:
                job.socket.close(SERVICE_RESTART, "the worker ends")
            else:
                job.gone = SERVER_ENDS
                if job.state == BEGUN:
                    job.finish()
                if job.task is not None:
                    job.task.cancel()
        if self._lasting:
            await asyncio.wait(self._lasting, timeout=LAST_SECONDS)

    def drain(self) -> None:
        """Finishes claimed jobs, including work that continues after their response, and ends."""
        self._draining = True
        if self._page is not None:
            # The server gives unclaimed jobs to other workers.
            self._inbox.clear()
        self._pump()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._draining and self._handle is not None and not self._tasks and not self._over.done():
            self._over.set_result(True)

    async def close(self) -> None:
        """Sends buffered data and closes the link."""
        assert self._transport is not None, "it was opened"
        self._write_responses()
        await self.room()
        self._transport.close()

    # Receiving frames.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is of no class of asyncio.
        transport = cast(asyncio.Transport, transport)
        # Writing pauses as soon as anything waits in this process: then no further job is claimed, and no data accumulates.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport

    def connection_lost(self, error: Optional[Exception]) -> None:
        if not self._over.done():
            self._over.set_result(False)

    def data_received(self, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
        at, size = 0, len(data)
        while size - at >= HEADER_BYTES:
            length, kind, flags, generation, number, slot = HEADER.unpack_from(data, at)
            start = at + HEADER_BYTES
            if start + length > size:
                if length > FRAME_PAYLOAD_MAX:
                    report(f"the server sent a frame of {length} bytes (at most {FRAME_PAYLOAD_MAX})")
                    self.connection_lost(None)
                    return
                break
            at = start + length
            if generation != self.generation:
                continue
            if kind == REQUEST:
                if self._page is None or not self._draining:
                    self._inbox.append(AsyncJob(self, data, start, at, flags, number, slot))
            elif kind == DRAIN:
                self.drain()
            elif kind == RETURN:
                if self._calls is not None:
                    self._calls.handle_return(flags, data, start, at)
            else:
                job = self._jobs.get(slot)
                # The server may not know yet that a job has left its slot.
                if job is None or job.number != number:
                    job = self._detached.get(number)
                if job is not None:
                    job.take(kind, flags, data, start, at)
        self._partial = data[at:]
        self._pump()

    def pause_writing(self) -> None:
        self._paused = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._paused is not None:
            self._paused.set_result(None)
            self._paused = None
        self._pump()
        if self._dropped_logs:
            dropped, self._dropped_logs = self._dropped_logs, 0
            self.log_of(None).warning(f"{dropped} log lines were dropped: the server took them too slowly")

    async def room(self) -> None:
        """Waits until the write buffer of the link is empty."""
        while self._paused is not None:
            await asyncio.shield(self._paused)

    # Running jobs.

    def _pump(self) -> None:
        """Starts waiting requests while there is room. The rest stays unclaimed, so that the server may give it to another worker; without a page, the
        server counts every job that it has sent as started."""
        page, inbox = self._page, self._inbox
        if page is None:
            while inbox:
                self._run(inbox.popleft())
            return
        # No job is claimed while a finished response is only in this process.
        self._write_responses()
        while inbox and self._paused is None:
            room = self._concurrency - len(self._jobs)
            if room <= 0:
                return
            for job in page.claim_all([inbox.popleft() for _ in range(min(room, len(inbox)))]):
                self._run(job)

    def _run(self, job: AsyncJob) -> None:
        job.started = time.monotonic()
        self._jobs[job.slot] = job
        job.task = self._loop.create_task(self._lead(job))
        self._tasks.add(job.task)
        job.task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._lasting.discard(task)
        self._end_if_done()

    async def _lead(self, job: AsyncJob) -> None:
        assert self._handle is not None, "requests come when the worker is ready"
        if self._responses and time.monotonic() - self._responses_since > COLLECT_SECONDS:
            self._write_responses()
        # The task has its own context, which the tasks that it starts inherit.
        JOB.set((job.slot, job.number))
        try:
            await self._handle(job)
        except asyncio.CancelledError:
            if not job.gone:
                raise
        except Exception as error:
            fail(ImmediateExchange(job), error)
        finally:
            if job.state != DONE and job.is_detached and job.gone:
                # The server has forgotten it.
                job.conclude()
            elif job.state != DONE:
                job.reset()

    # The interface for jobs.

    def write(self, data: bytes) -> None:
        assert self._transport is not None, "it was opened"
        if self._responses:
            self._responses.append(data)
            self._write_responses()
        else:
            self._transport.write(data)

    def write_response(self, data: bytes) -> None:
        now = time.monotonic()
        if not self._responses:
            self._responses_since = now
            self._loop.call_soon(self._write_responses)
        self._responses.append(data)
        if now - self._responses_since > COLLECT_SECONDS:
            self._write_responses()

    def _write_responses(self) -> None:
        if self._responses:
            assert self._transport is not None, "it was opened"
            responses, self._responses = self._responses, []
            self._transport.write(b"".join(responses))

    def write_with_file(self, data: bytes, descriptor: int) -> bool:
        """Sends a frame with the descriptor that it needs, if the link has room."""
        self._write_responses()
        if self._paused is not None:
            return False
        assert self._link is not None, "it was opened"
        try:
            # The descriptor goes with the first byte.
            sent = socket.send_fds(self._link, [data], [descriptor])
        except BlockingIOError:
            return False
        if sent < len(data):
            self.write(data[sent:])
        return True

    def over(self, job: Job) -> None:
        assert isinstance(job, AsyncJob), "the engine makes its own jobs"
        if self._jobs.get(job.slot) is job:
            del self._jobs[job.slot]
        elif job.is_detached:
            self._detached.pop(job.number, None)
        job.wake()
        if self._inbox:
            self._pump()

    def detach(self, job: AsyncJob) -> None:
        """Frees the slot of a job whose response may last: it no longer counts, and is not waited for when the worker ends."""
        self._jobs.pop(job.slot, None)
        job.slot = DETACHED_SLOT
        job.is_detached = True
        self._detached[job.number] = job
        if job.task is not None:
            self._tasks.discard(job.task)
            self._lasting.add(job.task)
        if self._inbox:
            self._pump()
        self._end_if_done()

    def publish(self, flags: int, payload: bytes) -> None:
        """Sends a message to all in a room. May be called from any thread."""
        message = frame(PUBLISH, flags, self.generation, 0, 0, payload)
        if _running_loop() is self._loop:
            self.write(message)
        else:
            self._loop.call_soon_threadsafe(self.write, message)

    def log_of(self, job: Optional[Job]) -> Log:
        return log_to(self._log, self.generation, job)

    def _log(self, line: bytes) -> None:
        # May be called from any thread, but transports belong to the loop.
        self._loop.call_soon_threadsafe(self._log_here, line)

    def _log_here(self, line: bytes) -> None:
        assert self._transport is not None, "it was opened"
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > LOG_BACKLOG_MAX:
            self._dropped_logs += 1
        else:
            self._transport.write(line)


def _running_loop() -> Optional[asyncio.AbstractEventLoop]:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class ImmediateExchange(Exchange):
    """A job whose response is short enough to be sent at once."""

    __slots__ = ("_job",)

    def __init__(self, job: AsyncJob) -> None:
        self._job = job

    @property
    def job(self) -> Job:
        return self._job

    def respond(self, status: int, kind: int, headers: bytes, body: bytes, flags: int = 0) -> None:
        sent = self._job.respond_whole(status, kind, headers, body, flags)
        assert sent, "an error is shorter than a frame"

    def reset(self) -> None:
        self._job.reset()


class ThreadRunner:
    """Runs a blocking application in threads, as many at a time as the pool's concurrency."""

    def __init__(self, handle: Callable[[Exchange], None], threads: int) -> None:
        self._handle = handle
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="forebay")

    async def __call__(self, job: AsyncJob) -> None:
        """Answers one job."""
        await self.run(job, self._handle)

    async def run(self, job: AsyncJob, handle: Callable[[Exchange], None]) -> None:
        """Runs a function with a job in a thread."""
        loop = asyncio.get_running_loop()
        # A thread cannot be cancelled: the job ends when the thread returns.
        work = loop.run_in_executor(self._threads, self._guarded, handle, ThreadExchange(job, loop))
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                if not job.gone:
                    raise

    @staticmethod
    def _guarded(handle: Callable[[Exchange], None], exchange: Exchange) -> None:
        job = exchange.job
        JOB.set((job.slot, job.number))
        try:
            handle(exchange)
        except Exception as error:
            fail(exchange, error)
        finally:
            if _store.end_job():
                report(f"{job.label} has left a transaction of the store open: it was rolled back")
            JOB.set((0, 0))
