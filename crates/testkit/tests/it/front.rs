//! Connections: the order of requests and responses, and the fields that the server itself adds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_testkit::{Client, Server, Setup, wait_until};
use serde_json::json;

use crate::support::{ONE_WORKER, Runtime, fake, node};

/// Routes of every target, with default limits.
const ROUTES: &str = r#"
[[route]]
path = "/here"
methods = ["GET", "POST"]
respond = { text = "here" }

[[route]]
path = "/json"
methods = ["GET"]
respond = { json = { status = "success", result = "local" }, headers = { "cache-control" = "no-store" } }

[[route]]
path = "/files/*"
files = "public"
"#;

fn routes() -> Setup {
    Setup::new(ROUTES)
        .file("public/page.html", "<p>hello</p>")
        .file("public/.secret", "x")
}

fn serve() -> Server {
    routes().start()
}

/// Responds with the request's body and content type; `/stream` with a body of unknown length.
const ECHO: &str = r"
import { router, reply } from 'forebay';

export default router()
  .post('/echo', async (request) => {
    const type = request.headers.get('content-type') ?? 'application/octet-stream';
    return reply(await request.bytes(), { headers: { 'content-type': type } });
  })
  .get('/echo', () => 'got')
  .get('/stream', async function* () { yield 'a'; yield 'b'.repeat(70000); yield 'c'; });
";

#[test]
fn one_connection_serves_request_after_request() {
    let server = serve();
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/here").text(), "here");
        assert_eq!(client.get("/files/page.html").text(), "<p>hello</p>");
        assert_eq!(client.get("/nowhere").status, 404);
    }
    client.send("GET /here HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(client.response().header("connection"), Some("close"));
    client.ends();
}

#[test]
fn requests_sent_ahead_are_answered_in_their_order() {
    let server = fake("well", "workers = { min = 2, max = 2 }").start();
    let mut client = server.connect();
    let mut all = Vec::new();
    for number in 0..50 {
        let ms = if number % 7 == 0 { 20 } else { 0 };
        let body = format!("number {number}");
        let target = if number % 3 == 0 {
            format!("/slow?ms={ms}")
        } else {
            "/echo".to_owned()
        };
        all.extend_from_slice(
            format!(
                "POST {target} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        all.extend_from_slice(b"GET /here HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    client.send(all);
    for number in 0..50 {
        assert_eq!(client.response().text(), format!("number {number}"));
        assert_eq!(client.response().text(), "here");
    }
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let server = node(ECHO, "workers = { min = 1, max = 1 }").start();
    let mut client = server.connect();
    let request =
        b"\r\nPOST /echo HTTP/1.1\r\nhost: a\r\ncontent-type: text/x\r\ntransfer-encoding: chunked\r\n\r\n\
        4;note=\"a;b\"\r\nwiki\r\n00005\r\npedia\r\n0\r\nx-trailer: dropped\r\n\r\n";
    for _ in 0..2 {
        for byte in request {
            client.send([*byte]);
        }
        let answer = client.response();
        assert_eq!((answer.status, answer.text()), (200, "wikipedia"));
        assert_eq!(answer.header("content-type"), Some("text/x"));
        assert_eq!(answer.header("content-length"), Some("9"));
    }
}

#[test]
fn a_body_of_unknown_length_is_sent_in_chunks_and_to_an_old_client_until_the_end() {
    let server = node(ECHO, "workers = { min = 1, max = 1 }").start();
    let whole = format!("a{}c", "b".repeat(70000));
    let mut client = server.connect();
    for _ in 0..2 {
        let answer = client.get("/stream");
        assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
        assert!(answer.text() == whole);
    }
    client.send("GET /stream HTTP/1.0\r\nconnection: keep-alive\r\n\r\n");
    let answer = client.response();
    assert_eq!(
        (answer.header("transfer-encoding"), answer.header("connection")),
        (None, Some("close"))
    );
    assert!(answer.text() == whole);
    client.ends();
}

#[test]
fn a_client_that_expects_100_continue_is_told_before_it_sends_its_body() {
    let server = node(ECHO, "workers = { min = 1, max = 1 }")
        .server("body_bytes_max = 10")
        .start();
    let ask = |length: usize| {
        format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\nexpect: 100-continue\r\n\r\n")
    };
    let mut client = server.connect();
    for _ in 0..2 {
        client.send(ask(5));
        assert_eq!(client.response().status, 100);
        client.send("hello");
        assert_eq!(client.response().text(), "hello");
    }
    client.send(ask(11));
    assert_eq!(
        client.response().status,
        413,
        "the body is refused before it is sent"
    );
    client.ends();
    let mut client = server.connect();
    client.send("GET /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\r\n");
    assert_eq!(
        client.response().text(),
        "got",
        "without a body there is nothing to go on with"
    );
}

#[test]
fn a_head_request_gets_the_fields_of_get_and_no_body() {
    let server = serve();
    let mut client = server.connect();
    for path in ["/here", "/json", "/files/page.html"] {
        let got = client.get(path);
        client.request("HEAD", path);
        let headed = client.response_to("HEAD");
        assert_eq!(headed.status, 200);
        for field in [
            "content-length",
            "content-type",
            "etag",
            "last-modified",
            "cache-control",
        ] {
            assert_eq!(headed.header(field), got.header(field), "{field} of {path}");
        }
        assert_eq!(
            got.header("content-length"),
            Some(got.body.len().to_string().as_str())
        );
    }
    client.request("HEAD", "/nowhere");
    assert_eq!(client.response_to("HEAD").status, 404);
    assert_eq!(client.get("/here").text(), "here", "the connection goes on");
    client.send("HEAD /here HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000000\r\n\r\n");
    let refused = client.response_to("HEAD");
    assert_eq!(refused.status, 413);
    assert_ne!(
        refused.header("content-length"),
        Some("0"),
        "what GET would bring"
    );
    client.ends();
}

#[test]
fn a_head_request_to_a_pool_gets_no_body_either() {
    let server = node(ECHO, "workers = { min = 1, max = 1 }").start();
    let mut client = server.connect();
    client.request("HEAD", "/echo");
    let headed = client.response_to("HEAD");
    assert_eq!((headed.status, headed.header("content-length")), (200, Some("3")));
    assert_eq!(client.get("/echo").text(), "got", "the connection goes on");
    client.request("HEAD", "/stream");
    assert_eq!(client.response_to("HEAD").status, 200);
}

#[test]
fn options_and_wrong_methods_name_those_that_are_allowed() {
    let server = serve();
    let mut client = server.connect();
    client.request("OPTIONS", "/here");
    let answer = client.response();
    assert_eq!(
        (answer.status, answer.header("allow")),
        (204, Some("GET, HEAD, OPTIONS, POST"))
    );
    assert_eq!(answer.header("content-length"), None);
    client.request("OPTIONS", "*");
    assert_eq!(client.response().status, 204);
    client.request("DELETE", "/here");
    let answer = client.response();
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, Some("GET, HEAD, OPTIONS, POST"))
    );
    client.request("get", "/here");
    assert_eq!(client.response().status, 405, "methods are case-sensitive");
    client.post("/json", b"a body that nobody reads");
    assert_eq!(client.response().status, 405);
    assert_eq!(
        client.get("/json").json()["result"],
        "local",
        "the unread body is passed over"
    );
}

#[test]
fn a_refusal_is_a_problem_document_with_the_requests_id() {
    let server = serve();
    let mut client = server.connect();
    client.send("GET /nowhere HTTP/1.1\r\nhost: a\r\nx-request-id: my-id-7\r\n\r\n");
    let answer = client.response();
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("x-request-id"), Some("my-id-7"));
    let problem = answer.json();
    assert_eq!(problem["status"], 404);
    assert_eq!(problem["title"], "Not Found");
    assert_eq!(problem["request_id"], "my-id-7");
}

#[test]
fn every_answer_has_a_request_id_that_no_other_has_unless_the_client_gave_one() {
    let server = serve();
    let mut client = server.connect();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..200 {
        let id = client.get("/here").header("x-request-id").map(str::to_owned);
        assert!(
            ids.insert(id.expect("each answer has an id")),
            "an id is given twice"
        );
    }
    let long = "x".repeat(129);
    for unusable in ["a b", "caf\u{e9}", "", &long] {
        client.send(format!(
            "GET /here HTTP/1.1\r\nhost: a\r\nx-request-id: {unusable}\r\n\r\n"
        ));
        let answer = client.response();
        assert_ne!(answer.header("x-request-id"), Some(unusable));
        assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()));
    }
}

#[test]
fn a_handler_sees_the_id_that_the_client_is_told() {
    let server = node(
        "export default (request) => request.id;",
        "workers = { min = 1, max = 1 }",
    )
    .start();
    let mut client = server.connect();
    let answer = client.get("/");
    assert_eq!(Some(answer.text()), answer.header("x-request-id"));
    client.send("GET / HTTP/1.1\r\nhost: a\r\nx-request-id: from-outside\r\n\r\n");
    assert_eq!(client.response().text(), "from-outside");
}

#[test]
fn date_is_the_time_of_the_answer_and_server_names_the_program() {
    let server = serve();
    let mut client = server.connect();
    let mut seen = std::collections::BTreeSet::new();
    wait_until("three different dates", || {
        let before = seconds(SystemTime::now());
        let answer = client.get("/here");
        let after = seconds(SystemTime::now());
        let date = date_of(answer.header("date").expect("each answer has a date"));
        assert!(
            (before..=after).contains(&date),
            "{date} is not within {before} and {after}"
        );
        assert_eq!(answer.header("server"), Some("forebay"));
        seen.insert(date);
        seen.len() == 3
    });
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

/// Parses an IMF-fixdate (RFC 9110, 5.6.7) into seconds since 1970.
fn date_of(text: &str) -> u64 {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let number = |at: usize, length: usize| text[at..at + length].parse::<u64>().expect("digits");
    assert_eq!(
        (text.len(), &text[3..5], &text[25..]),
        (29, ", ", " GMT"),
        "{text}"
    );
    let month = MONTHS.find(&text[8..11]).expect("a month") as u64 / 3 + 1;
    let (day, year) = (number(5, 2), number(12, 4));
    // Days since 1970-03-01 of the proleptic calendar, months counted from March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    assert_eq!(&text[..3], weekday, "{text}");
    days * 86400 + number(17, 2) * 3600 + number(20, 2) * 60 + number(23, 2)
}

#[test]
fn several_listeners_serve_the_same_routes() {
    let folder = forebay_testkit::Folder::new();
    let socket = folder.path().join("web.sock");
    let mut server = routes()
        .listen(&format!(
            r#""127.0.0.1:0", "[::1]:0", "unix:{}""#,
            socket.display()
        ))
        .start();
    let urls = server.urls().to_vec();
    assert_eq!(urls.len(), 3, "{}", server.ready_line());
    let tcp = |url: &str| Client::tcp(url.trim_start_matches("http://").parse().expect("an address"));
    assert!(urls[1].starts_with("http://[::1]:"), "{urls:?}");
    assert_eq!(urls[2], format!("unix:{}", socket.display()));
    assert_eq!(tcp(&urls[0]).get("/here").text(), "here");
    assert_eq!(tcp(&urls[1]).get("/here").text(), "here");
    for _ in 0..8 {
        assert_eq!(Client::unix(&socket).get("/here").text(), "here");
    }
    server.terminate();
    assert!(server.wait().success());
    assert!(!socket.exists(), "the socket's file goes with the server");
}

#[test]
fn a_handler_sees_the_clients_address() {
    let folder = forebay_testkit::Folder::new();
    let socket = folder.path().join("web.sock");
    let listen = format!(r#""127.0.0.1:0", "[::1]:0", "unix:{}""#, socket.display());
    let server = node("export default (request) => ({ ip: request.ip });", "")
        .listen(&listen)
        .start();
    assert_eq!(server.get("/").json()["ip"], "127.0.0.1");
    let v6 = server.urls()[1]
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    assert_eq!(Client::tcp(v6).get("/").json()["ip"], "::1");
    assert_eq!(Client::unix(&socket).get("/").json()["ip"], "");
}

#[test]
fn a_socket_file_left_by_a_killed_server_does_not_keep_the_next_one_from_listening() {
    let folder = forebay_testkit::Folder::new();
    let socket = folder.path().join("web.sock");
    let listen = format!(r#""unix:{}""#, socket.display());
    let mut killed = routes().listen(&listen).start();
    killed.kill();
    assert!(socket.exists());
    let _server = routes().listen(&listen).start();
    assert_eq!(Client::unix(&socket).get("/here").text(), "here");
}

#[test]
fn an_old_client_gets_its_answer_and_the_connection_ends_unless_it_asks_otherwise() {
    let server = serve();
    let mut client = server.connect();
    client.send("GET /here HTTP/1.0\r\nconnection: keep-alive\r\n\r\n");
    assert_eq!(client.response().header("connection"), Some("keep-alive"));
    client.send("GET /here HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().text(), "here");
    client.ends();
}

#[test]
fn a_client_that_has_said_all_it_wants_is_still_answered() {
    let server = serve();
    let mut client = server.connect();
    client.send("GET /here HTTP/1.1\r\nhost: a\r\n\r\nGET /json HTTP/1.1\r\nhost: a\r\n\r\n");
    client.finish_sending();
    assert_eq!(client.response().text(), "here");
    assert_eq!(client.response().json()["status"], "success");
    client.ends();
}

#[test]
fn a_handler_finds_the_servers_request_id_in_its_own_field_and_the_clients_among_the_headers_too() {
    let source =
        "export default ({ id, headers }) => ({ id: id.length > 0, header: headers.get('x-request-id') });";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        assert_eq!(
            server.get("/").json(),
            json!({"id": true, "header": null}),
            "{runtime:?}"
        );
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nhost: a\r\nx-request-id: mine\r\n\r\n");
        assert_eq!(
            client.response().json(),
            json!({"id": true, "header": "mine"}),
            "{runtime:?}"
        );
    }
}

#[test]
fn only_trusted_proxies_are_believed_what_they_say_about_clients() {
    let routes = "[script.ip]\nhandler = \"ip.mjs\"\n[[route]]\npath = \"/ip\"\nscript = \"ip\"\n";
    let serve = |keys: &str| {
        let setup = Setup::new(routes).file("ip.mjs", "export default (request) => String(request.ip);");
        setup
            .listen("\"127.0.0.1:0\", \"unix:proxy.sock\"")
            .server(keys)
            .start()
    };
    let ask = |mut client: Client| {
        let fields = "x-forwarded-for: 6.6.6.6, 192.0.2.1\r\nforwarded: for=\"[2001:db8::1]:80\"\r\n";
        client.send(format!("GET /ip HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
        client.response().text().to_owned()
    };
    let local = |server: &Server| Client::unix(&server.folder().path().join("proxy.sock"));
    let server = serve("");
    assert_eq!(
        (ask(server.connect()), ask(local(&server))),
        ("127.0.0.1".into(), String::new())
    );
    let server = serve("trusted_proxies = [\"127.0.0.0/8\"]");
    assert_eq!(
        (ask(server.connect()), ask(local(&server))),
        ("192.0.2.1".into(), String::new())
    );
    let server = serve("trusted_proxies = [\"unix\"]\nforwarded = \"forwarded\"");
    assert_eq!(
        (ask(server.connect()), ask(local(&server))),
        ("127.0.0.1".into(), "2001:db8::1".into())
    );
}

#[test]
fn a_trusted_proxy_says_by_the_proxy_protocol_who_its_client_is_before_anything_else() {
    let routes = "[script.ip]\nhandler = \"ip.mjs\"\n[[route]]\npath = \"/ip\"\nscript = \"ip\"\n";
    let server = Setup::new(routes)
        .file("ip.mjs", "export default (request) => String(request.ip);")
        .listen("\"127.0.0.1:0\", \"unix:proxy.sock\"")
        .server(
            "trusted_proxies = [\"127.0.0.1\"]\nforwarded = \"proxy-protocol\"\nheader_timeout = \"500ms\"",
        )
        .start();
    let request = "GET /ip HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 6.6.6.6\r\n\r\n";
    let mut client = server.connect();
    client.send("PROXY TCP4 192.0.2.1 127.0.0.1 4660 80\r\n");
    for _ in 0..2 {
        client.send(request);
        assert_eq!(client.response().text(), "192.0.2.1");
    }
    // Version 2, byte by byte.
    let mut client = server.connect();
    let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x09\x7f\0\0\x01\x12\x34\0\x50";
    for byte in header {
        client.send([*byte]);
    }
    client.send(request);
    assert_eq!(client.response().text(), "192.0.2.9");
    // A connection of the proxy's own.
    let mut client = server.connect();
    client.send(format!("PROXY UNKNOWN\r\n{request}"));
    assert_eq!(client.response().text(), "127.0.0.1");
    // Without a header, or with half of one, the connection is closed.
    for wrong in [
        request,
        "PROXY TCP4 192.0.2.1 127.0.0.1",
        "PROXY TCP9 a b c d\r\n",
    ] {
        let mut client = server.connect();
        client.send(wrong);
        client.ends();
    }
    server.wait_for_log(&["a trusted proxy sends no header of the PROXY protocol"]);
    // Who is not trusted needs none, and is not believed if it sends one.
    let local = || Client::unix(&server.folder().path().join("proxy.sock"));
    let mut client = local();
    client.send(request);
    assert_eq!(client.response().text(), "");
    let mut client = local();
    client.send(format!("PROXY TCP4 192.0.2.1 127.0.0.1 4660 80\r\n{request}"));
    assert_eq!(client.response().status, 505, "it is no request of HTTP/1.1");
}
