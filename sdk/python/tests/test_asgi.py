"""ASGI applications in a worker: the scope of a request, and reports about lifespans."""

import unittest

from forebay import _wire as wire

from .peer import Peer

APP = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    else:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"served"})

async def lifespan(receive, send):
"""
BEGUN = """
    await receive()
    await send({"type": "lifespan.startup.complete"})
"""
FAILED = """
    await receive()
    await send({"type": "lifespan.shutdown.failed", "message": "the queue is not empty"})
"""


class ScopeTest(unittest.TestCase):
    def test_the_requests_id_is_in_an_extension_and_not_among_the_headers(self):
        app = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        told = [scope["extensions"]["forebay"]["request_id"], [name.decode() for name, _ in scope["headers"]], scope["client"][0]]
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": repr(told).encode()})
"""
        with Peer(app) as peer:
            self.assertEqual(peer.get("/").body, b"['id-1', ['host'], '127.0.0.1']")

    def test_a_client_that_speaks_tls_has_its_scheme_and_port(self):
        app = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        told = [scope["scheme"], scope["server"], (await receive())["body"]]
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": repr(told).encode()})
"""
        with Peer(app) as peer:
            self.assertEqual(peer.get("/", "POST", body=b"abc", tls=True).body, b"['https', ('localhost', 443), b'abc']")
            self.assertEqual(peer.get("/", "POST", body=b"abc", tls=False).body, b"['http', ('localhost', 80), b'abc']")

    def test_the_user_is_in_the_extension_and_the_body_begins_behind_it(self):
        app = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        told = [scope["extensions"]["forebay"], (await receive())["body"]]
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": repr(told).encode()})
"""
        with Peer(app) as peer:
            body = peer.get("/", "POST", body=b"abc", identity='{"subject":"ada"}').body
            self.assertEqual(body, b"[{'request_id': 'id-1', 'user': {'subject': 'ada'}}, b'abc']")
            self.assertEqual(peer.get("/", "POST", body=b"abc").body, b"[{'request_id': 'id-2'}, b'abc']")


class LifespanTest(unittest.TestCase):
    def ended(self, source):
        """Runs a worker with this lifespan for one request; returns its exit status and its output."""
        with Peer(APP + source) as peer:
            self.assertEqual(peer.get("/").body, b"served")
            peer.send(wire.DRAIN)
            status, _, printed = peer.end()
            return status, printed

    def test_one_that_ends_well_is_not_spoken_of(self):
        well = "    await receive()\n    await send({'type': 'lifespan.shutdown.complete'})\n"
        self.assertEqual(self.ended(BEGUN + well), (0, ""))

    def test_an_application_without_one_is_served_and_not_spoken_of(self):
        self.assertEqual(self.ended("    raise ValueError('only http')\n"), (0, ""))
        self.assertEqual(self.ended("    pass\n"), (0, ""))

    def test_one_that_fails_at_its_start_without_saying_so_is_one_line(self):
        status, printed = self.ended("    await receive()\n    raise ValueError('no database')\n")
        self.assertEqual(status, 0)
        self.assertEqual(
            printed, "forebay: the lifespan of the ASGI application raised ValueError: no database; it is served without one\n"
        )

    def test_one_that_says_that_it_ends_badly_is_heard(self):
        for more in ("", "    raise RuntimeError('after that')\n"):
            status, printed = self.ended(BEGUN + FAILED + more)
            self.assertEqual(status, 1)
            self.assertEqual(printed, "forebay: the lifespan of the ASGI application failed to end: the queue is not empty\n")

    def test_one_that_raises_once_it_has_begun_fails_the_worker_with_a_traceback(self):
        for between in ("", "    await receive()\n"):
            status, printed = self.ended(BEGUN + between + "    raise RuntimeError('in the end')\n")
            self.assertEqual(status, 1)
            self.assertTrue(printed.startswith("forebay: the lifespan of the ASGI application failed: Traceback"), printed)
            self.assertTrue(printed.endswith("RuntimeError: in the end\n"), printed)
