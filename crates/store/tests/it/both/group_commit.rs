//! Transactions of one session that share a commit.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use forebay_store::{
    Durability, Key, Options, Read, Store, StoreError,
    facade::{Begin, Session, SessionError},
};
use proptest::{collection::vec, prelude::*, sample::Index};

use super::Home;

/// A session whose commits another process flushes.
fn session(folder: &Path) -> Session {
    let mut session = Session::open(folder, &Options::default()).unwrap();
    session.announce(|_| {});
    session
}

fn path(name: &str) -> Vec<u8> {
    let part = |text: &str| [&u16::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat();
    [part("G"), part(name)].concat()
}

/// Value of a node as everyone else sees it.
fn seen(store: &Store, name: &str) -> Option<String> {
    let mut key = Key::global("G").unwrap();
    key.push(name).unwrap();
    let snapshot = store.snapshot().unwrap();
    let value = snapshot.get(&key).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Value of a node as the session itself sees it.
fn own(session: &mut Session, name: &str) -> Option<String> {
    let value = session.value(&path(name)).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn together(session: &mut Session, work: impl FnOnce(&mut Session)) {
    session.begin(Begin::Together).unwrap();
    work(session);
    session.commit(None).unwrap();
}

#[test]
fn what_is_committed_together_is_one_commit_that_nobody_sees_before() {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let folder = Home::new();
    let mut session = session(folder.path());
    session.announce(|commit| TOLD.store(commit, SeqCst));
    let store = session.store().unwrap().clone();
    let before = store.stats().unwrap().last_commit;
    for number in 1..=3 {
        together(&mut session, |session| {
            assert_eq!(
                session.increment(&path("n"), b"1").unwrap(),
                number.to_string().as_bytes()
            );
        });
        assert_eq!(own(&mut session, "n"), Some(number.to_string()));
        assert_eq!((seen(&store, "n"), TOLD.load(SeqCst)), (None, 0));
    }
    session.settle().unwrap();
    assert_eq!(seen(&store, "n").as_deref(), Some("3"));
    assert_eq!(store.stats().unwrap().last_commit, before + 1);
    assert_eq!(
        (TOLD.load(SeqCst), session.last_commit()),
        (before + 1, before + 1)
    );
    session.settle().unwrap();
    assert_eq!(store.stats().unwrap().last_commit, before + 1);
}

#[test]
fn one_that_is_rolled_back_takes_nothing_else_along() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let store = session.store().unwrap().clone();
    together(&mut session, |session| session.set(&path("a"), b"1").unwrap());
    session.begin(Begin::Together).unwrap();
    session.set(&path("a"), b"2").unwrap();
    session.set(&path("b"), b"2").unwrap();
    session.roll_back().unwrap();
    assert_eq!(
        (own(&mut session, "a").as_deref(), own(&mut session, "b")),
        (Some("1"), None)
    );
    // Nor does one whose inner transaction was rolled back.
    session.begin(Begin::Together).unwrap();
    session.set(&path("c"), b"3").unwrap();
    session.begin(Begin::Together).unwrap();
    session.roll_back().unwrap();
    assert!(matches!(session.commit(None), Err(SessionError::Aborted)));
    together(&mut session, |session| session.set(&path("d"), b"4").unwrap());
    session.settle().unwrap();
    let found = ["a", "b", "c", "d"].map(|name| seen(&store, name));
    assert_eq!(found, [Some("1".into()), None, None, Some("4".into())]);
    // The log has exactly what was kept.
    let operations: usize = store
        .changes(0)
        .unwrap()
        .map(|change| change.unwrap().operations.len())
        .sum();
    assert_eq!(operations, 2);
}

#[test]
fn an_index_or_a_time_that_is_rolled_back_is_not_kept_up() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let store = session.store().unwrap().clone();
    together(&mut session, |session| session.set(&path("a"), b"1").unwrap());
    session.begin(Begin::Together).unwrap();
    let definition = br#"{"name":"by_n","records":["G"],"fields":[["n"]]}"#;
    session.define_index(definition).unwrap();
    session.expire(&path("a"), Some(u64::MAX >> 20)).unwrap();
    session.roll_back().unwrap();
    together(&mut session, |session| {
        session.put(&path("r"), br#"{"n":7}"#).unwrap();
    });
    session.settle().unwrap();
    assert_eq!(session.expires(&path("a")).unwrap(), None);
    let snapshot = store.snapshot().unwrap();
    assert!(snapshot.indexes().unwrap().is_empty());
    // Created again, it has no entry from before.
    session.kill(&path("r")).unwrap();
    session.define_index(definition).unwrap();
    assert_eq!(store.snapshot().unwrap().verify_indexes().unwrap(), 0);
}

#[test]
fn whatever_others_could_wait_for_settles_first() {
    type Operation = fn(&mut Session);
    let operations: [(&str, Operation); 8] = [
        ("a write by itself", |session| {
            session.set(&path("other"), b"1").unwrap();
        }),
        ("a transaction by itself", |session| {
            session.begin(Begin::Alone).unwrap();
        }),
        ("a snapshot", |session| session.begin_snapshot().unwrap()),
        ("a lock", |session| {
            session.lock(&path("lock"), Some(Duration::ZERO)).unwrap();
        }),
        ("the end of a lock", |session| {
            session.unlock(&path("lock")).unwrap();
        }),
        ("the end of all locks", |session| session.unlock_all().unwrap()),
        ("a flush", |session| session.flush().unwrap()),
        ("the end of the session", |session| session.close().unwrap()),
    ];
    for (what, operation) in operations {
        let folder = Home::new();
        let mut session = session(folder.path());
        let store = session.store().unwrap().clone();
        together(&mut session, |session| session.set(&path("a"), b"1").unwrap());
        assert_eq!(seen(&store, "a"), None, "{what}");
        operation(&mut session);
        assert_eq!(seen(&store, "a").as_deref(), Some("1"), "{what}");
    }
}

#[test]
fn nothing_is_held_that_nobody_is_told_of_or_that_is_to_be_on_the_disk() {
    let folder = Home::new();
    let mut apart = Session::open(folder.path(), &Options::default()).unwrap();
    let store = apart.store().unwrap().clone();
    together(&mut apart, |session| session.set(&path("a"), b"1").unwrap());
    assert_eq!(seen(&store, "a").as_deref(), Some("1"));
    let mut session = session(folder.path());
    together(&mut session, |session| session.set(&path("b"), b"1").unwrap());
    session.begin(Begin::Together).unwrap();
    session.set(&path("c"), b"1").unwrap();
    session.commit(Some(Durability::Sync)).unwrap();
    // It also commits the transactions held before it.
    assert_eq!(
        (seen(&store, "b").as_deref(), seen(&store, "c").as_deref()),
        (Some("1"), Some("1"))
    );
    // A transaction without changes is not held, so it blocks no one.
    together(&mut session, |_| {});
    let mut other = store.begin().unwrap();
    other.increment(&Key::global("G").unwrap(), "1").unwrap();
}

#[test]
fn what_is_held_is_committed_as_durably_as_the_strongest_of_its_parts_asks_for() {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let folder = Home::new();
    let mut session = session(folder.path());
    session.announce(|commit| TOLD.store(commit, SeqCst));
    let store = session.store().unwrap().clone();
    let mut parts = |parts: &[(Option<Durability>, bool)]| {
        for (durability, kept) in parts {
            session.begin(Begin::Together).unwrap();
            session.increment(&path("n"), b"1").unwrap();
            if *kept {
                session.commit(*durability).unwrap();
            } else {
                session.roll_back().unwrap();
            }
        }
        session.settle().unwrap();
        let told = TOLD.swap(0, SeqCst);
        assert!(told == 0 || told == session.last_commit());
        told != 0
    };
    let relaxed = (Some(Durability::Relaxed), true);
    // No wait for transactions that do not ask for one.
    assert!(!parts(&[relaxed]));
    assert!(!parts(&[relaxed, relaxed]));
    assert!(!parts(&[relaxed, (None, false)]));
    // The store's default is `Group`.
    assert!(parts(&[relaxed, (None, true)]));
    assert!(parts(&[(Some(Durability::Group), true), relaxed]));
    assert!(parts(&[(None, true), (None, false), relaxed]));
    assert_eq!(seen(&store, "n").as_deref(), Some("10"));
}

#[test]
fn one_that_has_failed_half_way_is_refused_by_itself() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let store = session.store().unwrap().clone();
    session
        .define_index(br#"{"name":"by_n","records":["G"],"fields":[["n"]],"unique":true}"#)
        .unwrap();
    let fail = |session: &mut Session| {
        session.begin(Begin::Together).unwrap();
        session.put(&path("a"), br#"{"n":1}"#).unwrap();
        assert!(session.put(&path("b"), br#"{"n":1}"#).is_err());
        assert!(matches!(
            session.commit(None),
            Err(SessionError::Store(StoreError::Broken))
        ));
    };
    fail(&mut session);
    together(&mut session, |session| session.set(&path("c"), b"1").unwrap());
    fail(&mut session);
    session.settle().unwrap();
    let found = ["a", "b", "c"].map(|name| seen(&store, name));
    assert_eq!(found, [None, None, Some("1".into())]);
}

#[test]
fn what_has_become_large_is_joined_by_nothing_more() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let store = session.store().unwrap().clone();
    let half = format!("\"{}\"", "x".repeat(600_000));
    for name in ["a", "b"] {
        together(&mut session, |session| {
            session.set(&path(name), half.as_bytes()).unwrap();
        });
        assert_eq!(seen(&store, "a"), None);
    }
    session.begin(Begin::Together).unwrap();
    assert!(seen(&store, "b").is_some());
}

#[test]
fn a_session_that_ends_in_between_leaves_nothing() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let store = session.store().unwrap().clone();
    together(&mut session, |session| session.set(&path("a"), b"1").unwrap());
    session.begin(Begin::Together).unwrap();
    session.set(&path("b"), b"1").unwrap();
    session.abandon();
    assert_eq!((seen(&store, "a"), seen(&store, "b")), (None, None));
    store
        .transact(|transaction| transaction.set(&Key::global("G").unwrap(), b"1"))
        .unwrap();
}

#[test]
fn all_that_is_lost_with_a_commit_is_told_and_nothing_is_written_before_that() {
    let folder = Home::new();
    let mut session = session(folder.path());
    let store = session.store().unwrap().clone();
    folder.prevent_commits();
    together(&mut session, |session| session.set(&path("a"), b"1").unwrap());
    let refused = |error| matches!(error, Err(SessionError::NotSettled { .. }));
    assert!(refused(session.begin(Begin::Alone).map(|_| ())));
    folder.allow_commits();
    assert!(refused(session.begin(Begin::Together).map(|_| ())));
    assert!(refused(session.set(&path("b"), b"1")));
    assert_eq!(own(&mut session, "a"), None);
    assert!(matches!(
        session.settle(),
        Err(SessionError::Store(
            StoreError::File { .. } | StoreError::Database { .. }
        ))
    ));
    together(&mut session, |session| session.set(&path("c"), b"1").unwrap());
    session.settle().unwrap();
    let found = ["a", "b", "c"].map(|name| seen(&store, name));
    assert_eq!(found, [None, None, Some("1".into())]);
}

/// One step of a program.
#[derive(Clone, Debug)]
enum Step {
    /// A transaction with that many writes, committed or rolled back.
    Transaction {
        begin: Begin,
        writes: Vec<(u8, u16)>,
        kept: bool,
    },
    Alone(u8, u16),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let write = || (0..12_u8, any::<u16>());
    prop_oneof![
        6 => (any::<Index>(), vec(write(), 0..6), any::<bool>()).prop_map(|(which, writes, kept)| Step::Transaction {
            begin: if which.index(4) == 0 { Begin::Alone } else { Begin::Together },
            writes,
            kept,
        }),
        1 => write().prop_map(|(name, value)| Step::Alone(name, value)),
        1 => Just(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64 / Home::FEWER_CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_is_all_or_nothing_in_whatever_company(steps in vec(step(), 1..40)) {
        let folder = Home::new();
        let mut session = session(folder.path());
        let store = session.store().unwrap().clone();
        let (mut mine, mut others) = (BTreeMap::new(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Transaction { begin, writes, kept } => {
                    if begin == Begin::Alone {
                        others.clone_from(&mine);
                    }
                    let before = mine.clone();
                    session.begin(begin).unwrap();
                    for (name, value) in writes {
                        session.set(&path(&name.to_string()), value.to_string().as_bytes()).unwrap();
                        mine.insert(name, value);
                    }
                    if kept {
                        session.commit(None).unwrap();
                        if begin == Begin::Alone {
                            others.clone_from(&mine);
                        }
                    } else {
                        session.roll_back().unwrap();
                        mine = before;
                    }
                }
                Step::Alone(name, value) => {
                    session.set(&path(&name.to_string()), value.to_string().as_bytes()).unwrap();
                    mine.insert(name, value);
                    others.clone_from(&mine);
                }
                Step::Settle => {
                    session.settle().unwrap();
                    others.clone_from(&mine);
                }
            }
            for name in 0..12 {
                prop_assert_eq!(own(&mut session, &name.to_string()), mine.get(&name).map(u16::to_string));
                prop_assert_eq!(seen(&store, &name.to_string()), others.get(&name).map(u16::to_string));
            }
        }
        session.settle().unwrap();
        if mine.is_empty() {
            // Nothing was ever committed, so there is no log.
            return Ok(());
        }
        // Replaying the log alone gives the same.
        let copy = Home::new();
        let again = Store::open(copy.path(), &Options { lead: false, ..Options::default() }).unwrap();
        let Some(files) = folder.files() else { return Ok(()) };
        again.replay(files, |_| true).unwrap();
        for (name, value) in mine {
            prop_assert_eq!(seen(&again, &name.to_string()), Some(value.to_string()));
        }
    }
}
