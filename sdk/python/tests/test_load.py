"""Finding the application of a pool, and the errors if there is none."""

import contextlib
import io
import json
import unittest

from forebay import _wire as wire
from forebay.worker.load import told_when_slow

from .peer import Peer

WSGI = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'wsgi']\n"
ASGI = (
    "async def app(scope, receive, send):\n"
    "    if scope['type'] == 'lifespan':\n        raise NotImplementedError\n"
    "    await send({'type': 'http.response.start', 'status': 200})\n"
    "    await send({'type': 'http.response.body', 'body': b'asgi'})\n"
)
APP = "from forebay import App\napp = App()\napp.get('/')(lambda: 'forebay')\n"


class LoadTest(unittest.TestCase):
    def test_the_log_says_where_an_import_hangs(self):
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            with told_when_slow("app.py", 0.01):
                while "is not done" not in printed.getvalue():
                    pass
        self.assertIn("app.py has been imported for 0.01 s", printed.getvalue())
        self.assertIn("test_load.py", printed.getvalue())
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            with told_when_slow("app.py", 60):
                pass
        self.assertEqual(printed.getvalue(), "")

    def test_the_object_says_how_it_is_called(self):
        wrapped = "import functools\n" + ASGI.replace("app(", "inner(") + "@functools.wraps(inner)\ndef app(scope, receive, send):\n    return inner(scope, receive, send)\n"
        instance = (
            "class Web:\n    async def __call__(self, scope, receive, send):\n        await asgi(scope, receive, send)\n"
            + ASGI.replace("app(", "asgi(")
            + "app = Web()\n"
        )
        method = "class Web:\n    def wsgi(self, environ, start_response):\n        start_response('200 OK', [])\n        return [b'wsgi']\napp = Web().wsgi\n"
        star = "def app(*arguments):\n    arguments[1]('200 OK', [])\n    return [b'wsgi']\n"
        for source, options, said in (
            (WSGI, (), b"wsgi"),
            (ASGI, (), b"asgi"),
            (APP, (), b"forebay"),
            (wrapped, (), b"asgi"),
            (instance, (), b"asgi"),
            (method, (), b"wsgi"),
            (star, ("--interface=wsgi",), b"wsgi"),
            (WSGI.replace("app(", "application("), (), b"wsgi"),
            (APP + "handler = None\n" + WSGI.replace("app(", "other("), ("--object=other",), b"wsgi"),
            ("def create_app():\n    global app\n" + "".join(f"    {line}\n" for line in WSGI.splitlines()) + "    return app\n", ("--object=create_app()",), b"wsgi"),
            ("import types\nspace = types.SimpleNamespace()\n" + WSGI + "space.web = app\n", ("--object=space.web",), b"wsgi"),
            ("import sys\nassert len(sys.argv) == 1 and sys.argv[0].endswith('app.py'), sys.argv\n" + WSGI, ("--interface=wsgi",), b"wsgi"),
        ):
            with self.subTest(source=source), Peer(source, *options) as peer:
                self.assertEqual(peer.get("/").body, said)

    def test_what_cannot_be_run_is_said_with_what_can(self):
        for source, options, said in (
            ("app = 7\n", (), "is a int, which is neither an App of forebay, nor"),
            ("def app(*arguments): pass\n", (), 'interface = "wsgi" or "asgi"'),
            ("class app:\n    def __init__(self, environ, start_response): pass\n", (), "is a type"),
            ("x = 1\n", (), "has no application: expected an object called `app`, `application` or `handler`"),
            (WSGI.replace("app(", "web("), (), 'it has `web`: handler = "app.py:web" names it'),
            ("def make_app(): pass\n", (), 'handler = "app.py:make_app()"'),
            (APP, ("--interface=wsgi",), 'is a App, which interface = "wsgi" cannot run'),
            (WSGI, ("--interface=forebay",), 'is a function, which interface = "forebay" cannot run'),
            ("app = 7\n", ("--interface=asgi",), "is a int, which cannot be called"),
            (APP, ("--mount=/py",), 'mount = "/py" is for WSGI and ASGI'),
            ("raise SystemExit(3)\n", (), "ended the process while it was imported (exit status 3)"),
        ):
            with self.subTest(source=source[:60], options=options), Peer(source, *options, ready=False) as peer:
                failed = json.loads(peer.expect(wire.FAILED))
                self.assertIn(said, failed["message"])
                self.assertEqual(peer.end()[0], 1)
