//! Records by their addresses.

use forebay_testkit::Client;

use super::{ask, create, setup, start, tql};
use crate::store::{open, text};

#[test]
fn a_record_is_made_read_changed_and_removed_under_one_address() {
    let server = start();
    let mut client = server.connect();
    let made = ask(
        &mut client,
        "POST",
        "/json/",
        &[],
        br#"{"title":"Sample", "kind":"Article"}"#,
    );
    assert_eq!((made.status, made.text()), (201, r#"{"code":0,"ref":1}"#));
    let address = made.header("location").unwrap().to_owned();
    assert_eq!(address, "/json/0000000000000001");
    let read = client.get(&address);
    assert_eq!(
        (read.status, read.text()),
        (200, r#"{"kind":"Article","title":"Sample"}"#)
    );
    assert_eq!(read.header("content-type"), Some("application/json"));
    assert!(read.header("etag").is_some());
    let known = ask(
        &mut client,
        "GET",
        &address,
        &[("if-none-match", read.header("etag").unwrap())],
        b"",
    );
    assert_eq!((known.status, known.text()), (304, ""));
    client.request("HEAD", &address);
    let head = client.response_to("HEAD");
    assert_eq!(head.header("content-length"), Some("35"));
    for (method, fields, body, status) in [
        ("PUT", &[][..], r#"{"kind":"Article","title":"Other"}"#, 204),
        (
            "PATCH",
            &[("content-type", "application/merge-patch+json")],
            r#"{"text":"New","title":null}"#,
            204,
        ),
        (
            "PUT",
            &[("if-match", "\"00000000000000000000000000000000\"")],
            "{}",
            412,
        ),
        ("PUT", &[("if-none-match", "*")], "{}", 412),
        ("PATCH", &[], "{}", 415),
        ("POST", &[], "{}", 405),
    ] {
        let answer = ask(&mut client, method, &address, fields, body.as_bytes());
        assert_eq!(answer.status, status, "{method} {body}: {answer:?}");
    }
    let read = client.get(&address);
    assert_eq!(read.text(), r#"{"kind":"Article","text":"New"}"#);
    let matching = [("if-match", read.header("etag").unwrap())];
    let written = ask(&mut client, "PUT", &address, &matching, br#"{"kind":"Entry"}"#);
    assert_eq!(written.status, 204, "{written:?}");
    let tag = written.header("etag").unwrap().to_owned();
    assert_eq!(client.get(&address).header("etag"), Some(&*tag));
    assert_eq!(
        ask(&mut client, "DELETE", &address, &[("if-match", &tag)], b"").status,
        204
    );
    for (method, body) in [("GET", ""), ("PUT", "{}"), ("DELETE", "")] {
        let answer = ask(&mut client, method, &address, &[], body.as_bytes());
        assert_eq!(answer.status, 404, "{method}: {answer:?}");
        assert_eq!(answer.detail(), "there is no record 1");
    }
    assert_eq!(
        create(&mut client, "{}"),
        "/json/0000000000000002",
        "a reference is given once"
    );
}

#[test]
fn a_record_is_a_document_of_the_store_in_the_global_of_its_kind() {
    let server = start();
    let mut client = server.connect();
    let address = create(&mut client, r#"{"kind":"Article","n":1}"#);
    assert_eq!(
        text(&mut client, "/store/Article/1"),
        r#"{"kind":"Article","n":1}"#
    );
    let moved = ask(&mut client, "PUT", &address, &[], br#"{"kind":"Entry","n":1}"#);
    assert_eq!(moved.status, 204);
    assert_eq!(client.get("/store/Article/1").status, 404);
    assert_eq!(text(&mut client, "/store/Entry/1"), r#"{"kind":"Entry","n":1}"#);
    assert_eq!(text(&mut client, &address), r#"{"kind":"Entry","n":1}"#);
    // Writes by a handler, and changes to the directory, are visible at once.
    let store = open(&server);
    let write = |transaction: &mut forebay_store::Transaction| {
        transaction.put(&forebay_store::Key::global("Entry")?.child("1")?, b"{\"n\":2}")
    };
    store.transact(write).unwrap();
    assert_eq!(text(&mut client, &address), r#"{"n":2}"#);
}

#[test]
fn kinds_are_open_to_whom_the_configuration_says() {
    let server = start();
    let mut client = server.connect();
    let token = [("authorization", "Bearer secret")];
    let made = ask(&mut client, "POST", "/json/", &token, br#"{"kind":"Secret"}"#);
    assert_eq!(made.status, 201, "{made:?}");
    let secret = made.header("location").unwrap().to_owned();
    let article = create(&mut client, r#"{"kind":"Article"}"#);
    let wrong = [("authorization", "Bearer wrong")];
    for (method, target, fields, body, status) in [
        ("GET", &*secret, &token[..], "", 200),
        ("GET", &secret, &[], "", 401),
        ("GET", &secret, &wrong, "", 401),
        ("DELETE", &secret, &[], "", 401),
        ("PUT", &secret, &[], r#"{"kind":"Article"}"#, 401),
        // A record cannot be moved to where its writer may not write.
        ("PUT", &article, &[], r#"{"kind":"Secret"}"#, 401),
        ("PUT", &article, &[], r#"{"kind":"Closed"}"#, 403),
        ("POST", "/json/", &[], r#"{"kind":"Closed"}"#, 403),
        ("POST", "/json/", &[], r#"{"kind":"Shown"}"#, 403),
        ("GET", "/json/?kind=Closed", &[], "", 403),
        ("GET", "/json/?kind=Secret", &[], "", 401),
        ("GET", "/json/?kind=Secret", &token, "", 200),
        ("GET", "/json/?kind=Shown", &[], "", 200),
        ("PUT", &secret, &token, r#"{"kind":"Article"}"#, 204),
        ("GET", &secret, &[], "", 200),
    ] {
        let answer = ask(&mut client, method, target, fields, body.as_bytes());
        assert_eq!(answer.status, status, "{method} {target} {body}: {answer:?}");
        let names_it = status == 401 && target == secret && answer.text().contains("Secret");
        assert!(!names_it, "{answer:?}");
        assert_eq!(
            answer.header("www-authenticate").is_some(),
            status == 401,
            "{answer:?}"
        );
    }
}

#[test]
fn lists_go_page_by_page_and_can_be_indented() {
    let server = start();
    let mut client = server.connect();
    for n in 0..5 {
        create(&mut client, &format!(r#"{{"kind":"Article","n":{n}}}"#));
    }
    create(&mut client, r#"{"kind":"Entry"}"#);
    let list = |client: &mut Client, query: &str| {
        let answer = client.get(&format!("/json/?{query}"));
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        (answer.text().to_owned(), answer.header("link").map(str::to_owned))
    };
    assert_eq!(
        list(&mut client, "kind=Article"),
        ("[1,2,3,4,5]".to_owned(), None)
    );
    let next = "<?kind=Article&after=0000000000000002&size=2>; rel=\"next\"".to_owned();
    assert_eq!(
        list(&mut client, "kind=Article&size=2"),
        ("[1,2]".to_owned(), Some(next))
    );
    assert_eq!(
        list(&mut client, "kind=Article&after=0000000000000002&size=3").0,
        "[3,4,5]"
    );
    assert_eq!(list(&mut client, "kind=Article&page=2&size=2").0, "[5]");
    assert_eq!(
        list(&mut client, "kind=Entry&full").0,
        r#"[{"id":6,"data":{"kind":"Entry"}}]"#
    );
    assert_eq!(list(&mut client, "kind=Record").0, "[]");
    let indented = "[\n  {\n    \"id\": 6,\n    \"data\": {\n      \"kind\": \"Entry\"\n    }\n  }\n]";
    assert_eq!(list(&mut client, "kind=Entry&full=true&indent=2").0, indented);
    assert_eq!(
        text(&mut client, "/json/0000000000000006?indent=1"),
        "{\n \"kind\": \"Entry\"\n}"
    );
}

#[test]
fn json_that_indenting_makes_too_long_is_refused_with_the_limit() {
    let server = setup("", "answer_bytes_max = \"1KiB\"").start();
    let mut client = server.connect();
    let deep = format!("{}{}{}", "[".repeat(40), "1,".repeat(20) + "1", "]".repeat(40));
    let address = create(&mut client, &format!(r#"{{"kind":"Entry","deep":{deep}}}"#));
    for target in [&address[..], "/json/?kind=Entry&full"] {
        assert_eq!(client.get(target).status, 200);
        let separator = if target.contains('?') { '&' } else { '?' };
        let refused = client.get(&format!("{target}{separator}indent=8"));
        let detail = "the answer has more than 1024 bytes (records.answer_bytes_max)";
        assert_eq!(refused.status, 413, "{refused:?}");
        assert!(refused.text().contains(detail), "{refused:?}");
    }
    assert_eq!(client.get("/json/?kind=Entry&indent=8").status, 200);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_is_accepted() {
    let server = start();
    let mut client = server.connect();
    for (method, target, body, status, detail) in [
        (
            "GET",
            "/json/",
            "",
            400,
            "query parameter \"kind\": it says of which kind",
        ),
        ("GET", "/json/?kind=a%20b", "", 422, "\"a b\" cannot be a kind"),
        ("GET", "/json/?kind=%25Ref", "", 422, "begins with `%`"),
        ("GET", "/json/?kind=Article&size=0", "", 400, "from 1 to 1000"),
        ("GET", "/json/?kind=Article&kind=Entry", "", 400, "given twice"),
        (
            "GET",
            "/json/?kind=Article&nope",
            "",
            400,
            "there are kind, page, after, size, full and indent",
        ),
        ("GET", "/json/11", "", 404, "16 hexadecimal digits"),
        ("GET", "/json/000000000000000g", "", 404, "16 hexadecimal digits"),
        (
            "GET",
            "/json/ffffffffffffffff",
            "",
            404,
            "there is no record 18446744073709551615",
        ),
        ("GET", "/json/0000000000000001?x=1", "", 400, "there is indent"),
        ("POST", "/json/?x", "{}", 400, "there are no parameters here"),
        ("POST", "/json/", "[]", 422, "a record is a JSON object, found []"),
        ("POST", "/json/", "{", 400, "not JSON that can be kept"),
        (
            "POST",
            "/json/",
            r#"{"kind":7}"#,
            422,
            "the kind of a record (`kind`) is a text, found 7",
        ),
        (
            "POST",
            "/json/",
            r#"{"kind":"no/kind"}"#,
            422,
            "cannot contain '/'",
        ),
        ("PUT", "/json/", "{}", 405, "allowed: GET, HEAD, OPTIONS, POST"),
        ("PUT", "/json/0000000000000009", "{}", 404, "there is no record 9"),
    ] {
        let answer = ask(&mut client, method, target, &[], body.as_bytes());
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
        assert!(
            answer.detail().contains(detail),
            "{method} {target}: {}",
            answer.detail()
        );
    }
    let options = ask(&mut client, "OPTIONS", "/json/0000000000000001", &[], b"");
    assert_eq!(
        options.header("allow"),
        Some("DELETE, GET, HEAD, OPTIONS, PATCH, PUT")
    );
}

#[test]
fn a_record_longer_than_the_store_takes_is_refused() {
    let server = setup("value_bytes_max = \"4KiB\"", "").start();
    let mut client = server.connect();
    let long = format!(r#"{{"kind":"Article","text":"{}"}}"#, "x".repeat(5000));
    let answer = ask(&mut client, "POST", "/json/", &[], long.as_bytes());
    assert_eq!(answer.status, 413, "{answer:?}");
    let statement = tql(&mut client, &format!("insert {long}"));
    assert_eq!(statement.status, 413, "{statement:?}");
    create(&mut client, r#"{"kind":"Article"}"#);
}

#[test]
fn a_record_may_have_a_name_for_as_long_as_it_is_there() {
    let server = start();
    let mut client = server.connect();
    let put = |client: &mut Client, path: &str, fields: &[(&str, &str)], body: &str| {
        ask(client, "PUT", path, fields, body.as_bytes())
    };
    let made = put(
        &mut client,
        "/json/front-page",
        &[("if-none-match", "*")],
        r#"{"kind":"Article","title":"One"}"#,
    );
    assert_eq!((made.status, made.text()), (201, r#"{"code":0,"ref":1}"#));
    assert_eq!(made.header("location"), None, "it is where the request says");
    assert_eq!(
        put(&mut client, "/json/front-page", &[("if-none-match", "*")], "{}").status,
        412
    );
    for address in ["/json/front-page", "/json/front%2dpage", "/json/0000000000000001"] {
        assert_eq!(
            client.get(address).text(),
            r#"{"kind":"Article","title":"One"}"#,
            "{address}"
        );
    }
    // The same record, whatever its content becomes.
    assert_eq!(
        put(
            &mut client,
            "/json/front-page",
            &[],
            r#"{"kind":"Entry","title":"Two"}"#
        )
        .status,
        204
    );
    let merge = [("content-type", "application/merge-patch+json")];
    let patched = ask(
        &mut client,
        "PATCH",
        "/json/front-page",
        &merge,
        br#"{"text":"New"}"#,
    );
    assert_eq!(patched.status, 204);
    let two = r#"{"kind":"Entry","text":"New","title":"Two"}"#;
    assert_eq!(client.get("/json/0000000000000001").text(), two);
    let tag = client.get("/json/front-page").header("etag").unwrap().to_owned();
    assert_eq!(
        ask(
            &mut client,
            "DELETE",
            "/json/front-page",
            &[("if-match", "\"x\"")],
            b""
        )
        .status,
        412
    );
    // A record loses its name when it is deleted, however that happens.
    assert_eq!(
        ask(
            &mut client,
            "DELETE",
            "/json/front-page",
            &[("if-match", &tag)],
            b""
        )
        .status,
        204
    );
    for (number, removal) in [
        (2, "by its reference"),
        (3, "by a statement"),
        (4, "by the store"),
    ] {
        for method in ["GET", "DELETE", "PATCH"] {
            let missing = ask(&mut client, method, "/json/front-page", &merge, b"{}");
            assert_eq!(
                (missing.status, missing.detail()),
                (404, "there is no record named `front-page`".to_owned()),
                "{method}"
            );
        }
        let made = put(&mut client, "/json/front-page", &[], r#"{"kind":"Article"}"#);
        assert_eq!(
            made.text(),
            format!(r#"{{"code":0,"ref":{number}}}"#),
            "{removal}"
        );
        let removed = match number {
            2 => ask(&mut client, "DELETE", "/json/0000000000000002", &[], b"").status,
            3 => tql(&mut client, r#"{"where":3,"delete":null}"#).status,
            _ => ask(&mut client, "DELETE", "/store/Article/4", &[], b"").status,
        };
        assert!((200..300).contains(&removed), "{removal}: {removed}");
    }
    assert_eq!(client.get("/json/front-page").status, 404);
    assert_eq!(put(&mut client, "/json/front-page", &[], "[]").status, 422);
    for address in [
        "/json/11",
        "/json/a/b",
        "/json/a%2fb",
        "/json/%0aa",
        "/json/_a",
        &format!("/json/{}", "a".repeat(256)),
    ] {
        let refused = client.get(address);
        assert_eq!(refused.status, 404, "{address}");
        assert!(
            refused
                .detail()
                .contains("16 hexadecimal digits, or with its name"),
            "{refused:?}"
        );
    }
    assert_eq!(
        put(
            &mut client,
            &format!("/json/{}", "é".repeat(127)),
            &[],
            r#"{"kind":"Article"}"#
        )
        .status,
        201
    );
}

#[test]
fn a_name_opens_no_kind_that_is_closed() {
    let server = start();
    let mut client = server.connect();
    let token = [("authorization", "Bearer secret")];
    let made = ask(&mut client, "PUT", "/json/mine", &token, br#"{"kind":"Secret"}"#);
    assert_eq!(made.status, 201, "{made:?}");
    for (method, target, body, status) in [
        ("GET", "/json/mine", "", 401),
        ("PUT", "/json/mine", r#"{"kind":"Article"}"#, 401),
        ("DELETE", "/json/mine", "", 401),
        ("PUT", "/json/new", r#"{"kind":"Secret"}"#, 401),
        ("PUT", "/json/new", r#"{"kind":"Closed"}"#, 403),
        ("PUT", "/json/new", r#"{"kind":"Shown"}"#, 403),
        ("GET", "/json/new", "", 404),
    ] {
        let answer = ask(&mut client, method, target, &[], body.as_bytes());
        assert_eq!(answer.status, status, "{method} {target} {body}: {answer:?}");
    }
    assert_eq!(ask(&mut client, "GET", "/json/mine", &token, b"").status, 200);
}
