//! `forebay sql doctor`, on a real PostgreSQL.

use std::process::Output;

use forebay_testkit::{Postgres, Server, Setup};
use serde_json::Value;

/// A server that only provides its folder: the doctor asks databases, not servers.
fn configured(url: &str, keys: &str) -> Server {
    Setup::new(&format!(
        "[sql.main]\nurl = \"{url}\"\n{keys}\n[[route]]\npath = \"/one\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", query = \"select 1 as one\", result = \"row\" }}\n"
    ))
    .start()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn finding<'a>(told: &'a Value, what: &str) -> &'a Value {
    let findings = told["databases"][0]["findings"]
        .as_array()
        .expect("there are findings");
    findings
        .iter()
        .find(|finding| finding["what"] == what)
        .unwrap_or_else(|| panic!("{what} in {told}"))
}

#[test]
fn the_doctor_says_what_the_server_says_and_finds_what_does_not_fit() {
    let postgres = Postgres::shared();
    let number = |text: &str| -> i64 {
        let row = postgres.admin().query_one(text, &[]).expect("it has one row");
        row.get(0)
    };
    let most = number("select current_setting('max_connections')::bigint");
    let server = configured(&postgres.url(), "connections_max = 16");
    let told = json(&server.command(&["sql", "doctor", "--json"]));
    let facts = &told["databases"][0]["facts"];
    assert_eq!(facts["max_connections"], most);
    assert_eq!(
        facts["version_num"],
        number("select current_setting('server_version_num')::bigint")
    );
    assert_eq!(
        facts["shared_buffers"],
        number("select pg_size_bytes(current_setting('shared_buffers'))")
    );
    assert!(
        facts["round_trip_us"].as_u64().is_some_and(|us| us > 0),
        "{facts}"
    );
    assert!(
        facts["connections"].as_u64().is_some_and(|count| count > 0),
        "{facts}"
    );
    assert_eq!(finding(&told, "connections")["level"], "fine", "{told}");
    // This is a test database: its commits need not be durable.
    assert_eq!(finding(&told, "synchronous_commit")["level"], "advice", "{told}");
    assert!(
        !told.to_string().contains("benchmarkdbpass"),
        "no password is told"
    );

    let servers = most.to_string();
    let output = server.command(&["sql", "doctor", "--json", "--servers", &servers]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let told = json(&output);
    let wrong = finding(&told, "connections");
    assert_eq!(wrong["level"], "wrong", "{wrong}");
    let change = wrong["change"].as_str().expect("it says what to change");
    assert!(
        change.starts_with("lower `connections_max` to 1, or raise max_connections to "),
        "{change}"
    );
    let text = server.command(&["sql", "doctor", "--servers", &servers]).stdout;
    let text = String::from_utf8(text).expect("it is UTF-8");
    for part in [
        "main: postgres://",
        "  WRONG   connections: ",
        "why: ",
        "change: lower",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_database_that_does_not_answer_is_told_with_an_exit_code_of_its_own() {
    let server = configured(
        "postgres://nobody:secret@127.0.0.1:1/nothing?sslmode=disable",
        "connect_timeout = \"1s\"\nacquire_timeout = \"1s\"",
    );
    let output = server.command(&["sql", "doctor", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let told = json(&output);
    assert_eq!(told["databases"][0]["facts"], Value::Null);
    assert_eq!(finding(&told, "connection")["level"], "wrong");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of the databases cannot be reached"));
}
