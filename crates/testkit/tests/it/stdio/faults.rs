//! Mistakes of controllers: their effect on clients, and on the pool.

use std::time::{Duration, Instant};

use forebay_testkit::{Client, Server, wait_until};

use super::Dialect;
use crate::support::{assert_took, metric};

/// A JSON text, so that every dialect can carry it.
const BODY: &str = "\"still here\"";

fn one(dialect: Dialect, keys: &str) -> Server {
    dialect
        .odd(&format!("workers = {{ min = 1, max = 1 }}\n{keys}"))
        .start()
}

fn echo(client: &mut Client, path: &str) -> (u16, String) {
    client.post(path, BODY.as_bytes());
    let answer = client.response();
    (answer.status, answer.text().to_owned())
}

fn assert_still_works(server: &Server) {
    assert_eq!(echo(&mut server.connect(), "/echo"), (200, BODY.to_owned()));
}

/// For tests whose limits are shorter than a start may take.
fn wait_until_it_answers(server: &Server) {
    wait_until("the controller to answer", || {
        server.post("/echo", BODY.as_bytes()).status == 200
    });
}

fn stray(server: &Server) -> u64 {
    metric(server, "forebay_pool_stray_frames_total{pool=\"api\"}")
}

fn ended(server: &Server, cause: &str) -> u64 {
    let series = format!("forebay_pool_workers_ended_total{{pool=\"api\",cause=\"{cause}\"}}");
    metric(server, &series)
}

#[test]
fn what_a_controller_prints_beside_its_answers_changes_none_of_them() {
    for dialect in Dialect::BOTH {
        let server = one(dialect, "");
        assert_still_works(&server);
        let workers = server.workers();
        let mut client = server.connect();
        for way in [
            "print", "log", "glued", "text", "bytewise", "others", "later", "logs", "twice", "echo",
        ] {
            for _ in 0..5 {
                let answer = echo(&mut client, &format!("/{way}"));
                assert_eq!(answer, (200, BODY.to_owned()), "{dialect:?}: {way}");
            }
        }
        for printed in [
            "loading...",
            "half a line",
            "{ a: 1 }",
            "a line of a logger",
            "Warning: deprecated {call}",
        ] {
            server.wait_for_log(&[printed, "\"worker\":1", "forebay::worker"]);
        }
        assert_eq!(server.workers(), workers, "none of this is worth a worker");
        assert!(stray(&server) >= 5, "second answers are counted");
    }
}

#[test]
fn lines_for_the_log_are_logged_and_answered() {
    let server = one(Dialect::Wabur, "");
    assert_eq!(echo(&mut server.connect(), "/logs").0, 200);
    server.wait_for_log(&["told by a message", "WARN", "\"pool\":\"api\""]);
    server.wait_for_log(&["and another"]);
    server.wait_for_log(&["noted: {\\\"rid\\\":\\\"9\\\",\\\"api\\\":6"]);
}

#[test]
fn an_answer_without_an_id_is_that_of_the_only_request() {
    let server = one(Dialect::Jsonl, "");
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(echo(&mut client, "/nameless"), (200, BODY.to_owned()));
    }
}

#[test]
fn a_second_answer_without_an_id_is_not_that_of_the_next_request() {
    let server = one(Dialect::Jsonl, "");
    assert_still_works(&server);
    for turn in 0..5 {
        let mut clients = [server.connect(), server.connect()];
        clients[0].post("/echoes", format!("first {turn}").as_bytes());
        wait_until("the first to be under way", || {
            metric(&server, "forebay_pool_jobs_accepted_total{pool=\"api\"}") == 2 + 2 * turn
        });
        clients[1].post("/echo", format!("second {turn}").as_bytes());
        let answers = clients.map(|mut client| client.response().text().to_owned());
        assert_eq!(answers, [format!("first {turn}"), format!("second {turn}")]);
    }
}

#[test]
fn an_answer_without_an_id_is_nobodys_when_there_are_several_requests() {
    let server = one(Dialect::Jsonl, "concurrency = 4\nrun_timeout = \"500ms\"");
    wait_until_it_answers(&server);
    let accepted = || metric(&server, "forebay_pool_jobs_accepted_total{pool=\"api\"}");
    let before = accepted();
    let mut waits = server.connect();
    waits.request("GET", "/never");
    wait_until("the first to be under way", || accepted() > before);
    let nameless = echo(&mut server.connect(), "/nameless");
    assert_eq!(nameless.0, 504, "{nameless:?}");
    assert_eq!(waits.response().status, 504);
    server.wait_for_log(&["an answer names no request, and the worker has 2"]);
}

#[test]
fn an_answer_that_cannot_be_used_is_told_to_its_client_only() {
    for dialect in Dialect::BOTH {
        let server = one(dialect, "");
        let answer = server.post("/staus", BODY.as_bytes());
        assert_eq!(answer.status, 500);
        assert!(
            answer.detail().starts_with("worker's answer cannot be used: "),
            "{}",
            answer.detail()
        );
        server.wait_for_log(&["answer cannot be used: ", "ERROR", "\"worker\":1"]);
        assert_still_works(&server);
        assert_eq!(server.workers().len(), 1);
    }
}

#[test]
fn a_controller_that_ends_costs_the_request_it_had() {
    for dialect in Dialect::BOTH {
        let server = one(dialect, "");
        for way in ["exit", "half"] {
            assert_still_works(&server);
            let answer = server.post(&format!("/{way}"), BODY.as_bytes());
            assert_eq!(answer.status, 502, "{dialect:?}: {way}");
        }
        assert_eq!(
            echo(&mut server.connect(), "/exits"),
            (200, BODY.to_owned()),
            "what it said before counts"
        );
        wait_until("its end to be counted", || ended(&server, "crashed") == 3);
        assert_still_works(&server);
        // Half a message was written.
        server.wait_for_log(&["still he", "forebay::worker", "\\\"body\\\""]);
    }
}

#[test]
fn a_controller_that_reads_no_more_is_noticed_when_it_is_told_something() {
    for dialect in Dialect::BOTH {
        let server = one(dialect, "");
        assert_eq!(echo(&mut server.connect(), "/closes").0, 200);
        assert_eq!(echo(&mut server.connect(), "/echo").0, 502);
        assert_still_works(&server);
    }
}

#[test]
fn a_controller_that_says_nothing_sensible_is_stopped_in_time() {
    for dialect in Dialect::BOTH {
        for way in ["spin", "never", "flood", "invalid"] {
            let server = one(dialect, "run_timeout = \"300ms\"\nkill_grace = \"100ms\"");
            wait_until("the controller to answer", || {
                server.post("/echo", BODY.as_bytes()).status == 200
            });
            let begun = Instant::now();
            let answer = server.post(&format!("/{way}"), BODY.as_bytes());
            assert_eq!(answer.status, 504, "{dialect:?}: {way}");
            assert_took(begun, Duration::from_millis(300));
            wait_until("the worker to be replaced", || ended(&server, "overran") == 1);
            wait_until("its successor to answer", || {
                server.post("/echo", BODY.as_bytes()).status == 200
            });
        }
    }
}

#[test]
fn an_answer_that_comes_too_late_is_nobodys_and_costs_nothing() {
    for dialect in Dialect::BOTH {
        let server = one(dialect, "run_timeout = \"300ms\"\nkill_grace = \"20s\"");
        wait_until_it_answers(&server);
        let workers = server.workers();
        assert_eq!(server.post("/slow", b"\"late\"").status, 504);
        // The slot is free again once the response has arrived.
        assert_eq!(
            echo(&mut server.connect(), "/echo"),
            (200, BODY.to_owned()),
            "{dialect:?}"
        );
        assert_eq!(server.workers(), workers, "{dialect:?}");
        assert_eq!(
            metric(
                &server,
                "forebay_pool_jobs_failed_total{pool=\"api\",reason=\"run_timeout\"}"
            ),
            1
        );
    }
}

#[test]
fn a_flood_holds_up_nobody_else() {
    let server = one(Dialect::Jsonl, "run_timeout = \"2s\"");
    wait_until_it_answers(&server);
    let mut flooded = server.connect();
    flooded.request("GET", "/flood");
    for _ in 0..200 {
        assert_eq!(server.get("/here").status, 200);
    }
    assert_eq!(flooded.response().status, 504);
}

#[test]
fn a_message_that_is_too_long_costs_its_worker() {
    for dialect in Dialect::BOTH {
        let server = one(dialect, "message_bytes_max = \"1MiB\"");
        assert_still_works(&server);
        assert_eq!(server.post("/long", BODY.as_bytes()).status, 502);
        server.wait_for_log(&[
            "more than 1048576 bytes (message_bytes_max)",
            "\"worker\":1",
            "it is stopped",
        ]);
        assert_still_works(&server);
        assert_eq!(ended(&server, "protocol"), 1);
    }
}

#[test]
fn a_body_is_told_whole_or_refused() {
    for dialect in Dialect::BOTH {
        let setup = dialect.odd("workers = { min = 1, max = 1 }\nmessage_bytes_max = \"1MiB\"");
        let server = setup.server("body_bytes_max = \"4MiB\"").start();
        let body = format!("\"{}\"", "x".repeat(900_000));
        let answer = server.post("/echo", body.as_bytes());
        assert_eq!((answer.status, answer.text() == body), (200, true));
        let refused = server.post("/echo", &vec![b'1'; 1_100_000]);
        assert_eq!(refused.status, 413);
        assert!(
            refused.detail().contains("(message_bytes_max)"),
            "{}",
            refused.detail()
        );
        assert_still_works(&server);
    }
    let server = one(Dialect::Wabur, "");
    let refused = server.post("/echo", b"{a}");
    assert_eq!(refused.status, 400);
    assert!(
        refused.detail().starts_with("body is not JSON: "),
        "{}",
        refused.detail()
    );
}

#[test]
fn bytes_that_are_no_text_go_both_ways() {
    let echo = "const { createInterface } = require('node:readline');\n\
        createInterface({ input: process.stdin }).on('line', (line) => {\n\
          const { id, body_base64 } = JSON.parse(line);\n\
          console.log(JSON.stringify({ id, body_base64 }));\n\
        });\n";
    let server = forebay_testkit::Setup::new(
        "[pool.api]\ncommand = [\"node\", \"echo.cjs\"]\nprotocol = \"jsonl\"\n[[route]]\npath = \"/*\"\npool = \"api\"\n",
    )
    .file("echo.cjs", echo)
    .start();
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let answer = server.post("/", &bytes);
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.body, bytes);
}

#[test]
fn a_stopping_server_has_its_controllers_finish() {
    for dialect in Dialect::BOTH {
        let mut server = dialect
            .odd("workers = { min = 2, max = 2 }\nconcurrency = 4")
            .start();
        assert_still_works(&server);
        let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.post("/later", BODY.as_bytes());
        }
        server.wait_for_workers(2);
        wait_until("the requests to be under way", || {
            metric(&server, "forebay_pool_jobs_accepted_total{pool=\"api\"}") >= 7
        });
        server.terminate();
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        assert!(server.wait().success());
        let log = server.log();
        let ended = log.matches("\"status\":\"exit status: 0\"").count();
        assert_eq!(ended, 2, "each ended by itself: {log}");
    }
}

#[test]
fn a_command_that_does_not_start_makes_the_pool_unready_and_says_why() {
    let server = forebay_testkit::Setup::new(
        "[pool.api]\ncommand = [\"node\", \"missing.cjs\"]\nprotocol = \"jsonl\"\n[[route]]\npath = \"/*\"\npool = \"api\"\n",
    )
    .admin()
    .start();
    wait_until("the pool to be unready", || {
        let health = server.admin().get("/health/ready");
        health.status == 503 && health.text().contains("missing.cjs")
    });
    wait_until("requests to be refused", || server.get("/").status == 503);
}
