//! Handlers that listen to channels of a database, and send the notifications as server-sent events.

use forebay_testkit::{Client, Postgres, Server, wait_until};
use serde_json::json;

use crate::sql_handlers::{get, make, number, pool, server};

const LISTENERS: &str = r"
  events: () => main.listen('news').events(),
  named: () => main.listen('news').events({ event: 'news' }),
  nowhere: () => main.listen('').events(),
  async some() {
    const heard = [];
    const listening = main.listen('some');
    await listening.ready();
    await main.pipeline(['one', 'two', 'three'].map((text) => [`select pg_notify('some', $1)`, [text]]));
    for await (const { payload, lost } of listening) {
      heard.push([payload, lost]);
      if (payload === 'three') break;
    }
    return heard;
  },
  async closed() {
    const listening = main.listen('some');
    await listening.close();
    const heard = [];
    for await (const { payload } of listening) heard.push(payload);
    return heard;
  },
";

const LISTENING: &str = "select count(*) from pg_stat_activity where query like 'listen %'";

/// A client that has received the start of the events.
fn listens(server: &Server, path: &str) -> (Client, String) {
    let mut client = server.connect();
    client.request("GET", path);
    let head = client.head().expect("the head of an answer");
    assert_eq!(head.status, 200, "{path}: {}", server.log());
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    (client, String::new())
}

/// Reads until the received text ends with `end`.
fn comes((client, seen): &mut (Client, String), end: &str) {
    while !seen.contains(end) {
        let some = client.some_bytes();
        assert!(!some.is_empty(), "it ended after {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&some));
    }
}

#[test]
fn what_a_channel_is_told_is_a_server_sent_event_for_each_client_until_it_goes() {
    let mut postgres = Postgres::start();
    // Events outlast the limits of other responses.
    let server = server(&postgres, "async", LISTENERS, "time_max = \"3s\"");
    tells(&mut postgres, &server);
}

#[test]
fn a_worker_answers_with_server_sent_events_as_a_script_does() {
    let mut postgres = Postgres::start();
    let server = pool(&postgres, LISTENERS);
    tells(&mut postgres, &server);
}

fn tells(postgres: &mut Postgres, server: &Server) {
    let mut clients: Vec<_> = (0..20).map(|_| listens(server, "/events")).collect();
    let mut named = listens(server, "/named");
    make(
        postgres,
        "notify news, 'one'; select pg_notify('news', E'two\\nlines')",
    );
    for client in &mut clients {
        comes(client, "data: one\n\n");
        comes(client, "data: two\ndata: lines\n\n");
    }
    comes(&mut named, "event: news\ndata: one\n\n");
    assert_eq!(number(postgres, LISTENING), 1, "one connection for all");
    // All connections break, then the database server itself is down for a while.
    postgres.kill_backends();
    for client in &mut clients {
        comes(client, "event: lost\ndata:\n\n");
    }
    make(postgres, "notify news, 'three'");
    for client in &mut clients {
        comes(client, "data: three\n\n");
    }
    postgres.stop();
    assert_eq!(server.get("/events").status, 503);
    postgres.start_again();
    for client in &mut clients {
        client.1.clear();
        comes(client, "event: lost\ndata:\n\n");
    }
    make(postgres, "notify news, 'four'");
    for client in &mut clients {
        comes(client, "data: four\n\n");
    }
    drop((clients, named));
    wait_until("nobody listens", || number(postgres, LISTENING) == 0);
    assert_eq!(
        get(server, "/some"),
        json!([["one", false], ["two", false], ["three", false]])
    );
    assert_eq!(get(server, "/closed"), json!([]));
    assert_eq!(server.get("/nowhere").status, 500);
    wait_until("nobody listens", || number(postgres, LISTENING) == 0);
}
