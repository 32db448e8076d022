//! The queue of a pool: the order of execution, and the requests for which there is no room.

use std::time::{Duration, Instant};

use forebay_testkit::{Client, Load, Response, Server, wait_until, watch};

use crate::support::{
    ONE_WORKER, Runtime, TOOLBOX, assert_took, metric, node, noted, open, wait_for_note, wait_until_ready,
};

/// Sends a request on a connection of its own without waiting for its response.
fn ask(server: &Server, target: &str) -> Client {
    let mut client = server.connect();
    client.request("GET", target);
    client
}

/// Waits until this many of the clients have a response, and removes them.
fn answers_of(clients: &mut Vec<Client>, count: usize) -> Vec<Response> {
    let mut answers = Vec::new();
    wait_until(&format!("{count} answers"), || {
        clients.retain_mut(|client| match client.poll_response() {
            Some(answer) => {
                answers.push(answer);
                false
            }
            None => true,
        });
        answers.len() >= count
    });
    answers
}

#[test]
fn a_worker_runs_one_request_at_a_time_even_when_its_handler_gives_way() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        let report = Load::on(&server, "/turn").connections(12).requests(300).run();
        report.assert_each_answered(&[200]);
        let notes = noted(&server);
        assert_eq!(notes.len(), 600);
        for turn in notes.chunks(2) {
            assert_eq!(turn, ["begin", "end"], "{runtime:?}");
        }
    }
}

#[test]
fn concurrency_lets_so_many_run_at_a_time_and_no_more() {
    for runtime in Runtime::BOTH {
        let keys = format!("{ONE_WORKER}\nconcurrency = 4");
        let server = runtime.pool(TOOLBOX, &keys).start();
        let mut clients: Vec<_> = (0..10)
            .map(|n| ask(&server, &format!("/wait/gate/{n}")))
            .collect();
        wait_until("four to run", || noted(&server).len() == 4);
        open(&server, "gate");
        let most = clients
            .iter_mut()
            .map(|client| client.response().json()["mostRunning"].as_u64());
        assert_eq!(most.max(), Some(Some(4)), "{runtime:?}");
    }
}

#[test]
fn one_worker_answers_in_the_order_of_arrival() {
    let server = node(TOOLBOX, ONE_WORKER).threads(1).start();
    let mut clients: Vec<_> = (0..40)
        .map(|_| {
            let mut client = server.connect();
            assert_eq!(client.get("/here").status, 200);
            client
        })
        .collect();
    let mut first = ask(&server, "/hold/gate/first");
    wait_for_note(&server, "begin first");
    for (number, client) in clients.iter_mut().enumerate() {
        client.request("GET", &format!("/hold/gate/{number}"));
    }
    open(&server, "gate");
    assert_eq!(first.response().status, 200);
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    let order: Vec<_> = noted(&server)
        .iter()
        .filter_map(|line| line.strip_prefix("begin ").map(str::to_owned))
        .collect();
    let expected: Vec<_> = std::iter::once("first".to_owned())
        .chain((0..40).map(|number| number.to_string()))
        .collect();
    assert_eq!(order, expected);
}

#[test]
fn a_full_queue_refuses_at_once_with_503_and_retry_after() {
    let keys = format!("{ONE_WORKER}\nqueue_max = 4");
    let server = node(TOOLBOX, &keys).start();
    let mut running = ask(&server, "/hold/gate/running");
    wait_for_note(&server, "begin running");
    let mut clients: Vec<_> = (0..20)
        .map(|n| ask(&server, &format!("/hold/gate/{n}")))
        .collect();
    for refused in answers_of(&mut clients, 16) {
        assert_eq!(refused.status, 503);
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert!(refused.detail().contains("queue_max 4"), "{}", refused.detail());
    }
    assert_eq!(server.get("/here").status, 200, "others are not kept waiting");
    open(&server, "gate");
    assert_eq!(running.response().status, 200);
    for client in &mut clients {
        assert_eq!(client.response().status, 200, "what was accepted is answered");
    }
}

#[test]
fn a_queue_with_no_room_for_the_bytes_refuses_at_once() {
    let keys = format!("{ONE_WORKER}\nqueue_bytes_max = \"64KiB\"");
    let server = node(TOOLBOX, &keys).start();
    let mut running = ask(&server, "/hold/gate/running");
    wait_for_note(&server, "begin running");
    let mut clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.post("/echo", &vec![b'x'; 20 * 1024]);
            client
        })
        .collect();
    // Three times 20 KiB fit into 64 KiB.
    for refused in answers_of(&mut clients, 5) {
        assert_eq!(refused.status, 503);
        assert!(refused.header("retry-after").is_some());
        assert!(
            refused.detail().contains("queue_bytes_max 65536"),
            "{}",
            refused.detail()
        );
    }
    open(&server, "gate");
    assert_eq!(running.response().status, 200);
    for client in &mut clients {
        assert_eq!(client.response().body.len(), 20 * 1024);
    }
}

#[test]
fn a_request_that_waits_too_long_gets_503_and_never_runs() {
    let keys = format!("{ONE_WORKER}\nqueue_timeout = \"200ms\"");
    let server = node(TOOLBOX, &keys).start();
    wait_until_ready(&server);
    let mut running = ask(&server, "/hold/gate/running");
    wait_for_note(&server, "begin running");
    let begun = Instant::now();
    let answer = server.get("/hold/gate/late");
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some());
    assert!(answer.detail().contains("queue_timeout"), "{}", answer.detail());
    assert_took(begun, Duration::from_millis(200));
    open(&server, "gate");
    assert_eq!(running.response().status, 200);
    assert_eq!(server.get("/hold/gate/next").status, 200);
    assert!(!noted(&server).contains(&"begin late".to_owned()));
}

#[test]
fn a_route_narrows_the_queue_timeout_for_itself() {
    let server = node(
        TOOLBOX,
        &format!("{ONE_WORKER}\n[[route]]\npath = \"/pid\"\npool = \"api\"\nqueue_timeout = \"150ms\""),
    )
    .start();
    let mut running = ask(&server, "/hold/gate/running");
    wait_for_note(&server, "begin running");
    let mut patient = ask(&server, "/hold/gate/patient");
    assert_eq!(server.get("/pid").status, 503);
    open(&server, "gate");
    assert_eq!(running.response().status, 200);
    assert_eq!(patient.response().status, 200);
}

/// Covers a request that was sent ahead to the worker, and a response that it has finished but not yet announced.
#[test]
fn nothing_waits_behind_a_slow_request_while_another_worker_is_free() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, "workers = { min = 2, max = 2 }").start();
        // Fast requests first, so that both workers are sent some ahead of the one they run.
        Load::on(&server, "/echo")
            .connections(32)
            .requests(4000)
            .run()
            .assert_each_answered(&[200]);
        for round in 0..12 {
            let load = Load::on(&server, "/echo").connections(64);
            let running = load.start();
            Load::on(&server, "/echo")
                .requests(500)
                .run()
                .assert_each_answered(&[200]);
            let mut slow = ask(&server, &format!("/hold/gate{round}/{round}"));
            wait_for_note(&server, &format!("begin {round}"));
            Load::on(&server, "/echo")
                .requests(100)
                .run()
                .assert_each_answered(&[200]);
            load.end();
            // All of this ends before the slow request does.
            let report = running.join().expect("the load does not panic");
            report.assert_each_answered(&[200]);
            open(&server, &format!("gate{round}"));
            let answer = slow.response();
            assert_eq!(answer.status, 200, "{runtime:?}: {answer:?}");
        }
    }
}

/// A worker that handles 40 a second, and more than ten times as many requests.
#[test]
fn overload_is_refused_and_fills_no_memory() {
    let keys = format!("{ONE_WORKER}\nqueue_max = 20");
    let server = node(TOOLBOX, &keys).admin().start();
    let begin = Load::on(&server, "/block/25")
        .connections(40)
        .pause_after_refusal(Duration::from_millis(20));
    begin.clone().requests(300).run();
    let before = server.process().rss_bytes();
    let running = begin.requests(2500).start();
    let mut longest = 0;
    let report = watch(running, || {
        longest = longest.max(metric(&server, "forebay_pool_queue_jobs{pool=\"api\"}"));
    });
    assert_eq!(longest, 20, "the queue is full and never fuller");
    let after = server.process().rss_bytes();
    report.assert_each_answered(&[200, 503]);
    let (accepted, refused) = (report.with_status(200), report.with_status(503));
    assert!(refused > 5 * accepted, "not much of an overload: {report}");
    assert!(after < before + (8 << 20), "memory went from {before} to {after}");
}
