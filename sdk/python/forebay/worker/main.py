"""The life cycle of a worker: opens the link, shakes hands, loads the application, serves."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import json
import os
import platform
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, Awaitable, Callable, Coroutine, Dict, List, NamedTuple, NoReturn, Optional

from .. import _store
from .._app import is_coroutine_function, prepared_hook
from .._calls import Calls, open_calls
from .._context import State, WorkerContext, WorkerInfo
from .._version import VERSION
from .._websocket import set_publish
from .._wire import FAILED, FRAME_PAYLOAD_MAX, HEADER, HELLO, INIT, PROTOCOL, READY, frame
from .asgi import Asgi, Lifespan, LifespanFailed
from .blocking import BlockingEngine, LinkClosed
from .claims import Page, open_page
from .event_loop import AsyncEngine, AsyncJob, ThreadRunner
from .handlers import AsyncHandlers, Handlers
from .load import ASGI, FOREBAY, SLOW_IMPORT_SECONDS, LoadedApplication, LoadError, import_file, load, parse_arguments
from .report import report
from .socket import published
from .wsgi import Wsgi

#: What the log says of a lifespan that takes long to start.
NO_STARTUP = f"the lifespan of the ASGI application has not sent lifespan.startup.complete for {SLOW_IMPORT_SECONDS:g} s, for which the worker waits"

Hook = Callable[[Any], Any]

#: Longer texts about a failed start are cut.
FAILED_TEXT_MAX = 65_536


class Init(NamedTuple):
    """The members of INIT that a worker uses."""

    pool: str
    worker: int
    handler: Optional[str]
    start: Optional[str]
    concurrency: int
    #: What a worker whose application waits may ask for instead.
    concurrency_max: int
    window_bytes: int
    files: bool


class StartFailed(Exception):
    """The worker cannot start; its cause says why."""


class Program(NamedTuple):
    """The loaded application and its hooks."""

    loaded: LoadedApplication
    start: List[Hook]
    stop: List[Hook]
    #: Whether a hook of the startup module is asynchronous.
    awaits: bool


def main(arguments: List[str]) -> int:
    """Runs a worker to its end; returns the exit status."""
    # A terminal's Ctrl-C reaches the whole process group, but the server drains its workers itself. Not SIG_IGN, which programs started
    # by a handler would inherit.
    signal.signal(signal.SIGINT, lambda number, stack: None)
    for output in (sys.stdout, sys.stderr):
        # The server logs line by line, as soon as a line is complete.
        output.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    generation = int(_environment("FOREBAY_GENERATION"))
    link = _open_link(int(_environment("FOREBAY_LINK_FD")))
    page = open_page()
    if page is not None:
        _store.page = page.descriptor
    link.sendall(frame(HELLO, 0, generation, 0, 0, json.dumps(_hello(page)).encode()))
    try:
        init = _read_init(link)
        calls = open_calls(init.pool, generation)
        try:
            program = _load(init, arguments)
            if _is_async(program, init):
                return _run(_serve_async(link, generation, init, program, page, calls))
            return _serve_blocking(link, generation, init, program, page, calls)
        except StartFailed as failed:
            error = failed.__cause__
            assert error is not None, "it is raised from what went wrong"
            return _tell(link, generation, error)
    except LinkClosed as closed:
        if closed.args:
            report(str(closed))
        return 0


def _environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        sys.exit(f"forebay: {name} is not set: this program is started by `forebay serve`")
    return value


def _open_link(descriptor: int) -> socket.socket:
    """The inherited socket, closed in child processes and forks."""
    link = socket.socket(fileno=descriptor)
    link.set_inheritable(False)
    os.register_at_fork(after_in_child=link.close)
    os.register_at_fork(after_in_child=_let_signals_end_it)
    return link


def _let_signals_end_it() -> None:
    """Restores the default effect of signals in a fork, which is not a worker, and detaches it from this process's event loop."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _hello(page: Optional[Page]) -> Dict[str, object]:
    runtime = f"{platform.python_implementation().lower()}/{platform.python_version()}"
    known = {"protocol": PROTOCOL, "sdk": f"forebay-python/{VERSION}", "runtime": runtime, "pid": os.getpid()}
    return {**known, "page": page is not None, "lock": True, "connection": True, "identity": True}


def _read_init(link: socket.socket) -> Init:
    while True:
        length, kind, _, _, _, _ = HEADER.unpack(_exactly(link, HEADER.size))
        if length > FRAME_PAYLOAD_MAX:
            raise LinkClosed(f"the server sent a frame of {length} bytes (at most {FRAME_PAYLOAD_MAX})")
        payload = _exactly(link, length)
        if kind == INIT:
            members = {"handler": None, "start": None, "files": False, **json.loads(payload)}
            members.setdefault("concurrency_max", members.get("concurrency"))
            for name in Init._fields:
                if name not in members:
                    raise LinkClosed(f"the server sent an INIT without {name}")
            return Init(*(members[name] for name in Init._fields))


def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise LinkClosed
        data += part
    return data


def _load(init: Init, arguments: List[str]) -> Program:
    try:
        start: List[Hook] = []
        stop: List[Hook] = []
        awaits = False
        if init.start is not None:
            first = import_file(init.start)
            for name, hooks in (("on_start", start), ("on_stop", stop)):
                hook = getattr(first, name, None)
                if callable(hook):
                    hooks.append(prepared_hook(hook))
                    awaits |= is_coroutine_function(hook)
        loaded = load(init.handler, parse_arguments(arguments))
        if loaded.interface == FOREBAY:
            start += loaded.application._start
            stop = loaded.application._stop + stop
        return Program(loaded, start, stop, awaits)
    except SystemExit as error:
        raise StartFailed from LoadError(f"the handler ended the process while it was imported (exit status {error.code})")
    except Exception as error:
        raise StartFailed from error


def _is_async(program: Program, init: Init) -> bool:
    """Whether jobs run on an event loop; otherwise they run one after another on the main thread, which costs less."""
    if program.loaded.interface == ASGI or init.concurrency > 1:
        return True
    return program.awaits or (program.loaded.interface == FOREBAY and program.loaded.application._is_async)


def _run(work: Coroutine[Any, Any, int]) -> int:
    """Runs a coroutine to its end, on the event loop of uvloop where the application's environment has it, as uvicorn does: it is faster. The variable
    FOREBAY_LOOP=asyncio keeps Python's own."""
    run: Callable[[Coroutine[Any, Any, int]], int] = asyncio.run
    if os.environ.get("FOREBAY_LOOP") != "asyncio":
        with suppress(ImportError, AttributeError):
            run = importlib.import_module("uvloop").run
    return run(work)


def _context(init: Init, log: Any) -> WorkerContext:
    return WorkerContext(State(), WorkerInfo(init.worker, init.pool, os.getpid()), log)


def _freeze_memory() -> None:
    """Excludes loaded modules from garbage collection, which makes each collection cheaper."""
    gc.collect()
    gc.freeze()


def _serve_blocking(
    link: socket.socket, generation: int, init: Init, program: Program, page: Optional[Page], calls: Optional[Calls]
) -> int:
    engine = BlockingEngine(link, generation, init.window_bytes, init.files, page)
    set_publish(lambda room, message: engine.publish(*published(room, message)))
    if calls is not None:
        calls.on_thread(engine.uninterrupted)
    context = _context(init, engine.log_of(None))
    try:
        for hook in program.start:
            _call_hook(hook, context)
    except Exception as error:
        raise StartFailed from error
    application = program.loaded.application
    handle = Handlers(application, context) if program.loaded.interface == FOREBAY else Wsgi(application, program.loaded.mount, encoded_slashes=program.loaded.encoded_slashes)
    _freeze_memory()
    engine.write(frame(READY, 0, generation, 0, 0))
    engine.serve(handle)
    status = 0
    for hook in program.stop:
        try:
            _call_hook(hook, context)
        except Exception as error:
            status = _stop_failed(error)
    link.close()
    return status


async def _serve_async(
    link: socket.socket, generation: int, init: Init, program: Program, page: Optional[Page], calls: Optional[Calls]
) -> int:
    # A coroutine that waits leaves the loop to others.
    concurrency = init.concurrency_max if program.loaded.interface == ASGI else init.concurrency
    engine = AsyncEngine(generation, init.window_bytes, init.files, concurrency, page, calls)
    await engine.open(link)
    set_publish(lambda room, message: engine.publish(*published(room, message)))
    context = _context(init, engine.log_of(None))
    application = program.loaded.application
    handle: Callable[[AsyncJob], Awaitable[None]]
    lifespan: Optional[Lifespan] = None
    if program.loaded.interface == FOREBAY:
        handle = AsyncHandlers(application, context, init.concurrency)
    elif program.loaded.interface == ASGI:
        handle = asgi = Asgi(application, program.loaded.mount, encoded_slashes=program.loaded.encoded_slashes)
        lifespan = Lifespan(application, asgi.state)
    else:
        handle = ThreadRunner(Wsgi(application, program.loaded.mount, threads=True, encoded_slashes=program.loaded.encoded_slashes), init.concurrency)
    try:
        for hook in program.start:
            await _run_hook(hook, context)
        if lifespan is not None:
            slow = asyncio.get_running_loop().call_later(SLOW_IMPORT_SECONDS, report, NO_STARTUP)
            await lifespan.start()
            slow.cancel()
    except Exception as error:
        engine.write(_failed(generation, error))
        await engine.close()
        return 1
    _freeze_memory()
    asked = b"" if concurrency == init.concurrency else json.dumps({"concurrency": concurrency}).encode()
    engine.write(frame(READY, 0, generation, 0, 0, asked))
    if not await engine.serve(handle):
        _end_now(0)
    status = 0
    try:
        if lifespan is not None and not await lifespan.stop():
            status = 1
    except Exception as error:
        status = _stop_failed(error)
    for hook in program.stop:
        try:
            await _run_hook(hook, context)
        except Exception as error:
            status = _stop_failed(error)
    await engine.close()
    return status


def _call_hook(hook: Hook, context: WorkerContext) -> None:
    result = hook(context)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("a hook gave something to await; one that awaits is an `async def`")


async def _run_hook(hook: Hook, context: WorkerContext) -> None:
    result = hook(context)
    if inspect.isawaitable(result):
        await result


def _stop_failed(error: Exception) -> int:
    report("a stop hook failed", error)
    return 1


def _failed(generation: int, error: BaseException) -> bytes:
    """Makes the FAILED frame."""
    stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    known = isinstance(error, (LoadError, LifespanFailed))
    message = str(error) if known else f"{type(error).__name__}: {error}"
    told = {"message": message[:FAILED_TEXT_MAX], "stack": stack[-FAILED_TEXT_MAX:]}
    return frame(FAILED, 0, generation, 0, 0, json.dumps(told).encode())


def _tell(link: socket.socket, generation: int, error: BaseException) -> int:
    link.sendall(_failed(generation, error))
    link.close()
    return 1


def _end_now(status: int) -> NoReturn:
    """Ends the process at once, without waiting for its threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
