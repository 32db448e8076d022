//! The store as the server has it open: alone, for its life, and for its workers.

use std::{fs, process::Command};

use forebay_testkit::{Folder, Server, Setup, wait_until};

use super::{OPEN, ask, config, put, setup, start};
use crate::support::Runtime;

fn reload(server: &Server) -> forebay_testkit::Response {
    let mut control = server.control();
    control.request("POST", "/reload");
    control.response()
}

#[test]
fn a_second_server_is_refused_with_the_firsts_pid() {
    let folder = Folder::new();
    let keys = format!("path = \"{}\"", folder.path().display());
    let mut first = setup(&keys, "").start();
    put(&mut first.connect(), "/store/Open/1", "1");
    let second = Folder::new();
    second.write(
        "forebay.toml",
        format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"off\"\nsocket = \"off\"\n{}",
            config(&keys, OPEN, "")
        ),
    );
    let refused = Command::new(fs::read_link(format!("/proc/{}/exe", first.process().pid)).unwrap())
        .args(["serve", "-c"])
        .arg(second.path().join("forebay.toml"))
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8(refused.stderr).unwrap();
    let expected = format!("is led by another server (process {})", first.process().pid);
    assert!(said.contains(&expected), "{said}");
    // The lock ends with its holder, however that ends.
    first.kill();
    let again = setup(&keys, "").start();
    assert_eq!(again.get("/store/Open/1").text(), "1");
}

#[test]
fn a_reload_keeps_the_store_open_and_takes_new_rules() {
    let server = start();
    put(&mut server.connect(), "/store/Open/1", "1");
    assert_eq!(server.get("/store/Late/1").status, 403);
    let rules = format!("{OPEN}Late = {{ read = \"public\" }}\n");
    server.reconfigure(&config("", &rules, ""));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.get("/store/Late/1").status, 404);
    assert_eq!(server.get("/store/Open/1").text(), "1");
    for keys in [
        "path = \"elsewhere\"",
        "durability = \"relaxed\"",
        "value_bytes_max = \"1KiB\"",
        "queue_max = 1",
    ] {
        server.reconfigure(&config(keys, OPEN, ""));
        let refused = reload(&server);
        assert!(refused.status >= 400, "{keys}: {refused:?}");
        assert!(
            refused
                .text()
                .contains("store has changed, which takes a restart"),
            "{}",
            refused.text()
        );
    }
    assert_eq!(server.get("/store/Late/1").status, 404);
    assert!(!server.folder().path().join("elsewhere").exists());
}

#[test]
fn an_orderly_end_keeps_relaxed_writes_and_a_write_under_way() {
    let folder = Folder::new();
    let keys = format!(
        "path = \"{}\"\ndurability = \"relaxed\"\nflush_interval = \"1m\"",
        folder.path().display()
    );
    let mut server = setup(&keys, "").start();
    put(&mut server.connect(), "/store/Open/1", "1");
    server.terminate();
    assert!(server.wait().success());
    let server = setup(&keys, "").start();
    assert_eq!(server.get("/store/Open/1").text(), "1");
}

#[test]
fn workers_are_told_where_the_store_is_and_what_they_may() {
    const SOURCE: &str =
        "export default () => `${process.env.FOREBAY_STORE}|${process.env.FOREBAY_STORE_MODE}`;";
    for runtime in Runtime::BOTH {
        let name = format!("{runtime:?}").to_lowercase();
        for (section, key, expected) in [
            ("[store]", "", "data|rw"),
            ("[store]\npath = \"a/b\"", "store = \"ro\"", "a/b|ro"),
            ("[store]", "store = \"none\"", "undefined|none"),
            ("", "", "undefined|none"),
        ] {
            let server = Setup::new(&format!(
                "{section}\n[pool.api]\nhandler = \"api.mjs\"\nruntime = \"{name}\"\n{key}\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
            ))
            .file("api.mjs", SOURCE)
            .start();
            wait_until("the pool to answer", || server.get("/").status == 200);
            let answer = server.get("/");
            let (path, mode) = answer.text().split_once('|').unwrap();
            let (expected_path, expected_mode) = expected.split_once('|').unwrap();
            let expected_path = match expected_path {
                "undefined" => expected_path.to_owned(),
                below => {
                    let path = server.folder().path().canonicalize().unwrap().join(below);
                    path.display().to_string()
                }
            };
            assert_eq!(
                (path, mode),
                (expected_path.as_str(), expected_mode),
                "{section} {key}"
            );
        }
    }
}

#[test]
fn a_worker_may_not_be_given_another_store() {
    let server = start();
    let refused = |pool: &str| {
        server.reconfigure(&format!(
            "{}[pool.api]\ncommand = [\"true\"]\n{pool}\n",
            config("", OPEN, "")
        ));
        reload(&server).text().to_owned()
    };
    let said = refused("env = { FOREBAY_STORE = \"/elsewhere\" }");
    assert!(
        said.contains("the worker protocol sets FOREBAY_STORE itself"),
        "{said}"
    );
    assert_eq!(
        ask(&mut server.connect(), "PUT", "/store/Open/1", &[], b"1").status,
        201
    );
}
