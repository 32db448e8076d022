//! The feed of changes: server-sent events, in order, from the client's position.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_store::{Durability, Key};
use forebay_testkit::{Client, Server};
use serde_json::Value;

use super::{ask, config, open, put, reload, send, setup, start};

/// Globals of which one can only be read with a token.
const SECRET: &str = "Open = { read = \"public\", write = \"public\" }\nSecret = { read = \"token:SECRET\", write = \"public\" }\n";

/// A client that follows changes.
struct Follower {
    client: Client,
    received: String,
}

impl Follower {
    fn start(server: &Server, target: &str, fields: &[(&str, &str)]) -> Self {
        let mut client = server.connect();
        send(&mut client, "GET", target, fields, b"");
        let head = client.head().expect("an answer begins");
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        Self {
            client,
            received: String::new(),
        }
    }

    /// The next event's fields; `None` at the connection's end.
    fn event(&mut self) -> Option<Vec<(String, String)>> {
        loop {
            let block = self.block()?;
            if block.iter().any(|(name, _)| name == "data") {
                return Some(block);
            }
        }
    }

    /// The next keep-alive comment: the number of the last change that the client has seen.
    fn beat(&mut self) -> u64 {
        let block = self.block().expect("a comment comes");
        let [(name, id)] = &block[..] else {
            panic!("this is no comment: {block:?}")
        };
        assert_eq!(name, "id");
        id.parse().expect("an id is a number")
    }

    /// The fields of the next block, without comments; `None` at the connection's end.
    fn block(&mut self) -> Option<Vec<(String, String)>> {
        loop {
            if let Some(at) = self.received.find("\n\n") {
                let block: String = self.received.drain(..at + 2).collect();
                let fields = block.lines().filter_map(|line| line.split_once(": "));
                return Some(
                    fields
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .collect(),
                );
            }
            let bytes = self.client.some_bytes();
            if bytes.is_empty() {
                return None;
            }
            self.received
                .push_str(std::str::from_utf8(&bytes).expect("events are text"));
        }
    }

    /// The next change: its id, and its data.
    fn change(&mut self) -> (u64, Value) {
        let event = self.event().expect("another change comes");
        assert_eq!(event[1], ("event".into(), "change".into()));
        (
            event[0].1.parse().expect("an id is a number"),
            serde_json::from_str(&event[2].1).expect("a change is JSON"),
        )
    }
}

#[test]
fn changes_come_in_order_those_that_were_and_those_that_come() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    let mut follower = Follower::start(&server, "/store:changes?since=0", &[]);
    let (id, change) = follower.change();
    assert_eq!((id, &change["sequence"]), (1, &1.into()));
    assert_eq!(change["operations"][0]["path"], serde_json::json!(["Open", "a"]));
    for number in 2..50 {
        put(&mut client, "/store/Open/a", &number.to_string());
        let (id, change) = follower.change();
        assert_eq!(id, number);
        assert_eq!(change["operations"][0]["value"], number);
    }
    // A client that returns continues where it was; one without a position begins now.
    let mut back = Follower::start(&server, "/store:changes", &[("last-event-id", "47")]);
    assert_eq!(back.change().0, 48);
    assert_eq!(back.change().0, 49);
    let mut fresh = Follower::start(&server, "/store:changes", &[]);
    put(&mut client, "/store/Open/a", "50");
    assert_eq!(fresh.change().0, 50);
    assert_eq!(back.change().0, 50);
}

#[test]
fn a_client_hears_only_of_globals_that_it_may_read() {
    let server = forebay_testkit::Setup::new(&config("", SECRET, ""))
        .env("SECRET", "sesame")
        .start();
    let mut client = server.connect();
    put(&mut client, "/store/Secret/a", "1");
    put(&mut client, "/store/Open/a", "2");
    let mut anybody = Follower::start(&server, "/store:changes?since=0", &[]);
    assert_eq!(anybody.change().0, 2);
    let mut trusted = Follower::start(
        &server,
        "/store:changes?since=0",
        &[("authorization", "Bearer sesame")],
    );
    assert_eq!(trusted.change().0, 1);
    assert_eq!(trusted.change().0, 2);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    for (target, fields, status) in [
        ("/store:changes?since=x", &[][..], 400),
        ("/store:changes?since=1&since=1", &[], 400),
        ("/store:changes?until=1", &[], 400),
        ("/store:changes", &[("last-event-id", "-1")], 400),
        ("/store:changes?since=2", &[], 410),
    ] {
        assert_eq!(
            ask(&mut client, "GET", target, fields, b"").status,
            status,
            "{target}"
        );
    }
    let refused = ask(&mut client, "POST", "/store:changes", &[], b"");
    assert_eq!(refused.status, 405);
    assert_eq!(refused.header("allow"), Some("GET, HEAD, OPTIONS"));
    let closed = forebay_testkit::Setup::new(&config("", "", "")).start();
    let refused = ask(&mut closed.connect(), "GET", "/store:changes", &[], b"");
    assert_eq!(refused.status, 403);
}

#[test]
fn a_change_that_is_too_long_says_where_to_read_anew() {
    let server = start();
    let mut client = server.connect();
    let mut follower = Follower::start(&server, "/store:changes", &[]);
    // More than one request may write.
    let store = open(&server);
    let mut transaction = store.begin().unwrap();
    let large = format!("\"{}\"", "x".repeat(600_000));
    for global in ["Open", "Other", "Hidden"] {
        let key = Key::global(global).unwrap().child("a").unwrap();
        transaction.put(&key, large.as_bytes()).unwrap();
    }
    transaction.commit(Durability::Relaxed).unwrap();
    put(&mut client, "/store/Open/b", "1");
    let (id, change) = follower.change();
    assert_eq!((id, &change["sequence"]), (1, &1.into()));
    assert_eq!(
        change["operations"],
        serde_json::json!([{"op":"many","path":["Open"]},{"op":"many","path":["Other"]}])
    );
    assert_eq!(follower.change().0, 2);
}

#[test]
fn a_client_goes_on_where_it_was_though_all_changes_since_are_none_of_its() {
    let server = forebay_testkit::Setup::new(&config("", SECRET, ""))
        .env("SECRET", "sesame")
        .start();
    let mut client = server.connect();
    let mut follower = Follower::start(&server, "/store:changes", &[]);
    assert_eq!(follower.beat(), 0);
    // They neither delay the next comment nor wait behind it.
    let begun = Instant::now();
    let mut written = 0;
    while !follower.client.is_readable_within(Duration::from_millis(200)) {
        written += 1;
        put(&mut client, "/store/Secret/a", &written.to_string());
        assert!(
            begun.elapsed() < Duration::from_secs(25),
            "no comment comes while other globals change"
        );
    }
    let known = follower.beat();
    assert!(
        (1..=written).contains(&known),
        "it has come to {known} of {written}"
    );
    drop(follower);
    let id = known.to_string();
    let mut back = Follower::start(&server, "/store:changes", &[("last-event-id", &id)]);
    assert_eq!(back.beat(), known);
    put(&mut client, "/store/Open/a", "1");
    assert_eq!(back.change().0, written + 1);
}

#[test]
fn after_a_reload_nothing_is_told_under_the_old_rules() {
    let server = setup("", "").start();
    let mut client = server.connect();
    let mut follower = Follower::start(&server, "/store:changes", &[]);
    put(&mut client, "/store/Open/a", "1");
    assert_eq!(follower.change().0, 1);
    let closed =
        "Open = { read = \"none\", write = \"public\" }\nOther = { read = \"public\", write = \"public\" }\n";
    server.reconfigure(&config("", closed, ""));
    assert_eq!(reload(&server).status, 200);
    put(&mut client, "/store/Open/a", "2");
    assert_eq!(follower.event(), None);
    let mut back = Follower::start(&server, "/store:changes", &[("last-event-id", "1")]);
    put(&mut client, "/store/Other/a", "3");
    assert_eq!(back.change().0, 3);
}

#[test]
fn who_is_told_that_changes_are_gone_learns_nothing_of_the_server_s_files() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    let mut follower = Follower::start(&server, "/store:changes", &[]);
    assert_eq!(follower.beat(), 1);
    for segment in fs::read_dir(server.folder().path().join("data/changes")).unwrap() {
        fs::remove_file(segment.unwrap().path()).unwrap();
    }
    put(&mut client, "/store/Open/a", "2");
    let event = follower.event().expect("an event comes");
    assert_eq!(event[0], ("event".into(), "gone".into()));
    assert_eq!(
        event[1].1,
        "the log of changes does not go on from 1; read everything anew and go on from there"
    );
    assert_eq!(follower.event(), None);
}

#[test]
fn a_server_that_ends_ends_its_feeds() {
    let mut server = setup("", "").start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    let mut follower = Follower::start(&server, "/store:changes?since=0", &[]);
    assert_eq!(follower.change().0, 1);
    server.terminate();
    // Well before the next comment is due.
    follower.client.set_patience(Duration::from_secs(10));
    assert_eq!(follower.event(), None);
    assert!(server.wait().success());
}

#[test]
fn a_server_that_ends_ends_feeds_that_are_never_quiet() {
    let mut server = start();
    let store = open(&server);
    let mut follower = Follower::start(&server, "/store:changes", &[]);
    let ended = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&ended);
    let writing = thread::spawn(move || {
        let key = Key::global("Open").unwrap();
        // More than a piece of events each time, so that there is always another one to send.
        let value = format!("\"{}\"", "x".repeat(40_000));
        while !stop.load(Ordering::Relaxed) {
            let mut transaction = store.begin().unwrap();
            transaction.put(&key, value.as_bytes()).unwrap();
            transaction.commit(Durability::Relaxed).unwrap();
        }
    });
    follower.change();
    server.terminate();
    let begun = Instant::now();
    while follower.event().is_some() {
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "a feed goes on after the server has been told to end"
        );
    }
    ended.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    assert!(server.wait().success());
}
