//! A node's children: ranges, pages and lines.

use std::time::{Duration, Instant};

use forebay_testkit::{Client, wait_until};

use super::{ask, put, setup, start, text};

/// Every page of a question, by following the links.
pub(super) fn pages(client: &mut Client, target: &str) -> Vec<String> {
    let (path, _) = target.split_once('?').expect("the question has a query");
    let mut pages = Vec::new();
    let mut next = Some(target.to_owned());
    while let Some(target) = next {
        let answer = client.get(&target);
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        next = answer.header("link").map(|link| {
            let query = link
                .strip_prefix('<')
                .and_then(|link| link.strip_suffix(">; rel=\"next\""));
            format!("{path}{}", query.unwrap_or_else(|| panic!("{link}")))
        });
        pages.push(answer.text().to_owned());
    }
    pages
}

#[test]
fn children_are_asked_for_by_range_prefix_and_order() {
    let server = start();
    let mut client = server.connect();
    // Both as one text and as records of their own.
    for (name, size) in [("packed", 1), ("spread", 400)] {
        let value = format!("\"{}\"", "x".repeat(size));
        let names = ["-2", "1", "2", "10", "", "1a", "a", "a/b", "ab", "b", "é"];
        let members: Vec<String> = names.iter().map(|name| format!("\"{name}\":{value}")).collect();
        let node = format!("/store/Open/{name}");
        put(&mut client, &node, &format!("{{{}}}", members.join(",")));
        for (query, expected) in [
            ("keys", r#"["-2","1","2","10","","1a","a","a/b","ab","b","é"]"#),
            (
                "keys=true&reverse",
                r#"["é","b","ab","a/b","a","1a","","10","2","1","-2"]"#,
            ),
            ("keys&from=2&to=a", r#"["2","10","","1a","a"]"#),
            ("keys&to=2", r#"["-2","1","2"]"#),
            ("keys&from=ac", r#"["b","é"]"#),
            ("keys&prefix=a", r#"["a","a/b","ab"]"#),
            ("keys&prefix=a&from=a%2Fb&reverse=true", r#"["ab","a/b"]"#),
            ("keys&prefix=1", r#"["1a"]"#),
            ("keys&prefix=%C3%A9", r#"["é"]"#),
            ("keys&prefix=zz", "[]"),
            ("keys&from=b&to=a", "[]"),
        ] {
            assert_eq!(
                text(&mut client, &format!("{node}?{query}")),
                expected,
                "{name} {query}"
            );
        }
        let pages = pages(&mut client, &format!("{node}?keys&limit=4&reverse&to=b"));
        assert_eq!(
            pages,
            [
                r#"["b","ab","a/b","a"]"#,
                r#"["1a","","10","2"]"#,
                r#"["1","-2"]"#
            ],
            "{name}"
        );
        let pages = self::pages(&mut client, &format!("{node}?limit=1&prefix=a&depth=3"));
        assert_eq!(pages.len(), 3);
        assert_eq!(pages[1], format!("[{{\"key\":\"a/b\",\"value\":{value}}}]"));
    }
    put(&mut client, "/store/Open/list", "[7,[8],9]");
    assert_eq!(
        text(&mut client, "/store/Open/list?from=1"),
        r#"[{"key":"1","value":[8]},{"key":"2","value":9}]"#
    );
    put(&mut client, "/store/Open/leaf", "7");
    assert_eq!(text(&mut client, "/store/Open/leaf?keys"), "[]");
    assert_eq!(client.get("/store/Open/none?keys").status, 404);
}

#[test]
fn a_depth_leaves_out_what_lies_deeper() {
    let server = start();
    let mut client = server.connect();
    for (name, size) in [("packed", 1), ("spread", 3000)] {
        let value = format!("\"{}\"", "x".repeat(size));
        let node = format!("/store/Open/{name}");
        put(
            &mut client,
            &node,
            &format!(r#"{{"a":{{"b":{{"c":{value}}}}},"l":[[1],2],"v":{value}}}"#),
        );
        for (depth, expected) in [
            (0, "{}".to_owned()),
            (1, format!(r#"{{"a":{{}},"l":[],"v":{value}}}"#)),
            (2, format!(r#"{{"a":{{"b":{{}}}},"l":[[],2],"v":{value}}}"#)),
            (
                9,
                format!(r#"{{"a":{{"b":{{"c":{value}}}}},"l":[[1],2],"v":{value}}}"#),
            ),
        ] {
            assert_eq!(
                text(&mut client, &format!("{node}?depth={depth}")),
                expected,
                "{name} {depth}"
            );
        }
        assert_eq!(
            text(&mut client, &format!("{node}?limit=2&depth=0")),
            r#"[{"key":"a","value":{}},{"key":"l","value":[]}]"#
        );
    }
    assert_eq!(client.get("/store/Open/none?depth=1").status, 404);
}

#[test]
fn a_page_ends_at_its_bytes_too_and_goes_on_where_it_ended() {
    let server = start();
    let mut client = server.connect();
    let value = format!("\"{}\"", "x".repeat(100_000));
    for at in 0..30 {
        put(&mut client, &format!("/store/Open/big/{at}"), &value);
    }
    let pages = pages(&mut client, "/store/Open/big?limit=1000");
    assert_eq!(pages.len(), 3, "a page has about a mebibyte");
    let read: Vec<serde_json::Value> = pages
        .iter()
        .flat_map(|page| serde_json::from_str::<Vec<serde_json::Value>>(page).unwrap())
        .collect();
    let keys: Vec<_> = read
        .iter()
        .map(|entry| entry["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys, (0..30).map(|at| at.to_string()).collect::<Vec<_>>());
}

#[test]
fn lines_bring_all_children_of_one_state() {
    const COUNT: usize = 5000;
    let server = start();
    let mut client = server.connect();
    let members: Vec<String> = (0..COUNT)
        .map(|at| format!("\"k{at:04}\":{{\"n\":{at}}}"))
        .collect();
    put(
        &mut client,
        "/store/Open/many",
        &format!("{{{}}}", members.join(",")),
    );
    let lines = [("accept", "text/html, Application/X-NDJSON;q=0.9")];
    let answer = ask(&mut client, "GET", "/store/Open/many", &lines, b"");
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let expected: Vec<String> = (0..COUNT)
        .map(|at| format!("{{\"key\":\"k{at:04}\",\"value\":{{\"n\":{at}}}}}"))
        .collect();
    assert_eq!(answer.text().lines().collect::<Vec<_>>(), expected);
    let answer = ask(&mut client, "GET", "/store/Open/many?reverse&keys", &lines, b"");
    let expected: Vec<String> = (0..COUNT).rev().map(|at| format!("\"k{at:04}\"")).collect();
    assert_eq!(answer.text().lines().collect::<Vec<_>>(), expected);
    let answer = ask(
        &mut client,
        "GET",
        "/store/Open/many?limit=2&keys&from=k0007",
        &lines,
        b"",
    );
    assert_eq!(
        answer.text(),
        "\"k0007\"\n\"k0008\"\n{\"next\":\"?from=k0009&limit=2&keys\"}\n"
    );
    assert_eq!(
        ask(&mut client, "GET", "/store/Open/none", &lines, b"").status,
        404
    );
    // To HTTP/1.0 until the connection ends.
    client.send("GET /store/Open/many?keys&to=k0001 HTTP/1.0\r\naccept: application/x-ndjson\r\n\r\n");
    assert_eq!(client.response().text(), "\"k0000\"\n\"k0001\"\n");
}

#[test]
fn a_reader_that_takes_too_long_is_cut_off() {
    let server = setup("reader_age_max = \"1s\"", "")
        .server("body_bytes_max = \"8MiB\"")
        .start();
    let mut client = server.connect();
    let value = format!("\"{}\"", "x".repeat(7_000_000));
    for at in 0..8 {
        put(&mut client, &format!("/store/Open/big/{at}"), &value);
    }
    let mut reader = server.connect();
    super::send(
        &mut reader,
        "GET",
        "/store/Open/big",
        &[("accept", "application/x-ndjson")],
        b"",
    );
    let begun = Instant::now();
    let head = reader.head().unwrap();
    assert_eq!(head.status, 200);
    // More than sockets hold waits for this client, which takes nothing meanwhile.
    wait_until("the state to be too old", || {
        begun.elapsed() > Duration::from_millis(1200)
    });
    let mut taken = 0;
    loop {
        let bytes = reader.some_bytes();
        if bytes.is_empty() {
            break;
        }
        taken += bytes.len();
    }
    assert!(taken < 8 * value.len(), "all {taken} bytes came");
    server.wait_for_log(&["an answer is cut off", "reader_age_max"]);
    assert_eq!(server.get("/store/Open/big?keys").status, 200);
}

#[test]
fn only_so_many_clients_take_lines_at_a_time() {
    const MAX: usize = 128;
    let server = setup("", "").server("body_bytes_max = \"8MiB\"").start();
    let mut client = server.connect();
    // More than sockets hold, in children of which each is little.
    let value = format!("\"{}\"", "x".repeat(60_000));
    for part in 0..3 {
        let members: Vec<String> = (0..100).map(|at| format!("\"{part}-{at}\":{value}")).collect();
        let answer = ask(
            &mut client,
            "PATCH",
            "/store/Open/big",
            &[("content-type", "application/merge-patch+json")],
            format!("{{{}}}", members.join(",")).as_bytes(),
        );
        assert!(matches!(answer.status, 201 | 204), "{answer:?}");
    }
    let lines = [("accept", "application/x-ndjson")];
    let mut takers: Vec<Client> = (0..MAX)
        .map(|_| {
            let mut taker = server.connect();
            super::send(&mut taker, "GET", "/store/Open/big", &lines, b"");
            assert_eq!(taker.head().unwrap().status, 200);
            taker
        })
        .collect();
    let refused = ask(&mut client, "GET", "/store/Open/big?limit=1", &lines, b"");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(
        refused.detail(),
        "too many clients read lines from the store (at most 128); use pages instead"
    );
    assert_eq!(text(&mut client, "/store/Open/big?limit=1&keys"), "[\"0-0\"]");
    takers.pop();
    wait_until("a place to be free", || {
        ask(&mut client, "GET", "/store/Open/big?limit=1", &lines, b"").status == 200
    });
}
