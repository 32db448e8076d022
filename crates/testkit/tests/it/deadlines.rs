//! Handlers that exceed their time limits.

use std::time::{Duration, Instant};

use forebay_testkit::{Load, Server, wait_until};

use crate::support::{
    ONE_WORKER, Runtime, TOOLBOX, metric, node, noted, noted_child, open, wait_for_note, wait_until_ready,
};

const LIMIT: Duration = Duration::from_millis(400);

/// A toolbox with one worker and a `run_timeout` of [`LIMIT`].
pub(crate) fn assert_spinning_frees_its_slot(server: &Server) {
    assert_eq!(server.get("/pid").status, 200);
    let worker = server.wait_for_workers(1)[0];
    let mut spinning = server.connect();
    spinning.request("GET", "/spin");
    wait_for_note(server, "begin spin");
    let begun = Instant::now();
    let mut behind = server.connect();
    behind.request("GET", "/pid");
    let answer = spinning.response();
    assert_eq!(answer.status, 504);
    assert!(answer.detail().contains("run_timeout"), "{}", answer.detail());
    wait_until("the spinning worker to be gone", || !worker.is_alive());
    let freed = begun.elapsed();
    assert!(freed <= LIMIT + Duration::from_secs(1), "it took {freed:?}");
    let behind = behind.response();
    assert_eq!(behind.status, 200);
    assert_ne!(behind.text(), worker.pid.to_string());
}

#[test]
fn a_handler_that_spins_gets_its_client_a_504_and_frees_its_slot_within_a_second() {
    for runtime in Runtime::BOTH {
        let keys = format!("{ONE_WORKER}\nrun_timeout = \"400ms\"");
        assert_spinning_frees_its_slot(&runtime.pool(TOOLBOX, &keys).start());
    }
}

#[test]
fn other_routes_and_workers_keep_answering_while_one_spins() {
    let keys =
        "workers = { min = 2, max = 2 }\n[[route]]\npath = \"/spin\"\npool = \"api\"\ndeadline = \"500ms\"";
    let server = node(TOOLBOX, keys).admin().start();
    server.wait_for_workers(2);
    let answered = || metric(&server, "forebay_requests_total{route=\"/*\",class=\"2xx\"}");
    let load = Load::on(&server, "/echo").connections(4);
    let running = load.start();
    // On a busy machine a request may pass its deadline before a worker gets to it; then nothing spins.
    while noted(&server).len() < 3 || answered() <= 100 {
        let begun = Instant::now();
        let mut spinning = server.connect();
        spinning.request("GET", "/spin");
        while begun.elapsed() < LIMIT / 2 {
            assert_eq!(server.get("/here").status, 200);
        }
        assert_eq!(spinning.response().status, 504);
        wait_until("the worker to be replaced", || server.workers().len() == 2);
    }
    load.end();
    let report = running.join().expect("the load does not panic");
    report.assert_each_answered(&[200]);
    assert!(report.sent > 100, "{report}");
    let slowest = report.times.last().copied().unwrap_or_default();
    assert!(slowest < Duration::from_secs(2), "one waited for {slowest:?}");
}

#[test]
fn what_a_stopped_worker_has_started_ends_with_it() {
    let keys = format!("{ONE_WORKER}\nrun_timeout = \"300ms\"");
    let server = node(TOOLBOX, &keys).start();
    let mut client = server.connect();
    client.request("GET", "/spin-with-child");
    let child = noted_child(&server);
    assert_eq!(client.response().status, 504);
    wait_until("the worker's child to end", || !child.is_alive());
}

#[test]
fn a_handler_that_heeds_its_signal_keeps_its_worker() {
    for runtime in Runtime::BOTH {
        let keys = format!("{ONE_WORKER}\nrun_timeout = \"300ms\"");
        let server = runtime.pool(TOOLBOX, &keys).start();
        let worker = server.get("/pid");
        assert_eq!(server.get("/wait/never/long").status, 504);
        wait_for_note(&server, "abort long");
        wait_for_note(&server, "end long");
        assert_eq!(server.get("/pid").text(), worker.text(), "{runtime:?}");
    }
}

#[test]
fn the_deadline_covers_the_wait_and_the_run_together() {
    let server = node(TOOLBOX, ONE_WORKER).server("deadline = \"600ms\"").start();
    wait_until_ready(&server);
    let mut first = server.connect();
    first.request("GET", "/hold/gate/first");
    wait_for_note(&server, "begin first");
    let begun = Instant::now();
    let mut queued = server.connect();
    queued.request("GET", "/hold/gate/queued");
    assert_eq!(first.response().status, 504);
    let answer = queued.response();
    assert_eq!(answer.status, 504, "it has waited for the whole of its deadline");
    assert!(answer.detail().contains("deadline"), "{}", answer.detail());
    assert!(begun.elapsed() < Duration::from_secs(10));
    open(&server, "gate");
    assert_eq!(server.get("/pid").status, 200);
    assert!(!noted(&server).contains(&"begin queued".to_owned()));
}

#[test]
fn a_wait_in_the_queue_does_not_count_as_running() {
    let keys = format!("{ONE_WORKER}\nrun_timeout = \"1s\"");
    let server = node(TOOLBOX, &keys).start();
    let mut clients: Vec<_> = (0..4)
        .map(|number| {
            let mut client = server.connect();
            client.post("/block/400", format!("{number}").as_bytes());
            client
        })
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.response();
        assert_eq!((answer.status, answer.text()), (200, number.to_string().as_str()));
    }
}
