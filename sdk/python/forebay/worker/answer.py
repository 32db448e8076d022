"""Sends what handlers return."""

from __future__ import annotations

from typing import Any, Tuple

from .._reply import Reply, error_reply, is_failure, pieces_of, to_json, to_piece, to_reply
from .._sql.error import SqlError
from .._wire import FAULT, KIND_JSON, KIND_TEXT, header_block
from .job import BEGUN, NEW, Exchange, RequestAborted
from .report import report

_NOTHING = object()


def answer(job: Exchange, value: Any) -> None:
    """Sends the value that a handler returned, and ends the job."""
    kind = type(value)
    if kind is dict or kind is list:
        job.respond(200, KIND_JSON, b"", to_json(value))
    elif kind is str:
        job.respond(200, KIND_TEXT, b"", value.encode())
    else:
        reply = to_reply(value)
        body = reply.body
        if isinstance(body, bytes):
            job.respond(reply.status, reply.kind, header_block(reply.headers), body)
        else:
            stream(job, reply)


def send_error(job: Exchange, error: object) -> None:
    """Sends the response to an exception; None stands for one whose cause is not revealed."""
    job.respond(*error_parts(error, job.job.request_id), FAULT if is_failure(error) else 0)


def error_parts(error: object, request_id: str) -> Tuple[int, int, bytes, bytes]:
    """Status, kind, headers and body of the response to an exception."""
    known = error_reply(error, request_id)
    assert isinstance(known.body, bytes), "the body of an error is written whole"
    return known.status, known.kind, header_block(known.headers), known.body


def stream(job: Exchange, reply: Reply) -> None:
    """Streams a reply, each piece as soon as it is available and the client's window allows."""
    pieces = pieces_of(reply.body)
    try:
        if job.job.is_head:
            job.begin(reply.status, reply.kind, header_block(reply.headers))
            job.finish()
            return
        # Runs a generator up to its first piece, so that it can still fail with a status.
        first = next(pieces, _NOTHING)
        job.begin(reply.status, reply.kind, header_block(reply.headers))
        if first is not _NOTHING:
            job.send(to_piece(first))
            for piece in pieces:
                job.send(to_piece(piece))
        job.finish()
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()


def fail(job: Exchange, error: Exception) -> None:
    """Answers a job whose application raised, or aborts its response if that has begun; logs the failure in that case."""
    state = job.job.state
    if isinstance(error, RequestAborted) and job.job.gone:
        return
    if state == NEW:
        # An `HttpError` has been sent already, or its response could not be encoded.
        shown = error if isinstance(error, SqlError) else None
        if is_failure(shown):
            report(f"{job.job.label} failed", error)
        send_error(job, shown)
    elif state == BEGUN:
        report(f"the response to {job.job.label} broke off", error)
        job.reset()
    else:
        report(f"{job.job.label} failed after its answer", error)
