"""Runs WSGI applications (PEP 3333)."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from wsgiref.util import FileWrapper
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from .._reply import HttpError
from .._request import decoded_path, head_of
from .._wire import HAS_IDENTITY, KIND_NONE, PAIR, REQUEST_TABLE, read_identity
from .answer import send_error
from .job import Exchange, FilePart, bounded

#: Maximum number of cached header names and hosts; beyond it, the caches are cleared.
SEEN_MAX = 1_024

#: A shorter file costs less when the worker reads it.
FILE_BYTES_MIN = 32_768

StartResponse = Callable[..., Callable[[bytes], None]]
Application = Callable[[Dict[str, Any], StartResponse], Iterable[bytes]]

_NO_BODY = frozenset((204, 304))


class Wsgi:
    """A WSGI application below a mount point.

    With a `mount` such as `/py`, which becomes `SCRIPT_NAME`, the application sees what comes after it as `PATH_INFO`; a path elsewhere is
    answered with 404. Without one, it sees the whole path.
    """

    def __init__(self, application: Application, mount: str = "", *, threads: bool = False, encoded_slashes: bool = False) -> None:
        self._application = application
        self._encoded_slashes = encoded_slashes
        self._mount = mount
        #: The mount path in the text form of PEP 3333: bytes decoded as Latin-1.
        self._prefix = mount.encode().decode("latin-1")
        self._base: Dict[str, Any] = {
            "SCRIPT_NAME": self._prefix,
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.version": (1, 0),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": threads,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            # The input ends where the body does, whether it has a length or not.
            "wsgi.input_terminated": True,
            "wsgi.file_wrapper": FileWrapper,
        }
        #: The name of each header in the environ; "" for headers without one.
        self._names: Dict[bytes, str] = {}
        #: Names and ports by `host` header.
        self._hosts: Dict[str, Tuple[Tuple[str, str], Tuple[str, str]]] = {}

    def __call__(self, exchange: Exchange) -> None:
        """Answers one job."""
        try:
            environ = self._environ(exchange)
        except HttpError as error:
            send_error(exchange, error)
            return
        if environ is None:
            job = exchange.job
            path = head_of(job.data, job.at)[1]
            send_error(exchange, HttpError(404, f"nothing answers {path}: the application is mounted at {self._mount}"))
            return
        response = _Response(exchange, environ["REQUEST_METHOD"] == "HEAD")
        result = self._application(environ, response.start)
        try:
            if type(result) is FileWrapper and response.send_file(result.filelike):
                return
            body = response.take(result)
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
        response.end(body)

    def _environ(self, exchange: Exchange) -> Optional[Dict[str, Any]]:
        """The `environ` of PEP 3333; None for a path that is not below the mount point."""
        job = exchange.job
        data = job.data
        at = job.at
        _, method, path, query, route, params, headers, peer, request_id = REQUEST_TABLE.unpack_from(data, at)
        environ = self._base.copy()
        at += REQUEST_TABLE.size
        end = at + method
        environ["REQUEST_METHOD"] = data[at:end].decode("latin-1")
        at = end
        end += path
        raw = data[at:end]
        info = decoded_path(raw, self._encoded_slashes).decode("latin-1")
        prefix = self._prefix
        if prefix:
            if not info.startswith(prefix) or info[len(prefix) : len(prefix) + 1] not in ("", "/"):
                return None
            info = info[len(prefix) :]
        environ["PATH_INFO"] = info
        at = end
        end += query
        environ["QUERY_STRING"] = data[at:end].decode("latin-1")
        at = end + route + params
        end = at + headers
        names = self._names
        unpack = PAIR.unpack_from
        while at < end:
            name_length, value_length = unpack(data, at)
            at += 8
            value = at + name_length
            raw = data[at:value]
            at = value + value_length
            name = names.get(raw)
            if name is None:
                name = self._name(raw)
            if name in environ:
                between = "; " if name == "HTTP_COOKIE" else ","
                environ[name] = environ[name] + between + data[value:at].decode("latin-1")
            elif name:
                environ[name] = data[value:at].decode("latin-1")
        environ["REMOTE_ADDR"] = data[at : at + peer].decode("latin-1")
        at += peer
        end = at + (request_id & ~HAS_IDENTITY)
        environ["forebay.request_id"] = data[at:end].decode("latin-1")
        identity, at = read_identity(data, end, request_id)
        if identity:
            user = environ["forebay.user"] = json.loads(identity)
            # As CGI has it (RFC 3875, 4.1.11); text of the environ stands for bytes (PEP 3333).
            environ["REMOTE_USER"] = user["subject"].encode().decode("latin-1")
        host = environ.get("HTTP_HOST", "")
        environ["wsgi.url_scheme"] = "https" if job.secure else "http"
        environ["SERVER_NAME"], environ["SERVER_PORT"] = (self._hosts.get(host) or self._host(host))[job.secure]
        first = io.BytesIO(data[at : job.end])
        environ["wsgi.input"] = first if job.whole else io.BufferedReader(_Input(exchange, first))
        return environ

    def _name(self, header: bytes) -> str:
        """The name of a header in the environ; empty for a header with an underscore, which would be mistaken for one with a hyphen."""
        name = "" if b"_" in header else header.decode("latin-1").upper().replace("-", "_")
        if name and name not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            name = f"HTTP_{name}"
        if len(self._names) >= SEEN_MAX:
            self._names.clear()
        self._names[header] = name
        return name

    def _host(self, host: str) -> Tuple[Tuple[str, str], Tuple[str, str]]:
        """`SERVER_NAME` and `SERVER_PORT`, without TLS and with it, from the `host` header: the worker does not know its own address."""
        name, colon, port = host.rpartition(":")
        # The last colon in `[::1]` does not start a port.
        has_port = colon and port.isdecimal()
        known = ((name, port),) * 2 if has_port else ((host or "localhost", "80"), (host or "localhost", "443"))
        if len(self._hosts) >= SEEN_MAX:
            self._hosts.clear()
        self._hosts[host] = known
        return known


class _Input(io.RawIOBase):
    """A request body that did not arrive whole: reading beyond its start fetches more from the server."""

    def __init__(self, exchange: Exchange, first: io.BytesIO) -> None:
        self._exchange = exchange
        self._part = first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._part.readinto(buffer)
        while count == 0 and len(buffer) > 0:
            part = self._exchange.read_body()
            if part is None:
                return 0
            self._part = io.BytesIO(part)
            count = self._part.readinto(buffer)
        return count


class _Response:
    """The response of an application: status and headers from `start_response`, and progress."""

    __slots__ = ("_exchange", "_bare", "_status", "_headers", "_length", "_begun", "_sent")

    def __init__(self, exchange: Exchange, bare: bool) -> None:
        self._exchange = exchange
        #: Whether the response has no body, whatever the application sends.
        self._bare = bare
        self._status = 0
        self._headers = b""
        #: The length of the body in bytes as declared by the application; -1 if undeclared.
        self._length = -1
        self._begun = False
        self._sent = 0

    def start(self, status: str, headers: List[Tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        """The `start_response` of PEP 3333."""
        if exc_info is not None:
            try:
                if self._begun:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self._status:
            raise AssertionError("start_response was called a second time, without exc_info")
        number = status[:3]
        if type(status) is not str or not number.isdecimal() or status[3:4] not in (" ", ""):
            raise ValueError(f"the status is {status!r}, expected a text such as '200 OK'")
        code = int(number)
        if not 200 <= code <= 599:
            raise ValueError(f"the status of an answer is 200 to 599, not {status!r}")
        block = []
        self._length = -1
        for name, value in headers:
            try:
                raw_name, raw_value = name.lower().encode("latin-1"), value.encode("latin-1")
            except (AttributeError, UnicodeEncodeError) as error:
                raise ValueError(f"the header {name!r}: {value!r} is not two texts of characters below U+0100") from error
            if raw_name == b"content-length":
                if not value.isdecimal():
                    raise ValueError(f"the content-length is {value!r}, expected a decimal number")
                self._length = int(value)
            block.append(PAIR.pack(len(raw_name), len(raw_value)) + raw_name + raw_value)
        self._status = code
        self._headers = bounded(b"".join(block))
        return self.write

    def write(self, data: bytes) -> None:
        """The `write` callable returned by `start_response`: sends a piece at once."""
        _check(data)
        if not self._begun:
            self._begin()
        self._piece(data)

    def send_file(self, file: Any) -> bool:
        """Has the server send the rest of a file; False if it cannot."""
        exchange = self._exchange
        if self._begun or self._bare or self._status in _NO_BODY or not exchange.job.owner.files:
            return False
        part = file_part(file)
        if part is None or self._length not in (-1, part.length):
            return False
        self._started()
        exchange.respond_file(self._status, self._headers, part)
        return True

    def take(self, result: Iterable[bytes]) -> Optional[bytes]:
        """Sends the pieces that the application returned; returns the whole body instead if it can be sent at once."""
        if type(result) in (list, tuple) and not self._begun:
            return b"".join(result)
        pieces = iter(result)
        for piece in pieces:
            if not piece:
                continue
            _check(piece)
            if not self._begun:
                if len(piece) == self._length:
                    # The body is complete. The application still runs to its end, and must not send more.
                    for more in pieces:
                        self._count(len(piece) + len(more))
                    return piece
                self._begin()
            self._piece(piece)
        return None if self._begun else b""

    def end(self, body: Optional[bytes]) -> None:
        """Ends the response, with its whole body if nothing was sent yet. Call it after closing the application."""
        self._started()
        exchange = self._exchange
        if body is None or self._bare:
            if not self._begun:
                self._begin()
            if self._sent < self._length and not self._bare:
                raise ValueError(f"the application sent {self._sent} bytes, its content-length says {self._length}")
            exchange.finish()
            return
        if self._length not in (-1, len(body)) and self._status not in _NO_BODY:
            raise ValueError(f"the application sent {len(body)} bytes, its content-length says {self._length}")
        exchange.respond(self._status, KIND_NONE, self._headers, body)

    def _begin(self) -> None:
        self._started()
        self._begun = True
        self._exchange.begin(self._status, KIND_NONE, self._headers)

    def _started(self) -> None:
        if not self._status:
            raise AssertionError("the application answered without calling start_response")

    def _piece(self, data: bytes) -> None:
        if self._bare:
            return
        self._sent += len(data)
        self._count(self._sent)
        self._exchange.send(data)

    def _count(self, sent: int) -> None:
        if 0 <= self._length < sent:
            raise ValueError(f"the application sent more than the {self._length} bytes of its content-length")


def file_part(file: Any) -> Optional[FilePart]:
    """The rest of an open file, behind its position; None for what is no plain file, or short. An object of another type may have a descriptor,
    too, and yet give other bytes, as one that decompresses."""
    raw = file.raw if type(file) in (io.BufferedReader, io.BufferedRandom) else file
    if type(raw) is not io.FileIO or not file.readable():
        return None
    if file is not raw and file.writable():
        file.flush()
    found = os.fstat(raw.fileno())
    offset = file.tell() if stat.S_ISREG(found.st_mode) else found.st_size
    length = found.st_size - offset
    return FilePart(raw.fileno(), offset, length) if length >= FILE_BYTES_MIN else None


def _check(piece: bytes) -> None:
    """Checks a piece before anything is sent, so that an invalid one can still be answered with an error status."""
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise TypeError(f"the application gave a piece of type {type(piece).__name__}, expected bytes")
