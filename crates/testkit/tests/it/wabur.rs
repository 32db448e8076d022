//! The requirements of WABuR's acceptance tests on a runner and its controllers, restated: the built server with real children.

use forebay_testkit::{Client, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::store::ask;

/// A controller that leaves everything to `rest()`.
const CONTROLLER: &str = "import { rest } from 'forebay/records';\n\
    export default rest({ kinds: { Article: true }, compat: 'wabur' });\n";
/// Makes a process one that was given no store.
const NO_STORE: &str = "delete process.env.FOREBAY_STORE;\n";
const RACK: &str =
    "export default (request) => request.method === 'POST' ? 'a handler of requests as they are' : null;\n";

/// The places in which the controller runs: a section, its keys, and an addition to the file.
const PLACES: [(&str, &str, &str); 4] = [
    ("script", "allow = { store = [\"*\"] }", ""),
    ("pool", "link = \"stdio\"", ""),
    ("pool", "protocol = \"wabur\"\ncompat = \"wabur\"", ""),
    ("pool", "protocol = \"wabur\"\ncompat = \"wabur\"", NO_STORE),
];

/// A runner: controllers at `/v1`, records and TQL beside them, a handler at `/rack`, and a site for everything else.
fn runner((section, keys, more): (&str, &str, &str)) -> Server {
    let server = Setup::new(&format!(
        "[store]\n[store.access]\nArticle = {{ read = \"public\", write = \"public\" }}\n\
         [{section}.c]\nhandler = \"c.mjs\"\n{keys}\n[script.rack]\nhandler = \"rack.mjs\"\n\
         [[route]]\npath = \"/v1/*\"\n{section} = \"c\"\n[[route]]\npath = \"/json/*\"\nrecords = {{}}\n\
         [[route]]\npath = \"/tql\"\ntql = {{}}\n[[route]]\npath = \"/rack/*\"\nscript = \"rack\"\n\
         [[route]]\npath = \"/*\"\nfiles = \"site\"\n"
    ))
    .file("c.mjs", format!("{CONTROLLER}{more}"))
    .file("rack.mjs", RACK)
    .file("site/hello.txt", "Hello\n")
    .file("site/index.html", "<!doctype html>\n")
    .start();
    wait_until("the controller to answer", || {
        server.get("/v1/Article").status == 200
    });
    server
}

fn asked(client: &mut Client, method: &str, target: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = ask(client, method, target, &[], body.as_bytes());
    (answer.status, answer.json())
}

fn create(client: &mut Client, record: &Value) -> u64 {
    let (status, made) = asked(client, "PUT", "/v1/Article", record);
    assert_eq!((status, &made["code"]), (200, &json!(0)), "{made}");
    made["ref"].as_u64().expect("a reference")
}

/// Creates three articles; returns the reference of the first.
fn create_three(client: &mut Client) -> u64 {
    let first = create(
        client,
        &json!({"kind": "Article", "title": "Sample", "text": "Some text."}),
    );
    create(
        client,
        &json!({"kind": "Article", "title": "Second", "text": "More text."}),
    );
    create(
        client,
        &json!({"kind": "Article", "title": "Third", "text": "Even more text."}),
    );
    first
}

fn clear(client: &mut Client) {
    let (status, cleared) = asked(client, "DELETE", "/v1/Article", &Value::Null);
    assert_eq!((status, &cleared["code"]), (200, &json!(0)), "{cleared}");
}

#[test]
fn a_runner_does_what_its_acceptance_test_asks() {
    for place in PLACES {
        let server = runner(place);
        let mut client = server.connect();
        by_references(&mut client);
        clear(&mut client);
        by_queries(&mut client);
        clear(&mut client);
        what_is_missing_and_what_is_there_twice(&mut client);
        clear(&mut client);
        statements_find_what_controllers_have_made(&mut client);
        let rack = ask(&mut client, "POST", "/rack/hello", &[], b"hello");
        assert_eq!(
            (rack.status, rack.text()),
            (200, "a handler of requests as they are")
        );
        let hello = client.get("/hello.txt");
        assert_eq!((hello.status, hello.text()), (200, "Hello\n"));
        assert_eq!(client.get("/index.html").status, 200);
    }
}

fn by_references(client: &mut Client) {
    let reference = create_three(client);
    assert_ne!(reference, 0);
    let path = format!("/v1/Article/{reference}");
    let (_, found) = asked(client, "GET", &path, &Value::Null);
    let sample = json!({"kind": "Article", "title": "Sample", "text": "Some text."});
    assert_eq!(
        found,
        json!({"code": 0, "results": [{"id": reference, "data": sample}]})
    );
    // The same record without its controller.
    let direct = client.get(&format!("/json/{reference:016x}"));
    assert_eq!((direct.status, direct.json()), (200, sample));
    let updated = json!({"kind": "Article", "title": "Sample", "text": "Updated text."});
    let (_, answer) = asked(client, "POST", &path, &updated);
    assert_eq!(answer, json!({"code": 0, "updated": [reference]}));
    let (_, found) = asked(client, "GET", &path, &Value::Null);
    assert_eq!(found["results"], json!([{"id": reference, "data": updated}]));
    let (_, answer) = asked(client, "DELETE", &path, &Value::Null);
    assert_eq!(answer, json!({"code": 0, "deleted": [reference]}));
    let (status, found) = asked(client, "GET", &path, &Value::Null);
    assert_eq!((status, found), (200, json!({"code": 0, "results": []})));
}

fn by_queries(client: &mut Client) {
    let reference = create_three(client);
    let count = |answer: &(u16, Value), member: &str| answer.1[member].as_array().map(Vec::len);
    let found = asked(client, "GET", "/v1/Article?title=Sample", &Value::Null);
    assert_eq!(found.1["results"][0]["id"], json!(reference));
    assert_eq!(count(&found, "results"), Some(1));
    let all = asked(client, "GET", "/v1/Article", &Value::Null);
    assert_eq!(count(&all, "results"), Some(3));
    let (_, second) = asked(client, "GET", "/v1/Article?title=Second", &Value::Null);
    assert_eq!(
        second["results"][0]["data"],
        json!({"kind": "Article", "title": "Second", "text": "More text."})
    );
    let (_, titles) = asked(client, "GET", "/v1/Article/list?Title=title", &Value::Null);
    assert_eq!(titles["results"][0], json!({"ref": reference, "Title": "Sample"}));
    let updated = json!({"kind": "Article", "title": "Sample", "text": "Updated text."});
    let (_, answer) = asked(client, "POST", "/v1/Article?title=Sample", &updated);
    assert_eq!(answer, json!({"code": 0, "updated": [reference]}));
    let (_, found) = asked(client, "GET", "/v1/Article?title=Sample", &Value::Null);
    assert_eq!(found["results"][0]["data"], updated);
    let deleted = asked(client, "DELETE", "/v1/Article?title=Second", &Value::Null);
    assert_eq!(count(&deleted, "deleted"), Some(1));
    let (_, found) = asked(client, "GET", "/v1/Article?title=Second", &Value::Null);
    assert_eq!(found, json!({"code": 0, "results": []}));
    // Several match.
    create_three(client);
    create_three(client);
    let deleted = asked(client, "DELETE", "/v1/Article?title=Second", &Value::Null);
    assert_eq!(count(&deleted, "deleted"), Some(2));
    let all = asked(client, "GET", "/v1/Article", &Value::Null);
    assert_eq!(count(&all, "results"), Some(6));
}

fn what_is_missing_and_what_is_there_twice(client: &mut Client) {
    create_three(client);
    let record = json!({"kind": "Article"});
    for (method, body, answer) in [
        ("GET", &Value::Null, json!({"code": 0, "results": []})),
        ("POST", &record, json!({"code": 0, "updated": []})),
        ("DELETE", &Value::Null, json!({"code": 0, "deleted": []})),
    ] {
        assert_eq!(
            asked(client, method, "/v1/Article?title=Missing", body),
            (200, answer)
        );
    }
    let twice = json!({"kind": "Article", "title": "Sample", "text": "Different."});
    let error = json!({"code": -1, "error": "WAB::Error: error on Article create. Already exists."});
    assert_eq!(
        asked(client, "PUT", "/v1/Article?title=Sample", &twice),
        (500, error)
    );
    let error = json!({"code": -1, "error": "WAB::Error: update on all Article not allowed."});
    assert_eq!(asked(client, "POST", "/v1/Article", &twice), (500, error));
}

fn statements_find_what_controllers_have_made(client: &mut Client) {
    for number in 0..10 {
        create(
            client,
            &json!({"kind": "Article", "title": format!("Article-{number}"), "num": number}),
        );
    }
    for (statement, found) in [
        (
            json!({"where": ["BETWEEN", "num", 5, 7, false, true], "select": "title"}),
            json!(["Article-6", "Article-7"]),
        ),
        (
            json!({"where": ["IN", "num", 1, 3], "select": "num"}),
            json!([1, 3]),
        ),
        (
            json!({"where": ["eq", "kind", "Article"], "filter": ["regex", "title", "A.*-[3,4,5]"], "select": "num"}),
            json!([3, 4, 5]),
        ),
    ] {
        let (status, answer) = asked(client, "POST", "/tql", &statement);
        assert_eq!(
            (status, answer),
            (200, json!({"code": 0, "results": found})),
            "{statement}"
        );
    }
}

/// The scripts of the default controller over standard input and output, each from a client's request to the response: the child calls the
/// server in the middle of it, by messages as the reference defines them. A call that is not answered in time is covered by the vectors of
/// the SDK.
#[test]
fn the_scripts_of_a_default_controller_go_as_the_reference_says() {
    let child = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../sdk/node/test/handlers/default-controller.mjs"
    );
    let server = Setup::new(&format!(
        "[store]\n[pool.c]\ncommand = [\"node\", \"{child}\"]\nprotocol = \"wabur\"\ncompat = \"wabur\"\nconcurrency = 10\n\
         [[route]]\npath = \"/*\"\npool = \"c\"\n"
    ))
    .start();
    wait_until("the child to answer", || server.get("/sample").status == 200);
    let mut client = server.connect();
    let sample = json!({"kind": "sample", "num": 7});
    let other = json!({"kind": "sample", "num": 8, "id": 12345});
    let row = |id: u64, data: &Value| json!({"id": id, "data": data});
    for (name, method, target, body, status, answer) in [
        ("mirror", "REPORT", "/sample", &sample, 200, Value::Null),
        (
            "create",
            "PUT",
            "/sample",
            &sample,
            200,
            json!({"code": 0, "ref": 1}),
        ),
        (
            "create with where",
            "PUT",
            "/sample?id=12345",
            &other,
            200,
            json!({"code": 0, "ref": 2}),
        ),
        (
            "create error",
            "PUT",
            "/sample?id=12345",
            &other,
            500,
            json!({"code": -1, "error": "WAB::Error: error on sample create. already exists: record 2 matches"}),
        ),
        (
            "read by id",
            "GET",
            "/sample/1",
            &Value::Null,
            200,
            json!({"code": 0, "results": [row(1, &sample)]}),
        ),
        (
            "read by attributes",
            "GET",
            "/sample?id=12345",
            &Value::Null,
            200,
            json!({"code": 0, "results": [row(2, &other)]}),
        ),
        (
            "read list",
            "GET",
            "/sample",
            &Value::Null,
            200,
            json!({"code": 0, "results": [row(1, &sample), row(2, &other)]}),
        ),
        (
            "read select",
            "GET",
            "/sample/list?Age=num",
            &Value::Null,
            200,
            json!({"code": 0, "results": [{"ref": 1, "Age": 7}, {"ref": 2, "Age": 8}]}),
        ),
        (
            "update by id",
            "POST",
            "/sample/1",
            &other,
            200,
            json!({"code": 0, "updated": [1]}),
        ),
        (
            "update by attributes",
            "POST",
            "/sample?id=12345",
            &sample,
            200,
            json!({"code": 0, "updated": [1, 2]}),
        ),
        (
            "delete by id",
            "DELETE",
            "/sample/1",
            &Value::Null,
            200,
            json!({"code": 0, "deleted": [1]}),
        ),
        (
            "delete by attributes",
            "DELETE",
            "/sample?num=7",
            &Value::Null,
            200,
            json!({"code": 0, "deleted": [2]}),
        ),
        (
            "read what is gone",
            "GET",
            "/sample/1",
            &Value::Null,
            200,
            json!({"code": 0, "results": []}),
        ),
    ] {
        let (found_status, found) = asked(&mut client, method, target, body);
        if name == "mirror" {
            // A message whose operation belongs to no controller goes to the fallback, which returns its content.
            assert_eq!((found_status, found), (200, sample.clone()), "{name}");
        } else {
            assert_eq!((found_status, found), (status, answer), "{name}");
        }
    }
}
