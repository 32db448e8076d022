//! The store's API for other languages: bytes in, bytes out.

use std::{cell::Cell, path::Path};

use forebay_store::{
    Durability, Options, StoreError,
    facade::{Begin, Children, Question, Session, SessionError, Value},
};
use proptest::{prelude::*, test_runner::TestRunner};

use super::Home;

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

/// A text as an item of a page.
fn item(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_le_bytes(), text.as_bytes()].concat()
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
    let folder = Home::new();
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
    let folder = Home::new();
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
    let folder = Home::new();
    let mut session = session(folder.path());
    let node = text("A");
    assert_eq!(
        (
            session.begin(Begin::Alone).unwrap(),
            session.begin(Begin::Alone).unwrap(),
            session.level()
        ),
        (1, 2, 2)
    );
    session.set(&node, b"1").unwrap();
    session.commit(None).unwrap();
    assert!(matches!(session.close(), Err(SessionError::Busy)));
    session.commit(Some(Durability::Sync)).unwrap();
    assert_eq!(session.level(), 0);
    session.begin(Begin::Alone).unwrap();
    session.begin(Begin::Alone).unwrap();
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
    let folder = Home::new();
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

#[test]
fn a_subtree_longer_than_a_document_may_be_is_refused_and_its_parts_are_not() {
    let folder = Home::new();
    let options = Options {
        durability: Durability::Relaxed,
        value_bytes_max: 100_000,
        ..Options::default()
    };
    let mut session = Session::open(folder.path(), &options).unwrap();
    let value = format!("\"{}\"", "x".repeat(50_000));
    for number in 0..3 {
        session
            .set(&path(&[text("Big"), integer(number)]), value.as_bytes())
            .unwrap();
    }
    for read in [Session::get, Session::document] {
        let refused = read(&mut session, &text("Big")).map(|found| found.map(<[u8]>::to_vec));
        assert_eq!(refused.unwrap_err().code(), "value_too_long");
    }
    assert_eq!(
        session.get(&path(&[text("Big"), integer(1)])).unwrap(),
        Some(value.as_bytes())
    );
    let with_values = Children {
        with_values: true,
        ..Children::default()
    };
    assert_eq!(
        items(session.children(&text("Big"), with_values, 10).unwrap()).len(),
        6
    );
    let above = session
        .children(&text("Big"), with_values, 1)
        .map(<[u8]>::len)
        .unwrap();
    assert!(above > 50_000);
}

#[test]
fn a_page_of_long_values_ends_before_its_limit_and_says_so() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let value = format!("\"{}\"", "x".repeat(300_000));
    for number in 0..10 {
        session
            .set(&path(&[text("Long"), integer(number)]), value.as_bytes())
            .unwrap();
    }
    let (mut children, mut pages) = (Vec::new(), 0);
    loop {
        let after = children.last().map_or_else(Vec::new, |last: &String| text(last));
        let which = Children {
            after: &after,
            with_values: true,
            ..Children::default()
        };
        let page = session.children(&text("Long"), which, 100).unwrap();
        assert!(page.len() < 2_000_000, "{}", page.len());
        children.extend(items(page).into_iter().step_by(2));
        pages += 1;
        if !session.more() {
            break;
        }
    }
    assert_eq!((children.len(), pages), (10, 3));
    let (mut after, mut leaves) = (Vec::new(), 0);
    loop {
        let page = session.values(&text("Long"), &after, 100).unwrap();
        assert!(page.len() < 2_000_000, "{}", page.len());
        // Each is the number of its subscripts, one subscript of one byte, and its value.
        leaves += page.len() / (4 + 5 + 4 + value.len());
        after = path(&[text("Long"), text(&(leaves - 1).to_string())]);
        if !session.more() {
            break;
        }
    }
    assert_eq!(leaves, 10);
}

#[test]
fn a_walk_goes_on_only_where_it_was() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let node = path(&[text("A"), integer(1)]);
    session.put(&text("A"), b"[[1],[2,{\"x\":3}],4]").unwrap();
    let elsewhere = [
        text("A"),
        path(&[text("A"), integer(0), integer(0)]),
        path(&[text("A"), integer(12)]),
        text("B"),
    ];
    for after in elsewhere {
        let refused = session.values(&node, &after, 3).map(<[u8]>::to_vec);
        assert!(
            matches!(refused, Err(SessionError::Malformed)),
            "{after:?}: {refused:?}"
        );
    }
    let after = path(&[node.clone(), integer(0)]);
    let expected = [&2_u32.to_le_bytes()[..], &item("1"), &item("x"), &item("3")].concat();
    assert_eq!(session.values(&node, &after, 3).unwrap(), expected);
}

/// Parts of paths as a program encodes them.
fn part() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (-2..4).prop_map(integer),
        2 => prop_oneof![Just("a"), Just("A"), Just(""), Just("\0"), Just("-.5"), Just("\u{e9}\"")].prop_map(text),
        1 => prop_oneof![Just(0.5), Just(-3.0), Just(1e300), Just(f64::NAN)].prop_map(double),
        1 => (0_usize..3000).prop_map(|length| text(&"x".repeat(length))),
    ]
}

/// Encoded paths, some of them with a byte changed, missing or added.
fn bytes(parts: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let global = prop_oneof![9 => Just(text("A")), 1 => Just(text("B"))];
    let path = (global, proptest::collection::vec(part(), parts))
        .prop_map(|(global, parts)| [vec![global], parts].concat().concat());
    mutated(path)
}

fn json() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        Just("1"),
        Just("-0.5e3"),
        Just("\"a\\n\""),
        Just("{}"),
        Just("[]"),
        Just("[1,[2,{\"a\":3}],{\"A\":[]}]"),
        Just("{\"0\":{\"1\":[4,5]},\"a\":null,\"-1\":true}"),
    ];
    mutated(text.prop_map(|text| text.as_bytes().to_vec()))
}

fn mutated(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = prop_oneof![8 => Just(None), 1 => any::<(u8, prop::sample::Index, u8)>().prop_map(Some)];
    (bytes, change).prop_map(|(mut bytes, change)| {
        let Some((kind, at, byte)) = change.filter(|_| !bytes.is_empty()) else {
            return bytes;
        };
        let at = at.index(bytes.len());
        match kind % 4 {
            0 => bytes[at] = byte,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            _ => bytes.truncate(at),
        }
        bytes
    })
}

type Arguments = (u8, Vec<u8>, Vec<u8>, Vec<u8>);

fn call(session: &mut Session, (operation, path, other, value): &Arguments) -> Result<(), SessionError> {
    let seed = other.get(3..).unwrap_or_default();
    let limit = usize::from(operation >> 6);
    match operation % 22 {
        0..3 => session.set(path, value),
        3..5 => session.put(path, value),
        5 => session.lay_over(path, value),
        6 => session.patch(path, value),
        7 => session.merge(path, other),
        8 => session.increment(path, value).map(drop),
        9 => session.kill(path).map(drop),
        10 => session.get(path).map(drop),
        11 => session.document(path).map(drop),
        12 => session.defined(path).map(drop),
        13 => session.neighbour(path, seed, limit == 1).map(drop),
        14 | 15 => {
            let children = Children {
                from: if limit == 1 { seed } else { &[] },
                after: if limit == 2 { seed } else { &[] },
                before: if limit == 3 { seed } else { &[] },
                prefix: if value.len() == 2 { seed } else { &[] },
                reverse: value.len() == 1,
                with_values: *operation % 2 == 0,
                ..Children::default()
            };
            session.children(path, children, limit).map(drop)
        }
        16..18 => session.values(path, other, limit).map(drop),
        18 => session.globals(path, true, limit).map(drop),
        19 => session.expire(path, Some(u64::MAX)).map(drop),
        20 => session.define_index(value),
        _ => {
            let question = Question {
                equal: other,
                from: seed,
                ..Question::default()
            };
            session.query(path, question, value, limit).map(drop)
        }
    }
}

/// Arbitrary bytes from a caller either work as specified or are an error, and the session continues.
#[test]
fn no_bytes_do_harm() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 100 / Home::FEWER_CASES,
        ..ProptestConfig::default()
    });
    let calls = proptest::collection::vec((any::<u8>(), bytes(0..4), bytes(0..3), json()), 1..60);
    let (all, done) = (Cell::new(0), Cell::new(0));
    let outcome = runner.run(&calls, |calls| {
        let folder = Home::new();
        let mut session = session(folder.path());
        session.put(&text("A"), b"[[1],{\"a\":[2,3]},4]").unwrap();
        for arguments in &calls {
            all.set(all.get() + 1);
            done.set(done.get() + usize::from(call(&mut session, arguments).is_ok()));
        }
        session.set(&text("A"), b"1").unwrap();
        prop_assert_eq!(session.value(&text("A")).unwrap(), Some(&b"1"[..]));
        Ok(())
    });
    outcome.unwrap_or_else(|failed| panic!("{failed}"));
    // Many of the generated calls must succeed, so that later ones find data.
    assert!(done.get() * 4 >= all.get(), "{} of {}", done.get(), all.get());
}
