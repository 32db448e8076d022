"""The SDK of Forebay handlers. A handler file has an `app`:

    from forebay import App

    app = App()

    @app.get("/users/:id")
    def user(request):
        return {"id": request.params["id"]}
"""

from ._app import App
from ._context import Context, Interrupted, Log, State, WorkerContext, WorkerInfo
from ._fields import Fields, Headers
from ._form import Form, UploadedFile
from ._reply import HttpError, Reply, json, reply, text
from ._request import AsyncRequest, Request, User
from ._version import VERSION as __version__
from ._websocket import WebSocket, broadcast

__all__ = [
    "App",
    "AsyncRequest",
    "Context",
    "Fields",
    "Form",
    "Headers",
    "HttpError",
    "Interrupted",
    "Log",
    "Reply",
    "Request",
    "State",
    "UploadedFile",
    "User",
    "WebSocket",
    "WorkerContext",
    "WorkerInfo",
    "__version__",
    "broadcast",
    "json",
    "reply",
    "text",
]
