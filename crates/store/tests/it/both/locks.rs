//! Locks on names, between owners that could as well be processes, because each opens the file separately.

use std::{thread, time::Duration};

use forebay_store::{Key, Locks, Options, Store};

use super::Home;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn key(path: &[&str]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

fn owners(folder: &Home) -> (Store, Locks, Locks) {
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let (one, other) = (store.locks().unwrap(), store.locks().unwrap());
    (store, one, other)
}

#[test]
fn a_lock_keeps_others_from_the_node_and_from_those_above_and_below() {
    let folder = Home::new();
    let (_store, mut one, mut other) = owners(&folder);
    assert!(one.lock(&key(&["a", "1"]), AT_ONCE).unwrap());
    for taken in [&["a", "1"][..], &["a"], &[], &["a", "1", "x"]] {
        assert!(!other.lock(&key(taken), AT_ONCE).unwrap(), "{taken:?}");
    }
    for free in [&["a", "2"][..], &["b"], &["a", "01"]] {
        assert!(other.lock(&key(free), AT_ONCE).unwrap(), "{free:?}");
        assert!(other.unlock(&key(free)).unwrap());
    }
    assert!(one.unlock(&key(&["a", "1"])).unwrap());
    assert!(other.lock(&key(&[]), AT_ONCE).unwrap());
    assert!(!one.lock(&key(&["a", "1"]), AT_ONCE).unwrap());
}

#[test]
fn locks_are_counted() {
    let folder = Home::new();
    let (_store, mut one, mut other) = owners(&folder);
    let node = key(&["a"]);
    assert!(!one.unlock(&node).unwrap());
    assert!(one.lock(&node, AT_ONCE).unwrap() && one.lock(&node, AT_ONCE).unwrap());
    // The node below also needs the locked one, and releases only its own share of it.
    assert!(one.lock(&key(&["a", "b"]), AT_ONCE).unwrap() && one.unlock(&key(&["a", "b"])).unwrap());
    assert!(one.unlock(&node).unwrap());
    assert!(one.holds(&node) && !one.holds(&key(&[])) && !one.holds(&key(&["a", "b"])));
    assert!(!other.lock(&node, AT_ONCE).unwrap());
    assert!(one.unlock(&node).unwrap());
    assert!(!one.holds(&node) && !one.unlock(&node).unwrap());
    assert!(other.lock(&node, AT_ONCE).unwrap());
    other.unlock_all().unwrap();
    assert!(one.lock(&node, AT_ONCE).unwrap());
}

#[test]
fn an_attempt_that_fails_leaves_nothing_behind() {
    let folder = Home::new();
    let (store, mut one, mut other) = owners(&folder);
    assert!(one.lock(&key(&["a", "b", "c"]), AT_ONCE).unwrap());
    assert!(!other.lock(&key(&["a", "b", "c"]), AT_ONCE).unwrap());
    assert!(one.unlock(&key(&["a", "b", "c"])).unwrap());
    let mut third = store.locks().unwrap();
    assert!(third.lock(&key(&["a"]), AT_ONCE).unwrap());
}

#[test]
fn locks_end_with_their_owner_and_who_waits_gets_them() {
    let folder = Home::new();
    let (_store, mut one, mut other) = owners(&folder);
    assert!(one.lock(&key(&["a"]), AT_ONCE).unwrap());
    assert!(!other.lock(&key(&["a"]), Some(Duration::from_millis(20))).unwrap());
    let waiting = thread::spawn(move || other.lock(&key(&["a"]), None).unwrap());
    drop(one);
    assert!(waiting.join().unwrap());
}
