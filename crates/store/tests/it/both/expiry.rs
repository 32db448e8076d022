//! Expiry of nodes.

use std::time::{Duration, Instant};

use forebay_store::{Key, Options, Read, Store, StoreError, index::Definition};

use super::Home;

const PAST: u64 = 1_000;
const FUTURE: u64 = 99_999_999_999_999;

type Change = fn(&mut forebay_store::Transaction) -> Result<(), StoreError>;

fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

/// A store that removes no expired nodes on its own.
fn store(folder: &Home) -> Store {
    drop(Store::open(folder.path(), &Options::default()).unwrap());
    let options = Options {
        lead: false,
        ..Options::default()
    };
    Store::open(folder.path(), &options).unwrap()
}

#[test]
fn what_is_due_is_removed_and_nothing_else() {
    let folder = Home::new();
    let store = store(&folder);
    store
        .transact(|transaction| {
            transaction.put(&key(&["doc"]), b"{\"a\":1,\"b\":2}")?;
            transaction.set(&key(&["later"]), b"1")?;
            assert!(transaction.expire(&key(&["doc", "a"]), Some(PAST))?);
            assert!(transaction.expire(&key(&["later"]), Some(FUTURE))?);
            assert!(!transaction.expire(&key(&["absent"]), Some(PAST))?);
            Ok::<_, StoreError>(())
        })
        .unwrap();
    assert_eq!(
        store.snapshot().unwrap().expires(&key(&["later"])).unwrap(),
        Some(FUTURE)
    );
    assert_eq!(store.sweep().unwrap(), 1);
    assert_eq!(store.sweep().unwrap(), 0);
    let snapshot = store.snapshot().unwrap();
    assert_eq!(
        *snapshot.document(&key(&[])).unwrap().unwrap(),
        b"{\"doc\":{\"b\":2},\"later\":1}"[..]
    );
    assert_eq!(snapshot.expires(&key(&["doc", "a"])).unwrap(), None);
}

#[test]
fn writing_a_node_anew_takes_its_time_back() {
    let folder = Home::new();
    let store = store(&folder);
    let changes: [(Change, Option<u64>); 7] = [
        (|transaction| transaction.set(&key(&["a", "x"]), b"2"), None),
        (|transaction| transaction.put(&key(&["a"]), b"{\"x\":2}"), None),
        (|transaction| transaction.kill(&key(&["a"])).map(|_| ()), None),
        (
            |transaction| transaction.expire(&key(&["a", "x"]), None).map(|_| ()),
            None,
        ),
        (
            |transaction| transaction.expire(&key(&["a", "x"]), Some(7)).map(|_| ()),
            Some(7),
        ),
        (
            |transaction| transaction.increment(&key(&["a", "x"]), "1").map(|_| ()),
            Some(PAST),
        ),
        (|transaction| transaction.set(&key(&["a"]), b"2"), Some(PAST)),
    ];
    for (index, (change, expected)) in changes.into_iter().enumerate() {
        store
            .transact(|transaction| {
                transaction.kill(&key(&[]))?;
                transaction.set(&key(&["a", "x"]), b"1")?;
                transaction.expire(&key(&["a", "x"]), Some(PAST))?;
                change(transaction)
            })
            .unwrap();
        let snapshot = store.snapshot().unwrap();
        assert_eq!(
            snapshot.expires(&key(&["a", "x"])).unwrap(),
            expected,
            "change {index}"
        );
        drop(snapshot);
        assert_eq!(
            store.sweep().unwrap(),
            u64::from(expected.is_some()),
            "change {index}"
        );
    }
}

#[test]
fn a_store_that_leads_removes_what_is_due_by_itself() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    store
        .transact(|transaction| {
            transaction.set(&key(&["a"]), b"1")?;
            transaction.expire(&key(&["a"]), Some(PAST))
        })
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while store.snapshot().unwrap().defined(&key(&["a"])).unwrap().exists() {
        assert!(Instant::now() < patience, "nobody removed the node");
        std::thread::yield_now();
    }
}

#[test]
fn a_node_that_goes_with_its_last_child_takes_its_time_along() {
    let folder = Home::new();
    let store = store(&folder);
    store
        .transact(|transaction| {
            transaction.set(&key(&["session", "user"]), b"1")?;
            transaction.expire(&key(&["session"]), Some(PAST))?;
            transaction.kill(&key(&["session", "user"]))?;
            transaction.set(&key(&["session", "user"]), b"2")
        })
        .unwrap();
    assert_eq!(store.sweep().unwrap(), 0);
    assert!(
        store
            .snapshot()
            .unwrap()
            .defined(&key(&["session", "user"]))
            .unwrap()
            .exists()
    );
}

#[test]
fn one_node_that_cannot_go_keeps_no_other() {
    let folder = Home::new();
    let store = store(&folder);
    let definition = Definition {
        name: "a".into(),
        records: key(&[]),
        fields: vec![vec!["a".into()]],
        unique: true,
    };
    store
        .transact(|transaction| {
            transaction.define_index(&definition)?;
            transaction.set(&key(&["1", "a"]), b"7")?;
            // Without its child, this node would have the same value.
            transaction.set(&key(&["2", "a", "child"]), b"1")?;
            transaction.set(&key(&["2", "a"]), b"7")?;
            transaction.set(&key(&["earlier"]), b"1")?;
            transaction.set(&key(&["other"]), b"1")?;
            transaction.expire(&key(&["earlier"]), Some(PAST - 1))?;
            transaction.expire(&key(&["2", "a", "child"]), Some(PAST))?;
            transaction.expire(&key(&["other"]), Some(PAST + 1))
        })
        .unwrap();
    assert_eq!(store.sweep().unwrap(), 2);
    let mut snapshot = store.snapshot().unwrap();
    assert!(!snapshot.defined(&key(&["earlier"])).unwrap().exists());
    assert!(!snapshot.defined(&key(&["other"])).unwrap().exists());
    assert!(snapshot.expires(&key(&["2", "a", "child"])).unwrap().unwrap() > PAST + 1);
    snapshot.verify_indexes().unwrap();
}

#[test]
fn a_damaged_node_that_is_due_keeps_no_other() {
    let folder = Home::new();
    let content = b"these bytes are damaged";
    let whole = store(&folder);
    whole
        .transact(|transaction| {
            transaction.set(&key(&["damaged"]), &[b"\"", &content[..], b"\""].concat())?;
            transaction.set(&key(&["other"]), b"1")?;
            transaction.expire(&key(&["damaged"]), Some(PAST))?;
            transaction.expire(&key(&["other"]), Some(PAST + 1))
        })
        .unwrap();
    drop(whole);
    folder.damage(content);
    let store = store(&folder);
    let damaged = store.snapshot().unwrap().get(&key(&["damaged"])).map(drop);
    assert!(matches!(damaged, Err(StoreError::Damaged { .. })), "{damaged:?}");
    assert_eq!(store.sweep().unwrap(), 1);
    let snapshot = store.snapshot().unwrap();
    assert!(!snapshot.defined(&key(&["other"])).unwrap().exists());
    assert!(snapshot.expires(&key(&["damaged"])).unwrap().unwrap() > PAST + 1);
    assert_eq!(store.sweep().unwrap(), 0);
}
