"""The router's choice of a handler: the same cases as in the SDK for Node."""

import unittest

from forebay import App
from forebay.testing import testing


def tell_tale(*routes):
    """An app whose handlers tell the pattern that matched and its parameters."""
    app = App()
    for route in routes:
        method, path = route.split(" ", 1)
        getattr(app, method)(path)(lambda request, ctx, route=route: {"route": route, **request.params})
    return testing(app)


class RouterTest(unittest.TestCase):
    def test_literals_go_before_parameters_before_the_rest_in_whatever_order_they_were_added(self):
        routes = ["get /*", "get /users/*rest", "get /users/:id", "get /users/me", "get /:kind/me", "get /:kind/:id/edit", "get /"]
        for order in (routes, routes[::-1]):
            app = tell_tale(*order)
            for path, expected in (
                ("/", {"route": "get /"}),
                ("/users/me", {"route": "get /users/me"}),
                ("/users/7", {"route": "get /users/:id", "id": "7"}),
                ("/users/7/edit", {"route": "get /users/*rest", "rest": "7/edit"}),
                ("/things/me", {"route": "get /:kind/me", "kind": "things"}),
                ("/things/7/edit", {"route": "get /:kind/:id/edit", "kind": "things", "id": "7"}),
                ("/things/7/view", {"route": "get /*", "*": "things/7/view"}),
                ("/users/", {"route": "get /users/*rest", "rest": ""}),
                ("/users", {"route": "get /*", "*": "users"}),
                ("/users/me/", {"route": "get /users/*rest", "rest": "me/"}),
            ):
                self.assertEqual(app.get(path).json(), expected, path)

    def test_segments_are_compared_percent_decoded_and_keep_an_encoded_slash(self):
        app = tell_tale("get /café/:name", "get /a b", "get /x/*rest")
        self.assertEqual(app.get("/caf%C3%A9/J%c3%bcrgen").json(), {"route": "get /café/:name", "name": "Jürgen"})
        self.assertEqual(app.get("/caf%C3%A9/a%2Fb").json(), {"route": "get /café/:name", "name": "a/b"})
        self.assertEqual(app.get("/%61%20b").json(), {"route": "get /a b"})
        self.assertEqual(tell_tale("get /é").get("/é").status, 200)
        # The same bytes decoded as Latin-1.
        self.assertEqual(tell_tale("get /Ã©").get("/é").status, 404)
        self.assertEqual(app.get("/x/%zz").status, 400)
        self.assertEqual(app.get("/x/%ff").status, 400)
        self.assertEqual(app.get("/x/%zz").json()["detail"], 'the path has a broken percent-encoding in "%zz"')

    def test_a_path_that_lacks_the_method_does_not_hide_one_that_has_it(self):
        app = tell_tale("get /users/me", "post /users/:id", "all /users/*")
        self.assertEqual(app.post("/users/me").json()["route"], "post /users/:id")
        self.assertEqual(app.put("/users/me").json()["route"], "all /users/*")

    def test_what_does_not_match_gets_404_or_405_with_the_methods_that_are_there(self):
        app = tell_tale("get /a", "delete /a", "post /:x")
        self.assertEqual(app.get("/b/c").json()["detail"], "nothing answers /b/c")
        refused = app.put("/a")
        self.assertEqual(refused.status, 405)
        self.assertEqual(refused.headers["allow"], "DELETE, GET, HEAD, POST")
        self.assertEqual(refused.json()["detail"], "/a answers DELETE, GET, HEAD, POST, not PUT")
        self.assertEqual(app.options("/a").status, 405)

    def test_head_falls_back_to_get_then_to_all(self):
        app = App()
        seen = []
        app.get("/a")(lambda: seen.append("get"))
        app.head("/b")(lambda: seen.append("head"))
        app.get("/b")(lambda: seen.append("get"))
        app.all("/c")(lambda request: seen.append(request.method))
        for path in ("/a", "/b", "/c"):
            testing(app).head(path)
        testing(app).request("PURGE", "/c")
        self.assertEqual(seen, ["get", "head", "HEAD", "PURGE"])

    def test_a_method_of_its_own_goes_before_all(self):
        for routes in (["all /a", "get /a"], ["get /a", "all /a"]):
            app = tell_tale(*routes)
            self.assertEqual(app.get("/a").json()["route"], "get /a")
            self.assertEqual(app.post("/a").json()["route"], "all /a")

    def test_patterns_that_cannot_match_are_refused(self):
        for path, message in (
            ("users", "must start with /"),
            ("/a//b", "empty segment"),
            ("/:", "needs a name"),
            ("/:1a", "needs a name"),
            ("/:a-b", "needs a name"),
            ("/*a/b", "only at the start of the last segment"),
            ("/a*", "only at the start of the last segment"),
            ("/a/../b", "segment .. are refused"),
            ("/a%20b", "write it decoded"),
            ("/a?b", "write it decoded"),
            ("/:a/:a", "parameter a appears twice"),
        ):
            with self.subTest(path), self.assertRaisesRegex(ValueError, message.replace("*", r"\*")):
                App().get(path)(lambda: 1)

    def test_a_second_handler_for_the_same_method_and_path_is_refused(self):
        for first, second, message in (("/a", "/a", "GET /a is there already$"), ("/:a", "/:b", "GET /:b is there already as /:a$")):
            app = App()
            app.get(first)(lambda: 1)
            with self.assertRaisesRegex(ValueError, message):
                app.get(second)(lambda: 2)
        with self.assertRaisesRegex(TypeError, "the handler of /a is a int, not a function"):
            App().get("/a")(5)
        with self.assertRaisesRegex(TypeError, "takes 3 arguments, at most 2 are given"):
            App().get("/a")(lambda a, b, c: 1)
