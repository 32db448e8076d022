"""The common interface of databases and transactions."""

from __future__ import annotations

from typing import Any, AsyncGenerator, AsyncIterable, Generator, Iterable, List, Optional, Sequence, Union

from .._calls import JOB
from .operations import CloseOperation, Json, aclose, close
from .scope import Scope
from .values import Row, Rows, Statement, bytes_of, hex_of, rows_of, wire_statement, with_bytes

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
    """The common interface of databases and transactions. The methods that begin with `a` are for coroutines."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def query(self, text: str, parameters: Sequence[object] = ()) -> Rows:
        """Runs a statement. Raises `SqlError`."""
        return self.pipeline([(text, parameters)])[0]

    def row(self, text: str, parameters: Sequence[object] = ()) -> Optional[Row]:
        """The first row, or None if there is none."""
        return _first(self.query(text, parameters))

    def value(self, text: str, parameters: Sequence[object] = ()) -> Any:
        """The first value of the first row, or None if there is none."""
        return _value(self.query(text, parameters))

    def pipeline(self, statements: Iterable[Statement]) -> List[Rows]:
        """Runs statements that are sent together, without waiting for each other; returns their results in order. Outside of a transaction, each
        statement is a transaction of its own: if one fails, the others still take effect, and the error is raised once all have ended."""
        operation = self._statements(statements)
        return [rows_of(one) for one in self._scope.ask(operation)] if operation["statements"] else []

    async def aquery(self, text: str, parameters: Sequence[object] = ()) -> Rows:
        """Like `query`, for coroutines."""
        return (await self.apipeline([(text, parameters)]))[0]

    async def arow(self, text: str, parameters: Sequence[object] = ()) -> Optional[Row]:
        """Like `row`, for coroutines."""
        return _first(await self.aquery(text, parameters))

    async def avalue(self, text: str, parameters: Sequence[object] = ()) -> Any:
        """Like `value`, for coroutines."""
        return _value(await self.aquery(text, parameters))

    async def apipeline(self, statements: Iterable[Statement]) -> List[Rows]:
        """Like `pipeline`, for coroutines."""
        operation = self._statements(statements)
        return [rows_of(one) for one in await self._scope.aask(operation)] if operation["statements"] else []

    def cursor(self, text: str, parameters: Sequence[object] = (), *, batch: int = BATCH) -> Generator[Row, None, None]:
        """The rows of a statement, fetched as the consumer asks for them, `batch` at a time (1 to 10000), however many there are:

            for row in sql.main.cursor("select name from users"):
                ...

        Outside of a transaction, it occupies a connection until it ends or the loop is left."""
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
        """Like `cursor`, for `async for`. If you leave the loop and keep the generator, end it with `aclose()`."""
        scope, job = self._scope, JOB.get()
        part = await scope.aopen(self._cursor(text, parameters, batch), self._close_of("cursor"))
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
        """Copies rows in with a statement `copy ... from stdin`, at the pace of the database; returns their number. If reading the pieces raises,
        nothing is copied.

            sql.main.copy_in("copy users (id, name) from stdin (format csv)", request.text())
        """
        scope, job = self._scope, JOB.get()
        copy = scope.ask({"op": "copy_in", **scope.target, "text": str(text)})["copy"]
        buffer = _CopyBuffer()
        try:
            for piece in [pieces] if isinstance(pieces, (str, *Bytes)) else pieces:
                for part in buffer.take(piece):
                    scope.ask(self._of("copy_send", copy=copy, **part))
            for part in buffer.flush():
                scope.ask(self._of("copy_send", copy=copy, **part))
        except BaseException:
            close(self._of("close", id=copy), job)
            raise
        count: int = scope.ask(self._of("copy_done", copy=copy))["count"]
        return count

    async def acopy_in(self, text: str, pieces: Union[Piece, Iterable[Piece], AsyncIterable[Piece]]) -> int:
        """Like `copy_in`, for coroutines; the pieces may be an asynchronous iterable."""
        scope, job = self._scope, JOB.get()
        copy = (await scope.aopen({"op": "copy_in", **scope.target, "text": str(text)}, self._close_of("copy")))["copy"]
        buffer = _CopyBuffer()
        try:
            async for piece in _awaited(pieces):
                for part in buffer.take(piece):
                    await scope.aask(self._of("copy_send", copy=copy, **part))
            for part in buffer.flush():
                await scope.aask(self._of("copy_send", copy=copy, **part))
        except BaseException:
            aclose(self._of("close", id=copy), job)
            raise
        count: int = (await scope.aask(self._of("copy_done", copy=copy)))["count"]
        return count

    def copy_out(self, text: str) -> Generator[Piece, None, None]:
        """Copies rows out with a statement `copy ... to stdout`, as the consumer asks for them: text, or bytes if the statement says
        `format binary`. A handler can stream it:

            return reply(sql.main.copy_out("copy users to stdout (format csv, header)"), headers={"content-type": "text/csv"})
        """
        scope, job = self._scope, JOB.get()
        copy = scope.ask({"op": "copy_out", **scope.target, "text": str(text)})["copy"]
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
        """Like `copy_out`, for `async for` and as the reply of an `async def` handler."""
        scope, job = self._scope, JOB.get()
        copy = (await scope.aopen({"op": "copy_out", **scope.target, "text": str(text)}, self._close_of("copy")))["copy"]
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
        return {"op": "statements", **self._scope.target, "statements": [wire_statement(*one) for one in both]}

    def _cursor(self, text: str, parameters: Sequence[object], batch: int) -> Json:
        return {"op": "cursor", **self._scope.target, "statement": wire_statement(text, parameters), "batch": batch}

    def _close_of(self, name: str) -> CloseOperation:
        """Makes the operation that closes whatever has its number under `name` in an outcome."""
        return lambda outcome: None if outcome[name] is None else self._of("close", id=outcome[name])

    def _of(self, op: str, **members: object) -> Json:
        return {"op": op, "source": self._scope.source, **members}


class _CopyBuffer:
    """Collects pieces of text, and splits bytes, into chunks that are worth sending."""

    def __init__(self) -> None:
        self._texts: List[str] = []
        self._length = 0

    def take(self, piece: object) -> Iterable[Json]:
        if isinstance(piece, str):
            self._texts.append(piece)
            self._length += len(piece)
            if self._length >= GATHER:
                yield from self.flush()
        elif isinstance(piece, Bytes):
            yield from self.flush()
            whole = memoryview(piece)
            for at in range(0, len(whole), PART_BYTES):
                yield {"bytes": hex_of(whole[at : at + PART_BYTES])}
        else:
            raise TypeError(f"copy_in() takes str and bytes, not {type(piece).__name__}")

    def flush(self) -> Iterable[Json]:
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
