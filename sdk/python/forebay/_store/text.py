"""Paths and values as the native library takes them."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from struct import Struct
from typing import Any, Iterable, Tuple, Union

from .error import StoreError
from .native import START

#: One step of a path. `1` and `"1"` are the same subscript; `"01"` is a different one. Numbers sort first, by value; then all other texts, by
#: their UTF-8 bytes.
Subscript = Union[str, int, float]
#: The name of a global, then the subscripts.
Path = Tuple[Subscript, ...]

#: Longest subscript, in characters; the store limits the path as a whole.
SUBSCRIPT_MAX = 4_096

_LENGTH = Struct("<H")
_INTEGER = Struct("<Hi")
_DOUBLE = Struct("<Hd")
_EMPTY = bytes(START)
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?")


def subscript(step: object) -> bytes:
    """One step of a path."""
    kind = type(step)
    if kind is str:
        return _text(step)  # type: ignore[arg-type]
    if kind is int:
        if -0x8000_0000 <= step <= 0x7FFF_FFFF:  # type: ignore[operator]
            return _INTEGER.pack(0xFFFE, step)
        return _text(str(step))
    if isinstance(step, float):
        return _DOUBLE.pack(0xFFFF, step)
    if isinstance(step, bool) or not isinstance(step, (str, int)):
        raise StoreError("key", f"a subscript is a str, an int or a float, not {type(step).__name__}")
    return subscript(str(step) if isinstance(step, str) else int(step))


def _text(step: str) -> bytes:
    if len(step) > SUBSCRIPT_MAX:
        raise StoreError("key", f"a subscript has {len(step)} characters (at most {SUBSCRIPT_MAX})")
    text = encoded(step)
    return _LENGTH.pack(len(text)) + text


def encoded(text: str) -> bytes:
    """Text as UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise StoreError("not_text", f"the text {text[:40]!r} has half a surrogate pair") from error


def steps(path: Iterable[object]) -> bytes:
    """A path without the room in front of it."""
    return b"".join([subscript(step) for step in path])


def path(steps_of_path: Iterable[object]) -> bytes:
    """A path, with the room that comes first."""
    return _EMPTY + steps(steps_of_path)


def checked_global(name: object) -> str:
    """The name of a global; the store itself checks its characters."""
    if isinstance(name, str):
        return name
    raise StoreError("key", f"the name of a global is a str, not {type(name).__name__}")


def subscript_text(step: Subscript) -> str:
    """A subscript as the store returns it: a number without an exponent and without a 0 before the point."""
    if not isinstance(step, float):
        return str(step)
    found = _NUMBER.fullmatch(repr(step))
    if found is None:
        return repr(step)
    sign, whole, fraction, exponent = found[1], found[2], found[3] or "", found[4] or "0"
    fraction = fraction.rstrip("0")
    digits = fraction if whole == "0" else whole + fraction
    point = (0 if whole == "0" else len(whole)) + int(exponent)
    if not digits:
        return "0"
    if point <= 0:
        return f"{sign}.{'0' * -point}{digits}"
    return f"{sign}{digits}{'0' * (point - len(digits))}" if point >= len(digits) else f"{sign}{digits[:point]}.{digits[point:]}"


def to_json(value: object) -> bytes:
    """A value as JSON text; rejects what JSON cannot represent."""
    try:
        return encoded(_ENCODER.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError("not_json", f"cannot store {type(value).__name__}: {error}") from error


def _to_plain(value: object) -> object:
    """Dates and times as JavaScript writes them, in ISO 8601."""
    isoformat = getattr(value, "isoformat", None)
    if callable(isoformat):
        return isoformat()
    raise TypeError(f"a {type(value).__name__} is not a JSON value")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_to_plain)
_DECODER = json.JSONDecoder()


def from_json(text: str) -> Any:
    """The value of a JSON text. Whole numbers are ints with all their digits, others floats."""
    try:
        return _DECODER.decode(text)
    except ValueError:
        # An int of more digits than Python converts (sys.set_int_max_str_digits).
        return json.loads(text, parse_int=float)


def number(value: object) -> bytes:
    """A number to increment by, as JSON text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)) or not math.isfinite(value):
        raise StoreError("not_a_number", f"cannot increment by {value!r}")
    return str(value).encode()
