//! Pages of other origins: what a browser is told about whether their scripts may read answers.

use forebay_testkit::{Response, Server, Setup};

use crate::store::ask;

const ROUTES: &str = r#"
[store]
path = "data"
[store.access]
Open = { read = "public", write = "public" }
[[route]]
path = "/named"
methods = ["POST"]
respond = { text = "named" }
cors = { origins = ["https://a.example", "https://b.example"], headers = ["content-type", "x-a"], credentials = true }
[[route]]
path = "/any/*"
files = "public"
cors = { origins = "*" }
[[route]]
path = "/plain"
respond = { text = "plain" }
[[route]]
path = "/store/*"
store = {}
cors = { origins = "https://a.example" }
[policy.open]
cors = { origins = "https://a.example" }
[[route]]
path = "/group"
policy = "open"
respond = { text = "group" }
[[route]]
path = "/group/own"
policy = "open"
respond = { text = "own" }
cors = { origins = "https://b.example" }
"#;

fn serve() -> Server {
    Setup::new(ROUTES).file("public/a.txt", "a").start()
}

/// The response to a request from a page of an origin; with `wanted`, to the preflight request for that method.
fn from(server: &Server, origin: &str, method: &str, target: &str, wanted: Option<&str>) -> Response {
    let mut fields = vec![("origin", origin)];
    fields.extend(wanted.map(|method| ("access-control-request-method", method)));
    ask(&mut server.connect(), method, target, &fields, b"")
}

fn allowed(answer: &Response) -> [Option<&str>; 4] {
    [
        "access-control-allow-origin",
        "access-control-allow-credentials",
        "access-control-allow-methods",
        "access-control-allow-headers",
    ]
    .map(|name| answer.header(name))
}

#[test]
fn pages_of_named_origins_may_read_answers_and_are_told_so_before_they_ask() {
    let server = serve();
    for origin in ["https://a.example", "https://b.example"] {
        let answer = from(&server, origin, "POST", "/named", None);
        assert_eq!(allowed(&answer), [Some(origin), Some("true"), None, None]);
        assert_eq!((answer.status, answer.header("vary")), (200, Some("origin")));
        let answer = from(&server, origin, "OPTIONS", "/named", Some("POST"));
        let expected = [
            Some(origin),
            Some("true"),
            Some("POST"),
            Some("content-type, x-a"),
        ];
        assert_eq!((answer.status, allowed(&answer)), (204, expected));
        assert!(answer.header("access-control-max-age").is_some());
    }
    let other = from(&server, "https://c.example", "POST", "/named", None);
    assert_eq!(
        (allowed(&other), other.header("vary")),
        ([None; 4], Some("origin"))
    );
    let other = from(&server, "https://c.example", "OPTIONS", "/named", Some("POST"));
    assert_eq!(allowed(&other)[0], None);
    let nothing = from(
        &server,
        "https://c.example",
        "OPTIONS",
        "/any/a.txt",
        Some("GET, PUT"),
    );
    assert_eq!(allowed(&nothing)[2], None);
    // No route has this method here.
    let none = from(&server, "https://a.example", "OPTIONS", "/named", Some("PUT"));
    assert_eq!(
        (allowed(&none), none.header("allow")),
        ([None; 4], Some("OPTIONS, POST"))
    );
}

#[test]
fn errors_can_be_read_like_other_answers_and_routes_without_cors_say_nothing() {
    let server = serve();
    for (target, status) in [("/any/a.txt", 200), ("/any/b.txt", 404)] {
        let answer = from(&server, "https://c.example", "GET", target, None);
        assert_eq!(
            (answer.status, allowed(&answer)),
            (status, [Some("*"), None, None, None])
        );
    }
    let plain = from(&server, "https://c.example", "GET", "/plain", None);
    assert_eq!((plain.status, allowed(&plain)), (200, [None; 4]));
    let plain = from(&server, "https://c.example", "OPTIONS", "/plain", Some("GET"));
    assert_eq!(allowed(&plain), [None; 4]);
}

#[test]
fn a_client_whose_address_is_denied_is_not_told_what_pages_may_do() {
    let server = Setup::new(
        "[policy.office]\nallow = \"10.0.0.0/8\"\ncors = { origins = \"https://a.example\" }\n\
         [[route]]\npath = \"/\"\npolicy = \"office\"\nrespond = { text = \"in\" }\n",
    )
    .start();
    let answer = from(&server, "https://a.example", "OPTIONS", "/", Some("GET"));
    assert_eq!(answer.status, 403);
}

#[test]
fn pages_that_may_read_the_store_may_change_it_too() {
    let server = serve();
    let put = |origin: &str| {
        let fields = [("origin", origin), ("content-type", "application/json")];
        ask(&mut server.connect(), "PUT", "/store/Open/1", &fields, b"1").status
    };
    assert_eq!((put("https://a.example"), put("https://b.example")), (201, 403));
}

#[test]
fn a_policy_says_it_for_a_group_of_routes_unless_a_route_has_its_own() {
    let server = serve();
    for (target, origin, other) in [
        ("/group", "https://a.example", "https://b.example"),
        ("/group/own", "https://b.example", "https://a.example"),
    ] {
        assert_eq!(
            allowed(&from(&server, origin, "GET", target, None))[0],
            Some(origin)
        );
        assert_eq!(allowed(&from(&server, other, "GET", target, None))[0], None);
        let preflight = from(&server, origin, "OPTIONS", target, Some("POST"));
        assert_eq!((preflight.status, allowed(&preflight)[2]), (204, Some("POST")));
    }
}
