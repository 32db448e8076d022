//! The indexes of the configuration, from one start to the next.

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use forebay_testkit::{Folder, Server, wait_for};

use super::{OPEN, config, put, reload, setup, text};

fn keys(folder: &Folder, indexes: &str) -> String {
    format!("path = \"{}\"\n{indexes}", folder.path().display())
}

/// The output of a start that fails.
pub(super) fn refused(server: &Server, keys: &str) -> Output {
    let folder = Folder::new();
    let sections = "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"off\"\nsocket = \"off\"\n";
    folder.write("forebay.toml", format!("{sections}{}", config(keys, OPEN, "")));
    let program = fs::read_link(format!("/proc/{}/exe", server.process().pid)).expect("the server runs");
    let mut child = Command::new(program)
        .args(["serve", "-c"])
        .arg(folder.path().join("forebay.toml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    let status = wait_for("the server to refuse", || {
        child.try_wait().expect("it is a child")
    });
    assert!(!status.success());
    child.wait_with_output().expect("its output can be read")
}

#[test]
fn an_index_is_made_of_what_is_there_and_is_there_at_the_next_start() {
    let folder = Folder::new();
    let mut server = setup(&keys(&folder, ""), "").start();
    put(
        &mut server.connect(),
        "/store/Open",
        r#"{"1":{"a":1},"2":{"a":2},"3":{"a":1}}"#,
    );
    assert_eq!(server.get("/store/Open?where=a=1").status, 400);
    server.terminate();
    server.wait();
    let by_a = "index.by-a = { records = \"Open\", fields = [\"a\"] }";
    for start in ["first", "second"] {
        let mut server = setup(&keys(&folder, by_a), "").start();
        let found = text(&mut server.connect(), "/store/Open?where=a=1&keys");
        assert_eq!(found, r#"["1","3"]"#, "{start}");
        server.terminate();
        server.wait();
        if start == "first" {
            server.wait_for_log(&["an index is being made", "by-a"]);
        } else {
            assert!(
                !server.log().contains("an index is being made"),
                "{}",
                server.log()
            );
        }
    }
    // An index that the configuration no longer names stays.
    let server = setup(&keys(&folder, ""), "").start();
    assert_eq!(server.get("/store/Open?where=a=1").status, 200);
}

#[test]
fn a_server_does_not_start_with_an_index_that_cannot_be() {
    let folder = Folder::new();
    let by_a = "index.by-a = { records = \"Open\", fields = [\"a\"] }";
    let mut server = setup(&keys(&folder, by_a), "").start();
    put(
        &mut server.connect(),
        "/store/Open",
        r#"{"1":{"a":1},"2":{"a":1}}"#,
    );
    let again = "index.by-a = { records = \"Open\", fields = [\"b\", \"a\"], unique = true }";
    // A reload applies rules and nothing else.
    server.reconfigure(&config(&keys(&folder, again), OPEN, ""));
    let answer = reload(&server);
    assert!(
        answer
            .text()
            .contains("store has changed, which takes an upgrade or a restart"),
        "{}",
        answer.text()
    );
    let program = setup("path = \"other\"", "").start();
    server.terminate();
    server.wait();
    let said = refused(&program, &keys(&folder, again));
    let said = String::from_utf8_lossy(&said.stderr);
    for part in [
        "index `by-a` exists with Open by a, but the configuration (store.index.by-a) has Open by b, a, unique",
        "forebay store index drop by-a --data ",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let unique = "index.only = { records = \"Open\", fields = [\"a\"], unique = true }";
    let said = refused(&program, &keys(&folder, unique));
    let said = String::from_utf8_lossy(&said.stderr);
    for part in [
        "cannot make the index `only` of the configuration (store.index.only)",
        "index `only` is unique, and record 1 has the same values",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_unique_index_refuses_a_second_record_over_http() {
    let unique = "index.mail = { records = \"Open\", fields = [\"mail\"], unique = true }";
    let server = setup(unique, "").start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/1", r#"{"mail":"a@b"}"#);
    let refused = super::ask(&mut client, "PUT", "/store/Open/2", &[], br#"{"mail":"a@b"}"#);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(client.get("/store/Open/2").status, 404);
    put(&mut client, "/store/Open/1", r#"{"mail":"a@c"}"#);
    put(&mut client, "/store/Open/2", r#"{"mail":"a@b"}"#);
}
