//! `forebay load --preset tfb` over the routes of a server.

use std::{fs, path::Path};

use forebay_testkit::{Folder, Postgres};
use serde_json::Value;

use crate::{
    load::json,
    run::{Ended, Serving, forebay, run, workspace},
};

/// Connections and rows of a measurement.
type Level = (u64, Option<u64>);

/// The names of tests and what was measured of them.
fn rungs(found: &Value) -> Vec<(String, Vec<Level>)> {
    let test = |test: &Value| {
        let rungs = test["rungs"].as_array().unwrap().iter();
        let rungs = rungs.map(|rung| (rung["connections"].as_u64().unwrap(), rung["rows"].as_u64()));
        (test["test"].as_str().unwrap().to_owned(), rungs.collect())
    };
    found["tests"].as_array().unwrap().iter().map(test).collect()
}

fn climb(serving: &Serving, words: &[&str]) -> Ended {
    let url = format!("http://{}/", serving.address());
    let own = ["load", "--preset", "tfb", &url, "-d", "0.1", "--warmup", "0"];
    run(Path::new("."), &[&own, words].concat())
}

/// A server with these routes beside a script, `handler.mjs`.
fn serving(routes: &str, handler: &str) -> (Folder, Serving) {
    let folder = Folder::new();
    folder.write(
        "forebay.toml",
        format!("[script.s]\nhandler = \"handler.mjs\"\n{routes}"),
    );
    folder.write("handler.mjs", handler);
    let serving = Serving::start(folder.path(), &[]);
    (folder, serving)
}

const HELLO: &str = "export default () => 'Hello, World!'\n";
const PLAINTEXT: &str = "[[route]]\npath = \"/plaintext\"\nscript = \"s\"\n";

#[test]
fn all_tests_are_checked_and_measured_with_each_level() {
    let folder = Folder::new();
    let example = workspace().join("examples/techempower");
    fs::create_dir(folder.path().join("handlers")).unwrap();
    for file in [
        "forebay.toml",
        "handlers/cache.mjs",
        "handlers/fortunes.mjs",
        "handlers/hello.mjs",
        "handlers/worlds.mjs",
    ] {
        fs::copy(example.join(file), folder.path().join(file)).unwrap();
    }
    let mut command = forebay(
        folder.path(),
        &["serve", "--listen", "127.0.0.1:0", "--admin", "off"],
    );
    command.env("FOREBAY_PG_URL", Postgres::shared().url());
    let serving = Serving::spawn(folder.path(), command);
    let page = folder.path().join("page.html");
    let html = page.to_str().unwrap();
    let ended = climb(
        &serving,
        &["--levels", "2,4", "--rows", "1,3", "--json", "--html", html],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let found = json(&ended);
    let (connections, rows) = (vec![(2, None), (4, None)], vec![(4, Some(1)), (4, Some(3))]);
    let expected: Vec<(String, Vec<Level>)> = [
        ("json", &connections),
        ("plaintext", &connections),
        ("db", &connections),
        ("queries", &rows),
        ("queries2", &rows),
        ("fortunes", &connections),
        ("cached-queries", &rows),
        ("updates", &rows),
    ]
    .map(|(name, rungs)| (name.to_owned(), rungs.clone()))
    .into();
    assert_eq!(rungs(&found), expected);
    for test in found["tests"].as_array().unwrap() {
        assert!(test["best"]["per_second"].as_f64().unwrap() > 0.0, "{test}");
        assert!(
            test["best"]["latency_ms"]["p99"].as_f64().unwrap() > 0.0,
            "{test}"
        );
        assert_eq!(test["best"]["errors"], 0, "{test}");
    }
    assert_eq!(
        found["tests"][3]["best"]["rows"], 3,
        "where rows are asked for, the most count"
    );
    assert!(fs::read_to_string(&page).unwrap().contains("/queries?queries=3"));
}

#[test]
fn a_table_has_a_line_for_each_level_and_progress_is_told() {
    let (_folder, serving) = serving(PLAINTEXT, HELLO);
    let ended = climb(&serving, &["--tests", "plaintext", "--levels", "2,4"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<&str> = ended
        .out
        .lines()
        .filter(|line| line.contains("plaintext"))
        .collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert_eq!(
        lines.iter().filter(|line| line.starts_with('*')).count(),
        1,
        "{ended:?}"
    );
    for (line, level) in lines.iter().zip(["2 connections", "4 connections"]) {
        for part in [level, "/s", "p50", "p99", "errors 0"] {
            assert!(line.contains(part), "{line}");
        }
    }
    for told in ["plaintext: warming up", "2 connections", "4 connections"] {
        assert!(ended.err.contains(told), "{told}: {ended:?}");
    }
}

#[test]
fn a_wrong_answer_is_told_and_not_measured() {
    let routes = format!(
        "{PLAINTEXT}[[route]]\npath = \"/db\"\nrespond = {{ json = {{ id = 1, randomnumber = 2 }} }}\n"
    );
    let (_folder, serving) = serving(&routes, HELLO);
    let ended = climb(
        &serving,
        &[
            "--tests",
            "db,plaintext,queries2",
            "--levels",
            "2",
            "--json",
            "--quiet",
        ],
    );
    assert_eq!(ended.code, 3, "{ended:?}");
    let found = json(&ended);
    assert_eq!(found["tests"][0]["wrong"]["target"], "/db", "{found}");
    assert_eq!(
        found["tests"][0]["wrong"]["problem"],
        "found {\"id\":1,\"randomnumber\":2}, expected `id` and `randomNumber`, each from 1 to 10000"
    );
    assert_eq!(
        found["tests"][2]["wrong"]["problem"],
        "found status 404, expected 200"
    );
    let measured: Vec<usize> = rungs(&found).iter().map(|(_, rungs)| rungs.len()).collect();
    assert_eq!(measured, [0, 1, 0]);
    assert!(
        ended
            .err
            .contains("error: 2 of 3 tests failed; db: the answer to GET /db is wrong: found"),
        "{ended:?}"
    );
}

#[test]
fn errors_under_load_fail_the_test() {
    let handler = "let calls = 0\nexport default () => {\n  calls += 1\n  \
        if (calls > 20) throw new Error('too many')\n  return 'Hello, World!'\n}\n";
    let (_folder, serving) = serving(PLAINTEXT, handler);
    let ended = climb(
        &serving,
        &["--tests", "plaintext", "--levels", "2", "--json", "--quiet"],
    );
    assert_eq!(ended.code, 3, "{ended:?}");
    let found = json(&ended);
    let rung = &found["tests"][0]["rungs"][0];
    assert!(rung["errors"].as_u64().unwrap() > 0, "{found}");
    assert!(
        ended.err.contains("1 of 1 tests failed; plaintext: "),
        "{ended:?}"
    );
    assert!(ended.err.contains("status 500"), "{ended:?}");
}

#[test]
fn a_route_that_the_benchmarks_do_not_have_may_be_missing() {
    let (_folder, serving) = serving(PLAINTEXT, HELLO);
    let ended = climb(&serving, &["--levels", "2", "--json"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let names: Vec<String> = rungs(&json(&ended)).into_iter().map(|(name, _)| name).collect();
    assert!(!names.contains(&"queries2".to_owned()), "{names:?}");
    assert_eq!(names.len(), 7);
    assert!(ended.err.contains("queries2: left out"), "{ended:?}");
}

#[test]
fn what_does_not_fit_the_tests_is_refused() {
    let (_folder, serving) = serving(PLAINTEXT, HELLO);
    let url = format!("http://{}/", serving.address());
    let path = format!("{url}plaintext");
    for (words, told) in [
        (
            &["--preset", "tfb", &path, "--tests", "db"][..],
            "--tests is for the routes of all tests",
        ),
        (
            &["--preset", "tfb", &url, "--pipeline", "2"],
            "--pipeline is what the tests of tfb decide",
        ),
        (
            &["--preset", "tfb", &url, "--tests", "dbs"],
            "found \"dbs\", expected one of json, plaintext",
        ),
        (&["--preset", "tfb", &url, "--rows", "501"], "501"),
        (&[&url, "--tests", "db"], "--preset"),
    ] {
        let ended = run(Path::new("."), &[&["load"], words].concat());
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        assert!(ended.err.contains(told), "{words:?}: {ended:?}");
    }
}
