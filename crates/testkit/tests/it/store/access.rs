//! Access rules of the store.

use forebay_testkit::Setup;

use super::{ask, config, setup};

const RULES: &str = "Open = { read = \"public\", write = \"public\" }\n\
    Shown = { read = \"public\" }\n\
    Kept = { read = \"token:READ_TOKEN\", write = \"token:WRITE_TOKEN\" }\n\
    Dropped = { write = \"public\" }\n";

#[test]
fn each_global_has_its_rules() {
    let server = Setup::new(&config("", RULES, ""))
        .env("READ_TOKEN", "to-read")
        .env("WRITE_TOKEN", "to-write")
        .start();
    let mut client = server.connect();
    let cases = [
        ("Open", "", 404, 201),
        ("Shown", "", 404, 403),
        ("Shown", "Bearer to-write", 404, 403),
        ("Dropped", "", 403, 201),
        ("Unknown", "", 403, 403),
        ("open", "", 403, 403),
        ("Kept", "", 401, 401),
        ("Kept", "Bearer", 401, 401),
        ("Kept", "Basic to-read", 401, 401),
        ("Kept", "Bearer to-rea", 401, 401),
        ("Kept", "Bearer to-readd", 401, 401),
        ("Kept", "Bearer to-read", 404, 401),
        ("Kept", "bearer  to-write", 401, 201),
    ];
    for (global, authorization, read, write) in cases {
        let fields = [("authorization", authorization)];
        let fields = if authorization.is_empty() {
            &[][..]
        } else {
            &fields[..]
        };
        let target = format!("/store/{global}/1");
        let answer = ask(&mut client, "GET", &target, fields, b"");
        assert_eq!(answer.status, read, "{global} {authorization:?}");
        let challenge = match (answer.status, authorization) {
            (401, "" | "Bearer" | "Basic to-read") => Some("Bearer"),
            (401, _) => Some("Bearer error=\"invalid_token\""),
            _ => None,
        };
        assert_eq!(
            answer.header("www-authenticate"),
            challenge,
            "{global} {authorization:?}"
        );
        let answer = ask(&mut client, "PUT", &target, fields, b"1");
        assert_eq!(answer.status, write, "{global} {authorization:?}");
        let batch = format!("[{{\"op\":\"put\",\"path\":\"{global}/1\",\"value\":1}}]");
        let answer = ask(&mut client, "POST", "/store:batch", fields, batch.as_bytes());
        assert_eq!(
            answer.status,
            if write == 201 { 200 } else { write },
            "{global} {authorization:?}"
        );
        // Remove what was written before the next case.
        if write == 201 {
            assert_eq!(ask(&mut client, "DELETE", &target, fields, b"").status, 204);
        }
    }
}

#[test]
fn a_route_can_be_for_reading_only() {
    let server = Setup::new(&config("", RULES, "methods = [\"GET\"]"))
        .env("READ_TOKEN", "r")
        .env("WRITE_TOKEN", "w")
        .start();
    let mut client = server.connect();
    for (method, target) in [
        ("PUT", "/store/Open/1"),
        ("DELETE", "/store/Open"),
        ("POST", "/store:batch"),
    ] {
        let answer = ask(&mut client, method, target, &[], b"[]");
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
    assert_eq!(client.get("/store/Open/1").status, 404);
}

#[test]
fn methods_that_a_node_does_not_have_are_named() {
    let server = super::start();
    let mut client = server.connect();
    let allowed = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
    let options = ask(&mut client, "OPTIONS", "/store/Open/1", &[], b"");
    assert_eq!((options.status, options.header("allow")), (204, Some(allowed)));
    let refused = ask(&mut client, "QUERY", "/store/Open/1", &[], b"{}");
    assert_eq!((refused.status, refused.header("allow")), (405, Some(allowed)));
}

#[test]
fn a_page_of_another_site_changes_nothing_unless_the_route_names_it() {
    let server = setup("", "origins = [\"https://friend.example\"]").start();
    let mut client = server.connect();
    for (fields, status) in [
        (&[][..], 204),
        (
            &[("sec-fetch-site", "same-origin"), ("origin", "http://test")],
            204,
        ),
        (&[("sec-fetch-site", "none")], 204),
        (&[("origin", "http://test")], 204),
        (
            &[
                ("origin", "https://friend.example"),
                ("sec-fetch-site", "cross-site"),
            ],
            204,
        ),
        (&[("origin", "https://friend.example")], 204),
        (&[("origin", "https://evil.example")], 403),
        (
            &[
                ("origin", "https://evil.example"),
                ("sec-fetch-site", "cross-site"),
            ],
            403,
        ),
        (
            &[("origin", "http://sub.test"), ("sec-fetch-site", "same-site")],
            403,
        ),
        (&[("origin", "null")], 403),
        (&[("sec-fetch-site", "cross-site")], 403),
    ] {
        for (method, path) in [
            ("PUT", "/store/Open/1"),
            ("DELETE", "/store/Open/2"),
            ("PATCH", "/store/Open/1"),
            ("POST", "/store/Open"),
        ] {
            let answer = ask(&mut client, method, path, fields, b"{}");
            let is_refused = answer.status == 403;
            assert_eq!(is_refused, status == 403, "{method} {fields:?}: {answer:?}");
        }
        let read = ask(&mut client, "GET", "/store/Open", fields, b"");
        assert_ne!(read.status, 403, "{fields:?}");
    }
}
