//! Records in a store in a database.

use std::path::PathBuf;

use forebay_testkit::postgres::Schema;

#[path = "both/mod.rs"]
mod both;

/// Each case waits for the network often.
const FEWER_CASES: u32 = 10;

type Home = Schema;

fn home() -> (Home, PathBuf) {
    let schema = Schema::new();
    let url = schema.url().into();
    (schema, url)
}
