"""A store, its transactions and its indexes."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, TypeVar, Union, overload

from .error import StoreError
from .native import START, Session
from .node import StoreNode
from .text import Subscript, checked_global, from_json, path, subscript, subscript_text, to_json

R = TypeVar("R")

DURABILITIES = {"sync": 0, "group": 1, "relaxed": 2}
#: Stands for the store's own durability.
USUAL = -1
_GLOBALS_PAGE = 256
_PAGE_FIRST, _PAGE_MAX = 64, 1_024
_REVERSE, _WITHOUT_FROM, _WITHOUT_TO = 1, 2, 4

#: A value that can be indexed.
Scalar = Union[None, bool, int, float, str]


class StoreStats(NamedTuple):
    """Statistics of a store."""

    #: Size of the file, in bytes.
    file_bytes: int
    #: Maximum size of the file, in bytes.
    map_max: int
    page_bytes: int
    #: The number of the last commit of any process.
    last_commit: int
    #: Reader slots in use, over all processes.
    readers: int
    #: Data that is only in the log until the next checkpoint, in bytes of the tree's file.
    not_checkpointed_bytes: int
    #: The last commit that this process knows to be flushed to disk.
    flushed_commit: int


class IndexDefinition(NamedTuple):
    """The definition of an index; see `Store.define_index`."""

    name: str
    records: StoreNode
    fields: List[List[str]]
    unique: bool


class Store:
    """A tree of JSON values in a folder, open in many processes at the same time. A read is a function call that takes some microseconds, not a
    network request.

        from forebay.store import store

        store.set("Person", 7, {"firstName": "Ada"})
        store.get("Person", 7, "firstName")              # "Ada"
        with store.transaction():
            id = store.node("Person", "nextId").increment()
            store.set("Person", id, {"firstName": "Grace"})

    All threads may use it; each has its own transactions, snapshots and locks.
    """

    def __init__(self, opener: Callable[[], Session]) -> None:
        self._opener = opener
        self._local = threading.local()

    @property
    def _session(self) -> Session:
        session: Optional[Session] = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = self._opener()
        return session

    @property
    def path(self) -> str:
        """The path of the store's folder."""
        return self._session.path

    def node(self, name: str, *subscripts: Subscript) -> StoreNode:
        """A node of the tree, which need not exist. Names of globals consist of letters, digits and any of `%._-`."""
        return StoreNode(self, (checked_global(name), *subscripts))

    def get(self, name: str, *subscripts: Subscript, default: Any = None) -> Any:
        """The value of a node; see `StoreNode.get`."""
        place = path((checked_global(name), *subscripts))
        text = self._session.read("get", place, len(place))
        return default if text is None else from_json(text)

    def set(self, name: str, *subscripts_and_value: Any) -> None:
        """Sets the value of a node; see `StoreNode.set`."""
        if not subscripts_and_value:
            raise StoreError("not_json", "there is no value to set")
        *subscripts, value = subscripts_and_value
        place = path((checked_global(name), *subscripts))
        area = place + to_json(value)
        self._session.write("set", area, len(place), len(area), None)

    def delete(self, name: str, *subscripts: Subscript) -> bool:
        """Deletes a node and its subtree; returns whether it existed. See `StoreNode.delete`."""
        return self.node(name, *subscripts).delete()

    @overload
    def transaction(self, work: Callable[[], R], *, durability: Optional[str] = None) -> R: ...

    @overload
    def transaction(self, *, durability: Optional[str] = None) -> "Transaction": ...

    def transaction(self, work: Optional[Callable[[], Any]] = None, *, durability: Optional[str] = None) -> Any:
        """A transaction: others see all of its writes or none, and no one else writes meanwhile. It waits for other writers first, so it never has to
        be repeated.

            with store.transaction(): ...            # what is inside

            @store.transaction()                     # each call of a function
            def transfer(amount): ...

            total = store.transaction(lambda: ...)   # this call

        An exception rolls everything back. A transaction inside another one is part of it: if it fails, the outer one cannot be committed any more.
        The code inside must not await, because others would then be part of it or wait for it: a coroutine that does loses the transaction
        (`async_transaction`). `durability` says when the commit returns: `sync` after a flush of its own, `group` after the next flush, which it
        shares with others, `relaxed` at once; by default as the store is configured. In a worker a `group` commit returns at once, too, and the
        server waits for the disk before it sends the response.
        """
        transaction = Transaction(self, _durability(durability))
        return transaction if work is None else transaction(work)()

    def snapshot(self) -> "Snapshot":
        """Reads inside of `with store.snapshot():` all see the same state, whatever others write meanwhile. Writes are rejected there."""
        return Snapshot(self)

    def globals(self, from_: str = "") -> Iterator[str]:
        """The names of non-empty globals in byte order, starting at `from_`."""
        after = 0
        while True:
            place = path([from_]) if from_ else bytes(START)
            names = from_json(self._session.read("globals", place, len(place), after, _GLOBALS_PAGE) or "[]")
            yield from names
            if len(names) < _GLOBALS_PAGE:
                return
            from_, after = names[-1], 1

    def define_index(self, name: str, records: StoreNode, fields: Sequence[Union[str, Sequence[str]]], *, unique: bool = False) -> None:
        """Defines an index over all present and future children of a node, maintained in the transactions that change them. Defining the same index
        again has no effect.

            store.define_index("by_city", store.node("Person"), ["city", "born"])
            for person in store.query("by_city", equal="London", from_=1800, to=1899): print(person.key)

        Fields are paths inside a record, up to eight: `"city"`, or `["address", "city"]`; one of their steps may be `*`, for every element of an
        array. A record is in the index if it has a scalar in every field.
        """
        paths = [[field] if isinstance(field, str) else list(field) for field in fields]
        known = {"name": name, "records": [subscript_text(step) for step in records.path], "fields": paths, "unique": unique}
        self._session.write("defineIndex", b"", to_json(known).decode())

    def drop_index(self, name: str) -> bool:
        """Drops an index; returns whether it existed."""
        place = path([name])
        return self._session.write("dropIndex", place, len(place)) == "true"

    def indexes(self) -> List[IndexDefinition]:
        """The definitions of all indexes."""
        known = [from_json(text) for text in from_json(self._session.read("indexes", b"") or "[]")]
        return [IndexDefinition(each["name"], self.node(*each["records"]), each["fields"], each["unique"]) for each in known]

    def query(
        self,
        index: str,
        *,
        equal: Union[Scalar, Sequence[Scalar]] = (),
        reverse: bool = False,
        limit: Optional[int] = None,
        **bounds: Scalar,
    ) -> Iterator[StoreNode]:
        """The records that match a query, in the order of the index. `equal` is the value of the first field, or values of the first fields; `from_`
        and `to` (inclusive), `after` and `before` (exclusive) are bounds of the next one. Values sort as null, false, true, numbers by value, texts
        by their bytes. The records are read in pages: each appears once, whatever happens to others meanwhile; a record whose own values change
        meanwhile may appear again later on, or not at all. Inside a snapshot, all come from one state."""
        unknown = bounds.keys() - {"from_", "after", "to", "before"}
        if unknown:
            raise TypeError(f"query() has no {unknown.pop()!r}")
        if {"from_", "after"} <= bounds.keys() or {"to", "before"} <= bounds.keys():
            raise StoreError("index", "a query has one lower and one upper bound: `from_` or `after`, `to` or `before`")
        area = path([index])
        ends = [len(area)]
        for value in equal if isinstance(equal, (list, tuple)) else [equal]:
            area += _scalar(value)
        ends.append(len(area))
        for names in (("from_", "after"), ("to", "before")):
            for name in names:
                if name in bounds:
                    area += _scalar(bounds[name])
            ends.append(len(area))
        flags = (_REVERSE if reverse else 0) | (_WITHOUT_FROM if "after" in bounds else 0) | (_WITHOUT_TO if "before" in bounds else 0)
        return self._matches(area, ends, flags, limit)

    def _matches(self, area: bytes, ends: List[int], flags: int, limit: Optional[int]) -> Iterator[StoreNode]:
        place = b""
        size = _PAGE_FIRST
        while limit is None or limit > 0:
            count = size if limit is None else min(size, limit)
            session = self._session
            found = session.read("query", area + place, *ends, len(area) + len(place), flags, count)
            records, reached, keys = from_json(found or "[]")
            more = len(keys) == count or session.read("more", b"") == "true"
            parent = self.node(*records)
            for key in keys:
                yield parent.at(key)
            if not more:
                return
            place = reached.encode("latin-1")
            size = min(size * 4, _PAGE_MAX)
            if limit is not None:
                limit -= len(keys)

    def unlock_all(self) -> None:
        """Releases all locks of this thread."""
        self._session.write("unlockAll", b"")

    def flush(self) -> None:
        """Makes all commits made before the call durable, those of other processes included."""
        self._session.write("flush", b"")

    def stats(self) -> StoreStats:
        """Statistics of the store."""
        return StoreStats(*from_json(self._session.read("stats", b"") or "[]"))

    def close(self) -> None:
        """Closes the store in this thread; its next use opens it again. Not allowed inside a transaction or a snapshot."""
        session: Optional[Session] = getattr(self._local, "session", None)
        if session is not None:
            session.write("close", b"")
            session.close()
            self._local.session = None


class Transaction:
    """A transaction of one block, or of each call of a function; see `Store.transaction`."""

    def __init__(self, store: Store, durability: int) -> None:
        self._store = store
        self._durability = durability
        self._levels: List[int] = []

    def __enter__(self) -> Store:
        self._levels.append(self._store._session.begin())
        return self._store

    def __exit__(self, kind: object, *error: object) -> None:
        session, level = self._store._session, self._levels.pop()
        reached = session.level()
        if kind is None and reached == level:
            session.commit(self._durability)
            return
        session.roll_back(min(level - 1, reached))
        if kind is None and reached > level:
            raise StoreError("aborted", "a transaction that began inside this one was not ended")
        if kind is None:
            raise StoreError("async_transaction", "the transaction was rolled back, because the code inside of it awaited something")

    def __call__(self, work: Callable[..., R]) -> Callable[..., R]:
        if inspect.iscoroutinefunction(work) or inspect.isgeneratorfunction(work):
            raise StoreError("async_transaction", "the function of a transaction is a plain one: not `async`, and no generator")

        @functools.wraps(work)
        def run(*arguments: Any, **named: Any) -> R:
            with Transaction(self._store, self._durability):
                return work(*arguments, **named)

        return run


class Snapshot:
    """One state of the store, for the reads of a block; see `Store.snapshot`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Store:
        self._store._session.write("beginSnapshot", b"")
        return self._store

    def __exit__(self, *error: object) -> None:
        self._store._session.write("endSnapshot", b"")


def _durability(durability: Optional[str]) -> int:
    if durability is None:
        return USUAL
    if durability not in DURABILITIES:
        raise StoreError("unsupported", f"the durability is sync, group or relaxed, not {durability!r}")
    return DURABILITIES[durability]


def _scalar(value: object) -> bytes:
    """A value of an index, as JSON text in the form of a subscript."""
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise StoreError("index", "only scalars are in an index")
    text = to_json(value).decode()
    return subscript(text)
