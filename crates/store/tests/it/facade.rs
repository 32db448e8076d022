//! The store as programs in other languages use it: bytes in, bytes out.

use std::path::Path;

use forebay_store::{
    Durability, Options, StoreError,
    facade::{Children, Session, SessionError, Value},
};
use proptest::prelude::*;

fn session(folder: &Path) -> Session {
    let options = Options {
        durability: Durability::Relaxed,
        ..Options::default()
    };
    Session::open(folder, &options).unwrap()
}

fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    [&length.to_le_bytes(), text.as_bytes()].concat()
}

fn integer(number: i32) -> Vec<u8> {
    [&0xFFFE_u16.to_le_bytes()[..], &number.to_le_bytes()].concat()
}

fn double(number: f64) -> Vec<u8> {
    [&0xFFFF_u16.to_le_bytes()[..], &number.to_le_bytes()].concat()
}

fn path(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

/// The texts of a page.
fn items(mut page: &[u8]) -> Vec<String> {
    let mut items = Vec::new();
    while let Some((length, rest)) = page.split_first_chunk::<4>() {
        let (item, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        items.push(String::from_utf8(item.to_vec()).unwrap());
        page = rest;
    }
    items
}

#[test]
fn integers_doubles_and_their_texts_are_the_same_subscript() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    for number in [0, 1, -1, 7, 10, 100, -20, 123_456, i32::MAX, i32::MIN] {
        let node = path(&[text("N"), integer(number)]);
        session.set(&node, b"1").unwrap();
        for same in [text(&number.to_string()), double(number.into())] {
            assert_eq!(session.defined(&path(&[text("N"), same])).unwrap(), 1, "{number}");
        }
    }
    let all = session.children(&text("N"), Children::default(), 100).unwrap();
    let sorted = [
        "-2147483648",
        "-20",
        "-1",
        "0",
        "1",
        "7",
        "10",
        "100",
        "123456",
        "2147483647",
    ];
    assert_eq!(items(all), sorted);
}

#[test]
fn reads_are_of_the_latest_commit_of_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (session(folder.path()), session(folder.path()));
    let node = path(&[text("A"), integer(1)]);
    for round in 0..50 {
        let value = round.to_string();
        other.set(&node, value.as_bytes()).unwrap();
        for _ in 0..3 {
            assert_eq!(one.get(&node).unwrap(), Some(value.as_bytes()));
        }
        assert!(one.last_commit() < other.last_commit());
    }
}

#[test]
fn a_transaction_joins_the_one_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    let node = text("A");
    assert_eq!(
        (
            session.begin().unwrap(),
            session.begin().unwrap(),
            session.level()
        ),
        (1, 2, 2)
    );
    session.set(&node, b"1").unwrap();
    session.commit(None).unwrap();
    assert!(matches!(session.close(), Err(SessionError::Busy)));
    session.commit(Some(Durability::Sync)).unwrap();
    assert_eq!(session.level(), 0);
    session.begin().unwrap();
    session.begin().unwrap();
    session.set(&node, b"2").unwrap();
    session.roll_back().unwrap();
    assert!(matches!(session.commit(None), Err(SessionError::Aborted)));
    assert_eq!(session.get(&node).unwrap(), Some(&b"1"[..]));
    assert!(matches!(session.commit(None), Err(SessionError::NoTransaction)));
    assert!(matches!(session.roll_back(), Err(SessionError::NoTransaction)));
    assert!(matches!(session.end_snapshot(), Err(SessionError::NoSnapshot)));
    session.close().unwrap();
    assert!(matches!(session.get(&node), Err(SessionError::Closed)));
}

#[test]
fn errors_have_words_that_programs_compare() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    let code = |outcome: Result<(), SessionError>| outcome.unwrap_err().code();
    assert_eq!(code(session.set(&text(""), b"1")), "key");
    assert_eq!(code(session.set(&text("A"), b"{")), "json");
    assert_eq!(
        code(session.set(&path(&[text("A"), vec![1, 0, 0xFF]]), b"1")),
        "not_text"
    );
    assert_eq!(code(session.set(&[9, 0, b'A'], b"1")), "malformed");
    assert_eq!(code(session.set(&integer(1), b"1")), "malformed");
    assert_eq!(code(session.set(&[], b"1")), "malformed");
    session.begin_snapshot().unwrap();
    assert_eq!(code(session.set(&text("A"), b"1")), "in_snapshot");
    let read_only = SessionError::Store(StoreError::ReadOnly);
    assert_eq!((read_only.code(), Value::read(b"nonsense")), ("read_only", None));
}

proptest! {
    /// Whatever bytes a caller hands over, they are a path or an error.
    #[test]
    fn no_bytes_do_harm(path in proptest::collection::vec(any::<u8>(), 0..64), seed in proptest::collection::vec(any::<u8>(), 0..16)) {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path());
        let _ = session.set(&path, &seed);
        let _ = session.get(&path);
        let _ = session.neighbour(&path, &seed, true);
        let _ = session.children(&path, Children { from: &seed, prefix: &seed, ..Children::default() }, 3);
        let _ = session.values(&path, &seed, 3);
        let _ = session.globals(&path, true, 3);
        let _ = session.increment(&path, &seed);
    }
}
