"""WSGI applications in a worker, checked against PEP 3333."""

import json
import unittest

from forebay import _wire as wire

from .peer import Peer

APP = """
import json, os, sys, time
from wsgiref.validate import validator

def plain(status, body, *headers):
    def answer(environ, start_response):
        start_response(status, [("Content-Type", "text/plain"), *headers])
        return [body]
    return answer

def environ(environ, start_response):
    known = {key: value for key, value in environ.items() if isinstance(value, (str, bool, tuple))}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(known).encode()]

def read(environ, start_response):
    body = environ["wsgi.input"]
    parts = [body.read(3), body.readline(), body.readline(4), *body.readlines(), body.read(), body.read(1)]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([part.decode() for part in parts]).encode()]

def read_with_care(environ, start_response):
    body = environ["wsgi.input"]
    parts = [body.read(3), body.readline(), *body.readlines(), body.read(1)]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([part.decode() for part in parts]).encode()]

def written(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"written ")
    write(b"twice ")
    return [b"and returned"]

class Pieces:
    def __init__(self, *pieces):
        self.pieces = iter(pieces)
    def __iter__(self):
        return self.pieces
    def close(self):
        print("closed", flush=True)

def pieces(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return Pieces(b"one ", b"", b"two ", b"three")

def busy(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"one "
    yield b"two "
    buffer = bytearray(b"three ")
    yield buffer
    buffer[:] = b"wrong "
    while not os.path.exists("go"):
        pass
    yield b"four"

def many(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return (b"%07d\\n" % number for number in range(100_000))

def known(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return Pieces(b"", b"12345", b"")

def short(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"123"]

def text(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    yield "12345"

def text_piece(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield "12345"

def text_written(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])("12345")
    return []

def late(environ, start_response):
    now = time.monotonic
    time.monotonic = lambda: now() + 5000
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"late"]

def long(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return Pieces(b"123", b"456")

def lazy(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"generated"

def fails_late(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"begun"
    raise ValueError("in the middle")

def recovers(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    try:
        raise ValueError("before the answer")
    except ValueError:
        start_response("503 Sorry", [("Content-Type", "text/plain")], sys.exc_info())
    return [b"sorry"]

def twice(environ, start_response):
    start_response("200 OK", [])
    start_response("200 OK", [])
    return []

def silent(environ, start_response):
    return [b"no status"]

def odd(status, headers=()):
    def answer(environ, start_response):
        start_response(status, list(headers))
        return []
    return answer

routes = {
    "/environ": environ, "/read": read, "/written": written, "/pieces": pieces, "/busy": busy, "/many": many, "/known": known, "/short": short, "/long": long,
    "/text": text, "/text-piece": text_piece, "/text-written": text_written, "/late": late, "/lazy": lazy, "/fails-late": fails_late, "/recovers": recovers, "/twice": twice, "/silent": silent,
    "/validated": validator(plain("200 OK", b"valid")), "/validated-post": validator(read_with_care),
    "/empty": odd("204 No Content"), "/not-modified": odd("304 Not Modified", [("Content-Length", "99")]),
    "/cookies": plain("200 OK", b"", ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")),
    "/odd-status": odd("OK"), "/early": odd("103 Early Hints"), "/odd-header": odd("200 OK", [("a", 1)]),
    "/long-header": odd("200 OK", [("a", "x" * 70_000)]), "/throws": lambda e, s: 1 / 0,
}

def app(environ, start_response):
    return routes[environ["PATH_INFO"]](environ, start_response)
"""


class WsgiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.peers = {"alone": Peer(APP), "threads": Peer(APP, concurrency=2), "mounted": Peer(APP, "--mount=/py")}

    @classmethod
    def tearDownClass(cls):
        for peer in cls.peers.values():
            peer.__exit__()

    def each(self):
        return [self.peers["alone"], self.peers["threads"]]

    def test_the_user_is_told_as_cgi_tells_it_and_the_body_begins_behind_it(self):
        for peer in self.each():
            environ = json.loads(peer.get("/environ", identity='{"subject":"J\u00fcrgen"}', headers=[("remote-user", "root")]).body)
            self.assertEqual((environ["REMOTE_USER"], environ["HTTP_REMOTE_USER"]), ("J\u00fcrgen".encode().decode("latin-1"), "root"))
            environ = json.loads(peer.get("/environ", headers=[("remote-user", "root")]).body)
            self.assertNotIn("REMOTE_USER", environ)
            headers = [("content-length", "8")]
            answer = peer.get("/read", "POST", body=b"abcd\ne\nf", headers=headers, identity='{"subject":"ada"}')
            self.assertEqual(answer.body, peer.get("/read", "POST", body=b"abcd\ne\nf", headers=headers).body)

    def test_the_environ_says_all_of_the_request(self):
        headers = [
            ("content-type", "text/x"),
            ("content-length", "0"),
            ("x-one", "1"),
            ("x-one", "2"),
            ("x_one", "forged"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
            ("x-latin", "caf\xe9"),
        ]
        answer = self.peers["alone"].get("/%65nviron", query="a=1&b=%20", headers=headers, peer="203.0.113.9")
        environ = json.loads(answer.body)
        expected = {
            "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": "",
            "PATH_INFO": "/environ",
            "QUERY_STRING": "a=1&b=%20",
            "CONTENT_TYPE": "text/x",
            "CONTENT_LENGTH": "0",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "203.0.113.9",
            "HTTP_HOST": "localhost",
            "HTTP_X_ONE": "1,2",
            "HTTP_COOKIE": "a=1; b=2",
            "HTTP_X_LATIN": "caf\xe9",
            "forebay.request_id": environ["forebay.request_id"],
            "wsgi.version": [1, 0],
            "wsgi.url_scheme": "http",
            "wsgi.multithread": False,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            "wsgi.input_terminated": True,
        }
        self.assertEqual(environ, expected)

    def test_the_host_gives_name_and_port(self):
        peer = self.peers["alone"]
        for host, name, port in (("a.example:8080", "a.example", "8080"), ("[::1]", "[::1]", "80"), ("[::1]:81", "[::1]", "81")):
            number = peer.numbers = peer.numbers + 1
            payload = wire.request_payload(method="GET", path="/environ", headers=[("host", host)], request_id="a")
            peer.send(wire.REQUEST, payload, flags=wire.END, number=number)
            environ = json.loads(peer.answer(number).body)
            self.assertEqual((environ["SERVER_NAME"], environ["SERVER_PORT"]), (name, port))
            self.assertEqual(environ["forebay.request_id"], "a")
            self.assertNotIn("HTTP_X_REQUEST_ID", environ)

    def test_a_client_that_speaks_tls_has_its_scheme_and_port(self):
        for tls, expected in ((False, ("http", "80")), (True, ("https", "443"))):
            environ = json.loads(self.peers["alone"].get("/environ", tls=tls).body)
            self.assertEqual((environ["wsgi.url_scheme"], environ["SERVER_PORT"]), expected)

    def test_a_mount_point_is_taken_off_the_path(self):
        peer = self.peers["mounted"]
        environ = json.loads(peer.get("/py/environ").body)
        self.assertEqual((environ["SCRIPT_NAME"], environ["PATH_INFO"]), ("/py", "/environ"))
        for path in ("/environ", "/pyx/environ", "/"):
            answer = peer.get(path)
            self.assertEqual(answer.status, 404)
            self.assertEqual(json.loads(answer.body)["detail"], f"nothing answers {path}: the application is mounted at /py")

    def test_a_mount_point_may_have_any_characters(self):
        with Peer(APP, "--mount=/caf\xe9 x") as peer:
            for path in ("/caf%C3%A9%20x/environ", "/caf\xe9%20x/environ"):
                environ = json.loads(peer.get(path).body)
                # PEP 3333: bytes decoded as Latin-1.
                self.assertEqual((environ["SCRIPT_NAME"], environ["PATH_INFO"]), ("/caf\xc3\xa9 x", "/environ"))
            answer = peer.get("/a%20b c")
            self.assertEqual(answer.status, 404)
            self.assertEqual(json.loads(answer.body)["detail"], "nothing answers /a%20b c: the application is mounted at /caf\xe9 x")

    def test_input_is_read_in_all_ways_whether_it_is_there_or_not(self):
        text = b"abcdef\nghijkl\nmno\npq"
        expected = ["abc", "def\n", "ghij", "kl\n", "mno\n", "pq", "", ""]
        for peer in self.each():
            headers = [("content-length", str(len(text)))]
            self.assertEqual(json.loads(peer.get("/read", "POST", body=text, headers=headers).body), expected)
            number = peer.request("/read", "POST", text[:5], end=False)
            peer.expect(wire.WINDOW, number)
            for at in range(5, len(text), 4):
                peer.send(wire.BODY, text[at : at + 4], number=number)
            peer.send(wire.BODY, flags=wire.END, number=number)
            self.assertEqual(json.loads(peer.answer(number).body), expected)

    def test_the_validator_of_the_standard_library_has_nothing_to_say(self):
        for peer in self.each():
            answer = peer.get("/validated")
            self.assertEqual((answer.status, answer.body), (200, b"valid"))
            answer = peer.get("/validated-post", "POST", body=b"abcd\ne\nf", headers=[("content-length", "8")])
            self.assertEqual((answer.status, answer.body), (200, b'["abc", "d\\n", "e\\n", "f", ""]'))

    def test_pieces_leave_as_they_come_and_the_iterable_is_closed(self):
        for peer in self.each():
            number = peer.request("/pieces")
            self.assertFalse(peer.answer(number).whole)
            self.assertEqual(peer.rest(number), b"one two three")
            self.assertEqual(peer.process.stdout.readline(), b"closed\n")

    def test_pieces_leave_while_the_application_goes_on(self):
        for peer in self.each():
            number = peer.request("/busy")
            peer.answer(number)
            body = b""
            while body != b"one two three ":
                body += peer.expect(wire.BODY, number)
            (peer.folder / "go").touch()
            self.assertEqual(peer.rest(number), b"four")
            (peer.folder / "go").unlink()

    def test_many_small_pieces_take_few_frames_and_no_more_than_the_window(self):
        for peer in self.each():
            number = peer.request("/many")
            peer.answer(number)
            body, frames, window, flags = b"", 0, 262_144, 0
            while not flags & wire.END:
                kind, flags, _, payload = peer.frame()
                self.assertEqual(kind, wire.BODY)
                body += payload
                frames += 1
                window -= len(payload)
                self.assertGreaterEqual(window, 0)
                if window < 131_072 and not flags & wire.END:
                    peer.grant(number, 262_144 - window)
                    window = 262_144
            self.assertEqual(body, b"".join(b"%07d\n" % number for number in range(100_000)))
            self.assertLess(frames, 10_000)

    def test_a_body_whose_length_is_known_is_one_frame(self):
        for peer in self.each():
            answer = peer.answer(peer.request("/known"))
            self.assertTrue(answer.whole)
            self.assertEqual(answer.body, b"12345")
            self.assertEqual(peer.process.stdout.readline(), b"closed\n")

    def test_what_is_written_comes_before_what_is_returned(self):
        for peer in self.each():
            self.assertEqual(peer.get("/written").body, b"written twice and returned")
            self.assertEqual(peer.get("/lazy").body, b"generated")

    def test_headers_may_repeat(self):
        headers = self.peers["alone"].get("/cookies").headers
        self.assertEqual([value for name, value in headers if name == "set-cookie"], ["a=1", "b=2"])

    def test_head_and_answers_without_a_body(self):
        for peer in self.each():
            for path in ("/known", "/pieces", "/lazy", "/written"):
                answer = peer.get(path, "HEAD")
                self.assertEqual((answer.status, answer.body), (200, b""), path)
                if path in ("/known", "/pieces"):
                    self.assertEqual(peer.process.stdout.readline(), b"closed\n")
            self.assertIn(("content-length", "5"), peer.get("/known", "HEAD").headers)
            peer.process.stdout.readline()
            self.assertEqual(peer.get("/empty").status, 204)
            self.assertEqual(peer.get("/not-modified").status, 304)

    def test_a_second_start_response_needs_the_exception_that_it_is_for(self):
        for peer in self.each():
            answer = peer.get("/recovers")
            self.assertEqual((answer.status, answer.body), (503, b"sorry"))
            self.assertEqual(peer.get("/twice").status, 500)

    def test_what_an_application_may_not_do_is_500(self):
        for peer in self.each():
            for path in ("/silent", "/short", "/odd-status", "/early", "/odd-header", "/long-header", "/throws", "/text", "/text-piece", "/text-written"):
                answer = peer.get(path)
                self.assertEqual((answer.status, answer.flags), (500, wire.END | wire.FAULT), path)

    def test_a_request_may_take_longer_than_its_answer_can_say(self):
        for options in ({}, {"concurrency": 2}):
            with Peer(APP, **options) as peer:
                answer = peer.answer(peer.request("/late"))
                self.assertEqual((answer.body, answer.micros), (b"late", 0xFFFF_FFFF))

    def test_what_fails_after_the_answer_has_begun_gives_it_up(self):
        for peer in self.each():
            for path in ("/fails-late", "/long"):
                number = peer.request(path)
                self.assertEqual(peer.answer(number).status, 200)
                self.assertIsNone(peer.rest(number), path)
            self.assertEqual(peer.process.stdout.readline(), b"closed\n")
            self.assertEqual(peer.get("/validated").status, 200)
