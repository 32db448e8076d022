//! The end of a server leaves nothing behind.

use std::time::{Duration, Instant};

use forebay_testkit::{Load, wait_until};

use crate::support::{
    ONE_WORKER, Runtime, TOOLBOX, node, noted, noted_child, open, wait_for_note, wait_until_ready,
};

#[test]
fn sigterm_under_load_answers_all_that_ran_and_ends_with_status_0() {
    // Notes each marker once its request has run.
    let source = r"
        import { appendFileSync } from 'node:fs';
        export default async (request) => {
            const body = await request.bytes();
            appendFileSync('ran', `${Buffer.from(body)}\n`);
            return body;
        };
    ";
    for runtime in Runtime::BOTH {
        let mut server = runtime.pool(source, "workers = { min = 2, max = 2 }").start();
        wait_until("the pool to answer", || server.post("/", b"x").status == 200);
        let load = Load::on(&server, "/").connections(24);
        let running = load.start();
        wait_until("some load", || noted(&server).len() > 500);
        server.terminate();
        assert!(server.wait().success(), "{runtime:?}");
        load.end();
        let report = running.join().expect("the load does not panic");
        assert!(report.foreign.is_empty(), "{report}");
        let ran = noted(&server).iter().filter(|line| line.starts_with('<')).count();
        assert_eq!(
            report.with_status(200),
            ran,
            "{runtime:?}: what ran was answered: {report}"
        );
        assert_eq!(
            report.by_status.len(),
            1,
            "{runtime:?}: nothing was refused: {report}"
        );
    }
}

#[test]
fn what_runs_and_what_waits_is_answered_before_the_server_ends() {
    let mut server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    let mut idle = server.connect();
    assert_eq!(idle.get("/here").status, 200);
    let mut clients: Vec<_> = (0..10)
        .map(|number| {
            let mut client = server.connect();
            assert_eq!(client.get("/here").status, 200);
            client.request("GET", &format!("/hold/gate/{number}"));
            client
        })
        .collect();
    wait_until("one to run", || noted(&server).len() == 1);
    // Sent on the same connections, so that the server has surely read the earlier requests.
    server.terminate();
    idle.ends();
    wait_until("the listener to close", || {
        std::net::TcpStream::connect(server.address()).is_err()
    });
    open(&server, "gate");
    for client in &mut clients {
        let answer = client.response();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("connection"), Some("close"));
        client.ends();
    }
    assert!(server.wait().success());
}

#[test]
fn sigint_ends_a_server_as_sigterm_does() {
    let mut server = node(TOOLBOX, "").start();
    wait_until_ready(&server);
    server.interrupt();
    assert!(server.wait().success());
}

#[test]
fn a_handler_that_never_ends_delays_the_end_by_drain_max_at_most() {
    let mut server = node(TOOLBOX, ONE_WORKER).server("drain_max = \"300ms\"").start();
    wait_until_ready(&server);
    let mut spinning = server.connect();
    spinning.request("GET", "/spin");
    wait_for_note(&server, "begin spin");
    let begun = Instant::now();
    server.terminate();
    assert!(server.wait().success());
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_second_signal_ends_the_server_now() {
    let mut server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    let mut spinning = server.connect();
    spinning.request("GET", "/spin");
    wait_for_note(&server, "begin spin");
    server.terminate();
    wait_until("the listener to close", || {
        std::net::TcpStream::connect(server.address()).is_err()
    });
    let begun = Instant::now();
    server.terminate();
    assert_eq!(server.wait().code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    server.wait_for_log(&["error: a second signal has ended the server before every request was answered"]);
}

#[test]
fn a_server_that_is_killed_takes_its_workers_with_it_within_a_second() {
    for runtime in Runtime::BOTH {
        let mut server = runtime.pool(TOOLBOX, "workers = { min = 3, max = 3 }").start();
        wait_until_ready(&server);
        server.wait_for_workers(3);
        let mut spinning = server.connect();
        spinning.request("GET", "/spin");
        wait_for_note(&server, "begin spin");
        let took = server.kill();
        assert!(took < Duration::from_secs(1), "{runtime:?}: {took:?}");
    }
}

#[test]
fn what_a_worker_has_started_ends_with_a_server_that_is_killed() {
    for runtime in Runtime::BOTH {
        let mut server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        let mut client = server.connect();
        client.request("GET", "/spin-with-child");
        let child = noted_child(&server);
        server.kill();
        wait_until("the worker's child to end", || !child.is_alive());
    }
}

#[test]
fn a_server_stopped_while_its_workers_start_ends_too() {
    let mut server = node(TOOLBOX, "workers = { min = 4, max = 4 }").start();
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn requests_that_were_sent_ahead_are_answered_too() {
    let mut server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    let mut client = server.connect();
    let ahead = |name| format!("GET /hold/gate/{name} HTTP/1.1\r\nhost: test\r\n\r\n");
    client.send(["a", "b", "c"].map(ahead).concat());
    wait_for_note(&server, "begin a");
    server.terminate();
    wait_until("the listener to close", || {
        std::net::TcpStream::connect(server.address()).is_err()
    });
    open(&server, "gate");
    let answers = ["a", "b", "c"].map(|_| client.response());
    let closing = answers.each_ref().map(|answer| answer.header("connection"));
    assert_eq!(closing, [None, None, Some("close")]);
    client.ends();
    assert!(server.wait().success());
}
