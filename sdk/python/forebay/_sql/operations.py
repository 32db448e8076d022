"""Performs operations on databases, in the format of `crates/pg/src/session/operation.rs`, and decodes their outcomes."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Callable, Dict, Optional, Tuple

from .._calls import JOB, calls, url_of
from .error import SqlError

#: An operation or an outcome, as parsed JSON.
Json = Dict[str, Any]
#: Makes the operation that closes what an outcome has opened; returns None if nothing was opened.
CloseOperation = Callable[[Json], Optional[Json]]


def ask(operation: Json) -> Any:
    """Performs an operation and returns its outcome. Raises `SqlError` if the operation fails as a whole."""
    _check(operation)
    return check_outcome(calls().call(operation))


async def aask(operation: Json) -> Any:
    """Like `ask`, for coroutines."""
    _check(operation)
    return check_outcome(await calls().acall(operation))


async def aopen(operation: Json, close_operation: CloseOperation, *, until_over: bool = False) -> Any:
    """Like `aask`, for an operation that opens something. If the caller is cancelled, it is closed as soon as its outcome arrives. With
    `until_over`, the cancelled caller waits for the outcome first, because other operations cannot run before it."""
    _check(operation)
    job = JOB.get()
    answer = calls().begin(operation)
    try:
        return check_outcome(json.loads(await asyncio.shield(answer)))
    except asyncio.CancelledError:
        while until_over and not answer.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([answer])
        if answer.done():
            _close_abandoned(answer, close_operation, job)
        else:
            answer.add_done_callback(lambda answer: _close_abandoned(answer, close_operation, job))
        raise


def _close_abandoned(answer: "asyncio.Future[str]", close_operation: CloseOperation, job: Tuple[int, int]) -> None:
    if answer.cancelled() or answer.exception() is not None:
        return
    outcome = json.loads(answer.result())
    operation = None if "error" in outcome else close_operation(outcome)
    if operation is not None:
        aclose(operation, job)


def close(operation: Json, job: Tuple[int, int]) -> None:
    """Closes something that a job opened. May be called anywhere: the garbage collector may close an abandoned generator while another job runs,
    or in the middle of another operation."""
    calls().close(operation, job)


def aclose(operation: Json, job: Tuple[int, int]) -> None:
    """Like `close`, for something that coroutines opened. Does not wait."""
    calls().aclose(operation, job)


def check_outcome(outcome: Any) -> Any:
    """Returns the outcome; raises `SqlError` if it is an error."""
    if isinstance(outcome, dict) and "error" in outcome:
        raise error_of(outcome)
    return outcome


def error_of(outcome: Json) -> SqlError:
    return SqlError(**outcome["error"])


def _check(operation: Json) -> None:
    source = operation["source"]
    if url_of(source) is not None:
        text = f"database `{source}` has `direct = true`: handlers in pools connect to it with a client of their own, to sql.{source}.url"
        raise SqlError(text, "direct")
    reason = calls().check(source)
    if reason is not None:
        raise SqlError(reason, "not_allowed")
