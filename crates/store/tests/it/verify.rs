//! Damage is found and reported, wherever it is.

use std::{fs, path::Path};

use forebay_store::{Key, Options, Store, StoreError, index::Definition, verify};

const FILE: &str = "store.mdbx";

fn filled(folder: &Path) {
    let store = Store::open(folder, &Options::default()).unwrap();
    store
        .transact(|transaction| {
            let people = Key::global("Person")?;
            for id in 0..2000 {
                let document = format!("{{\"firstName\":\"Robin {id}\",\"tags\":[\"a\",{id}]}}");
                transaction.put(
                    &people.child("data")?.child(&id.to_string())?,
                    document.as_bytes(),
                )?;
            }
            let long: Vec<String> = (0..500).map(|id| format!("\"element {id}\"")).collect();
            transaction.put(&people.child("long")?, format!("[{}]", long.join(",")).as_bytes())?;
            transaction.set(&people.child("long")?, b"\"with a value\"")?;
            transaction.set(&Key::global("Other")?.child("-.5")?.child("a\0b")?, b"null")
        })
        .map_err(|error: StoreError| error)
        .unwrap();
}

fn verified(folder: &Path) -> Result<verify::Report, StoreError> {
    let options = Options {
        read_only: true,
        lead: false,
        ..Options::default()
    };
    let store = Store::open(folder, &options)?;
    let mut snapshot = store.snapshot()?;
    verify::verify(&mut snapshot, &mut |_| ())
}

pub(crate) fn flip(folder: &Path, at: usize, bit: u8) {
    let file = folder.join(FILE);
    let mut bytes = fs::read(&file).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(&file, bytes).unwrap();
}

/// Offsets of some bytes in the file.
pub(crate) fn find(folder: &Path, wanted: &[u8]) -> Vec<usize> {
    let bytes = fs::read(folder.join(FILE)).unwrap();
    memchr_all(&bytes, wanted)
}

fn memchr_all(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let places = bytes.windows(wanted.len()).enumerate();
    places
        .filter(|(_, found)| *found == wanted)
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn a_sound_store_has_no_problems() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let report = verified(folder.path()).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!((report.globals, report.problem_count), (2, 0));
    assert_eq!(report.records, 2000 + 501 + 1);
}

#[test]
fn damage_to_indexes_and_times_is_found() {
    for (wanted, complaint) in [
        // The value of an entry, and the time of a node, as encoded in their tables.
        (
            &b"\xE0Robin 7\0"[..],
            "index `by_name` has no entry for ^Person(\"data\",7)",
        ),
        (
            &[0x7F, 1, 2, 3, 4, 5, 6, 7],
            "^Person(\"data\",9): it is to end at a time, and is not found by that time",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        let store = Store::open(folder.path(), &Options::default()).unwrap();
        store
            .transact(|transaction| {
                let records = Key::global("Person")?.child("data")?;
                let node = records.child("9")?;
                transaction.define_index(&Definition {
                    name: "by_name".into(),
                    records,
                    fields: vec![vec!["firstName".into()]],
                    unique: false,
                })?;
                transaction.expire(&node, Some(0x7F01_0203_0405_0607))
            })
            .unwrap();
        drop(store);
        let sound = verified(folder.path()).unwrap();
        assert_eq!(sound.problems, Vec::<String>::new());
        // The time is stored twice; changing both would just be another time.
        let at = find(folder.path(), wanted)[0];
        flip(folder.path(), at + wanted.len() - 2, 1);
        let report = verified(folder.path()).unwrap();
        assert!(
            report.problems.iter().any(|problem| problem.contains(complaint)),
            "{:?}",
            report.problems
        );
    }
}

#[test]
fn a_flipped_bit_in_a_value_is_found_and_the_node_is_named() {
    for bit in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        let places = find(folder.path(), b"Robin 1234");
        assert!(!places.is_empty());
        for at in places {
            flip(folder.path(), at + 3, bit);
        }
        let report = verified(folder.path()).unwrap();
        assert_eq!(
            report.problems,
            ["^Person(\"data\",1234): what is stored is not what was written: the checksum does not fit"],
            "bit {bit}"
        );
    }
}

#[test]
fn a_flipped_bit_in_a_key_is_found_and_told() {
    let mut key = b"Person\0\xE0data\0".to_vec();
    // 1234 as two pairs of digits.
    let number = Key::global("Person")
        .unwrap()
        .child("data")
        .unwrap()
        .child("1234")
        .unwrap();
    key.extend_from_slice(&number.as_bytes()[key.len()..]);
    for at_byte in [0, 3, 6, 7, 9, 12, 13, 14, 15] {
        for bit in 0..8 {
            let folder = tempfile::tempdir().unwrap();
            filled(folder.path());
            let places = find(folder.path(), &key);
            assert!(!places.is_empty());
            for at in places {
                flip(folder.path(), at + at_byte, bit);
            }
            let report = verified(folder.path()).unwrap();
            assert!(report.problem_count > 0, "byte {at_byte} bit {bit}");
        }
    }
}
