//! The examples of docs/guide/live.md.

use forebay_testkit::{Postgres, Setup, blocks, wait_until};

use super::Socket;
use crate::support::{ONE_WORKER, Runtime};

const GUIDE: &str = include_str!("../../../../../docs/guide/live.md");

/// The block of the guide that begins with the name of this file.
fn block(file: &str) -> &'static str {
    let first = format!("// {file}\n");
    let mut found = blocks(GUIDE, "js")
        .into_iter()
        .filter(|block| block.starts_with(&first));
    found.next().expect("the guide has it")
}

#[test]
fn the_clock_goes_on_where_the_client_has_been() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(block("clock.mjs"), ONE_WORKER).start();
        let mut client = server.connect();
        client.send("GET /clock HTTP/1.1\r\nhost: a\r\nlast-event-id: 41\r\n\r\n");
        assert_eq!(client.head().expect("a head").status, 200);
        let events = client.read_until("\n\n");
        assert!(
            events.contains("event: tick\nid: 42\ndata: {\"tick\":42}\n\n"),
            "{runtime:?}: {events}"
        );
    }
}

#[test]
fn the_chat_has_rooms() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(block("chat.mjs"), ONE_WORKER).start();
        let [mut ada, mut grace, mut alan] =
            ["/chat/a", "/chat/a", "/chat/b"].map(|target| Socket::open(&server, target));
        ada.send("to grace");
        assert_eq!(grace.receive().text(), "to grace", "{runtime:?}");
        assert_eq!(
            server.post("/announce/b", b"to alan").text(),
            "{\"announced\":true}"
        );
        assert_eq!(alan.receive().text(), "to alan");
        assert_eq!(server.post("/announce/a", b"to both").status, 200);
        assert_eq!(ada.receive().text(), "to both");
        assert_eq!(grace.receive().text(), "to both");
    }
}

#[test]
fn notifications_of_a_database_reach_events_and_sockets() {
    let postgres = Postgres::start();
    let server = Setup::new(&format!(
        "[sql.main]\nurl = \"{}\"\n[pool.p]\nhandler = \"orders.mjs\"\nsql = [\"main\"]\n{ONE_WORKER}\n[[route]]\npath = \"/*\"\npool = \"p\"\n",
        postgres.url()
    ))
    .file("orders.mjs", block("orders.mjs"))
    .start();
    wait_until("the worker to listen", || server.log().contains("worker ready"));
    let mut socket = Socket::open(&server, "/orders/socket");
    let mut events = server.connect();
    events.request("GET", "/orders/events");
    assert_eq!(events.head().expect("a head").status, 200);
    let notify = || {
        let sent = postgres.admin().batch_execute("notify orders, 'number 7'");
        sent.expect("it is sent");
    };
    // The stream's own listener may begin a moment after its head has come.
    let mut seen = String::new();
    while !seen.contains("data: number 7\n\n") {
        notify();
        if events.is_readable_within(std::time::Duration::from_millis(20)) {
            seen.push_str(&String::from_utf8_lossy(&events.some_bytes()));
        }
    }
    assert_eq!(socket.receive().text(), "number 7");
}
