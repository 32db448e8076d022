//! A full disk: writes fail with the right error, reads continue, and writes continue once there is room again.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use forebay_store::{Durability, Key, Options, Read, Store, StoreError};

use super::disk::{Disk, obey, store_to_use};

fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

fn write(store: &Store, number: usize) -> Result<(), StoreError> {
    write_long(store, number, 100_000)
}

fn write_long(store: &Store, number: usize, bytes: usize) -> Result<(), StoreError> {
    let mut transaction = store.begin()?;
    let text = format!("\"{}\"", "x".repeat(bytes));
    transaction.put(&key(&["data", &number.to_string()]), text.as_bytes())?;
    transaction.commit(store.options().durability).map(|_| ())
}

/// Writes until there is no room; returns the number of records.
fn fill(store: &Store, from: usize) -> usize {
    for number in from.. {
        match write(store, number) {
            Ok(()) => {}
            Err(StoreError::Full { .. }) => return number,
            Err(error) => panic!("record {number}: {error}"),
        }
    }
    unreachable!("numbers do not end")
}

fn count(store: &Store) -> usize {
    let snapshot = store.snapshot().unwrap();
    snapshot
        .values(&key(&["data"]))
        .unwrap()
        .map(Result::unwrap)
        .count()
}

#[test]
fn a_store_that_has_reached_its_size_refuses_writes_until_something_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        map_max: 16 << 20,
        // Keeps the store's own threads from flushing for a while.
        durability: Durability::Relaxed,
        flush_interval: Duration::from_hours(1),
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    let written = fill(&store, 0);
    assert!(written > 50, "{written}");
    assert_eq!(count(&store), written);
    assert!(matches!(write(&store, written), Err(StoreError::Full { .. })));
    store
        .transact(|transaction| transaction.kill(&key(&["data", "0"])))
        .unwrap();
    store
        .transact(|transaction| transaction.kill(&key(&["data", "1"])))
        .unwrap();
    write(&store, written).unwrap();
    assert_eq!(count(&store), written - 1);
}

/// Subprocess that writes records on request.
#[test]
fn a_writer() {
    let Some(folder) = store_to_use() else { return };
    let store = Store::open(&folder, &Options::default()).unwrap();
    obey(|order| {
        let written = match order.split_once(' ') {
            None if order == "state" => {
                return if store.write_failure().is_some() {
                    "fails"
                } else {
                    "works"
                }
                .into();
            }
            None => write(&store, order.parse().unwrap()),
            Some((number, bytes)) => write_long(&store, number.parse().unwrap(), bytes.parse().unwrap()),
        };
        match written {
            Ok(()) => "written".into(),
            Err(StoreError::Full { .. }) => "full".into(),
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn a_leading_process_finds_that_there_is_room_again_without_a_change() {
    let disk = Disk::new();
    let mut writer = disk.start("full::a_writer");
    assert_eq!(writer.ask("0"), "written");
    let log = disk.store().join("changes/00000000000000000001.log");
    let log_bytes = || std::fs::metadata(&log).unwrap().len();
    // Zeros follow the record.
    let end = log_bytes() - (64 << 10) - 8;
    disk.refuse("tree");
    assert_eq!(writer.ask("1 10"), "full");
    disk.refuse("log");
    assert_eq!(writer.ask("1 10"), "full");
    // The record was cut off. The log grows when the process checks it for room.
    while log_bytes() == end {
        assert_eq!(writer.ask("state"), "fails");
    }
    assert_eq!(writer.ask("state"), "fails");
    disk.refuse_no_more();
    while writer.ask("state") == "fails" {}
    assert_eq!(writer.ask("1 10"), "written");
    drop(writer);
    let store = Store::open(&disk.store(), &Options::default()).unwrap();
    let changes = store.changes(0).unwrap().map(Result::unwrap);
    assert_eq!(
        changes.map(|change| change.operations.len()).collect::<Vec<_>>(),
        [1, 1]
    );
}

#[test]
fn who_found_no_room_goes_on_in_the_log_that_others_have_begun_since() {
    let disk = Disk::new();
    let mut other = disk.start("full::a_writer");
    let log = disk.store().join("changes");
    let segments = || std::fs::read_dir(&log).unwrap().count();
    // Write until the next record is the first of its segment.
    let mut number = 0;
    while number == 0
        || std::fs::metadata(log.join("00000000000000000001.log"))
            .unwrap()
            .len()
            <= (16 << 20) + (64 << 10)
    {
        assert_eq!(other.ask(&number.to_string()), "written");
        number += 1;
    }
    assert_eq!(segments(), 1);
    disk.refuse("tree");
    assert_eq!(other.ask(&number.to_string()), "full");
    assert_eq!(segments(), 1, "what was begun is there still");
    disk.refuse_no_more();

    let options = Options {
        lead: false,
        ..Options::default()
    };
    let store = Store::open(&disk.store(), &options).unwrap();
    write(&store, number).unwrap();
    assert_eq!(segments(), 2, "no segment was begun");
    assert_eq!(other.ask(&(number + 1).to_string()), "written");
    write(&store, number + 2).unwrap();
    assert_eq!(count(&store), number + 3);
    assert_eq!(store.changes(0).unwrap().map(Result::unwrap).count(), number + 3);
}

/// A small disk, mounted for a test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Fails where this system does not permit the test to mount anything.
    fn mount(at: &Path) -> Result<Self, String> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "none"])
            .arg(at)
            .output()
            .map_err(|error| error.to_string())?;
        if mounted.status.success() {
            return Ok(Self(at.into()));
        }
        Err(String::from_utf8_lossy(&mounted.stderr).trim().to_owned())
    }
}

/// With this environment variable, tests fail where nothing can be mounted.
const MOUNT_REQUIRED: &str = "FOREBAY_MOUNT_REQUIRED";

/// Note for a test that could not get a disk, and therefore proves nothing.
fn unproven(why: &str, required: bool) -> String {
    assert!(
        !required,
        "{MOUNT_REQUIRED} is set, and mounting is refused here: {why}"
    );
    format!(
        "\nnote: mounting is refused here ({why}), and nothing is proven about a full disk; {MOUNT_REQUIRED}=1 makes this fail instead\n"
    )
}

#[test]
fn without_a_disk_of_its_own_a_test_goes_on_and_says_so_unless_it_is_required() {
    assert!(unproven("not permitted", false).contains("refused here (not permitted)"));
    assert!(std::panic::catch_unwind(|| unproven("not permitted", true)).is_err());
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_again() {
    // If the change log has room, it is the tree that runs out of space.
    for log_has_room in [false, true] {
        full_disk(log_has_room);
    }
}

fn full_disk(log_has_room: bool) {
    let folder = tempfile::tempdir().unwrap();
    let disk = match SmallDisk::mount(folder.path()) {
        Ok(disk) => disk,
        Err(why) => {
            let note = unproven(&why, std::env::var_os(MOUNT_REQUIRED).is_some());
            // Bypasses the output capture of the test harness.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
            return;
        }
    };
    let path = disk.0.join("store");
    let store = Store::open(&path, &Options::default()).unwrap();
    write(&store, 0).unwrap();
    if log_has_room {
        let log = path.join("changes").join("00000000000000000001.log");
        let mut bytes = std::fs::read(&log).unwrap();
        bytes.resize(bytes.len() + (12 << 20), 7);
        std::fs::write(&log, bytes).unwrap();
    }
    let balast = disk.0.join("balast");
    std::fs::write(&balast, vec![1; if log_has_room { 3 << 20 } else { 8 << 20 }]).unwrap();
    let written = fill(&store, 1);
    assert!(written > 10, "{written}");
    assert_eq!(count(&store), written);
    for _ in 0..5 {
        let refused = write(&store, written);
        assert!(matches!(refused, Err(StoreError::Full { .. })), "{refused:?}");
    }
    assert_eq!(count(&store), written);
    std::fs::remove_file(&balast).unwrap();
    write(&store, written).unwrap();
    store.flush().unwrap();
    assert_eq!(count(&store), written + 1);
    drop(store);
    let store = Store::open(&path, &Options::default()).unwrap();
    assert_eq!(count(&store), written + 1);
    assert_eq!(store.changes(0).unwrap().map(Result::unwrap).count(), written + 1);
}
