//! The SDK on standard input and output: one controller gives the same responses in every dialect.

use forebay_testkit::{Response, Server, Setup};

use crate::support::Runtime;

pub(super) const CONTROLLER: &str = include_str!("controller.mjs");

/// The dialects of a pool of the same handler: the first part of its route, and its keys.
pub(super) const WAYS: [(&str, &str); 4] = [
    ("pool", ""),
    ("framed", "link = \"stdio\""),
    ("jsonl", "protocol = \"jsonl\""),
    ("wabur", "protocol = \"wabur\""),
];

/// A pool for each dialect, with further keys.
fn setup(runtime: Runtime, keys: &str) -> Setup {
    let runtime = match runtime {
        Runtime::Node => "node",
        Runtime::Bun => "bun",
    };
    let pools = WAYS.map(|(way, own)| {
        format!(
            "[pool.{way}]\nhandler = \"controller.mjs\"\nruntime = \"{runtime}\"\nconcurrency = 4\n\
             workers = {{ min = 1, max = 1 }}\n{own}\n{keys}\n[[route]]\npath = \"/{way}/*\"\npool = \"{way}\"\n"
        )
    });
    Setup::new(&pools.concat()).file("controller.mjs", CONTROLLER)
}

/// The parts of a response that a client sees, without the dialect's name in the text.
fn seen(answer: &Response, way: &str) -> (u16, Vec<(String, String)>, String) {
    let mut headers: Vec<(String, String)> = answer
        .headers
        .iter()
        .filter(|(name, _)| name != "date" && name != "content-length")
        .cloned()
        .collect();
    headers.sort();
    let body = answer.text().replace(&format!("/{way}/"), "/way/");
    (answer.status, headers, body)
}

fn ask(server: &Server, method: &str, target: &str, body: &str) -> Response {
    let fields = "x-request-id: the-same\r\ncontent-type: application/json\r\n";
    server.connect().ask(method, target, fields, body)
}

#[test]
fn one_controller_answers_the_same_in_a_pool_and_over_standard_input_and_output() {
    let long = format!("\"{}\"", "x".repeat(300_000));
    for runtime in Runtime::BOTH {
        let server = setup(runtime, "").server("body_bytes_max = \"1MiB\"").start();
        for (method, path, body) in [
            ("GET", "hello/J%C3%BCrgen?a=1&b=%26&c", ""),
            ("GET", "text", ""),
            ("GET", "none", ""),
            ("GET", "html", ""),
            ("GET", "headers", ""),
            ("GET", "missing", ""),
            ("GET", "throw", ""),
            ("GET", "nowhere", ""),
            ("PATCH", "text", "{}"),
            ("POST", "echo", "{\"n\":12345678901234567890.10}"),
            ("POST", "echo", "0"),
            ("POST", "echo", &long),
            ("GET", "stray", ""),
            ("GET", "print", ""),
            ("GET", "log", ""),
        ] {
            let expected = seen(&ask(&server, method, &format!("/pool/{path}"), body), "pool");
            for (way, _) in &WAYS[1..] {
                let answer = seen(&ask(&server, method, &format!("/{way}/{path}"), body), way);
                assert_eq!(answer, expected, "{runtime:?}: {way}/{path}");
            }
        }
        // These differ in what a dialect cannot carry: pieces, line ends, bytes that are not text.
        for (way, _) in WAYS {
            let pieces = ask(&server, "GET", &format!("/{way}/pieces"), "");
            assert_eq!((pieces.status, pieces.text()), (200, "0 1 2 "), "{way}");
            let pretty = ask(&server, "GET", &format!("/{way}/pretty"), "");
            assert_eq!(pretty.json(), serde_json::json!({"a": 1}), "{way}");
            let bytes = ask(&server, "GET", &format!("/{way}/bytes"), "");
            let expected = if way == "wabur" { 500 } else { 200 };
            assert_eq!(bytes.status, expected, "{way}");
        }
        for (way, _) in &WAYS[1..] {
            let pool = format!("\"pool\":\"{way}\"");
            for line in ["by the console", "by the stream", "a stray line", "and a half"] {
                server.wait_for_log(&[line, &pool]);
            }
            server.wait_for_log(&[
                "told to the log",
                "WARN",
                &pool,
                "\"request\":\"the-same\"",
                "\"fields\":{\"at\":7}",
            ]);
        }
    }
}

#[test]
fn a_stopping_server_lets_stop_hooks_run_whatever_is_spoken() {
    for runtime in Runtime::BOTH {
        let mut server = setup(runtime, "").start();
        for (way, _) in WAYS {
            assert_eq!(server.get(&format!("/{way}/text")).status, 200);
        }
        server.terminate();
        assert!(server.wait().success());
        let log = server.log();
        assert_eq!(log.matches("stopped in order").count(), WAYS.len(), "{log}");
    }
}

#[test]
fn a_handler_that_cannot_be_loaded_says_why_whatever_is_spoken() {
    for (way, keys) in WAYS {
        let server = Setup::new(&format!(
            "[pool.api]\nhandler = \"broken.mjs\"\n{keys}\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
        ))
        .file(
            "broken.mjs",
            "throw new Error('no licence for this machine');\nexport default () => 1;",
        )
        .admin()
        .start();
        forebay_testkit::wait_until(way, || {
            let health = server.admin().get("/health/ready");
            health.status == 503 && health.text().contains("no licence for this machine")
        });
    }
}
