//! `forebay load --on-port`: servers that the load starts and ends.

use std::net::TcpListener;

use forebay_testkit::{Folder, wait_until};

use crate::{
    load::{SEEDS, json},
    run::run,
};

#[test]
fn a_server_is_started_loaded_and_stopped() {
    let folder = Folder::new();
    folder.write("forebay.toml", SEEDS);
    let binary = env!("CARGO_BIN_EXE_forebay");
    let words = [
        "load",
        "--on-port",
        "/local",
        "-n",
        "100",
        "-c",
        "2",
        "--json",
        "--",
    ];
    let command = [binary, "serve", "--listen", "127.0.0.1:0", "--admin", "off"];
    let ended = run(folder.path(), &[&words[..], &command].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = json(&ended);
    assert_eq!(report["requests"]["total"], 100);
    assert_eq!(report["statuses"]["200"], 100);
    let status = run(folder.path(), &["status"]);
    assert_eq!(status.code, 4, "the server still runs: {status:?}");
}

#[test]
fn a_command_that_does_not_serve_is_told_so() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["load", "--on-port", "-n", "1", "--", "false"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .err
            .contains("`false` has ended (exit status: 1) before it listened"),
        "{ended:?}"
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", taken.local_addr().unwrap());
    let ended = run(folder.path(), &["load", "--on-port", &url, "--", "sleep", "60"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("something listens on"), "{ended:?}");
}

/// A line for `sh` that leaves two processes outside of its group, a child and a daemon, and then becomes a server.
fn server_that_leaves_others(folder: &Folder) -> String {
    let stays =
        |name: &str| format!("setsid sh -c 'echo $$ > {name}.new; mv {name}.new {name}; exec sleep 1000'");
    let line = format!(
        "{} & ({} &) ; until [ -e child ] && [ -e daemon ]; do :; done; exec {} serve --listen 127.0.0.1:$PORT --admin off",
        stays("child"),
        stays("daemon"),
        env!("CARGO_BIN_EXE_forebay")
    );
    folder.write("forebay.toml", SEEDS);
    folder.write("start.sh", line);
    "sh start.sh".to_owned()
}

#[test]
fn what_a_started_server_leaves_outside_of_its_group_ends_with_it() {
    let folder = Folder::new();
    let command = server_that_leaves_others(&folder);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/local");
    let words: Vec<&str> = ["load", "--on-port", &url, "-n", "10", "-c", "1", "--"]
        .into_iter()
        .chain(command.split(' '))
        .collect();
    let ended = run(folder.path(), &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    for name in ["child", "daemon"] {
        let pid: u32 = folder.read(name).unwrap().trim().parse().unwrap();
        wait_until("the process to be gone", || !is_alive(pid));
    }
}

/// Whether a process runs; one that has ended and waits for its parent does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn of_a_server_with_several_listeners_the_first_is_loaded_and_the_others_are_told() {
    let folder = Folder::new();
    folder.write(
        "two.mjs",
        r#"import { createServer } from "node:http";
           for (const name of ["one", "two"]) createServer((_, answer) => answer.end(name)).listen(0, "127.0.0.1");"#,
    );
    let words = [
        "load",
        "--on-port",
        "/",
        "-n",
        "10",
        "-c",
        "1",
        "--",
        "node",
        "two.mjs",
    ];
    let ended = run(folder.path(), &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    let note = ended
        .err
        .lines()
        .find(|line| line.contains("note: the command listens on 127.0.0.1:"));
    let note = note.unwrap_or_else(|| panic!("{ended:?}"));
    let loaded = note.split_whitespace().nth(5).unwrap();
    assert!(ended.err.contains(&format!("GET http://{loaded}/:")), "{ended:?}");
    assert!(note.contains("first and on 127.0.0.1:"), "{note}");
}
