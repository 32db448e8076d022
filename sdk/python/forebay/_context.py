"""The context objects of handlers and hooks."""

from __future__ import annotations

import math
import time
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple, Optional


class Interrupted(BaseException):
    """Raised inside a blocking handler whose response is no longer needed and whose worker must end, so that `finally` clauses run. Only
    handlers on the main thread can be interrupted: those with `concurrency = 1` that are WSGI or an `App` without any `async def`. Code that
    blocks in other threads or on an event loop cannot. Not an `Exception`, so that `except Exception` in a handler does not swallow it."""


class WorkerInfo(NamedTuple):
    """Which worker process this is."""

    #: The worker's number in its pool.
    id: int
    #: The pool's name in `forebay.toml`.
    pool: str
    #: The id of the worker process.
    pid: int


class State(SimpleNamespace):
    """Your own state: empty at the start, shared by all requests of this worker process. Set any attribute."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ctx.state has no {name!r}: it is set in a start hook, or by an earlier request of this worker")


class Log:
    """Writes to the server's log, with the pool, the worker and, in a request, the request's id:

        ctx.log.info("saved", id=7, bytes=len(body))

    The keyword arguments become fields of the line.
    """

    __slots__ = ("_write",)

    def __init__(self, write: Callable[[str, str, "dict[str, Any]"], None]) -> None:
        self._write = write

    def debug(self, message: str, /, **fields: Any) -> None:
        self._write("debug", message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self._write("info", message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        self._write("warn", message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self._write("error", message, fields)


class WorkerContext:
    """The argument of the hooks `on_start` and `on_stop`; also part of every request's `Context`."""

    def __init__(self, state: State, worker: WorkerInfo, log: Log) -> None:
        #: Your own state, shared by all requests of this worker process: `ctx.state.db = connect()` in a start hook.
        self.state = state
        self.worker = worker
        self.log = log


class Context:
    """The second argument of a handler."""

    __slots__ = ("_worker", "_job")

    def __init__(self, worker: WorkerContext, job: "JobView") -> None:
        self._worker = worker
        self._job = job

    @property
    def state(self) -> State:
        """Yours, shared by all requests of this worker process."""
        return self._worker.state

    @property
    def worker(self) -> WorkerInfo:
        """Which worker process this is."""
        return self._worker.worker

    @property
    def log(self) -> Log:
        """Writes to the server's log, with the request's id."""
        return self._job.log

    @property
    def deadline(self) -> Optional[datetime]:
        """When the client gets 504 instead of this answer, or None. It was fixed on arrival: waiting in the queue counts."""
        left = self.remaining()
        return None if left == math.inf else datetime.fromtimestamp(time.time() + left, timezone.utc)

    def remaining(self) -> float:
        """Seconds until the deadline, 0 once it has passed, `math.inf` without one."""
        due = self._job.due
        return math.inf if due is None else max(0.0, due - time.monotonic())

    @property
    def aborted(self) -> bool:
        """Whether the response is no longer needed: the client has disconnected, or the deadline has passed. Check it in long loops. Threads that
        the handler started may check it too; if the handler blocks meanwhile, they see the state at its last check."""
        return self._job.aborted


class JobView:
    """The interface of a job for its context."""

    __slots__ = ()

    @property
    def log(self) -> Log:
        raise NotImplementedError

    @property
    def due(self) -> Optional[float]:
        """The deadline, on the clock of `time.monotonic()`."""
        raise NotImplementedError

    @property
    def aborted(self) -> bool:
        raise NotImplementedError
