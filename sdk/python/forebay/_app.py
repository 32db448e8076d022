"""The application object that handlers are registered with."""

from __future__ import annotations

import inspect
from typing import Any, Callable, List, NamedTuple, Tuple, TypeVar

from ._context import Context
from ._reply import HttpError
from ._request import Head
from ._router import ANY, Router
from ._websocket import Upgrade

#: Answers a request: called with `(request, ctx)`, `(request)` or nothing, depending on how many parameters it has.
Handler = TypeVar("Handler", bound=Callable[..., Any])
#: Runs once in each worker process: called with `(ctx)` or nothing.
Hook = TypeVar("Hook", bound=Callable[..., Any])

#: A hook in the form that the worker calls.
Prepared = Callable[[Any], Any]


class Target(NamedTuple):
    """A handler as the worker calls it."""

    call: Callable[[Any, Context], Any]
    is_async: bool


class App:
    """An application: patterns and the functions that answer them.

        from forebay import App, HttpError

        app = App()
        users = {"7": {"name": "Ada"}}

        @app.get("/users/:id")
        def user(request):
            id = request.params["id"]
            if id not in users:
                raise HttpError(404, f"no user {id}")
            return users[id]

    A handler takes `(request, ctx)`, `(request)` or nothing. What it returns is the answer: a `dict`, `list`, number or `bool` is JSON, a
    `str` is text, `bytes` are bytes, `None` is 204, an iterator (a generator, say) is streamed piece by piece as the client takes it, and
    `json`, `text` and `reply` say status and headers too. An `async def` handler is given an `AsyncRequest`, whose body is awaited,
    and may `yield` its answer, too.

    `:name` takes one segment of the path, a final `*` or `*name` the rest. Literals go before `:name` before `*`, whatever the order of
    registration. `HEAD` falls back to `GET`; what does not match gets 404, or 405 with `Allow`. The app sees the whole path, whatever
    route of `forebay.toml` led to the pool.
    """

    def __init__(self) -> None:
        self._router: Router[Target] = Router()
        self._start: List[Prepared] = []
        self._stop: List[Prepared] = []
        self._is_async = False

    def get(self, path: str) -> Callable[[Handler], Handler]:
        """Answers `GET`, and `HEAD` where no `head` route does."""
        return self._adder("GET", path)

    def post(self, path: str) -> Callable[[Handler], Handler]:
        """Answers `POST`."""
        return self._adder("POST", path)

    def put(self, path: str) -> Callable[[Handler], Handler]:
        """Answers `PUT`."""
        return self._adder("PUT", path)

    def patch(self, path: str) -> Callable[[Handler], Handler]:
        """Answers `PATCH`."""
        return self._adder("PATCH", path)

    def delete(self, path: str) -> Callable[[Handler], Handler]:
        """Answers `DELETE`."""
        return self._adder("DELETE", path)

    def head(self, path: str) -> Callable[[Handler], Handler]:
        """Answers `HEAD`, in place of the `get` route."""
        return self._adder("HEAD", path)

    def options(self, path: str) -> Callable[[Handler], Handler]:
        """Answers `OPTIONS`."""
        return self._adder("OPTIONS", path)

    def all(self, path: str) -> Callable[[Handler], Handler]:
        """Answers every method that has no route of its own on this path."""
        return self._adder(ANY, path)

    def websocket(self, path: str) -> Callable[[Handler], Handler]:
        """Answers WebSockets, by an `async def` that takes `(socket, ctx)` or `(socket)`, where `socket` is a `WebSocket`:

            @app.websocket("/chat/:room")
            async def chat(socket):
                room = socket.request.params["room"]
                socket.join(room)
                async for message in socket:
                    socket.broadcast(room, message)

        The connection does not count against the pool's `concurrency` and has no time limit. A request that asks for no WebSocket is answered 400.
        """

        def add(handler: Handler) -> Handler:
            if not is_coroutine_function(handler):
                raise TypeError(f"the function of the WebSockets at {path} is an `async def`")
            run = _with_arguments(handler, 2, f"the function of the WebSockets at {path}")
            self._adder("GET", path)(_upgrading(run))
            return handler

        return add

    def on_start(self, hook: Hook) -> Hook:
        """Runs in each worker before its first request; may be `async def`. A failure keeps the worker from serving."""
        self._start.append(self._prepared(hook))
        return hook

    def on_stop(self, hook: Hook) -> Hook:
        """Runs in each worker after its last request, before the process ends; may be `async def`."""
        self._stop.append(self._prepared(hook))
        return hook

    def _adder(self, method: str, path: str) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            if not callable(handler):
                raise TypeError(f"the handler of {path} is a {type(handler).__name__}, not a function")
            is_async = _may_await(handler)
            self._router.add(method, path, Target(_with_arguments(handler, 2, f"the handler of {path}"), is_async))
            self._is_async |= is_async
            return handler

        return add

    def _prepared(self, hook: Callable[..., Any]) -> Prepared:
        self._is_async |= is_coroutine_function(hook)
        return prepared_hook(hook)

    def _route(self, request: Head) -> Target:
        """The handler of a request, which is given the parameters of its pattern."""
        ends = request._ends
        target, params = self._router.find(request._head, ends[1] - ends[0])
        if params is not None:
            request._params = params
        return target


def _upgrading(run: Callable[..., Any]) -> Callable[..., Any]:
    async def upgrade(request: Any, ctx: Context) -> Upgrade:
        if request.headers.get("upgrade", "").lower() != "websocket":
            raise HttpError(400, "this is the address of a WebSocket: open one")
        return Upgrade(lambda socket: run(socket, ctx))

    return upgrade


def prepared_hook(hook: Callable[..., Any]) -> Prepared:
    """A hook that is called with the context, whether it takes one or not."""
    return _with_arguments(hook, 1, "a hook")


def _may_await(handler: Any) -> bool:
    """Whether a handler is an `async def`, be it with `yield` in it or without."""
    made = inspect.isasyncgenfunction
    return is_coroutine_function(handler) or made(handler) or made(getattr(handler, "__call__", None))


def is_coroutine_function(function: Any) -> bool:
    """Whether calling it gives something to await: an `async def`, or an object with such a `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def _with_arguments(function: Callable[..., Any], most: int, what: str) -> Callable[..., Any]:
    """The function made to be called with exactly `most` arguments, of which it may take fewer."""
    taken, needed = _positional(function)
    if needed > most:
        raise TypeError(f"{what} takes {needed} arguments, at most {most} are given")
    if taken >= most:
        return function
    if taken == 1:
        return lambda request, ctx: function(request)
    return (lambda ctx: function()) if most == 1 else (lambda request, ctx: function())


def _positional(function: Callable[..., Any]) -> Tuple[int, int]:
    """How many arguments a function can be given by position, and how many it needs."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2, 0
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 99, 0
    taken = [parameter for parameter in parameters if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    return len(taken), sum(parameter.default is parameter.empty for parameter in taken)
