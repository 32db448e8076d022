"""Where something is asked for: a database, or a transaction of it as long as that may be used."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, List, Optional, Set

from .asking import Ending, Json, aask, aopen, ask, error_of
from .error import SqlError

#: Conflicts between transactions (serialization failure, deadlock): a retry may succeed.
CONFLICTS = ("40001", "40P01")


class Scope:
    """A database, of which anything can be asked at any time."""

    def __init__(self, place: Json) -> None:
        self.place = place

    @property
    def source(self) -> str:
        source: str = self.place["source"]
        return source

    @property
    def ended(self) -> bool:
        """Whether what was opened here is gone with it."""
        return False

    def ask(self, operation: Json) -> Any:
        return ask(operation)

    async def aask(self, operation: Json) -> Any:
        return await aask(operation)

    async def aopen(self, operation: Json, ending: Ending) -> Any:
        return await aopen(operation, ending)


class InTransaction(Scope):
    """A transaction, or a savepoint of it: nothing can be asked of it once it has ended, nor while there is a savepoint within it."""

    def __init__(self, place: Json) -> None:
        super().__init__(place)
        self._ended = False
        self._nested = False
        #: Operations in progress.
        self._begun: "Set[asyncio.Future[None]]" = set()
        #: The last conflict with another transaction; raised instead of `rolled_back`, so that the transaction can be retried.
        self.conflict: Optional[SqlError] = None

    @property
    def ended(self) -> bool:
        return self._ended

    def ask(self, operation: Json) -> Any:
        self._check()
        return self._seen(ask(operation))

    async def aask(self, operation: Json) -> Any:
        self._check()
        return self._seen(await self.keep(aask(operation)))

    async def aopen(self, operation: Json, ending: Ending) -> Any:
        self._check()
        return await self.keep(aopen(operation, ending, until_over=True))

    async def keep(self, begun: Awaitable[Any]) -> Any:
        """Waits for something that has to be over before this can end."""
        under_way: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._begun.add(under_way)
        try:
            return await begun
        finally:
            self._begun.discard(under_way)
            under_way.set_result(None)

    def nest(self) -> "InTransaction":
        """A savepoint of this, before it is asked for; nothing can be asked of this until that is `left`."""
        self._check()
        self._nested = True
        return InTransaction(self.place)

    def left(self, savepoint: "InTransaction") -> None:
        """A savepoint is there no more."""
        savepoint.end()
        self.conflict = self.conflict or savepoint.conflict
        self._nested = False

    def end(self) -> None:
        self._ended = True

    async def settle(self) -> None:
        """Waits for what was begun and not waited for."""
        while self._begun:
            await asyncio.wait(self._begun)

    def _check(self) -> None:
        if self._ended:
            raise TypeError("the transaction has ended")
        if self._nested:
            raise TypeError("a transaction within this one has not ended: use what its block or its function is given")

    def _seen(self, outcome: Any) -> Any:
        outcomes: List[Any] = outcome if isinstance(outcome, list) else []
        for one in outcomes:
            if "error" in one and one["error"]["code"] in CONFLICTS:
                self.conflict = error_of(one)
        return outcome
