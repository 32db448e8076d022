//! Copies of stores, from a folder to a database and back.

use std::{path::Path, thread};

use forebay_store::{
    Copied, Key, Options, Read, Store, StoreError, copy_store,
    index::Definition,
    transfer::{ExportOptions, export},
};

use super::Home;
use crate::place::Folder;

fn open(path: &Path) -> Store {
    let options = Options {
        lead: false,
        ..Options::default()
    };
    Store::open(path, &options).unwrap()
}

fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

fn fill(store: &Store) {
    store
        .transact(|transaction| {
            transaction.define_index(&Definition {
                name: "by-n".into(),
                records: key(&[]),
                fields: vec![vec!["n".into()]],
                unique: false,
            })?;
            for number in 0..500 {
                let document = format!("{{\"n\":{number},\"text\":\"{}\"}}", "x".repeat(number * 7));
                transaction.put(&key(&[&number.to_string()]), document.as_bytes())?;
            }
            transaction.set(&key(&["long"]), format!("\"{}\"", "y".repeat(3 << 20)).as_bytes())?;
            transaction.expire(&key(&["7"]), Some(99_999_999_999_999))?;
            transaction.kill(&key(&["8"]))
        })
        .unwrap();
}

fn exported(store: &Store) -> Vec<u8> {
    let mut out = Vec::new();
    export(
        &mut store.snapshot().unwrap(),
        &[],
        &ExportOptions::default(),
        &mut out,
        &mut |_| (),
    )
    .unwrap();
    out
}

fn copy(from: &Store, to: &Store) -> Result<Copied, StoreError> {
    copy_store(from, to, &mut |_| ())
}

#[test]
fn a_store_is_copied_to_a_database_and_back_and_kept_up_to_date() {
    let (folder, schema, other) = (Folder::new(), Home::new(), Folder::new());
    let (original, database, back) = (open(folder.path()), open(schema.path()), open(other.path()));
    fill(&original);
    let first = copy(&original, &database).unwrap();
    assert!(
        first.records > 500 && first.changes == 0 && first.sequence == 1,
        "{first:?}"
    );
    assert_eq!(exported(&database), exported(&original));
    // Changes are copied with their numbers, and nothing twice.
    for value in 0..3 {
        original
            .transact(|transaction| transaction.set(&key(&["later"]), value.to_string().as_bytes()))
            .unwrap();
    }
    let second = copy(&original, &database).unwrap();
    assert_eq!((second.records, second.changes, second.sequence), (0, 3, 4));
    assert_eq!(copy(&original, &database).unwrap().changes, 0);
    assert_eq!(database.changes(1).unwrap().count(), 3);
    assert!(matches!(database.changes(0), Err(StoreError::ChangesGone { .. })));
    assert_eq!(copy(&database, &back).unwrap().sequence, 4);
    assert_eq!(exported(&back), exported(&original));
    drop(back);
    let again = open(other.path());
    again
        .transact(|transaction| transaction.set(&key(&["goes"]), b"\"on\""))
        .unwrap();
    assert_eq!(again.changes(4).unwrap().next().unwrap().unwrap().sequence, 5);
    assert_eq!(again.snapshot().unwrap().verify_indexes().unwrap(), 499);
}

#[test]
fn a_store_is_copied_while_others_write() {
    let (folder, schema) = (Folder::new(), Home::new());
    let (original, database) = (open(folder.path()), open(schema.path()));
    fill(&original);
    let last = thread::scope(|scope| {
        let (began, begins) = std::sync::mpsc::channel();
        let original = &original;
        let writing = scope.spawn(move || {
            for number in 0..200 {
                original
                    .transact(|transaction| transaction.increment(&key(&["count"]), "1"))
                    .unwrap();
                if number == 20 {
                    began.send(()).unwrap();
                }
            }
        });
        begins.recv().unwrap();
        let copied = copy(original, &database).unwrap();
        writing.join().unwrap();
        copied.sequence
    });
    assert!(last > 20, "{last}");
    assert_eq!(copy(&original, &database).unwrap().sequence, 201);
    assert_eq!(
        database.snapshot().unwrap().get(&key(&["count"])).unwrap(),
        Some(&b"200"[..])
    );
}

#[test]
fn what_is_no_copy_is_refused_and_stays_as_it_is() {
    let (folder, schema) = (Folder::new(), Home::new());
    let (original, database) = (open(folder.path()), open(schema.path()));
    fill(&original);
    database
        .transact(|transaction| transaction.set(&key(&["own"]), b"1"))
        .unwrap();
    let refused = copy(&original, &database).unwrap_err();
    assert!(matches!(refused, StoreError::Copy { .. }), "{refused}");
    assert_eq!(
        database.snapshot().unwrap().get(&key(&["own"])).unwrap(),
        Some(&b"1"[..])
    );
    // A copy into which others have written is found out.
    let other = Home::new();
    let copied = open(other.path());
    copy(&original, &copied).unwrap();
    drop(copied);
    other.damage(b"xxxx");
    let refused = copy(&original, &open(other.path())).unwrap_err();
    assert!(matches!(refused, StoreError::Copy { .. }), "{refused}");
}
