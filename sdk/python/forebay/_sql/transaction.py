"""Transactions, and how often they are tried."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, Optional, TypeVar

from .asking import Json, aask, aopen, ask
from .error import SqlError
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
    """A transaction that is open, with what a database has. Nothing can be asked of it once its block or its function has ended."""

    __slots__ = ()

    _scope: InTransaction

    @contextmanager
    def tx(self) -> "Iterator[Transaction]":
        """A savepoint: what the block did is undone when it raises, and the transaction can go on. Until its end only what it is given can be used.

            with t.tx() as u:
                u.query("insert into marks values ($1)", [mark])
        """
        scope, place = self._scope, self._scope.place
        inner = scope.nest()
        try:
            savepoint = {**place, **ask({"op": "savepoint", **place})}
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
            scope.left(inner)

    @asynccontextmanager
    async def atx(self) -> "AsyncIterator[Transaction]":
        """As `tx`, for `async with`."""
        scope, place = self._scope, self._scope.place
        inner = scope.nest()
        try:
            opened = aopen({"op": "savepoint", **place}, lambda opened: {"op": "release", **place, **opened}, until_over=True)
            savepoint = {**place, **await scope.keep(opened)}
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
            scope.left(inner)


def beginning(source: str, isolation: Optional[str], read_only: bool) -> Json:
    """Checks how a transaction is to be begun."""
    if isolation is not None and isolation not in ISOLATIONS:
        raise ValueError(f"the isolation of a transaction is one of {', '.join(ISOLATIONS)}, not {isolation}")
    wanted = {} if isolation is None else {"isolation": isolation}
    return {"op": "begin", "source": source, **wanted, "read_only": bool(read_only)}


def check_work(work: object, retries: object) -> None:
    if not callable(work):
        raise TypeError(f"a transaction is given a function, not a {type(work).__name__}")
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= RETRIES_MAX:
        raise ValueError(f"the retries of a transaction are 0 to {RETRIES_MAX}, not {retries}")


@contextmanager
def block(begin: Json) -> Iterator[Transaction]:
    """A transaction that is committed when the block ends, and undone when it raises."""
    place = {"source": begin["source"], **ask(begin)}
    scope = InTransaction(place)
    try:
        yield Transaction(scope)
    except BaseException:
        scope.end()
        with suppress(SqlError):
            ask({"op": "rollback", **place})
        raise
    scope.end()
    try:
        ask({"op": "commit", **place})
    except SqlError as error:
        raise _cause(error, scope) from None


@asynccontextmanager
async def ablock(begin: Json) -> AsyncIterator[Transaction]:
    """As `block`. What was not waited for is waited for at the end."""
    source = begin["source"]
    place = {"source": source, **await aopen(begin, lambda begun: {"op": "rollback", "source": source, **begun})}
    scope = InTransaction(place)
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
                await aask({"op": "rollback", **place})
        raise
    scope.end()
    try:
        await aask({"op": "commit", **place})
    except SqlError as error:
        raise _cause(error, scope) from None


def run(begin: Json, work: Callable[[Transaction], R], retries: int) -> R:
    """Runs a function in a transaction, and again when others were in the way."""
    attempt = 0
    while True:
        try:
            with block(begin) as transaction:
                result = work(transaction)
                if inspect.isawaitable(result):
                    _close(result)
                    raise TypeError("the function of tx() gave a coroutine, which nobody awaits: use atx()")
            return result
        except SqlError as error:
            pause = _pause_after(error, attempt, retries)
        attempt += 1
        time.sleep(pause)


async def arun(begin: Json, work: "Callable[[Transaction], Awaitable[R]]", retries: int) -> R:
    """As `run`, with a function that is awaited."""
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
    """What another attempt may be spared: that is why it was rolled back."""
    return scope.conflict if error.code == "rolled_back" and scope.conflict is not None else error


def _pause_after(error: SqlError, attempt: int, retries: int) -> float:
    """How long to wait before another attempt; raises the error that the last one has come to where there is none."""
    if attempt >= retries or error.code not in CONFLICTS:
        raise error
    return random.uniform(0, min(PAUSE * 2**attempt, PAUSE_MAX))
