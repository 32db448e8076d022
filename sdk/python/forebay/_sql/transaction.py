"""Transactions with retries and savepoints."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, Optional, TypeVar

from .error import SqlError
from .operations import Json, aask, aopen, ask
from .queries import Queries
from .scope import CONFLICTS, InTransaction

R = TypeVar("R")

ISOLATIONS = ("read committed", "repeatable read", "serializable")
RETRIES = 5
RETRIES_MAX = 100
#: The delay before a retry is random; its upper limit doubles from PAUSE to PAUSE_MAX. In seconds.
PAUSE = 0.010
PAUSE_MAX = 0.500


class Transaction(Queries):
    """An open transaction, with the methods of a database. It cannot be used after its block or function has ended."""

    __slots__ = ()

    _scope: InTransaction

    @contextmanager
    def tx(self) -> "Iterator[Transaction]":
        """A savepoint: if the block raises, its changes are rolled back, and the transaction can continue. Until it ends, only its own object may be
        used.

            with t.tx() as u:
                u.query("insert into marks values ($1)", [mark])
        """
        scope, target = self._scope, self._scope.target
        inner = scope.nest()
        try:
            savepoint = {**target, **ask({"op": "savepoint", **target})}
            try:
                yield Transaction(inner)
            except BaseException:
                inner.end()
                with suppress(SqlError):
                    ask({"op": "rollback_to", **savepoint})
                raise
            inner.end()
            ask({"op": "release", **savepoint})
        finally:
            scope.leave(inner)

    @asynccontextmanager
    async def atx(self) -> "AsyncIterator[Transaction]":
        """Like `tx`, for `async with`."""
        scope, target = self._scope, self._scope.target
        inner = scope.nest()
        try:
            opened = aopen({"op": "savepoint", **target}, lambda opened: {"op": "release", **target, **opened}, until_over=True)
            savepoint = {**target, **await scope.track(opened)}
            try:
                yield Transaction(inner)
                await inner.settle()
            except BaseException:
                try:
                    await inner.settle()
                finally:
                    inner.end()
                    with suppress(SqlError):
                        await aask({"op": "rollback_to", **savepoint})
                raise
            inner.end()
            await aask({"op": "release", **savepoint})
        finally:
            scope.leave(inner)


def begin_operation(source: str, isolation: Optional[str], read_only: bool) -> Json:
    """Validates the options of a transaction and makes its `begin` operation."""
    if isolation is not None and isolation not in ISOLATIONS:
        raise ValueError(f"the isolation of a transaction is one of {', '.join(ISOLATIONS)}, not {isolation}")
    options = {} if isolation is None else {"isolation": isolation}
    return {"op": "begin", "source": source, **options, "read_only": bool(read_only)}


def check_work(work: object, retries: object) -> None:
    if not callable(work):
        raise TypeError(f"a transaction takes a function, not a {type(work).__name__}")
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= RETRIES_MAX:
        raise ValueError(f"the retries of a transaction are 0 to {RETRIES_MAX}, not {retries}")


@contextmanager
def block(begin: Json) -> Iterator[Transaction]:
    """A transaction that commits when the block ends and rolls back if it raises."""
    target = {"source": begin["source"], **ask(begin)}
    scope = InTransaction(target)
    try:
        yield Transaction(scope)
    except BaseException:
        scope.end()
        with suppress(SqlError):
            ask({"op": "rollback", **target})
        raise
    scope.end()
    try:
        ask({"op": "commit", **target})
    except SqlError as error:
        raise _cause(error, scope) from None


@asynccontextmanager
async def ablock(begin: Json) -> AsyncIterator[Transaction]:
    """Like `block`, for coroutines. At the end, waits for operations that were not awaited."""
    source = begin["source"]
    target = {"source": source, **await aopen(begin, lambda begun: {"op": "rollback", "source": source, **begun})}
    scope = InTransaction(target)
    try:
        yield Transaction(scope)
        await scope.settle()
    except BaseException:
        # This wait may be cancelled once more.
        try:
            await scope.settle()
        finally:
            scope.end()
            with suppress(SqlError):
                await aask({"op": "rollback", **target})
        raise
    scope.end()
    try:
        await aask({"op": "commit", **target})
    except SqlError as error:
        raise _cause(error, scope) from None


def run(begin: Json, work: Callable[[Transaction], R], retries: int) -> R:
    """Runs a function in a transaction, with retries after conflicts."""
    attempt = 0
    while True:
        try:
            with block(begin) as transaction:
                result = work(transaction)
                if inspect.isawaitable(result):
                    _close(result)
                    raise TypeError("the function of tx() returned a coroutine: use atx() for coroutine functions")
            return result
        except SqlError as error:
            pause = _pause_after(error, attempt, retries)
        attempt += 1
        time.sleep(pause)


async def arun(begin: Json, work: "Callable[[Transaction], Awaitable[R]]", retries: int) -> R:
    """Like `run`, with a function that is awaited."""
    attempt = 0
    while True:
        try:
            async with ablock(begin) as transaction:
                result = await work(transaction)
            return result
        except SqlError as error:
            pause = _pause_after(error, attempt, retries)
        attempt += 1
        await asyncio.sleep(pause)


def _close(coroutine: Any) -> None:
    if inspect.iscoroutine(coroutine):
        coroutine.close()


def _cause(error: SqlError, scope: InTransaction) -> SqlError:
    """The conflict that made the database roll back, if any, so that the transaction is retried; otherwise the error itself."""
    return scope.conflict if error.code == "rolled_back" and scope.conflict is not None else error


def _pause_after(error: SqlError, attempt: int, retries: int) -> float:
    """The delay before the next attempt, in seconds. Raises the error itself if there is to be no further attempt."""
    if attempt >= retries or error.code not in CONFLICTS:
        raise error
    return random.uniform(0, min(PAUSE * 2**attempt, PAUSE_MAX))
