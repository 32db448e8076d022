"""What handlers and hooks are given beside the request."""

from __future__ import annotations

import math
import time
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple, Optional


class Interrupted(BaseException):
    """Raised inside of a handler that blocks when its worker has to end and nobody waits for the answer any more, so that `finally` clauses
    run. That is in workers whose handlers have the main thread: with `concurrency = 1`, and WSGI or an `App` without any `async def`; code
    that blocks in threads or on an event loop cannot be interrupted. It is no `Exception`, so that a handler does not take it for one of its own failures."""


class WorkerInfo(NamedTuple):
    """Which worker process this is."""

    #: The worker's number in its pool.
    id: int
    #: The pool's name in `forebay.toml`.
    pool: str
    #: The id of the worker process.
    pid: int


class State(SimpleNamespace):
    """Yours: empty at the start, shared by all requests of this worker process and by nobody else. Set what you like on it."""

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
    """What the hooks `on_start` and `on_stop` are given, and what every request's `Context` includes."""

    def __init__(self, state: State, worker: WorkerInfo, log: Log) -> None:
        #: Your own state, shared by all requests of this worker process: `ctx.state.db = connect()` in a start hook.
        self.state = state
        self.worker = worker
        self.log = log


class Context:
    """What a handler is given beside the request."""

    __slots__ = ("_worker", "_job")

    def __init__(self, worker: WorkerContext, job: "Running") -> None:
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
        """Whether nobody waits for the answer any more: the client has gone or the deadline has passed. A long loop looks at it. Threads
        of the handler's own may look, too: where the handler blocks, they learn what it has learnt."""
        return self._job.aborted


class Running:
    """What a context asks of the job that it belongs to."""

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
