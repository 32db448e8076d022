"""Conversion of parameters and results."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union
from uuid import UUID

from .operations import Json, error_of

#: A row, by column name.
Row = Dict[str, Any]
#: A statement, with or without parameters.
Statement = Union[str, Tuple[str, Sequence[object]]]


class Rows(List[Row]):
    """The rows of a result."""

    #: The number of rows returned or changed.
    count: int  # type: ignore[assignment]  # as in JavaScript; hides `list.count`

    def __init__(self, rows: Iterable[Row], count: int) -> None:
        super().__init__(rows)
        self.count = count


def rows_of(outcome: Json) -> Rows:
    """The rows of a statement. Raises `SqlError` if the statement failed."""
    if "error" in outcome:
        raise error_of(outcome)
    return Rows(with_bytes(outcome), outcome["count"])


def with_bytes(outcome: Json) -> List[Row]:
    """The rows, with their `bytea` columns decoded."""
    rows: List[Row] = outcome["rows"]
    for name in outcome.get("bytea", ()):
        for row in rows:
            row[name] = _bytes(row[name])
    return rows


def _bytes(value: Any) -> Any:
    """Decodes a `bytea` value, or an array of them."""
    if isinstance(value, str):
        return bytes_of(value)
    return [_bytes(one) for one in value] if isinstance(value, list) else value


def bytes_of(text: str) -> bytes:
    """Decodes bytes in the format of the database (manual, 8.4.1)."""
    return bytes.fromhex(text[2:])


def hex_of(value: "Union[bytes, bytearray, memoryview]") -> str:
    return "\\x" + bytes(value).hex()


def wire_statement(text: object, parameters: Sequence[object] = ()) -> List[object]:
    """Encodes a statement with its parameters."""
    if not isinstance(text, str):
        raise TypeError(f"a statement is text, not a {type(text).__name__}")
    return [text, [text_of(value) for value in parameters]]


def text_of(value: object) -> Optional[str]:
    """Encodes a parameter as text; None is null. A list or tuple becomes an array of the database, a dict becomes JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal, UUID)):
        return str(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return hex_of(value)
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(_element(element) for element in value) + "}"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"a parameter is text, a number, a boolean, None, a time, a UUID, bytes, a list or a dict, not a {type(value).__name__}")


def _element(value: object) -> str:
    """Encodes an element of an array (manual, 8.15.6)."""
    text = text_of(value)
    if text is None:
        return "NULL"
    if isinstance(value, (list, tuple)):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
