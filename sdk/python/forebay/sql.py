"""Databases of PostgreSQL, by their names in the configuration:

    from forebay.sql import sql

    user = sql.main.row("select id, name from users where id = $1", [id])
    user = await sql.main.arow("select id, name from users where id = $1", [id])

Parameters are `$1`, `$2` and so on. Numbers of the type `numeric`, and integers beyond 2**53 - 1, are strings, so that they lose no digits; times are strings by ISO
8601, `bytea` is `bytes`. The statements run on the server's connections; a handler of a pool reaches those databases that the pool's `sql` names.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, AsyncIterator, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union
from uuid import UUID

from ._calls import calls, url_of
from ._sql.error import SqlError

__all__ = ["Database", "Queries", "Row", "Rows", "SqlError", "Transaction", "sql"]

ISOLATIONS = ("read committed", "repeatable read", "serializable")

#: A row by the names of its columns.
Row = Dict[str, Any]
#: A statement, with its parameters or without.
Statement = Union[str, Tuple[str, Sequence[object]]]


class Rows(List[Row]):
    """The rows of a result."""

    #: How many rows the statement gave or changed.
    count: int  # type: ignore[assignment]  # as in JavaScript; whoever counts equal rows has `list.count(rows, row)`

    def __init__(self, rows: Iterable[Row], count: int) -> None:
        super().__init__(rows)
        self.count = count


class Queries:
    """What a database and a transaction have in common. The methods that begin with `a` are for coroutines."""

    __slots__ = ("_place",)

    def __init__(self, place: Dict[str, Any]) -> None:
        self._place = place

    def query(self, text: str, parameters: Sequence[object] = ()) -> Rows:
        """Runs a statement; raises `SqlError`."""
        return self.pipeline([(text, parameters)])[0]

    def row(self, text: str, parameters: Sequence[object] = ()) -> Optional[Row]:
        """The first row, or None."""
        return _first(self.query(text, parameters))

    def value(self, text: str, parameters: Sequence[object] = ()) -> Any:
        """The first value of the first row, or None."""
        return _value(self.query(text, parameters))

    def pipeline(self, statements: Iterable[Statement]) -> List[Rows]:
        """Runs statements that are sent together, without waiting for each other; gives their results in order. Each is one of its own: an error of one, which this
        raises when all have ended, undoes none of the others."""
        operation = self._operation(statements)
        return _results(_ask(operation)) if operation["statements"] else []

    async def aquery(self, text: str, parameters: Sequence[object] = ()) -> Rows:
        """As `query`."""
        return (await self.apipeline([(text, parameters)]))[0]

    async def arow(self, text: str, parameters: Sequence[object] = ()) -> Optional[Row]:
        """As `row`."""
        return _first(await self.aquery(text, parameters))

    async def avalue(self, text: str, parameters: Sequence[object] = ()) -> Any:
        """As `value`."""
        return _value(await self.aquery(text, parameters))

    async def apipeline(self, statements: Iterable[Statement]) -> List[Rows]:
        """As `pipeline`."""
        operation = self._operation(statements)
        return _results(await _aask(operation)) if operation["statements"] else []

    def _operation(self, statements: Iterable[Statement]) -> Dict[str, Any]:
        written = []
        for statement in statements:
            text, parameters = (statement, ()) if isinstance(statement, str) else statement
            written.append([text, [text_of(value) for value in parameters]])
        return {"op": "statements", **self._place, "statements": written}


class Database(Queries):
    """A database."""

    __slots__ = ()

    @property
    def url(self) -> Optional[str]:
        """Where to connect with a client of one's own, of a database with `direct = true`; None: the server connects."""
        return url_of(self._place["source"])

    @contextmanager
    def tx(self, isolation: Optional[str] = None, read_only: bool = False) -> Iterator["Transaction"]:
        """A transaction, on a connection of its own: committed when the block ends, undone when it raises.

            with sql.main.tx() as t:
                t.query("update accounts set balance = balance - $1 where id = $2", [amount, sender])

        `isolation` is "read committed", "repeatable read" or "serializable"."""
        place = self._begun(_done(_ask(self._begin(isolation, read_only))))
        try:
            yield Transaction(place)
        except BaseException:
            with suppress(SqlError):
                _done(_ask({"op": "rollback", **place}))
            raise
        _done(_ask({"op": "commit", **place}))

    @asynccontextmanager
    async def atx(self, isolation: Optional[str] = None, read_only: bool = False) -> AsyncIterator["Transaction"]:
        """As `tx`, for `async with`."""
        place = self._begun(_done(await _aask(self._begin(isolation, read_only))))
        try:
            yield Transaction(place)
        except BaseException:
            with suppress(SqlError):
                _done(await _aask({"op": "rollback", **place}))
            raise
        _done(await _aask({"op": "commit", **place}))

    def _begin(self, isolation: Optional[str], read_only: bool) -> Dict[str, Any]:
        if isolation is not None and isolation not in ISOLATIONS:
            raise ValueError(f"the isolation of a transaction is one of {', '.join(ISOLATIONS)}, not {isolation!r}")
        wanted = {} if isolation is None else {"isolation": isolation}
        return {"op": "begin", **self._place, **wanted, "read_only": read_only}

    def _begun(self, outcome: Dict[str, Any]) -> Dict[str, Any]:
        return {**self._place, "transaction": outcome["transaction"]}


class Transaction(Queries):
    """A transaction that is open."""

    __slots__ = ()

    @contextmanager
    def tx(self) -> Iterator["Transaction"]:
        """A savepoint: what the block did is undone when it raises, and the transaction can go on."""
        place = {**self._place, **_done(_ask({"op": "savepoint", **self._place}))}
        try:
            yield self
        except BaseException:
            with suppress(SqlError):
                _done(_ask({"op": "rollback_to", **place}))
            raise
        _done(_ask({"op": "release", **place}))

    @asynccontextmanager
    async def atx(self) -> AsyncIterator["Transaction"]:
        """As `tx`, for `async with`."""
        place = {**self._place, **_done(await _aask({"op": "savepoint", **self._place}))}
        try:
            yield self
        except BaseException:
            with suppress(SqlError):
                _done(await _aask({"op": "rollback_to", **place}))
            raise
        _done(await _aask({"op": "release", **place}))


class Databases:
    """The databases by the NAMEs of `[sql.NAME]`: `sql.main`, or `sql["main"]` for a name that is no identifier."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Database:
        if name.startswith("__"):
            raise AttributeError(name)
        return Database({"source": name})

    def __getitem__(self, name: str) -> Database:
        return Database({"source": name})


#: The databases of this server.
sql = Databases()


def text_of(value: object) -> Optional[str]:
    """A parameter as the database reads it; None is null. A list or tuple is one of the database's arrays, a dict is JSON."""
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
        return "\\x" + bytes(value).hex()
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(_element(element) for element in value) + "}"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"a parameter is text, a number, a boolean, None, a time, a UUID, bytes, a list or a dict, not a {type(value).__name__}")


def _element(value: object) -> str:
    """An element of an array (manual, 8.15.6)."""
    text = text_of(value)
    if text is None:
        return "NULL"
    if isinstance(value, (list, tuple)):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _ask(operation: Dict[str, Any]) -> Any:
    """Has an operation done, as `crates/pg/src/desk` describes it."""
    _check(operation)
    return calls().call(operation)


async def _aask(operation: Dict[str, Any]) -> Any:
    _check(operation)
    return await calls().acall(operation)


def _check(operation: Dict[str, Any]) -> None:
    source = operation["source"]
    if url_of(source) is not None:
        told = f"database `{source}` has `direct = true`: handlers in pools connect to it with a client of their own, to sql.{source}.url"
        raise SqlError(told, "direct")
    refused = calls().check(source)
    if refused is not None:
        raise SqlError(refused, "not_allowed")


def _done(outcome: Dict[str, Any]) -> Dict[str, Any]:
    if "error" in outcome:
        raise _error(outcome)
    return outcome


def _results(outcome: Any) -> List[Rows]:
    if isinstance(outcome, dict):
        raise _error(outcome)
    return [_rows(one) for one in outcome]


def _rows(outcome: Dict[str, Any]) -> Rows:
    if "error" in outcome:
        raise _error(outcome)
    rows = outcome["rows"]
    for name in outcome.get("bytea", ()):
        for row in rows:
            row[name] = _bytes(row[name])
    return Rows(rows, outcome["count"])


def _bytes(value: Any) -> Any:
    """A value of type `bytea` (manual, 8.4.1), or an array of such."""
    if isinstance(value, str):
        return bytes.fromhex(value[2:])
    return [_bytes(one) for one in value] if isinstance(value, list) else value


def _error(outcome: Dict[str, Any]) -> SqlError:
    return SqlError(**outcome["error"])


def _first(rows: Rows) -> Optional[Row]:
    return rows[0] if rows else None


def _value(rows: Rows) -> Any:
    return next(iter(rows[0].values()), None) if rows else None
