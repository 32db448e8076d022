"""The native library, the file that Node and Bun load as their addon, called by ctypes. Its C interface is documented in
`sdk/node/native/src/c`."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import threading
import weakref
from pathlib import Path
from struct import Struct
from typing import Any, Dict, List, Optional, Union

from .. import _store
from .error import StoreError

#: The version of the C interface that this module calls.
VERSION = 1
#: Offset of the path in what an operation is given.
START = 8
VALUE, NOTHING, FAILED = range(3)

Argument = Union[int, float, str, None]

_FOLDER = Path(__file__).resolve().parents[1]
#: Where the library may be: in a wheel, in the SDK as the server unpacks it, and in a clone of the repository.
PLACES = (
    _FOLDER / "forebay.node",
    _FOLDER.parents[1] / "dist" / "forebay.node",
    _FOLDER.parents[1] / "node" / "dist" / "forebay.node",
)
_ARGUMENTS = [Struct("<" + "dq" * count) for count in range(9)]


class _Reply(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    def read(self) -> str:
        return ctypes.string_at(self.text, self.length).decode() if self.length else ""


class Library:
    """The loaded library."""

    def __init__(self, place: Path) -> None:
        #: Calls that may wait for others, which give up the interpreter's lock meanwhile.
        self._waiting = ctypes.CDLL(str(place))
        #: Calls that never wait, which keep it.
        quick = ctypes.PyDLL(str(place))
        version = quick.forebay_version()
        if version != VERSION:
            raise StoreError("no_store", f"{place} has version {version} of the store's interface, this package needs {VERSION}")
        call: List[Any] = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(_Reply)]
        quick.forebay_store_call.argtypes = self._waiting.forebay_store_call.argtypes = call
        quick.forebay_operation.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self._waiting.forebay_page.argtypes = [ctypes.c_int, ctypes.POINTER(_Reply)]
        self._waiting.forebay_store_open.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_double * 9),
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(_Reply),
        ]
        self._waiting.forebay_store_free.argtypes = [ctypes.c_void_p]
        self.quick_call = quick.forebay_store_call
        self.waiting_call = self._waiting.forebay_store_call
        self.free = self._waiting.forebay_store_free
        self._operation = quick.forebay_operation
        self._numbers: Dict[str, int] = {}

    def number(self, operation: str) -> int:
        """The number of an operation."""
        number = self._numbers.get(operation)
        if number is None:
            name = operation.encode()
            number = self._numbers[operation] = self._operation(name, len(name))
        return number

    def report_in(self, descriptor: int) -> None:
        """Reports commits in the worker's page from now on."""
        reply = _Reply()
        if self._waiting.forebay_page(descriptor, ctypes.byref(reply)) == FAILED:
            raise _error(reply)

    def open(self, path: str, options: List[float]) -> "Session":
        """Opens a store for the calling thread."""
        handle, reply = ctypes.c_void_p(), _Reply()
        name = os.fsencode(path)
        numbers = (ctypes.c_double * 9)(*options)
        if self._waiting.forebay_store_open(name, len(name), ctypes.byref(numbers), ctypes.byref(handle), ctypes.byref(reply)) == FAILED:
            raise _error(reply)
        session = Session(self, handle, json.loads(reply.read()))
        opened: "Optional[weakref.WeakSet[Session]]" = getattr(_sessions, "opened", None)
        if opened is None:
            opened = _sessions.opened = weakref.WeakSet()
        opened.add(session)
        return session


def _error(reply: _Reply) -> StoreError:
    code, _, message = reply.read().partition("\n")
    return StoreError(code, message)


class Session:
    """A store as opened by one thread."""

    def __init__(self, library: Library, handle: ctypes.c_void_p, path: str) -> None:
        self.path = path
        self._library = library
        self._handle: Optional[ctypes.c_void_p] = handle
        self._process = os.getpid()
        self._reply = _Reply()
        self._reference = ctypes.byref(self._reply)
        #: The coroutine that has a transaction open; None without a transaction, and outside of coroutines.
        self._owner: "Optional[asyncio.Task[Any]]" = None

    def read(self, operation: str, area: bytes, *arguments: Argument) -> Optional[str]:
        """Runs an operation that never waits for others; returns the JSON text of its result, None if it has none."""
        return self._call(self._library.quick_call, operation, area, arguments)

    def write(self, operation: str, area: bytes, *arguments: Argument) -> Optional[str]:
        """Runs an operation that may wait for others."""
        return self._call(self._library.waiting_call, operation, area, arguments)

    def _call(self, function: Any, operation: str, area: bytes, arguments: "tuple[Argument, ...]") -> Optional[str]:
        if self._owner is not None:
            self._give_up_if_left()
        if self._handle is None:
            _check_process()
            raise StoreError("closed", "the store is closed")
        packed: List[Union[int, float]] = []
        for argument in arguments:
            if argument is None:
                packed += (0, -1)
            elif isinstance(argument, str):
                text = _utf8(argument)
                packed += (len(area), len(text))
                area += text
            else:
                packed += (argument, -1)
        count = len(arguments)
        status = function(
            self._handle, self._library.number(operation), area, len(area), _ARGUMENTS[count].pack(*packed), count, self._reference
        )
        if status == VALUE:
            return self._reply.read()
        if status == NOTHING:
            return None
        raise _error(self._reply)

    def level(self) -> int:
        """How many transactions are open, one inside of the other."""
        return int(self.read("level", b"") or 0)

    def begin(self) -> int:
        """Begins a transaction; returns the level."""
        level = int(self.write("begin", b"", 0) or 0)
        task = _current_task()
        if level == 1 and task is not None:
            self._owner = task
            # Runs when this coroutine awaits something inside of its transaction.
            task.get_loop().call_soon(self._give_up_if_left)
        return level

    def commit(self, durability: int) -> None:
        """Ends the innermost transaction."""
        self.write("commit", b"", durability)
        if self.level() == 0:
            self._owner = None

    def roll_back(self, to: int) -> None:
        """Rolls transactions back, until so many are left."""
        while self.level() > to:
            self.write("rollBack", b"")
        if to == 0:
            self._owner = None

    def _give_up_if_left(self) -> None:
        """Rolls back the transaction of a coroutine that awaits something inside of it: others would be part of it, or wait for it."""
        owner = self._owner
        if owner is not None and owner is not _current_task():
            self._owner = None
            self.roll_back(0)

    def end(self) -> bool:
        """Rolls back what was left open; whether anything was."""
        if self._handle is None or self.level() == 0:
            return False
        self.roll_back(0)
        return True

    def close(self) -> None:
        """Closes the store in this thread."""
        handle, self._handle = self._handle, None
        # The sessions of other threads are left in a fork, too.
        if handle is not None and self._process == os.getpid():
            self._library.free(handle)

    def leave(self) -> None:
        """Forgets the store, in a fork, which has the memory but not the store."""
        self._handle = self._owner = None

    def __del__(self) -> None:
        self.close()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise StoreError("not_text", f"the text {text[:40]!r} has half a surrogate pair") from error


def _current_task() -> "Optional[asyncio.Task[Any]]":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


_library: Optional[Library] = None
_lock = threading.Lock()
_is_fork = False
#: The sessions of each thread.
_sessions = threading.local()


def library() -> Library:
    """The library, loaded when the first store is opened, so that handlers without a store do not pay for it."""
    global _library
    _check_process()
    with _lock:
        if _library is None:
            place = next((place for place in PLACES if place.exists()), None)
            if place is None:
                raise StoreError("no_store", f"the native library is not there: looked for {', '.join(map(str, PLACES))}")
            try:
                loaded = Library(place)
            except OSError as error:
                raise StoreError("no_store", f"the native library cannot be loaded: {error}") from error
            if _store.page is not None:
                loaded.report_in(_store.page)
            _store.end_job = _end_job
            os.register_at_fork(after_in_child=_forked)
            _library = loaded
        return _library


def _check_process() -> None:
    if _is_fork:
        raise StoreError("no_store", "this process is a fork of one that has the store open: use the store there, or start a new process")


def _forked() -> None:
    global _is_fork
    _is_fork = True
    # Their memory stays as it is: closing them here would end what the other process has open.
    for session in getattr(_sessions, "opened", ()):
        session.leave()


def _end_job() -> bool:
    return any([session.end() for session in getattr(_sessions, "opened", ())])
