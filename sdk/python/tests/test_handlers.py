"""Requests and answers of handlers, through the test kit."""

import math
import unittest

from forebay import App, HttpError, User, json, reply, text
from forebay._reply import to_json
from forebay.testing import testing


def answering(handler):
    app = App()
    app.all("/*")(handler)
    return testing(app)


class RequestTest(unittest.TestCase):
    def test_a_request_says_what_came(self):
        seen = {}

        def handler(request, ctx):
            seen.update(
                method=request.method,
                path=request.path,
                url=request.url,
                route=request.route,
                query=(request.query["a"], request.query.get_all("a"), request.query.get("c"), len(request.query)),
                header=(request.headers["X-One"], request.headers.get("none"), "x-one" in request.headers),
                cookies=request.cookies,
                ip=request.ip,
                id=request.id,
                left=ctx.remaining(),
                deadline=ctx.deadline is not None,
                shown=repr(request),
            )

        headers = {"X-One": "1", "Cookie": 'a="q"; b=%20; a=2; c=%ff; junk'}
        answering(handler).get("/a%20b?a=1&a=%C3%A9+x&b", headers=headers, ip="::1", deadline=100)
        self.assertEqual(seen["method"], "GET")
        self.assertEqual(seen["path"], "/a%20b")
        self.assertEqual(seen["url"], "http://localhost/a%20b?a=1&a=%C3%A9+x&b")
        self.assertEqual(seen["query"], ("1", ["1", "é x"], None, 2))
        self.assertEqual(seen["header"], ("1", None, True))
        self.assertEqual(seen["cookies"], {"a": "q", "b": " ", "c": "%ff"})
        self.assertEqual((seen["ip"], seen["id"]), ("::1", "test-1"))
        self.assertTrue(90 < seen["left"] <= 100 and seen["deadline"])
        self.assertIn("GET http://localhost/a%20b", seen["shown"])

    def test_a_request_says_who_sent_it(self):
        ada = User("Adé", "jwt", ["read"], {"email": "ada@example.org"})
        seen = []
        client = answering(lambda request: seen.append((request.user, request.id, request.text())))
        client.post("/", user=ada, body="abc")
        client.post("/", headers={"user": "root"}, body="abc")
        self.assertEqual(seen, [(ada, "test-1", "abc"), (None, "test-2", "abc")])

    def test_without_a_deadline_there_is_time(self):
        times = []
        answering(lambda request, ctx: times.extend([ctx.remaining(), ctx.deadline, ctx.aborted])).get("/")
        self.assertEqual(times, [math.inf, None, False])

    def test_a_body_is_read_once_in_one_of_its_forms(self):
        self.assertEqual(answering(lambda request: request.json()).post("/", json={"é": [1, None]}).json(), {"é": [1, None]})
        self.assertEqual(answering(lambda request: request.text()).post("/", body="é").text, "é")
        self.assertEqual(answering(lambda request: request.bytes()).post("/", body=b"\xff").body, b"\xff")
        self.assertEqual(answering(lambda request: list(map(len, request.stream()))).post("/", body=b"abc").json(), [3])
        self.assertEqual(answering(lambda request: list(request.stream())).post("/").json(), [])
        twice = answering(lambda request: request.bytes() + request.bytes())
        self.assertEqual(twice.post("/", body=b"a").status, 500)
        self.assertIn("it can be read once", str(twice.errors[0]))

    def test_a_body_that_is_not_json_is_400(self):
        client = answering(lambda request: request.json())
        for body in ("{", "[" * 60_000, "[NaN]", "-Infinity", b"\xff", ""):
            answer = client.post("/", body=body)
            self.assertEqual((answer.status, answer.json()["detail"]), (400, "the body is not JSON"), body[:10])

    def test_an_async_handler_awaits_the_body(self):
        async def handler(request):
            return [await request.json(), request.params["*"]]

        async def pieces(request):
            return [piece.decode() async for piece in request.stream()]

        with answering(handler) as client:
            self.assertEqual(client.post("/x", json=7).json(), [7, "x"])
        with answering(pieces) as client:
            self.assertEqual(client.post("/", body="abc").json(), ["abc"])

    def test_async_generators_are_for_those_who_may_await(self):
        async def pieces(request):
            yield await request.text()
            yield "!"

        async def again(request):
            return pieces(request)

        for handler in (pieces, again):
            with answering(handler) as client:
                self.assertEqual(client.post("/", body="abc").text, "abc!")
        for handler, why in ((lambda request: pieces(request), "async def"), (lambda request: again(request), "coroutine")):
            with answering(handler) as client:
                self.assertEqual(client.post("/", body="abc").status, 500)
                self.assertRegex(str(client.errors[0]), why)

    def test_forms_have_fields_and_files(self):
        def handler(request):
            form = request.form()
            files = [[file.field, file.name, file.type, file.bytes.decode("latin-1")] for file in form.files]
            return {"fields": form.fields.pairs, "files": files}

        client = answering(handler)
        plain = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        self.assertEqual(client.post("/", body="a=1&a=b+c%21&d", headers=plain).json()["fields"], [["a", "1"], ["a", "b c!"], ["d", ""]])
        body = (
            b"preamble\r\n--X\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\none\r\ntwo\r\n"
            b"--X\r\nContent-Disposition: form-data; name=f; filename=\"q%22.bin\"\r\nContent-Type: image/x\r\n\r\n\x00\xff\r\n--X--\r\n"
        )
        multipart = {"content-type": "multipart/form-data; boundary=X"}
        self.assertEqual(
            client.post("/", body=body, headers=multipart).json(),
            {"fields": [["a", "one\r\ntwo"]], "files": [["f", 'q".bin', "image/x", "\x00\xff"]]},
        )
        for cut in range(9, len(body) - 4):
            self.assertEqual(client.post("/", body=body[:cut], headers=multipart).status, 400, cut)
        self.assertEqual(client.post("/", body=body, headers={"content-type": "multipart/form-data"}).status, 400)
        refused = client.post("/", body="x", headers={"content-type": "text/plain"})
        self.assertEqual(refused.status, 415)
        self.assertEqual(
            refused.json()["detail"],
            "the body is text/plain, a form is application/x-www-form-urlencoded or multipart/form-data",
        )


class AnswerTest(unittest.TestCase):
    def test_json_is_written_as_javascript_writes_it(self):
        for value, written in (
            ({"a": [1, 2.5, True, None], "é": "\u2028\x7f"}, '{"a":[1,2.5,true,null],"é":"\u2028\x7f"}'),
            ("\b\f\n\r\t\x01\x1f\"\\/", '"\\b\\f\\n\\r\\t\\u0001\\u001f\\"\\\\/"'),
            ("half \ud83d pair", '"half \\ud83d pair"'),
        ):
            self.assertEqual(to_json(value), written.encode("utf-8"))

    def test_what_json_cannot_say_is_a_500(self):
        circle = []
        circle.append(circle)
        for value in (math.nan, {"a": object()}, {1, 2}, circle, object()):
            client = answering(lambda value=value: value)
            answer = client.get("/")
            self.assertEqual((answer.status, answer.json()["detail"]), (500, "the handler failed"))
            self.assertEqual(len(client.errors), 1)

    def test_replies_say_status_and_headers(self):
        answer = answering(lambda: json(None, status=201, headers={"X-A": ["1", "2"], "x-n": 7})).get("/")
        self.assertEqual((answer.status, answer.body), (201, b"null"))
        self.assertEqual(answer.headers.get_all("x-a"), ["1", "2"])
        self.assertEqual((answer.headers["x-n"], answer.headers["content-type"]), ("7", "application/json"))
        typed = answering(lambda: reply(json({}), headers=[("Content-Type", "a/b")])).get("/")
        self.assertEqual(typed.headers["content-type"], "a/b")
        self.assertEqual(answering(lambda: reply(status=303, headers={"location": "/"})).get("/").status, 303)
        self.assertEqual(answering(lambda: text("<p>")).get("/").headers["content-type"], "text/plain; charset=utf-8")

    def test_statuses_and_headers_that_http_does_not_allow_are_refused(self):
        for make, message in (
            (lambda: json({}, status=100), "200 to 599, not 100"),
            (lambda: reply(status=True), "200 to 599"),
            (lambda: text("", headers={"a b": "c"}), '"a b" is not a header name'),
            (lambda: text("", headers={"a": "b\r\nc"}), "characters HTTP does not allow"),
            (lambda: text("", headers={"a": "x" * 70_000}), "at most 65536"),
            (lambda: HttpError(200), "400 to 599, not 200"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                make()

    def test_errors_are_problems(self):
        def handler():
            raise HttpError(404, "no user 7", headers={"retry-after": "1"}, extra={"field": "id"})

        answer = answering(handler).get("/", headers={"x-request-id": "abc"})
        self.assertEqual((answer.status, answer.headers["retry-after"]), (404, "1"))
        self.assertEqual(
            answer.text,
            '{"type":"about:blank","title":"Not Found","status":404,"detail":"no user 7","request_id":"abc","field":"id"}',
        )
        self.assertEqual(HttpError(503).message, "Service Unavailable")
        self.assertEqual(HttpError(499).message, "Status 499")

    def test_hooks_and_state_and_logs(self):
        app = App()
        app.on_start(lambda ctx: setattr(ctx.state, "count", 1))
        ended = []

        @app.on_stop
        async def stop():
            ended.append(True)

        @app.get("/")
        def handler(request, ctx):
            ctx.state.count += 1
            ctx.log.info("counted", count=ctx.state.count)
            return ctx.state.count

        with testing(app) as client:
            self.assertEqual([client.get("/").json(), client.get("/").json()], [2, 3])
            self.assertEqual(client.logs[1], ("info", "counted", {"count": 3}))
            with self.assertRaisesRegex(AttributeError, "ctx.state has no 'nothing'"):
                client.state.nothing
        self.assertEqual(ended, [True])

    def test_an_application_of_a_framework_is_not_taken_for_an_app(self):
        def application(environ, start_response):
            raise AssertionError("it is not called")

        with self.assertRaisesRegex(TypeError, r"forebay\.App, and this is a builtins\.function: .+fastapi\.testclient\.TestClient"):
            testing(application)
