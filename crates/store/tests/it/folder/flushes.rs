//! Flushes to the disk, which a store in a database leaves to that.

use forebay_store::{Durability, Key, Options, Store, StoreError};

use super::Home;

#[test]
fn a_commit_without_a_flush_is_not_on_the_disk_and_a_flush_waits_for_writers() {
    let folder = Home::new();
    // A leading process might have flushed everything by then.
    let options = Options {
        lead: false,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.set(&Key::global("G").unwrap(), b"1").unwrap();
    let commit = transaction.commit(Durability::Relaxed).unwrap();
    assert!(store.stats().unwrap().flushed_commit < commit);
    let transaction = store.begin().unwrap();
    assert!(matches!(store.checkpoint(), Err(StoreError::WritesAlready)));
    drop(transaction);
    store.flush().unwrap();
    assert!(store.stats().unwrap().flushed_commit >= commit);
}
