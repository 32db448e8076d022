//! Measures the store's throughput in one process, next to the raw engine it is built on, in a single run.
//!
//! `cargo run --release -p forebay-store --example rates [-- NODES [ROUNDS]]` prints one JSON object: operations per
//! second, the median of the rounds. Keys have four subscripts: `^Bench("data", i/1000, i%1000, "name")`; values are
//! short strings; documents have five fields. Reads are scattered, in no sequential order.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the terminal"
)]

#[allow(unsafe_code, reason = "`sys.rs` calls the engine")]
mod sys;

use std::{env, hint::black_box, time::Instant};

use forebay_store::{Durability, Key, Options, Read, Store};

const BATCH: usize = 1000;
const DOCUMENT: &str =
    r#"{"age":36,"city":"London","email":"ada@example.org","firstName":"Ada","lastName":"Lovelace"}"#;

fn leaf(root: &Key, number: usize) -> Key {
    let mut key = root.clone();
    key.push(&(number / 1000).to_string()).unwrap();
    key.push(&(number % 1000).to_string()).unwrap();
    key.push("name").unwrap();
    key
}

fn record(root: &Key, number: usize) -> Key {
    let mut key = root.clone();
    key.push(&number.to_string()).unwrap();
    key
}

/// Operations per second that `work` achieves.
fn rate(operations: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    operations as f64 / began.elapsed().as_secs_f64()
}

fn write(store: &Store, nodes: usize, mut each: impl FnMut(&mut forebay_store::Transaction, usize)) {
    for first in (0..nodes).step_by(BATCH) {
        let mut transaction = store.begin().unwrap();
        for number in first..(first + BATCH).min(nodes) {
            each(&mut transaction, number);
        }
        transaction.commit(Durability::Relaxed).unwrap();
    }
}

fn main() {
    let mut arguments = env::args()
        .skip(1)
        .map(|argument| argument.parse::<usize>().expect("a number"));
    let nodes = arguments.next().unwrap_or(1_000_000);
    let rounds = arguments.next().unwrap_or(5);
    let folder = tempfile::tempdir().unwrap();
    let data = Key::global("Bench").unwrap().child("data").unwrap();
    let people = Key::global("Person").unwrap().child("data").unwrap();
    // The stride has no common divisor with the count, so every node is visited once, in scattered order.
    let scattered = |index: usize| index * 7_368_787 % nodes;
    let mut results: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut note = |what: &'static str, rate: f64| match results.iter_mut().find(|(name, _)| *name == what) {
        Some((_, rates)) => rates.push(rate),
        None => results.push((what, vec![rate])),
    };
    for _ in 0..rounds {
        let store = Store::open(folder.path(), &Options::default()).unwrap();
        note(
            "leaf_set_in_transaction",
            rate(nodes, || {
                write(&store, nodes, |transaction, number| {
                    transaction.set(&leaf(&data, number), b"\"hello world\"").unwrap();
                });
            }),
        );
        note(
            "document_set_in_transaction",
            rate(nodes / 5, || {
                write(&store, nodes / 5, |transaction, number| {
                    transaction
                        .put(&record(&people, number), DOCUMENT.as_bytes())
                        .unwrap();
                });
            }),
        );
        store.flush().unwrap();
        note(
            "leaf_get_each_its_own_snapshot",
            rate(nodes, || {
                for index in 0..nodes {
                    let snapshot = store.snapshot().unwrap();
                    black_box(
                        snapshot
                            .get(&leaf(&data, scattered(index)))
                            .unwrap()
                            .unwrap()
                            .len(),
                    );
                }
            }),
        );
        let snapshot = store.snapshot().unwrap();
        note(
            "leaf_get",
            rate(nodes, || {
                for index in 0..nodes {
                    black_box(
                        snapshot
                            .get(&leaf(&data, scattered(index)))
                            .unwrap()
                            .unwrap()
                            .len(),
                    );
                }
            }),
        );
        note(
            "document_get",
            rate(nodes / 5, || {
                for index in 0..nodes / 5 {
                    black_box(
                        snapshot
                            .document(&record(&people, scattered(index) / 5))
                            .unwrap()
                            .unwrap()
                            .len(),
                    );
                }
            }),
        );
        note(
            "iterate_nodes",
            rate(nodes, || {
                let count = snapshot.values(&data).unwrap().inspect(|found| {
                    black_box(found.as_ref().unwrap().1.len());
                });
                assert_eq!(count.count(), nodes);
            }),
        );
        drop(snapshot);
        drop(store);
        let raw = sys::Raw::open(folder.path());
        note(
            "engine_get",
            rate(nodes, || {
                for index in 0..nodes {
                    raw.get(leaf(&data, scattered(index)).as_bytes());
                }
            }),
        );
        let mut count = 0;
        let walked = rate(nodes + nodes / 5, || count = raw.walk());
        assert_eq!(count, nodes + nodes / 5);
        note("engine_iterate", walked);
    }
    let members: Vec<String> = results
        .into_iter()
        .map(|(name, mut rates)| {
            rates.sort_by(f64::total_cmp);
            format!("\"{name}\":{:.0}", rates[rates.len() / 2])
        })
        .collect();
    println!("{{\"nodes\":{nodes},\"rounds\":{rounds},{}}}", members.join(","));
}
