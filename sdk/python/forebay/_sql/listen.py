"""Notifications on a channel of a database."""

from __future__ import annotations

import re
import time
from typing import AsyncGenerator, List, NamedTuple, Optional

from .._calls import JOB
from .operations import Json, aask, aclose, aopen

#: Longest wait of one operation, and the interval of keep-alive comments on a silent stream, in seconds.
WAIT = 15


class Notification(NamedTuple):
    """A notification, or the report of a gap."""

    #: The payload of the notification; None if `lost` is set.
    payload: Optional[str]
    #: Whether notifications may have been lost before this point, because the connection broke or they were read too slowly: read again any
    #: data you cached.
    lost: bool


class Listening:
    """A listener, active once `ready()` returns or iteration starts. It can be iterated once."""

    __slots__ = ("_source", "_channel", "_job", "_listen", "_closed")

    def __init__(self, source: str, channel: str) -> None:
        self._source = source
        self._channel = str(channel)
        self._job = JOB.get()
        self._listen: Optional[int] = None
        self._closed = False

    async def ready(self) -> None:
        """Returns when the listener is active, so that later notifications reach it. Raises `SqlError`."""
        if self._listen is None and not self._closed:
            operation = {"op": "listen", "source": self._source, "channel": self._channel}
            self._listen = (await aopen(operation, lambda opened: self._end(opened["listen"])))["listen"]

    def __aiter__(self) -> AsyncGenerator[Notification, None]:
        return self._notifications()

    async def close(self) -> None:
        """Stops listening."""
        listen, self._closed = self._listen, True
        if listen is not None:
            self._listen = None
            aclose(self._end(listen), self._job)

    def _end(self, listen: int) -> Json:
        return {"op": "close", "source": self._source, "id": listen}

    async def _notifications(self) -> AsyncGenerator[Notification, None]:
        try:
            await self.ready()
            while not self._closed:
                for payload in await self._hear():
                    yield Notification(payload, payload is None)
        finally:
            await self.close()

    async def _hear(self) -> List[Optional[str]]:
        heard: List[Optional[str]] = (
            await aask({"op": "hear", "source": self._source, "listen": self._listen, "wait_ms": WAIT * 1000})
        )["heard"]
        return heard

    def texts(self, event: Optional[str] = None) -> AsyncGenerator[str, None]:
        """Server-sent events as a body: one for each payload, named `event` if given, and one named `lost` if notifications may have been lost."""
        if event is not None and (not isinstance(event, str) or "\r" in event or "\n" in event):
            raise TypeError("the name of events is text in one line")
        return self._texts("" if event is None else f"event: {event}\n")

    async def _texts(self, name: str) -> AsyncGenerator[str, None]:
        try:
            await self.ready()
            spoken = time.monotonic()
            # Makes the response begin at once.
            yield ":\n\n"
            while not self._closed:
                text = ""
                for payload in await self._hear():
                    text += "event: lost\ndata:\n\n" if payload is None else name + _data(payload)
                # A proxy might close a connection that stays silent.
                if not text and time.monotonic() - spoken >= WAIT:
                    text = ":\n\n"
                if text:
                    spoken = time.monotonic()
                    yield text
        finally:
            await self.close()


def _data(payload: str) -> str:
    return "data: " + re.sub("\r\n|\r|\n", "\ndata: ", payload) + "\n\n"
