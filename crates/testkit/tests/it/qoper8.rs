//! The sixteen scenarios in which `QOper8` failed, with the correct behaviour.

use std::time::{Duration, Instant};

use forebay_testkit::{Load, Setup, blocks, wait_until};

use crate::support::{
    ONE_WORKER, Runtime, TOOLBOX, fake, node, noted, open, wait_for_note, wait_until_ready,
};

/// `QOper8` leaves the process behind; here a thrown error costs no process at all, and none is ever left behind.
#[test]
fn a_handler_that_throws_leaves_no_process_behind() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        wait_until_ready(&server);
        let workers = server.workers();
        assert_eq!(server.get("/throw").status, 500);
        assert_eq!(server.get("/pid").status, 200);
        assert_eq!(server.workers(), workers, "{runtime:?}");
    }
}

#[test]
fn a_handler_that_blocks_its_process_is_stopped_the_next_request_answered_and_the_server_ends() {
    for runtime in Runtime::BOTH {
        let mut server = runtime
            .pool(TOOLBOX, &format!("{ONE_WORKER}\nrun_timeout = \"200ms\""))
            .start();
        wait_until_ready(&server);
        let blocked = server.wait_for_workers(1)[0];
        assert_eq!(server.get("/hold/never/long").status, 504, "{runtime:?}");
        assert_eq!(server.get("/pid").status, 200);
        wait_until("the blocked process to be gone", || !blocked.is_alive());
        let begun = Instant::now();
        server.terminate();
        assert!(server.wait().success());
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_worker_that_exits_while_nobody_waits_for_its_answer_harms_nothing() {
    let server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    let worker = server.wait_for_workers(1)[0];
    let mut client = server.connect();
    client.request("GET", "/wait/never/left");
    wait_for_note(&server, "begin left");
    drop(client);
    worker.kill();
    wait_until("the worker to be replaced", || {
        server.workers().iter().any(|now| *now != worker)
    });
    assert_eq!(server.get("/pid").status, 200);
    assert_eq!(server.get("/exit/3").status, 502);
    assert_eq!(server.get("/pid").status, 200);
}

#[test]
fn pieces_sent_before_the_end_are_parts_of_one_answer() {
    let source = "export default async function* () { yield JSON.stringify({ part: 1 }) + '\\n'; yield JSON.stringify({ final: true }) + '\\n'; }";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        assert_eq!(
            server.get("/").text(),
            "{\"part\":1}\n{\"final\":true}\n",
            "{runtime:?}"
        );
    }
}

#[test]
fn looking_at_the_server_never_shifts_an_answer_to_another_caller() {
    let server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    let load = Load::on(&server, "/echo").connections(16);
    let running = load.start();
    for _ in 0..200 {
        assert_eq!(server.get("/here").text(), "here");
        let memory = server.get("/memory").json();
        assert!(memory["rss"].is_u64(), "{memory}");
    }
    load.end();
    running
        .join()
        .expect("the load does not panic")
        .assert_each_answered(&[200]);
}

#[test]
fn a_second_answer_to_one_request_is_ignored() {
    let server = fake("well", ONE_WORKER).start();
    let report = Load::on(&server, "/twice").connections(4).requests(500).run();
    report.assert_each_answered(&[200]);
}

#[test]
fn the_same_request_sent_twice_is_answered_twice() {
    let server = node(TOOLBOX, ONE_WORKER).start();
    let same = "POST /echo HTTP/1.1\r\nhost: a\r\nx-request-id: same\r\ncontent-length: 4\r\n\r\nsame";
    let mut client = server.connect();
    client.send(same.repeat(2));
    let mut other = server.connect();
    other.send(same);
    for _ in 0..2 {
        assert_eq!(client.response().text(), "same");
    }
    assert_eq!(other.response().text(), "same");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error_for_its_caller_alone() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        wait_until_ready(&server);
        let load = Load::on(&server, "/echo").connections(4);
        let running = load.start();
        let worker = server.get("/pid");
        for target in ["/bigint", "/circle"] {
            assert_eq!(server.get(target).status, 500, "{target} on {runtime:?}");
        }
        assert_eq!(server.get("/pid").text(), worker.text());
        load.end();
        running
            .join()
            .expect("the load does not panic")
            .assert_each_answered(&[200]);
    }
}

#[test]
fn a_request_that_is_refused_takes_no_slot() {
    let server = node(TOOLBOX, ONE_WORKER).server("body_bytes_max = 100").start();
    wait_until_ready(&server);
    for _ in 0..20 {
        assert_eq!(server.post("/echo", &[0; 101]).status, 413);
        let mut client = server.connect();
        client.send("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nnonsense");
        client.send("\r\n");
        assert_eq!(client.response().status, 400);
    }
    assert_eq!(server.post("/echo", b"fine").text(), "fine");
}

#[test]
fn a_start_hook_that_throws_keeps_the_worker_from_ever_getting_a_request() {
    let source = r"
        import { appendFileSync } from 'node:fs';
        import { router } from 'forebay';
        export default router()
            .onStart(() => { throw new Error('no licence for this machine'); })
            .get('/', () => { appendFileSync('ran', 'ran\n'); return 'never'; });
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        for _ in 0..5 {
            assert_eq!(server.get("/").status, 503, "{runtime:?}");
        }
        server.wait_for_log(&["ERROR", "no licence for this machine"]);
        assert!(noted(&server).is_empty());
    }
}

#[test]
fn a_request_that_waits_behind_a_worker_about_to_retire_is_handled() {
    let keys = "workers = { min = 0, max = 1 }\nidle_retire = \"60ms\"";
    let server = node(TOOLBOX, keys).start();
    wait_until_ready(&server);
    for round in 0..10 {
        let mut busy = server.connect();
        busy.post("/block/100", b"busy");
        let mut behind = server.connect();
        behind.post("/echo", b"behind");
        assert_eq!(busy.response().text(), "busy", "round {round}");
        assert_eq!(behind.response().text(), "behind", "round {round}");
        // The next requests arrive at various times around the worker's end.
        let begun = Instant::now();
        wait_until("some time", || {
            begun.elapsed() > Duration::from_millis(50 + 3 * round)
        });
        let answer = server.post("/echo", b"in between");
        assert_eq!(
            (answer.status, answer.text()),
            (200, "in between"),
            "round {round}"
        );
    }
}

#[test]
fn what_is_queued_when_the_server_is_stopped_is_answered() {
    let mut server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    let mut running = server.connect();
    running.request("GET", "/hold/gate/running");
    wait_for_note(&server, "begin running");
    let mut queued = server.connect();
    assert_eq!(queued.get("/here").status, 200);
    queued.request("GET", "/hold/gate/queued");
    server.terminate();
    wait_until("the listener to close", || {
        std::net::TcpStream::connect(server.address()).is_err()
    });
    open(&server, "gate");
    assert_eq!(running.response().status, 200);
    assert_eq!(queued.response().status, 200);
    assert!(server.wait().success());
}

#[test]
fn of_500_requests_at_once_a_queue_of_4_accepts_4_and_refuses_the_rest_at_once() {
    let server = node(TOOLBOX, &format!("{ONE_WORKER}\nqueue_max = 4")).start();
    wait_until_ready(&server);
    let mut running = server.connect();
    running.request("GET", "/hold/gate/running");
    wait_for_note(&server, "begin running");
    let mut clients: Vec<_> = (0..500)
        .map(|number| {
            let mut client = server.connect();
            client.request("GET", &format!("/hold/gate/{number}"));
            client
        })
        .collect();
    wait_until("all others to be refused", || {
        clients.retain_mut(|client| {
            client.poll_response().is_none_or(|answer| {
                assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
                false
            })
        });
        clients.len() == 4
    });
    open(&server, "gate");
    assert_eq!(running.response().status, 200);
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
}

/// `QOper8` gives all requests to the first worker. The policy here is the most recently used idle worker, so that the others may retire.
#[test]
fn sequential_requests_stay_with_one_worker_and_the_others_retire() {
    let server = node(TOOLBOX, "workers = { min = 1, max = 3 }\nidle_retire = \"200ms\"").start();
    wait_until_ready(&server);
    let mut busy: Vec<_> = (0..3)
        .map(|number| {
            let mut client = server.connect();
            client.request("GET", &format!("/hold/gate/{number}"));
            client
        })
        .collect();
    wait_until("three to run", || noted(&server).len() == 3);
    open(&server, "gate");
    for client in &mut busy {
        assert_eq!(client.response().status, 200);
    }
    let mut client = server.connect();
    let first = client.get("/pid");
    wait_until("the others to retire", || {
        assert_eq!(client.get("/pid").text(), first.text());
        server.workers().len() == 1
    });
}

#[test]
fn nothing_that_a_client_sends_is_taken_for_an_order() {
    let server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    let workers = server.workers();
    for body in [
        r#"{"type":"qoper8_terminate"}"#,
        r#"{"type":"qoper8_getStats"}"#,
        r#"{"qoper8":{"shutdown":true},"error":true,"shutdown":true}"#,
        "\u{5}\0\0\0DRAIN",
    ] {
        let fields = "x-forebay-drain: 1\r\nfault: 1\r\n";
        let response = server.connect().ask("POST", "/echo", fields, body);
        assert_eq!(response.text(), body);
    }
    let frame = forebay_frames();
    let answer = server.post("/echo", &frame);
    assert!(answer.body == frame);
    assert_eq!(server.workers(), workers);
}

/// Bytes that would drain a worker if they were on its link.
fn forebay_frames() -> Vec<u8> {
    let mut bytes = [0; 16];
    bytes[4] = 0x05;
    bytes[6] = 1;
    bytes.repeat(64)
}

#[test]
fn a_server_that_ends_without_a_word_leaves_no_worker() {
    for runtime in Runtime::BOTH {
        let mut server = runtime.pool(TOOLBOX, "workers = { min = 2, max = 2 }").start();
        wait_until_ready(&server);
        server.wait_for_workers(2);
        let took = server.kill();
        assert!(took < Duration::from_secs(1), "{runtime:?}: {took:?}");
    }
}

#[test]
fn handlers_that_were_written_for_qoper8_answer_in_the_server_as_its_guide_says() {
    let guide = include_str!("../../../../docs/guide/from-qoper8.md");
    let file = |name: &str| {
        let first = format!("// {name}\n");
        let found = blocks(guide, "js")
            .into_iter()
            .find(|block| block.starts_with(&first));
        found.expect("the guide shows the file").to_owned()
    };
    let console = blocks(guide, "console")[0];
    let (command, answer) = console.split_once('\n').expect("a command and its answer");
    let (path, body) = command
        .strip_prefix("$ curl 127.0.0.1:8080")
        .and_then(|rest| rest.strip_suffix('\'')?.split_once(" -d '"))
        .expect("a path and a body");
    let server = Setup::new(blocks(guide, "toml")[0])
        .file("hello.mjs", file("hello.mjs"))
        .file("handlers.mjs", file("handlers.mjs"))
        .start();
    let response = server.post(path, body.as_bytes());
    assert_eq!((response.status, response.text()), (200, answer.trim_end()));
}
