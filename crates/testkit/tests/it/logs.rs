//! The server's log and its access log.

use std::fs;

use forebay_testkit::{Server, Setup};
use serde_json::Value;

use crate::support::{ONE_WORKER, TOOLBOX, node, wait_until_ready};

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
