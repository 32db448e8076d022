"""Records of the store: JSON objects with a kind and a stable reference, and TQL.

    from forebay.records import records, tql

    reference = records.create({"kind": "Article", "title": "Sample"})
    records.read(reference)["title"]                                     # "Sample"
    tql({"where": ["EQ", "title", "'Sample"], "select": "$ref"})     # {"code": 0, "results": [reference]}
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from ._store.store import Store
from ._store.text import from_json, to_json
from .store import store

__all__ = ["Records", "records", "tql"]

_REPLACE, _PATCH, _DELETE = range(3)
#: Records of a page of a list.
SIZE = 100


class Records:
    """The records of a store; without one, of the server's."""

    def __init__(self, of: Store = store) -> None:
        self._store = of

    def tql(self, statement: Union[Dict[str, Any], str]) -> Any:
        """Executes a statement: a dict in TQL's JSON form, or friendly text (docs/reference/tql.md). Raises `StoreError` with the code `tql_syntax`,
        `tql_meaning`, `already_exists`, `no_record`, `limit` and so on."""
        text = statement if isinstance(statement, str) else to_json(statement).decode()
        return _decoded(self._store._session.write("tql", b"", text))

    def create(self, data: Dict[str, Any]) -> int:
        """Creates a record; returns its reference."""
        return int(_text(self._store._session.write("recordCreate", b"", to_json(data).decode())) or 0)

    def read(self, reference: int, kind: Optional[str] = None) -> Any:
        """A record, None if there is none of that kind."""
        return _decoded(self._store._session.read("recordRead", b"", str(reference), kind))

    def update(self, reference: int, data: Dict[str, Any], kind: Optional[str] = None) -> bool:
        """Replaces a record, which may change its kind; False if there is none."""
        return self._write(_REPLACE, reference, kind, data)

    def patch(self, reference: int, change: Dict[str, Any], kind: Optional[str] = None) -> bool:
        """Applies a merge patch (RFC 7396) to a record: None removes a member. False if there is none."""
        return self._write(_PATCH, reference, kind, change)

    def delete(self, reference: int, kind: Optional[str] = None) -> bool:
        """Deletes a record; False if there is none. Its reference is never used again."""
        return self._write(_DELETE, reference, kind, None)

    def kind_of(self, reference: int) -> Optional[str]:
        """The kind of a record, None if there is none."""
        return _text(self._store._session.read("recordKind", b"", str(reference)))

    def list(self, kind: str, *, after: Optional[int] = None, page: int = 0, size: int = SIZE, full: bool = False) -> List[Any]:
        """A page of references of a kind's records, in order; with `full`, dicts with the records, too."""
        text = self._store._session.read("recordList", b"", kind, None if after is None else str(after), page, size, int(full))
        found: List[Any] = _decoded(text)
        return found

    def _write(self, change: int, reference: int, kind: Optional[str], data: Optional[Dict[str, Any]]) -> bool:
        text = None if data is None else to_json(data).decode()
        return self._store._session.write("recordWrite", b"", change, str(reference), kind, text) == "true"


def _text(result: Optional[str]) -> Optional[str]:
    """The text that an operation returns as JSON."""
    return None if result is None else from_json(result)


def _decoded(result: Optional[str]) -> Any:
    """The value whose JSON text an operation returns."""
    text = _text(result)
    return None if text is None else from_json(text)


#: The records of the server's store.
records = Records()


def tql(statement: Union[Dict[str, Any], str]) -> Any:
    """Executes a statement on the records of the server's store; see `Records.tql`."""
    return records.tql(statement)
