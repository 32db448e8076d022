//! The first opening after a power cut: changes that only the log has are replayed.

use std::{fs, path::Path};

use forebay_store::{Durability, Key, Options, Read, Store, StoreError, index::Definition};
use tempfile::TempDir;

use super::{
    disk::{Chance, Disk, store_to_use},
    power::{check, key, options, round},
    restart::restart,
};

/// Files of a store before it is opened.
struct Files {
    tree: Vec<u8>,
    /// Segments of the log, by name.
    log: Vec<(String, Vec<u8>)>,
}

impl Files {
    /// The current tree, with a log that also has the writes of `later`.
    fn behind_the_log(store: &Store, later: impl FnOnce()) -> Self {
        store.checkpoint().unwrap();
        let tree = fs::read(store.path().join("store.mdbx")).unwrap();
        later();
        let mut files = Self::of(store.path());
        files.tree = tree;
        files
    }

    fn of(folder: &Path) -> Self {
        Self {
            tree: fs::read(folder.join("store.mdbx")).unwrap(),
            log: Self::of_log(folder),
        }
    }

    fn of_log(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(folder.join("changes")).unwrap();
        let read = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        };
        let mut log: Vec<_> = entries.map(|entry| read(entry.unwrap())).collect();
        log.sort();
        log
    }

    /// Makes the files look as if written before a restart of the system.
    fn after_restart(mut self) -> Self {
        restart(&mut self.tree);
        self
    }

    fn lay_down(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("store.mdbx"), &self.tree).unwrap();
        fs::create_dir(folder.path().join("changes")).unwrap();
        for (name, bytes) in &self.log {
            fs::write(folder.path().join("changes").join(name), bytes).unwrap();
        }
        folder
    }
}

fn put(store: &Store, name: &str, bytes: usize) {
    let text = format!("\"{}\"", "x".repeat(bytes - 2));
    store
        .transact(|transaction| transaction.set(&key(&[name]), text.as_bytes()))
        .unwrap();
}

fn length(store: &Store, name: &str) -> Option<usize> {
    let snapshot = store.snapshot().unwrap();
    snapshot.get(&key(&[name])).unwrap().map(<[u8]>::len)
}

fn read_only() -> Options {
    Options {
        read_only: true,
        ..options()
    }
}

/// Options narrower than those with which the store was written.
fn narrow() -> Options {
    Options {
        value_bytes_max: 100,
        lead: false,
        ..options()
    }
}

/// Files whose log has that many further commits of every kind, and the resulting document.
fn commits_of_every_kind(commits: usize) -> (Files, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    round(&store, 0, Durability::Sync);
    let definition = Definition {
        name: "n".into(),
        records: key(&["data"]),
        fields: vec![vec!["n".into()]],
        unique: false,
    };
    let files = Files::behind_the_log(&store, || {
        store
            .transact(|transaction| transaction.define_index(&definition))
            .unwrap();
        for number in 1..=commits {
            round(&store, number, Durability::Relaxed);
        }
        store
            .transact(|transaction| {
                transaction.merge(&key(&["copy"]), &key(&["data"]))?;
                transaction
                    .expire(&key(&["copy"]), Some(u64::MAX / 2))
                    .map(|_| ())
            })
            .unwrap();
    });
    let snapshot = store.snapshot().unwrap();
    let document = snapshot.document(&key(&[])).unwrap().unwrap();
    (files, document.into_owned())
}

#[test]
fn what_only_the_log_has_after_a_power_cut_is_done_again() {
    let (files, document) = commits_of_every_kind(1100);
    let files = files.after_restart();
    let disk = files.lay_down();
    assert!(matches!(
        Store::open(disk.path(), &read_only()),
        Err(StoreError::Unrecovered { .. })
    ));
    let store = Store::open(disk.path(), &options()).unwrap();
    assert_eq!(check(&store), 1101);
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.document(&key(&[])).unwrap().unwrap(), document);
    assert_eq!(snapshot.expires(&key(&["copy"])).unwrap(), Some(u64::MAX / 2));
    let sequence = snapshot.sequence().unwrap();
    assert_eq!(store.changes(0).unwrap().count() as u64, sequence);
    // Everything after the last complete record of the log is gone.
    let (kept, before) = (&Files::of(disk.path()).log[0].1, &files.log[0].1);
    assert!(kept.len() < before.len() && before.starts_with(kept));
    // The log was not rewritten, and continues.
    round(&store, 1, Durability::Sync);
    assert_eq!(store.changes(sequence).unwrap().count(), 1);
    drop((snapshot, store));
    assert_eq!(check(&Store::open(disk.path(), &read_only()).unwrap()), 1102);
}

#[test]
fn what_only_the_log_has_is_applied_whatever_the_boot_id_says() {
    let (files, document) = commits_of_every_kind(3);
    let disk = files.lay_down();
    assert!(matches!(
        Store::open(disk.path(), &read_only()),
        Err(StoreError::Unrecovered { .. })
    ));
    let store = Store::open(disk.path(), &options()).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.document(&key(&[])).unwrap().unwrap(), document);
    assert_eq!(store.changes(0).unwrap().count(), 6);
}

/// The log of a store with three changes, next to a tree of that many bytes, or none.
fn without_tree(bytes: Option<usize>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    for name in ["a", "b", "c"] {
        put(&store, name, 200_000);
    }
    store.checkpoint().unwrap();
    let mut files = Files::of(store.path());
    files.tree.truncate(bytes.unwrap_or(0));
    let left = files.lay_down();
    if bytes.is_none() {
        fs::remove_file(left.path().join("store.mdbx")).unwrap();
    }
    left
}

#[test]
fn a_log_whose_tree_is_missing_or_cut_off_is_refused_and_kept() {
    for bytes in [
        None,
        Some(0),
        Some(1),
        Some(8 << 10),
        Some(12 << 10),
        Some(100 << 10),
    ] {
        let left = without_tree(bytes);
        let before = Files::of_log(left.path());
        for options in [options(), narrow(), read_only()] {
            let refused = Store::open(left.path(), &options);
            let Err(error) = refused else { panic!("{bytes:?}") };
            if bytes.is_none_or(|bytes| bytes < 12 << 10) {
                let StoreError::LogWithoutTree {
                    first: 1, last: 3, ..
                } = error
                else {
                    panic!("{bytes:?}: {error}")
                };
                assert!(
                    error.to_string().contains("forebay store restore --changes"),
                    "{error}"
                );
            }
        }
        assert_eq!(Files::of_log(left.path()), before, "{bytes:?}");
        assert_eq!(left.path().join("store.mdbx").exists(), bytes.is_some());
    }
}

#[test]
fn a_log_that_another_tree_cannot_go_on_with_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let other = Options {
        changes_bytes_max: 0,
        ..options()
    };
    let store = Store::open(folder.path(), &other).unwrap();
    let empty = fs::read(folder.path().join("store.mdbx")).unwrap();
    for name in 0..20 {
        put(&store, &name.to_string(), 4 << 20);
        store.checkpoint().unwrap();
    }
    // Its first segments are gone.
    let mut files = Files::of(store.path());
    assert_ne!(files.log[0].0, format!("{:020}.log", 1));
    files.tree = empty;
    let left = files.lay_down();
    let refused = Store::open(left.path(), &options()).map(drop);
    assert!(
        matches!(refused, Err(StoreError::ForeignLog { since: 0, .. })),
        "{refused:?}"
    );
    assert_eq!(Files::of(left.path()).log, files.log);
}

#[test]
fn what_was_within_the_limits_of_who_wrote_it_is_done_again_by_whoever_opens() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    let definition = Definition {
        name: "n".into(),
        records: Key::global("I").unwrap(),
        fields: vec![vec!["n".into()]],
        unique: false,
    };
    store
        .transact(|transaction| transaction.define_index(&definition))
        .unwrap();
    let files = Files::behind_the_log(&store, || {
        put(&store, "long", 1000);
        let records = format!("{{\"1\":{{\"n\":1,\"text\":\"{}\"}}}}", "x".repeat(1000));
        store
            .transact(|transaction| transaction.lay_over(&definition.records, records.as_bytes()))
            .unwrap();
    });
    let disk = files.after_restart().lay_down();
    let recovered = Store::open(disk.path(), &narrow()).unwrap();
    assert_eq!(length(&recovered, "long"), Some(1000));
    assert_eq!(recovered.snapshot().unwrap().verify_indexes().unwrap(), 1);
    // Its own writes are subject to its own limits.
    let long = format!("\"{}\"", "x".repeat(1000));
    let refused = recovered.begin().unwrap().set(&key(&["own"]), long.as_bytes());
    assert!(
        matches!(refused, Err(StoreError::ValueTooLong { .. })),
        "{refused:?}"
    );

    let empty = tempfile::tempdir().unwrap();
    let restored = Store::open(empty.path(), &narrow()).unwrap();
    assert_eq!(restored.replay(folder.path(), |_| true).unwrap(), 3);
    assert_eq!(length(&restored, "long"), Some(1000));
    assert_eq!(restored.snapshot().unwrap().verify_indexes().unwrap(), 1);
}

#[test]
fn what_is_done_again_takes_as_many_transactions_as_its_size_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    put(&store, "first", 1 << 20);
    let mut before = 0;
    let files = Files::behind_the_log(&store, || {
        before = store.stats().unwrap().last_commit;
        for number in 0..20 {
            put(&store, &number.to_string(), 1 << 20);
        }
        // Copies are long as well, without their length being in the log.
        for number in 20..40 {
            store
                .transact(|transaction| transaction.merge(&key(&[&number.to_string()]), &key(&["first"])))
                .unwrap();
        }
    });
    let disk = files.after_restart().lay_down();
    let recovered = Store::open(disk.path(), &options()).unwrap();
    for number in 0..40 {
        assert_eq!(length(&recovered, &number.to_string()), Some(1 << 20), "{number}");
    }
    // 40 MiB in transactions of at most 9, one that finds the end, and those that the engine counts for opening.
    let commits = recovered.stats().unwrap().last_commit - before;
    assert!((6..10).contains(&commits), "{commits}");
}

#[test]
fn a_whole_record_that_is_not_understood_ends_no_log_but_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    put(&store, "a", 10);
    let mut files = Files::behind_the_log(&store, || {
        put(&store, "b", 20);
        put(&store, "c", 30);
    });
    // The record of the second change: a head of 8 bytes, then its number, its time and the kind of its operation.
    let log = &mut files.log[0].1;
    let first = 8 + 8 + u32::from_le_bytes(log[8..12].try_into().unwrap()) as usize;
    let end = first + 8 + u32::from_le_bytes(log[first..first + 4].try_into().unwrap()) as usize;
    log[first + 8 + 16] = 99;
    let sum = crc32c::crc32c(&log[first + 8..end]);
    log[first + 4..first + 8].copy_from_slice(&sum.to_le_bytes());
    let files = files.after_restart();
    let disk = files.lay_down();
    for options in [options(), narrow(), read_only()] {
        let refused = Store::open(disk.path(), &options);
        let Err(StoreError::Damaged { what }) = refused else {
            panic!("{refused:?}")
        };
        assert!(what.contains(&files.log[0].0), "{what}");
        assert!(what.contains("no change that this program knows"), "{what}");
    }
    // And nothing was changed.
    assert_eq!(Files::of(disk.path()).log, files.log);
}

#[test]
fn damage_before_the_end_of_the_tree_hides_nothing_that_comes_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    put(&store, "a", 100);
    let mut files = Files::behind_the_log(&store, || put(&store, "b", 20));
    files.log[0].1[100] ^= 1;
    let files = files.after_restart();
    for lead in [true, false] {
        let disk = files.lay_down();
        let options = Options { lead, ..options() };
        let recovered = Store::open(disk.path(), &options).unwrap();
        assert_eq!(length(&recovered, "a"), Some(100));
        assert_eq!(length(&recovered, "b"), Some(20));
        // The log has lost its damaged part, reports that, and continues.
        let gone = recovered.changes(0).unwrap().next();
        assert!(
            matches!(gone, Some(Err(StoreError::ChangesGone { since: 0, .. }))),
            "{gone:?}"
        );
        put(&recovered, "c", 30);
        let told: Vec<_> = recovered.changes(2).unwrap().collect();
        assert!(
            matches!(&told[..], [Ok(change)] if change.sequence == 3),
            "{told:?}"
        );
    }
}

/// Subprocess whose power is cut: opens a store and closes it.
#[test]
fn an_opener() {
    if let Some(folder) = store_to_use() {
        drop(Store::open(&folder, &narrow()).unwrap());
    }
}

#[test]
fn a_recovery_that_is_cut_off_by_the_next_power_cut_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    put(&store, "a", 5000);
    let mut files = Files::behind_the_log(&store, || {
        put(&store, "b", 5000);
        put(&store, "c", 5000);
    });
    // The log is cut where it is damaged, before the replay.
    files.log[0].1[100] ^= 1;
    let files = files.after_restart().lay_down();
    let mut chance = Chance(0x2545_F491_4F6C_DD1D);
    let mut cuts = 0;
    loop {
        let disk = Disk::with(files.path());
        let was_cut = disk.run_until_cut("recovery::an_opener", cuts + 1);
        for percent in [0, 100, 50, 50, 50] {
            let left = disk.after_power_cut(percent, &mut chance);
            let recovered = Store::open(left.path(), &options()).unwrap();
            for name in ["a", "b", "c"] {
                assert_eq!(
                    length(&recovered, name),
                    Some(5000),
                    "{name} after {cuts} flushes"
                );
            }
            put(&recovered, "d", 100);
            assert_eq!(recovered.changes(3).unwrap().count(), 1, "after {cuts} flushes");
        }
        if !was_cut {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 2, "{cuts}");
}
