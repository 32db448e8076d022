//! Scripts among other requests: what a client gets of them, and when.

use std::time::Duration;

use forebay_testkit::{Server, Setup, wait_until};

fn script(keys: &str, source: &str) -> Server {
    Setup::new(&format!(
        "[script.s]\nhandler = \"s.mjs\"\nexecutors = 1\n{keys}\n[[route]]\npath = \"/*\"\nscript = \"s\"\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    ))
    .server("deadline = \"10m\"")
    .file("s.mjs", source)
    .start()
}

#[test]
fn what_was_answered_before_does_not_wait_for_a_script() {
    let server = script(
        "time_max = \"10m\"",
        "import { sleep } from 'forebay'; export default () => sleep(600_000);",
    );
    let mut client = server.connect();
    client.send("GET /here HTTP/1.1\r\nhost: test\r\n\r\nGET /slow HTTP/1.1\r\nhost: test\r\n\r\n");
    assert_eq!(client.response().text(), "here");
}

#[test]
fn a_body_is_asked_for_after_the_answers_before_it() {
    let server = script("", "export default (request) => request.text();");
    let mut client = server.connect();
    client.send(
        "GET /here HTTP/1.1\r\nhost: test\r\n\r\n\
         POST /text HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n",
    );
    let mut received = Vec::new();
    wait_until("the client to be asked for the body", || {
        received.extend(client.some_bytes());
        String::from_utf8_lossy(&received).contains("100 Continue")
    });
    assert!(
        received.starts_with(b"HTTP/1.1 200 OK\r\n"),
        "{}",
        String::from_utf8_lossy(&received)
    );
}

#[test]
fn what_reads_is_answered_while_the_executor_is_busy() {
    let server = script(
        "on = \"io\"\ncpu_max = \"10m\"",
        "export default ({ method }) => { while (method === 'POST'); return 'read'; };",
    );
    let mut busy = server.connect();
    busy.post("/", b"");
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), "read");
    }
    assert!(
        !busy.is_readable_within(Duration::ZERO),
        "the executor has nothing else to do"
    );
}
