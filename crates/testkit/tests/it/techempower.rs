//! `examples/techempower`, checked against the rules.

use forebay_testkit::{
    Postgres, Server, Setup, command,
    techempower::{Kind, verify},
};
use serde_json::Value;

const CONFIG: &str = include_str!("../../../../examples/techempower/forebay.toml");
const HANDLERS: [(&str, &str); 4] = [
    (
        "handlers/cache.mjs",
        include_str!("../../../../examples/techempower/handlers/cache.mjs"),
    ),
    (
        "handlers/fortunes.mjs",
        include_str!("../../../../examples/techempower/handlers/fortunes.mjs"),
    ),
    (
        "handlers/hello.mjs",
        include_str!("../../../../examples/techempower/handlers/hello.mjs"),
    ),
    (
        "handlers/worlds.mjs",
        include_str!("../../../../examples/techempower/handlers/worlds.mjs"),
    ),
];

fn example(postgres: &Postgres, driver: &str) -> Server {
    let setup = Setup::new(CONFIG)
        .env("FOREBAY_PG_URL", &postgres.url())
        .env("FOREBAY_PG_DRIVER", driver);
    let files = HANDLERS.iter();
    files
        .fold(setup, |setup, (name, content)| setup.file(name, content))
        .start()
}

fn keeps_the_rules(postgres: &Postgres, driver: &str) {
    let server = example(postgres, driver);
    for kind in Kind::ALL {
        verify(&server, postgres, kind);
    }
}

#[test]
fn the_example_keeps_all_rules_on_the_postgresql_that_is_installed() {
    keeps_the_rules(&Postgres::start(), "async");
}

#[test]
fn the_example_keeps_all_rules_with_the_blocking_driver_alone() {
    keeps_the_rules(&Postgres::start(), "blocking");
}

#[test]
fn the_example_keeps_all_rules_on_the_newest_postgresql() {
    keeps_the_rules(&Postgres::start_newest(), "async");
}

#[test]
fn the_routes_of_the_example_answer_get_alone() {
    let server = example(Postgres::shared(), "async");
    for kind in Kind::ALL {
        let path = kind.path();
        assert_eq!(server.post(path, b"").status, 405, "{path}");
    }
}

#[test]
fn the_benchmark_of_the_routes_has_figures_for_each() {
    let postgres = Postgres::start();
    let words = [
        "bench",
        "sql",
        "--quick",
        "--slice",
        "100ms",
        "--connections",
        "4",
        "--json",
    ];
    let output = command(&words)
        .env("FOREBAY_PG_URL", postgres.url())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let result: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    let rows = result["rungs"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{result}");
    for row in rows {
        assert!(
            row["requests_per_second"].as_f64().is_some_and(|rate| rate > 0.0),
            "{row}"
        );
        assert_eq!(row["slices"], 2, "{row}");
    }
}
