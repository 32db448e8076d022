"""Targets of operations: a database, or a transaction while it may be used."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, List, Optional, Set

from .error import SqlError
from .operations import CloseOperation, Json, aask, aopen, ask, error_of

#: Conflicts between transactions (serialization failure, deadlock): a retry may succeed.
CONFLICTS = ("40001", "40P01")


class Scope:
    """A database, which accepts operations at any time."""

    def __init__(self, target: Json) -> None:
        self.target = target

    @property
    def source(self) -> str:
        source: str = self.target["source"]
        return source

    @property
    def ended(self) -> bool:
        """Whether everything opened in this scope was closed with it."""
        return False

    def ask(self, operation: Json) -> Any:
        return ask(operation)

    async def aask(self, operation: Json) -> Any:
        return await aask(operation)

    async def aopen(self, operation: Json, close_operation: CloseOperation) -> Any:
        return await aopen(operation, close_operation)


class InTransaction(Scope):
    """A transaction or savepoint. It accepts operations only while it is open and has no open savepoint."""

    def __init__(self, target: Json) -> None:
        super().__init__(target)
        self._ended = False
        self._has_savepoint = False
        #: Operations in progress.
        self._pending: "Set[asyncio.Future[None]]" = set()
        #: The last conflict with another transaction; raised instead of `rolled_back`, so that the transaction can be retried.
        self.conflict: Optional[SqlError] = None

    @property
    def ended(self) -> bool:
        return self._ended

    def ask(self, operation: Json) -> Any:
        self._check()
        return self._note_conflict(ask(operation))

    async def aask(self, operation: Json) -> Any:
        self._check()
        return self._note_conflict(await self.track(aask(operation)))

    async def aopen(self, operation: Json, close_operation: CloseOperation) -> Any:
        self._check()
        return await self.track(aopen(operation, close_operation, until_over=True))

    async def track(self, operation: Awaitable[Any]) -> Any:
        """Awaits an operation that must finish before this scope can end."""
        pending: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._pending.add(pending)
        try:
            return await operation
        finally:
            self._pending.discard(pending)
            pending.set_result(None)

    def nest(self) -> "InTransaction":
        """Makes the scope of a savepoint that is about to be opened. This scope accepts no operations until `leave` is called."""
        self._check()
        self._has_savepoint = True
        return InTransaction(self.target)

    def leave(self, savepoint: "InTransaction") -> None:
        """Call it when the savepoint has ended."""
        savepoint.end()
        self.conflict = self.conflict or savepoint.conflict
        self._has_savepoint = False

    def end(self) -> None:
        self._ended = True

    async def settle(self) -> None:
        """Waits for operations that were not awaited."""
        while self._pending:
            await asyncio.wait(self._pending)

    def _check(self) -> None:
        if self._ended:
            raise TypeError("the transaction has ended")
        if self._has_savepoint:
            raise TypeError("a transaction within this one has not ended: use the argument of its block or function")

    def _note_conflict(self, outcome: Any) -> Any:
        outcomes: List[Any] = outcome if isinstance(outcome, list) else []
        for one in outcomes:
            if "error" in one and one["error"]["code"] in CONFLICTS:
                self.conflict = error_of(one)
        return outcome
