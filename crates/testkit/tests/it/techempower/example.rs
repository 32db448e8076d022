//! `examples/techempower`, checked against the rules.

use forebay_testkit::{
    Postgres, Server, Setup,
    techempower::{Kind, verify},
};

const CONFIG: &str = include_str!("../../../../../examples/techempower/forebay.toml");
const HANDLERS: [(&str, &str); 4] = [
    (
        "handlers/cache.mjs",
        include_str!("../../../../../examples/techempower/handlers/cache.mjs"),
    ),
    (
        "handlers/fortunes.mjs",
        include_str!("../../../../../examples/techempower/handlers/fortunes.mjs"),
    ),
    (
        "handlers/hello.mjs",
        include_str!("../../../../../examples/techempower/handlers/hello.mjs"),
    ),
    (
        "handlers/worlds.mjs",
        include_str!("../../../../../examples/techempower/handlers/worlds.mjs"),
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
