//! Releases over HTTP: for clients with a token, and on the control socket.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    time::Duration,
};

use forebay_testkit::{Client, PATIENCE, Response, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::{
    control::order,
    workflow_releases::{chain, rule, workflow},
};

const CONFIG: &str = r#"
[store]
path = "data"
[workflow]
store = "Workflow"
[workflow.clients.ci]
token = "CI_TOKEN"
releases = true
workflows = ["version"]
[workflow.clients.shop]
token = "SHOP_TOKEN"
[[route]]
path = "/releases/*"
workflow = { api = "releases" }
[[route]]
path = "/workflow/*"
workflow = {}
"#;
const CI: &str = "authorization: Bearer c1\r\n";

fn start() -> Server {
    Setup::new(CONFIG)
        .server("body_bytes_max = \"4MiB\"")
        .env("CI_TOKEN", "c1")
        .env("SHOP_TOKEN", "s1")
        .threads(1)
        .admin()
        .start()
}

fn send(server: &Server, authorization: &str, method: &str, target: &str, body: &str) -> Response {
    server.connect().ask(method, target, authorization, body)
}

fn ci(server: &Server, method: &str, target: &str, body: &Value) -> Response {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    send(server, CI, method, target, &body)
}

/// A draft whose one rule says which version it is, with a test that expects `expected`.
fn draft(version: u32, expected: u32) -> Value {
    let says = format!("return new ScriptResult(true, {{ version: {version} }});");
    let test = json!([{"name": "it says so", "workflow": "version", "expect": {"state": true, "valueMap": {"version": expected}}}]);
    json!({"note": format!("version {version}"), "files": {
        "version.json": chain(&["version"]), "rules/version.js": rule(&says), "tests/version.json": test.to_string(),
    }})
}

/// The version that answers runs of the client `ci`.
fn answered(server: &Server) -> Value {
    send(server, CI, "POST", "/workflow/version", "{}").json()["valueMap"]["version"].clone()
}

#[test]
fn a_draft_is_answered_with_the_calls_that_its_rules_do_not_await() {
    let server = start();
    let mut draft = draft(1, 1);
    draft["files"]["rules/version.js"] = rule("fetch('http://127.0.0.1:1/');").into();
    let made = ci(&server, "POST", "/releases", &draft);
    let made = (made.status, made.json()["warnings"].to_string());
    let expected = "rules/version.js:2:1: `fetch` returns a promise that nothing awaits";
    assert!(made.0 == 201 && made.1.contains(expected), "{made:?}");
}

#[test]
fn the_document_of_the_server_has_the_operations_on_releases() {
    let server = start();
    let document = server.admin().get("/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths");
    let mut operations = Vec::new();
    for (path, methods) in paths.iter().filter(|(path, _)| path.starts_with("/releases")) {
        let methods = methods.as_object().expect("methods").keys();
        for method in methods.filter(|name| *name != "parameters") {
            operations.push(format!("{method} {path}"));
            let made = ci(&server, "POST", "/releases", &draft(1, 1)).json();
            let path = path.replace("{release}", &made["release"].to_string());
            let answer = ci(&server, &method.to_uppercase(), &path, &Value::Null);
            assert!(
                answer.status != 404 && answer.status != 405,
                "{method} {path}: {}",
                answer.text()
            );
        }
    }
    operations.sort();
    let expected = [
        "delete /releases/{release}",
        "get /releases",
        "get /releases/log",
        "get /releases/{release}",
        "get /releases/{release}/check",
        "get /releases/{release}/files",
        "post /releases",
        "post /releases/rollback",
        "post /releases/{release}/publish",
        "post /releases/{release}/test",
        "put /releases/{release}/state",
    ];
    assert_eq!(operations, expected);
}

#[test]
fn a_client_with_the_right_takes_a_draft_to_all_runs_and_back() {
    let server = start();
    for number in [1, 2] {
        let made = ci(&server, "POST", "/releases", &draft(number, number));
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(made.header("location"), Some(&*format!("/releases/{number}")));
        assert_eq!(
            made.json(),
            json!({"release": number, "workflows": ["version"], "files": 3, "faults": null, "warnings": []})
        );
    }
    let one = ci(&server, "GET", "/releases/1", &Value::Null).json();
    assert_eq!(
        (&one["state"], &one["about"]["by"]),
        (&json!("draft"), &json!("ci"))
    );
    let files = ci(&server, "GET", "/releases/1/files", &Value::Null).json();
    assert_eq!(files, draft(1, 1)["files"]);
    assert_eq!(
        ci(&server, "GET", "/releases/1/check", &Value::Null).json()["faults"],
        Value::Null
    );
    let tested = ci(&server, "POST", "/releases/1/test", &Value::Null).json();
    assert_eq!(
        tested,
        json!({"release": 1, "failed": 0, "tests": [{"file": "tests/version.json", "name": "it says so", "workflow": "version", "differences": []}]})
    );
    let published = ci(&server, "POST", "/releases/1/publish", &Value::Null);
    assert_eq!(
        published.json(),
        json!({"release": 1, "percent": null, "before": null, "tests": 1})
    );
    wait_until("release 1 to answer", || answered(&server) == 1);
    let state = ci(&server, "PUT", "/releases/2/state", &json!({"state": "test"}));
    assert_eq!(state.json()["state"], "test", "{}", state.text());
    let canary = ci(&server, "POST", "/releases/2/publish", &json!({"percent": 12.5}));
    assert_eq!(
        canary.json(),
        json!({"release": 2, "percent": 12.5, "before": 1, "tests": 1})
    );
    let list = ci(&server, "GET", "/releases/", &Value::Null).json();
    assert_eq!(
        (&list["global"], &list["published"], &list["canary"]),
        (
            &json!("Workflow"),
            &json!(1),
            &json!({"release": 2, "perTenThousand": 1250})
        )
    );
    assert_eq!(
        ci(&server, "POST", "/releases/rollback", &Value::Null).json(),
        json!({"canary": 2})
    );
    ci(&server, "POST", "/releases/2/publish", &json!({}));
    wait_until("release 2 to answer", || answered(&server) == 2);
    let back = ci(&server, "POST", "/releases/rollback", &Value::Null).json();
    assert_eq!(back, json!({"from": 2, "to": 1}));
    wait_until("release 1 to answer again", || answered(&server) == 1);
    let kept = ci(&server, "DELETE", "/releases/2", &Value::Null);
    assert_eq!(
        (kept.status, &kept.json()["code"]),
        (409, &json!("was_published"))
    );
    assert_eq!(
        ci(&server, "DELETE", "/releases/2?former", &Value::Null).status,
        204
    );
    let gone = ci(&server, "GET", "/releases/2", &Value::Null);
    assert_eq!((gone.status, &gone.json()["code"]), (404, &json!("no_release")));
    let log = ci(&server, "GET", "/releases/log?count=4", &Value::Null).json();
    let entries: Vec<(&str, &str)> = log["entries"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| (entry["what"].as_str().unwrap(), entry["by"].as_str().unwrap()))
        .collect();
    assert_eq!(
        entries,
        [
            ("discard", "ci"),
            ("rollback", "ci"),
            ("publish", "ci"),
            ("rollback", "ci")
        ]
    );
}

#[test]
fn nobody_else_may_read_or_change_releases() {
    let server = start();
    let basic = "authorization: Basic Y2k6YzE=\r\n";
    for (authorization, status, challenge) in [
        ("", 401, Some("Bearer")),
        (basic, 401, Some("Bearer")),
        (
            "authorization: Bearer c2\r\n",
            401,
            Some("Bearer, Basic realm=\"workflows\", charset=\"UTF-8\""),
        ),
        ("authorization: Bearer s1\r\n", 403, None),
    ] {
        for (method, target) in [
            ("GET", "/releases"),
            ("POST", "/releases/"),
            ("POST", "/releases/rollback"),
            ("OPTIONS", "/releases/1"),
        ] {
            let refused = send(&server, authorization, method, target, "");
            assert_eq!(
                refused.status,
                status,
                "{authorization}{method} {target}: {}",
                refused.text()
            );
            assert_eq!(refused.header("www-authenticate"), challenge);
        }
    }
    let refused = send(&server, "authorization: Bearer s1\r\n", "GET", "/releases", "");
    assert_eq!(
        refused.detail(),
        "this client may not read or change releases (workflow.clients: releases)"
    );
    let log = ci(&server, "GET", "/releases/log", &Value::Null);
    assert_eq!(log.json(), json!({"entries": []}));
}

#[test]
fn what_is_no_request_about_releases_is_told_and_changes_nothing() {
    let server = start();
    let file = |path: &str| json!({"files": {path: "{}"}});
    let graph = chain(&["version"]);
    for (method, target, body, status, part) in [
        (
            "POST",
            "/releases",
            file("../order.json"),
            400,
            "file \"../order.json\": it is no file of workflows",
        ),
        (
            "POST",
            "/releases",
            file("rules/../../x.js"),
            400,
            "it is no file of workflows",
        ),
        (
            "POST",
            "/releases",
            file("/etc/order.json"),
            400,
            "it is no file of workflows",
        ),
        (
            "POST",
            "/releases",
            json!({"files": {"order.json": 1}}),
            400,
            "body: invalid type",
        ),
        (
            "POST",
            "/releases",
            json!({"files": {"order.json": graph}, "notes": ""}),
            400,
            "unknown field `notes`",
        ),
        (
            "POST",
            "/releases",
            json!({"files": {"order.json": graph}, "note": "x".repeat(1001)}),
            400,
            "the note has 1001 bytes",
        ),
        ("POST", "/releases", json!({}), 400, "missing field `files`"),
        (
            "POST",
            "/releases",
            file("rules/a.js"),
            422,
            "there is no workflow among these files",
        ),
        (
            "POST",
            "/releases?by=ada",
            json!({"files": {"order.json": graph}}),
            400,
            "the author is the client",
        ),
        ("GET", "/releases?by=ada", Value::Null, 400, "no such parameter"),
        (
            "GET",
            "/releases/log?count=many",
            Value::Null,
            400,
            "it is a number of entries",
        ),
        (
            "POST",
            "/releases/1/publish",
            json!({"percent": 100}),
            400,
            "expected 0.01 to 99.99",
        ),
        (
            "POST",
            "/releases/1/publish",
            json!({"percent": 1}),
            404,
            "there is no release 1",
        ),
        (
            "PUT",
            "/releases/1/state",
            json!({"state": "published"}),
            400,
            "unknown variant `published`",
        ),
        ("GET", "/releases/one", Value::Null, 404, "`/N/publish`"),
        (
            "GET",
            "/releases/1/files/order.json",
            Value::Null,
            404,
            "`/N/publish`",
        ),
        (
            "PUT",
            "/releases",
            Value::Null,
            405,
            "allowed: GET, HEAD, OPTIONS, POST",
        ),
    ] {
        let refused = ci(&server, method, target, &body);
        assert_eq!(
            refused.status,
            status,
            "{method} {target} {body}: {}",
            refused.text()
        );
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert!(
            refused.detail().contains(part),
            "{method} {target} {body}: {}",
            refused.text()
        );
    }
    let long = format!("{{\"files\":{{\"order.json\":\"{}\"}}}}", "x".repeat(5 << 20));
    let mut client = server.connect();
    client.send(format!(
        "POST /releases HTTP/1.1\r\nhost: test\r\n{CI}content-length: {}\r\n\r\n",
        long.len()
    ));
    assert_eq!(client.response().status, 413);
    let allow = ci(&server, "OPTIONS", "/releases/1", &Value::Null);
    assert_eq!(
        (allow.status, allow.header("allow")),
        (204, Some("DELETE, GET, HEAD, OPTIONS"))
    );
    assert_eq!(
        ci(&server, "GET", "/releases", &Value::Null).json()["releases"],
        json!([])
    );
}

#[test]
fn a_draft_with_faults_or_failing_tests_is_kept_and_not_published() {
    let server = start();
    let mut broken = draft(1, 1);
    broken["files"]["rules/version.js"] = "function process() {\n  return 1 +;\n}\n".into();
    let made = ci(&server, "POST", "/releases", &broken).json();
    assert!(
        made["faults"]
            .as_str()
            .is_some_and(|faults| faults.contains("version.js:2:")),
        "{made}"
    );
    let refused = ci(&server, "POST", "/releases/1/publish", &Value::Null);
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("faults")));
    assert_eq!(
        ci(&server, "PUT", "/releases/1/state", &json!({"state": "test"})).status,
        422
    );
    ci(&server, "POST", "/releases", &draft(2, 3));
    let refused = ci(&server, "POST", "/releases/2/publish", &Value::Null).json();
    assert_eq!(refused["code"], "tests");
    assert_eq!(
        refused["detail"],
        "1 of 1 stored tests do not hold, and release 2 is not published"
    );
    assert_eq!(
        refused["tests"][0]["differences"],
        json!(["valueMap.version: expected 3, found 2"])
    );
    let list = ci(&server, "GET", "/releases", &Value::Null).json();
    assert_eq!(
        (&list["published"], list["releases"].as_array().map(Vec::len)),
        (&Value::Null, Some(2))
    );
}

#[test]
fn a_client_that_leaves_during_the_tests_publishes_nothing() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    // Nothing but the client's end stops the test.
    let times = "timeout = \"10m\"\nfetch_time_max = \"10m\"";
    let allow = format!("store = \"Workflow\"\n{times}\nallow = {{ fetch = [\"{address}\"] }}");
    let server = Setup::new(&CONFIG.replace("store = \"Workflow\"", &allow))
        .env("CI_TOKEN", "c1")
        .env("SHOP_TOKEN", "s1")
        .threads(1)
        .admin()
        .start();
    let mut waits = draft(1, 1);
    waits["files"]["rules/version.js"] = format!(
        "async function process() {{\n  await fetch('http://{address}/');\n  return new ScriptResult(true, {{ version: 1 }});\n}}\n"
    )
    .into();
    ci(&server, "POST", "/releases", &waits);
    let publish = |client: &mut Client, authorization: &str| {
        client.send(format!(
            "POST /releases/1/publish HTTP/1.1\r\nhost: test\r\n{authorization}content-length: 0\r\n\r\n"
        ));
        let fetched = other.accept().unwrap().0;
        fetched.set_read_timeout(Some(PATIENCE)).unwrap();
        fetched
    };
    for (mut client, authorization) in [(server.connect(), CI), (server.control(), "")] {
        let mut fetched = publish(&mut client, authorization);
        let mut head = [0; 1024];
        assert!(fetched.read(&mut head).unwrap() > 0);
        drop(client);
        // The run has been stopped when its connection is closed.
        assert_eq!(fetched.read(&mut head).unwrap(), 0);
    }
    assert_eq!(
        ci(&server, "GET", "/releases/1", &Value::Null).json()["state"],
        "draft"
    );
    // As many as are served at a time, and one more.
    let list = || ci(&server, "GET", "/releases", &Value::Null);
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let fetched: Vec<_> = clients.iter_mut().map(|client| publish(client, CI)).collect();
    let refused = list();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    drop((clients, fetched));
    wait_until("releases to be served again", || list().status == 200);
    // With a client that stays, the same release is published.
    let mut client = server.connect();
    let mut fetched = publish(&mut client, CI);
    assert!(fetched.read(&mut [0; 1024]).unwrap() > 0);
    fetched
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let published = client.response();
    assert_eq!(published.status, 200, "{}", published.text());
}

#[test]
fn an_upload_that_a_crash_ends_leaves_all_of_a_draft_or_nothing() {
    let setup = Setup::new("[store]\npath = \"data\"\n[workflow]\nstore = \"Workflow\"\n");
    let mut server = setup.threads(1).admin().start();
    let mut big = draft(1, 1);
    for number in 0..30 {
        big["files"][format!("rules/r{number}.js")] = format!("// {}\n", "x".repeat(1 << 20)).into();
    }
    let text = big.to_string();
    let made = order(&mut server.control(), "POST", "/releases?by=ada", &text);
    assert_eq!(made.status, 201, "{}", made.text());
    // A client that leaves in the middle of its draft.
    let mut client = server.control();
    client.send(format!(
        "POST /releases HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n",
        text.len()
    ));
    client.send(&text[..text.len() / 2]);
    drop(client);
    let file = server.folder().path().join("data/store.mdbx");
    let size = || std::fs::metadata(&file).map_or(0, |file| file.len());
    let before = size();
    let mut client = server.control();
    client.send(format!(
        "POST /releases HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    ));
    wait_until("it to write, or to answer", || {
        size() != before || client.is_readable_within(Duration::ZERO)
    });
    server.kill();
    let list: Value = serde_json::from_str(&workflow(&server, &["list", "--json"])).unwrap();
    let releases = list["releases"].as_array().expect("a list");
    assert!((1..=2).contains(&releases.len()), "{list}");
    for release in releases {
        let number = release["release"].to_string();
        let folder = server.folder().path().join(format!("out-{number}"));
        let out = workflow(&server, &["export", &number, folder.to_str().unwrap()]);
        assert!(out.contains(": 33 files in "), "{out}");
    }
    assert_eq!(
        workflow(&server, &["log", "--json"]).lines().count(),
        releases.len()
    );
}

#[test]
fn the_control_socket_takes_the_same_requests() {
    let server = start();
    let mut control = server.control();
    let mut ask = |method: &str, target: &str, body: &str| order(&mut control, method, target, body);
    let long = draft(1, 1).to_string().replace("version 1", &"x".repeat(900)) + &" ".repeat(100 << 10);
    let made = ask("POST", "/releases?by=ada%20b", &long);
    assert_eq!(
        (made.status, made.header("location")),
        (201, Some("/releases/1")),
        "{}",
        made.text()
    );
    assert_eq!(ask("POST", "/releases/1/publish", "").json()["tests"], 1);
    let log = ask("GET", "/releases/log", "").json();
    assert_eq!(
        (&log["entries"][0]["by"], &log["entries"][1]["by"]),
        (&json!("the control socket"), &json!("ada b"))
    );
    let refused = ask("POST", "/releases/7/publish?by=ada", "");
    assert_eq!(
        (refused.status, refused.header("content-type")),
        (404, Some("application/problem+json"))
    );
    let mut client = server.control();
    client.send("POST /releases/1/publish HTTP/1.1\r\nhost: test\r\ncontent-length: 65537\r\n\r\n");
    assert_eq!(client.response().status, 413);
    let folder = Setup::new("[workflow]\npath = \"flows\"\n").file("flows/version.json", chain(&["version"]));
    let folder = folder
        .file("flows/rules/version.js", rule("return new ScriptResult(true);"))
        .admin()
        .start();
    let none = order(&mut folder.control(), "GET", "/releases", "");
    assert_eq!(
        (none.status, none.detail().contains("`store` under [workflow]")),
        (404, true)
    );
}
