//! The log of changes as files.

use std::{fs, path::Path};

use forebay_store::{
    Key, Options, Read as _, Store, StoreError,
    changes::{ChangeWalk, Step},
};

use super::{
    Home,
    both::changes::{changes, write},
};

#[test]
fn a_log_of_several_segments_is_read_on() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let mut walk = store.changes(0).unwrap();
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for _ in 0..20 {
        write(&store, &["a"], &long);
    }
    assert!(fs::read_dir(folder.path().join("changes")).unwrap().count() > 1);
    store.follow(&mut walk).unwrap();
    assert_eq!(walk.count(), 20);
}

/// A damaged record yields nothing, just as when it is read in full.
#[test]
fn a_damaged_record_that_is_too_long_is_not_told() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    write(&store, &["a"], "1");
    write(&store, &["a"], &format!("\"{}\"", "x".repeat(10_000)));
    let log = fs::read_dir(folder.path().join("changes"))
        .unwrap()
        .next()
        .unwrap();
    let path = log.unwrap().path();
    let mut bytes = fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut walk = store.changes(1).unwrap();
    let step = walk.next_within(1000, |_| true).unwrap();
    assert!(
        matches!(step, Err(StoreError::ChangesGone { since: 1, .. })),
        "{step:?}"
    );
    assert!(walk.next_within(1000, |_| true).is_none());
}

#[test]
fn a_backup_and_the_log_make_the_store_of_any_point_in_time() {
    let (folder, copy) = (Home::new(), Home::new());
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    write(&store, &["a"], "1");
    store.backup(copy.path(), true, &mut |_| ()).unwrap();
    let mut after = Vec::new();
    for value in 2..6 {
        write(&store, &["a"], &value.to_string());
        write(&store, &["list"], &format!("[{value},[]]"));
        after.push(document(&store));
    }
    // Leaves only the log of the store.
    drop(store);
    fs::remove_file(folder.path().join("store.mdbx")).unwrap();

    let options = Options {
        lead: false,
        ..Options::default()
    };
    let restored = Store::open(copy.path(), &options).unwrap();
    let own = restored.replay(copy.path(), |_| true);
    assert!(matches!(own, Err(StoreError::Replay { .. })), "{own:?}");
    assert_eq!(document(&restored), "{\"a\":1}");
    assert_eq!(
        restored
            .replay(folder.path(), |change| change.sequence <= 3)
            .unwrap(),
        2
    );
    assert_eq!(document(&restored), after[0]);
    assert_eq!(restored.replay(folder.path(), |_| true).unwrap(), 6);
    assert_eq!(document(&restored), after[3]);
    assert_eq!(restored.replay(folder.path(), |_| true).unwrap(), 0);
    // Replayed changes are in the restored store's own log, which continues after them.
    assert_eq!(changes(&restored, 1).len(), 8);
    write(&restored, &["a"], "0");
    assert_eq!(changes(&restored, 9).len(), 1);
}

fn document(store: &Store) -> String {
    let snapshot = store.snapshot().unwrap();
    let root = Key::global("G").unwrap();
    String::from_utf8(snapshot.document(&root).unwrap().unwrap().into_owned()).unwrap()
}

/// Offset of the end of the last record; zeros follow.
fn records_end(segment: &Path) -> usize {
    let bytes = fs::read(segment).unwrap();
    bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1
}

#[test]
fn what_was_written_before_a_crash_and_not_committed_is_written_over() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    write(&store, &["a"], "1");
    let segment = folder.path().join("changes").join("00000000000000000001.log");
    let mut bytes = fs::read(&segment).unwrap();
    bytes.truncate(records_end(&segment));
    bytes.extend_from_slice(&[7; 1000]);
    fs::write(&segment, &bytes).unwrap();
    assert_eq!(changes(&store, 0).len(), 1);
    write(&store, &["a"], "2");
    assert_eq!(changes(&store, 0).len(), 2);
}

#[test]
fn a_log_that_lost_its_end_begins_anew_and_says_what_is_missing() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    write(&store, &["a"], "1");
    write(&store, &["a"], "2");
    let segment = folder.path().join("changes").join("00000000000000000001.log");
    fs::OpenOptions::new()
        .write(true)
        .open(&segment)
        .unwrap()
        .set_len(records_end(&segment) as u64 - 1)
        .unwrap();
    let found: Vec<_> = store.changes(0).unwrap().collect();
    assert!(
        matches!(
            found[..],
            [Ok(_), Err(StoreError::ChangesGone { since: 1, oldest: 3 })]
        ),
        "{found:?}"
    );
    write(&store, &["a"], "3");
    let found: Vec<_> = store.changes(0).unwrap().collect();
    assert!(
        matches!(
            found[..],
            [Ok(_), Err(StoreError::ChangesGone { since: 1, oldest: 3 })]
        ),
        "{found:?}"
    );
    assert_eq!(changes(&store, 2).len(), 1);
}

#[test]
fn segments_of_a_history_that_never_was_are_neither_read_nor_in_the_way() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    write(&store, &["a"], "1");
    let log = folder.path().join("changes");
    // As after a power cut that lost the commits of a new segment, but not its file name.
    for later in [2, 3, 9] {
        fs::write(log.join(format!("{later:020}.log")), b"FBCHG001 and more").unwrap();
    }
    drop(store);
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for _ in 0..20 {
        write(&store, &["a"], &long);
    }
    assert_eq!(changes(&store, 0).len(), 21);
    assert_eq!(changes(&store, 8).len(), 13);
}

#[test]
fn old_segments_are_dropped() {
    let folder = Home::new();
    let options = Options {
        changes_bytes_max: 0,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    for _ in 0..40 {
        write(&store, &["a"], &long);
    }
    let segments = fs::read_dir(folder.path().join("changes")).unwrap().count();
    assert_eq!(segments, 1);
    let gone = store.changes(0).unwrap_err();
    let StoreError::ChangesGone { since: 0, oldest } = gone else {
        panic!("{gone}")
    };
    assert_eq!(changes(&store, oldest - 1).len() as u64, 40 - oldest + 1);
}

/// Reads a log of one segment. Whatever its content, the walk ends, and each change follows the one before.
fn read_log(segment: &[u8]) {
    let folder = Home::new();
    std::fs::create_dir(folder.path().join("changes")).unwrap();
    std::fs::write(folder.path().join("changes/00000000000000000001.log"), segment).unwrap();
    let Ok(Some(mut walk)) = ChangeWalk::of_log(folder.path(), 0) else {
        return;
    };
    let mut since = 0;
    while let Some(Ok(Step::Change(change))) = walk.next_within(u64::MAX, |_| true) {
        since += 1;
        assert_eq!(change.sequence, since);
        let json: serde_json::Value = serde_json::from_slice(&change.to_json()).unwrap();
        assert_eq!(json["sequence"], since);
    }
    let mut summaries = ChangeWalk::of_log(folder.path(), 0).unwrap().unwrap();
    while let Some(Ok(step)) = summaries.next_within(0, |global| global.len() < 3) {
        assert!(step.sequence() >= 1);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    #[test]
    fn a_log_of_any_bytes_is_read_to_an_end(
        raw in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        bodies in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60), 0..4),
    ) {
        read_log(&raw);
        // Records that are complete, but whose operations are arbitrary bytes.
        let mut log = b"FBCHG001".to_vec();
        for (before, operations) in bodies.iter().enumerate() {
            let mut body = (before as u64 + 1).to_le_bytes().to_vec();
            body.extend_from_slice(&[0; 8]);
            body.extend_from_slice(operations);
            log.extend_from_slice(&(body.len() as u32).to_le_bytes());
            log.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
            log.extend_from_slice(&body);
        }
        log.extend_from_slice(&raw);
        read_log(&log);
    }
}
