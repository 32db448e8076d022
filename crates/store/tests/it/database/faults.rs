//! A database that goes away, comes back, is read-only, full or slow, and processes that share it.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use forebay_store::{
    DatabaseError, Durability, Key, Options, Read, Store, StoreError, Transaction, facade::code_of,
};
use forebay_testkit::{Postgres, wait_until};

use super::Home;

pub(super) fn key(name: &str) -> Key {
    Key::global("G").unwrap().child(name).unwrap()
}

fn options(lead: bool) -> Options {
    Options {
        lead,
        ..Options::default()
    }
}

pub(super) fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(&PathBuf::from(url), &options(false))
}

fn set(store: &Store, name: &str, value: &str) -> Result<(), StoreError> {
    store.transact(|transaction| transaction.set(&key(name), value.as_bytes()))
}

fn value(store: &Store, name: &str) -> Result<Option<String>, StoreError> {
    store.read(|reader| {
        let value = reader.get(&key(name))?;
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    })
}

#[test]
fn a_database_that_comes_back_is_used_again() {
    let mut server = Postgres::start();
    let store = open(&server.url()).unwrap();
    set(&store, "a", "1").unwrap();
    // Idle connections that have ended are replaced, without anybody being told.
    assert!(server.kill_backends() > 0);
    assert_eq!(value(&store, "a").unwrap().as_deref(), Some("1"));
    server.kill_backends();
    set(&store, "a", "2").unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.set(&key("a"), b"3").unwrap();
    server.kill();
    let lost = transaction.commit(Durability::Sync).unwrap_err();
    assert_eq!(code_of(&lost), "commit_unknown", "{lost}");
    for failed in [
        value(&store, "a").map(drop),
        set(&store, "a", "4"),
        store.snapshot().map(drop),
    ] {
        let failed = failed.unwrap_err();
        assert_eq!(code_of(&failed), "database_unreachable", "{failed}");
        assert!(!failed.to_string().contains("benchmarkdbpass"), "{failed}");
    }
    server.start_again();
    wait_until("the database to answer", || value(&store, "a").is_ok());
    // What was confirmed is there, although the database itself is set up to confirm before it writes to the disk.
    assert_eq!(value(&store, "a").unwrap().as_deref(), Some("2"));
    set(&store, "a", "5").unwrap();
    assert_eq!(value(&store, "a").unwrap().as_deref(), Some("5"));
    assert_eq!(store.write_failure(), None);
}

#[test]
fn a_database_without_writes_or_connections_is_told_from_others() {
    let server = Postgres::start();
    let mut admin = server.admin();
    let mut change = |statement: &str| {
        admin.batch_execute(statement).unwrap();
        server.kill_backends();
    };
    let store = open(&server.url()).unwrap();
    set(&store, "a", "1").unwrap();
    change("alter database hello_world set default_transaction_read_only = on");
    let refused = set(&store, "a", "2").unwrap_err();
    assert_eq!(code_of(&refused), "database_read_only", "{refused}");
    assert_eq!(value(&store, "a").unwrap().as_deref(), Some("1"));
    let refused = open(&format!("{}&schema=other", server.url())).unwrap_err();
    assert_eq!(code_of(&refused), "database_read_only", "{refused}");
    change("alter database hello_world reset default_transaction_read_only");
    set(&store, "a", "2").unwrap();
    change("alter role benchmarkdbuser connection limit 0");
    let refused = value(&store, "a").unwrap_err();
    assert_eq!(code_of(&refused), "database_full", "{refused}");
    change("alter role benchmarkdbuser connection limit -1");
    assert_eq!(value(&store, "a").unwrap().as_deref(), Some("2"));
}

#[test]
fn of_several_servers_the_one_that_can_be_written_is_used() {
    let (mut standby, server) = (Postgres::start(), Postgres::start());
    standby
        .admin()
        .batch_execute("alter database hello_world set default_transaction_read_only = on")
        .unwrap();
    // A port on which nobody listens.
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let host = |port: u16| format!("127.0.0.1:{port}");
    let hosts = [nobody, standby.port(), server.port()].map(host).join(",");
    let url = server.url().replace(&host(server.port()), &hosts);
    // The users of test servers are the same.
    let store = open(&url).unwrap();
    set(&store, "a", "1").unwrap();
    assert_eq!(value(&store, "a").unwrap().as_deref(), Some("1"));
    assert!(
        store.path().to_string_lossy().contains(&hosts),
        "{:?}",
        store.path()
    );
    // They change places while their connections stay open.
    let mut admin = standby.admin();
    for statement in [
        "set default_transaction_read_only = off",
        "alter database hello_world reset default_transaction_read_only",
    ] {
        admin.batch_execute(statement).unwrap();
    }
    let other = open(&standby.url()).unwrap();
    let mut admin = server.admin();
    for statement in [
        "alter system set default_transaction_read_only = on",
        "select pg_reload_conf()",
    ] {
        admin.batch_execute(statement).unwrap();
    }
    let left = open(&server.url()).unwrap();
    wait_until("the server to refuse writes", || set(&left, "b", "1").is_err());
    set(&store, "a", "2").unwrap();
    assert_eq!(value(&other, "a").unwrap().as_deref(), Some("2"));
    for statement in [
        "set default_transaction_read_only = off",
        "alter system reset default_transaction_read_only",
        "select pg_reload_conf()",
    ] {
        admin.batch_execute(statement).unwrap();
    }
    wait_until("the server to take writes", || set(&left, "b", "1").is_ok());
    standby.stop();
    set(&store, "a", "3").unwrap();
    assert_eq!(value(&left, "a").unwrap().as_deref(), Some("3"));
}

#[test]
fn a_leader_finds_out_by_itself_that_commits_succeed_again() {
    let mut server = Postgres::start();
    let store = Store::open(&PathBuf::from(server.url()), &options(true)).unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.set(&key("a"), b"1").unwrap();
    server.kill();
    transaction.commit(Durability::Sync).unwrap_err();
    assert!(store.write_failure().is_some());
    server.start_again();
    wait_until("the failure to be over", || store.write_failure().is_none());
    assert_eq!(value(&store, "a").unwrap(), None);
}

#[test]
fn a_statement_that_is_cancelled_while_it_waits_for_a_writer_is_late() {
    let server = Postgres::start();
    let store = open(&server.url()).unwrap();
    let mut admin = server.admin();
    admin
        .batch_execute("begin; select * from forebay.state where id = 1 for update")
        .unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.begin().map(drop));
        let cancel = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'";
        let mut other = server.admin();
        wait_until("the writer to wait", || {
            !other.query(cancel, &[]).unwrap().is_empty()
        });
        let late = waiting.join().unwrap().unwrap_err();
        assert!(
            matches!(
                late,
                StoreError::Database {
                    error: DatabaseError::Late {
                        is_write_lock: true,
                        ..
                    },
                    ..
                }
            ),
            "{late}"
        );
    });
    admin.batch_execute("rollback").unwrap();
    set(&store, "a", "1").unwrap();
}

/// A proxy before a server: what it does with the connections, and how often a client has sent it something.
#[derive(Default)]
pub(super) struct Proxy {
    /// 0, [`LOSE_REQUEST`], [`LOSE_ANSWER`], [`SNAPSHOTS`] or [`UNSURE`].
    pub(super) mode: AtomicU8,
    sent: AtomicUsize,
}

/// Opens the store of a schema through a proxy.
pub(super) fn open_through(schema: &Home) -> (Store, Arc<Proxy>) {
    let state = Arc::new(Proxy::default());
    let (url, server) = (schema.path().to_str().unwrap(), Postgres::shared().port());
    let through = proxy(server, Arc::clone(&state));
    let url = url.replace(&format!(":{server}/"), &format!(":{through}/"));
    (open(&url).unwrap(), state)
}

fn proxy(port: u16, state: Arc<Proxy>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut back_from, mut back_to) = (server, client);
            let sent = Arc::clone(&state);
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    sent.sent.fetch_add(1, SeqCst);
                    let has_marker = buffer[..count].windows(MARKER.len()).any(|bytes| bytes == MARKER);
                    if has_marker && sent.mode.load(SeqCst) == LOSE_REQUEST {
                        sent.mode.store(0, SeqCst);
                        break;
                    }
                    if sent.mode.load(SeqCst) == SNAPSHOTS {
                        let found = buffer[..count].windows(READ_COMMITTED.len());
                        if let Some(at) = found.clone().position(|bytes| bytes == READ_COMMITTED) {
                            buffer[at..at + READ_COMMITTED.len()].copy_from_slice(REPEATABLE_READ);
                        }
                    }
                    if to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let _ = from.shutdown(std::net::Shutdown::Both);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            let answered = Arc::clone(&state);
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(count @ 1..) = back_from.read(&mut buffer) {
                    let is_committed = buffer[..count].windows(7).any(|bytes| bytes == b"COMMIT\0");
                    if is_committed && answered.mode.load(SeqCst) == LOSE_ANSWER {
                        answered.mode.store(0, SeqCst);
                        break;
                    }
                    let mut answer = buffer[..count].to_vec();
                    if is_committed && answered.mode.load(SeqCst) == UNSURE {
                        answered.mode.store(0, SeqCst);
                        let name = answer.windows(7).position(|bytes| bytes == b"COMMIT\0").unwrap();
                        answer.splice(name - 5..name + 7, unsure());
                    }
                    if back_to.write_all(&answer).is_err() {
                        break;
                    }
                }
                let _ = back_to.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    own
}

/// The connection breaks before the server gets what contains the marker.
const LOSE_REQUEST: u8 = 1;
/// The connection breaks when the server has committed.
pub(super) const LOSE_ANSWER: u8 = 2;
/// The server runs each write transaction on a snapshot, as `YugabyteDB` does unless it is told otherwise.
const SNAPSHOTS: u8 = 3;
/// The server commits and says that it does not know whether it has, as `CockroachDB` may.
const UNSURE: u8 = 4;
const MARKER: &[u8] = b"the marker";
const READ_COMMITTED: &[u8] = b"begin transaction isolation level read committed";
const REPEATABLE_READ: &[u8; 48] = b"begin isolation level repeatable read           ";

#[test]
fn writers_and_locks_exclude_each_other_where_transactions_read_snapshots() {
    let schema = Home::new();
    let stores = [open_through(&schema), open_through(&schema)];
    let mut locks = stores.each_ref().map(|(store, proxy)| {
        proxy.mode.store(SNAPSHOTS, SeqCst);
        store.locks().unwrap()
    });
    for _ in 0..50 {
        thread::scope(|scope| {
            for (store, _) in &stores {
                scope.spawn(|| {
                    let add = |transaction: &mut Transaction| transaction.increment(&key("count"), "1");
                    store.transact(add).unwrap();
                });
            }
        });
        let holders = AtomicUsize::new(0);
        thread::scope(|scope| {
            for locks in &mut locks {
                scope.spawn(|| {
                    let is_holder = locks.lock(&key("a"), Some(Duration::ZERO)).unwrap();
                    holders.fetch_add(usize::from(is_holder), SeqCst);
                });
            }
        });
        assert_eq!(holders.into_inner(), 1);
        for locks in &mut locks {
            locks.unlock_all().unwrap();
        }
    }
    assert_eq!(value(&stores[0].0, "count").unwrap().as_deref(), Some("100"));
}

/// The message of the protocol for an error of this code.
fn unsure() -> Vec<u8> {
    let fields = b"SERROR\0VERROR\0C40003\0Mresult is ambiguous\0\0";
    let length = (fields.len() as u32 + 4).to_be_bytes();
    [b"E", &length[..], fields].concat()
}

#[test]
fn a_connection_that_breaks_during_a_commit_leaves_no_doubt() {
    let schema = Home::new();
    let (store, proxy) = open_through(&schema);
    let mode = &proxy.mode;
    let write = |name: &str| {
        let mut transaction = store.begin()?;
        // Prepared statements go out together.
        transaction.set(&key(name), b"\"the marker\"")?;
        transaction.commit(Durability::Sync)
    };
    assert_eq!(write("a").unwrap(), 1);
    mode.store(LOSE_ANSWER, SeqCst);
    assert_eq!(write("b").unwrap(), 2);
    assert_eq!(mode.load(SeqCst), 0);
    assert!(value(&store, "b").unwrap().is_some());
    mode.store(UNSURE, SeqCst);
    assert_eq!(write("c").unwrap(), 3);
    assert_eq!(mode.load(SeqCst), 0);
    mode.store(LOSE_REQUEST, SeqCst);
    let lost = write("d").unwrap_err();
    assert_eq!(code_of(&lost), "database_unreachable", "{lost}");
    assert_eq!(value(&store, "d").unwrap(), None);
    // Who gave a function is not told: it is run again.
    mode.store(LOSE_REQUEST, SeqCst);
    let mut runs = 0;
    store
        .transact(|transaction: &mut Transaction| {
            runs += 1;
            transaction.set(&key("e"), b"\"the marker\"")
        })
        .unwrap();
    assert_eq!((runs, mode.load(SeqCst)), (2, 0));
    assert_eq!(store.changes(0).unwrap().count(), 4);
}

#[test]
fn operations_cost_few_round_trips() {
    let schema = Home::new();
    let (store, proxy) = open_through(&schema);
    let put =
        |number: u32| store.transact(|transaction| transaction.put(&key(&number.to_string()), b"{\"a\":1}"));
    let read = |name: &str| store.read(|reader| Ok::<_, StoreError>(reader.document(&key(name))?.is_some()));
    let page = || {
        store.read(|reader| {
            let children = reader.children(&Key::global("G").unwrap(), forebay_store::Range::default())?;
            Ok::<_, StoreError>(children.take(100).count())
        })
    };
    for number in 0..200 {
        put(number).unwrap();
    }
    // Statements are prepared by their first use.
    assert!(read("7").unwrap() && page().unwrap() == 100);
    let trips = |operation: &dyn Fn()| {
        let before = proxy.sent.load(SeqCst);
        operation();
        proxy.sent.load(SeqCst) - before
    };
    assert_eq!(trips(&|| assert!(read("8").unwrap())), 1);
    assert_eq!(trips(&|| assert!(!read("none").unwrap())), 3);
    // The lock, a read, the commit.
    assert_eq!(trips(&|| put(9).unwrap()), 3);
    let keys: Vec<Key> = (0..100).map(|number: u32| key(&number.to_string())).collect();
    let group = || {
        store
            .transact(|transaction| {
                transaction.prefetch(keys.iter())?;
                (0..100).try_for_each(|number| transaction.put(&key(&number.to_string()), b"{\"a\":2}"))
            })
            .unwrap();
    };
    group();
    let trips_of_group = trips(&group);
    // The keys are read around at once.
    assert_eq!(trips_of_group, 3);
    // The node, three pages of 16, 64 and 256 records, and the end of the transaction.
    assert_eq!(trips(&|| assert_eq!(page().unwrap(), 100)), 5);
}

#[test]
fn a_read_that_a_commit_has_overtaken_is_run_again_on_one_state() {
    let schema = Home::new();
    let url = schema.path().to_str().unwrap();
    let store = open(url).unwrap();
    let other = open(&format!("{url}&application_name=other")).unwrap();
    set(&store, "a", "1").unwrap();
    set(&store, "b", "1").unwrap();
    let mut runs = 0;
    let read = store.read(|reader| {
        runs += 1;
        let first = reader.get(&key("a"))?.map(<[u8]>::to_vec);
        if runs == 1 {
            other.transact(|transaction| {
                transaction.set(&key("a"), b"2")?;
                transaction.set(&key("b"), b"2")
            })?;
        }
        let second = reader.get(&key("b"))?.map(<[u8]>::to_vec);
        Ok::<_, StoreError>((first, second))
    });
    let two = Some(b"2".to_vec());
    assert_eq!((read.unwrap(), runs), ((two.clone(), two), 2));
    // A snapshot shows one state however many commits there are, and is not run again.
    let snapshot = store.snapshot().unwrap();
    set(&other, "a", "3").unwrap();
    assert_eq!(snapshot.get(&key("a")).unwrap(), Some(&b"2"[..]));
}

#[test]
fn commits_of_others_are_noticed_with_and_without_notifications() {
    for has_notifications in [true, false] {
        let server = Postgres::start();
        if !has_notifications {
            server
                .admin()
                .batch_execute("revoke execute on function pg_notify(text, text) from public")
                .unwrap();
            let may = "select has_function_privilege('benchmarkdbuser', 'pg_notify(text, text)', 'execute')";
            assert!(!server.admin().query_one(may, &[]).unwrap().get::<_, bool>(0));
        }
        let url = server.url();
        let leader = Store::open(&PathBuf::from(&url), &options(true)).unwrap();
        let other = open(&format!("{url}&application_name=other")).unwrap();
        let mut walk = leader.changes(0).unwrap();
        for number in 1..5 {
            set(&other, "a", &number.to_string()).unwrap();
            wait_until("the change", || leader.stats().unwrap().last_commit == number);
            leader.follow(&mut walk).unwrap();
            assert_eq!(walk.next().unwrap().unwrap().sequence, number);
        }
    }
}

#[test]
fn the_log_is_kept_within_its_limit() {
    let schema = Home::new();
    let store = Store::open(schema.path(), &options(true)).unwrap();
    for number in 0..50 {
        set(&store, "a", &format!("\"{}{number}\"", "x".repeat(1000))).unwrap();
    }
    assert_eq!(store.changes(0).unwrap().count(), 50);
    drop(store);
    let limited = Options {
        changes_bytes_max: 10_000,
        ..options(true)
    };
    let store = Store::open(schema.path(), &limited).unwrap();
    wait_until("old changes to go", || store.changes(0).is_err());
    let Err(StoreError::ChangesGone { since: 0, oldest }) = store.changes(0) else {
        panic!("the log begins with a later change")
    };
    assert!((35..50).contains(&oldest), "{oldest}");
    assert_eq!(store.changes(oldest - 1).unwrap().count() as u64, 51 - oldest);
}

#[test]
fn a_long_change_that_is_removed_while_the_log_is_read_is_gone_and_not_damaged() {
    let schema = Home::new();
    let store = open(schema.path().to_str().unwrap()).unwrap();
    // So long that it is not listed with the others, but read by itself.
    for _ in 0..2 {
        set(&store, "a", &format!("\"{}\"", "x".repeat(100_000))).unwrap();
    }
    let mut all_gone = store.changes(0).unwrap();
    let mut walk = store.changes(0).unwrap();
    let mut damaged = store.changes(1).unwrap();
    schema.run("delete from SCHEMA.changes where sequence = 1");
    let gone = walk.next().unwrap().unwrap_err();
    assert!(
        matches!(gone, StoreError::ChangesGone { since: 0, oldest: 2 }),
        "{gone}"
    );
    schema.run("update SCHEMA.changes set bytes = ''");
    let failed = damaged.next().unwrap().unwrap_err();
    assert!(matches!(failed, StoreError::Damaged { .. }), "{failed}");
    schema.run("delete from SCHEMA.changes");
    let gone = all_gone.next().unwrap().unwrap_err();
    assert!(
        matches!(gone, StoreError::ChangesGone { since: 0, oldest: 3 }),
        "{gone}"
    );
}

#[test]
fn urls_that_are_none_are_refused_without_their_passwords() {
    for (url, reason) in [
        ("postgres://u:secret@h", "no database"),
        ("postgres://u:secret@h/d?schema=A%20b", "schema"),
        ("postgres://u:secret@h/d?pool=5", "pool"),
        ("postgres://u:secret@,/d", "URL"),
    ] {
        let error = open(url).unwrap_err();
        assert_eq!(code_of(&error), "database_address", "{url}: {error}");
        let error = error.to_string();
        assert!(error.contains(reason) && !error.contains("secret"), "{error}");
    }
}
