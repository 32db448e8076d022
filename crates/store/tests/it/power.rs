//! Power cuts: any subset of the pages and file names written since the last flush may be on the disk.

use std::{fs, path::Path, time::Duration};

use forebay_store::{
    Durability, Key, Options, Read, Store, StoreError,
    index::{Definition, Query},
};

use super::disk::{Chance, Disk, Program, obey, store_to_use};

pub(super) fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

/// Flushes only on request.
pub(super) fn options() -> Options {
    Options {
        flush_interval: Duration::from_hours(1),
        pack_bytes_max: 200,
        ..Options::default()
    }
}

pub(super) fn round(store: &Store, number: usize, durability: Durability) {
    let mut transaction = store.begin().unwrap();
    for record in 0..20 {
        let record = ((number * 13 + record * 7) % 150).to_string();
        let text = format!("{{\"n\":{number},\"text\":\"{}\"}}", "y".repeat(number % 300));
        transaction
            .put(&key(&["data", &record]), text.as_bytes())
            .unwrap();
    }
    transaction
        .kill(&key(&["data", &(number % 150).to_string()]))
        .unwrap();
    transaction.increment(&key(&["rounds"]), "1").unwrap();
    transaction.commit(durability).unwrap();
}

/// Checks that everything is readable and consistent; returns the number of rounds.
pub(super) fn check(store: &Store) -> usize {
    let mut snapshot = store.snapshot().unwrap();
    for value in snapshot.values(&key(&[])).unwrap() {
        value.unwrap();
    }
    snapshot.verify_indexes().unwrap();
    let indexed = snapshot.query("n", &Query::default()).unwrap().count();
    let records = snapshot
        .children(&key(&["data"]), forebay_store::Range::default())
        .unwrap()
        .count();
    assert_eq!(indexed, records);
    let rounds = snapshot.get(&key(&["rounds"])).unwrap().unwrap();
    String::from_utf8_lossy(rounds).parse().unwrap()
}

/// Writes a value of that many bytes without flushing it.
fn write_long(store: &Store, name: &str, bytes: usize) -> Result<(), StoreError> {
    let mut transaction = store.begin()?;
    let long = format!("\"{}\"", "z".repeat(bytes));
    transaction.set(&key(&[name]), long.as_bytes())?;
    transaction.commit(Durability::Relaxed).map(|_| ())
}

fn outcome(written: Result<(), StoreError>) -> String {
    match written {
        Ok(()) => "written".into(),
        Err(StoreError::Full { .. }) => "full".into(),
        Err(StoreError::InDoubt { .. }) => "in doubt".into(),
        Err(error) => panic!("{error}"),
    }
}

fn define(store: &Store) {
    let definition = Definition {
        name: "n".into(),
        records: key(&["data"]),
        fields: vec![vec!["n".into()]],
        unique: false,
    };
    let mut transaction = store.begin().unwrap();
    transaction.define_index(&definition).unwrap();
    transaction.commit(Durability::Relaxed).unwrap();
}

/// Subprocess whose power is cut: does exactly what it is told, because nothing triggers the store's own threads.
fn write_as_told(options: Options) {
    let Some(folder) = store_to_use() else { return };
    let store = Store::open(&folder, &options).unwrap();
    let mut rounds = 0;
    obey(|order| {
        match order.split_once(' ').unwrap_or((order, "")) {
            ("define", _) => define(&store),
            ("checkpoint", _) => store.checkpoint().unwrap(),
            ("sequence", _) => return store.snapshot().unwrap().sequence().unwrap().to_string(),
            ("unsynced", _) => return store.stats().unwrap().not_checkpointed_bytes.to_string(),
            ("long", name) => return outcome(write_long(&store, name, 4 << 20)),
            ("short", name) => return outcome(write_long(&store, name, 4)),
            ("nothing", name) => {
                let mut transaction = store.begin().unwrap();
                transaction.lay_over(&key(&[name]), b"{}").unwrap();
                return outcome(transaction.commit(Durability::Relaxed).map(|_| ()));
            }
            ("sync" | "relaxed", _) => {
                rounds += 1;
                if rounds % 3 == 0 {
                    // Fills the segments of the log quickly.
                    write_long(&store, "long", 3 << 20).unwrap();
                }
                let durability = if order == "sync" {
                    Durability::Sync
                } else {
                    Durability::Relaxed
                };
                round(&store, rounds, durability);
            }
            _ => panic!("{order} is no order"),
        }
        rounds.to_string()
    });
}

#[test]
fn a_writer_that_drops_segments() {
    write_as_told(Options {
        // Segments are dropped as soon as they are not needed.
        changes_bytes_max: 0,
        ..options()
    });
}

#[test]
fn a_writer_that_does_not_lead() {
    write_as_told(Options {
        lead: false,
        ..options()
    });
}

#[test]
fn a_writer_that_leads() {
    write_as_told(options());
}

#[test]
fn a_writer_with_little_room() {
    write_as_told(Options {
        map_max: 24 << 20,
        ..options()
    });
}

fn ask(writer: &mut Program, order: &str) -> usize {
    writer.ask(order).parse().unwrap()
}

#[test]
fn a_power_cut_loses_only_what_was_not_flushed_and_tears_nothing() {
    let images = if std::env::var_os("FOREBAY_SOAK").is_some() {
        3000
    } else {
        35
    };
    let disk = Disk::new();
    let mut writer = disk.start("power::a_writer_that_drops_segments");
    writer.ask("define");
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let (mut lost, mut trusted, mut segments) = (0, 0, 0);
    let mut checkpoint = 0;
    for image in 0..images {
        if image % 7 == 6 {
            writer.ask("checkpoint");
            checkpoint = ask(&mut writer, "sequence") as u64;
        }
        let flushed = ask(&mut writer, "sync");
        let mut written = flushed;
        for _ in 0..=image % 4 {
            written = ask(&mut writer, "relaxed");
        }
        let percent = [0, 20, 50, 80, 100][image % 5];
        if percent == 100 {
            // Without a restart nothing is lost: the system still has what it has not written yet.
            let copy = disk.as_it_is();
            assert_eq!(check(&Store::open(copy.path(), &options()).unwrap()), written);
            trusted += 1;
        }
        let left = disk.after_power_cut(percent, &mut chance);
        let log = left.path().join("changes");
        segments = segments.max(fs::read_dir(log).unwrap().count());
        let after = Store::open(left.path(), &options()).unwrap();
        let found = check(&after);
        assert!(
            found >= flushed && found <= written,
            "image {image}: {found} of {flushed} to {written}"
        );
        lost += written - found;
        let sequence = after.snapshot().unwrap().sequence().unwrap();
        // Older changes may be gone; none of the later ones is missing.
        for change in after.changes(checkpoint).unwrap() {
            change.unwrap_or_else(|error| panic!("image {image}, log up to {sequence}: {error}"));
        }
        round(&after, written, Durability::Sync);
        assert_eq!(check(&after), found + 1);
        match after.changes(sequence).unwrap().next() {
            Some(Ok(change)) => assert_eq!(change.sequence, sequence + 1),
            other => panic!("image {image}: {other:?}"),
        }
    }
    assert!(
        lost > 0 && trusted > 0 && segments > 2,
        "the images did not show what they are for"
    );
}

#[test]
fn a_store_that_was_made_is_there_after_a_power_cut() {
    let disk = Disk::new();
    disk.start("power::a_writer_that_drops_segments").ask("sequence");
    let left = disk.after_power_cut(0, &mut Chance(1));
    let options = Options {
        create: false,
        ..options()
    };
    let after = Store::open(left.path(), &options).unwrap();
    assert_eq!(after.snapshot().unwrap().sequence().unwrap(), 0);
}

/// Checks that after a power cut now, the log has everything that the tree has.
fn assert_log_is_ahead(disk: &Disk, when: &str) {
    let left = disk.after_power_cut(0, &mut Chance(1));
    assert_log_is_whole(left.path(), when);
}

fn assert_log_is_whole(store: &Path, when: &str) {
    let after = Store::open(store, &options()).unwrap();
    let sequence = after.snapshot().unwrap().sequence().unwrap();
    for change in after.changes(0).unwrap() {
        change.unwrap_or_else(|error| panic!("{when}, log up to {sequence}: {error}"));
    }
}

#[test]
fn the_tree_never_comes_to_the_disk_before_the_log_however_much_nobody_flushes() {
    const UNSYNCED_MAX: usize = (64 + 6) << 20;
    for program in ["power::a_writer_that_leads", "power::a_writer_that_does_not_lead"] {
        let disk = Disk::new();
        let mut writer = disk.start(program);
        let mut most = 0;
        for number in 0..20 {
            writer.ask(&format!("long {number}"));
            let unsynced = ask(&mut writer, "unsynced");
            assert!(unsynced < UNSYNCED_MAX, "{program}: {unsynced} after {number}");
            most = most.max(unsynced);
            if !(3..14).contains(&number) {
                assert_log_is_ahead(&disk, &format!("{program} after {number}"));
            }
        }
        assert!(most > 60 << 20, "{program}: {most}");
        // A new opener finds many bytes that are not on the disk.
        for number in 0..8 {
            writer.ask(&format!("long {number}"));
        }
        drop(writer);
        let mut other = disk.start(program);
        other.ask("relaxed");
        assert_log_is_ahead(&disk, &format!("{program} opened anew"));
    }
}

#[test]
fn the_tree_never_comes_to_the_disk_before_the_log_when_a_commit_changes_nothing() {
    let disk = Disk::new();
    let mut writer = disk.start("power::a_writer_that_leads");
    for order in ["define", "sync", "checkpoint", "nothing data"] {
        writer.ask(order);
    }
    // Some images have the tree's page with the new end, but not the log's record.
    for chance in 1..10 {
        let left = disk.after_power_cut(50, &mut Chance(chance << 40));
        assert_log_is_whole(left.path(), &format!("chance {chance}"));
    }
}

#[test]
fn the_tree_never_comes_to_the_disk_before_the_log_when_there_is_no_room() {
    let disk = Disk::new();
    let mut writer = disk.start("power::a_writer_with_little_room");
    let mut written = 0;
    for number in 0..10 {
        writer.ask("relaxed");
        let name = number % 4;
        if writer.ask(&format!("long {name}")) == "written" {
            written += 1;
        }
        assert_log_is_ahead(&disk, &format!("after {number}"));
    }
    assert!((4..10).contains(&written), "{written}");
}

/// Checks the number of changes in the store, whatever part of the writes since the last flush has reached the disk.
fn assert_changes(disk: &Disk, sequence: u64, when: &str) {
    for percent in [0, 50, 100] {
        let left = disk.after_power_cut(percent, &mut Chance(0x1234_5678_9ABC));
        let after = Store::open(left.path(), &options()).unwrap();
        let found = after.snapshot().unwrap().sequence().unwrap();
        assert_eq!(found, sequence, "{when}, {percent} percent");
    }
}

/// Makes the next record the first of a segment, if `is_full`.
fn write_segment(writer: &mut Program, is_full: bool) {
    writer.ask("sync");
    for number in 0..if is_full { 4 } else { 1 } {
        writer.ask(&format!("long {number}"));
    }
}

#[test]
fn what_a_killed_process_has_not_committed_never_comes_to_be_behind_the_back_of_others() {
    for is_full in [false, true] {
        let disk = Disk::new();
        let mut killed = disk.start("power::a_writer_that_does_not_lead");
        write_segment(&mut killed, is_full);
        let sequence = ask(&mut killed, "sequence") as u64;
        let mut leader = disk.start("power::a_writer_that_leads");
        leader.ask("sequence");
        disk.refuse("kill");
        assert_eq!(killed.try_to_ask("relaxed"), None);
        disk.refuse_no_more();
        // A leading process clears it, and an opening process applies it: both for good.
        leader.ask("checkpoint");
        assert_changes(&disk, sequence, "after a checkpoint");
        drop(leader);

        let mut killed = disk.start("power::a_writer_that_does_not_lead");
        disk.refuse("kill");
        assert_eq!(killed.try_to_ask("relaxed"), None);
        disk.refuse_no_more();
        let opened = ask(&mut disk.start("power::a_writer_that_does_not_lead"), "sequence") as u64;
        assert_eq!(opened, sequence + 1);
        assert_changes(&disk, opened, "after an opening");
    }
}

#[test]
fn a_commit_that_failed_is_not_done_again() {
    for is_full in [false, true] {
        let disk = Disk::new();
        let mut writer = disk.start("power::a_writer_that_does_not_lead");
        write_segment(&mut writer, is_full);
        let sequence = ask(&mut writer, "sequence") as u64;
        disk.refuse("tree");
        assert_eq!(writer.ask("long more"), "full");
        assert_changes(&disk, sequence, "after it");
    }
}

#[test]
fn a_commit_whose_record_cannot_be_overwritten_is_not_done_again() {
    let disk = Disk::new();
    let mut writer = disk.start("power::a_writer_that_does_not_lead");
    write_segment(&mut writer, false);
    let sequence = ask(&mut writer, "sequence") as u64;
    // The log refuses what follows the whole record, or the tree refuses the commit.
    for refused in ["log", "tree mark"] {
        disk.refuse(refused);
        assert_eq!(writer.ask("short more"), "full");
        assert_changes(&disk, sequence, &format!("after {refused} was refused"));
    }
}

/// Number of changes in the store for a process that opens it now.
fn changes_now(disk: &Disk) -> usize {
    let now = disk.as_it_is();
    let store = Store::open(now.path(), &options()).unwrap();
    let sequence = store.snapshot().unwrap().sequence().unwrap();
    assert_eq!(
        store.changes(0).unwrap().map(Result::unwrap).count() as u64,
        sequence
    );
    sequence as usize
}

#[test]
fn nothing_is_written_while_the_record_of_a_failed_commit_cannot_be_removed() {
    let disk = Disk::new();
    let mut writer = disk.start("power::a_writer_that_does_not_lead");
    write_segment(&mut writer, false);
    let sequence = ask(&mut writer, "sequence");
    disk.refuse("log cut");
    assert_eq!(writer.ask("short more"), "in doubt");
    assert_eq!(changes_now(&disk), sequence + 1);
    // The next write would succeed.
    disk.refuse("mark cut");
    for _ in 0..2 {
        assert_eq!(writer.ask("short more"), "in doubt");
        assert_eq!(changes_now(&disk), sequence + 1);
    }
    // The record can be removed, and this write fails for its own reason.
    disk.refuse("tree cut");
    assert_eq!(writer.ask("short more"), "full");
    assert_eq!(changes_now(&disk), sequence);
    disk.refuse("tree mark cut");
    assert_eq!(writer.ask("short more"), "in doubt");
    disk.refuse_no_more();
    assert_eq!(writer.ask("short more"), "written");
    assert_eq!(changes_now(&disk), sequence + 1);
}

#[test]
fn a_commit_whose_log_cannot_be_flushed_is_not_made_by_the_next_opening() {
    let disk = Disk::new();
    let mut writer = disk.start("power::a_writer_that_does_not_lead");
    for order in ["define", "sync", "checkpoint"] {
        writer.ask(order);
    }
    let sequence = ask(&mut writer, "sequence");
    disk.refuse("flush");
    // A power cut may bring it back, because nothing can be flushed any more.
    assert_eq!(writer.ask("nothing data"), "in doubt");
    assert_eq!(changes_now(&disk), sequence);
}

#[test]
fn a_bit_that_flips_in_a_value_or_a_name_is_found() {
    let (value, name): (&[u8], &[u8]) = (b"find me", b"name me");
    for (what, bit) in [(value, 0), (value, 7), (name, 0), (name, 3), (name, 7)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &options()).unwrap();
        store
            .transact(|transaction| transaction.set(&key(&["name me"]), b"\"find me\""))
            .unwrap();
        drop(store);
        let path = folder.path().join("store.mdbx");
        let mut bytes = fs::read(&path).unwrap();
        let mut flipped = 0;
        while let Some(at) = bytes.windows(what.len()).position(|window| window == what) {
            bytes[at + 2] ^= 1 << bit;
            flipped += 1;
        }
        assert!(flipped > 0);
        fs::write(&path, bytes).unwrap();
        let store = Store::open(folder.path(), &options()).unwrap();
        let snapshot = store.snapshot().unwrap();
        let found: Vec<_> = snapshot.values(&key(&[])).unwrap().collect();
        assert!(
            matches!(found[..], [Err(StoreError::Damaged { .. })]),
            "{found:?}"
        );
        let document = snapshot.document(&key(&[]));
        assert!(
            matches!(document, Err(StoreError::Damaged { .. })),
            "{document:?}"
        );
        let children = snapshot.children(&key(&[]), forebay_store::Range::default());
        assert_eq!(children.unwrap().count(), 1);
    }
}
