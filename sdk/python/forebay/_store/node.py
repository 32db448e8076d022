"""A place in the tree."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple, Union

from .error import StoreError
from .native import START
from .text import Path, Subscript, encoded, from_json, number, path, steps, subscript, subscript_text, to_json

if TYPE_CHECKING:
    from .store import Store

#: Children are read in pages, which grow from the first size to the second.
_PAGE_FIRST, _PAGE_MAX = 32, 1_024
_REVERSE, _WITH_VALUES = 1, 2


class StoreNode:
    """A location in the tree: the name of a global and any number of subscripts. It need not exist; creating the object does not access the
    store.

        person = store.node("Person", "data", 7)
        person.set({"firstName": "Ada", "tags": ["x", "y"]})
        person.get("firstName")            # "Ada"
        person.at("tags", 0).value         # "x"
        for member in person:
            print(member.key, member.value)

    Reads see the latest commit of any process, and inside a transaction its own writes. Each write outside of a transaction is a transaction of its
    own.
    """

    __slots__ = ("store", "path", "_place")

    def __init__(self, store: "Store", path_of_node: Path) -> None:
        #: The store that contains the node.
        self.store = store
        #: The name of the global, then the subscripts.
        self.path = path_of_node
        self._place = path(path_of_node)

    def __repr__(self) -> str:
        below = ",".join(to_json(step).decode() if isinstance(step, str) else subscript_text(step) for step in self.path[1:])
        return f"<StoreNode ^{self.path[0]}{f'({below})' if below else ''}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreNode) and other.store is self.store and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def key(self) -> str:
        """The last subscript as text; for the root of a global, its name."""
        return subscript_text(self.path[-1])

    @property
    def parent(self) -> "Optional[StoreNode]":
        """The parent node; None for the root of a global."""
        return StoreNode(self.store, self.path[:-1]) if len(self.path) > 1 else None

    def at(self, *subscripts: Subscript) -> "StoreNode":
        """The descendant at these subscripts."""
        return StoreNode(self.store, (*self.path, *subscripts))

    def get(self, *subscripts: Subscript, default: Any = None) -> Any:
        """The value of the node, or of a descendant at these subscripts: its own value if it has one, otherwise the document of its children;
        `default` if it does not exist."""
        place = self._place + steps(subscripts)
        text = self.store._session.read("get", place, len(place))
        return default if text is None else from_json(text)

    def set(self, *subscripts_and_value: Any) -> None:
        """Sets the value of the node, or of a descendant at the subscripts in front of the value. A str, number, bool or None leaves the children
        unchanged; a dict, list or tuple replaces the whole subtree. Dates and times become text in ISO 8601; other values that JSON cannot
        represent are rejected (`not_json`)."""
        if not subscripts_and_value:
            raise StoreError("not_json", "there is no value to set")
        *subscripts, value = subscripts_and_value
        self._write("set", self._place + steps(subscripts), to_json(value))

    @property
    def value(self) -> Any:
        """`get` and `set` as a property."""
        return self.get()

    @value.setter
    def value(self, value: Any) -> None:
        self.set(value)

    @property
    def own_value(self) -> Any:
        """The node's own value, None if it has only children."""
        text = self._read("value")
        return None if text is None else from_json(text)

    @property
    def document(self) -> Any:
        """The whole subtree as one value: dicts and lists as they were written, members in the order of subscripts; None if the node does not exist.
        If a node has both children and a value, the value is not included. Setting it replaces the subtree."""
        text = self.json
        return None if text is None else from_json(text)

    @document.setter
    def document(self, document: Any) -> None:
        self._write("put", self._place, to_json(document))

    @property
    def json(self) -> Optional[str]:
        """The subtree as canonical JSON text, in which numbers keep all the digits they were written with. Setting it replaces the subtree."""
        text = self._read("document")
        return None if text is None else from_json(text)

    @json.setter
    def json(self, text: str) -> None:
        if not isinstance(text, str):
            raise StoreError("json", f"JSON text is a str, not {type(text).__name__}")
        self._write("put", self._place, encoded(text))

    def lay_over(self, document: Any) -> None:
        """Merges a document into the subtree: its values replace those at the same subscripts, all others stay."""
        self._write("layOver", self._place, to_json(document))

    def patch(self, patch: Any) -> None:
        """Applies a JSON Merge Patch (RFC 7396): None removes a member, dicts are merged recursively, anything else replaces."""
        self._write("patch", self._place, to_json(patch))

    def delete(self) -> bool:
        """Deletes the subtree; returns whether it existed. Parents that existed only because of it disappear too. M's `KILL`."""
        return self.store._session.write("kill", self._place, len(self._place)) == "true"

    def increment(self, by: Union[int, float, Decimal] = 1) -> Any:
        """Adds to the node's value (0 if it has none) and returns the sum; atomic across processes. Sums are decimal and exact: 0.1 + 0.2 is 0.3. A
        whole sum is an int, another a float; with a Decimal the sum is a Decimal."""
        area = self._place + number(by)
        text: str = from_json(self.store._session.write("increment", area, len(self._place), len(area)) or '"0"')
        return Decimal(text) if isinstance(by, Decimal) else from_json(text)

    def merge(self, other: "StoreNode") -> None:
        """Merges another subtree into this one: its values replace those at the same subscripts, all others stay."""
        if other.store is not self.store:
            raise StoreError("unsupported", "cannot merge from another store")
        area = self._place + other._place[START:]
        self.store._session.write("merge", area, len(self._place), len(area))

    def expire(self, at: Union[datetime, float, None]) -> bool:
        """Sets the time at which the node and its subtree expire, as a datetime or in seconds since 1970; None cancels that, as does overwriting the
        whole node. The node disappears within about a second of that time, while the server, or a program without one, has the store open.
        Returns whether the node exists."""
        seconds = -1.0 if at is None else max(0.0, at.timestamp() if isinstance(at, datetime) else float(at))
        return self.store._session.write("expire", self._place, len(self._place), -1 if at is None else int(seconds * 1_000)) == "true"

    @property
    def expires(self) -> Optional[datetime]:
        """When the node expires; None if never."""
        text = self._read("expires")
        return None if text is None else datetime.fromtimestamp(int(text) / 1_000, timezone.utc)

    def defined(self) -> int:
        """0: no data, 1: a value, 10: children, 11: both. M's `$DATA`."""
        return int(self._read("defined") or 0)

    @property
    def exists(self) -> bool:
        """Whether the node has a value or children."""
        return self.defined() != 0

    @property
    def has_value(self) -> bool:
        """Whether the node has its own value, which may be `{}` or `[]`."""
        return self.defined() % 10 == 1

    @property
    def has_children(self) -> bool:
        """Whether the node has children."""
        return self.defined() >= 10

    @property
    def is_array(self) -> bool:
        """Whether the node is an array, even an empty one."""
        return self._read("isArray") == "true"

    def lock(self, timeout: Optional[float] = None) -> bool:
        """Locks the node for this thread: others that lock it, or a node above or below it, wait. The lock is advisory: it does not affect reads and
        writes. It is reentrant, and ends with the process, however that ends. Returns whether it was acquired within `timeout` seconds, for which this
        thread blocks; without limit by default."""
        session = self.store._session
        until = None if timeout is None else time.monotonic() + max(0.0, timeout)
        while True:
            # In pieces, so that a signal can interrupt the wait.
            left = 0.1 if until is None else min(0.1, max(0.0, until - time.monotonic()))
            if session.write("lock", self._place, len(self._place), left * 1_000) == "true":
                return True
            if until is not None and time.monotonic() >= until:
                return False

    def unlock(self) -> bool:
        """Releases one `lock`; returns whether there was one."""
        return self.store._session.write("unlock", self._place, len(self._place)) == "true"

    def next(self, after: Optional[Subscript] = None) -> Optional[str]:
        """The subscript of the first child after the given one, which need not exist; without an argument, of the first child."""
        return self._neighbour("next", after)

    def previous(self, before: Optional[Subscript] = None) -> Optional[str]:
        """The subscript of the last child before the given one, which need not exist; without an argument, of the last child."""
        return self._neighbour("previous", before)

    def _neighbour(self, operation: str, seed: Optional[Subscript]) -> Optional[str]:
        area = self._place if seed is None else self._place + subscript(seed)
        text = self.store._session.read(operation, area, len(self._place), len(area))
        return None if text is None else from_json(text)

    def __iter__(self) -> "Iterator[StoreNode]":
        """`children` without a range."""
        return self.children()

    def children(self, **bounds: Any) -> "Iterator[StoreNode]":
        """The children, in the order of subscripts. Bounds are subscripts that need not exist: `from_` and `to` (inclusive), `after` and `before`
        (exclusive), `prefix` (texts that begin so; numbers are no texts), `reverse` and `limit`. They are read in pages: concurrent writes may
        or may not be visible, but each child appears at most once. Inside a snapshot or transaction, all come from one state."""
        return (self.at(key) for key in self.keys(**bounds))

    def keys(self, **bounds: Any) -> Iterator[str]:
        """The children's subscripts as text; bounds as for `children`."""
        for page in self._pages(0, **bounds):
            yield from page

    def items(self, **bounds: Any) -> Iterator[Tuple[str, Any]]:
        """The children's subscripts and values, as from `get`; bounds as for `children`."""
        for page in self._pages(_WITH_VALUES, **bounds):
            yield from zip(page[::2], page[1::2])

    def values(self, **bounds: Any) -> Iterator[Any]:
        """The children's values, as from `get`; bounds as for `children`."""
        for page in self._pages(_WITH_VALUES, **bounds):
            yield from page[1::2]

    def leaves(self) -> Iterator[Tuple[List[str], Any]]:
        """All nodes of the subtree that have a value, depth first: the subscripts relative to this node, and the value. Dicts and lists are visited
        member by member; only `{}` and `[]` appear as values."""
        after: Optional[List[str]] = None
        limit = _PAGE_FIRST
        while True:
            session = self.store._session
            area = self._place if after is None else self._place + self._place[START:] + steps(after)
            page = from_json(session.read("values", area, len(self._place), len(area), limit) or "[]")
            more = len(page) == limit * 2 or session.read("more", b"") == "true"
            yield from zip(page[::2], page[1::2])
            if not more:
                return
            after = page[-2]
            limit = min(limit * 4, _PAGE_MAX)

    def _pages(
        self,
        flags: int,
        *,
        from_: Optional[Subscript] = None,
        after: Optional[Subscript] = None,
        to: Optional[Subscript] = None,
        before: Optional[Subscript] = None,
        prefix: Optional[str] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
    ) -> Iterator[List[Any]]:
        width = 2 if flags & _WITH_VALUES else 1
        size = _PAGE_FIRST
        while limit is None or limit > 0:
            count = size if limit is None else min(size, limit)
            area = self._place
            ends = []
            for bound in (from_, after, to, before, prefix or None):
                if bound is not None:
                    area += subscript(bound)
                ends.append(len(area))
            session = self.store._session
            found = session.read("children", area, len(self._place), *ends, flags | (_REVERSE if reverse else 0), count)
            page = from_json(found or "[]")
            more = len(page) == count * width or session.read("more", b"") == "true"
            yield page
            if not more:
                return
            if reverse:
                before = page[-width]
            else:
                after = page[-width]
            if limit is not None:
                limit -= len(page) // width
            size = min(size * 4, _PAGE_MAX)

    def _read(self, operation: str) -> Optional[str]:
        return self.store._session.read(operation, self._place, len(self._place))

    def _write(self, operation: str, place: bytes, text: bytes) -> None:
        area = place + text
        self.store._session.write(operation, area, len(place), len(area), None)
