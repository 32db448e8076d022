"""The worker program, spoken to as the server does."""

import json
import os
import signal
import unittest

from forebay import _wire as wire

from .peer import PATIENCE, Peer

APP = """
import multiprocessing, os, signal, threading, time
from forebay import App, HttpError
app = App()

@app.get("/hello")
def hello():
    return {"hello": "world"}

@app.post("/echo")
def echo(request):
    return request.bytes()

@app.post("/url")
def url(request):
    return f"{request.url} {request.text()}"

@app.post("/ignore")
def ignore():
    return "not read"

@app.get("/long")
def long():
    return b"x" * 3_000_000

@app.get("/pieces/:count/:size")
def pieces(request):
    piece = b"x" * int(request.params["size"])
    return (piece for _ in range(int(request.params["count"])))

@app.get("/patient")
def patient(request, ctx):
    ctx.log.info("waiting")
    while not ctx.aborted:
        time.sleep(0.001)
    return "too late"

@app.get("/threads")
def threads(request, ctx):
    failures = []
    def look():
        try:
            for _ in range(1000):
                ctx.aborted
        except Exception as error:
            failures.append(str(error))
    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures

@app.get("/background")
def background(request, ctx):
    def look():
        while not ctx.aborted:
            time.sleep(0.0001)
    threading.Thread(target=look, daemon=True).start()
    return "answered"

@app.get("/child/:kind")
def child(request):
    begun, begins = os.pipe()
    def live():
        if request.params["kind"] == "handles":
            signal.signal(signal.SIGTERM, lambda number, stack: os._exit(7))
        os.write(begins, b".")
        while True:
            time.sleep(0.01)
    child = multiprocessing.get_context("fork").Process(target=live)
    child.start()
    os.read(begun, 1)
    child.terminate()
    child.join(5)
    status = child.exitcode
    child.kill()
    return status

@app.get("/sleep")
def sleep(request, ctx):
    ctx.log.info("sleeping")
    time.sleep(1000)

@app.get("/log")
def log(request, ctx):
    ctx.log.debug("plain")
    ctx.log.warning("with fields", number=1, path=os, text="é")
    ctx.log.error("x" * 100_000)
    return ctx.remaining() > 100

@app.get("/worker")
def worker(request, ctx):
    return [ctx.worker.id, ctx.worker.pool, ctx.worker.pid == os.getpid()]

@app.get("/throw")
def throw():
    raise ValueError("inside")

@app.on_stop
def stop():
    print("stopped")
"""

# A child is forked by the loop's own thread: in CPython 3.13.0, a child of another thread never runs its signal handlers.
ASYNC = APP.replace("def hello", "async def hello").replace("def child", "async def child").replace("def url", "async def url").replace("request.text()", "await request.text()")


class WorkerTest(unittest.TestCase):
    def both(self, **options):
        """The worker on its only thread, and on an event loop."""
        for name, source in (("blocking", APP), ("event loop", ASYNC)):
            with self.subTest(name), Peer(source, **options) as peer:
                yield peer

    def test_it_says_hello_and_answers_one_request_after_another(self):
        for peer in self.both():
            self.assertEqual(peer.hello["protocol"], 1)
            self.assertRegex(peer.hello["sdk"], r"^forebay-python/\d")
            self.assertRegex(peer.hello["runtime"], r"^[a-z]+/3\.")
            self.assertEqual((peer.hello["page"], peer.hello["pid"]), (False, peer.process.pid))
            for _ in range(3):
                answer = peer.get("/hello")
                self.assertEqual((answer.status, answer.kind, answer.body), (200, wire.KIND_JSON, b'{"hello":"world"}'))
            self.assertEqual(json.loads(peer.get("/worker").body), [3, "api", True])

    def test_the_url_says_whether_the_client_speaks_tls(self):
        for peer in self.both():
            for tls, url in ((False, b"http://localhost/url abc"), (True, b"https://localhost/url abc")):
                self.assertEqual(peer.get("/url", "POST", body=b"abc", tls=tls).body, url)

    def test_frames_may_come_in_any_pieces_and_unknown_ones_are_skipped(self):
        for peer in self.both():
            unknown = wire.frame(0x7F, 0xFF, 7, 9, 9, b"whatever")
            foreign = wire.frame(wire.DRAIN, 0, 8, 0, 0)
            stray = wire.frame(wire.ABORT, 0, 7, 77, 0, b"\x01")
            payload = wire.request_payload(method="POST", path="/echo", request_id="a", body=b"b" * 40_000)
            request = wire.frame(wire.REQUEST, wire.END, 7, 1, 0, payload)
            for byte in unknown + foreign + stray + request[:100]:
                peer.link.sendall(bytes([byte]))
            peer.link.sendall(request[100:])
            self.assertEqual(peer.answer(1).body, b"b" * 40_000)

    def test_a_frame_that_is_too_long_ends_the_worker(self):
        for peer in self.both():
            peer.link.sendall(wire.HEADER.pack(wire.FRAME_PAYLOAD_MAX + 1, wire.REQUEST, 0, 7, 1, 0))
            self.assertIsNone(peer.frame())
            status, _, err = peer.end()
            self.assertEqual(status, 0)
            self.assertIn("the server sent a frame of 1048577 bytes (at most 1048576)", err)

    def test_a_drained_worker_finishes_what_it_was_sent_and_runs_its_stop_hooks(self):
        for peer in self.both():
            numbers = [peer.request("/hello", slot=slot) for slot in range(3)]
            peer.send(wire.DRAIN)
            for number in numbers:
                peer.answer(number)
            self.assertIsNone(peer.frame())
            self.assertEqual(peer.end()[:2], (0, "stopped\n"))

    def test_sigterm_drains_too_and_sigint_does_nothing(self):
        for peer in self.both():
            peer.process.send_signal(signal.SIGINT)
            self.assertEqual(peer.get("/hello").status, 200)
            peer.process.send_signal(signal.SIGTERM)
            self.assertIsNone(peer.frame())
            self.assertEqual(peer.end()[:2], (0, "stopped\n"))

    def test_the_end_of_the_link_ends_a_worker_that_waits(self):
        for peer in self.both():
            peer.link.close()
            self.assertEqual(peer.process.wait(PATIENCE), 0)

    def test_the_end_of_the_link_ends_a_worker_whose_handlers_have_threads_whatever_they_do(self):
        with Peer(ASYNC) as peer:
            peer.expect(wire.LOG, peer.request("/sleep"))
            peer.link.close()
            self.assertEqual(peer.process.wait(PATIENCE), 0)

    def test_the_end_of_the_link_ends_a_worker_whose_handler_has_its_only_thread_when_that_looks(self):
        with Peer(APP) as peer:
            peer.expect(wire.LOG, peer.request("/patient"))
            peer.link.close()
            self.assertEqual(peer.process.wait(PATIENCE), 0)

    def test_a_body_is_asked_for_as_it_is_read(self):
        for peer in self.both():
            number = peer.request("/echo", "POST", b"first ", end=False)
            self.assertEqual(peer.expect(wire.WINDOW, number), wire.U32.pack(262_144))
            peer.send(wire.BODY, b"y" * 131_072, number=number)
            self.assertEqual(peer.expect(wire.WINDOW, number), wire.U32.pack(131_072))
            peer.send(wire.BODY, b" last", flags=wire.END, number=number)
            answer = peer.answer(number)
            self.assertEqual(answer.body, b"first " + b"y" * 131_072 + b" last")

    def test_a_body_that_nobody_reads_is_not_asked_for(self):
        for peer in self.both():
            number = peer.request("/ignore", "POST", end=False)
            self.assertEqual(peer.answer(number).body, b"not read")
            self.assertEqual(peer.get("/hello").status, 200)

    def test_a_body_that_the_client_gives_up_fails_in_the_handler(self):
        for peer in self.both():
            number = peer.request("/echo", "POST", end=False)
            peer.expect(wire.WINDOW, number)
            peer.send(wire.RESET, number=number)
            self.assertEqual(peer.answer(number).status, 500)
            self.assertEqual(peer.get("/hello").status, 200)

    def test_an_answer_that_is_longer_than_a_frame_comes_in_pieces_within_the_window(self):
        for peer in self.both(window=100_000):
            number = peer.request("/long")
            answer = peer.answer(number)
            self.assertFalse(answer.whole)
            self.assertIn(("content-length", "3000000"), answer.headers)
            received, granted, ended = 0, 100_000, False
            while not ended:
                _, flags, _, payload = peer.frame()
                received += len(payload)
                self.assertLessEqual(received, granted)
                ended = flags & wire.END != 0
                if received == granted:
                    granted += 50_000
                    peer.grant(number, 50_000)
            self.assertEqual(received, 3_000_000)

    def test_a_stream_whose_client_leaves_is_given_up(self):
        for peer in self.both(window=1_000):
            number = peer.request("/pieces/100/600")
            self.assertFalse(peer.answer(number).whole)
            received = 0
            while received < 1_000:
                received += len(peer.expect(wire.BODY, number))
            self.assertEqual(received, 1_000)
            peer.abort(number, 1)
            peer.expect(wire.RESET, number)
            self.assertEqual(peer.get("/hello").status, 200)

    def test_an_empty_stream_is_an_empty_answer(self):
        for peer in self.both():
            self.assertEqual(peer.get("/pieces/0/1").body, b"")
            self.assertEqual(peer.get("/pieces/3/1").body, b"xxx")
            self.assertEqual(peer.get("/pieces/3/1", "HEAD").body, b"")

    def test_a_handler_sees_that_nobody_waits_any_more(self):
        for peer in self.both():
            number = peer.request("/patient")
            peer.expect(wire.LOG, number)
            peer.abort(number, 2)
            self.assertEqual(peer.answer(number).body, b"too late")

    def test_threads_of_a_handler_may_look_too_even_after_its_answer(self):
        for peer in self.both():
            self.assertEqual(json.loads(peer.get("/threads").body), [])
            self.assertEqual(peer.get("/background").body, b"answered")
            for _ in range(50):
                self.assertEqual(peer.get("/hello").status, 200)
            peer.send(wire.DRAIN)
            self.assertEqual(peer.end(), (0, "stopped\n", ""))

    def test_sigterm_interrupts_a_handler_that_nobody_waits_for(self):
        with Peer(APP) as peer:
            number = peer.request("/sleep")
            peer.expect(wire.LOG, number)
            peer.abort(number, 2)
            peer.process.send_signal(signal.SIGTERM)
            peer.expect(wire.RESET, number)
            status, out, err = peer.end()
            self.assertEqual((status, out), (0, "stopped\n"))
            self.assertIn("GET /sleep (request id-1) was interrupted: the deadline has passed", err)

    def test_log_lines_name_their_job_and_are_bounded(self):
        for peer in self.both():
            number = peer.request("/log", remaining_ms=200_000)
            lines = [json.loads(peer.expect(wire.LOG, number)) for _ in range(3)]
            self.assertEqual(lines[0], {"level": "debug", "message": "plain", "request": "id-1"})
            self.assertEqual(lines[1]["level"], "warn")
            self.assertEqual((lines[1]["fields"]["number"], lines[1]["fields"]["text"]), (1, "é"))
            self.assertIn("module 'os'", lines[1]["fields"]["path"])
            self.assertEqual(len(lines[2]["message"]), 65_536)
            self.assertEqual(peer.answer(number).body, b"true")

    def test_an_exception_is_a_faulted_answer_and_a_traceback_on_standard_error(self):
        for peer in self.both():
            answer = peer.get("/throw")
            self.assertEqual((answer.status, answer.flags), (500, wire.END | wire.FAULT))
            self.assertNotIn(b"inside", answer.body)
            peer.send(wire.DRAIN)
            err = peer.end()[2]
            self.assertIn("GET /throw (request id-1) failed: Traceback", err)
            self.assertIn("ValueError: inside", err)

    def test_an_async_generator_is_streamed(self):
        source = (
            "from forebay import App, HttpError\napp = App()\n"
            "@app.post('/upper')\nasync def upper(request):\n    async for piece in request.stream():\n        yield piece.upper()\n    yield 'end'\n"
            "@app.get('/refused')\nasync def refused():\n    raise HttpError(404, 'no')\n    yield\n"
            "@app.get('/given')\nasync def given():\n    return piece()\n"
            "@app.get('/sync')\ndef sync():\n    return piece()\n"
            "@app.get('/forgotten')\ndef forgotten():\n    return given()\n"
            "async def piece():\n    yield 'piece'\n"
        )
        for concurrency in (1, 2):
            with Peer(source, concurrency=concurrency) as peer:
                self.assertEqual(peer.get("/upper", "POST", body=b"abc").body, b"ABCend")
                self.assertEqual(peer.get("/refused").status, 404)
                self.assertEqual(peer.get("/given").body, b"piece")
                for path in ("/sync", "/forgotten"):
                    answer = peer.get(path)
                    self.assertEqual((answer.status, answer.flags), (500, wire.END | wire.FAULT), path)

    def test_hooks_of_a_start_module_that_await_are_awaited_whatever_they_take(self):
        module = (
            "import asyncio\n{}\nasync def begin({}):\n    await asyncio.sleep(0)\n    print('begun')\n"
            "async def end({}):\n    await asyncio.sleep(0)\n    print('ended')\n{}"
        )
        named = "on_start, on_stop = begin, end\n"
        objects = "class Hook:\n    def __init__(self, run): self.run = run\n    async def __call__(self{}): await self.run({})\n"
        called = "on_start, on_stop = Hook(begin), Hook(end)\n"
        starts = [module.format("", taken, taken, named) for taken in ("", "ctx")]
        starts += [module.format(objects.format(f", {taken}" if taken else "", taken), taken, taken, called) for taken in ("", "ctx")]
        wsgi = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'wsgi']\n"
        for source in ("from forebay import App\napp = App()\n", wsgi):
            for start in starts:
                with self.subTest(start), Peer(source, start=start) as peer:
                    peer.send(wire.DRAIN)
                    status, out, err = peer.end()
                    self.assertEqual((status, out.split()), (0, ["begun", "ended"]), err)

    def test_a_hook_that_gives_something_to_await_without_saying_so_fails(self):
        source = "from forebay import App\napp = App()\n@app.on_start\ndef begin():\n    return later()\nasync def later(): pass\n"
        with Peer(source, ready=False) as peer:
            failed = json.loads(peer.expect(wire.FAILED))
            self.assertIn("`async def`", failed["message"])

    def test_a_failed_start_is_told_with_its_stack(self):
        for source, message in (
            ("raise ValueError('early')", "ValueError: early"),
            ("from forebay import App\napp = App()\n@app.on_start\ndef begin():\n    raise ValueError('hook')", "ValueError: hook"),
            ("from forebay import App\napp = App()\n@app.on_start\nasync def begin():\n    raise ValueError('hook')", "ValueError: hook"),
        ):
            with self.subTest(source), Peer(source, ready=False) as peer:
                failed = json.loads(peer.expect(wire.FAILED))
                self.assertEqual(failed["message"], message)
                self.assertIn("app.py", failed["stack"])
                self.assertEqual(peer.end()[0], 1)

    def test_a_fork_does_not_hold_the_link_open(self):
        source = APP + (
            "\n@app.get('/fork')\n"
            "def fork():\n"
            "    held = os.open('held', os.O_RDONLY)\n"
            "    if os.fork() == 0:\n"
            "        os.close(1); os.close(2)\n"
            "        os.read(held, 1); os._exit(0)\n"
            "    os._exit(9)\n"
        )
        with Peer(source) as peer:
            # The child lives until no process has this pipe open for writing.
            os.mkfifo(peer.folder / "held")
            held = os.open(peer.folder / "held", os.O_RDWR)
            self.addCleanup(os.close, held)
            peer.request("/fork")
            self.assertIsNone(peer.frame())

    def test_a_child_of_a_handler_ends_like_any_process_and_its_end_concerns_nobody_else(self):
        for peer in self.both():
            for kind, status in (("plain", -signal.SIGTERM), ("handles", 7)):
                self.assertEqual(json.loads(peer.get(f"/child/{kind}").body), status)
                for _ in range(20):
                    self.assertEqual(peer.get("/hello").status, 200)

    def test_an_init_without_what_a_worker_needs_ends_it_with_a_sentence(self):
        for name in ("pool", "worker", "concurrency", "window_bytes"):
            with Peer(APP, ready=False, without=name) as peer:
                self.assertIsNone(peer.frame())
                self.assertEqual(peer.end(), (0, "", f"forebay: the server sent an INIT without {name}\n"))

    def test_without_a_server_it_says_who_starts_it(self):
        import subprocess
        import sys

        from .peer import FOLDER

        ended = subprocess.run([sys.executable, str(FOLDER)], env={}, capture_output=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(b"this program is started by `forebay serve`", ended.stderr)
