//! Statements over HTTP: the cases of WABuR's conformance suite, and statements that are long, wrong or many.

use std::{thread, time::Duration};

use forebay_testkit::Client;

use super::{answered, ask, create, setup, start, tql};

/// The results of a statement, sorted as the suite does.
fn results(client: &mut Client, statement: &str) -> Vec<serde_json::Value> {
    let answer: serde_json::Value =
        serde_json::from_str(&answered(client, statement)).expect("an answer is JSON");
    assert_eq!(answer["code"], 0, "{statement}");
    let mut results = answer["results"].as_array().expect("there are results").clone();
    results.sort_by_key(ToString::to_string);
    results
}

#[test]
fn the_statements_of_the_conformance_suite_find_what_it_expects() {
    let server = start();
    let mut client = server.connect();
    for n in 0..10 {
        let insert = format!(r#"{{"insert":{{"kind":"Article","title":"Article-{n}","num":{n}}}}}"#);
        assert_eq!(
            answered(&mut client, &insert),
            format!("{{\"code\":0,\"ref\":{}}}", n + 1)
        );
    }
    let title = |numbers: &[u8]| -> Vec<serde_json::Value> {
        numbers.iter().map(|n| format!("Article-{n}").into()).collect()
    };
    let num = |numbers: &[u8]| -> Vec<serde_json::Value> { numbers.iter().map(|n| (*n).into()).collect() };
    for (statement, expected) in [
        (r#"{"where":["EQ","num",3],"select":"title"}"#, title(&[3])),
        (
            r#"{"where":["EQ","title","Article-4"],"select":"title"}"#,
            title(&[4]),
        ),
        (r#"{"where":["LT","num",3],"select":"title"}"#, title(&[0, 1, 2])),
        (r#"{"where":["LTE","num",2],"select":"title"}"#, title(&[0, 1, 2])),
        (r#"{"where":["GT","num",7],"select":"title"}"#, title(&[8, 9])),
        (r#"{"where":["GTE","num",7],"select":"title"}"#, title(&[7, 8, 9])),
        (
            r#"{"where":["BETWEEN","num",5,7],"select":"title"}"#,
            title(&[5, 6, 7]),
        ),
        (
            r#"{"where":["BETWEEN","num",5,7,false,false],"select":"title"}"#,
            title(&[6]),
        ),
        (
            r#"{"where":["BETWEEN","num",5,7,false,true],"select":"title"}"#,
            title(&[6, 7]),
        ),
        (
            r#"{"where":["BETWEEN","num",5,7,true,false],"select":"title"}"#,
            title(&[5, 6]),
        ),
        (
            r#"{"where":["IN","num",1,3,5,7],"select":"title"}"#,
            title(&[1, 3, 5, 7]),
        ),
        (
            r#"{"where":["OR",["LT","num",2],["GT","num",7]],"select":"title"}"#,
            title(&[0, 1, 8, 9]),
        ),
        (
            r#"{"where":["EQ","kind","Article"],"filter":["NOT",["BETWEEN","num",2,7]],"select":"num"}"#,
            num(&[0, 1, 8, 9]),
        ),
        (
            r#"{"where":["eq","kind","Article"],"filter":["eq","title","Article-3"],"select":"num"}"#,
            num(&[3]),
        ),
        (
            r#"{"where":["eq","kind","Article"],"filter":["regex","title","A.*-[3,4,5]"],"select":"num"}"#,
            num(&[3, 4, 5]),
        ),
        (
            r#"{"where":["and",["LT","num",5],["GT","num",2]],"select":"num"}"#,
            num(&[3, 4]),
        ),
        (
            r#"{"where":["and",["LT","num",5],["or",["eq","num",0],["GT","num",2]]],"select":"num"}"#,
            num(&[0, 3, 4]),
        ),
    ] {
        assert_eq!(results(&mut client, statement), expected, "{statement}");
    }
}

#[test]
fn the_statements_of_a_default_controller_are_answered_as_it_expects() {
    let server = start();
    let mut client = server.connect();
    let clear = r#"{"where":["EQ","kind","'Article"],"delete":null}"#;
    assert_eq!(answered(&mut client, clear), r#"{"code":0,"deleted":[]}"#);
    for (statement, expected) in [
        (
            r#"{"insert":{"kind":"Article","title":"Sample","text":"Some."}}"#,
            r#"{"code":0,"ref":1}"#,
        ),
        (
            r#"{"rid":"r7","where":["AND",["EQ","kind","'Article"],["EQ","title","'X"]],"insert":{"kind":"Article","title":"X"}}"#,
            r#"{"code":0,"ref":2,"rid":"r7"}"#,
        ),
        (
            r#"{"where":1,"select":"$"}"#,
            r#"{"code":0,"results":[{"kind":"Article","text":"Some.","title":"Sample"}]}"#,
        ),
        (r#"{"where":99,"select":"$"}"#, r#"{"code":0,"results":[]}"#),
        (
            r#"{"where":["EQ","kind","'Article"],"select":{"ref":"$ref","Title":"title"}}"#,
            r#"{"code":0,"results":[{"ref":1,"Title":"Sample"},{"ref":2,"Title":"X"}]}"#,
        ),
        (
            r#"{"where":["AND",["EQ","kind","'Article"],["EQ","title","'X"]],"update":{"kind":"Article","title":"Y"}}"#,
            r#"{"code":0,"updated":[2]}"#,
        ),
        (
            r#"{"where":1,"update":{"kind":"Article","title":"Z"}}"#,
            r#"{"code":0,"updated":[1]}"#,
        ),
        (r#"{"where":1,"delete":null}"#, r#"{"code":0,"deleted":[1]}"#),
        (
            "WHERE EQ(kind 'Article') SELECT {\"id\":$ref \"data\":$}",
            r#"{"code":0,"results":[{"id":2,"data":{"kind":"Article","title":"Y"}}]}"#,
        ),
    ] {
        assert_eq!(answered(&mut client, statement), expected, "{statement}");
    }
    let again = r#"{"where":["AND",["EQ","kind","'Article"],["EQ","title","'Y"]],"insert":{"kind":"Article","title":"Y"}}"#;
    let refused = tql(&mut client, again);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(refused.detail(), "already exists: record 2 matches");
    assert_eq!(answered(&mut client, clear), r#"{"code":0,"deleted":[2]}"#);
}

#[test]
fn errors_have_a_place_and_a_code() {
    let index = "[store.index.once]\nrecords = \"Entry\"\nfields = [\"n\"]\nunique = true\n";
    let server = setup(index, "").start();
    let mut client = server.connect();
    create(&mut client, r#"{"kind":"Article","n":1}"#);
    create(&mut client, r#"{"kind":"Article","n":1}"#);
    create(&mut client, r#"{"kind":"Entry","n":2}"#);
    for (statement, status, code, place) in [
        ("WHERE EQ(num", 400, -1, Some((1, 13))),
        ("WHERE EQ(num 1)\nLIMIT -1", 400, -1, Some((2, 7))),
        (r#"{"where":["GT","num","'x"]}"#, 422, -1, Some((1, 22))),
        (r#"{"where":18446744073709551616}"#, 422, -1, Some((1, 10))),
        ("WHERE EQ(kind 'no kind')", 422, -1, None),
        ("WHERE EQ(kind 'Closed')", 403, -1, None),
        ("WHERE EQ(kind 'Secret')", 401, -1, None),
        ("WHERE 99 UPDATE {}", 404, 166, None),
        ("WHERE EQ(n 1) INSERT {\"kind\":\"Article\"}", 409, 17, None),
        (
            "WHERE EQ(n 1) UPDATE {\"kind\":\"Article\"} LIMIT 1",
            409,
            -1,
            None,
        ),
        ("INSERT {\"kind\":\"Entry\",\"n\":2}", 409, -1, None),
        ("INSERT {\"kind\":\"Shown\"}", 403, -1, None),
        ("INSERT {\"kind\":7}", 422, -1, None),
    ] {
        let answer = tql(&mut client, statement);
        assert_eq!(answer.status, status, "{statement}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(problem["code"], code, "{statement}: {problem}");
        let found = problem["line"].as_u64().zip(problem["column"].as_u64());
        assert_eq!(found, place, "{statement}: {problem}");
    }
    let json = [("content-type", "application/json")];
    let friendly = ask(&mut client, "POST", "/tql", &json, b"WHERE EQ(n 1)");
    assert_eq!(friendly.status, 400, "what says that it is JSON must be");
    assert_eq!(client.get("/tql").status, 405);
    assert_eq!(
        ask(&mut client, "OPTIONS", "/tql", &[], b"").header("allow"),
        Some("OPTIONS, POST")
    );
}

#[test]
fn an_index_of_the_configuration_answers_statements() {
    let server = setup(
        "index.by_num = { records = \"Article\", fields = [\"num\"] }",
        "type_key = \"meta.kind\"\ntime_format = \"XSD0\"",
    )
    .start();
    let mut client = server.connect();
    for n in 0..100 {
        create(
            &mut client,
            &format!(r#"{{"meta":{{"kind":"Article"}},"num":{n},"at":"2020-01-01T00:00:00.5Z"}}"#),
        );
    }
    let explained = answered(
        &mut client,
        "EXPLAIN WHERE AND(EQ(meta.kind 'Article') GTE(num 98))",
    );
    assert_eq!(
        explained,
        r#"{"code":0,"plan":{"kinds":[{"kind":"Article","by":"index","lookups":[{"index":"by_num","equal":[],"from":98,"to":""}],"lookups_total":1,"filtered":[],"examined":2}],"examined":2,"more":false}}"#
    );
    assert_eq!(
        answered(
            &mut client,
            "WHERE AND(EQ(meta.kind 'Article') GTE(num 98)) SELECT [num at]"
        ),
        r#"{"code":0,"results":[[98,"2020-01-01T00:00:00Z"],[99,"2020-01-01T00:00:00Z"]]}"#
    );
}

#[test]
fn a_long_answer_streams_and_is_of_one_state() {
    let server = setup("", "rows_max = 100000").start();
    let mut client = server.connect();
    let long = "x".repeat(500);
    for n in 0..3000 {
        tql(
            &mut client,
            &format!(r#"INSERT {{"kind":"Article","n":{n},"text":"{long}"}}"#),
        );
    }
    let mut reader = server.connect();
    crate::store::send(
        &mut reader,
        "POST",
        "/tql",
        &[],
        b"WHERE EQ(kind 'Article') SELECT $",
    );
    assert!(
        reader.is_readable_within(Duration::from_secs(20)),
        "the answer has begun"
    );
    // The response exceeds the buffers on both sides: the rest is read later, and must not see this.
    assert_eq!(
        tql(&mut client, "WHERE EQ(kind 'Article') DELETE LIMIT 3000").status,
        200
    );
    let other = tql(&mut client, "SELECT $ref SORT n");
    assert_eq!(other.text(), r#"{"code":0,"results":[]}"#);
    let whole = reader.response_to("POST");
    assert_eq!(whole.header("transfer-encoding"), Some("chunked"));
    let answer: serde_json::Value = serde_json::from_str(whole.text()).unwrap();
    assert_eq!(answer["results"].as_array().unwrap().len(), 3000);
}

#[test]
fn a_scan_leaves_others_their_turn_and_ends_at_its_deadline() {
    let server = forebay_testkit::Setup::new(
        "[store]\n[store.access]\nArticle = { read = \"public\", write = \"public\" }\n\
         [[route]]\npath = \"/json/*\"\nrecords = {}\n[[route]]\npath = \"/tql\"\ntql = {}\ndeadline = \"200ms\"\n",
    )
    .threads(1)
    .start();
    let mut client = server.connect();
    // A pattern that takes long to match against a text, and fails.
    let text = "a".repeat(1500);
    for _ in 0..40 {
        let documents: Vec<String> = (0..50)
            .map(|_| format!(r#"{{"kind":"Article","t":"{text}"}}"#))
            .collect();
        for document in documents {
            ask(&mut client, "POST", "/json/", &[], document.as_bytes());
        }
    }
    let slow = "WHERE REGEX(t '(a{1,20}b){2}c') SELECT $ref";
    let scan = {
        let mut client = server.connect();
        thread::spawn(move || tql(&mut client, slow))
    };
    let mut others = 0;
    while !scan.is_finished() {
        assert_eq!(client.get("/json/0000000000000001").status, 200);
        others += 1;
    }
    let cut = scan.join().unwrap();
    assert_eq!(
        (cut.status, cut.text()),
        (200, r#"{"code":0,"results":[],"truncated":{"by":"deadline"}}"#)
    );
    assert!(
        others > 3,
        "the only I/O thread has answered {others} others meanwhile"
    );
    let sorted = tql(&mut client, &format!("{slow} SORT t"));
    assert_eq!(sorted.status, 504, "{sorted:?}");
    let changed = tql(&mut client, &slow.replace("SELECT $ref", "DELETE"));
    assert_eq!(changed.status, 504, "{changed:?}");
}

#[test]
fn statements_of_many_clients_are_all_done_once() {
    let server = start();
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let mut connection = server.connect();
            thread::spawn(move || {
                for n in 0..50 {
                    let once = format!(
                        r#"{{"where":["AND",["EQ","kind","'Entry"],["EQ","n",{n}]],"insert":{{"kind":"Entry","n":{n},"by":{client}}}}}"#
                    );
                    assert!(matches!(tql(&mut connection, &once).status, 200 | 409));
                    answered(&mut connection, &format!(r#"INSERT {{"kind":"Article","n":{n}}}"#));
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let mut client = server.connect();
    assert_eq!(
        results(&mut client, "WHERE EQ(kind 'Entry') SELECT n UNIQUE n").len(),
        50
    );
    assert_eq!(
        results(&mut client, "WHERE EQ(kind 'Entry') SELECT n").len(),
        50,
        "each was made once"
    );
    assert_eq!(
        results(&mut client, "WHERE EQ(kind 'Article') SELECT $ref").len(),
        400
    );
    let references = results(&mut client, "SELECT $ref");
    assert_eq!(references.len(), 450, "every reference is another one");
}
