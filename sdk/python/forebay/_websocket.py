"""WebSockets of an `App` (RFC 6455): the server speaks the protocol, functions get messages."""

from __future__ import annotations

from typing import AsyncIterator, Awaitable, Callable, NamedTuple, Optional, Protocol, Tuple, Union

from ._reply import HeadersLike, header_list
from ._request import AsyncRequest
from ._wire import header_block

#: A message: a str is text, bytes are binary.
Message = Union[str, bytes]


class Closed(NamedTuple):
    """How a WebSocket has ended: a code of RFC 6455, 1005 if the client gave none, 1006 if it left without a word."""

    code: int
    reason: str


class Connection(Protocol):
    """An accepted WebSocket, as the worker provides it."""

    closed: Optional[Closed]

    async def receive(self) -> Union[Message, Closed]: ...
    async def send(self, message: Message) -> None: ...
    def close(self, code: int, reason: str) -> None: ...
    def join(self, room: str) -> None: ...
    def leave(self, room: str) -> None: ...
    def publish(self, room: str, message: Message) -> None: ...


class WebSocket:
    """One connection: the first argument of a function that `App.websocket` has registered. The client is connected once the function first receives
    or sends something; until then it may raise an `HttpError`, which is the answer. When the function returns, the connection is closed."""

    __slots__ = ("request", "_accept", "_connection")

    def __init__(self, request: AsyncRequest, accept: Callable[[bytes], Connection]) -> None:
        #: The request that opened it.
        self.request = request
        self._accept = accept
        self._connection: Optional[Connection] = None

    def accept(self, protocol: Optional[str] = None, headers: HeadersLike = ()) -> None:
        """Connects the client, with a subprotocol of those that it offers in `sec-websocket-protocol`, and header fields of the response such as
        `set-cookie`. Not needed without them."""
        if self._connection is not None:
            raise RuntimeError("the WebSocket was accepted already")
        pairs = [*header_list(headers), *([] if protocol is None else [("sec-websocket-protocol", protocol)])]
        self._connection = self._accept(header_block(pairs))

    @property
    def closed(self) -> Optional[Closed]:
        """How the connection has ended; None while it has not."""
        return None if self._connection is None else self._connection.closed

    async def receive(self) -> Optional[Message]:
        """The client's next message; None when the connection has ended."""
        message = await self._connected().receive()
        return None if isinstance(message, tuple) else message

    async def __aiter__(self) -> AsyncIterator[Message]:
        """The client's messages, until the connection ends."""
        while True:
            message = await self.receive()
            if message is None:
                return
            yield message

    async def send(self, message: Message) -> None:
        """Sends a message, a str as text, bytes as binary, at the pace at which the client takes them. Raises `OSError` if the connection has
        ended."""
        await self._connected().send(message)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes the connection; nothing happens if it has ended. The code is 1000 to 1003, 1007 to 1014 or 3000 to 4999, the reason has at most 123
        bytes."""
        self._connected().close(code, reason)

    def join(self, room: str) -> None:
        """Enters a room of the pool. Its name has 1 to 256 bytes; a connection may be in 256 rooms."""
        self._connected().join(room)

    def leave(self, room: str) -> None:
        """Leaves a room."""
        self._connected().leave(room)

    def broadcast(self, room: str, message: Message) -> None:
        """Sends a message to all others in a room, whichever worker they are connected to."""
        self._connected().publish(room, message)

    def _connected(self) -> Connection:
        if self._connection is None:
            self.accept()
        assert self._connection is not None, "it was accepted"
        return self._connection


class Upgrade(NamedTuple):
    """What the handler of a WebSocket's address returns: the function that is called with the connection."""

    run: Callable[[WebSocket], Awaitable[object]]


#: Sends a message to a room; set in a worker.
_publish: Optional[Callable[[str, Message], None]] = None


def set_publish(publish: Callable[[str, Message], None]) -> None:
    """Sets what `broadcast` does."""
    global _publish
    _publish = publish


def broadcast(room: str, message: Message) -> None:
    """Sends a message to all WebSockets in a room of the pool, whichever worker they are connected to. May be called from any thread."""
    if _publish is None:
        raise RuntimeError("rooms are those of a pool of the server (`[pool.NAME]`): this process is not one of its workers")
    _publish(room, message)
