//! Redirects, and rewrites: requests that another address or another route answers.

use forebay_testkit::{Response, Server, Setup, curl};
use serde_json::Value;

use crate::store::ask;

fn get(server: &Server, target: &str, fields: &[(&str, &str)]) -> Response {
    ask(&mut server.connect(), "GET", target, fields, b"")
}

#[test]
fn a_redirect_names_the_new_address_with_what_the_path_has_matched_and_the_query() {
    let server = Setup::new(
        r#"
[[route]]
path = "/old/*"
redirect = { to = "/new/*", status = 308 }
[[route]]
path = "/user/:id"
redirect = { to = "https://users.example/by?id=:id" }
[[route]]
path = "/all/*"
redirect = { to = "/*", status = 301 }
"#,
    )
    .start();
    for (target, status, location) in [
        ("/old/a/b?x=1&y=%20", 308, "/new/a/b?x=1&y=%20"),
        ("/old/", 308, "/new/"),
        ("/user/7", 307, "https://users.example/by?id=7"),
        (
            "/user/7%26admin%3D1?x",
            307,
            "https://users.example/by?id=7%26admin%3D1&x",
        ),
        // Nothing leads to another host or into another field.
        ("/all//evil.example/", 301, "/evil.example/"),
        ("/all/%2Fevil.example", 301, "/%2Fevil.example"),
        ("/all/\\evil.example", 301, "/%5Cevil.example"),
        (
            "/user/%0D%0Aset-cookie:%20a=b",
            307,
            "https://users.example/by?id=%0D%0Aset-cookie%3A%20a%3Db",
        ),
        ("/all/%0D%0Aset-cookie:%20a=b", 301, "/%0D%0Aset-cookie:%20a=b"),
    ] {
        for method in ["GET", "HEAD", "POST"] {
            let answer = ask(&mut server.connect(), method, target, &[], b"");
            let found = (
                answer.status,
                answer.header("location"),
                answer.header("set-cookie"),
            );
            assert_eq!(found, (status, Some(location), None), "{method} {target}");
        }
    }
}

const REWRITES: &str = r#"
[log]
access = true
[policy.outer]
deny = "192.0.2.1"
rate_limits = "2/1h by x-outer"
headers = { x-outer = "1" }
remove_headers = "x-removed"
error_pages = { 4xx = "page.html" }
[policy.both]
rate_limits = "3/1h by x-both"
headers = { x-both = "1" }
[policy.inner]
deny = "192.0.2.2"
rate_limits = "1/1h by x-inner"
headers = { x-inner = "1" }
[script.echo]
handler = "echo.mjs"
[[route]]
path = "/short/:id"
policy = ["outer", "both"]
headers = { x-own = "1" }
rewrite = "/internal/:id?kind=short"
[[route]]
path = "/internal/:number"
policy = ["both", "inner"]
cors = { origins = "*" }
script = "echo"
[[route]]
path = "/twice/*"
rewrite = "/*"
[[route]]
path = "/nowhere/*"
policy = "outer"
rewrite = "/none/*"
"#;

fn rewriting() -> Server {
    let echo = "export default async (request) => Response.json(
        { path: new URL(request.url).pathname, query: new URL(request.url).search, id: request.params.number, method: request.method, body: await request.text() },
        { headers: { 'x-removed': '1' } });";
    Setup::new(REWRITES)
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .file("echo.mjs", echo)
        .file("page.html", "<h1>outer</h1>")
        .start()
}

#[test]
fn a_rewritten_request_is_answered_by_the_other_route_and_logged_as_it_came() {
    let server = rewriting();
    let answer = ask(
        &mut server.connect(),
        "POST",
        "/short/a%2Fb?x=1",
        &[("x-request-id", "mine")],
        b"body",
    );
    let echo: Value = answer.json();
    let expected = serde_json::json!({
        "path": "/internal/a%2Fb", "query": "?kind=short&x=1", "id": "a/b", "method": "POST", "body": "body",
    });
    assert_eq!(echo, expected);
    let headers = ["x-outer", "x-both", "x-inner", "x-own", "x-removed"].map(|name| answer.header(name));
    assert_eq!(headers, [Some("1"), Some("1"), Some("1"), Some("1"), None]);
    let line: Value = serde_json::from_str(&server.wait_for_log(&["\"request_id\":\"mine\""])).expect("JSON");
    assert_eq!(
        [&line["path"], &line["query"], &line["route"]],
        ["/short/a%2Fb", "x=1", "/internal/:number"]
    );
    // A request that asks what scripts of other pages may do is about the route that answers.
    let wanted = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
    ];
    let preflight = ask(&mut server.connect(), "OPTIONS", "/short/a", &wanted, b"");
    assert_eq!(preflight.header("access-control-allow-origin"), Some("*"));
    let fields = ["--header", "x-outer: a", "--header", "x-inner: a"];
    let url = format!("http://{}/short/2", server.address());
    let http2 = curl(
        ["--http2-prior-knowledge", "--data", "body", &url]
            .iter()
            .chain(&fields),
    );
    let echo: Value = serde_json::from_slice(&http2.stdout).expect("JSON");
    assert_eq!([&echo["id"], &echo["body"]], ["2", "body"]);
}

#[test]
fn the_policies_of_both_routes_hold_and_one_of_both_counts_once() {
    let server = rewriting();
    let from = |address: &str| get(&server, "/short/1", &[("x-forwarded-for", address)]).status;
    assert_eq!(["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(from), [403, 403, 200]);
    let inner = |key: &str| {
        get(
            &server,
            "/short/1",
            &[("x-inner", key), ("x-outer", "a"), ("x-both", "a")],
        )
    };
    let first = inner("a");
    assert_eq!(
        (first.status, first.header("ratelimit-remaining")),
        (200, Some("0"))
    );
    // What the second route refuses counts for none of the limits of the first.
    for _ in 0..3 {
        let refused = inner("a");
        assert_eq!((refused.status, refused.header("x-outer")), (429, Some("1")));
    }
    assert_eq!(inner("b").status, 200);
    let refused = inner("c");
    assert_eq!(
        (refused.status, refused.header("ratelimit-limit")),
        (429, Some("2"))
    );
    // The policy that both routes name has counted two requests, not four.
    assert_eq!(
        get(
            &server,
            "/short/1",
            &[("x-both", "a"), ("x-inner", "d"), ("x-outer", "d")]
        )
        .status,
        200
    );
    let html = ("accept", "text/html");
    let refused = get(&server, "/short/1", &[html, ("x-forwarded-for", "192.0.2.2")]);
    assert_eq!((refused.status, refused.text()), (403, "<h1>outer</h1>"));
    let none = get(&server, "/nowhere/1", &[html]);
    assert_eq!(
        (none.status, none.text(), none.header("x-outer")),
        (404, "<h1>outer</h1>", Some("1"))
    );
}

#[test]
fn a_request_is_rewritten_once() {
    let server = rewriting();
    assert_eq!(get(&server, "/twice/internal/5", &[]).status, 200);
    let twice = get(&server, "/twice/short/5", &[]);
    assert_eq!(twice.status, 500);
    assert!(
        twice
            .text()
            .contains("a request is rewritten once (route.rewrite)"),
        "{}",
        twice.text()
    );
    assert_eq!(get(&server, "/twice/twice/5", &[]).status, 500);
}

#[test]
fn a_rewritten_request_has_to_prove_what_either_route_asks_for() {
    // The digest of `key-of-ada`.
    let server = Setup::new(
        r#"
[auth.keys.api_keys]
ada = { sha256 = "5532e44183f47ed1fc146851b96d585c24da5bd5fe31a885cebc357261ed8f7f" }
[[route]]
path = "/guarded"
auth = "keys"
rewrite = "/open"
[[route]]
path = "/unguarded"
rewrite = "/closed"
[[route]]
path = "/open"
respond = { text = "answered" }
[[route]]
path = "/closed"
auth = "keys"
respond = { text = "answered" }
[auth.jobs.tokens.nightly]
token = "NIGHTLY"
[script.user]
handler = "user.mjs"
[[route]]
path = "/twice"
auth = "keys"
rewrite = "/user"
[[route]]
path = "/user"
auth = "jobs"
script = "user"
"#,
    )
    .env("NIGHTLY", "token-of-nightly")
    .file("user.mjs", "export default (request) => request.user.subject;")
    .start();
    for target in ["/guarded", "/unguarded"] {
        assert_eq!(get(&server, target, &[]).status, 401, "{target}");
        let proved = get(&server, target, &[("x-api-key", "key-of-ada")]);
        assert_eq!((proved.status, proved.text()), (200, "answered"), "{target}");
    }
    assert_eq!(get(&server, "/open", &[]).status, 200);
    let (key, token) = (
        ("x-api-key", "key-of-ada"),
        ("authorization", "Bearer token-of-nightly"),
    );
    for (fields, expected) in [(&[key][..], 401), (&[token], 401), (&[key, token], 200)] {
        let answer = get(&server, "/twice", fields);
        assert_eq!(answer.status, expected, "{fields:?}");
        assert!(
            expected == 401 || answer.text().contains("nightly"),
            "who the answering route asks for"
        );
    }
}
