"""Sends what handlers return."""

from __future__ import annotations

from typing import Any, Tuple

from .._reply import Reply, error_reply, is_failure, pieces_of, to_json, to_piece, to_reply
from .._sql.error import SqlError
from .._wire import FAULT, KIND_JSON, KIND_TEXT, header_block
from .job import BEGUN, NEW, Exchange, Gone
from .report import report

_NOTHING = object()


def answer(job: Exchange, value: Any) -> None:
    """Sends what a handler returned, and ends the job."""
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
    """Sends the answer to an exception; None is one that says nothing to the client."""
    job.respond(*error_parts(error, job.job.request_id), FAULT if is_failure(error) else 0)


def error_parts(error: object, request_id: str) -> Tuple[int, int, bytes, bytes]:
    """Status, kind, headers and body of the answer to an exception."""
    known = error_reply(error, request_id)
    assert isinstance(known.body, bytes), "the body of an error is written whole"
    return known.status, known.kind, header_block(known.headers), known.body


def stream(job: Exchange, reply: Reply) -> None:
    """Sends a reply whose body comes in pieces, each as soon as it is there and the client takes it."""
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
    """Answers a job whose application raised, or gives its answer up when it has begun; whoever waits in vain is told in the log."""
    state = job.job.state
    if isinstance(error, Gone) and job.job.gone:
        return
    if state == NEW:
        # An `HttpError` has been sent already, or its response could not be encoded.
        told = error if isinstance(error, SqlError) else None
        if is_failure(told):
            report(f"{job.job.label} failed", error)
        send_error(job, told)
    elif state == BEGUN:
        report(f"the response to {job.job.label} broke off", error)
        job.reset()
    else:
        report(f"{job.job.label} failed after its answer", error)
