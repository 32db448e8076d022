//! Scripts among other requests: the responses that clients get, and when.

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

#[test]
fn where_a_script_failed_is_for_the_log_and_not_for_the_client() {
    let server = script(
        "",
        "export default function inner() {
             const error = new Error('outside');
             Object.defineProperty(error, 'name', { get() { throw new Error('secret'); } });
             throw error;
         };",
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nhost: test\r\nx-request-id: of-the-failure\r\n\r\n");
    let answer = client.response();
    assert_eq!(answer.status, 500);
    assert_eq!(answer.detail(), "the script failed; the log says why");
    server.wait_for_log(&["ERROR", "of-the-failure", "secret", "s.mjs:"]);
}

#[test]
fn a_stream_that_is_stopped_is_in_the_log() {
    let server = script(
        "cpu_max = \"100ms\"",
        "import { sleep } from 'forebay';
         export default async function* () { yield 'first'; await sleep(1); for (;;); };",
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nhost: test\r\nx-request-id: of-the-stream\r\n\r\n");
    assert_eq!(client.head().expect("it has begun").status, 200);
    server.wait_for_log(&["ERROR", "of-the-stream", "cpu_max"]);
}

#[test]
fn a_timer_that_throws_is_in_the_log_and_the_call_goes_on() {
    let server = script(
        "",
        "import { sleep } from 'forebay';
         export default async () => {
             setTimeout(function late() { throw new Error('boom'); }, 1);
             await sleep(50);
             return 'answered';
         };",
    );
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nhost: test\r\nx-request-id: of-the-timer\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.status, answer.text()), (200, "answered"));
    server.wait_for_log(&["ERROR", "of-the-timer", "boom", "late"]);
}
