//! The web console of the admin listener: who gets it, and what it reads and changes. Its page has tests of its own, in a browser.

use std::net::TcpListener;

use forebay_testkit::{Client, Response, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::support::{ONE_WORKER, TOOLBOX, node};

const STORE: &str = "[store]\npath = \"data\"\n[[route]]\npath = \"/\"\nrespond = { text = \"here\" }\n";

const HERE: &str = "listen = \"unix:admin.sock\"";

fn with_store(keys: &str) -> Server {
    Setup::new(STORE)
        .admin_keys(&format!("{HERE}\n{keys}"))
        .env("READ", "r-secret")
        .env("EDIT", "e-secret")
        .start()
}

/// Sends a request as a browser on this machine does, with more header fields.
fn send(client: &mut Client, method: &str, path: &str, fields: &str, body: &str) -> Response {
    let length = body.len();
    let host = if fields.contains("host: ") {
        ""
    } else {
        "host: localhost:8081\r\n"
    };
    client.send(format!(
        "{method} {path} HTTP/1.1\r\n{host}{fields}content-length: {length}\r\n\r\n{body}"
    ));
    client.response_to(method)
}

/// Sends a request to the console's API. `token`: a token, or nothing for none.
fn ask(client: &mut Client, method: &str, path: &str, token: &str, body: &str) -> Response {
    let token = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    let fields = format!("forebay-console: 1\r\n{token}");
    send(client, method, &format!("/console/api/{path}"), &fields, body)
}

fn detail(answer: &Response) -> String {
    answer.json()["detail"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_is_not_sent_twice() {
    let server = with_store("");
    let mut client = server.admin();
    for path in ["/", "/console"] {
        let moved = send(&mut client, "GET", path, "", "");
        assert_eq!(
            (moved.status, moved.header("location")),
            (302, Some("/console/")),
            "{path}"
        );
    }
    let page = send(&mut client, "GET", "/console/", "", "");
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"),
        "{policy}"
    );
    for (file, kind) in [
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.css", "text/css; charset=utf-8"),
    ] {
        let file = format!("/console/{file}");
        let loaded = send(&mut client, "GET", &file, "", "");
        assert_eq!((loaded.status, loaded.header("content-type")), (200, Some(kind)));
        let tag = loaded.header("etag").expect("a tag").to_owned();
        let again = send(
            &mut client,
            "GET",
            &file,
            &format!("if-none-match: {tag}\r\n"),
            "",
        );
        assert_eq!((again.status, again.text()), (304, ""));
    }
    assert_eq!(send(&mut client, "POST", "/console/", "", "").status, 405);
    assert_eq!(send(&mut client, "GET", "/console/other", "", "").status, 404);
}

#[test]
fn without_tokens_this_machine_reads_and_nobody_changes_anything() {
    let server = with_store("");
    let mut client = server.admin();
    let session = ask(&mut client, "GET", "session", "", "").json();
    assert_eq!(
        (&session["edit"], &session["tokens"], &session["store"]),
        (&json!(false), &json!(false), &json!(true))
    );
    for (method, path) in [
        ("PUT", "store/Person/data/1"),
        ("DELETE", "store/Person"),
        ("POST", "reload"),
        ("POST", "pools/api/resize"),
        ("PUT", "log/level"),
        ("POST", "releases"),
    ] {
        let refused = ask(&mut client, method, path, "", "{}");
        assert_eq!(refused.status, 403, "{method} {path}");
        assert!(
            detail(&refused).contains("admin.edit_token"),
            "{}",
            detail(&refused)
        );
    }
    // A proxy on this machine brings clients from elsewhere.
    let elsewhere = send(
        &mut client,
        "GET",
        "/console/api/session",
        "host: ops.example\r\n",
        "",
    );
    assert_eq!(elsewhere.status, 403);
    assert!(detail(&elsewhere).contains("set admin.read_token, admin.edit_token"));
    assert_eq!(
        send(&mut client, "GET", "/console/", "host: ops.example\r\n", "").status,
        200
    );
}

#[test]
fn a_listener_for_other_machines_has_a_console_for_tokens_only() {
    let listen = |keys: &str| {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let server = Setup::new(STORE)
            .admin_keys(&format!("listen = \"0.0.0.0:{port}\"\n{keys}"))
            .env("READ", "r-secret")
            .start();
        (server, Client::tcp(([127, 0, 0, 1], port).into()))
    };
    let (_server, mut client) = listen("");
    let refused = ask(&mut client, "GET", "status", "", "");
    assert_eq!(refused.status, 403);
    assert!(detail(&refused).contains("from another machine the console needs a token"));
    let (_server, mut client) = listen("read_token = \"READ\"");
    assert_eq!(ask(&mut client, "GET", "status", "r-secret", "").status, 200);
}

#[test]
fn each_token_allows_what_it_says() {
    let server = with_store("read_token = \"READ\"\nedit_token = \"EDIT\"");
    let mut client = server.admin();
    for token in ["", "other", "r-secret2"] {
        let refused = ask(&mut client, "GET", "session", token, "");
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Bearer")),
            "{token}"
        );
        assert!(detail(&refused).contains("admin.read_token"));
    }
    for (token, may_edit) in [("r-secret", false), ("e-secret", true)] {
        let session = ask(&mut client, "GET", "session", token, "").json();
        assert_eq!(session["edit"], may_edit);
        let put = ask(
            &mut client,
            "PUT",
            "store/Person/data/1",
            token,
            "{\"name\":\"Ada\"}",
        );
        assert_eq!(put.status, if may_edit { 201 } else { 403 });
    }
    // A page of another site can have a browser send a request, but not with this field.
    let forged = send(
        &mut client,
        "DELETE",
        "/console/api/store/Person",
        "authorization: Bearer e-secret\r\n",
        "",
    );
    assert_eq!(forged.status, 403);
    assert!(detail(&forged).contains("forebay-console: 1"));
    assert_eq!(
        ask(&mut client, "GET", "store/Person/data/1", "r-secret", "").text(),
        "{\"name\":\"Ada\"}"
    );
}

#[test]
fn the_store_is_read_and_changed_as_by_a_route_whoever_may_use_it_there() {
    let server = with_store("edit_token = \"EDIT\"");
    let mut client = server.admin();
    let put = ask(
        &mut client,
        "PUT",
        "store/Person/data/1",
        "e-secret",
        "{\"kind\":\"Person\",\"name\":\"Ada\"}",
    );
    let tag = put.header("etag").expect("a tag").to_owned();
    assert_eq!(
        ask(&mut client, "GET", "globals", "", "").json(),
        json!({"globals": ["Person"]})
    );
    assert_eq!(
        ask(&mut client, "GET", "store/Person/data?limit=5&depth=0", "", "").json()[0]["key"],
        "1"
    );
    let stale = send(
        &mut client,
        "PUT",
        "/console/api/store/Person/data/1",
        "forebay-console: 1\r\nauthorization: Bearer e-secret\r\nif-match: \"0\"\r\n",
        "{}",
    );
    assert_eq!(stale.status, 412);
    let fresh = send(
        &mut client,
        "PUT",
        "/console/api/store/Person/data/1",
        &format!("forebay-console: 1\r\nauthorization: Bearer e-secret\r\nif-match: {tag}\r\n"),
        "{\"name\":\"Grace\"}",
    );
    assert_eq!(fresh.status, 204);
    let changes = ask(&mut client, "GET", "changes?since=1", "", "");
    assert!(
        changes.text().contains("id: 2\nevent: change\ndata: {") && changes.text().contains("Grace"),
        "{}",
        changes.text()
    );
    let missing = ask(&mut client, "GET", "store/Nobody", "", "");
    assert_eq!(
        (missing.status, missing.header("content-type")),
        (404, Some("application/problem+json"))
    );
    let wrong = ask(&mut client, "GET", "store/Person?children", "", "");
    assert_eq!(wrong.status, 400);
    assert_eq!(
        ask(&mut client, "PUT", "store/Person/data/2", "e-secret", "{").status,
        400
    );
    client
        .send("PUT /console/api/store/Person HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000000\r\n\r\n");
    assert_eq!(client.response().status, 413);
}

#[test]
fn statements_that_change_something_need_the_token_and_others_do_not() {
    let server = with_store("edit_token = \"EDIT\"");
    let mut client = server.admin();
    let insert = "{\"insert\":{\"kind\":\"Person\",\"name\":\"Ada\"}}";
    let ask = |client: &mut Client, token: &str, body: &str| {
        let fields = format!(
            "forebay-console: 1\r\ncontent-type: application/json\r\nauthorization: Bearer {token}\r\n"
        );
        let fields = if token.is_empty() {
            "forebay-console: 1\r\ncontent-type: application/json\r\n"
        } else {
            &fields
        };
        send(client, "POST", "/console/api/tql", fields, body)
    };
    assert_eq!(ask(&mut client, "", insert).status, 403);
    assert_eq!(ask(&mut client, "e-secret", insert).json()["code"], 0);
    let found = ask(
        &mut client,
        "",
        "{\"where\":[\"EQ\",\"kind\",\"Person\"],\"select\":\"name\"}",
    );
    assert_eq!(found.json()["results"], json!(["Ada"]));
    let wrong = ask(&mut client, "", "{\"were\":1}");
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    let torn = send(
        &mut client,
        "POST",
        "/console/api/tql",
        "forebay-console: 1\r\n",
        "select\n\"",
    );
    assert_eq!(
        (&torn.json()["line"], &torn.json()["title"]),
        (&json!(2), &json!("Bad Request"))
    );
}

#[test]
fn orders_of_the_control_socket_are_there_but_for_the_end_of_the_server() {
    let server = node(TOOLBOX, ONE_WORKER)
        .admin_keys(&format!("{HERE}\nedit_token = \"EDIT\""))
        .env("EDIT", "e-secret")
        .start();
    let mut client = server.admin();
    assert_eq!(
        ask(&mut client, "GET", "status", "", "").json()["pools"][0]["name"],
        "api"
    );
    wait_until("the log of a worker", || {
        ask(&mut client, "GET", "logs?level=info", "", "")
            .text()
            .contains("worker ready")
    });
    let run = ask(&mut client, "POST", "samples", "", "{\"for_ms\":1}").json()["run"].clone();
    assert_eq!(
        ask(&mut client, "GET", &format!("samples/{run}"), "", "").status,
        200
    );
    let resize = ask(
        &mut client,
        "POST",
        "pools/api/resize",
        "e-secret",
        "{\"workers\":2}",
    );
    assert_eq!(resize.json()["workers_max"], 2);
    for order in ["stop", "upgrade"] {
        assert_eq!(
            ask(&mut client, "POST", order, "e-secret", "").status,
            404,
            "{order}"
        );
    }
    assert_eq!(ask(&mut client, "GET", "store/Person", "", "").status, 404);
    assert!(detail(&ask(&mut client, "GET", "workflows", "", "")).contains("[workflow]"));
}

#[test]
fn the_history_has_a_point_at_once_and_names_what_there_is() {
    let server = node(TOOLBOX, ONE_WORKER).admin_keys(HERE).start();
    let mut client = server.admin();
    let mut history = Value::Null;
    wait_until("a point", || {
        history = ask(&mut client, "GET", "history", "", "").json();
        history["at_ms"].as_array().is_some_and(|at| !at.is_empty())
    });
    assert_eq!(history["every_ms"], 10_000);
    assert_eq!(history["pools"][0]["name"], "api");
    assert_eq!(
        history["pools"][0]["queued"].as_array().map(Vec::len),
        history["at_ms"].as_array().map(Vec::len)
    );
    assert!(history["server"]["rss_bytes"][0].as_f64() > Some(1e6));
}

#[test]
fn graphs_of_a_folder_are_there_to_be_drawn_and_run_by_who_may_edit() {
    let graph = include_str!("../../../../examples/workflows/workflows/shipping.json");
    let server = Setup::new("[workflow]\npath = \"workflows\"\n[[route]]\npath = \"/w/*\"\nworkflow = {}\n")
        .file("workflows/shipping.json", graph)
        .admin_keys(&format!("{HERE}\nedit_token = \"EDIT\""))
        .env("EDIT", "e-secret")
        .start();
    let mut client = server.admin();
    let listed = ask(&mut client, "GET", "workflows", "", "").json();
    assert_eq!(listed["workflows"][0]["name"], "shipping");
    assert!(listed["workflows"][0]["source"]["nodes"].is_array());
    let args = "{\"country\":\"CH\",\"weight\":5}";
    assert_eq!(
        ask(&mut client, "POST", "workflows/shipping?trace", "", args).status,
        403
    );
    let run = ask(&mut client, "POST", "workflows/shipping?trace", "e-secret", args);
    assert_eq!(run.status, 200, "{}", run.text());
    assert!(!run.json()["trace"].is_null(), "{}", run.text());
}
