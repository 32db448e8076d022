"""How operations reach databases, which `crates/pg/src/desk` describes, and what becomes of them."""

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
Ending = Callable[[Json], Optional[Json]]


def ask(operation: Json) -> Any:
    """Has an operation done, and waits for its outcome; raises what goes wrong with it as a whole."""
    _check(operation)
    return done(calls().call(operation))


async def aask(operation: Json) -> Any:
    """As `ask`."""
    _check(operation)
    return done(await calls().acall(operation))


async def aopen(operation: Json, ending: Ending, *, until_over: bool = False) -> Any:
    """As `aask`, for what stays open until it is ended. When whoever waits is cancelled, nobody has it: it is ended as soon as it is there. `until_over` is for what is in the way of others until then: it
    keeps whoever is cancelled waiting for that."""
    _check(operation)
    job = JOB.get()
    answer = calls().begin(operation)
    try:
        return done(json.loads(await asyncio.shield(answer)))
    except asyncio.CancelledError:
        while until_over and not answer.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([answer])
        if answer.done():
            _give_up(answer, ending, job)
        else:
            answer.add_done_callback(lambda answer: _give_up(answer, ending, job))
        raise


def _give_up(answer: "asyncio.Future[str]", ending: Ending, job: Tuple[int, int]) -> None:
    if answer.cancelled() or answer.exception() is not None:
        return
    outcome = json.loads(answer.result())
    operation = None if "error" in outcome else ending(outcome)
    if operation is not None:
        aclose(operation, job)


def close(operation: Json, job: Tuple[int, int]) -> None:
    """Ends something that a job has opened, wherever this is called: what a generator leaves behind may be collected while another job runs, and in the middle of another operation. What stands in the way of that ends it, too."""
    calls().close(operation, job)


def aclose(operation: Json, job: Tuple[int, int]) -> None:
    """As `close`, for what coroutines have opened; it waits for nothing."""
    calls().aclose(operation, job)


def done(outcome: Any) -> Any:
    """The outcome of something that has not failed."""
    if isinstance(outcome, dict) and "error" in outcome:
        raise error_of(outcome)
    return outcome


def error_of(outcome: Json) -> SqlError:
    return SqlError(**outcome["error"])


def _check(operation: Json) -> None:
    source = operation["source"]
    if url_of(source) is not None:
        told = f"database `{source}` has `direct = true`: handlers in pools connect to it with a client of their own, to sql.{source}.url"
        raise SqlError(told, "direct")
    refused = calls().check(source)
    if refused is not None:
        raise SqlError(refused, "not_allowed")
