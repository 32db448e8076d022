//! TRACE and upgrades, which the server answers itself, and responses to HEAD without a known length.

use forebay_testkit::Setup;

use crate::support::{ONE_WORKER, Runtime};

const WEB: &str = r"
export default {
  fetch(request) {
    const headers = { 'x-method': request.method };
    return new Response(request.method === 'HEAD' ? null : 'hello', { headers });
  },
};
";

#[test]
fn trace_is_not_allowed_unless_a_route_names_it() {
    let server = Setup::new(
        "[[route]]\npath = \"/any\"\nrespond = { text = \"any\" }\n\
         [[route]]\npath = \"/named\"\nmethods = \"TRACE\"\nrespond = { text = \"named\" }\n",
    )
    .start();
    let mut client = server.connect();
    client.request("TRACE", "/any");
    let answer = client.response();
    let allowed = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
    assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)));
    client.request("TRACE", "/named");
    assert_eq!(client.response().text(), "named");
}

#[test]
fn trace_does_not_reach_web_handlers_and_their_answer_to_head_has_no_length() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(WEB, ONE_WORKER).start();
        let mut client = server.connect();
        client.request("TRACE", "/");
        assert_eq!(client.response().status, 405, "{runtime:?}");
        client.request("HEAD", "/");
        let head = client.response_to("HEAD");
        assert_eq!(
            (head.header("x-method"), head.header("content-length")),
            (Some("HEAD"), None)
        );
        assert_eq!(client.get("/").text(), "hello", "{runtime:?}");
    }
}

#[test]
fn who_asks_for_a_websocket_is_told_that_there_is_none_and_the_log_once() {
    let server = Setup::new("[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n").start();
    for _ in 0..2 {
        let mut client = server.connect();
        client.send(
            "GET /here HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let answer = client.response();
        assert_eq!(answer.status, 501);
        assert!(answer.text().contains("WebSocket"), "{}", answer.text());
        client.ends();
    }
    // Other protocols may be offered in vain, and what `Connection` does not name was for somebody else.
    let mut client = server.connect();
    for fields in ["connection: Upgrade\r\nupgrade: h2c", "upgrade: websocket"] {
        client.send(format!("GET /here HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n"));
        assert_eq!(client.response().text(), "here", "{fields}");
    }
    let mut old = server.connect();
    old.send("GET /here HTTP/1.0\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    assert_eq!(old.response().text(), "here");
    server.wait_for_log(&["asks for a WebSocket"]);
    assert_eq!(server.log().matches("asks for a WebSocket").count(), 1);
}
