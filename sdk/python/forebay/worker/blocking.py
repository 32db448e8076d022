"""Runs one job after another on the worker's main thread, for applications that block.

Every request passes through this module, so it does as little as possible. Under load, one read brings several requests; each is claimed
before its handler starts, and its response is sent before the next one is claimed.
"""

from __future__ import annotations

import select
import signal
import socket
import threading
from _thread import start_new_thread
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Any, Callable, Deque, List, Optional, Tuple

from .. import _store
from .._calls import JOB
from .._context import Interrupted, Log
from .._wire import BODY, DRAIN, END, FRAME_PAYLOAD_MAX, HEADER, HEADER_BYTES, PUBLISH, REQUEST, frame
from .answer import fail
from .claims import Page
from .job import BODY_FRAME_MAX, DONE, Exchange, FilePart, Job, Owner, sized
from .report import log_to, report

#: Size of a read from the link.
READ_BYTES = 65_536
#: Seconds after a write of a body within which further pieces are collected; another thread then writes them together. So a stream of many
#: small pieces costs few writes, and a piece after a pause is written at once. PEP 3333 allows both: an application goes on only after its piece
#: is with the operating system, or while another thread sends it.
COLLECT_SECONDS = 0.001


class _WakeUp(Exception):
    """A signal arrived while the worker waited for work."""


class LinkClosed(Exception):
    """The server has closed the link."""


class BlockingJob(Job, Exchange):
    """A job on the main thread. While it waits, it reads the link."""

    __slots__ = ()
    owner: "BlockingEngine"

    @property
    def job(self) -> Job:
        return self

    @property
    def aborted(self) -> bool:
        if not self.gone:
            self.owner.look_for(self)
        return self.gone != 0

    def respond(self, status: int, kind: int, headers: bytes, body: bytes, flags: int = 0) -> None:
        if not self.respond_whole(status, kind, headers, body, flags):
            self.begin(status, kind, sized(headers, body))
            self.send(body)
            self.finish()

    def respond_file(self, status: int, headers: bytes, part: FilePart) -> None:
        whole = self.file_response(status, headers, part)
        self.state = DONE
        self.owner.write_with_file(whole, part.descriptor)

    def send(self, piece: bytes) -> None:
        owner = self.owner
        if owner.collect(self, piece):
            return
        owner.write_collected(0)
        # Otherwise, a stream of small pieces would not notice that its client has disconnected.
        owner.look()
        at = self.cut(piece, 0)
        while at < len(piece):
            if self.window == 0:
                owner.wait()
            at = self.cut(piece, at)
        owner.body_written = monotonic()

    def finish(self) -> None:
        self.state = DONE
        self.owner.write_collected(END)

    def reset(self) -> None:
        # What the application gave before it failed is sent.
        self.owner.write_collected(0)
        super().reset()

    def read_body(self) -> Optional[bytes]:
        while True:
            part = self.next_part()
            if part is not None:
                return part or None
            self.owner.wait()


class BlockingEngine(Owner):
    """The link and the running job."""

    __slots__ = (
        "generation",
        "window_bytes",
        "files",
        "_socket",
        "_poll",
        "_page",
        "_lock",
        "_thread",
        "_handle",
        "_running",
        "_inbox",
        "_partial",
        "_draining",
        "_waiting",
        "_in_handler",
        "_interrupt",
        "_pieces",
        "_pieces_bytes",
        "body_written",
        "_collected",
        "_has_collector",
    )

    def __init__(self, link: socket.socket, generation: int, window_bytes: int, files: bool, page: Optional[Page]) -> None:
        self.generation = generation
        self.window_bytes = window_bytes
        self.files = files
        self._socket = link
        poll = select.poll()
        poll.register(link, select.POLLIN)
        self._poll = poll.poll
        self._page = page
        #: Needed because threads of the application may log.
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._handle: Callable[[BlockingJob], None] = lambda job: None
        self._running: Optional[BlockingJob] = None
        #: Requests that have arrived and are not claimed yet.
        self._inbox: Deque[Tuple[bytes, int, int, int, int, int]] = deque()
        #: The start of an incomplete frame.
        self._partial = b""
        self._draining = False
        #: Whether a signal may interrupt the wait for work, a handler, or nothing.
        self._waiting = False
        self._in_handler = False
        self._interrupt = False
        #: Pieces of the running job's response that are not written yet, already subtracted from its window. Guarded by `_lock`.
        self._pieces: List[bytes] = []
        self._pieces_bytes = 0
        #: When a part of a body was last written, on the clock of `monotonic`.
        self.body_written = 0.0
        #: Wakes the thread that writes collected pieces; None before the first one.
        self._collected: "Optional[SimpleQueue[None]]" = None
        #: Whether that thread is about to write. Guarded by `_lock`.
        self._has_collector = False

    def serve(self, handle: Callable[[BlockingJob], None]) -> None:
        """Runs jobs until the server drains this worker. Raises `LinkClosed` if the server closes the link."""
        self._handle = handle
        signal.signal(signal.SIGTERM, self._on_sigterm)
        page, inbox = self._page, self._inbox
        while True:
            if inbox:
                request = inbox.popleft()
                if page is None:
                    # Without a page, the server counts every job that it has sent as started and gives it to no other worker.
                    self._run(*request)
                elif not self._draining and page.claim(request[4], request[5]):
                    self._run(*request)
            elif not self._draining:
                if self._await_work():
                    self._receive()
            elif self._poll(0):
                # The server may have sent more before the signal arrived.
                self._receive()
            else:
                return

    def _await_work(self) -> bool:
        """Waits for data; returns whether there is any. If not, a signal arrived."""
        # The signal's exception is allowed only while nothing has been taken from the link.
        arrived = False
        try:
            self._waiting = True
            if not self._draining:
                self._poll()
                arrived = True
            self._waiting = False
        except _WakeUp:
            self._waiting = False
        return arrived

    def _on_sigterm(self, number: int, stack: object) -> None:
        self._draining = True
        if self._waiting:
            raise _WakeUp
        if self._in_handler:
            self._interrupt_handler()
        else:
            self._interrupt = True

    def _interrupt_handler(self) -> None:
        """Raises `Interrupted` if the running job was aborted: the server sends ABORT before the signal."""
        self._in_handler = False
        if self._poll(0):
            self._receive()
        if self._running is not None and self._running.gone:
            raise Interrupted
        self._in_handler = True

    # Receiving frames.

    def look(self) -> None:
        """Handles data that has arrived, without waiting."""
        inside, self._in_handler = self._in_handler, False
        if self._poll(0):
            self._receive()
        self._back(inside)

    def look_for(self, job: Job) -> None:
        """Like `look`, for a check of whether a job was aborted, which any thread may make at any time. Reads the link only on the main thread and
        while the job runs."""
        if self._running is job and threading.get_ident() == self._thread:
            self.look()

    def wait(self) -> None:
        """Waits for data and handles it."""
        inside, self._in_handler = self._in_handler, False
        self._receive()
        self._back(inside)

    def _back(self, inside: bool) -> None:
        self._in_handler = inside
        # A nested wait leaves the interruption to the outer one.
        if inside and self._interrupt:
            self._interrupt = False
            self._interrupt_handler()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkClosed from error
        if not data:
            raise LinkClosed
        if self._partial:
            data = self._partial + data
            self._partial = b""
        at, size = 0, len(data)
        while size - at >= HEADER_BYTES:
            length, kind, flags, generation, number, slot = HEADER.unpack_from(data, at)
            start = at + HEADER_BYTES
            end = start + length
            if end > size:
                if length > FRAME_PAYLOAD_MAX:
                    raise LinkClosed(f"the server sent a frame of {length} bytes (at most {FRAME_PAYLOAD_MAX})")
                # A long frame arrives in many reads, which are joined once instead of being copied again with each.
                data = data[at:] + self._rest(end - size)
                at, size, start = 0, len(data), HEADER_BYTES
                end = size
            at = end
            if generation != self.generation:
                continue
            if kind == REQUEST:
                self._inbox.append((data, start, end, flags, number, slot))
            elif kind == DRAIN:
                self._draining = True
            else:
                job = self._running
                if job is not None and job.number == number and job.slot == slot:
                    job.take(kind, flags, data, start, end)
        self._partial = data[at:]

    def _rest(self, missing: int) -> bytes:
        rest = bytearray(missing)
        view = memoryview(rest)
        while missing:
            try:
                count = self._socket.recv_into(view[-missing:])
            except OSError as error:
                raise LinkClosed from error
            if count == 0:
                raise LinkClosed
            missing -= count
        return bytes(rest)

    def uninterrupted(self, work: Callable[..., Any], *given: object) -> Any:
        """Runs a function that signals must not interrupt; a signal that arrives meanwhile takes effect afterwards."""
        if threading.get_ident() != self._thread:
            return work(*given)
        inside, self._in_handler = self._in_handler, False
        try:
            return work(*given)
        finally:
            self._back(inside)

    # Running jobs.

    def _run(self, data: bytes, at: int, end: int, flags: int, number: int, slot: int) -> None:
        job = BlockingJob(self, data, at, end, flags, number, slot)
        self._running = job
        JOB.set((slot, number))
        try:
            self._in_handler = True
            self._handle(job)
            self._in_handler = False
        except Exception as error:
            self._in_handler = False
            fail(job, error)
        except Interrupted:
            report(f"{job.label} was interrupted: {job.reason}")
        if _store.end_job():
            report(f"{job.label} has left a transaction of the store open: it was rolled back")
        if job.state != DONE:
            job.reset()
        self._running = None
        JOB.set((0, 0))

    # The interface for jobs.

    def write(self, data: bytes) -> None:
        if threading.get_ident() != self._thread:
            self._send(data)
            return
        inside, self._in_handler = self._in_handler, False
        self._send(data)
        self._back(inside)

    def publish(self, flags: int, payload: bytes) -> None:
        """Sends a message to all in a room. May be called from any thread."""
        self.write(frame(PUBLISH, flags, self.generation, 0, 0, payload))

    def write_with_file(self, data: bytes, descriptor: int) -> None:
        """Sends a frame with the descriptor that it needs."""
        inside, self._in_handler = self._in_handler, False
        try:
            with self._lock:
                # The descriptor goes with the first byte.
                sent = socket.send_fds(self._socket, [data], [descriptor])
                self._socket.sendall(data[sent:])
        except OSError as error:
            raise LinkClosed from error
        self._back(inside)

    def _send(self, data: bytes) -> None:
        try:
            with self._lock:
                self._socket.sendall(data)
        except OSError as error:
            raise LinkClosed from error

    # Pieces of a response.

    def collect(self, job: Job, piece: bytes) -> bool:
        """Takes a piece of the running job's response for the thread that writes soon; False if it is to be written now."""
        size = len(piece)
        if size > job.window or monotonic() - self.body_written > COLLECT_SECONDS or job.gone:
            return False
        inside, self._in_handler = self._in_handler, False
        with self._lock:
            taken = self._pieces_bytes + size <= BODY_FRAME_MAX
            if taken:
                # The application may change a buffer that it has given.
                self._pieces.append(bytes(piece))
                self._pieces_bytes += size
                job.window -= size
                if not self._has_collector:
                    self._has_collector = True
                    if self._collected is None:
                        self._collected = SimpleQueue()
                        start_new_thread(self._write_soon, (self._collected,))
                    self._collected.put(None)
        self._back(inside)
        return taken

    def _write_soon(self, collected: "SimpleQueue[None]") -> None:
        """Writes collected pieces, in a thread of its own."""
        while True:
            collected.get()
            while True:
                sleep(COLLECT_SECONDS)
                with self._lock:
                    if not self._pieces:
                        self._has_collector = False
                        break
                    # The main thread finds out for itself that the server has closed the link.
                    with suppress(OSError):
                        self._write_pieces(0)

    def write_collected(self, flags: int) -> None:
        """Writes the collected pieces, and the end of the body if the flags say so."""
        if not flags and not self._pieces:
            return
        inside, self._in_handler = self._in_handler, False
        try:
            with self._lock:
                self._write_pieces(flags)
        except OSError as error:
            raise LinkClosed from error
        self._back(inside)

    def _write_pieces(self, flags: int) -> None:
        job = self._running
        assert job is not None, "pieces are written before their job ends"
        data = b"".join(self._pieces)
        self._pieces, self._pieces_bytes = [], 0
        self._socket.sendall(frame(BODY, flags, self.generation, job.number, job.slot, data))
        self.body_written = monotonic()

    def over(self, job: Job) -> None:
        """Nothing to do: the loop in `serve` continues by itself."""

    def log_of(self, job: Optional[Job]) -> Log:
        return log_to(self.write, self.generation, job)
