//! The feed of changes: server-sent events, in order, from where a client was.

use forebay_testkit::{Client, Server};
use serde_json::Value;

use super::{ask, config, put, reload, send, setup, start};

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
            if let Some(at) = self.received.find("\n\n") {
                let event: String = self.received.drain(..at + 2).collect();
                let fields = event.lines().filter_map(|line| line.split_once(": "));
                let fields: Vec<_> = fields
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                if !fields.is_empty() {
                    return Some(fields);
                }
                continue;
            }
            let bytes = self.client.some_bytes();
            if bytes.is_empty() {
                return None;
            }
            self.received
                .push_str(std::str::from_utf8(&bytes).expect("events are text"));
        }
    }

    /// The next change: its id, and what is told of it.
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
    // Who comes back goes on where it was; who does not say begins now.
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
    let access = "Open = { read = \"public\", write = \"public\" }\nSecret = { read = \"token:SECRET\", write = \"public\" }\n";
    let server = forebay_testkit::Setup::new(&config("", access, ""))
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
fn a_server_that_ends_ends_its_feeds() {
    let mut server = setup("", "").start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    let mut follower = Follower::start(&server, "/store:changes?since=0", &[]);
    assert_eq!(follower.change().0, 1);
    assert_eq!(reload(&server).status, 200);
    server.terminate();
    assert_eq!(follower.event(), None);
    assert!(server.wait().success());
}
