//! Single nodes: a read returns what was written, and conditions hold.

use std::thread;

use super::{ask, put, setup, start, text};

#[test]
fn what_is_written_is_read_in_canonical_form() {
    let server = start();
    let mut client = server.connect();
    for (at, (written, read)) in [
        (
            r#" { "b" : 1, "a" : [ true , null ] } "#,
            r#"{"a":[true,null],"b":1}"#,
        ),
        (
            r#"{"10":1,"9":2,"-1":3,"x":4,"01":5}"#,
            r#"{"-1":3,"9":2,"10":1,"01":5,"x":4}"#,
        ),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        ("[]", "[]"),
        ("{}", "{}"),
        ("[[],{},[{}]]", "[[],{},[{}]]"),
        ("1.0", "1.0"),
        ("-0", "-0"),
        (
            "123456789012345678901234567890.000",
            "123456789012345678901234567890.000",
        ),
        ("1E400", "1E400"),
        (r#""\u0041\/\n\u0000\ud83d\ude00é""#, "\"A/\\n\\u0000\u{1f600}é\""),
        (r#"{"__proto__":{"a":1},"":2}"#, r#"{"":2,"__proto__":{"a":1}}"#),
        ("\"007\"", "\"007\""),
        ("false", "false"),
        ("null", "null"),
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/store/Open/doc/{at}");
        put(&mut client, &target, written);
        assert_eq!(text(&mut client, &target), read);
    }
    let answer = client.get("/store/Open/doc/0/a/0");
    assert_eq!((answer.status, answer.text()), (200, "true"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("vary"), Some("accept"));
    let missing = client.get("/store/Open/doc/99");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.detail(), "there is nothing at this path of the store");
}

#[test]
fn a_write_says_whether_something_was_there() {
    let server = start();
    let mut client = server.connect();
    for (method, fields, body, status) in [
        ("PUT", &[][..], "{\"a\":1}", 201),
        ("PUT", &[], "{\"a\":2}", 204),
        (
            "PATCH",
            &[("content-type", "application/merge-patch+json")],
            "{\"b\":3}",
            204,
        ),
        ("DELETE", &[], "", 204),
        ("DELETE", &[], "", 404),
        (
            "PATCH",
            &[("content-type", "application/merge-patch+json; charset=utf-8")],
            "{\"b\":null}",
            201,
        ),
    ] {
        let answer = ask(&mut client, method, "/store/Open/1", fields, body.as_bytes());
        assert_eq!(answer.status, status, "{method} {body}: {answer:?}");
    }
    assert_eq!(text(&mut client, "/store/Open/1"), "{}");
}

#[test]
fn a_patch_changes_what_it_names_and_nothing_else() {
    let server = start();
    let mut client = server.connect();
    put(
        &mut client,
        "/store/Open/1",
        r#"{"a":{"b":1,"c":2},"d":[1,2],"e":"x"}"#,
    );
    let kind = [("content-type", "application/merge-patch+json")];
    let patch = br#"{"a":{"b":null,"n":{"m":null}},"d":{"x":1},"e":[]}"#;
    assert_eq!(
        ask(&mut client, "PATCH", "/store/Open/1", &kind, patch).status,
        204
    );
    assert_eq!(
        text(&mut client, "/store/Open/1"),
        r#"{"a":{"c":2,"n":{}},"d":{"x":1},"e":[]}"#
    );
    for kind in ["application/json", "application/json-patch+json", "text/plain"] {
        let refused = ask(
            &mut client,
            "PATCH",
            "/store/Open/1",
            &[("content-type", kind)],
            b"{}",
        );
        assert_eq!(refused.status, 415, "{kind}");
        assert_eq!(
            refused.detail(),
            "only application/merge-patch+json is understood here"
        );
    }
}

#[test]
fn post_appends_under_the_next_number() {
    let server = start();
    let mut client = server.connect();
    let mut post = |target: &str, body: &str| {
        let answer = ask(&mut client, "POST", target, &[], body.as_bytes());
        assert_eq!(answer.status, 201, "{answer:?}");
        let location = answer.header("location").unwrap().to_owned();
        let id = answer.json()["id"].as_i64().unwrap();
        assert_eq!(location, format!("{target}/{id}"));
        assert_eq!(text(&mut client, &location), body);
        id
    };
    assert_eq!(post("/store/Open", "{\"n\":1}"), 1);
    assert_eq!(post("/store/Open", "{\"n\":2}"), 2);
    assert_eq!(post("/store/Open/a%20b/%C3%A9", "1"), 1);
    let mut client = server.connect();
    for (before, id) in [
        (r#"{"x":0,"5":0}"#, 6),
        (r#"{"5.5":0}"#, 6),
        (r#"{".5":0}"#, 1),
        (r#"{"-3":0}"#, -2),
        (r#"{"-3.5":0}"#, -3),
        (r#"{"-.5":0}"#, 0),
        ("{}", 1),
        ("\"a value\"", 1),
        ("[]", 0),
        ("[1,2,3]", 3),
    ] {
        put(&mut client, "/store/Open/list", before);
        let answer = ask(&mut client, "POST", "/store/Open/list", &[], b"true");
        assert_eq!(answer.json()["id"], id, "{before}");
    }
    assert_eq!(text(&mut client, "/store/Open/list"), "[1,2,3,true]");
    put(&mut client, "/store/Open/full", r#"{"123456789012345678":0}"#);
    let full = ask(&mut client, "POST", "/store/Open/full", &[], b"true");
    assert_eq!(
        (full.status, full.detail()),
        (409, "no id is left after 123456789012345678".to_owned())
    );
}

#[test]
fn a_tag_depends_on_the_document_and_not_on_how_it_is_stored() {
    let server = start();
    let mut client = server.connect();
    let members: Vec<String> = (0..200)
        .map(|at| format!("\"m{at:03}\":\"value {at}\""))
        .collect();
    // More than is kept as one text, written whole and member by member, backwards.
    put(
        &mut client,
        "/store/Open/whole",
        &format!("{{{}}}", members.join(",")),
    );
    for at in (0..200).rev() {
        put(
            &mut client,
            &format!("/store/Open/parts/m{at:03}"),
            &format!("\"value {at}\""),
        );
    }
    // Less than that, the same way.
    put(&mut client, "/store/Open/small", r#"{"b":{"c":1},"a":2}"#);
    put(&mut client, "/store/Open/built/b/c", "1");
    put(&mut client, "/store/Open/built/a", "2");
    for (one, other) in [("whole", "parts"), ("small", "built")] {
        let [one, other] = [one, other].map(|name| client.get(&format!("/store/Open/{name}")));
        assert_eq!(one.text(), other.text());
        assert_eq!(one.header("etag"), other.header("etag"));
    }
    let small = client.get("/store/Open/small");
    let tag = small.header("etag").unwrap().to_owned();
    let weak = format!("\"other\", W/{tag}");
    for known in [tag.as_str(), weak.as_str(), "*"] {
        let answer = ask(
            &mut client,
            "GET",
            "/store/Open/small",
            &[("if-none-match", known)],
            b"",
        );
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{known}");
        assert_eq!(answer.header("etag"), Some(tag.as_str()));
    }
    put(&mut client, "/store/Open/small/a", "3");
    let answer = ask(
        &mut client,
        "GET",
        "/store/Open/small",
        &[("if-none-match", &tag)],
        b"",
    );
    assert_eq!(answer.status, 200);
    assert_ne!(answer.header("etag"), Some(tag.as_str()));
    // The write returns a tag only when the bytes are stored unchanged.
    let as_it_came = put(&mut client, "/store/Open/tagged", r#"{"a":1}"#);
    let read = client.get("/store/Open/tagged");
    assert_eq!(as_it_came.header("etag"), read.header("etag"));
    assert_eq!(
        put(&mut client, "/store/Open/tagged", r#"{ "a":1}"#).header("etag"),
        None
    );
}

#[test]
fn head_says_what_get_would_bring() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/1", r#"{"a":1}"#);
    for target in ["/store/Open/1", "/store/Open?keys", "/store/Open/none"] {
        let got = client.get(target);
        let head = ask(&mut client, "HEAD", target, &[], b"");
        assert_eq!(head.body, b"");
        let name = |headers: &[(String, String)]| -> Vec<(String, String)> {
            let kept = headers
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "date" | "x-request-id"));
            kept.cloned().collect()
        };
        assert_eq!(
            (head.status, name(&head.headers)),
            (got.status, name(&got.headers)),
            "{target}"
        );
    }
}

#[test]
fn conditions_guard_a_write() {
    let server = start();
    let mut client = server.connect();
    let mut write = |method: &str, fields: &[(&str, &str)], body: &str| {
        ask(&mut client, method, "/store/Open/c", fields, body.as_bytes()).status
    };
    assert_eq!(write("PUT", &[("if-match", "*")], "1"), 412);
    assert_eq!(write("PUT", &[("if-none-match", "*")], "1"), 201);
    assert_eq!(write("PUT", &[("if-none-match", "*")], "2"), 412);
    let tag = server.get("/store/Open/c").header("etag").unwrap().to_owned();
    let weak = format!("W/{tag}");
    assert_eq!(write("PUT", &[("if-match", &weak)], "2"), 412);
    assert_eq!(write("PUT", &[("if-match", "\"0123\"")], "2"), 412);
    assert_eq!(write("DELETE", &[("if-match", "\"0123\"")], ""), 412);
    assert_eq!(write("PUT", &[("if-match", "no tag")], "2"), 400);
    assert_eq!(write("PUT", &[("if-match", &tag)], "2"), 204);
    assert_eq!(write("PUT", &[("if-match", &tag)], "3"), 412);
    assert_eq!(write("PUT", &[("if-none-match", &tag)], "4"), 204);
    assert_eq!(server.get("/store/Open/c").text(), "4");
}

#[test]
fn a_list_of_tags_that_cannot_be_read_is_refused_alike_for_reading_and_writing() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/c", "1");
    let many = vec!["\"a\""; 65].join(",");
    for method in ["GET", "HEAD", "PUT"] {
        for (field, list, told) in [
            (
                "if-match",
                "x",
                "If-Match is `*` or a list of entity tags, each between quotes, with commas between them",
            ),
            (
                "if-none-match",
                "\"a",
                "If-None-Match is `*` or a list of entity tags, each between quotes, with commas between them",
            ),
            ("if-match", &many, "If-Match names more than 64 entity tags"),
        ] {
            let answer = ask(&mut client, method, "/store/Open/c", &[(field, list)], b"2");
            assert_eq!(answer.status, 400, "{method} {field}: {list}");
            if method != "HEAD" {
                assert_eq!(answer.detail(), told);
            }
        }
    }
    assert_eq!(text(&mut client, "/store/Open/c"), "1");
}

#[test]
fn a_condition_reads_no_document_beyond_the_limit() {
    let server = setup("value_bytes_max = \"1KiB\"", "").start();
    let mut client = server.connect();
    for number in 0..4 {
        put(
            &mut client,
            &format!("/store/Open/many/{number}"),
            &format!("\"{}\"", "x".repeat(500)),
        );
    }
    let mut write = |method: &str, name: &str, list: &str| {
        ask(&mut client, method, "/store/Open/many", &[(name, list)], b"1")
    };
    let tag = format!("\"{}\"", "0".repeat(32));
    for name in ["if-match", "if-none-match"] {
        let refused = write("PUT", name, &tag);
        assert_eq!(refused.status, 413);
        assert_eq!(
            refused.detail(),
            "the document is too long for its tag to be compared (value_bytes_max 1024); only `*` can be"
        );
    }
    // Existence is checked without reading, and no other tag can match the document's.
    assert_eq!(write("PUT", "if-none-match", "*").status, 412);
    assert_eq!(write("DELETE", "if-match", "\"other\"").status, 412);
    assert_eq!(write("DELETE", "if-match", "*").status, 204);
}

#[test]
fn every_line_of_a_list_counts() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/c", "1");
    let tag = client.get("/store/Open/c").header("etag").unwrap().to_owned();
    let (other, known) = ("\"a\"", format!("\"b\", {tag}"));
    let mut ask = |method: &str, name: &str, lines: [&str; 2], body: &[u8]| {
        let fields = lines.map(|line| (name, line));
        ask(&mut client, method, "/store/Open/c", &fields, body).status
    };
    assert_eq!(ask("GET", "if-none-match", [other, &known], b""), 304);
    assert_eq!(ask("GET", "if-none-match", [other, other], b""), 200);
    for method in ["GET", "HEAD"] {
        assert_eq!(ask(method, "if-match", [other, &known], b""), 200);
        assert_eq!(ask(method, "if-match", [other, other], b""), 412);
    }
    assert_eq!(ask("PUT", "if-none-match", [other, &known], b"2"), 412);
    assert_eq!(ask("PUT", "if-match", [other, &known], b"2"), 204);
    let lines = super::ask(
        &mut client,
        "GET",
        "/store/Open",
        &[("accept", "text/html"), ("accept", "application/x-ndjson")],
        b"",
    );
    assert_eq!(lines.text(), "{\"key\":\"c\",\"value\":2}\n");
}

#[test]
fn compare_and_set_loses_no_increment() {
    const THREADS: usize = 8;
    const EACH: usize = 25;
    let server = start();
    put(&mut server.connect(), "/store/Open/count", "0");
    let counting = (0..THREADS).map(|_| {
        let mut client = server.connect();
        thread::spawn(move || {
            let mut done = 0;
            while done < EACH {
                let read = client.get("/store/Open/count");
                let next = read.text().parse::<usize>().unwrap() + 1;
                let tag = read.header("etag").unwrap();
                let body = next.to_string();
                let answer = ask(
                    &mut client,
                    "PUT",
                    "/store/Open/count",
                    &[("if-match", tag)],
                    body.as_bytes(),
                );
                match answer.status {
                    204 => done += 1,
                    412 => {}
                    other => panic!("{other}: {answer:?}"),
                }
            }
        })
    });
    let counting: Vec<_> = counting.collect();
    for thread in counting {
        thread.join().unwrap();
    }
    assert_eq!(
        server.get("/store/Open/count").text(),
        (THREADS * EACH).to_string()
    );
}
