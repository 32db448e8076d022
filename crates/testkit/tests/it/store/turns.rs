//! Long reads: others on the same thread get their turn meanwhile.

use std::time::Duration;

use forebay_store::{Durability, Key, StoreError};
use forebay_testkit::{Client, Server};

use super::{open, setup, text};

/// Nodes that take a thread many milliseconds to read.
const NODES: usize = 100_000;
/// Number of others that must be answered before the long response begins. Only one of them can have been requested in the same moment.
const OTHERS: usize = 3;
/// Number of documents that can be read in pieces at a time.
const PLACES: usize = 128;
/// Number of attempts: whether there is time for so many others depends on the machine.
const TRIES: usize = 50;

/// A server with one thread and a document of this many nodes.
fn start(keys: &str, nodes: usize) -> (Server, String) {
    let server = setup(keys, "").threads(1).start();
    let members: Vec<String> = (0..nodes)
        .map(|at| format!("\"k{at:06}\":{{\"n\":{at}}}"))
        .collect();
    let many = format!("{{{}}}", members.join(","));
    fill(&server, [("Open", "many".to_owned(), many.clone())]);
    (server, many)
}

/// Writes documents in the server's store: children of globals, by their names.
pub(crate) fn fill(server: &Server, documents: impl IntoIterator<Item = (&'static str, String, String)>) {
    let fill = || -> Result<(), StoreError> {
        let store = open(server);
        let mut transaction = store.begin()?;
        for (global, child, document) in documents {
            let key = Key::global(global)?.child(&child)?;
            transaction.put(&key, document.as_bytes())?;
        }
        transaction.commit(Durability::Sync)?;
        Ok(())
    };
    fill().expect("the store takes what is written");
}

/// Repeats a long request until enough others are answered before it.
pub(crate) fn others_are_answered_before(server: &Server, target: &str) {
    let (mut long, mut short): (Client, Client) = (server.connect(), server.connect());
    let mut most = 0;
    for _ in 0..TRIES {
        long.request("GET", target);
        let mut others = 0;
        while !long.is_readable_within(Duration::ZERO) {
            assert_eq!(short.get("/here").text(), "here");
            others += 1;
        }
        assert_eq!(long.response().status, 200, "{target}");
        most = most.max(others);
        // The last of them may have been answered after the long response.
        if most > OTHERS {
            return;
        }
    }
    panic!("at most {most} others were answered before {target}");
}

#[test]
fn others_are_answered_while_a_long_document_is_put_together() {
    let (server, many) = start("", NODES);
    let mut client = server.connect();
    assert!(text(&mut client, "/store/Open/many") == many, "it is whole");
    let empty = text(&mut client, "/store/Open/many?depth=1");
    assert!(
        empty.starts_with(r#"{"k000000":{},"k000001":{},"#),
        "{}",
        &empty[..100]
    );
    assert_eq!(empty.matches(":{}").count(), NODES);
    for target in ["/store/Open/many", "/store/Open/many?depth=1"] {
        others_are_answered_before(&server, target);
    }
}

#[test]
fn others_are_answered_while_many_children_are_read() {
    let (server, _) = start("", NODES);
    others_are_answered_before(&server, "/store/Open/many?limit=10000");
    let mut client = server.connect();
    // A child may be as long as a document.
    assert_eq!(text(&mut client, "/store/Open?keys"), "[\"many\"]");
    others_are_answered_before(&server, "/store/Open?limit=1");
}

#[test]
fn a_document_that_becomes_too_long_is_refused() {
    let (server, _) = start("value_bytes_max = \"1MiB\"", NODES);
    let refused = server.get("/store/Open/many");
    assert_eq!(refused.status, 413, "{refused:?}");
    assert!(refused.detail().contains("1048576"), "{}", refused.detail());
}

#[test]
fn whoever_finds_no_place_waits_for_one() {
    let (server, _) = start("", NODES / 5);
    let mut clients: Vec<Client> = (0..PLACES + 30).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.request("GET", "/store/Open/many?depth=1");
    }
    // A client that leaves frees its slot for others.
    clients.remove(0);
    for client in &mut clients {
        let answer = client.response();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}
