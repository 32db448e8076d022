//! Every limit of `[server]`: what a client gets when it is reached.

use std::{
    thread,
    time::{Duration, Instant},
};

use forebay_testkit::{Server, Setup, wait_until};

use crate::support::{ONE_WORKER, assert_took, fake, metric, node, open};

const ROUTES: &str = r#"
[[route]]
path = "/here"
respond = { text = "here" }

[[route]]
path = "/small"
body_bytes_max = 10
respond = { text = "small" }

[[route]]
path = "/large"
body_bytes_max = 30
respond = { text = "large" }

[[route]]
path = "/files/*"
files = "."
"#;

fn serve(keys: &str) -> Server {
    Setup::new(ROUTES).server(keys).start()
}

#[test]
fn a_header_section_over_header_bytes_max_is_refused_with_431() {
    let server = serve("header_bytes_max = \"2KiB\"");
    let long = "x".repeat(3000);
    let many = "a: b\r\n".repeat(101);
    for request in [
        format!("GET /here HTTP/1.1\r\nhost: a\r\nx-long: {long}\r\n\r\n"),
        format!("GET /here?{long} HTTP/1.1\r\nhost: a\r\n\r\n"),
        // Has no end: rejected as soon as it is too long.
        format!("GET /here HTTP/1.1\r\nhost: a\r\nx-long: {long}"),
        format!("GET /here HTTP/1.1\r\nhost: a\r\n{many}\r\n"),
    ] {
        let mut client = server.connect();
        client.send(&request);
        assert_eq!(client.response().status, 431);
        client.ends();
    }
    let fits = "x".repeat(1900);
    let mut client = server.connect();
    client.send(format!("GET /here HTTP/1.1\r\nhost: a\r\nx-long: {fits}\r\n\r\n"));
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_body_over_body_bytes_max_is_refused_with_413_whatever_the_target() {
    let server = fake("well", "workers = { min = 1, max = 1 }")
        .server("body_bytes_max = 1000")
        .start();
    for path in ["/echo", "/here"] {
        let fits = server.post(path, &[b'x'; 1000]);
        assert_eq!(fits.status, 200);
        let mut client = server.connect();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 1001\r\n\r\n"
        ));
        let refused = client.response();
        assert_eq!(refused.status, 413, "{path}: before any of it is sent");
        assert!(refused.detail().contains("body_bytes_max"));
        client.ends();
    }
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(format!("300\r\n{}\r\n", "x".repeat(0x300)));
    client.send("300\r\n");
    assert_eq!(client.response().status, 413, "in chunks");
    client.ends();
}

#[test]
fn a_route_has_its_own_body_bytes_max_above_or_below_that_of_the_server() {
    let server = serve("body_bytes_max = 20");
    for (path, most) in [("/small", 10), ("/here", 20), ("/large", 30)] {
        assert_eq!(server.post(path, &vec![b'a'; most]).status, 200, "{path}");
        assert_eq!(server.post(path, &vec![b'a'; most + 1]).status, 413, "{path}");
    }
}

#[test]
fn headers_that_trickle_in_are_cut_off_with_408() {
    let server = serve("header_timeout = \"300ms\"");
    let begun = Instant::now();
    let mut client = server.connect();
    let mut sender = trickle(&server, b"GET /here HTTP/1.1\r\nhost: a\r\nx-slow: ");
    client.send("GET /here HTT");
    assert_eq!(client.response().status, 408, "a client that stops in the middle");
    client.ends();
    assert_eq!(sender.response().status, 408, "a client that never stops");
    sender.ends();
    assert_took(begun, Duration::from_millis(300));
}

#[test]
fn a_body_that_trickles_in_is_cut_off_with_408() {
    let server = fake("well", "workers = { min = 1, max = 1 }")
        .server("body_timeout = \"300ms\"")
        .start();
    let begun = Instant::now();
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10000\r\n\r\nbegun");
    let mut sender = trickle(
        &server,
        b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n",
    );
    assert_eq!(client.response().status, 408, "a client that stops in the middle");
    client.ends();
    assert_eq!(sender.response().status, 408, "a client that never stops");
    sender.ends();
    assert_took(begun, Duration::from_millis(300));
}

#[test]
fn a_body_that_is_not_there_at_the_deadline_is_answered_with_504() {
    let server = fake("well", "workers = { min = 1, max = 1 }")
        .server("deadline = \"300ms\"")
        .start();
    let begun = Instant::now();
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10000\r\n\r\nbegun");
    let mut sender = trickle(
        &server,
        b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n",
    );
    assert_eq!(client.response().status, 504, "a client that stops in the middle");
    assert_eq!(sender.response().status, 504, "a client that never stops");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    // The rest of the body is skipped, and the connection continues.
    client.send([b'x'; 9_995]);
    assert_eq!(client.get("/here").status, 200);
}

/// Sends the start of a request, then one byte after another until it is answered, often enough that no pause is long; returns the
/// connection's other half.
fn trickle(server: &Server, start: &[u8]) -> forebay_testkit::Client {
    let mut client = server.connect();
    client.send(start);
    let mut writer = client.another_half();
    thread::spawn(move || {
        while writer.try_send(b"x").is_ok() && !writer.is_readable_within(Duration::from_millis(20)) {}
    });
    client
}

#[test]
fn a_connection_without_requests_ends_after_idle_timeout() {
    let server = serve("idle_timeout = \"300ms\"");
    let mut never = server.connect();
    let mut once = server.connect();
    assert_eq!(once.get("/here").status, 200);
    let answered = Instant::now();
    once.ends();
    assert_took(answered, Duration::from_millis(250));
    never.ends();
}

#[test]
fn empty_lines_keep_no_connection_open() {
    let server = serve("idle_timeout = \"300ms\"");
    let mut client = server.connect();
    // They arrive much more often than once per `idle_timeout`.
    wait_until("the connection to end", || client.try_send(b"\r\n").is_err());
}

#[test]
fn connections_beyond_connections_max_are_turned_away_until_there_is_room() {
    let server = serve("connections_max = 3");
    let mut open: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut open {
        assert_eq!(client.get("/here").status, 200);
    }
    server.connect().ends();
    drop(open.pop());
    wait_until("room for another connection", || {
        let mut client = server.connect();
        client.try_send(b"GET /here HTTP/1.1\r\nhost: a\r\n\r\n").is_ok()
            && client
                .try_response("GET")
                .is_ok_and(|answer| answer.status == 200)
    });
    for client in &mut open {
        assert_eq!(client.get("/here").status, 200, "those inside are not disturbed");
    }
}

#[test]
fn a_client_that_does_not_take_its_answer_is_given_up() {
    let server = Setup::new(ROUTES)
        .server("idle_timeout = \"300ms\"")
        .file("big.bin", vec![7; 64 << 20])
        .start();
    let before = server.process().rss_bytes();
    let mut client = server.connect();
    client.request("GET", "/files/big.bin");
    let mut most = 0;
    // Nothing is read until the server has closed the connection, which shows in failing writes.
    wait_until("the connection to be cut", || {
        most = most.max(server.process().rss_bytes());
        client.try_send(b"x").is_err()
    });
    assert!(most < before + (8 << 20), "{before} bytes became {most}");
}

#[test]
fn the_deadline_answers_504_whatever_the_handler_does() {
    let keys = "workers = { min = 1, max = 1 }\nrun_timeout = \"10s\"";
    let server = fake("well", keys).server("deadline = \"250ms\"").start();
    let begun = Instant::now();
    let answer = server.get("/never");
    assert_eq!(answer.status, 504);
    assert_took(begun, Duration::from_millis(250));
    assert_eq!(server.get("/here").status, 200);
}

#[test]
fn the_deadline_counts_from_arrival_and_the_handler_knows_it() {
    // The first request holds the worker until the gate opens, and half a second longer.
    let source = "
        import { existsSync } from 'node:fs';
        const clock = new Int32Array(new SharedArrayBuffer(4));
        export default (request, ctx) => {
            const left = ctx.remaining();
            if (request.path === '/hold') {
                while (!existsSync('gate')) Atomics.wait(clock, 0, 0, 2);
                Atomics.wait(clock, 0, 0, 500);
            }
            return { left };
        };
    ";
    let server = node(source, ONE_WORKER)
        .server("deadline = \"20s\"")
        .admin()
        .start();
    let accepted = |count| {
        wait_until("the job to be accepted", || {
            metric(&server, "forebay_pool_jobs_accepted_total{pool=\"api\"}") == count
        });
    };
    let mut holding = server.connect();
    holding.request("GET", "/hold");
    accepted(1);
    let mut waiting = server.connect();
    waiting.request("GET", "/waits");
    accepted(2);
    open(&server, "gate");
    assert_eq!(holding.response().status, 200);
    let left = waiting.response().json()["left"].as_f64().expect("a number");
    assert!(
        (1.0..19_500.0).contains(&left),
        "{left} of 20 000 ms are left after 500 in the queue"
    );
}
