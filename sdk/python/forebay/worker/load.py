"""Finds the application that a pool names, and its interface."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import threading
import traceback
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Iterator, List, NamedTuple, Optional

from .._app import App, is_coroutine_function
from .report import report

#: Names of applications that are tried if the pool does not name one.
NAMES = ("app", "application", "handler")
#: Usual names of application factories; only mentioned in errors.
FACTORIES = ("create_app", "make_app", "create_application")

#: Seconds after which the log says that a module is still being imported, and where.
SLOW_IMPORT_SECONDS = 10.0

FOREBAY, WSGI, ASGI = "forebay", "wsgi", "asgi"


class LoadError(Exception):
    """The pool names no application that can be run; the message says what to do."""


class LoadRequest(NamedTuple):
    """The application named on the command line; the path of a handler file is in INIT instead."""

    #: The module name, if the handler is not a file.
    module: str
    #: The object in the module; None for one of `NAMES`.
    object: Optional[str]
    #: auto, or one of the names above.
    interface: str
    #: The path at which the application is mounted; empty for none.
    mount: str
    #: Whether a path may contain an encoded slash, which the application cannot tell from a plain one.
    encoded_slashes: bool


class LoadedApplication(NamedTuple):
    """An application and how to call it."""

    application: Any
    interface: str
    mount: str
    encoded_slashes: bool


def load(file: Optional[str], request: LoadRequest) -> LoadedApplication:
    """Imports the module, a file or one by name, and finds the application in it."""
    # The application may look at its command line, and the worker's own is of no use to it.
    sys.argv = [file or request.module]
    where = file or f"the module {request.module}"
    with told_when_slow(where, SLOW_IMPORT_SECONDS):
        module = import_file(file) if file is not None else import_module(request.module)
    application = _object(module, request.object, where)
    interface = _interface(application, where) if request.interface == "auto" else request.interface
    if isinstance(application, App) != (interface == FOREBAY):
        raise LoadError(f'the application of {where} is a {type(application).__name__}, which interface = "{interface}" cannot run')
    if interface != FOREBAY and not callable(application):
        raise LoadError(f"the application of {where} is a {type(application).__name__}, which cannot be called")
    if interface == FOREBAY and request.mount:
        raise LoadError(f'the patterns of an App are whole paths: write {request.mount} into them, mount = "{request.mount}" is for WSGI and ASGI')
    return LoadedApplication(application, interface, request.mount, request.encoded_slashes)


@contextmanager
def told_when_slow(where: str, seconds: float) -> Iterator[None]:
    """Says in the log where the thread is, when what is done inside takes so long."""
    thread = threading.get_ident()

    def tell() -> None:
        stack = "".join(traceback.format_stack(sys._current_frames().get(thread), 8)).rstrip()
        advice = "a module that runs a server or waits for something never becomes ready: it only has to define the application"
        report(f"{where} has been imported for {seconds:g} s and is not done ({advice}). It is here:\n{stack}")

    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def import_file(file: str) -> ModuleType:
    """Imports a file under the name that its neighbours would use: in a package, the name of the package's module."""
    folder, name = os.path.split(file)
    parts = [os.path.splitext(name)[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    if parts[-1] == "__init__":
        parts.pop()
    _look_in(folder)
    module_name = ".".join(parts)
    if all(part.isidentifier() for part in parts):
        module = _import(module_name, file)
        value = getattr(module, "__file__", None)
        if value is None or not os.path.samefile(value, file):
            raise LoadError(
                f"{file} has the name of another module, `{module_name}`, which is {value or 'built in'}: give the file another name"
            )
        return module
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None and spec.loader is not None, "a file that ends with .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise _missing(error, file) from error
    return module


def import_module(name: str) -> ModuleType:
    """Imports a module as `python -m` finds it: from the working folder, or an installed one."""
    _look_in(os.getcwd())
    return _import(name, name)


def _look_in(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _import(name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise _missing(error, where) from error


def _missing(error: ModuleNotFoundError, where: str) -> LoadError:
    version = ".".join(map(str, sys.version_info[:3]))
    if error.name is not None and f"{where}.".startswith(f"{error.name}."):
        hint = f"modules are looked for in the pool's `cwd`, {os.getcwd()}, and among those installed for {sys.executable}"
    else:
        hint = (
            f"this is {sys.executable} ({version}); install what is missing there, or name the environment that has it: "
            'python = "PATH/bin/python" in the pool'
        )
    return LoadError(f"cannot import {where}: {error} ({hint})")


def _object(module: ModuleType, expression: Optional[str], where: str) -> Any:
    if expression is None:
        for name in NAMES:
            if hasattr(module, name):
                return getattr(module, name)
        raise LoadError(f"{where} has no application: expected an object called {_join_names(NAMES)}{_hint(module, where)}")
    called = expression.endswith("()")
    value: Any = module
    for part in (expression[:-2] if called else expression).split("."):
        if not hasattr(value, part):
            raise LoadError(f"{where} has no object `{expression}`{_hint(module, where)}")
        value = getattr(value, part)
    return value() if called else value


def _hint(module: ModuleType, where: str) -> str:
    """A hint at applications that the module does have; empty if there are none."""
    factory = next((name for name in FACTORIES if hasattr(module, name)), None)
    module_path = os.path.basename(where) if where.endswith(".py") else module.__name__
    if factory is not None:
        return f'; it has a function that makes one: handler = "{module_path}:{factory}()"'
    names = [name for name, value in vars(module).items() if isinstance(value, App) or _shape(value) is not None]
    names = [name for name in names if not name.startswith("_") and not inspect.isclass(vars(module)[name])]
    return f'; it has {_join_names(names[:5])}: handler = "{module_path}:{names[0]}" names it' if names else ""


def _join_names(names: Any) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _interface(application: Any, where: str) -> str:
    if isinstance(application, App):
        return FOREBAY
    shape = _shape(application)
    if shape is not None:
        return shape
    raise LoadError(
        f"the application of {where} is a {type(application).__name__}, which is neither an App of forebay, nor a WSGI application (two "
        'parameters), nor an ASGI one (three, async); if it is one of them, say so: interface = "wsgi" or "asgi" in the pool'
    )


def _shape(application: Any) -> Optional[str]:
    """The interface that an application has, judged by its parameters; None if unknown."""
    if not callable(application) or inspect.isclass(application):
        return None
    try:
        parameters: List[inspect.Parameter] = list(inspect.signature(application).parameters.values())
    except (TypeError, ValueError):
        return None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters):
        return None
    needed = sum(each.default is each.empty for each in positional)
    if needed <= 3 <= len(positional) and (needed == 3 or is_coroutine_function(application)):
        return ASGI
    if needed <= 2 <= len(positional) and not is_coroutine_function(application):
        return WSGI
    return None


def parse_arguments(arguments: List[str]) -> LoadRequest:
    """Reads the command line: `--name=value`, each at most once."""
    values = dict(argument[2:].split("=", 1) for argument in arguments if argument.startswith("--") and "=" in argument)
    return LoadRequest(values.get("module", ""), values.get("object"), values.get("interface", "auto"), values.get("mount", ""), values.get("encoded-slashes") == "decode")
