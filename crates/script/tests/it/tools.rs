//! The tools that rules find as globals, imported by handlers here.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use forebay_script::Allow;

use crate::scripts::{Fixture, LIMITS, get, text};

/// Handlers that answer with their results and the expected ones, as JSON.
const HANDLER: &str = include_str!("tools.mjs");

/// Runs all cases on an executor. Returns those with wrong results.
fn failures(fixture: &Fixture) -> Vec<String> {
    let names = text(&fixture.executor(&get("/")).unwrap()).to_owned();
    let names = names.trim_matches(['[', ']']).split(',');
    let paths = names.map(|name| format!("/{}", name.trim_matches('"')));
    let answers = paths.map(|path| (fixture.executor(&get(&path)).unwrap(), path));
    answers
        .filter(|(answer, _)| text(answer) != "\"right\"")
        .map(|(answer, path)| format!("{path}: {} {}", answer.status, text(&answer)))
        .collect()
}

fn with_files(folder: &Path) -> Allow {
    Allow {
        files: vec![folder.to_owned()],
        ..Allow::default()
    }
}

#[test]
fn tools_do_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::with(HANDLER, LIMITS, with_files(folder.path()));
    assert_eq!(failures(&fixture), [""; 0]);
}

#[test]
fn files_of_no_folder_can_be_reached_until_one_is_named() {
    let handler = "import { tools } from 'forebay/rules';
        export default ({ path }) => {
            try {
                tools.Files.writeFromString(path, 'x');
                return 'written';
            } catch (error) {
                return error.message;
            }
        };";
    let none = Fixture::new(handler);
    let answer = none.executor(&get("/new.txt")).unwrap();
    assert!(
        text(&answer).starts_with("`/new.txt` cannot be reached") && text(&answer).contains("`allow.files`")
    );

    let folder = tempfile::tempdir().unwrap();
    let one = Fixture::with(handler, LIMITS, with_files(folder.path()));
    assert_eq!(text(&one.executor(&get("/new.txt")).unwrap()), "written");
    assert_eq!(std::fs::read(folder.path().join("new.txt")).unwrap(), b"x");
    assert!(text(&one.executor(&get("/a/../../new.txt")).unwrap()).contains("leads up with `..`"));
}

#[test]
fn an_executor_uses_files_and_no_io_thread_does() {
    let folder = tempfile::tempdir().unwrap();
    let handler = "import { tools } from 'forebay/rules';
        export default () => { tools.Files.writeFromString('log', 'x', true); return 'written'; };";
    let fixture = Fixture::with(handler, LIMITS, with_files(folder.path()));
    assert!(fixture.io().call(&get("/")).is_none());
    assert_eq!(text(&fixture.executor(&get("/")).unwrap()), "written");
    assert_eq!(std::fs::read(folder.path().join("log")).unwrap(), b"x");
}

#[test]
fn the_search_for_keys_ends_with_the_time_of_its_call() {
    let handler = "import { tools } from 'forebay/rules';
        export default () => {
            for (;;) {
                try { tools.RSA.generateKeyToBase64(4096); } catch {}
            }
        };";
    let limits = forebay_script::Limits {
        cpu_max: std::time::Duration::from_millis(100),
        ..LIMITS
    };
    let fixture = Fixture::with(handler, limits, Allow::default());
    let began = std::time::Instant::now();
    let failure = fixture.executor(&get("/")).unwrap_err();
    assert!(
        matches!(failure, forebay_script::Failure::Time { limit: "cpu_max", .. }),
        "{failure}"
    );
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}
