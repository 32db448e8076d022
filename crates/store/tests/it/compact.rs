//! Compaction: the store is smaller and otherwise unchanged, whatever happened before and wherever it is interrupted.

use std::{
    env, fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use forebay_store::{Compacted, Durability, Key, Options, Read, Store, StoreError, compact, verify::verify};

use crate::restart::restart;

const FOLDER: &str = "FOREBAY_TEST_COMPACT";

fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

/// Opens a store that flushes and makes checkpoints only on request.
fn open(folder: &Path) -> Store {
    let options = Options {
        flush_interval: Duration::from_hours(1),
        ..Options::default()
    };
    Store::open(folder, &options).unwrap()
}

fn write(store: &Store, path: &[&str], value: &str, durability: Durability) {
    let mut transaction = store.begin().unwrap();
    transaction.set(&key(path), value.as_bytes()).unwrap();
    transaction.commit(durability).unwrap();
}

/// Fills the file, half of it with data that is removed again.
fn fill(store: &Store, megabytes: usize) {
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for at in 0..2 * megabytes {
        write(store, &["big", &at.to_string()], &long, Durability::Relaxed);
    }
    let mut transaction = store.begin().unwrap();
    for at in 0..megabytes {
        transaction.kill(&key(&["big", &at.to_string()])).unwrap();
    }
    transaction.commit(Durability::Sync).unwrap();
}

fn copy_log(from: &Path, to: &Path) {
    let log = to.join("changes");
    let _ = fs::remove_dir_all(&log);
    fs::create_dir(&log).unwrap();
    for segment in fs::read_dir(from.join("changes")).unwrap() {
        let segment = segment.unwrap();
        fs::copy(segment.path(), log.join(segment.file_name())).unwrap();
    }
}

fn document(store: &Store) -> Vec<u8> {
    let snapshot = store.snapshot().unwrap();
    snapshot.document(&key(&[])).unwrap().unwrap().into_owned()
}

fn now(folder: &Path) -> Result<Compacted, StoreError> {
    compact(folder, &mut |_| ())
}

/// Checks that the content is unchanged, that the change log continues where it ended, and that the store can be
/// compacted.
fn check_whole(folder: &Path, expected: &[u8], sequence: u64, what: &str) {
    let store = open(folder);
    assert!(document(&store) == expected, "{what}");
    let mut snapshot = store.snapshot().unwrap();
    let report = verify(&mut snapshot, &mut |_| ()).unwrap();
    assert_eq!(report.problems, [""; 0], "{what}");
    assert_eq!(snapshot.sequence().unwrap(), sequence, "{what}");
    write(&store, &["more"], "1", Durability::Group);
    let numbers: Vec<u64> = store
        .changes(0)
        .unwrap()
        .map(|change| change.unwrap().sequence)
        .collect();
    assert_eq!(numbers, (1..=sequence + 1).collect::<Vec<_>>(), "{what}");
    drop((snapshot, store));
    let compacted = now(folder).unwrap();
    let file = fs::metadata(folder.join("store.mdbx")).unwrap();
    assert_eq!(compacted.after_bytes, file.len(), "{what}");
    assert_eq!(file.permissions().mode() & 0o777, 0o600, "{what}");
    assert!(!folder.join("compact.tmp").exists(), "{what}");
}

#[test]
fn what_is_not_in_use_is_given_back_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    fill(&store, 8);
    let (before, sequence) = (document(&store), store.snapshot().unwrap().sequence().unwrap());
    drop(store);
    let Compacted {
        before_bytes,
        after_bytes,
    } = now(folder.path()).unwrap();
    assert!(
        after_bytes < before_bytes * 2 / 3,
        "{before_bytes} -> {after_bytes}"
    );
    let again = now(folder.path()).unwrap();
    assert_eq!(
        again,
        Compacted {
            before_bytes: after_bytes,
            after_bytes
        }
    );
    check_whole(folder.path(), &before, sequence, "compacted twice");
}

#[test]
fn a_store_that_is_open_in_this_process_is_not_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    write(&store, &["a"], "1", Durability::Group);
    match now(folder.path()) {
        Err(StoreError::InUse { path, holders }) => {
            assert_eq!((path, holders), (folder.path().canonicalize().unwrap(), vec![]));
        }
        other => panic!("{other:?}"),
    }
    write(&store, &["b"], "2", Durability::Group);
    drop(store);
    now(folder.path()).unwrap();
    assert_eq!(document(&open(folder.path())), b"{\"a\":1,\"b\":2}");
    let absent = now(&folder.path().join("none"));
    assert!(matches!(absent, Err(StoreError::Absent { .. })), "{absent:?}");
}

#[test]
fn what_only_the_log_has_after_a_power_cut_is_in_the_compacted_store() {
    for tree_is_steady in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        fill(&store, 12);
        store.checkpoint().unwrap();
        let steady = fs::read(folder.path().join("store.mdbx")).unwrap();
        write(&store, &["late"], "1", Durability::Sync);
        write(&store, &["later"], "2", Durability::Sync);
        let (expected, sequence) = (document(&store), store.snapshot().unwrap().sequence().unwrap());
        let mut tree = if tree_is_steady {
            steady
        } else {
            fs::read(folder.path().join("store.mdbx")).unwrap()
        };
        restart(&mut tree);
        let disk = tempfile::tempdir().unwrap();
        copy_log(folder.path(), disk.path());
        fs::write(disk.path().join("store.mdbx"), &tree).unwrap();
        let compacted = now(disk.path()).unwrap();
        assert!(compacted.after_bytes < compacted.before_bytes, "{compacted:?}");
        check_whole(
            disk.path(),
            &expected,
            sequence,
            &format!("tree is steady: {tree_is_steady}"),
        );
    }
}

/// Subprocess: compacts one store, when this program is started for it.
#[test]
fn a_compaction() {
    if let Some(folder) = env::var_os(FOLDER) {
        now(Path::new(&folder)).unwrap();
    }
}

/// A state of the files during a compaction.
type Point = (&'static str, fn(&Path, u64) -> bool);

/// In the order in which they occur. The number is the inode of the original file.
const POINTS: [Point; 8] = [
    ("at once", |_, _| true),
    ("with a workshop", |folder, _| at(folder, "").exists()),
    ("with a second name", |folder, _| {
        at(folder, "store.mdbx").exists()
    }),
    ("with the store open", |folder, _| {
        at(folder, "store.mdbx-lck").exists()
    }),
    ("with a copy begun", |folder, _| {
        at(folder, "made/store.mdbx").exists()
    }),
    ("with a part of the copy", |folder, _| {
        fs::metadata(at(folder, "made/store.mdbx")).is_ok_and(|about| about.blocks() > 0)
    }),
    ("with the copy made", |folder, _| {
        at(folder, "made/store.mdbx").exists() && !at(folder, "store.mdbx").exists()
    }),
    ("with the file replaced", |folder, inode| {
        fs::metadata(folder.join("store.mdbx")).is_ok_and(|about| about.ino() != inode)
    }),
];

fn at(folder: &Path, name: &str) -> PathBuf {
    folder.join("compact.tmp").join(name)
}

#[test]
fn a_compaction_that_is_killed_leaves_the_old_store_or_the_new_one() {
    let rounds = if env::var_os("FOREBAY_SOAK").is_some() {
        50
    } else {
        2
    };
    let original = tempfile::tempdir().unwrap();
    let store = open(original.path());
    fill(&store, 12);
    let (expected, sequence) = (document(&store), store.snapshot().unwrap().sequence().unwrap());
    drop(store);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.mdbx");
    let mut killed = 0;
    for (what, is_reached) in (0..rounds).flat_map(|_| POINTS) {
        copy_log(original.path(), folder.path());
        fs::copy(original.path().join("store.mdbx"), &file).unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "compact::a_compaction", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut ended = None;
        while ended.is_none() && !is_reached(folder.path(), inode) {
            ended = child.try_wait().unwrap();
            thread::yield_now();
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(status.signal() == Some(9) || status.success(), "{what}: {status}");
        killed += u32::from(status.signal() == Some(9));
        check_whole(folder.path(), &expected, sequence, what);
    }
    // Some points pass too quickly to be seen; those with a copy in progress do not all.
    assert!(killed >= rounds, "{killed} were killed");
}
