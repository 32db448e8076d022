//! Power cuts: of what was written since the last flush, any pages may be on the disk and any may not.
//!
//! The image of such a disk is the tree's file as it was at a checkpoint and the log as it was at a flush, both with some of their pages as
//! they became later. Unflushed pages are trusted for as long as the system has not been started anew, which the engine and the store
//! know by the system's boot id; so the image also gets another one.

use std::{fs, path::Path, time::Duration};

use forebay_store::{
    Durability, Key, Options, Read, Store, StoreError,
    index::{Definition, Query},
};

const PAGE: usize = 4096;
/// Where a header page of the engine holds the boot id: after 20 bytes for any page and 192 of the header.
const BOOT_ID: std::ops::Range<usize> = 212..228;
const HEADERS: usize = 3;

pub(super) fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

/// Flushes only when it is told to.
pub(super) fn options() -> Options {
    Options {
        flush_interval: Duration::from_hours(1),
        pack_bytes_max: 200,
        ..Options::default()
    }
}

fn files(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let log = folder.join("changes").join("00000000000000000001.log");
    (
        fs::read(folder.join("store.mdbx")).unwrap(),
        fs::read(log).unwrap(),
    )
}

/// A sequence that looks random and is the same in every run (xorshift, Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn yes(&mut self, percent: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 100 < percent
    }
}

/// What may be left of `later` when only `flushed` was sure to be on the disk.
fn torn(flushed: &[u8], later: &[u8], percent: u64, chance: &mut Chance) -> Vec<u8> {
    let mut image = flushed.to_vec();
    for (number, page) in later.chunks(PAGE).enumerate() {
        let at = number * PAGE;
        if chance.yes(percent) {
            image.resize(image.len().max(at + page.len()), 0);
            image[at..at + page.len()].copy_from_slice(page);
        }
    }
    image
}

pub(super) fn after_restart(image: &mut [u8]) {
    for page in image.chunks_mut(PAGE).take(HEADERS) {
        for byte in &mut page[BOOT_ID] {
            *byte ^= 0x5A;
        }
    }
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap();
    let id = id.trim_ascii();
    while let Some(at) = image.windows(id.len()).position(|window| window == id) {
        image[at] = if image[at] == b'0' { b'1' } else { b'0' };
    }
}

fn lay_down(folder: &Path, tree: &[u8], log: &[u8]) {
    fs::create_dir_all(folder.join("changes")).unwrap();
    fs::write(folder.join("store.mdbx"), tree).unwrap();
    fs::write(folder.join("changes").join("00000000000000000001.log"), log).unwrap();
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

/// Everything readable and in agreement; says how many rounds are there.
pub(super) fn check(store: &Store) -> usize {
    let snapshot = store.snapshot().unwrap();
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

#[test]
fn a_power_cut_loses_only_what_was_not_flushed_and_tears_nothing() {
    let images = if std::env::var_os("FOREBAY_SOAK").is_some() {
        3000
    } else {
        60
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    let definition = Definition {
        name: "n".into(),
        records: key(&["data"]),
        fields: vec![vec!["n".into()]],
        unique: false,
    };
    store
        .transact(|transaction| transaction.define_index(&definition))
        .unwrap();
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let mut rounds = 0;
    let (mut lost, mut trusted) = (0, 0);
    let mut checkpoint = Vec::new();
    for image in 0..images {
        rounds += 1;
        if image % 7 == 0 {
            store.checkpoint().unwrap();
            checkpoint = files(folder.path()).0;
        }
        round(&store, rounds, Durability::Sync);
        // The log is on the disk; of the tree, what was there at the checkpoint.
        let flushed = ((checkpoint.clone(), files(folder.path()).1), rounds);
        for _ in 0..=image % 4 {
            rounds += 1;
            round(&store, rounds, Durability::Relaxed);
        }
        let later = files(folder.path());
        let percent = [0, 20, 50, 80, 100][image % 5];
        let mut tree = torn(&flushed.0.0, &later.0, percent, &mut chance);
        let log = torn(&flushed.0.1, &later.1, percent, &mut chance);

        if percent == 100 {
            // Without a restart nothing is lost: what the system has not written yet it still knows.
            let disk = tempfile::tempdir().unwrap();
            lay_down(disk.path(), &tree, &log);
            assert_eq!(check(&Store::open(disk.path(), &options()).unwrap()), rounds);
            trusted += 1;
        }
        after_restart(&mut tree);
        let disk = tempfile::tempdir().unwrap();
        lay_down(disk.path(), &tree, &log);
        let after = Store::open(disk.path(), &options()).unwrap();
        let found = check(&after);
        assert!(
            found >= flushed.1 && found <= rounds,
            "image {image}: {found} of {} to {rounds}",
            flushed.1
        );
        lost += rounds - found;
        let sequence = after.snapshot().unwrap().sequence().unwrap();
        for change in after.changes(0).unwrap() {
            change.unwrap_or_else(|error| panic!("image {image}, log up to {sequence}: {error}"));
        }
        round(&after, rounds, Durability::Sync);
        assert_eq!(check(&after), found + 1);
        match after.changes(sequence).unwrap().next() {
            Some(Ok(change)) => assert_eq!(change.sequence, sequence + 1),
            other => panic!("image {image}: {other:?}"),
        }
    }
    assert!(
        lost > 0 && trusted > 0,
        "the images did not show what they are for"
    );
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
