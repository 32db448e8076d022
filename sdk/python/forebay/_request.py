"""Requests as handlers see them, read from the payload of a REQUEST frame."""

from __future__ import annotations

import json as _json
from typing import Any, AsyncIterator, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Tuple
from urllib.parse import unquote, unquote_to_bytes

from ._fields import Fields, Headers
from ._form import Form, read_form
from ._reply import HttpError
from ._wire import HAS_IDENTITY, REQUEST_TABLE, read_identity, read_pairs


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


#: Shared decoder: rejects NaN and the infinities, which Python's accepts but no response can contain.
_read = _json.JSONDecoder(parse_constant=_refuse_constant).decode


class User(NamedTuple):
    """Who a client has proved to be."""

    #: Its name: of the user, the client or the device.
    subject: str
    #: What it has presented: `jwt`, `token`, `password`, `api_key`, `certificate` or `oidc`.
    kind: str
    #: What it may do.
    scopes: List[str]
    #: What else is known of it: the claims of its token that the configuration selects, or the names in its certificate.
    claims: Dict[str, Any]


class BodySource:
    """Supplies the rest of a body that did not arrive with the request."""

    __slots__ = ()

    def read_body(self) -> Optional[bytes]:
        """The next bytes, or None after the last. Raises `OSError` if the client disconnects or the server aborts the request."""
        raise NotImplementedError

    async def read_body_async(self) -> Optional[bytes]:
        """Like `read_body`, for coroutines."""
        raise NotImplementedError


class Head:
    """A request without the methods that read its body. Everything is decoded on first access, so a handler pays only for what it reads."""

    __slots__ = ("_data", "_ends", "_end", "_more", "_taken", "_head", "_params", "_query", "_headers", "_cookies", "_identity", "_user", "_secure")

    def __init__(self, data: bytes, at: int, end: int, more: Optional[BodySource], secure: bool = False) -> None:
        _, method, path, query, route, params, headers, peer, request_id = REQUEST_TABLE.unpack_from(data, at)
        self._data = data
        start = at + REQUEST_TABLE.size
        method += start
        path += method
        query += path
        route += query
        params += route
        headers += params
        peer += headers
        #: The end of each part, which is the start of the next one; the first number is the start of the method.
        end_of_id = peer + (request_id & ~HAS_IDENTITY)
        self._identity, body = read_identity(data, end_of_id, request_id)
        self._ends = (start, method, path, query, route, params, headers, peer, end_of_id, body)
        self._end = end
        self._more = more
        self._secure = secure
        self._taken = False
        #: Method and path, concatenated and decoded as Latin-1, such as `GET/users`: the key of routes without parameters.
        self._head = data[start:path].decode("latin-1")
        self._params: Optional[Dict[str, str]] = None
        self._query: Optional[Fields] = None
        self._headers: Optional[Headers] = None
        self._cookies: Optional[Dict[str, str]] = None
        self._user: Optional[User] = None

    def _part(self, index: int) -> str:
        return self._data[self._ends[index] : self._ends[index + 1]].decode("utf-8", "replace")

    @property
    def method(self) -> str:
        """`GET`, `POST`, ... in upper case, as received."""
        return self._part(0)

    @property
    def path(self) -> str:
        """The path as received: starts with `/`, percent-encoding kept, without the query."""
        return self._part(1)

    @property
    def url(self) -> str:
        """The absolute URL, such as `http://example.org/users/7?full=1`, from the `host` header."""
        query = self._part(2)
        return f"http{'s' if self._secure else ''}://{self.headers.get('host', 'localhost')}{self.path}{'?' if query else ''}{query}"

    @property
    def route(self) -> str:
        """The pattern in `forebay.toml` that led here, such as `/users/*`."""
        return self._part(3)

    @property
    def params(self) -> Dict[str, str]:
        """The values of `:name` and `*name` in the pattern that matched, percent-decoded: those of the app's own pattern when it
        has routed the request, otherwise those of the route in `forebay.toml`."""
        if self._params is None:
            pairs = read_pairs(self._data, self._ends[4], self._ends[5])
            self._params = {name.decode(): value.decode("utf-8", "replace") for name, value in pairs}
        return self._params

    @property
    def query(self) -> Fields:
        """The query: `query.get("page")`, `query.get_all("tag")`. Empty when there is none."""
        if self._query is None:
            self._query = Fields.parsed(self._part(2))
        return self._query

    @property
    def headers(self) -> Headers:
        """The headers; hop-by-hop ones such as `connection` stay in the server."""
        if self._headers is None:
            self._headers = Headers(self._pairs)
        return self._headers

    def _pairs(self) -> Any:
        return read_pairs(self._data, self._ends[5], self._ends[6])

    @property
    def cookies(self) -> Dict[str, str]:
        """The cookies by name, percent-decoded where that is possible; the first of a repeated name counts."""
        if self._cookies is None:
            self._cookies = _read_cookies(self.headers.get("cookie", ""))
        return self._cookies

    @property
    def ip(self) -> str:
        """The client's address, such as `203.0.113.9` or `::1`; empty when it came over a Unix socket."""
        return self._part(6)

    @property
    def id(self) -> str:
        """The request's id: the `x-request-id` it came with, or the one the server gave it. It is in every log line."""
        return self._part(7)

    @property
    def user(self) -> Optional[User]:
        """Who the client has proved to be; None where the route in `forebay.toml` does not ask for that (`auth`). It is not a header, so no
        client can send it."""
        if self._user is None and self._identity:
            known = _json.loads(self._identity)
            self._user = User(known["subject"], known["kind"], known["scopes"], known["claims"])
        return self._user

    def _take(self) -> bytes:
        """Returns the part of the body that arrived with the request, and marks the body as read."""
        if self._taken:
            raise RuntimeError("the body of the request has been read already; it can be read once")
        self._taken = True
        return self._data[self._ends[9] : self._end]

    def _parse(self, text: str) -> Any:
        try:
            return _read(text)
        except (ValueError, RecursionError) as error:
            raise HttpError(400, "the body is not JSON") from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method} {self.url} from {self.ip or 'a Unix socket'}, id {self.id}>"


class Request(Head):
    """An HTTP request, the first argument of a handler.

    A body of up to 64 KiB arrives with the request; a longer one is fetched from the client while it is read, at the reader's pace. The body
    can be read once.
    """

    __slots__ = ()

    def json(self) -> Any:
        """Parses the body as JSON; one that is not JSON is answered with 400."""
        return self._parse(self.text())

    def text(self) -> str:
        """The body as text (UTF-8)."""
        return self.bytes().decode("utf-8", "replace")

    def bytes(self) -> bytes:
        """The body's bytes."""
        return b"".join(self.stream())

    def form(self) -> Form:
        """The fields and files of an `application/x-www-form-urlencoded` or `multipart/form-data` body; another content type is
        answered with 415, a malformed body with 400."""
        return read_form(self.headers.get("content-type", ""), self.bytes())

    def stream(self) -> Iterator[bytes]:  # type: ignore[valid-type]
        """The body piece by piece, with back-pressure up to the client."""
        first = self._take()
        return _whole(first) if self._more is None else _stream(first, self._more)


class AsyncRequest(Head):
    """The first argument of an `async def` handler: like `Request`, with methods to await."""

    __slots__ = ()

    async def json(self) -> Any:
        """Parses the body as JSON; one that is not JSON is answered with 400."""
        return self._parse(await self.text())

    async def text(self) -> str:
        """The body as text (UTF-8)."""
        return (await self.bytes()).decode("utf-8", "replace")

    async def bytes(self) -> bytes:
        """The body's bytes."""
        return b"".join([piece async for piece in self.stream()])

    async def form(self) -> Form:
        """The fields and files of an `application/x-www-form-urlencoded` or `multipart/form-data` body; another content type is
        answered with 415, a malformed body with 400."""
        return read_form(self.headers.get("content-type", ""), await self.bytes())

    def stream(self) -> AsyncIterator[bytes]:  # type: ignore[valid-type]
        """The body piece by piece, with back-pressure up to the client."""
        return _stream_async(self._take(), self._more)


def _whole(first: bytes) -> Iterator[bytes]:
    return iter((first,) if first else ())


def _stream(first: bytes, more: BodySource) -> Iterator[bytes]:
    piece: Optional[bytes] = first or more.read_body()
    while piece is not None:
        yield piece
        piece = more.read_body()


async def _stream_async(first: bytes, more: Optional[BodySource]) -> AsyncIterator[bytes]:
    if first:
        yield first
    if more is not None:
        while True:
            piece = await more.read_body_async()
            if piece is None:
                return
            yield piece


def _read_cookies(header: str) -> Dict[str, str]:
    cookies: Dict[str, str] = {}
    for name, equals, value in (pair.partition("=") for pair in header.split(";")):
        if equals:
            value = value.strip()
            if len(value) > 1 and value.startswith('"') and value.endswith('"'):
                value = value[1:-1]
            cookies.setdefault(name.strip(), _decoded(value))
    return cookies


def _decoded(value: str) -> str:
    try:
        return unquote(value, errors="strict") if "%" in value else value
    except UnicodeDecodeError:
        return value


def decoded_path(raw: bytes, encoded_slashes: bool) -> bytes:
    """Percent-decodes a path, as WSGI and ASGI expect it. Raises `HttpError` 400 for an encoded slash, unless `encoded_slashes` is set.

    The server's routes treat `%2F` as part of a segment. Decoded to a slash, it could bypass a route that protects the path below it.
    """
    if b"%" not in raw:
        return raw
    if not encoded_slashes and b"%2f" in raw.lower():
        raise HttpError(400, 'the path has an encoded slash (%2F), which the application would take for a slash; encoded_slashes = "decode" in the pool lets it')
    return unquote_to_bytes(raw)


def head_of(data: bytes, at: int) -> Tuple[str, str, str]:
    """Method, path and id of a request, for log lines."""
    head = Head(data, at, len(data), None)
    return head.method, head.path, head.id
