//! Writes: in groups, bounded, on time, and each by itself right or wrong.

use std::time::{Duration, Instant};

use forebay_store::{Store, Transaction};
use forebay_testkit::{Client, Server, wait_until};

use super::{ask, open, put, send, setup, start, text};
use crate::support::{assert_took, metric};

/// Keeps every other writer waiting, the server's too.
fn hold(store: &Store) -> Transaction {
    store.begin().expect("a transaction can be begun")
}

/// Sends a write that has to wait, on a connection of its own, and waits until it does.
fn queue(server: &Server, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Client {
    let before = metric(server, "forebay_store_queue_writes");
    let mut client = server.connect();
    send(&mut client, method, target, fields, body.as_bytes());
    wait_until("the write to wait", || {
        metric(server, "forebay_store_queue_writes") > before
    });
    client
}

fn outcomes(server: &Server) -> [u64; 4] {
    ["done", "failed", "expired", "refused"].map(|outcome| {
        metric(
            server,
            &format!("forebay_store_writes_total{{outcome=\"{outcome}\"}}"),
        )
    })
}

#[test]
fn writes_that_wait_share_a_transaction_and_a_flush() {
    // Nothing is flushed meanwhile but for a write.
    let server = setup("flush_interval = \"1m\"", "").start();
    let store = open(&server);
    let held = hold(&store);
    let mut waiting: Vec<Client> = (0..20)
        .map(|at| queue(&server, "PUT", &format!("/store/Open/{at}"), &[], "{\"a\":1}"))
        .collect();
    // Reading goes on meanwhile.
    assert_eq!(server.get("/store/Open/0").status, 404);
    drop(held);
    for client in &mut waiting {
        assert_eq!(client.response().status, 201);
        let status = server.admin().get("/status").json();
        let file = &status["store"]["file"];
        assert_eq!(file["flushed_commit"], file["last_commit"], "{file}");
    }
    assert_eq!(outcomes(&server), [20, 0, 0, 0]);
    assert_eq!(metric(&server, "forebay_store_commits_total"), 1);
    assert_eq!(metric(&server, "forebay_store_flushes_total"), 1);
    let status = server.admin().get("/status").json();
    assert_eq!(status["store"]["writes"]["done"], 20);
    assert_eq!(status["store"]["queue"]["writes"], 0);
    assert!(status["store"]["file"]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn who_does_not_ask_for_durable_writes_waits_for_no_flush() {
    let server = setup("durability = \"relaxed\"\nflush_interval = \"1m\"", "").start();
    put(&mut server.connect(), "/store/Open/1", "1");
    let status = server.admin().get("/status").json();
    let [flushed, last] =
        ["flushed_commit", "last_commit"].map(|name| status["store"]["file"][name].as_u64().unwrap());
    assert!(flushed < last, "{flushed} of {last}");
    assert_eq!(metric(&server, "forebay_store_commits_total"), 1);
    assert_eq!(metric(&server, "forebay_store_flushes_total"), 0);
}

#[test]
fn a_write_that_fails_spoils_no_other_of_its_group() {
    let server = start();
    put(&mut server.connect(), "/store/Open/there", "1");
    let store = open(&server);
    let held = hold(&store);
    let mut waiting = [
        queue(&server, "PUT", "/store/Open/a", &[], "1"),
        queue(
            &server,
            "PUT",
            "/store/Open/there",
            &[("if-match", "\"other\"")],
            "2",
        ),
        queue(
            &server,
            "POST",
            "/store:batch",
            &[],
            r#"[{"op":"put","path":"Open/b","value":1},{"op":"delete","path":"Open/none"}]"#,
        ),
        queue(&server, "DELETE", "/store/Open/none", &[], ""),
        queue(&server, "POST", "/store/Open/list", &[], "1"),
        queue(&server, "POST", "/store/Open/list", &[], "2"),
    ];
    drop(held);
    let statuses = waiting.each_mut().map(|client| client.response().status);
    assert_eq!(statuses, [201, 412, 404, 404, 201, 201]);
    let mut client = server.connect();
    assert_eq!(
        text(&mut client, "/store/Open"),
        r#"{"a":1,"list":{"1":1,"2":2},"there":1}"#
    );
    assert_eq!(outcomes(&server), [4, 3, 0, 0]);
}

#[test]
fn a_full_queue_refuses_at_once() {
    let server = setup("queue_max = 2\nqueue_bytes_max = \"64KiB\"", "").start();
    let store = open(&server);
    let held = hold(&store);
    let mut first = queue(&server, "PUT", "/store/Open/1", &[], "1");
    // Too many bytes together, then too many writes.
    let large = format!("\"{}\"", "x".repeat(65_000));
    let refused = ask(
        &mut server.connect(),
        "PUT",
        "/store/Open/2",
        &[],
        large.as_bytes(),
    );
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(
        refused.detail(),
        "writes that wait for the store hold 65536 bytes already (store.queue_bytes_max)"
    );
    let mut second = queue(&server, "PUT", "/store/Open/3", &[], "3");
    let mut flood: Vec<Client> = (0..50).map(|_| server.connect()).collect();
    for client in &mut flood {
        send(client, "PUT", "/store/Open/4", &[], b"4");
    }
    for client in &mut flood {
        let refused = client.response();
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        assert_eq!(
            refused.detail(),
            "2 writes wait for the store already (store.queue_max)"
        );
    }
    assert_eq!(server.get("/here").status, 200);
    drop(held);
    assert_eq!(first.response().status, 201);
    assert_eq!(second.response().status, 201);
    assert_eq!(outcomes(&server), [2, 0, 0, 51]);
    assert_eq!(server.get("/store/Open/4").status, 404);
}

#[test]
fn a_flood_of_writes_is_done_or_refused_and_nothing_between() {
    const CLIENTS: usize = 40;
    const EACH: usize = 10;
    let server = setup("queue_max = 8", "").start();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut connection = server.connect();
            std::thread::spawn(move || {
                let write = |at| {
                    let target = format!("/store/Open/{client}-{at}");
                    let answer = ask(&mut connection, "PUT", &target, &[], b"true");
                    match answer.status {
                        201 => Some(format!("{client}-{at}")),
                        503 => None,
                        other => panic!("{other}: {answer:?}"),
                    }
                };
                (0..EACH).filter_map(write).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut acknowledged: Vec<String> = clients
        .into_iter()
        .flat_map(|client| client.join().unwrap())
        .collect();
    let found: std::collections::BTreeMap<String, bool> =
        serde_json::from_str(server.get("/store/Open").text()).unwrap();
    acknowledged.sort();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), acknowledged);
    let [done, failed, expired, refused] = outcomes(&server);
    assert_eq!((done, failed, expired), (acknowledged.len() as u64, 0, 0));
    assert_eq!(done + refused, (CLIENTS * EACH) as u64);
}

#[test]
fn a_write_whose_deadline_passes_in_the_queue_is_not_done() {
    let server = setup("", "deadline = \"300ms\"").start();
    let store = open(&server);
    let held = hold(&store);
    let begun = Instant::now();
    let late = ask(&mut server.connect(), "PUT", "/store/Open/late", &[], b"1");
    assert_took(begun, Duration::from_millis(300));
    assert_eq!(
        (late.status, late.detail()),
        (
            504,
            "the deadline passed while the write was queued; it was not done".to_owned()
        )
    );
    drop(held);
    wait_until("the write to be thrown away", || {
        outcomes(&server) == [0, 0, 1, 0]
    });
    assert_eq!(server.get("/store/Open/late").status, 404);
    put(&mut server.connect(), "/store/Open/next", "1");
}

#[test]
fn a_write_whose_document_is_not_there_at_the_deadline_is_not_handed_in() {
    let server = setup("", "deadline = \"300ms\"").start();
    let mut client = server.connect();
    client.send("PUT /store/Open/late HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\n1");
    let late = client.response();
    assert_eq!(
        (late.status, late.detail()),
        (
            504,
            "the request was not answered by its deadline (deadline)".to_owned()
        )
    );
    assert_eq!(outcomes(&server), [0, 0, 0, 0]);
}

#[test]
fn a_write_whose_client_leaves_the_queue_is_not_done() {
    let server = start();
    let store = open(&server);
    let held = hold(&store);
    drop(queue(&server, "PUT", "/store/Open/left", &[], "1"));
    let mut next = queue(&server, "PUT", "/store/Open/next", &[], "1");
    // The I/O thread has read the end of the first connection before it answers this.
    wait_until("the connection to end", || {
        metric(
            &server,
            "forebay_requests_total{route=\"/store/*\",class=\"gone\"}",
        ) == 1
    });
    drop(held);
    assert_eq!(next.response().status, 201);
    assert_eq!(server.get("/store/Open").text(), "{\"next\":1}");
    assert_eq!(outcomes(&server), [1, 0, 1, 0]);
}

#[test]
fn a_batch_is_done_as_a_whole_or_not_at_all() {
    let server = start();
    let mut client = server.connect();
    let mut batch = |body: &str| ask(&mut client, "POST", "/store:batch", &[], body.as_bytes());
    let done = batch(
        r#"[{"op":"put","path":"Open/a%20b/1","value":{ "x" : 1.50 }},
            {"op":"put","path":["Open","a b","2"],"value":2},
            {"op":"append","path":"/Open/a%20b","value":[]},
            {"op":"patch","path":"Open/a%20b/1","value":{"y":true}},
            {"op":"delete","path":["Open","a b","2"]},
            {"op":"put","path":["Other","a/b","."],"value":null,"if_none_match":"*"}]"#,
    );
    assert_eq!(
        (done.status, done.text()),
        (
            200,
            r#"[{"done":"created"},{"done":"created"},{"done":"appended","id":3},{"done":"changed"},{"done":"deleted"},{"done":"created"}]"#
        )
    );
    assert_eq!(batch("[]").text(), "[]");
    for (body, status, detail) in [
        (
            r#"[{"op":"put","path":"Open/c","value":1},{"op":"put","path":"Open/a%20b/1","value":1,"if_match":"\"old\""}]"#,
            412,
            "operation 1 of the batch: precondition failed: If-Match or If-None-Match does not hold",
        ),
        (
            r#"[{"op":"put","path":"Open/c","value":1},{"op":"put","path":"Closed/a","value":1}]"#,
            403,
            "operation 1 of the batch: no one may write this global over HTTP (store.access)",
        ),
        (
            r#"[{"op":"put","path":"Open/c","value":"\ud800"}]"#,
            400,
            "operation 0 of the batch: not JSON that can be kept: half of a surrogate pair at byte 1",
        ),
        (
            r#"[{"op":"put","path":"Open/c","value":1},{"op":"put","path":"Open/%zz","value":1}]"#,
            400,
            "operation 1 of the batch: \"%zz\" is not percent-encoded UTF-8",
        ),
        (
            r#"[{"op":"put","path":"Open/c"}]"#,
            400,
            "operation 0 of the batch: the batch cannot be read: the value is missing",
        ),
        (
            r#"[{"op":"delete","path":"Open/c","value":1}]"#,
            400,
            "operation 0 of the batch: the batch cannot be read: `delete` has no value",
        ),
        (
            r#"[{"op":"put","path":[],"value":1}]"#,
            400,
            "operation 0 of the batch: the batch cannot be read: the path is empty",
        ),
    ] {
        let refused = batch(body);
        assert_eq!(
            (refused.status, refused.detail().as_str()),
            (status, detail),
            "{body}"
        );
    }
    for body in [
        "",
        "{}",
        "[1]",
        "[{}]",
        r#"[{"op":"get","path":"Open"}]"#,
        r#"[{"op":"delete","path":"Open","x":1}]"#,
    ] {
        let refused = batch(body);
        assert_eq!(refused.status, 400, "{body}");
        assert!(
            refused.detail().starts_with("the batch cannot be read: "),
            "{}",
            refused.detail()
        );
    }
    let mut client = server.connect();
    assert_eq!(
        text(&mut client, "/store/Open"),
        r#"{"a b":{"1":{"x":1.50,"y":true},"3":[]}}"#
    );
    assert_eq!(text(&mut client, "/store/Other"), r#"{"a/b":{".":null}}"#);
    assert_eq!(ask(&mut client, "GET", "/store:batch", &[], b"").status, 405);
    let options = ask(&mut client, "OPTIONS", "/store:batch", &[], b"");
    assert_eq!(
        (options.status, options.header("allow")),
        (204, Some("OPTIONS, POST"))
    );
}

#[test]
fn a_full_store_refuses_writes_and_answers_reads() {
    let server = setup("map_max = \"2MiB\"", "").start();
    let mut client = server.connect();
    let value = format!("\"{}\"", "x".repeat(100_000));
    let mut written = 0;
    let refused = loop {
        let answer = ask(
            &mut client,
            "PUT",
            &format!("/store/Open/{written}"),
            &[],
            value.as_bytes(),
        );
        if answer.status != 201 {
            break answer;
        }
        written += 1;
    };
    assert_eq!(refused.status, 507, "{refused:?}");
    assert!(written > 3, "{written}");
    for at in 0..written {
        assert_eq!(text(&mut client, &format!("/store/Open/{at}")), value);
    }
    // The connection and the store go on.
    assert_eq!(ask(&mut client, "DELETE", "/store/Open/0", &[], b"").status, 204);
    put(&mut client, "/store/Open/small", "1");
}
