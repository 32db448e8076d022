"""Frames of the worker protocol (protocol/PROTOCOL.md, sections 2 to 5): numbers, sizes, and how they are read and written.

Bytes only; nothing here knows a socket.
"""

from __future__ import annotations

from struct import Struct
from typing import Iterable, List, Tuple

PROTOCOL = 1
FRAME_PAYLOAD_MAX = 1_048_576

HELLO = 0x01
INIT = 0x02
READY = 0x03
FAILED = 0x04
DRAIN = 0x05
LOG = 0x06
REQUEST = 0x10
BODY = 0x11
WINDOW = 0x12
ABORT = 0x13
RESET = 0x14
RESPONSE = 0x20
UPGRADE = 0x30
MESSAGE = 0x31
CLOSE = 0x32
JOIN = 0x33
LEAVE = 0x34
PUBLISH = 0x35
CALL = 0x40
RETURN = 0x41

#: On REQUEST, BODY, RESPONSE, CALL and RETURN: this frame ends the body.
END = 0x01
#: On RESPONSE: the handler failed. On RETURN: the call failed.
FAULT = 0x02
#: On RESPONSE: the body is a part of a file, whose descriptor comes with the frame.
FILE = 0x08
#: On REQUEST: the payload ends with four bytes about the client's connection, the third of which is 1 if the client speaks TLS.
CONNECTION = 0x10
CONNECTION_BYTES = 4
#: On RESPONSE: the job leaves its slot. On UPGRADE: the server speaks WebSocket with the client. On MESSAGE and PUBLISH: the message is text.
DETACHED = WEBSOCKET = TEXT = 0x04
#: The slot of frames about a job that has left its own.
DETACHED_SLOT = 4_096

KIND_NONE = 0
KIND_JSON = 1
KIND_TEXT = 2
KIND_BYTES = 3
#: Content types that a RESPONSE names by number; the index is the number.
CONTENT_TYPES = (
    None,
    "application/json",
    "text/plain; charset=utf-8",
    "application/octet-stream",
    "text/html; charset=utf-8",
)

#: length, type, flags, generation, job, slot
HEADER = Struct("<IBBHII")
HEADER_BYTES = HEADER.size
#: Milliseconds left, then the lengths of method, path, query, route, params, headers, peer and id.
REQUEST_TABLE = Struct("<9I")
#: Set in the length of the id: the identity of the client follows it, behind its length.
HAS_IDENTITY = 0x8000_0000
#: Status, kind of content, 0, microseconds, length of the headers.
RESPONSE_TABLE = Struct("<HBBII")
RESPONSE_HEAD = Struct("<IBBHIIHBBII")
PAIR = Struct("<II")
U16 = Struct("<H")
U32 = Struct("<I")
#: Offset and length of the part of a file that is a body.
FILE_PART = Struct("<QQ")

#: Names and values of headers, as text.
Pairs = Iterable[Tuple[str, str]]


def frame(kind: int, flags: int, generation: int, job: int, slot: int, payload: bytes = b"") -> bytes:
    """Encodes a frame."""
    return HEADER.pack(len(payload), kind, flags, generation, job, slot) + payload


def read_pairs(data: bytes, at: int, end: int) -> List[Tuple[bytes, bytes]]:
    """Decodes a pair block (section 4)."""
    pairs = []
    unpack = PAIR.unpack_from
    while at < end:
        name, value = unpack(data, at)
        at += 8
        pairs.append((data[at : at + name], data[at + name : at + name + value]))
        at += name + value
    return pairs


def read_identity(data: bytes, at: int, id_length: int) -> Tuple[bytes, int]:
    """The identity behind an id that ends at `at`, as JSON, and where the body begins. `id_length` is the one of the table."""
    if id_length < HAS_IDENTITY:
        return b"", at
    at += 4
    end = at + U32.unpack_from(data, at - 4)[0]
    return data[at:end], end


def pair_block(pairs: Iterable[Tuple[bytes, bytes]]) -> bytes:
    """Encodes pairs as a pair block."""
    return b"".join([PAIR.pack(len(name), len(value)) + name + value for name, value in pairs])


def header_block(headers: Pairs) -> bytes:
    """Encodes headers, whose characters are all below U+0100, as a pair block."""
    return pair_block([(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers])


def response(
    flags: int,
    generation: int,
    job: int,
    slot: int,
    status: int,
    kind: int,
    micros: int,
    headers: bytes,
    body: bytes,
    frame_type: int = RESPONSE,
) -> bytes:
    """Encodes a RESPONSE or UPGRADE frame; `micros` is the run time of the handler, `headers` a pair block."""
    block = len(headers)
    head = RESPONSE_HEAD.pack(
        12 + block + len(body), frame_type, flags, generation, job, slot, status, kind, 0, micros, block
    )
    return b"".join((head, headers, body)) if block else head + body


def request_payload(
    *,
    method: str,
    path: str,
    query: str = "",
    route: str = "/*",
    params: Pairs = (),
    headers: Pairs = (),
    peer: str = "127.0.0.1",
    request_id: str = "",
    identity: str = "",
    body: bytes = b"",
    remaining_ms: int = 0,
) -> bytes:
    """Encodes the payload of a REQUEST frame, as the server does."""
    parts = [
        method.encode(),
        path.encode(),
        query.encode(),
        route.encode(),
        pair_block([(name.encode(), value.encode()) for name, value in params]),
        header_block(headers),
        peer.encode(),
        request_id.encode(),
    ]
    lengths = [*map(len, parts)]
    if identity:
        lengths[-1] |= HAS_IDENTITY
        parts += [U32.pack(len(identity.encode())), identity.encode()]
    return b"".join([REQUEST_TABLE.pack(remaining_ms, *lengths), *parts, body])
