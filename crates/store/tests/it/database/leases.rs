//! Locks in a database, which end unless their owner extends them.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use forebay_store::{Locks, Store};
use forebay_testkit::{Postgres, wait_until};

use super::{
    Home,
    faults::{LOSE_ANSWER, key, open, open_through},
};

/// Lets all locks end in 8 seconds: the thread that extends them does so every 4.
const ENDS_SOON: &str = "update SCHEMA.locks set until = clock_timestamp() + interval '8 seconds'";
/// Lets every `delete` and `update` of a lock fail.
const REFUSE: &str = "create function SCHEMA.refuse() returns trigger language plpgsql as \
    'begin raise exception ''refused''; end'; \
    create trigger refuse before delete or update on SCHEMA.locks for each row execute function SCHEMA.refuse()";
const ALLOW: &str = "drop function SCHEMA.refuse cascade";

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

/// Reads how long the first lock lasts unless it is extended, in seconds.
fn seconds_left(schema: &Home) -> impl FnMut() -> f64 {
    let (_, name) = schema.path().to_str().unwrap().rsplit_once('=').unwrap();
    let left = format!("select extract(epoch from min(until) - clock_timestamp())::float8 from {name}.locks");
    let mut admin = Postgres::shared().admin();
    move || admin.query_one(&left, &[]).unwrap().get(0)
}

#[test]
fn a_lock_lasts_as_long_as_its_owner_extends_it() {
    let schema = Home::new();
    let (_store, mut one, mut other) = owners(&schema);
    assert!(lock(&mut one, "a"));
    let mut left = seconds_left(&schema);
    // More than the 15 seconds that it lasts by itself.
    for _ in 0..5 {
        schema.run(ENDS_SOON);
        wait_until("the lock to be extended", || left() > 8.0);
    }
    assert!(!lock(&mut other, "a"));
    assert!(one.holds(&key("a")) && unlock(&mut one, "a"));
    assert!(lock(&mut other, "a"));
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
    schema.run(REFUSE);
    one.unlock_all().unwrap_err();
    schema.run(ALLOW);
    assert!(!unlock(&mut one, "a"));
    assert!(!lock(&mut other, "a"));
    one.unlock_all().unwrap();
    assert!(lock(&mut other, "a"));
    assert!(unlock(&mut other, "a"));
    assert!(lock(&mut one, "a") && lock(&mut one, "b"));
    schema.run(REFUSE);
    one.unlock(&key("a")).unwrap_err();
    schema.run(ALLOW);
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

#[test]
fn an_owner_whose_lock_has_gone_holds_nothing() {
    let schema = Home::new();
    let (store, mut one, mut other) = owners(&schema);
    let mut unreachable = store.locks().unwrap();
    assert!(lock(&mut unreachable, "c"));
    schema.run("create table SCHEMA.kept as select owner from SCHEMA.locks");
    assert!(lock(&mut one, "a") && lock(&mut one, "a") && lock(&mut one, "b"));
    schema.run("delete from SCHEMA.locks where owner not in (select owner from SCHEMA.kept)");
    schema.run(REFUSE);
    assert!(lock(&mut other, "a"));
    wait_until("the lapse", || !one.holds(&key("a")));
    // The next attempt to extend has found it, sooner than a lock lapses without.
    assert!(!one.holds(&key("b")) && unreachable.holds(&key("c")));
    schema.run(ALLOW);
    assert!(!unlock(&mut one, "a") && !unlock(&mut one, "b"));
    assert!(!lock(&mut one, "a"));
    assert!(unlock(&mut other, "a"));
    assert!(lock(&mut one, "a"));
    assert!(!lock(&mut other, "a"));
    assert!(unlock(&mut one, "a") && !unlock(&mut one, "a"));
}

#[test]
fn a_lock_that_cannot_be_extended_lapses_a_second_before_others_get_it() {
    let schema = Home::new();
    let (_store, mut one, mut other) = owners(&schema);
    assert!(lock(&mut one, "a"));
    schema.run(REFUSE);
    let mut left = seconds_left(&schema);
    wait_until("the lapse", || {
        // The clocks may differ by a little.
        let is_near = left() < 0.9;
        let holds = one.holds(&key("a"));
        assert!(
            !holds || !is_near,
            "the lock is held, with less than a second left"
        );
        !holds
    });
    schema.run(ALLOW);
    assert!(!unlock(&mut one, "a"));
    wait_until("the end of the lock", || lock(&mut other, "a"));
    assert!(!lock(&mut one, "a"));
}

#[test]
fn a_lock_that_others_hold_after_a_lapse_is_not_held_after_its_release() {
    let schema = Home::new();
    let (_store, mut one, mut other) = owners(&schema);
    let below = key("a").child("b").unwrap();
    assert!(lock(&mut one, "a") && one.lock(&below, Some(Duration::ZERO)).unwrap());
    schema.run("delete from SCHEMA.locks");
    assert!(lock(&mut other, "a"));
    assert!(!unlock(&mut one, "a") && !unlock(&mut one, "a"));
    assert!(unlock(&mut other, "a"));
}
