//! Guarantees across commits, snapshots and openings.

use forebay_store::{Durability, Key, Options, Read, Store, StoreError};

use super::Home;

fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    store
        .transact(|transaction| transaction.set(&key(&["a"]), b"1"))
        .unwrap();
    let before = store.snapshot().unwrap();
    store
        .transact(|transaction| transaction.set(&key(&["a"]), b"2"))
        .unwrap();
    assert_eq!(before.get(&key(&["a"])).unwrap(), Some(&b"1"[..]));
    assert_eq!(
        store.snapshot().unwrap().get(&key(&["a"])).unwrap(),
        Some(&b"2"[..])
    );
}

#[test]
fn what_is_not_committed_has_never_been() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.set(&key(&["a"]), b"1").unwrap();
    drop(transaction);
    assert_eq!(store.snapshot().unwrap().get(&key(&["a"])).unwrap(), None);
    let failed: Result<(), StoreError> = store.transact(|transaction| {
        transaction.set(&key(&["a"]), b"1")?;
        transaction.set(&key(&["b"]), b"no json")
    });
    assert!(matches!(failed, Err(StoreError::Json(_))));
    assert_eq!(store.snapshot().unwrap().get(&key(&["a"])).unwrap(), None);
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    let folder = Home::new();
    let commits: Vec<u64> = [Durability::Sync, Durability::Group, Durability::Relaxed]
        .into_iter()
        .map(|durability| {
            let store = Store::open(folder.path(), &Options::default()).unwrap();
            let mut transaction = store.begin().unwrap();
            transaction.increment(&key(&["count"]), "1").unwrap();
            transaction.commit(durability).unwrap()
        })
        .collect();
    assert!(commits.is_sorted());
    let options = Options {
        read_only: true,
        lead: false,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    assert_eq!(
        store.snapshot().unwrap().get(&key(&["count"])).unwrap(),
        Some(&b"3"[..])
    );
    assert!(matches!(store.begin(), Err(StoreError::ReadOnly)));
}

#[test]
fn a_folder_without_a_store_is_told_from_an_empty_one() {
    let folder = Home::new();
    let options = Options {
        create: false,
        ..Options::default()
    };
    assert!(matches!(
        Store::open(folder.path(), &options),
        Err(StoreError::Absent { .. })
    ));
}

#[test]
fn too_long_values_are_refused_and_the_transaction_goes_on() {
    let folder = Home::new();
    let options = Options {
        value_bytes_max: 100,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    store
        .transact(|transaction| {
            let long = format!("\"{}\"", "x".repeat(99));
            let refused = transaction.set(&key(&["a"]), long.as_bytes());
            assert!(matches!(
                refused,
                Err(StoreError::ValueTooLong { bytes: 101, max: 100 })
            ));
            transaction.set(&key(&["a"]), b"1")
        })
        .unwrap();
    assert_eq!(
        store.snapshot().unwrap().get(&key(&["a"])).unwrap(),
        Some(&b"1"[..])
    );
}

#[test]
fn the_names_of_globals_are_listed() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    store
        .transact(|transaction| {
            for name in ["B", "A", "AB", "A.b"] {
                transaction.put(&Key::global(name)?.child("x")?, b"{\"y\":1}")?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    let snapshot = store.snapshot().unwrap();
    let names = |from| {
        snapshot
            .globals(from)
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap()
    };
    assert_eq!(names(""), ["A", "A.b", "AB", "B"]);
    assert_eq!(names("AA"), ["AB", "B"]);
}

#[test]
fn a_thread_that_would_wait_for_itself_is_told() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let transaction = store.begin().unwrap();
    assert!(matches!(store.begin(), Err(StoreError::WritesAlready)));
    drop(transaction);
    store.begin().unwrap().commit(Durability::Sync).unwrap();
}

#[test]
fn who_waits_for_a_commit_is_called_when_it_is_durable() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.set(&key(&["a"]), b"1").unwrap();
    let commit = transaction.commit(Durability::Relaxed).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    // A commit number beyond the last one stands for the last one.
    for asked in [commit, commit + 1000, 1] {
        let sender = sender.clone();
        store.when_flushed(asked, move |outcome| sender.send(outcome.is_ok()).unwrap());
    }
    assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [true; 3]);
    store.wait_flushed(commit).unwrap();
    assert!(store.stats().unwrap().flushed_commit >= commit);
}

#[test]
fn threads_that_write_and_flush_at_the_same_time_lose_nothing() {
    const ROUNDS: usize = 200;
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let durabilities = [
        Durability::Sync,
        Durability::Group,
        Durability::Relaxed,
        Durability::Group,
    ];
    std::thread::scope(|scope| {
        for durability in durabilities {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let mut transaction = store.begin().unwrap();
                    transaction.increment(&key(&["count"]), "1").unwrap();
                    transaction.commit(durability).unwrap();
                }
            });
        }
    });
    let total = (ROUNDS * durabilities.len()).to_string();
    assert_eq!(
        store.snapshot().unwrap().get(&key(&["count"])).unwrap(),
        Some(total.as_bytes())
    );
    assert_eq!(store.changes(0).unwrap().count(), ROUNDS * durabilities.len());
}

#[test]
fn a_snapshot_that_is_too_old_is_read_no_more_and_the_next_one_is() {
    let folder = Home::new();
    let options = Options {
        reader_age_max: std::time::Duration::from_millis(50),
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    store
        .transact(|transaction| transaction.set(&key(&["a"]), b"1"))
        .unwrap();
    let snapshot = store.snapshot().unwrap();
    let ended = loop {
        if let Err(error) = snapshot.get(&key(&["a"])) {
            break error;
        }
    };
    assert!(matches!(ended, StoreError::SnapshotTooOld { .. }), "{ended}");
    drop(snapshot);
    // On a busy machine a database may take longer than that for one read, but not always.
    let in_time = (0..100).find_map(|_| {
        let snapshot = store.snapshot().unwrap();
        snapshot.get(&key(&["a"])).ok().flatten().map(<[u8]>::to_vec)
    });
    assert_eq!(in_time.as_deref(), Some(&b"1"[..]));
    // Transactions have no such limit: one that takes too long is stopped by other means.
    let transaction = store.begin().unwrap();
    assert_eq!(transaction.get(&key(&["a"])).unwrap(), Some(&b"1"[..]));
}

#[test]
fn what_could_be_written_can_be_changed_however_deep_it_lies() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let deep = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    store
        .transact(|transaction| {
            transaction.put(&key(&["7"]), b"{\"a\":1}")?;
            let refused = transaction.put(&key(&["7", "x"]), deep(199).as_bytes());
            assert!(matches!(refused, Err(StoreError::Key(_))), "{refused:?}");
            transaction.put(&key(&["7", "x"]), deep(198).as_bytes())?;
            transaction.set(&key(&["7", "a"]), b"2")?;
            let whole = transaction.document(&key(&[]))?.unwrap().into_owned();
            transaction.put(&key(&[]), &whole)?;
            assert!(transaction.kill(&key(&["7", "x"]))?);
            transaction.set(&key(&["7", "a"]), b"3")
        })
        .unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(
        *snapshot.document(&key(&[])).unwrap().unwrap(),
        b"{\"7\":{\"a\":3}}"[..]
    );
    // Longer than any name can be, yet still a valid lookup.
    let long = forebay_store::Subscript::new(&"8".repeat(5000));
    assert_eq!(snapshot.next(&key(&[]), Some(&long)).unwrap(), None);
    assert_eq!(
        snapshot.previous(&key(&[]), Some(&long)).unwrap().unwrap().text(),
        "7"
    );
    let names: Vec<_> = snapshot.globals(&"H".repeat(5000)).unwrap().collect();
    assert!(names.is_empty());
}
