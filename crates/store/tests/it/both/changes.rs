//! The change log: complete, in order, and sufficient to rebuild the store.

use forebay_store::{
    Durability, Key, Options, Store, StoreError,
    changes::{Change, Operation, Step, Summary},
};

use super::Home;

pub(crate) fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

pub(crate) fn write(store: &Store, path: &[&str], value: &str) {
    store
        .transact(|transaction| transaction.set(&key(path), value.as_bytes()))
        .unwrap();
}

pub(crate) fn changes(store: &Store, since: u64) -> Vec<Change> {
    store.changes(since).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn every_commit_that_changes_something_is_one_change() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    assert_eq!(changes(&store, 0), []);
    let mut transaction = store.begin().unwrap();
    transaction.put(&key(&["a"]), b" {\"x\": 1} ").unwrap();
    transaction.increment(&key(&["n"]), "2").unwrap();
    transaction.merge(&key(&["b"]), &key(&["a"])).unwrap();
    transaction.lay_over(&key(&["b"]), b"{\"y\":2}").unwrap();
    assert!(!transaction.kill(&key(&["none"])).unwrap());
    assert!(transaction.kill(&key(&["b", "x"])).unwrap());
    transaction.commit(Durability::Relaxed).unwrap();
    store.begin().unwrap().commit(Durability::Relaxed).unwrap();
    drop(store.begin().unwrap());
    write(&store, &["c"], "true");

    let found = changes(&store, 0);
    assert_eq!(
        found.iter().map(|change| change.sequence).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(
        found[0].operations,
        [
            Operation::Put(key(&["a"]), b" {\"x\": 1} ".to_vec()),
            Operation::Set(key(&["n"]), b"2".to_vec()),
            Operation::Merge(key(&["b"]), key(&["a"])),
            Operation::LayOver(key(&["b"]), b"{\"y\":2}".to_vec()),
            Operation::Kill(key(&["b", "x"])),
        ]
    );
    assert_eq!(changes(&store, 1), found[1..]);
    assert_eq!(changes(&store, 2), []);
    assert!(matches!(
        store.changes(3),
        Err(StoreError::ChangesGone { since: 3, oldest: 2 })
    ));
    let json: serde_json::Value = serde_json::from_slice(&found[0].to_json()).unwrap();
    assert_eq!(
        json["operations"][0],
        serde_json::json!({"op": "put", "path": ["G", "a"], "value": {"x": 1}})
    );
    assert_eq!(
        json["operations"][2],
        serde_json::json!({"op": "merge", "path": ["G", "b"], "from": ["G", "a"]})
    );
}

#[test]
fn a_walk_goes_on_with_what_comes_later_also_in_new_segments() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let mut walk = store.changes(0).unwrap();
    assert!(walk.next().is_none());
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for number in 1..40 {
        write(&store, &["a"], if number % 2 == 0 { &long } else { "1" });
        store.follow(&mut walk).unwrap();
        assert_eq!(walk.next().unwrap().unwrap().sequence, number);
        assert!(walk.next().is_none());
        assert_eq!(walk.since(), number);
    }
}

#[test]
fn a_change_that_is_too_long_is_told_by_its_globals() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let other = |name: &str| Key::global(name).unwrap();
    write(&store, &["a"], "1");
    let mut transaction = store.begin().unwrap();
    let long = format!("\"{}\"", "x".repeat(10_000));
    for name in ["Own", "Secret", "Own"] {
        transaction.put(&other(name), long.as_bytes()).unwrap();
    }
    transaction.merge(&other("From"), &other("Secret")).unwrap();
    transaction.merge(&other("Copy"), &other("Own")).unwrap();
    transaction.commit(Durability::Relaxed).unwrap();
    write(&store, &["b"], "2");

    let whole = changes(&store, 0);
    let mut walk = store.changes(0).unwrap();
    let mut steps = Vec::new();
    while let Some(step) = walk.next_within(1000, |global| global != "Secret") {
        steps.push(step.unwrap());
    }
    assert!(walk.bytes_read() > 30_000);
    let summary = Summary {
        sequence: 2,
        time_ms: whole[1].time_ms,
        globals: ["Copy", "Own"].map(str::to_owned).into(),
    };
    assert_eq!(
        steps,
        [
            Step::Change(whole[0].clone()),
            Step::Summary(summary),
            Step::Change(whole[2].clone()),
        ]
    );
}
