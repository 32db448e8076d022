"""Databases of PostgreSQL, by their names in the configuration:

    from forebay.sql import sql

    user = sql.main.row("select id, name from users where id = $1", [id])
    user = await sql.main.arow("select id, name from users where id = $1", [id])

Parameters are `$1`, `$2` and so on. Numbers of the type `numeric`, and integers beyond 2**53 - 1, are strings, so that they lose no digits; times are strings by ISO
8601, `bytea` is `bytes`. The statements run on the server's connections; a handler of a pool reaches those databases that the pool's `sql` names.
"""

from __future__ import annotations

from typing import Any, AsyncContextManager, Awaitable, Callable, ContextManager, Optional, TypeVar, overload

from ._calls import url_of
from ._reply import Reply, reply
from ._sql.error import SqlError
from ._sql.listen import Listening as _Listening
from ._sql.listen import Notification
from ._sql.queries import Piece, Queries
from ._sql.scope import Scope
from ._sql.transaction import RETRIES, Transaction, ablock, arun, begin_operation, block, check_work, run
from ._sql.values import Row, Rows, Statement

__all__ = ["Database", "Listening", "Notification", "Piece", "Queries", "Row", "Rows", "SqlError", "Statement", "Transaction", "sql"]

R = TypeVar("R")


class Listening(_Listening):
    """A listener, active once `ready()` returns or iteration starts. It can be iterated once."""

    __slots__ = ()

    async def events(self, event: Optional[str] = None) -> Reply:
        """Server-sent events, to be returned by an `async def` handler: one for each payload, and one named `lost` if notifications may have been
        lost. The stream lasts until the client disconnects.

            @app.get("/orders/events")
            async def events(request):
                return await sql.main.listen("orders").events()
        """
        texts = self.texts(event)
        await self.ready()
        return reply(texts, headers={"content-type": "text/event-stream", "cache-control": "no-store"})


class Database(Queries):
    """A database."""

    __slots__ = ()

    @property
    def url(self) -> Optional[str]:
        """The URL for your own client, for a database with `direct = true`; None if the server connects."""
        return url_of(self._scope.source)

    @overload
    def tx(self, *, isolation: Optional[str] = None, read_only: bool = False) -> ContextManager[Transaction]: ...

    @overload
    def tx(
        self, work: Callable[[Transaction], R], *, isolation: Optional[str] = None, read_only: bool = False, retries: int = RETRIES
    ) -> R: ...

    def tx(self, work: Any = None, *, isolation: Optional[str] = None, read_only: bool = False, retries: Any = None) -> Any:
        """Runs a transaction on a connection of its own. As a context manager: commits when the block ends, rolls back if it raises.

            with sql.main.tx() as t:
                t.query("update accounts set balance = balance - $1 where id = $2", [amount, sender])

        With a function: returns its result after the commit. After a serialization failure (40001) or a deadlock (40P01) the function is run
        again after a delay, at most `retries` times (5), so it should change nothing but the database.

            sql.main.tx(lambda t: t.query("update counts set n = n + 1"), isolation="serializable")

        `isolation` is "read committed", "repeatable read" or "serializable"."""
        begin = _begin(self, work, isolation, read_only, retries)
        return block(begin) if work is None else run(begin, work, RETRIES if retries is None else retries)

    @overload
    def atx(self, *, isolation: Optional[str] = None, read_only: bool = False) -> AsyncContextManager[Transaction]: ...

    @overload
    def atx(
        self,
        work: "Callable[[Transaction], Awaitable[R]]",
        *,
        isolation: Optional[str] = None,
        read_only: bool = False,
        retries: int = RETRIES,
    ) -> "Awaitable[R]": ...

    def atx(self, work: Any = None, *, isolation: Optional[str] = None, read_only: bool = False, retries: Any = None) -> Any:
        """Like `tx`, for `async with` and for functions that are awaited."""
        begin = _begin(self, work, isolation, read_only, retries)
        return ablock(begin) if work is None else arun(begin, work, RETRIES if retries is None else retries)

    def listen(self, channel: str) -> Listening:
        """Listens to notifications (`notify`) on a channel, in `async def` handlers. All listeners share one connection.

            async for payload, lost in sql.main.listen("orders"):
                ...
        """
        return Listening(self._scope.source, channel)


def _begin(database: Database, work: object, isolation: Optional[str], read_only: bool, retries: object) -> Any:
    if work is not None:
        check_work(work, RETRIES if retries is None else retries)
    elif retries is not None:
        raise TypeError("a block cannot be run again: `retries` is for a function that tx() is given")
    return begin_operation(database._scope.source, isolation, read_only)


class Databases:
    """The databases, by the NAME of `[sql.NAME]`: `sql.main`, or `sql["main"]` for a name that is not an identifier."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Database:
        if name.startswith("__"):
            raise AttributeError(name)
        return Database(Scope({"source": name}))

    def __getitem__(self, name: str) -> Database:
        return Database(Scope({"source": name}))


#: The databases of this server.
sql = Databases()
