"""How operations reach databases, which `crates/pg/src/desk` describes, and what becomes of them."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from .._calls import calls, url_of
from .error import SqlError

#: An operation, or an outcome, as the JSON that it is.
Json = Dict[str, Any]


def ask(operation: Json) -> Any:
    """Has an operation done, and waits for its outcome; raises what goes wrong with it as a whole."""
    _check(operation)
    return done(calls().call(operation))


async def aask(operation: Json) -> Any:
    """As `ask`."""
    _check(operation)
    return done(await calls().acall(operation))


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
