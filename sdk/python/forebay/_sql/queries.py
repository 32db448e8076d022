"""What a database and a transaction have in common."""

from __future__ import annotations

from typing import Any, AsyncGenerator, AsyncIterable, Generator, Iterable, List, Optional, Sequence, Union

from .._calls import JOB
from .asking import Ending, Json, aclose, close
from .scope import Scope
from .values import Row, Rows, Statement, bytes_of, hex_of, rows_of, with_bytes, written

#: Default number of rows that a cursor fetches at a time.
BATCH = 256
#: Text to be copied in is collected up to this length before it is sent.
GATHER = 32_768
#: Bytes are sent in chunks of this size.
PART_BYTES = 65_536

#: Text or bytes to be copied, split at any position.
Piece = Union[str, bytes]
Bytes = (bytes, bytearray, memoryview)


class Queries:
    """What a database and a transaction have in common. The methods that begin with `a` are for coroutines."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

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
        """Runs statements that are sent together, without waiting for each other; gives their results in order. Outside of a transaction each is one of its own: an
        error of one, which this raises when all have ended, undoes none of the others."""
        operation = self._statements(statements)
        return [rows_of(one) for one in self._scope.ask(operation)] if operation["statements"] else []

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
        operation = self._statements(statements)
        return [rows_of(one) for one in await self._scope.aask(operation)] if operation["statements"] else []

    def cursor(self, text: str, parameters: Sequence[object] = (), *, batch: int = BATCH) -> Generator[Row, None, None]:
        """The rows of a statement, fetched as they are asked for, `batch` at a time (1 to 10000), however many they are:

            for row in sql.main.cursor("select name from users"):
                ...

        Outside of a transaction it has a connection to itself until its end, or until the loop is left."""
        scope, job = self._scope, JOB.get()
        part = scope.ask(self._cursor(text, parameters, batch))
        cursor = part["cursor"]
        try:
            while True:
                yield from with_bytes(part)
                if cursor is None:
                    return
                part = scope.ask(self._of("fetch", cursor=cursor))
                cursor = part["cursor"]
        finally:
            if cursor is not None and not scope.ended:
                close(self._of("close", id=cursor), job)

    async def acursor(self, text: str, parameters: Sequence[object] = (), *, batch: int = BATCH) -> AsyncGenerator[Row, None]:
        """As `cursor`, for `async for`. Who leaves the loop and keeps this ends it with `aclose()`."""
        scope, job = self._scope, JOB.get()
        part = await scope.aopen(self._cursor(text, parameters, batch), self._end_of("cursor"))
        cursor = part["cursor"]
        try:
            while True:
                for row in with_bytes(part):
                    yield row
                if cursor is None:
                    return
                part = await scope.aask(self._of("fetch", cursor=cursor))
                cursor = part["cursor"]
        finally:
            if cursor is not None and not scope.ended:
                aclose(self._of("close", id=cursor), job)

    def copy_in(self, text: str, pieces: Union[Piece, Iterable[Piece]]) -> int:
        """Copies rows in with a statement `copy ... from stdin`, at the pace of the database; gives their number. When the pieces raise, nothing is copied.

            sql.main.copy_in("copy users (id, name) from stdin (format csv)", request.text())
        """
        scope, job = self._scope, JOB.get()
        copy = scope.ask({"op": "copy_in", **scope.place, "text": str(text)})["copy"]
        gather = _Gather()
        try:
            for piece in [pieces] if isinstance(pieces, (str, *Bytes)) else pieces:
                for part in gather.take(piece):
                    scope.ask(self._of("copy_send", copy=copy, **part))
            for part in gather.rest():
                scope.ask(self._of("copy_send", copy=copy, **part))
        except BaseException:
            close(self._of("close", id=copy), job)
            raise
        count: int = scope.ask(self._of("copy_done", copy=copy))["count"]
        return count

    async def acopy_in(self, text: str, pieces: Union[Piece, Iterable[Piece], AsyncIterable[Piece]]) -> int:
        """As `copy_in`; the pieces may be awaited, too."""
        scope, job = self._scope, JOB.get()
        copy = (await scope.aopen({"op": "copy_in", **scope.place, "text": str(text)}, self._end_of("copy")))["copy"]
        gather = _Gather()
        try:
            async for piece in _awaited(pieces):
                for part in gather.take(piece):
                    await scope.aask(self._of("copy_send", copy=copy, **part))
            for part in gather.rest():
                await scope.aask(self._of("copy_send", copy=copy, **part))
        except BaseException:
            aclose(self._of("close", id=copy), job)
            raise
        count: int = (await scope.aask(self._of("copy_done", copy=copy)))["count"]
        return count

    def copy_out(self, text: str) -> Generator[Piece, None, None]:
        """Copies rows out with a statement `copy ... to stdout`, as they are asked for: text, or bytes where the statement says `format binary`. A handler can answer with
        it:

            return reply(sql.main.copy_out("copy users to stdout (format csv, header)"), headers={"content-type": "text/csv"})
        """
        scope, job = self._scope, JOB.get()
        copy = scope.ask({"op": "copy_out", **scope.place, "text": str(text)})["copy"]
        try:
            while True:
                piece = _piece(scope.ask(self._of("copy_read", copy=copy)))
                if piece is None:
                    copy = None
                    return
                yield piece
        finally:
            if copy is not None and not scope.ended:
                close(self._of("close", id=copy), job)

    async def acopy_out(self, text: str) -> AsyncGenerator[Piece, None]:
        """As `copy_out`, for `async for` and as the answer of an `async def`."""
        scope, job = self._scope, JOB.get()
        copy = (await scope.aopen({"op": "copy_out", **scope.place, "text": str(text)}, self._end_of("copy")))["copy"]
        try:
            while True:
                piece = _piece(await scope.aask(self._of("copy_read", copy=copy)))
                if piece is None:
                    copy = None
                    return
                yield piece
        finally:
            if copy is not None and not scope.ended:
                aclose(self._of("close", id=copy), job)

    def _statements(self, statements: Iterable[Statement]) -> Json:
        both = (((statement, ()) if isinstance(statement, str) else statement) for statement in statements)
        return {"op": "statements", **self._scope.place, "statements": [written(*one) for one in both]}

    def _cursor(self, text: str, parameters: Sequence[object], batch: int) -> Json:
        return {"op": "cursor", **self._scope.place, "statement": written(text, parameters), "batch": batch}

    def _end_of(self, name: str) -> Ending:
        """How something is ended whose number is `name` of an outcome."""
        return lambda outcome: None if outcome[name] is None else self._of("close", id=outcome[name])

    def _of(self, op: str, **members: object) -> Json:
        return {"op": op, "source": self._scope.source, **members}


class _Gather:
    """Puts pieces together to parts that are worth sending."""

    def __init__(self) -> None:
        self._texts: List[str] = []
        self._length = 0

    def take(self, piece: object) -> Iterable[Json]:
        if isinstance(piece, str):
            self._texts.append(piece)
            self._length += len(piece)
            if self._length >= GATHER:
                yield from self.rest()
        elif isinstance(piece, Bytes):
            yield from self.rest()
            whole = memoryview(piece)
            for at in range(0, len(whole), PART_BYTES):
                yield {"bytes": hex_of(whole[at : at + PART_BYTES])}
        else:
            raise TypeError(f"what is copied is str and bytes, not a {type(piece).__name__}")

    def rest(self) -> Iterable[Json]:
        if self._texts:
            text = "".join(self._texts)
            self._texts, self._length = [], 0
            yield {"text": text}


async def _awaited(pieces: Union[Piece, Iterable[Piece], AsyncIterable[Piece]]) -> AsyncGenerator[Piece, None]:
    if isinstance(pieces, str):
        yield pieces
    elif isinstance(pieces, Bytes):
        yield bytes(pieces)
    elif isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
    else:
        for piece in pieces:
            yield piece


def _piece(outcome: Json) -> Optional[Piece]:
    text: Optional[str] = outcome.get("text")
    return bytes_of(outcome["bytes"]) if "bytes" in outcome else text


def _first(rows: Rows) -> Optional[Row]:
    return rows[0] if rows else None


def _value(rows: Rows) -> Any:
    return next(iter(rows[0].values()), None) if rows else None
