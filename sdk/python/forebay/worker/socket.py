"""One WebSocket in a worker (protocol/PROTOCOL.md, section 10): messages in both directions, each at the pace of its receiver. The server speaks the
protocol with the client."""

from __future__ import annotations

from collections import deque
from typing import Deque, List, Optional, Union

from .._websocket import Closed, Message
from .._wire import CLOSE, END, FRAME_PAYLOAD_MAX, HEADER_BYTES, JOIN, LEAVE, MESSAGE, PUBLISH, TEXT, U16, U32, UPGRADE, WEBSOCKET, WINDOW, response
from .event_loop import AsyncJob
from .job import BEGUN, NEW, RequestAborted

#: Bytes of messages that the server may send ahead of the application.
RECEIVE_WINDOW_BYTES = 262_144
#: Longest piece of a message.
PIECE_MAX = 65_536
ROOM_BYTES_MAX = 256
REASON_BYTES_MAX = 123

#: Codes of RFC 6455, 7.4.1.
NORMAL, NO_CODE, INTERNAL_ERROR = 1000, 1005, 1011


class Connection:
    """The WebSocket of a job, once it is accepted."""

    __slots__ = ("_job", "_messages", "_parts", "_cost", "_done", "closed")

    def __init__(self, job: AsyncJob, headers: bytes) -> None:
        self._job = job
        #: Messages that the application has not received, with what they cost of the window.
        self._messages: "Deque[tuple[Message, int]]" = deque()
        #: Pieces of a message whose end has not arrived, and what they cost.
        self._parts: List[bytes] = []
        self._cost = 0
        #: Bytes that the application is done with and the server has not been told of.
        self._done = 0
        #: Set when the connection has ended. Messages that came before are still received.
        self.closed: Optional[Closed] = None
        if job.gone or job.state != NEW:
            raise RequestAborted(job.reason)
        owner = job.owner
        upgrade = response(WEBSOCKET, owner.generation, job.number, job.slot, 101, 0, job.run_micros(), headers, b"", UPGRADE)
        job.state = BEGUN
        job.socket = self
        owner.write(upgrade)
        owner.detach(job)
        self._grant(RECEIVE_WINDOW_BYTES)

    # Frames from the server.

    def take(self, kind: int, flags: int, payload: bytes) -> None:
        """Handles a MESSAGE or CLOSE frame."""
        if kind == CLOSE:
            code = U16.unpack_from(payload)[0] if len(payload) >= 2 else NO_CODE
            self.end(code, payload[2:].decode("utf-8", "replace"))
            return
        cost = len(payload) + HEADER_BYTES
        self._parts.append(payload)
        if not flags & END:
            # The rest may be longer than the window.
            self._grant(cost)
            return
        whole = payload if len(self._parts) == 1 else b"".join(self._parts)
        self._parts = []
        self._messages.append((whole.decode("utf-8", "replace") if flags & TEXT else whole, cost))

    def end(self, code: int, reason: str) -> None:
        """The connection is over; no frame follows."""
        if self.closed is None:
            self.closed = Closed(code, reason)
            self._job.conclude()

    # What the application does.

    async def receive(self) -> Union[Message, Closed]:
        """The next message of the client, or how the connection has ended."""
        while not self._messages:
            if self.closed is not None:
                return self.closed
            await self._job.changed()
        message, cost = self._messages.popleft()
        self._done += cost
        if self._done * 2 >= RECEIVE_WINDOW_BYTES and self.closed is None:
            self._grant(self._done)
            self._done = 0
        return message

    async def send(self, message: Message) -> None:
        """Sends a message at the client's pace. Raises `OSError` if the connection has ended."""
        job = self._job
        text = TEXT if isinstance(message, str) else 0
        data = message.encode() if isinstance(message, str) else bytes(message)
        at = 0
        while True:
            await job.owner.room()
            while job.window < HEADER_BYTES + min(len(data) - at, 1) and self.closed is None:
                await job.changed()
            self._check()
            size = min(len(data) - at, job.window - HEADER_BYTES, PIECE_MAX)
            job.window -= size + HEADER_BYTES
            is_last = at + size == len(data)
            self._frame(MESSAGE, text | (END if is_last else 0), data[at : at + size])
            if is_last:
                return
            at += size

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Closes the connection; nothing happens if it has ended. Raises `ValueError` for a code or a reason that cannot be sent."""
        if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
            raise ValueError(f"a WebSocket is closed with 1000 to 1003, 1007 to 1014 or 3000 to 4999, not {code}")
        text = reason.encode()
        if len(text) > REASON_BYTES_MAX:
            raise ValueError(f"the reason of a close has at most {REASON_BYTES_MAX} bytes, not {len(text)}")
        if self.closed is None:
            self._frame(CLOSE, 0, U16.pack(code) + text)
            self.end(code, reason)

    def join(self, room: str) -> None:
        """Enters a room of the pool."""
        self._check()
        self._frame(JOIN, 0, room_name(room))

    def leave(self, room: str) -> None:
        """Leaves a room."""
        self._check()
        self._frame(LEAVE, 0, room_name(room))

    def publish(self, room: str, message: Message) -> None:
        """Sends a message to all others in a room."""
        self._check()
        self._frame(PUBLISH, *published(room, message))

    def _check(self) -> None:
        if self.closed is not None:
            raise RequestAborted(f"the WebSocket is closed ({self.closed.code})")

    def _grant(self, size: int) -> None:
        self._frame(WINDOW, 0, U32.pack(size))

    def _frame(self, kind: int, flags: int, payload: bytes) -> None:
        self._job.write_frame(kind, flags, payload)


def room_name(room: str) -> bytes:
    """The name of a room. Raises `ValueError` if it is empty or too long."""
    name = room.encode()
    if not 1 <= len(name) <= ROOM_BYTES_MAX:
        raise ValueError(f"the name of a room has 1 to {ROOM_BYTES_MAX} bytes, not {len(name)}")
    return name


def published(room: str, message: Message) -> "tuple[int, bytes]":
    """Flags and payload of a PUBLISH frame. Raises `ValueError` if it is too long."""
    name = room_name(room)
    data = message.encode() if isinstance(message, str) else bytes(message)
    payload = U32.pack(len(name)) + name + data
    if len(payload) > FRAME_PAYLOAD_MAX:
        raise ValueError(f"a message to a room has at most {FRAME_PAYLOAD_MAX - 4 - len(name)} bytes, not {len(data)}")
    return (TEXT if isinstance(message, str) else 0), payload
