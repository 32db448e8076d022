//! `examples/techempower`, held against the rules.

use forebay_testkit::{
    Postgres, Server, Setup,
    techempower::{Kind, verify},
};

const CONFIG: &str = include_str!("../../../../../examples/techempower/forebay.toml");
const HELLO: &str = include_str!("../../../../../examples/techempower/handlers/hello.mjs");

fn example(postgres: &Postgres, driver: &str) -> Server {
    Setup::new(CONFIG)
        .file("handlers/hello.mjs", HELLO)
        .env("FOREBAY_PG_URL", &postgres.url())
        .env("FOREBAY_PG_DRIVER", driver)
        .start()
}

fn keeps_the_rules_with_both_drivers(postgres: &Postgres) {
    for driver in ["async", "blocking"] {
        let server = example(postgres, driver);
        for kind in [Kind::Json, Kind::Plaintext, Kind::Db] {
            verify(&server, postgres, kind);
        }
    }
}

#[test]
fn the_example_keeps_the_rules_with_both_drivers_on_the_postgresql_that_is_installed() {
    keeps_the_rules_with_both_drivers(&Postgres::start());
}

#[test]
fn the_example_keeps_the_rules_with_both_drivers_on_the_newest_postgresql() {
    keeps_the_rules_with_both_drivers(&Postgres::start_newest());
}

#[test]
fn the_routes_of_the_example_answer_get_alone() {
    let server = example(Postgres::shared(), "async");
    for path in ["/json", "/plaintext", "/db"] {
        assert_eq!(server.post(path, b"").status, 405, "{path}");
    }
}
