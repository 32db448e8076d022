//! Nodes that expire: `?ttl=`.

use forebay_store::{Key, Read as _, Store};
use forebay_testkit::{Client, Response, wait_for, wait_until};

use super::{ask, open, put, setup, start, text};

const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// Milliseconds until a node expires, as its field says.
fn left(answer: &Response) -> u64 {
    let text = answer
        .header("forebay-ttl")
        .unwrap_or_else(|| panic!("{answer:?}"));
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .expect("a unit");
    let unit = match &text[end..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        other => panic!("{other}"),
    };
    text[..end].parse::<u64>().expect("digits") * unit
}

fn patch(client: &mut Client, target: &str, document: &str) {
    let answer = ask(client, "PATCH", target, &[MERGE], document.as_bytes());
    assert!(matches!(answer.status, 201 | 204), "{target}: {answer:?}");
}

#[test]
fn a_read_says_how_long_a_node_still_lasts() {
    let server = start();
    let mut client = server.connect();
    put(
        &mut client,
        "/store/Open/s/1?ttl=1h",
        r#"{"user":{"name":"Ada"}}"#,
    );
    for target in ["s/1", "s/1/user", "s/1/user/name", "s/1?depth=1", "s/1?keys"] {
        let answer = client.get(&format!("/store/Open/{target}"));
        assert!(
            (3_590_000..=3_600_000).contains(&left(&answer)),
            "{target} {answer:?}"
        );
        // In the form of RFC 8594.
        let sunset = answer.header("sunset").unwrap();
        assert!(sunset.ends_with(" GMT") && sunset.len() == 29, "{sunset}");
    }
    for target in ["s", "s?keys"] {
        let answer = client.get(&format!("/store/Open/{target}"));
        assert_eq!(
            (answer.header("forebay-ttl"), answer.header("sunset")),
            (None, None)
        );
    }
    // The earliest expiry among its ancestors counts.
    put(&mut client, "/store/Open/s/1/user?ttl=10m", r#"{"name":"Bob"}"#);
    assert!(left(&client.get("/store/Open/s/1/user/name")) <= 600_000);
    assert!(left(&client.get("/store/Open/s/1")) > 600_000);
    // A known document has its time told too.
    let tag = client.get("/store/Open/s/1").header("etag").unwrap().to_owned();
    let known = ask(
        &mut client,
        "GET",
        "/store/Open/s/1",
        &[("if-none-match", &tag)],
        b"",
    );
    assert_eq!(known.status, 304);
    assert!(left(&known) > 600_000);
    // A patch keeps the expiry, also one that leaves nothing, and one of another type.
    for document in [r#"{"user":null}"#, r#"{"x":1}"#, "5", r#"{"y":2}"#] {
        patch(&mut client, "/store/Open/s/1", document);
        assert!(left(&client.get("/store/Open/s/1")) > 600_000, "{document}");
    }
    // A patch can set another expiry, or none; a document that is put has only its own.
    patch(&mut client, "/store/Open/s/1?ttl=5m", "{}");
    assert!(left(&client.get("/store/Open/s/1")) <= 300_000);
    patch(&mut client, "/store/Open/s/1?ttl=none", "{}");
    assert_eq!(client.get("/store/Open/s/1").header("forebay-ttl"), None);
    assert_eq!(text(&mut client, "/store/Open/s/1"), r#"{"y":2}"#);
    put(&mut client, "/store/Open/s/1?ttl=5m", "{}");
    put(&mut client, "/store/Open/s/1", "{}");
    assert_eq!(client.get("/store/Open/s/1").header("forebay-ttl"), None);
    // The child that POST has created, and operations of a batch.
    let made = ask(&mut client, "POST", "/store/Open/log?ttl=5m", &[], b"7");
    assert_eq!(made.status, 201);
    assert!(left(&client.get(made.header("location").unwrap())) <= 300_000);
    assert_eq!(client.get("/store/Open/log").header("forebay-ttl"), None);
    let batch = br#"[{"op":"put","path":"Open/b/1","value":1,"ttl":"2m"},
        {"op":"append","path":"Open/b","value":2,"ttl":"3m"},{"op":"patch","path":"Open/b/1","value":3,"ttl":"none"}]"#;
    assert_eq!(client_post(&mut client, batch).status, 200);
    assert_eq!(client.get("/store/Open/b/1").header("forebay-ttl"), None);
    assert!(left(&client.get("/store/Open/b/2")) <= 180_000);
}

fn client_post(client: &mut Client, batch: &[u8]) -> Response {
    ask(client, "POST", "/store:batch", &[], batch)
}

/// Whether a node below `Open/s` is stored, expired or not.
fn is_stored(store: &Store, name: &str) -> bool {
    let mut key = Key::global("Open").expect("a global's name");
    for name in ["s", name] {
        key.push(name).expect("a subscript");
    }
    let snapshot = store.snapshot().expect("a state to read");
    snapshot.defined(&key).expect("it can be read").exists()
}

#[test]
fn what_has_ended_is_not_served_nor_written_to() {
    let server = setup("index.by-v = { records = \"Open/s\", fields = [\"v\"] }", "").start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/s", r#"{"stays":{"v":1}}"#);
    put(&mut client, "/store/Open/s/goes?ttl=1h", r#"{"v":1,"w":2}"#);
    put(&mut client, "/store/Open/s/lock?ttl=1h", r#"{"v":1}"#);
    assert_eq!(
        text(&mut client, "/store/Open/s?where=v=1&keys"),
        r#"["goes","lock","stays"]"#
    );
    // It expires while nothing can be removed, because that takes a transaction.
    let store = open(&server);
    let held = wait_for("a node to be there still when nothing can be removed", || {
        for name in ["goes", "lock"] {
            put(
                &mut client,
                &format!("/store/Open/s/{name}?ttl=300ms"),
                r#"{"v":1,"w":2}"#,
            );
        }
        let held = store.begin().unwrap();
        is_stored(&store, "goes").then_some(held)
    });
    for name in ["goes/w", "goes", "lock"] {
        wait_until("the node to end", || {
            client.get(&format!("/store/Open/s/{name}")).status == 404
        });
    }
    assert!(is_stored(&store, "goes"));
    drop(held);
    // A write finds nothing there either.
    let lock = ask(
        &mut client,
        "PUT",
        "/store/Open/s/lock?ttl=1h",
        &[("if-none-match", "*")],
        b"{\"v\":2}",
    );
    assert_eq!(lock.status, 201, "{lock:?}");
    assert_eq!(
        ask(&mut client, "DELETE", "/store/Open/s/goes/w", &[], b"").status,
        404
    );
    wait_until("the node to be removed", || {
        text(&mut client, "/store/Open/s") == r#"{"lock":{"v":2},"stays":{"v":1}}"#
    });
    assert!(!is_stored(&store, "goes"));
    assert_eq!(text(&mut client, "/store/Open/s?where=v=1&keys"), r#"["stays"]"#);
}

#[test]
fn what_is_no_lifetime_is_refused() {
    let server = start();
    let mut client = server.connect();
    let accepted = "a ttl is a duration such as 300ms, 60s, 5m or 1h, from 1ms to 876000h, or none";
    for (method, query, expected) in [
        ("PUT", "ttl=60", format!("query parameter \"ttl\": {accepted}")),
        ("PUT", "ttl=", format!("query parameter \"ttl\": {accepted}")),
        ("POST", "ttl=0s", format!("query parameter \"ttl\": {accepted}")),
        (
            "PUT",
            "ttl=876001h",
            format!("query parameter \"ttl\": {accepted}"),
        ),
        ("PUT", "ttl=%ff", format!("query parameter \"ttl\": {accepted}")),
        (
            "PUT",
            "ttl=1s&ttl=2s",
            format!("query parameter \"ttl\": {accepted}"),
        ),
        (
            "PUT",
            "time=1s",
            "query parameter \"time=1s\": PUT, PATCH and POST have only `ttl`, once".to_owned(),
        ),
        (
            "DELETE",
            "ttl=1s",
            "query parameter \"ttl=1s\": DELETE has no parameters".to_owned(),
        ),
    ] {
        let answer = ask(&mut client, method, &format!("/store/Open/x?{query}"), &[], b"1");
        assert_eq!(
            (answer.status, answer.detail()),
            (400, expected),
            "{method} {query}"
        );
    }
    for (operation, expected) in [
        (
            r#"{"op":"put","path":"Open/x","value":1,"ttl":"soon"}"#,
            format!("operation 0 of the batch: the batch cannot be read: {accepted}"),
        ),
        (
            r#"{"op":"delete","path":"Open/x","ttl":"1s"}"#,
            "operation 0 of the batch: the batch cannot be read: `delete` has no ttl".to_owned(),
        ),
    ] {
        let answer = client_post(&mut client, format!("[{operation}]").as_bytes());
        assert_eq!((answer.status, answer.detail()), (400, expected), "{operation}");
    }
    assert_eq!(client.get("/store/Open/x").status, 404);
}
