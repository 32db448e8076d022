//! Workers that break the protocol, on purpose or by dying: the effect on their clients, and on the pool.

use std::time::{Duration, Instant};

use forebay_testkit::{Server, wait_for, wait_until};

use crate::support::{assert_took, fake};

/// One worker, replaced at once.
fn one() -> Server {
    fake("well", "workers = { min = 1, max = 1 }").start()
}

fn assert_still_works(server: &Server) {
    let answer = server.post("/echo", b"still here");
    assert_eq!((answer.status, answer.text()), (200, "still here"));
}

#[test]
fn a_command_that_speaks_the_protocol_answers() {
    let server = one();
    let answer = server.post("/echo", b"hello");
    assert_eq!((answer.status, answer.text()), (200, "hello"));
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
}

#[test]
fn frames_of_another_generation_another_job_or_an_unknown_type_change_nothing() {
    let server = one();
    let worker = server.wait_for_workers(1);
    let mut client = server.connect();
    for path in [
        "/generation",
        "/twice",
        "/others",
        "/unknown",
        "/after",
        "/log",
        "/window",
        "/bytewise",
        "/echo",
    ] {
        for round in 0..20 {
            let body = format!("{path} {round}");
            client.post(path, body.as_bytes());
            let answer = client.response();
            let expected = if path == "/after" {
                "the beginning, the end"
            } else {
                &body
            };
            assert_eq!((answer.status, answer.text()), (200, expected));
        }
    }
    assert_eq!(server.workers(), worker, "none of this is worth a worker");
}

#[test]
fn many_callers_each_get_their_own_answer_from_workers_that_answer_twice_and_for_others() {
    let server = fake("well", "workers = { min = 2, max = 2 }").start();
    for path in ["/twice", "/others"] {
        let report = forebay_testkit::Load::on(&server, path)
            .connections(8)
            .requests(2000)
            .run();
        report.assert_each_answered(&[200]);
    }
}

#[test]
fn bytes_that_are_not_frames_cost_only_the_worker_that_sent_them() {
    let server = one();
    for path in [
        "/garbage",
        "/length",
        "/slot",
        "/status",
        "/short",
        "/cut",
        "/ends",
        "/body-first",
        "/file-and-more",
        "/file-without",
        "/files-for-nothing",
    ] {
        let before = server.wait_for_workers(1)[0];
        let answer = server.post(path, b"x");
        assert_eq!(answer.status, 502, "{path}: {answer:?}");
        wait_until("the worker to be gone", || !before.is_alive());
        assert_still_works(&server);
    }
}

#[test]
fn headers_that_http_does_not_allow_become_a_500_for_that_request_alone() {
    let server = one();
    let worker = server.wait_for_workers(1);
    let mut client = server.connect();
    for path in ["/header", "/name", "/pairs"] {
        let answer = client.get(path);
        assert_eq!(answer.status, 500, "{path}: {answer:?}");
        assert!(
            answer.detail().starts_with("handler's answer is not valid HTTP"),
            "{}",
            answer.detail()
        );
    }
    assert_eq!(client.get("/echo").status, 200);
    assert_eq!(server.workers(), worker);
}

#[test]
fn a_file_that_cannot_be_a_body_becomes_a_500_for_that_request_alone() {
    let server = one();
    let worker = server.wait_for_workers(1);
    let mut client = server.connect();
    for (path, status, says) in [
        ("/file", 200, "12345"),
        ("/file-of-a-pipe", 500, "a folder, a device or a pipe"),
        ("/file-too-short", 500, "shorter than the part"),
        ("/file-beyond", 500, "shorter than the part"),
        ("/file-tail", 200, "78"),
    ] {
        let answer = client.get(path);
        assert_eq!(answer.status, status, "{path}");
        let told = if status == 200 {
            answer.text().to_owned()
        } else {
            answer.detail()
        };
        assert!(told.contains(says), "{path}: {told}");
    }
    assert_eq!(server.workers(), worker, "none of this is worth a worker");
}

#[test]
fn fields_that_belong_to_the_server_are_not_taken_from_a_worker() {
    let server = one();
    let mut client = server.connect();
    for _ in 0..2 {
        client.post("/hops", b"kept alive");
        let answer = client.response();
        assert_eq!(answer.text(), "kept alive");
        assert_eq!(answer.header("connection"), None);
        assert_eq!(answer.header("keep-alive"), None);
        assert_ne!(answer.header("date"), Some("never"));
    }
}

#[test]
fn an_answer_that_breaks_off_is_never_taken_for_a_whole_one() {
    let server = one();
    for path in ["/stops", "/resets", "/long"] {
        let mut client = server.connect();
        client.request("GET", path);
        let cut = client
            .try_response("GET")
            .map_or(true, |answer| !answer.whole || answer.status >= 500);
        assert!(cut, "{path}");
        assert_still_works(&server);
    }
}

#[test]
fn an_announced_length_without_a_body_counts_only_for_head() {
    let server = one();
    let mut client = server.connect();
    client.request("HEAD", "/announces");
    assert_eq!(client.response_to("HEAD").header("content-length"), Some("5"));
    let answer = client.get("/announces");
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("0")));
    assert_eq!(client.get("/here").text(), "here");
}

#[test]
fn a_second_answer_to_a_request_is_dropped() {
    let server = one();
    let answer = server.get("/answers-again");
    assert_eq!((answer.status, answer.text()), (200, "the beginning, the end"));
}

#[test]
fn a_worker_that_sends_more_than_it_may_does_not_fill_the_servers_memory() {
    let server = one();
    let before = server.process().rss_bytes();
    let mut client = server.connect();
    client.request("GET", "/flood");
    client.head().expect("the answer begins");
    let flooding = server.wait_for_workers(1)[0];
    // The client does not read the response: the flood is stopped either by a full link or by the worker, but it must not be stored.
    let begun = Instant::now();
    let mut most = 0;
    wait_until("a second of flood", || {
        most = most.max(server.process().rss_bytes());
        begun.elapsed() > Duration::from_secs(1) || !flooding.is_alive()
    });
    assert!(most < before + 32 * 1024 * 1024, "{before} bytes became {most}");
}

#[test]
fn a_worker_that_never_answers_is_given_up_at_the_run_timeout() {
    for path in ["/never", "/deaf"] {
        let server = fake(
            "well",
            "workers = { min = 1, max = 1 }\nrun_timeout = \"200ms\"\nkill_grace = \"1s\"",
        )
        .start();
        let deaf = server.wait_for_workers(1)[0];
        let begun = Instant::now();
        let answer = server.get(path);
        assert_eq!(answer.status, 504, "{path}");
        assert_took(begun, Duration::from_millis(200));
        assert_still_works(&server);
        if path == "/deaf" {
            assert!(
                !deaf.is_alive(),
                "a worker that does not react to its abort is replaced"
            );
        } else {
            assert!(
                deaf.is_alive(),
                "a worker that answers its abort has its slot free again"
            );
        }
    }
}

#[test]
fn a_pool_whose_workers_do_not_start_answers_503_and_never_keeps_a_request_waiting() {
    for start in ["ends", "garbage", "version", "failed"] {
        let server = fake(start, "workers = { min = 1, max = 1 }").start();
        let answer = wait_for("a refusal", || {
            let answer = server.get("/echo");
            (answer.status == 503).then_some(answer)
        });
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        assert!(answer.detail().contains("`fake`"), "{}", answer.detail());
        assert_eq!(server.get("/here").status, 200, "other routes are unharmed");
    }
}

#[test]
fn jobs_for_a_worker_that_never_becomes_ready_end_at_their_limits() {
    for start in ["silent", "never-ready"] {
        let server = fake(start, "workers = { min = 1, max = 1 }\nqueue_timeout = \"200ms\"").start();
        let answer = server.get("/echo");
        assert_eq!(answer.status, 503, "{start}");
        assert!(answer.detail().contains("queue_timeout"), "{}", answer.detail());
        assert_eq!(server.get("/here").status, 200);
    }
}
