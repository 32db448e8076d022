//! Any invalid input gets an error that describes it, and the server continues.

use super::{ask, put, setup, start, text};

#[test]
fn bodies_that_are_no_json_are_refused_with_the_byte() {
    let server = start();
    let mut client = server.connect();
    let deep = format!("{}{}", "[".repeat(201), "]".repeat(201));
    let cases: [(&[u8], &str); 13] = [
        (b"", "a value is missing at byte 0"),
        (b"{", "the name of a member is missing at byte 1"),
        (b"{\"a\":1,}", "the name of a member is missing at byte 7"),
        (b"[1,]", "no JSON value begins like this at byte 3"),
        (b"01", "a number begins with 0 at byte 1"),
        (b"NaN", "no JSON value begins like this at byte 0"),
        (b"1 2", "something after the value at byte 2"),
        (b"\"\xff\"", "invalid UTF-8 at byte 1"),
        (b"\"\0\"", "a control character in a string at byte 1"),
        (b"\"\\ud800\"", "half of a surrogate pair at byte 1"),
        (b"\"open", "a string has no end at byte 5"),
        (b"\xef\xbb\xbf1", "no JSON value begins like this at byte 0"),
        (
            deep.as_bytes(),
            "containers nested more than 200 deep at byte 200",
        ),
    ];
    for method in ["PUT", "PATCH", "POST"] {
        for (body, message) in cases {
            let kind = [("content-type", "application/merge-patch+json")];
            let answer = ask(&mut client, method, "/store/Open/1", &kind, body);
            let shown = String::from_utf8_lossy(body);
            assert_eq!(answer.status, 400, "{method} {shown}");
            assert_eq!(
                answer.detail(),
                format!("not JSON that can be kept: {message}"),
                "{method} {shown}"
            );
        }
    }
    // One connection for all of this, and nothing was stored.
    assert_eq!(client.get("/store/Open").status, 404);
}

#[test]
fn paths_that_name_no_node_are_refused() {
    let server = start();
    let mut client = server.connect();
    let long = "x".repeat(1900);
    let deep = "/1".repeat(201);
    let name = "G".repeat(65);
    for (rest, status, detail) in [
        ("", 400, "the name of a global is empty".to_owned()),
        ("/1", 400, "the name of a global is empty".to_owned()),
        (
            "a%20b",
            400,
            "the name of a global cannot contain ' ': letters, digits and any of `%._-` are accepted"
                .to_owned(),
        ),
        (
            name.as_str(),
            414,
            format!("the name of global `{name}` has 65 bytes (at most 64)"),
        ),
        (
            &format!("Open/{long}"),
            414,
            "the path has 1907 bytes (at most 1900)".to_owned(),
        ),
        (
            &format!("Open{deep}"),
            414,
            "the path has more than 200 subscripts".to_owned(),
        ),
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let answer = ask(&mut client, method, &format!("/store/{rest}"), &[], b"1");
            assert_eq!(
                (answer.status, answer.detail()),
                (status, detail.clone()),
                "{method} {rest}"
            );
        }
    }
    for rest in [
        "Open/%zz",
        "Open/%ff",
        "Open/%00",
        "Open/..",
        "Open/%2e%2e/x",
        "Open/%2E",
    ] {
        assert_eq!(server.get(&format!("/store/{rest}")).status, 400, "{rest}");
    }
    // Strange, but valid names of nodes.
    for rest in [
        "Open/",
        "Open//",
        "Open/%2F",
        "Open/__proto__",
        "Open/%E2%80%AE",
        "Open/a+b",
        "%C3%89t%C3%A9/1",
    ] {
        let status = if rest.starts_with("Open") { 201 } else { 403 };
        let answer = ask(&mut client, "PUT", &format!("/store/{rest}"), &[], b"1");
        assert_eq!(answer.status, status, "{rest}");
    }
    assert_eq!(
        text(&mut client, "/store/Open?keys"),
        "[\"\",\"/\",\"__proto__\",\"a+b\",\"\u{202e}\"]"
    );
}

#[test]
fn queries_that_ask_for_nothing_known_are_refused() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/1", "1");
    for query in [
        "limit=0",
        "limit=-1",
        "limit=1e3",
        "keys=2",
        "from=%ff",
        "nothing=1",
        "limit=1&limit=1",
        "=",
        "depth=",
    ] {
        let answer = client.get(&format!("/store/Open?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(
            answer.detail().starts_with("query parameter"),
            "{query}: {}",
            answer.detail()
        );
    }
    let answer = ask(&mut client, "PUT", "/store/Open/1?depth=1", &[], b"1");
    assert_eq!(answer.status, 400);
    assert_eq!(text(&mut client, "/store/Open?&"), "{\"1\":1}");
}

#[test]
fn what_is_too_long_is_refused() {
    let server = setup("value_bytes_max = \"1KiB\"", "").start();
    let mut client = server.connect();
    let value = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    put(&mut client, "/store/Open/1", &value(1024));
    for method in ["PUT", "POST"] {
        let answer = ask(&mut client, method, "/store/Open/1", &[], value(1025).as_bytes());
        assert_eq!(
            (answer.status, answer.detail().as_str()),
            (413, "value of 1025 bytes is too long (value_bytes_max 1024)")
        );
    }
    // A document that grew beyond the limit in parts.
    put(&mut client, "/store/Open/2", &value(1024));
    let answer = client.get("/store/Open");
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(text(&mut client, "/store/Open?keys"), "[\"1\",\"2\"]");
    // Names within a document are subscripts too.
    let long = "x".repeat(950);
    let answer = ask(
        &mut client,
        "PUT",
        &format!("/store/Open/{long}"),
        &[],
        format!("{{\"{long}\":1}}").as_bytes(),
    );
    assert_eq!(answer.status, 400, "{answer:?}");
    // More than the server accepts of any body.
    let answer = ask(
        &mut server.connect(),
        "PUT",
        "/store/Open/3",
        &[],
        &vec![b'1'; 1 << 20 | 1],
    );
    assert_eq!(answer.status, 413);
}
