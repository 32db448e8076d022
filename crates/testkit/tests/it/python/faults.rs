//! Handlers that take too long, end their process, or are left by their client.

use forebay_testkit::{Load, wait_until};

use super::{TOOLBOX, pool};
use crate::{
    deadlines::assert_spinning_frees_its_slot,
    support::{ONE_WORKER, noted, open, wait_for_note},
};

const SHORT: &str = "workers = { min = 1, max = 1 }\nrun_timeout = \"400ms\"";

#[test]
fn a_handler_that_spins_gets_its_client_a_504_and_frees_its_slot_within_a_second() {
    assert_spinning_frees_its_slot(&pool(TOOLBOX, SHORT).start());
}

#[test]
fn a_handler_that_looks_whether_anybody_waits_keeps_its_worker() {
    let server = pool(TOOLBOX, SHORT).start();
    let pid = server.get("/pid").text().to_owned();
    assert_eq!(server.get("/patient").status, 504);
    wait_for_note(&server, "abort patient");
    assert_eq!(server.get("/pid").text(), pid);
}

#[test]
fn a_handler_that_waits_is_interrupted_so_that_it_can_clean_up() {
    let server = pool(TOOLBOX, SHORT).start();
    let pid = server.get("/pid").text().to_owned();
    assert_eq!(server.get("/sleep").status, 504);
    wait_for_note(&server, "cleaned up");
    server.wait_for_log(&["GET /sleep", "was interrupted: the deadline has passed"]);
    wait_for_note(&server, &format!("stop {pid}"));
    assert_ne!(server.get("/pid").text(), pid);
}

#[test]
fn a_handler_that_ignores_its_interruption_is_killed() {
    let server = pool(TOOLBOX, SHORT).start();
    let pid = server.get("/pid").text().to_owned();
    let worker = server.wait_for_workers(1)[0];
    assert_eq!(server.get("/stubborn").status, 504);
    wait_until("the stubborn worker to be gone", || !worker.is_alive());
    assert_ne!(server.get("/pid").text(), pid);
    assert!(noted(&server).contains(&"ignored".to_owned()));
}

#[test]
fn a_process_that_ends_costs_the_one_request_that_it_ran() {
    let server = pool(TOOLBOX, "workers = { min = 2, max = 2 }").start();
    server.wait_for_workers(2);
    let load = Load::on(&server, "/echo").connections(8);
    let running = load.start();
    for _ in 0..5 {
        assert_eq!(server.get("/exit/7").status, 502);
    }
    load.end();
    let report = running.join().expect("the load does not panic");
    // The only request that was running in the process is the one that ended it.
    report.assert_each_answered(&[200]);
    server.wait_for_log(&["worker ended", "exit status: 7"]);
}

#[test]
fn what_waits_behind_a_slow_job_goes_to_another_worker() {
    let server = pool(TOOLBOX, "workers = { min = 2, max = 2 }").start();
    server.wait_for_workers(2);
    // Fast responses first, so that workers are sent some jobs ahead.
    Load::on(&server, "/echo")
        .connections(16)
        .requests(2000)
        .run()
        .assert_each_answered(&[200]);
    let mut slow = server.connect();
    slow.request("GET", "/hold/gate/slow");
    wait_for_note(&server, "begin slow");
    let report = Load::on(&server, "/echo").connections(16).requests(2000).run();
    report.assert_each_answered(&[200]);
    open(&server, "gate");
    assert!(slow.response().text().starts_with("slow "));
}

#[test]
fn a_stream_waits_for_its_client_and_ends_when_the_client_leaves() {
    let server = pool(TOOLBOX, ONE_WORKER).start();
    let worker = server.wait_for_workers(1)[0];
    assert_eq!(server.get("/pid").status, 200);
    let before = worker.rss_bytes();
    let mut client = server.connect();
    client.request("GET", "/endless");
    assert_eq!(client.head().unwrap().status, 200);
    wait_for_note(&server, "begin endless");
    assert!(!client.some_bytes().is_empty());
    drop(client);
    wait_until("the generator to be closed", || {
        noted(&server).iter().any(|line| line.starts_with("end endless"))
    });
    let grown = worker.rss_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "the worker grew by {grown} bytes");
    assert_eq!(server.get("/pid").status, 200);
}

#[test]
fn pieces_of_a_stream_leave_as_they_come() {
    let server = pool(TOOLBOX, ONE_WORKER).start();
    let mut client = server.connect();
    client.request("GET", "/ticks/3");
    client.head().unwrap();
    let mut seen = String::new();
    for number in 0..3 {
        while !seen.contains(&format!("tick {number}\n")) {
            seen += &String::from_utf8(client.some_bytes()).unwrap();
        }
        assert!(!seen.contains(&format!("tick {}\n", number + 1)));
        open(&server, &format!("gate{number}"));
    }
}

#[test]
fn a_stream_that_breaks_is_cut_off_and_said_in_the_log() {
    let server = pool(TOOLBOX, ONE_WORKER).start();
    let mut client = server.connect();
    client.request("GET", "/broken");
    assert!(!client.try_response("GET").unwrap().whole);
    server.wait_for_log(&["the response to GET /broken"]);
    server.wait_for_log(&["ValueError: it broke"]);
    assert_eq!(server.get("/pid").status, 200);
}

#[test]
fn a_body_that_is_longer_than_a_frame_is_read_as_it_comes() {
    let server = pool(TOOLBOX, ONE_WORKER)
        .server("body_bytes_max = \"64MiB\"")
        .start();
    let body: Vec<u8> = (0..=255).cycle().take(20_000_000).collect();
    assert_eq!(server.post("/length", &body).text(), "20000000");
    assert_eq!(server.post("/echo", &body[..3_000_000]).body, &body[..3_000_000]);
    // A body that the handler does not read is in no one's way.
    assert_eq!(server.post("/throw", &body).status, 405);
    assert_eq!(server.get("/pid").status, 200);
}
