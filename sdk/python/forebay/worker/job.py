"""One claimed request while its application runs: its response, and flow control for both bodies."""

from __future__ import annotations

import time
from collections import deque
from typing import Deque, NamedTuple, Optional

from .._context import JobView, Log
from .._reply import HEADERS_BYTES_MAX
from .._request import BodySource, head_of
from .._wire import (
    ABORT,
    BODY,
    CONNECTION,
    CONNECTION_BYTES,
    END,
    FILE,
    FILE_PART,
    FRAME_PAYLOAD_MAX,
    KIND_NONE,
    REQUEST_TABLE,
    RESET,
    RESPONSE_TABLE,
    U32,
    WINDOW,
    frame,
    header_block,
    response,
)

#: Size of the receive window for request bodies; it is replenished once half of it has been read.
READ_WINDOW_BYTES = 262_144
#: Longest payload of a BODY frame: small enough that a stream does not delay others.
BODY_FRAME_MAX = 65_520

#: In a header block, the content type of responses that may last: name and value follow each other.
EVENT_STREAM = b"content-typetext/event-stream"

#: States of a response.
NEW, BEGUN, DONE = range(3)

CLIENT_GONE, SERVER_ENDS = 1, 3
_REASONS = {CLIENT_GONE: "the client has gone", 2: "the deadline has passed", SERVER_ENDS: "the server ends"}


class RequestAborted(OSError):
    """The response is no longer needed: the client has disconnected, the deadline has passed, or the server is shutting down."""


class FilePart(NamedTuple):
    """A part of an open regular file: the body of a response that the server reads itself."""

    descriptor: int
    offset: int
    length: int


class Owner:
    """The interface of the worker for its jobs."""

    __slots__ = ()
    generation: int
    window_bytes: int
    #: Whether the server takes files as bodies.
    files: bool

    def write(self, data: bytes) -> None:
        """Sends frames to the server."""
        raise NotImplementedError

    def write_response(self, data: bytes) -> None:
        """Like `write`, for a whole response, which may wait for others for a moment."""
        self.write(data)

    def over(self, job: "Job") -> None:
        """Call it when the job's last frame has been written."""
        raise NotImplementedError

    def log_of(self, job: Optional["Job"]) -> Log:
        """A logger that adds the job to its lines; None for the logger of the worker."""
        raise NotImplementedError


class Incoming:
    """The part of a request body that did not arrive with the REQUEST frame."""

    __slots__ = ("parts", "granted", "used", "ended", "failure")

    def __init__(self) -> None:
        self.parts: Deque[bytes] = deque()
        self.granted = False
        #: Bytes read by the handler since the last grant.
        self.used = 0
        self.ended = False
        self.failure: Optional[str] = None


class Job(BodySource, JobView):
    """The parts of a job that do not wait, common to blocking and asynchronous workers."""

    __slots__ = ("owner", "data", "at", "end", "secure", "number", "slot", "whole", "started", "state", "window", "gone", "incoming")

    def __init__(self, owner: Owner, data: bytes, at: int, end: int, flags: int, number: int, slot: int) -> None:
        self.owner = owner
        #: The payload of the REQUEST frame is `data` from `at` to `end`.
        self.data = data
        self.at = at
        self.end = end
        #: Whether the client speaks TLS, with the server or with a proxy that the server trusts.
        self.secure = False
        if flags & CONNECTION:
            self.end -= CONNECTION_BYTES
            self.secure = data[self.end + 2] == 1
        self.number = number
        self.slot = slot
        #: Whether the payload contains the whole body.
        self.whole = flags & END != 0
        self.started = time.monotonic()
        self.state = NEW
        #: Bytes of BODY payload the worker may still send.
        self.window = owner.window_bytes
        #: The reason number if the job was aborted, otherwise 0.
        self.gone = 0
        self.incoming: Optional[Incoming] = None

    # Frames from the server.

    def take(self, kind: int, flags: int, data: bytes, at: int, end: int) -> None:
        """Handles a frame for this job."""
        if kind == WINDOW:
            self.window += U32.unpack_from(data, at)[0]
        elif kind == BODY:
            incoming = self._incoming()
            if end > at:
                incoming.parts.append(data[at:end])
            incoming.ended |= flags & END != 0
        elif kind == ABORT:
            self.gone = self.gone or data[at]
            self._fail_body(self.reason)
        elif kind == RESET:
            self._fail_body("the client ended its request early")

    def _incoming(self) -> Incoming:
        if self.incoming is None:
            self.incoming = Incoming()
        return self.incoming

    def _fail_body(self, why: str) -> None:
        incoming = self._incoming()
        incoming.failure = incoming.failure or why

    def next_part(self) -> Optional[bytes]:
        """The next bytes of the body, b"" after the last. None if they have not arrived yet; the server has been asked for them."""
        incoming = self._incoming()
        if incoming.parts:
            part = incoming.parts.popleft()
            incoming.used += len(part)
            if incoming.used * 2 >= READ_WINDOW_BYTES and not incoming.ended and self.state != DONE:
                self._grant(incoming.used)
                incoming.used = 0
            return part
        if self.whole or incoming.ended:
            return b""
        if incoming.failure is not None:
            raise RequestAborted(incoming.failure)
        if self.state == DONE:
            raise RequestAborted("the request was answered before all of its body was read")
        if not incoming.granted:
            incoming.granted = True
            self._grant(READ_WINDOW_BYTES)
        return None

    def _grant(self, size: int) -> None:
        self.owner.write(frame(WINDOW, 0, self.owner.generation, self.number, self.slot, U32.pack(size)))

    # The interface for contexts.

    @property
    def reason(self) -> str:
        """Why the job was aborted, as text."""
        return _REASONS.get(self.gone, f"aborted (reason {self.gone})")

    @property
    def aborted(self) -> bool:
        return self.gone != 0

    @property
    def due(self) -> Optional[float]:
        left = REQUEST_TABLE.unpack_from(self.data, self.at)[0]
        return None if left == 0 else self.started + left / 1000

    @property
    def log(self) -> Log:
        return self.owner.log_of(self)

    @property
    def label(self) -> str:
        """The job's name in log lines."""
        method, path, request_id = head_of(self.data, self.at)
        return f"{method} {path} (request {request_id})"

    @property
    def request_id(self) -> str:
        return head_of(self.data, self.at)[2]

    @property
    def is_head(self) -> bool:
        """Whether the response must not have a body."""
        return head_of(self.data, self.at)[0] == "HEAD"

    # Sending the response.

    def respond_whole(self, status: int, kind: int, headers: bytes, body: bytes, flags: int = 0) -> bool:
        """Sends a complete response, whose headers are a pair block, and ends the job; False if it does not fit into a frame."""
        if len(body) + len(headers) > FRAME_PAYLOAD_MAX - RESPONSE_TABLE.size:
            return False
        owner = self.owner
        # If the response cannot be encoded, nothing was sent, and another one may follow.
        whole = response(flags | END, owner.generation, self.number, self.slot, status, kind, self.run_micros(), headers, body)
        self.state = DONE
        owner.write_response(whole)
        owner.over(self)
        return True

    def file_response(self, status: int, headers: bytes, part: FilePart) -> bytes:
        """The frame of a response whose body is a part of a file. It has to be sent with the descriptor; then the job ends."""
        body = FILE_PART.pack(part.offset, part.length)
        return response(END | FILE, self.owner.generation, self.number, self.slot, status, KIND_NONE, self.run_micros(), headers, body)

    def begin(self, status: int, kind: int, headers: bytes, flags: int = 0) -> None:
        """Sends the head of a streamed response."""
        owner = self.owner
        head = response(flags, owner.generation, self.number, self.slot, status, kind, self.run_micros(), headers, b"")
        self.state = BEGUN
        owner.write(head)

    def run_micros(self) -> int:
        """Run time of the application in microseconds, capped at the maximum of the protocol."""
        return min(int((time.monotonic() - self.started) * 1e6), 0xFFFF_FFFF)

    def cut(self, piece: bytes, at: int) -> int:
        """Sends as much of a piece, from `at` on, as a frame and the window allow; returns the position of the rest."""
        if self.gone:
            raise RequestAborted(self.reason)
        size = min(len(piece) - at, self.window, BODY_FRAME_MAX)
        if size > 0:
            self.window -= size
            part = piece if size == len(piece) else piece[at : at + size]
            self.owner.write(frame(BODY, 0, self.owner.generation, self.number, self.slot, part))
        return at + size

    def finish(self) -> None:
        """Ends a streamed response."""
        self.state = DONE
        self.owner.write(frame(BODY, END, self.owner.generation, self.number, self.slot))
        self.owner.over(self)

    def reset(self) -> None:
        """Aborts the response."""
        self.state = DONE
        self.owner.write(frame(RESET, 0, self.owner.generation, self.number, self.slot))
        self.owner.over(self)


class Exchange(BodySource, JobView):
    """The blocking interface of a job: for applications on the main thread or in other threads."""

    __slots__ = ()

    @property
    def job(self) -> Job:
        raise NotImplementedError

    def respond(self, status: int, kind: int, headers: bytes, body: bytes, flags: int = 0) -> None:
        """Sends a complete response of any length and ends the job."""
        raise NotImplementedError

    def respond_file(self, status: int, headers: bytes, part: FilePart) -> None:
        """Sends a response whose body is a part of a file, and ends the job. Only if the owner has `files`."""
        raise NotImplementedError

    def begin(self, status: int, kind: int, headers: bytes) -> None:
        raise NotImplementedError

    def send(self, piece: bytes) -> None:
        """Sends a piece of the body at the client's pace. Raises `RequestAborted` if the request was aborted."""
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        raise NotImplementedError


def bounded(headers: bytes) -> bytes:
    """The header block of an application. Raises `ValueError` if it is too long."""
    if len(headers) > HEADERS_BYTES_MAX:
        raise ValueError(f"the answer's headers take {len(headers)} bytes, at most {HEADERS_BYTES_MAX}")
    return headers


def sized(headers: bytes, body: bytes) -> bytes:
    """The header block of a body that does not fit into a frame, with its length added."""
    if b"content-length" in headers:
        return headers
    return headers + header_block([("content-length", str(len(body)))])
