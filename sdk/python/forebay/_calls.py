"""Calls of a worker into the server (protocol/PROTOCOL.md, section 9): what `forebay.sql` stands on."""

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
    """The event loop on which a worker's link is, and a way to send over it."""

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
        self._left: "Deque[Tuple[int, bytes]]" = deque()
        self._engine: Optional[Loop] = None
        #: Runs a function that signals must not interrupt.
        self._undisturbed: Callable[..., Any] = lambda work, *given: work(*given)
        #: Calls over the link without a complete answer.
        self._open: Dict[int, "Tuple[asyncio.Future[str], List[bytes]]"] = {}
        #: Frames written in this turn of the loop, sent together.
        self._unwritten: List[bytes] = []

    def on_loop(self, engine: Loop) -> None:
        """From now on jobs run on an event loop, and calls go over its link where they can."""
        self._engine = engine

    def on_thread(self, undisturbed: Callable[..., Any]) -> None:
        """From now on jobs run on a thread that signals may interrupt."""
        self._undisturbed = undisturbed

    def check(self, database: str) -> Optional[str]:
        """Why the pool may not reach a database."""
        if database in self._databases:
            return None
        return f"pool `{self._pool}` may not reach database `{database}`: its `sql` names {', '.join(self._databases)}"

    def call(self, operation: object) -> Any:
        """Asks the server for something, and waits for the outcome."""
        engine = self._engine
        number, frames = self._frames(operation, JOB.get())
        if engine is None or engine.loop is _running_loop():
            text = self._exchange(number, frames)
        else:
            # Each of the other threads may wait for a call of its own at the same time.
            text = asyncio.run_coroutine_threadsafe(self._asked(number, frames), engine.loop).result()
        return json.loads(text)

    async def acall(self, operation: object) -> Any:
        """The same, for coroutines."""
        answer = self.begin(operation)
        if self._engine is None or self._engine.loop is not answer.get_loop():
            # A call that waits for a thread is made even if its caller is cancelled.
            answer = asyncio.shield(answer)
        return json.loads(await answer)

    def begin(self, operation: object) -> "asyncio.Future[str]":
        """The same, for coroutines that may have somebody else wait for the outcome, as text."""
        engine = self._engine
        number, frames = self._frames(operation, JOB.get())
        loop = asyncio.get_running_loop()
        if engine is not None and engine.loop is loop:
            return self._ask(number, frames)
        return loop.run_in_executor(None, self._exchange, number, frames)

    def close(self, operation: object, job: Tuple[int, int]) -> None:
        """Asks for the end of something that `call` has opened. It waits for nothing that somebody else has, and may be called in the middle of anything: what a loop has left behind ends where Python collects
        it."""
        engine = self._engine
        number, frames = self._frames(operation, job)
        if engine is None or engine.loop is _running_loop():
            self._leave(number, frames)
        else:
            # The loop is closed when the worker ends, and then the server ends everything that is open.
            with suppress(RuntimeError):
                engine.loop.call_soon_threadsafe(self._send, frames)

    def aclose(self, operation: object, job: Tuple[int, int]) -> None:
        """The same, of something that coroutines have opened: before whatever they ask for after this."""
        engine = self._engine
        number, frames = self._frames(operation, job)
        if engine is not None and engine.loop is _running_loop():
            self._send(frames)
        else:
            self._leave(number, frames)

    # Calls over the call socket.

    def _exchange(self, number: int, frames: bytes) -> str:
        try:
            with self._lock:
                text: str = self._undisturbed(self._exchange_in_turn, number, frames)
                return text
        finally:
            self._exchange_left()

    def _exchange_in_turn(self, number: int, frames: bytes) -> str:
        while self._left:
            self._socket.exchange(*self._left.popleft())
        return self._socket.exchange(number, frames)

    def _leave(self, number: int, frames: bytes) -> None:
        self._left.append((number, frames))
        self._exchange_left()

    def _exchange_left(self) -> None:
        """Sends what was left, unless somebody has the socket, who does so when done with it. That may be this very thread, in the middle of whose call this comes."""
        while self._left:
            if not self._undisturbed(self._exchange_if_free):
                return

    def _exchange_if_free(self) -> bool:
        if not self._lock.acquire(blocking=False):
            return False
        try:
            while self._left:
                self._socket.exchange(*self._left.popleft())
        finally:
            self._lock.release()
        return True

    # Calls over the link.

    async def _asked(self, number: int, frames: bytes) -> str:
        return await self._ask(number, frames)

    def _ask(self, number: int, frames: bytes) -> "asyncio.Future[str]":
        assert self._engine is not None, "whoever comes here has seen it"
        answer: "asyncio.Future[str]" = self._engine.loop.create_future()
        self._open[number] = (answer, [])
        self._send(frames)
        return answer

    def _send(self, frames: bytes) -> None:
        assert self._engine is not None, "whoever comes here has seen it"
        if not self._unwritten:
            self._engine.loop.call_soon(self._flush)
        self._unwritten.append(frames)

    def _flush(self) -> None:
        assert self._engine is not None, "there are frames for it"
        frames, self._unwritten = self._unwritten, []
        self._engine.write(b"".join(frames))

    def returned(self, flags: int, data: bytes, at: int, end: int) -> None:
        """A RETURN frame has come over the link."""
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
        """A call of a job: its number and its frames."""
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
    """The second socket between a worker and the server: whoever calls waits for the answer."""

    def __init__(self, descriptor: int, generation: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._generation = generation
        #: Bytes read but not processed yet.
        self._data = b""

    def close(self) -> None:
        """Ends it in this process."""
        self._socket.close()

    def exchange(self, number: int, frames: bytes) -> str:
        """Sends the frames of a call; gives its answer."""
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
_opened: Union[Calls, str] = (
    "databases are reached by handlers that a Forebay server runs in a pool (`[pool.NAME]`). This is no such handler"
)


def url_of(database: str) -> Optional[str]:
    """Where this worker connects to a database itself."""
    url: Optional[str] = json.loads(os.environ.get("FOREBAY_SQL_DIRECT", "{}")).get(database)
    return url


def calls() -> Calls:
    """The calls of this worker; raises `RuntimeError` where it makes none."""
    if isinstance(_opened, str):
        raise RuntimeError(_opened)
    return _opened


def open_calls(pool: str, generation: int) -> Optional[Calls]:
    """Opens the way into the server where there is one."""
    global _opened
    descriptor = os.environ.get("FOREBAY_CALL_FD")
    if descriptor is None:
        _opened = f"pool `{pool}` reaches no database: its `sql` names none"
        return None
    link = CallSocket(int(descriptor), generation)
    _opened = opened = Calls(pool, os.environ["FOREBAY_SQL"].split(","), generation, link)
    os.register_at_fork(after_in_child=lambda: _close_in_fork(link))
    return opened


def _close_in_fork(link: CallSocket) -> None:
    global _opened
    link.close()
    _opened = "this process is a fork of a worker: databases are reached in the worker itself"


def _running_loop() -> Optional[asyncio.AbstractEventLoop]:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
