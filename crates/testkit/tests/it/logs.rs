//! The server's log and its access log.

use std::fs;

use forebay_testkit::{Server, Setup, wait_until};
use serde_json::Value;

use crate::support::{ONE_WORKER, TOOLBOX, metric, node, wait_until_ready};

fn in_memory(log: &str) -> Server {
    Setup::new(&format!(
        "[log]\n{log}\n[[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    ))
    .start()
}

#[test]
fn each_line_is_json_when_nobody_watches() {
    let server = node(TOOLBOX, ONE_WORKER).start();
    wait_until_ready(&server);
    server.wait_for_log(&["worker ready"]);
    for line in server.log().lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].is_string() && line["target"].is_string() && line["message"].is_string());
    }
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_make_no_others() {
    let server = Setup::new(
        "[log]\naccess = true\nfile = \"/dev/full\"\n[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n",
    )
    .admin()
    .start();
    let lost = || metric(&server, "forebay_log_lines_lost_total");
    let before = lost();
    let mut client = server.connect();
    for requests in 1..=10 {
        assert_eq!(client.get("/here").status, 200);
        wait_until("the line to be lost", || lost() >= before + requests);
    }
    assert_eq!(lost(), before + 10, "{}", server.log());
}

#[test]
fn requests_are_logged_only_when_asked_for() {
    let server = in_memory("access = true");
    let mut client = server.connect();
    client.send("GET /here?a=b HTTP/1.1\r\nhost: test\r\nx-request-id: mine\r\nuser-agent: \"me\"\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let line: Value = serde_json::from_str(&server.wait_for_log(&["\"request_id\":\"mine\""])).expect("JSON");
    for (member, value) in [
        ("target", Value::from("forebay::access")),
        ("method", "GET".into()),
        ("path", "/here".into()),
        ("query", "a=b".into()),
        ("user_agent", "\"me\"".into()),
        ("peer", "127.0.0.1".into()),
        ("route", "/here".into()),
        ("status", 200.into()),
        ("bytes", 4.into()),
    ] {
        assert_eq!(line[member], value, "{member}");
    }
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.response().status, 400);
    server.wait_for_log(&["\"status\":400"]);

    let mut server = in_memory("");
    assert_eq!(server.get("/here").status, 200);
    server.terminate();
    server.wait();
    assert!(!server.log().contains("forebay::access"));
}

#[test]
fn what_of_a_body_comes_after_its_answer_takes_none_of_the_logged_time() {
    let server =
        Setup::new("[log]\naccess = true\n[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n")
            .server("body_timeout = \"3s\"")
            .start();
    let mut client = server.connect();
    client.send("POST /here HTTP/1.1\r\nhost: test\r\nx-request-id: late\r\ncontent-length: 9\r\n\r\n");
    assert_eq!(client.response().status, 200);
    // The rest of the body never arrives, and the server ends the connection.
    client.ends();
    let line: Value = serde_json::from_str(&server.wait_for_log(&["\"request_id\":\"late\""])).expect("JSON");
    let micros = line["duration_us"].as_u64().expect("a number");
    assert!(micros < 3_000_000, "{line}");
}

#[test]
fn only_what_the_client_took_of_an_answer_is_logged_as_sent() {
    const BYTES: usize = 32 << 20;
    let server = Setup::new(
        "[log]\naccess = true\n[store]\nvalue_bytes_max = \"64MiB\"\n[store.access]\nOpen = { read = \"public\", write = \"public\" }\n\
         [[route]]\npath = \"/store/*\"\nstore = {}\n",
    )
    .server("idle_timeout = \"1s\"\nbody_bytes_max = \"64MiB\"")
    .start();
    let mut client = server.connect();
    let document = format!("\"{}\"", "x".repeat(BYTES - 2));
    client.send(format!(
        "PUT /store/Open/1 HTTP/1.1\r\nhost: test\r\ncontent-length: {BYTES}\r\n\r\n{document}"
    ));
    assert_eq!(client.response().status, 201);
    client.send("GET /store/Open/1 HTTP/1.1\r\nhost: test\r\nx-request-id: stalled\r\n\r\n");
    // Nothing is read until the server has given up on the client.
    let line: Value =
        serde_json::from_str(&server.wait_for_log(&["\"request_id\":\"stalled\""])).expect("JSON");
    let bytes = line["bytes"].as_u64().expect("a number");
    assert!(0 < bytes && bytes < BYTES as u64, "{line}");
}

#[test]
fn the_text_form_is_the_combined_one() {
    let server = in_memory("access = true\nformat = \"text\"");
    server.get("/here?a=b");
    let line = server.wait_for_log(&["\"GET /here?a=b HTTP/1.1\" 200 4 \"-\" \"-\" "]);
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
}

#[test]
fn the_file_is_turned_over_and_loses_nothing() {
    let mut server = in_memory("access = true\nfile = \"a.log\"\nrotate = { size = \"64KiB\", keep = 3 }");
    let folder = server.folder().path().to_owned();
    let mut client = server.connect();
    let mut sent = 0;
    while !folder.join("a.log.2").exists() {
        for _ in 0..50 {
            assert_eq!(client.get("/here").status, 200);
            sent += 1;
        }
    }
    drop(client);
    server.terminate();
    assert!(server.wait().success());
    let mut logged = 0;
    for name in ["a.log", "a.log.1", "a.log.2", "a.log.3"] {
        let Ok(text) = fs::read_to_string(folder.join(name)) else {
            assert_eq!(name, "a.log.3", "the others are there");
            continue;
        };
        assert!(text.len() <= 64 * 1024, "{name} has {} bytes", text.len());
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        logged += lines.filter(|line| line["target"] == "forebay::access").count();
    }
    assert_eq!(logged, sent);
    assert!(server.log().is_empty(), "{}", server.log());
}
