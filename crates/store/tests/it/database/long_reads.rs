//! Reads of more than one snapshot or transaction may keep in memory.

use forebay_store::{
    Durability, Key, Options, Read, Store, StoreError, copy_store,
    facade::{Begin, Children, Session},
    index::{Definition, Query},
    transfer::{ExportOptions, export},
    verify::verify,
};

use super::Home;
use crate::place::Folder;

const RECORDS: usize = 1000;
const TEXT_BYTES: usize = 1000;
/// Every tenth record has this many parts, which are stored as records of their own.
const PARTS: usize = 20;
const VALUES: usize = RECORDS * 2 + RECORDS / 10 * PARTS;

fn options() -> Options {
    Options {
        lead: false,
        reader_bytes_max: RECORDS * TEXT_BYTES / 4,
        // A record, unless it has parts.
        pack_bytes_max: TEXT_BYTES + 30,
        durability: Durability::Relaxed,
        ..Options::default()
    }
}

fn root() -> Key {
    Key::global("G").unwrap()
}

fn index() -> Definition {
    Definition {
        name: "by-n".into(),
        records: root(),
        fields: vec![vec!["n".into()]],
        unique: false,
    }
}

fn fill(store: &Store) {
    for begin in (0..RECORDS).step_by(500) {
        store
            .transact(|transaction| {
                for number in begin..begin + 500 {
                    let record = root().child(&number.to_string())?;
                    let document = format!("{{\"n\":{number},\"text\":\"{}\"}}", "x".repeat(TEXT_BYTES));
                    transaction.put(&record, document.as_bytes())?;
                    if number % 10 == 0 {
                        for part in 0..PARTS {
                            let part = record.child("parts")?.child(&part.to_string())?;
                            transaction.set(&part, b"true")?;
                        }
                    }
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }
}

fn filled() -> (Home, Store) {
    let home = Home::new();
    let store = Store::open(home.path(), &options()).unwrap();
    fill(&store);
    (home, store)
}

#[test]
fn an_index_is_made_and_a_store_verified_that_exceed_the_memory_of_a_snapshot() {
    let (_home, store) = filled();
    store
        .transact(|transaction| {
            transaction.define_index(&index())?;
            for number in 0..RECORDS {
                transaction.expire(&root().child(&number.to_string())?, Some(99_999_999_999_999))?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    let report = verify(&mut store.snapshot().unwrap(), &mut |_| ()).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(
        report.bytes > (RECORDS * TEXT_BYTES) as u64 && report.records > RECORDS as u64,
        "{report:?}"
    );
    let mut snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.verify_indexes().unwrap(), RECORDS as u64);
    assert_eq!(
        snapshot.query("by-n", &Query::default()).unwrap().count(),
        RECORDS
    );
}

#[test]
fn a_store_that_exceeds_the_memory_of_a_snapshot_is_copied_and_exported() {
    let (_home, store) = filled();
    store
        .transact(|transaction| transaction.expire(&root().child("77")?, Some(99_999_999_999_999)))
        .unwrap();
    let folder = Folder::new();
    let copy = Store::open(folder.path(), &options()).unwrap();
    copy_store(&store, &copy, &mut |_| ()).unwrap();
    let other = Home::new();
    let back = Store::open(other.path(), &options()).unwrap();
    copy_store(&copy, &back, &mut |_| ()).unwrap();
    for document_bytes_max in [0, 2048] {
        let exported = |store: &Store| {
            let (mut snapshot, mut out) = (store.snapshot().unwrap(), Vec::new());
            let options = ExportOptions {
                document_bytes_max,
                ..ExportOptions::default()
            };
            export(&mut snapshot, &[], &options, &mut out, &mut |_| ()).unwrap();
            out
        };
        let expected = exported(&copy);
        assert!(exported(&store) == expected && exported(&back) == expected);
    }
}

#[test]
fn children_and_values_are_listed_that_exceed_the_memory_of_a_snapshot() {
    let (_home, store) = filled();
    let mut snapshot = store.snapshot().unwrap();
    let (mut children, mut bytes) = (0, 0);
    snapshot
        .each_child(&root(), |snapshot, child| {
            children += 1;
            let document = snapshot.document(&root().child(&child.text())?)?;
            bytes += document.map_or(0, |document| document.len());
            Ok::<_, StoreError>(true)
        })
        .unwrap();
    assert!(
        children == RECORDS && bytes > RECORDS * TEXT_BYTES,
        "{children} {bytes}"
    );
    assert_eq!(snapshot.count_values(&root()).unwrap(), VALUES as u64);
}

#[test]
fn programs_iterate_over_more_than_the_memory_of_a_snapshot_or_transaction() {
    let (home, store) = filled();
    let mut session = Session::open(home.path(), &options()).unwrap();
    let root = b"\x01\0G";
    let subscript = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let iterate = |session: &mut Session| {
        let (mut last, mut count) = (Vec::new(), 0);
        loop {
            let which = Children {
                after: &last,
                with_values: true,
                ..Children::default()
            };
            let mut page = session.children(root, which, 50).unwrap();
            if page.is_empty() {
                break;
            }
            let mut item = || {
                let (length, rest) = page.split_first_chunk::<4>().unwrap();
                let (item, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
                page = rest;
                (item, rest.is_empty())
            };
            loop {
                let name = std::str::from_utf8(item().0).unwrap();
                count += 1;
                if item().1 {
                    last = subscript(name);
                    break;
                }
            }
        }
        assert_eq!(count, RECORDS);
    };
    session.begin_snapshot().unwrap();
    iterate(&mut session);
    session.end_snapshot().unwrap();
    session.begin(Begin::Alone).unwrap();
    iterate(&mut session);
    session.roll_back().unwrap();
    drop(store);
}

#[test]
fn nodes_expire_that_exceed_the_memory_of_a_transaction() {
    let (_home, store) = filled();
    store
        .transact(|transaction| {
            for number in 0..RECORDS {
                transaction.expire(&root().child(&number.to_string())?, Some(1))?;
            }
            transaction.define_index(&index())
        })
        .unwrap();
    assert_eq!(store.sweep().unwrap(), RECORDS as u64);
    assert_eq!(store.snapshot().unwrap().verify_indexes().unwrap(), 0);
}
