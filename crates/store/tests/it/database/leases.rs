//! Locks in a database, which end unless their owner extends them.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use forebay_store::{Locks, Store};
use forebay_testkit::wait_until;

use super::{
    Home,
    faults::{LOSE_ANSWER, key, open, open_through},
};

/// Lets all locks end in 5 seconds: the thread that extends them does so every 4.
const ENDS_SOON: &str = "update SCHEMA.locks set until = now() + interval '5 seconds'";
const REFUSE_DELETES: &str = "create function SCHEMA.refuse() returns trigger language plpgsql as \
    'begin raise exception ''refused''; end'; \
    create trigger refuse before delete on SCHEMA.locks for each row execute function SCHEMA.refuse()";
const ALLOW_DELETES: &str = "drop function SCHEMA.refuse cascade";

fn owners(schema: &Home) -> (Store, Locks, Locks) {
    let store = open(schema.path().to_str().unwrap()).unwrap();
    let (one, other) = (store.locks().unwrap(), store.locks().unwrap());
    (store, one, other)
}

fn lock(locks: &mut Locks, name: &str) -> bool {
    locks.lock(&key(name), Some(Duration::ZERO)).unwrap()
}

fn unlock(locks: &mut Locks, name: &str) -> bool {
    locks.unlock(&key(name)).unwrap()
}

#[test]
fn a_lock_whose_owner_has_died_ends_by_itself() {
    let schema = Home::new();
    let (_store, mut dead, mut waiting) = owners(&schema);
    assert!(lock(&mut dead, "a"));
    assert!(!lock(&mut waiting, "a"));
    // As if it had not been extended for so long.
    schema.run("update SCHEMA.locks set until = now() - interval '1 second'");
    assert!(lock(&mut waiting, "a"));
    drop(dead);
    assert!(unlock(&mut waiting, "a"));
}

#[test]
fn a_lock_that_cannot_be_released_ends_by_itself_or_when_that_is_tried_again() {
    let schema = Home::new();
    let (_store, mut one, mut other) = owners(&schema);
    assert!(lock(&mut one, "a"));
    schema.run(REFUSE_DELETES);
    one.unlock_all().unwrap_err();
    schema.run(ALLOW_DELETES);
    assert!(!unlock(&mut one, "a"));
    assert!(!lock(&mut other, "a"));
    one.unlock_all().unwrap();
    assert!(lock(&mut other, "a"));
    assert!(unlock(&mut other, "a"));
    assert!(lock(&mut one, "a") && lock(&mut one, "b"));
    schema.run(REFUSE_DELETES);
    one.unlock(&key("a")).unwrap_err();
    schema.run(ALLOW_DELETES);
    assert!(!unlock(&mut one, "a"));
    schema.run(ENDS_SOON);
    wait_until("the end of the lock", || lock(&mut other, "a"));
    assert!(!lock(&mut other, "b"));
}

#[test]
fn a_lock_that_was_taken_without_its_owner_knowing_ends_by_itself() {
    let schema = Home::new();
    let (store, proxy) = open_through(&schema);
    let (_store, mut other, _) = owners(&schema);
    let mut one = store.locks().unwrap();
    assert!(lock(&mut one, "b"));
    proxy.mode.store(LOSE_ANSWER, SeqCst);
    one.lock(&key("a"), Some(Duration::ZERO)).unwrap_err();
    assert_eq!(proxy.mode.load(SeqCst), 0);
    assert!(!lock(&mut other, "a"));
    schema.run(ENDS_SOON);
    wait_until("the end of the lock", || lock(&mut other, "a"));
    assert!(!lock(&mut other, "b"));
}
