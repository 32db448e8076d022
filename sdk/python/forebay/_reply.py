"""Replies and errors, and the conversion of returned values to replies."""

from __future__ import annotations

import inspect
import json as _json
import re
from typing import Any, AsyncIterable, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._sql.error import SqlError
from ._wire import KIND_BYTES, KIND_JSON, KIND_NONE, KIND_TEXT, header_block

#: Headers of a reply: a mapping (a list as value repeats the header), or pairs.
HeadersLike = Union[Mapping[str, Union[str, int, Sequence[str]]], Iterable[Tuple[str, str]]]

#: A body whose length is known, or the pieces of one.
Body = Union[bytes, Iterable[Any], AsyncIterable[Any]]

#: Longest header block of a reply.
HEADERS_BYTES_MAX = 65_536

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*").fullmatch
_NO_HEADERS: List[Tuple[str, str]] = []
_HALF_PAIR = re.compile("[\ud800-\udfff]")

#: Shared encoder: the format of `JSON.stringify`, but values that JSON cannot represent are rejected.
_write = _json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Reply:
    """A finished answer: status, headers and body. Made by `json`, `text` and `reply`."""

    __slots__ = ("status", "kind", "headers", "body")

    def __init__(self, status: int, kind: int, headers: List[Tuple[str, str]], body: Body) -> None:
        self.status = status
        #: The protocol's number of the content type; 0 if the headers name it.
        self.kind = kind
        #: Pairs of lower-case name and value.
        self.headers = headers
        self.body = body


def to_json(value: Any) -> bytes:
    """JSON without white space, in UTF-8. Raises `TypeError` or `ValueError` for a value that has none."""
    text = _write(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # UTF-8 cannot represent an unpaired surrogate; JSON can, by an escape.
        return _HALF_PAIR.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def json(value: Any, *, status: int = 200, headers: Optional[HeadersLike] = None) -> Reply:
    """Answers with JSON, whatever the value's type:

        return json({"id": id}, status=201, headers={"location": f"/users/{id}"})
    """
    return _made(to_json(value), KIND_JSON, status, headers)


def text(value: str, *, status: int = 200, headers: Optional[HeadersLike] = None) -> Reply:
    """Answers with text, `text/plain; charset=utf-8` unless the headers say otherwise."""
    return _made(str(value).encode(), KIND_TEXT, status, headers)


def reply(value: Any = None, *, status: Optional[int] = None, headers: Optional[HeadersLike] = None) -> Reply:
    """Answers with anything a handler may return, under a status and headers of your choice:

        return reply(png, headers={"content-type": "image/png"})
        return reply(status=303, headers={"location": "/"})
    """
    plain = to_reply(value)
    own = [] if headers is None else header_list(headers)
    names = {name for name, _ in own}
    own.extend(pair for pair in plain.headers if pair[0] not in names)
    kind = KIND_NONE if "content-type" in names else plain.kind
    return Reply(_checked(plain.status if status is None else status), kind, own, plain.body)


class HttpError(Exception):
    """Raise it to answer with a status: the client gets `application/problem+json` (RFC 9457) with the message as `detail`.

        if user is None:
            raise HttpError(404, f"no user {id}")

    `headers` are those of the answer, such as `retry-after`; `extra` are members added to the problem, such as
    `{"field": "email"}`. The status is 400 to 599.
    """

    def __init__(
        self,
        status: int,
        message: Optional[str] = None,
        *,
        headers: Optional[HeadersLike] = None,
        extra: Optional[Mapping[str, Any]] = None,
    ) -> None:
        if isinstance(status, bool) or not isinstance(status, int) or not 400 <= status <= 599:
            raise ValueError(f"the status of an HttpError is 400 to 599, not {status}")
        self.status = status
        self.message = _title(status) if message is None else message
        self.headers = [] if headers is None else header_list(headers)
        self.extra = dict(extra or {})
        super().__init__(self.message)


def error_reply(error: object, request_id: str) -> Reply:
    """The response to an exception: that of an `HttpError` or a database error, otherwise a 500 that does not reveal the cause."""
    status, message, own, extra = 500, "the handler failed", _NO_HEADERS, {}
    if isinstance(error, HttpError):
        status, message, own, extra = error.status, error.message, error.headers, error.extra
    elif isinstance(error, SqlError):
        status, message = error._problem()
        own = [("retry-after", "1")] if status == 503 else []
        told = {"sqlstate": error.code, "constraint": error.constraint} if error._is_state() else {}
        extra = {name: value for name, value in told.items() if value is not None}
    problem = {"type": "about:blank", "title": _title(status), "status": status, "detail": message, "request_id": request_id, **extra}
    return Reply(status, KIND_NONE, [("content-type", "application/problem+json"), *own], to_json(problem))


def is_failure(error: object) -> bool:
    """Whether an exception counts as a failure of the handler, which is logged and counted. Errors caused by clients or by an unreachable
    database are reported elsewhere."""
    if isinstance(error, SqlError):
        status, _ = error._problem()
        return status >= 500 and status != 503
    return not isinstance(error, HttpError)


def to_reply(value: Any) -> Reply:
    """Converts the value that a handler returned to a reply."""
    if value is None:
        return Reply(204, KIND_NONE, [], b"")
    if isinstance(value, Reply):
        return value
    if isinstance(value, str):
        return Reply(200, KIND_TEXT, [], value.encode())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Reply(200, KIND_BYTES, [], bytes(value))
    if isinstance(value, (dict, list, tuple, int, float)):
        return Reply(200, KIND_JSON, [], to_json(value))
    if hasattr(value, "__aiter__") or hasattr(value, "__next__"):
        return Reply(200, KIND_BYTES, [], value)
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the handler returned a coroutine, which is awaited only for handlers that are `async def`")
    return Reply(200, KIND_JSON, [], to_json(value))


def pieces_of(body: Any) -> Iterator[Any]:
    """The pieces of a body, for code that cannot await."""
    if hasattr(body, "__aiter__"):
        raise TypeError("the handler returned an async iterator, which is streamed only for handlers that are `async def`")
    return iter(body)


def to_piece(piece: Any) -> bytes:
    """A piece of a streamed body as bytes."""
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, (bytearray, memoryview)):
        return bytes(piece)
    raise TypeError(f"a body gave a piece of type {type(piece).__name__}; str, bytes, bytearray and memoryview are accepted")


def header_list(headers: HeadersLike) -> List[Tuple[str, str]]:
    """Pairs with lower-case names. Raises `ValueError` for a header that HTTP does not allow."""
    pairs: List[Tuple[str, str]] = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        for single in value if isinstance(value, (list, tuple)) else (str(value),):
            if not _NAME(name):
                raise ValueError(f"{_quoted(name)} is not a header name")
            if not _VALUE(single):
                raise ValueError(f"the value {_quoted(single)} of header {name} has characters HTTP does not allow")
            pairs.append((name.lower(), single))
    size = len(header_block(pairs))
    if size > HEADERS_BYTES_MAX:
        raise ValueError(f"the reply's headers take {size} bytes, at most {HEADERS_BYTES_MAX}")
    return pairs


def _made(body: bytes, kind: int, status: int, headers: Optional[HeadersLike]) -> Reply:
    own = [] if headers is None else header_list(headers)
    typed = any(name == "content-type" for name, _ in own)
    return Reply(_checked(status), KIND_NONE if typed else kind, own, body)


def _checked(status: int) -> int:
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError(f"the status of a reply is 200 to 599, not {status}")
    return status


def _quoted(text: str) -> str:
    return _json.dumps(text, ensure_ascii=False)


#: Not from `http.HTTPStatus`, whose phrases differ between versions of Python.
_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    423: "Locked",
    424: "Failed Dependency",
    425: "Too Early",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    451: "Unavailable For Legal Reasons",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
}


def _title(status: int) -> str:
    return _TITLES.get(status) or f"Status {status}"
