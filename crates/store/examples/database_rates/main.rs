//! Measures a store in a database beside the bare statements that it could not do without, on the same kind of connection, in one run.
//!
//! `cargo run --release -p forebay-store --example database_rates -- URL [SECONDS]` prints one JSON object: operations per second of one
//! thread, medians of five interleaved rounds. The store is made in the schema `rates`, and its reads are of documents of 100 bytes.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the terminal"
)]

use std::{
    env,
    path::Path,
    time::{Duration, Instant},
};

use forebay_pg::{BlockingConnection, Driver, ServerUrl, Settings};
use forebay_store::{Durability, Key, Options, Store, StoreError};

const DOCUMENT: &[u8] =
    br#"{"age":36,"city":"London","email":"ada@example.org","firstName":"Ada","lastName":"Lovelace"}"#;
const DOCUMENTS: usize = 10_000;
const ROUNDS: usize = 5;
/// Writes that share a transaction, as the server's writer has them share one.
const GROUP: usize = 64;

fn key(number: usize) -> Key {
    Key::global("Bench")
        .unwrap()
        .child(&(number * 7919 % DOCUMENTS).to_string())
        .unwrap()
}

/// Operations per second of a round.
fn rate(time: Duration, mut operation: impl FnMut(usize) -> usize) -> f64 {
    let (began, mut count, mut number) = (Instant::now(), 0, 0);
    while began.elapsed() < time {
        count += operation(number);
        number += 1;
    }
    count as f64 / began.elapsed().as_secs_f64()
}

fn main() {
    let url = env::args().nth(1).expect("a URL");
    let seconds = env::args().nth(2).map_or(2, |seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds);
    let server: ServerUrl = url.parse().unwrap();
    let settings = Settings {
        server,
        driver: Driver::Blocking,
        connections_max: 2,
        connections_min: 0,
        connection_age_max: Duration::MAX,
        idle_timeout: Duration::MAX,
        leak_warning: Duration::MAX,
        in_flight_max: 1,
        result_bytes_max: 1 << 20,
        acquire_timeout: time,
        connect_timeout: time,
        slow_query: None,
        statement_timeout: Duration::from_secs(10),
    };
    let separator = if url.contains('?') { '&' } else { '?' };
    let location = format!("{url}{separator}schema=rates");
    let store = Store::open(Path::new(&location), &Options::default()).unwrap();
    for first in (0..DOCUMENTS).step_by(1000) {
        let put = |transaction: &mut forebay_store::Transaction| {
            (first..first + 1000).try_for_each(|number| transaction.put(&key(number), DOCUMENT))
        };
        store.transact(put).unwrap();
    }
    let mut bare = BlockingConnection::connect(&settings).unwrap();
    let until = || Instant::now() + Duration::from_secs(10);
    let stored_key = |number: usize| [&[1], key(number).as_bytes()].concat();
    let mut select = |number: usize| {
        let key = stored_key(number);
        let rows = bare
            .run(
                &[("select value from rates.entries where key = $1", &[Some(&key)])],
                until(),
            )
            .remove(0)
            .unwrap();
        assert_eq!(rows.rows.len(), 1);
        1
    };
    let read = |number: usize| {
        let found = store.read(|reader| {
            let found = forebay_store::Read::document(reader, &key(number))?;
            Ok::<_, StoreError>(found.map_or(0, |found| found.len()))
        });
        assert_eq!(found.unwrap(), DOCUMENT.len());
        1
    };
    let children = |_: usize| {
        let found = store.read(|reader| {
            let range = forebay_store::Range::default();
            let children = forebay_store::Read::children(reader, &Key::global("Bench").unwrap(), range)?;
            Ok::<_, StoreError>(children.take(100).count())
        });
        assert_eq!(found.unwrap(), 100);
        1
    };
    let mut other = BlockingConnection::connect(&settings).unwrap();
    let mut update = |number: usize| {
        let key = stored_key(number);
        let statement = "update rates.entries set value = value where key = $1";
        other
            .run(&[(statement, &[Some(&key)])], until())
            .remove(0)
            .unwrap();
        1
    };
    let write = |number: usize, count: usize| {
        let mut transaction = store.begin().unwrap();
        for at in 0..count {
            transaction.put(&key(number * count + at), DOCUMENT).unwrap();
        }
        transaction.commit(Durability::Group).unwrap();
        count
    };
    let mut rounds: [Vec<f64>; 6] = Default::default();
    for _ in 0..ROUNDS {
        let rates = [
            rate(time, &mut select),
            rate(time, read),
            rate(time, children),
            rate(time, &mut update),
            rate(time, |number| write(number, 1)),
            rate(time, |number| write(number, GROUP)),
        ];
        rounds
            .iter_mut()
            .zip(rates)
            .for_each(|(round, rate)| round.push(rate));
    }
    let median = |mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[ROUNDS / 2].round()
    };
    let [select, read, page, update, alone, grouped] = rounds.map(median);
    println!(
        "{{\"select\":{select},\"read\":{read},\"read_per_select\":{:.2},\"page_of_100_children\":{page},\"update\":{update},\"write\":{alone},\"write_in_groups_of_{GROUP}\":{grouped}}}",
        read / select
    );
}
