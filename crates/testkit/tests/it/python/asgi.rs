//! ASGI applications.

use forebay_testkit::{Setup, wait_until};

use super::pool;
use crate::support::{ONE_WORKER, noted, open, wait_for_note};

const ASGI: &str = include_str!("../handlers/asgi.py");

fn asgi(keys: &str) -> Setup {
    pool(ASGI, &format!("{ONE_WORKER}\n{keys}"))
}

#[test]
fn an_unmodified_fastapi_application_answers() {
    let server = asgi("").start();
    let answer = server.get("/hello/a%20b?times=3");
    assert_eq!(
        (answer.status, answer.text()),
        (200, "{\"hello\":\"a b\",\"times\":3}")
    );
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(server.get("/hello/x?times=many").status, 422);
    assert_eq!(server.get("/sync").text(), "{\"in\":\"a thread\"}");
    assert_eq!(server.get("/error").status, 418);
    assert_eq!(server.get("/none").status, 404);
    let thrown = server.get("/throw");
    assert_eq!((thrown.status, thrown.text()), (500, "Internal Server Error"));
    server.wait_for_log(&["ValueError: a secret about the inside"]);
    assert!(server.get("/openapi.json").text().contains("/hello/{name}"));
}

#[test]
fn a_lifespan_begins_and_ends_with_the_worker() {
    let mut server = asgi("").start();
    assert_eq!(server.get("/state").text(), "\"from the lifespan\"");
    server.terminate();
    assert!(server.wait().success());
    assert_eq!(noted(&server), ["startup", "shutdown"]);
}

#[test]
fn a_lifespan_that_fails_keeps_the_worker_from_serving() {
    let source = "import contextlib\nfrom starlette.applications import Starlette\n@contextlib.asynccontextmanager\nasync def lifespan(app):\n    raise RuntimeError('no database')\n    yield\napp = Starlette(lifespan=lifespan)\n";
    let server = pool(source, "").start();
    server.wait_for_log(&["worker did not start", "RuntimeError: no database"]);
    assert_eq!(server.get("/").status, 503);
}

#[test]
fn as_many_requests_as_the_pool_says_run_in_one_worker_at_a_time_or_many_where_it_says_nothing() {
    for keys in ["concurrency = 2", ""] {
        let server = asgi(keys).start();
        let mut clients = ["one", "two"].map(|name| {
            let mut client = server.connect();
            client.request("GET", &format!("/meet/{name}"));
            client
        });
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        assert_eq!(server.workers().len(), 1);
    }
}

#[test]
fn one_request_runs_at_a_time_where_the_pool_says_so() {
    let server = asgi("concurrency = 1").start();
    let mut clients = ["one", "two"].map(|name| {
        let mut client = server.connect();
        client.request("GET", &format!("/wait/{name}"));
        wait_for_note(&server, "begin one");
        client
    });
    assert_eq!(noted(&server), ["startup", "begin one"]);
    open(&server, "gate-one");
    assert_eq!(clients[0].response().text(), "\"one\"");
    wait_for_note(&server, "begin two");
    open(&server, "gate-two");
    assert_eq!(clients[1].response().text(), "\"two\"");
}

#[test]
fn a_deadline_cancels_the_task_and_keeps_the_worker() {
    let server = asgi("run_timeout = \"400ms\"").start();
    assert_eq!(server.get("/sync").status, 200);
    let worker = server.wait_for_workers(1)[0];
    assert_eq!(server.get("/wait/long").status, 504);
    wait_for_note(&server, "cancelled long");
    assert_eq!(server.get("/sync").status, 200);
    assert!(worker.is_alive());
}

#[test]
fn events_leave_as_they_come() {
    let server = asgi("").start();
    let mut client = server.connect();
    client.request("GET", "/ticks/3");
    assert_eq!(
        client.head().unwrap().header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let mut seen = String::new();
    for number in 0..3 {
        while !seen.contains(&format!("data: {number}\n")) {
            seen += &String::from_utf8(client.some_bytes()).unwrap();
        }
        assert!(!seen.contains(&format!("data: {}\n", number + 1)));
        open(&server, &format!("gate{number}"));
    }
}

#[test]
fn a_stream_waits_for_its_client_and_ends_when_the_client_leaves() {
    let server = asgi("concurrency = 4").start();
    assert_eq!(server.get("/sync").status, 200);
    let worker = server.wait_for_workers(1)[0];
    let before = worker.rss_bytes();
    for (path, end) in [("/endless", "end endless"), ("/silent", "end silent")] {
        let mut client = server.connect();
        client.request("GET", path);
        assert_eq!(client.head().unwrap().status, 200);
        assert!(!client.some_bytes().is_empty());
        // Others are served meanwhile.
        assert_eq!(server.get("/sync").status, 200);
        drop(client);
        wait_for_note(&server, end);
    }
    let grown = worker.rss_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "the worker grew by {grown} bytes");
}

#[test]
fn a_long_body_is_read_as_it_comes() {
    let server = asgi("").server("body_bytes_max = \"64MiB\"").start();
    let body = vec![7; 20_000_000];
    assert_eq!(server.post("/length", &body).text(), "20000000");
    assert_eq!(server.post("/length", b"").text(), "0");
}

#[test]
fn what_goes_on_after_an_answer_is_waited_for_when_the_worker_ends() {
    let mut server = asgi("").start();
    assert_eq!(server.get("/later").text(), "now");
    // The response has freed the worker's only slot.
    assert_eq!(server.get("/sync").status, 200);
    server.terminate();
    open(&server, "gate-later");
    assert!(server.wait().success());
    assert_eq!(noted(&server), ["startup", "later", "shutdown"]);
}

#[test]
fn a_mounted_application_knows_where_it_is() {
    let server = asgi("mount = \"/py\"").start();
    let scope = server.get("/py/scope/a%20b").json();
    assert_eq!(scope["path"], "/py/scope/a b");
    assert_eq!(scope["root_path"], "/py");
    assert_eq!(scope["client"], "127.0.0.1");
    assert!(scope["url"].as_str().unwrap().ends_with("/py/state"), "{scope}");
    let outside = server.get("/pyx/state");
    assert_eq!(
        (outside.status, outside.detail()),
        (
            404,
            "nothing answers /pyx/state: the application is mounted at /py".to_owned()
        )
    );
}

#[test]
fn a_plain_asgi_function_that_forgets_its_answer_gets_500() {
    let source = "async def app(scope, receive, send):\n    if scope['type'] != 'http':\n        raise NotImplementedError\n    if scope['path'] == '/half':\n        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n        await send({'type': 'http.response.body', 'body': b'half', 'more_body': True})\n";
    let server = pool(source, ONE_WORKER).start();
    assert_eq!(server.get("/").status, 500);
    server.wait_for_log(&["the ASGI application returned without an answer"]);
    let mut client = server.connect();
    client.request("GET", "/half");
    assert!(!client.try_response("GET").unwrap().whole);
    server.wait_for_log(&["the ASGI application returned without the last part of its answer"]);
    wait_until("the worker to go on", || server.get("/").status == 500);
}
