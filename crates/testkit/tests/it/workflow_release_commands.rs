//! `forebay workflow` while a server runs, which does what the command asks for.

use forebay_testkit::Setup;
use serde_json::Value;

use crate::workflow_releases::{import, rule, told, workflow, write_version};

#[test]
fn commands_ask_the_server_that_runs_and_say_the_same_as_without_one() {
    let config = |allow: &str| format!("[store]\npath = \"data\"\n[workflow]\nstore = \"Workflow\"\n{allow}");
    let [mut with, mut without] =
        [Setup::new(&config("")).admin(), Setup::new(&config(""))].map(|setup| setup.threads(1).start());
    without.terminate();
    assert!(without.wait().success());
    let mut said = Vec::new();
    for server in [&with, &without] {
        for number in [1, 2] {
            assert_eq!(import(server, number), u64::from(number));
        }
        write_version(server, "wrong", 3, 4);
        let wrong = server.folder().path().join("wrong");
        let wrong = wrong.to_str().unwrap();
        let all: Vec<_> = [
            &["import", wrong, "--note", "three", "--by", "bob"][..],
            &["check", "--release", "1"],
            &["check"],
            &["test", "--release", "1"],
            &["test", "--release", "3"],
            &["state", "2", "test"],
            &["publish", "1"],
            &["check"],
            &["publish", "2", "--canary", "12.5%"],
            &["publish", "3"],
            &["rollback"],
            &["rollback"],
            &["publish", "9"],
            &["discard", "1"],
            &["discard", "3"],
            &["diff", "1", "2"],
            &["run", "version"],
            &["publish", "2", "--json"],
        ]
        .into_iter()
        .map(|words| {
            (
                words[0].to_owned(),
                told(&server.command(&[&["workflow"], words].concat())),
            )
        })
        .collect();
        let mut list: Value = serde_json::from_str(&workflow(server, &["list", "--json"])).unwrap();
        for release in list["releases"].as_array_mut().unwrap() {
            release["about"]["createdMs"] = 0.into();
        }
        said.push((all, list));
    }
    let of_store = said.pop();
    assert_eq!(said.pop(), of_store);

    // Only the running server allows what this test needs.
    with.reconfigure(&config("allow = { store = [\"Order\"] }\n"));
    with.hang_up();
    with.wait_for_log(&["configuration reloaded"]);
    with.reconfigure(&config(""));
    write_version(&with, "v4", 4, 4);
    with.folder().write(
        "v4/rules/version.js",
        rule("store.set('Order', 'n', 4);\nreturn new ScriptResult(true, { version: store.get('Order', 'n') });"),
    );
    let path = with.folder().path().join("v4");
    let out = workflow(&with, &["import", path.to_str().unwrap()]);
    assert!(out.starts_with("release 4:"), "{out}");
    assert!(workflow(&with, &["test", "--release", "4"]).ends_with("1 of 1 hold\n"));
    with.terminate();
    assert!(with.wait().success());
    let (code, out, _) = told(&with.command(&["workflow", "test", "--release", "4"]));
    assert_eq!(code, 3, "{out}");
}
