"""Reports of a worker: failures on standard error, which the server logs line by line, and lines of `ctx.log`."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, Callable, Dict, Optional

from .._context import Log
from .._wire import LOG, frame
from .job import Job

#: Longer messages are cut.
LOG_MESSAGE_MAX = 65_536
#: Fields that are longer are left out.
LOG_LINE_MAX = 131_072

LOG_LEVELS = ("debug", "info", "warn", "error")


def report(what: str, error: Optional[BaseException] = None) -> None:
    """Writes a failure to standard error, with its traceback."""
    detail = "" if error is None else ": " + "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
    # The end of a traceback is the most informative part.
    print(f"forebay: {what}{detail[-LOG_MESSAGE_MAX:]}", file=sys.stderr, flush=True)


def log_to(write: Callable[[bytes], None], generation: int, job: Optional[Job]) -> Log:
    """Makes a logger whose lines are LOG frames, of a job or of the worker."""
    number, slot = (0, 0) if job is None else (job.number, job.slot)

    def line(level: str, message: str, fields: Dict[str, Any]) -> None:
        content: Dict[str, Any] = {"level": level, "message": str(message)[:LOG_MESSAGE_MAX]}
        if job is not None:
            content["request"] = job.request_id
        write(frame(LOG, 0, generation, number, slot, _encoded(content, fields)))

    return Log(line)


def _encoded(content: Dict[str, Any], fields: Dict[str, Any]) -> bytes:
    """Encodes a line as JSON; fields that JSON cannot represent are written as text, and dropped if that fails."""
    if not fields:
        return json.dumps(content).encode()
    try:
        line = json.dumps({**content, "fields": fields}, default=str, allow_nan=False)
        if len(line) <= LOG_LINE_MAX:
            return line.encode()
        why = f"they take {len(line)} characters, at most {LOG_LINE_MAX}"
    except Exception as error:
        # Converting a field may raise anything, but logging must not fail the request.
        why = str(error)
    return json.dumps({**content, "fields": {"fields_dropped": why}}).encode()
