//! Copies of whole subtrees, however large.

use forebay_store::{Durability, Key, Options, Read, Store, StoreError};

use super::Home;

fn key(global: &str, path: &[&str]) -> Key {
    let mut key = Key::global(global).unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

#[test]
fn a_subtree_of_many_megabytes_is_laid_over_another() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let (from, to, expected) = (key("From", &[]), key("To", &["here"]), key("Expected", &[]));
    // Several times the copy buffer: short and long records, arrays, packs, and values next to children.
    let text = "x".repeat(100_000);
    let member = |number| {
        let numbers = (0..2000).map(|element: u32| element.to_string());
        let long = format!("[{}]", numbers.collect::<Vec<_>>().join(","));
        format!("\"{number}\":{{\"long\":{long},\"short\":[1,{{\"a\":[]}}],\"text\":\"{text}\"}}")
    };
    let source = format!("{{{}}}", (0..40).map(member).collect::<Vec<_>>().join(","));
    let before = r#"{"0":5,"1":{"long":[7],"short":{"a":1},"own":2},"39":{"text":3},"x":{}}"#;
    let mut transaction = store.begin().unwrap();
    transaction.put(&from, source.as_bytes()).unwrap();
    for root in [&to, &expected] {
        transaction.put(root, before.as_bytes()).unwrap();
    }
    transaction.lay_over(&expected, source.as_bytes()).unwrap();
    for root in [&from, &expected] {
        let node = root.child("20").unwrap().child("short").unwrap();
        transaction.set(&node, b"\"besides\"").unwrap();
    }
    transaction.merge(&to, &from).unwrap();
    let values = |root: &Key| -> Vec<(String, Vec<u8>)> {
        let found = transaction.values(root).unwrap().map(|found| {
            let (key, value) = found.unwrap();
            let below = key.as_bytes()[root.as_bytes().len()..].escape_ascii().to_string();
            (below, value.to_vec())
        });
        found.collect()
    };
    assert!(values(&to) == values(&expected));
    assert!(transaction.document(&to).unwrap() == transaction.document(&expected).unwrap());
    transaction.commit(Durability::Relaxed).unwrap();
}

#[test]
fn what_is_copied_counts_for_what_one_transaction_can_write() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let (from, to) = (key("From", &[]), key("To", &[]));
    let bytes = 60 << 20;
    store
        .transact(|transaction| transaction.set(&from, format!("\"{}\"", "x".repeat(bytes)).as_bytes()))
        .unwrap();
    let mut transaction = store.begin().unwrap();
    let mut copied = 0;
    let refused = loop {
        if let Err(error) = transaction.merge(&to, &from) {
            break error;
        }
        copied += 1;
        assert!(copied < 100, "nothing counts the copies");
        // So that at most one copy exists at a time.
        transaction.kill(&to).unwrap();
    };
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    assert_eq!(copied, (1 << 30) / bytes);
    assert!(matches!(
        transaction.commit(Durability::Relaxed),
        Err(StoreError::Broken)
    ));
}
