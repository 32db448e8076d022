"""Calls from a worker to the server (protocol/PROTOCOL.md, section 9), on which `forebay.sql` is built."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import threading
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Callable, Deque, Dict, List, Optional, Protocol, Tuple, Union

from ._wire import CALL, END, FRAME_PAYLOAD_MAX, HEADER, HEADER_BYTES, RETURN, U32, frame

#: Slot and number of the current job; zeros outside of jobs.
JOB: "ContextVar[Tuple[int, int]]" = ContextVar("forebay_job", default=(0, 0))

#: Bytes of a call per frame.
PIECE_BYTES = FRAME_PAYLOAD_MAX - U32.size
#: Size of a read from the call socket.
READ_BYTES = 65_536


class Loop(Protocol):
    """The event loop that serves the worker's link, and a way to send frames over it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def write(self, data: bytes) -> None:
        """Sends frames; called on the loop."""


class Calls:
    """The calls of this worker."""

    def __init__(self, pool: str, databases: List[str], generation: int, link: "CallSocket") -> None:
        self._pool = pool
        self._databases = databases
        self._generation = generation
        self._socket = link
        #: Needs no lock: the garbage collector may start a call in the middle of another one.
        self._numbers = itertools.count()
        #: Held while the call socket is in use.
        self._lock = threading.Lock()
        #: Calls whose answers are not awaited; sent by the next user of the call socket, before its own call.
        self._deferred: "Deque[Tuple[int, bytes]]" = deque()
        self._engine: Optional[Loop] = None
        #: Runs a function that signals must not interrupt.
        self._uninterrupted: Callable[..., Any] = lambda work, *given: work(*given)
        #: Calls over the link without a complete answer.
        self._open: Dict[int, "Tuple[asyncio.Future[str], List[bytes]]"] = {}
        #: Frames written in this turn of the loop, sent together.
        self._outgoing: List[bytes] = []

    def on_loop(self, engine: Loop) -> None:
        """Sends calls over the link from now on, because jobs run on an event loop."""
        self._engine = engine

    def on_thread(self, uninterrupted: Callable[..., Any]) -> None:
        """Sets the wrapper for calls that signals must not interrupt, because jobs run on the main thread."""
        self._uninterrupted = uninterrupted

    def check(self, database: str) -> Optional[str]:
        """Why the pool may not access a database; None if it may."""
        if database in self._databases:
            return None
        return f"pool `{self._pool}` may not reach database `{database}`: its `sql` names {', '.join(self._databases)}"

    def call(self, operation: object) -> Any:
        """Makes a call and blocks until its outcome arrives."""
        engine = self._engine
        number, frames = self._frames(operation, JOB.get())
        if engine is None or engine.loop is _running_loop():
            text = self._exchange(number, frames)
        else:
            # Each of the other threads may wait for a call of its own at the same time.
            text = asyncio.run_coroutine_threadsafe(self._ask_from_thread(number, frames), engine.loop).result()
        return json.loads(text)

    async def acall(self, operation: object) -> Any:
        """Like `call`, for coroutines."""
        answer = self.begin(operation)
        if self._engine is None or self._engine.loop is not answer.get_loop():
            # A call that waits for a thread is made even if its caller is cancelled.
            answer = asyncio.shield(answer)
        return json.loads(await answer)

    def begin(self, operation: object) -> "asyncio.Future[str]":
        """Starts a call; the future resolves to the outcome as JSON text. For coroutines that may hand over the future when they are cancelled."""
        engine = self._engine
        number, frames = self._frames(operation, JOB.get())
        loop = asyncio.get_running_loop()
        if engine is not None and engine.loop is loop:
            return self._ask(number, frames)
        return loop.run_in_executor(None, self._exchange, number, frames)

    def close(self, operation: object, job: Tuple[int, int]) -> None:
        """Closes something that `call` opened, without waiting for the outcome. May be called at any point, even inside another call: the garbage
        collector closes generators that a loop abandoned."""
        engine = self._engine
        number, frames = self._frames(operation, job)
        if engine is None or engine.loop is _running_loop():
            self._defer(number, frames)
        else:
            # The loop is closed when the worker ends, and then the server ends everything that is open.
            with suppress(RuntimeError):
                engine.loop.call_soon_threadsafe(self._send, frames)

    def aclose(self, operation: object, job: Tuple[int, int]) -> None:
        """Like `close`, for something that coroutines opened. Takes effect before any later call of these coroutines."""
        engine = self._engine
        number, frames = self._frames(operation, job)
        if engine is not None and engine.loop is _running_loop():
            self._send(frames)
        else:
            self._defer(number, frames)

    # Calls over the call socket.

    def _exchange(self, number: int, frames: bytes) -> str:
        try:
            with self._lock:
                text: str = self._uninterrupted(self._exchange_in_turn, number, frames)
                return text
        finally:
            self._send_deferred()

    def _exchange_in_turn(self, number: int, frames: bytes) -> str:
        while self._deferred:
            self._socket.exchange(*self._deferred.popleft())
        return self._socket.exchange(number, frames)

    def _defer(self, number: int, frames: bytes) -> None:
        self._deferred.append((number, frames))
        self._send_deferred()

    def _send_deferred(self) -> None:
        """Sends deferred calls, unless the call socket is in use: its user then sends them afterwards. That user may be this very thread."""
        while self._deferred:
            if not self._uninterrupted(self._exchange_if_free):
                return

    def _exchange_if_free(self) -> bool:
        if not self._lock.acquire(blocking=False):
            return False
        try:
            while self._deferred:
                self._socket.exchange(*self._deferred.popleft())
        finally:
            self._lock.release()
        return True

    # Calls over the link.

    async def _ask_from_thread(self, number: int, frames: bytes) -> str:
        return await self._ask(number, frames)

    def _ask(self, number: int, frames: bytes) -> "asyncio.Future[str]":
        assert self._engine is not None, "only called on a loop"
        answer: "asyncio.Future[str]" = self._engine.loop.create_future()
        self._open[number] = (answer, [])
        self._send(frames)
        return answer

    def _send(self, frames: bytes) -> None:
        assert self._engine is not None, "only called on a loop"
        if not self._outgoing:
            self._engine.loop.call_soon(self._flush)
        self._outgoing.append(frames)

    def _flush(self) -> None:
        assert self._engine is not None, "there are frames for it"
        frames, self._outgoing = self._outgoing, []
        self._engine.write(b"".join(frames))

    def handle_return(self, flags: int, data: bytes, at: int, end: int) -> None:
        """Handles a RETURN frame that arrived over the link."""
        number = U32.unpack_from(data, at)[0]
        known = self._open.get(number)
        if known is None:
            return
        answer, parts = known
        parts.append(data[at + U32.size : end])
        if flags & END:
            del self._open[number]
            # The caller may have been cancelled.
            if not answer.done():
                answer.set_result(b"".join(parts).decode())

    def _frames(self, operation: object, of: Tuple[int, int]) -> Tuple[int, bytes]:
        """Builds a call of a job; returns its number and its frames."""
        number = next(self._numbers) % 0xFFFF_FFFF + 1
        slot, job = of
        body = json.dumps(operation, ensure_ascii=False, separators=(",", ":")).encode()
        frames = []
        for at in range(0, max(len(body), 1), PIECE_BYTES):
            flags = END if at + PIECE_BYTES >= len(body) else 0
            piece = U32.pack(number) + body[at : at + PIECE_BYTES]
            frames.append(frame(CALL, flags, self._generation, job, slot, piece))
        return number, b"".join(frames)


class CallSocket:
    """The second socket between a worker and the server, for calls that block the calling thread."""

    def __init__(self, descriptor: int, generation: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._generation = generation
        #: Bytes read but not processed yet.
        self._data = b""

    def close(self) -> None:
        """Closes the socket in this process."""
        self._socket.close()

    def exchange(self, number: int, frames: bytes) -> str:
        """Sends the frames of a call and returns its answer."""
        self._socket.sendall(frames)
        parts = []
        while True:
            kind, flags, generation, payload = self._next()
            # The answer to an earlier call that was interrupted.
            if kind != RETURN or generation != self._generation or U32.unpack_from(payload)[0] != number:
                continue
            parts.append(payload[U32.size :])
            if flags & END:
                return b"".join(parts).decode()

    def _next(self) -> Tuple[int, int, int, bytes]:
        while len(self._data) < HEADER_BYTES:
            self._data += self._read(READ_BYTES)
        length, kind, flags, generation, _, _ = HEADER.unpack_from(self._data)
        end = HEADER_BYTES + length
        if len(self._data) < end:
            parts = [self._data]
            size = len(self._data)
            while size < end:
                part = self._read(max(READ_BYTES, end - size))
                parts.append(part)
                size += len(part)
            self._data = b"".join(parts)
        payload = self._data[HEADER_BYTES:end]
        self._data = self._data[end:]
        return kind, flags, generation, payload

    def _read(self, size: int) -> bytes:
        data = self._socket.recv(size)
        if not data:
            raise ConnectionError("the server has closed this worker's call socket")
        return data


#: The call interface of this worker, or the reason why it has none.
_calls_or_reason: Union[Calls, str] = (
    "databases are reached by handlers that a Forebay server runs in a pool (`[pool.NAME]`). This is no such handler"
)


def url_of(database: str) -> Optional[str]:
    """The URL for the worker's own connection to a database; None unless the configuration allows one."""
    url: Optional[str] = json.loads(os.environ.get("FOREBAY_SQL_DIRECT", "{}")).get(database)
    return url


def calls() -> Calls:
    """The call interface of this worker. Raises `RuntimeError` if it has none."""
    if isinstance(_calls_or_reason, str):
        raise RuntimeError(_calls_or_reason)
    return _calls_or_reason


def open_calls(pool: str, generation: int) -> Optional[Calls]:
    """Opens the call interface if the server supports it."""
    global _calls_or_reason
    descriptor = os.environ.get("FOREBAY_CALL_FD")
    if descriptor is None:
        _calls_or_reason = f"pool `{pool}` reaches no database: its `sql` names none"
        return None
    link = CallSocket(int(descriptor), generation)
    _calls_or_reason = current = Calls(pool, os.environ["FOREBAY_SQL"].split(","), generation, link)
    os.register_at_fork(after_in_child=lambda: _close_in_fork(link))
    return current


def _close_in_fork(link: CallSocket) -> None:
    global _calls_or_reason
    link.close()
    _calls_or_reason = "this process is a fork of a worker: databases are reached in the worker itself"


def _running_loop() -> Optional[asyncio.AbstractEventLoop]:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
