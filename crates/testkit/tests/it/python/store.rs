//! Python workers and the server's store.

use std::thread;

use forebay_testkit::{Server, Setup};

const APP: &str = r#"
import os
from forebay import App
from forebay.store import StoreError, store

app = App()

@app.post("/py/:id")
def put(request):
    store.set("Open", request.params["id"], request.json())
    return store.get("Open", request.params["id"])

@app.get("/py/:id")
def get(request):
    return {"found": store.get("Open", request.params["id"])}

@app.post("/count")
def count():
    with store.transaction():
        store.set("Open", "count", store.get("Open", "count", default=0) + 1)
    return {"count": store.get("Open", "count")}

@app.post("/die")
def die():
    with store.transaction():
        store.set("Open", "lost", 1)
        os.kill(os.getpid(), 9)

@app.post("/left")
def left():
    store.transaction().__enter__()
    store.set("Open", "lost", 1)
    return "left"

@app.post("/refused")
def refused():
    try:
        store.set("Open", "refused", 1)
    except StoreError as error:
        return {"code": error.code}
"#;

const NODE: &str = "import { store } from 'forebay';\n\
    export default (request) => ({ found: store.get('Open', request.path.slice(6)) ?? null });\n";

/// A store, a pool of Python, one of Node, and the store's own route.
fn server(keys: &str) -> Server {
    Setup::new(&format!(
        "[store]\n[store.access]\nOpen = {{ read = \"public\", write = \"public\" }}\n\
         [pool.api]\nhandler = \"app.py\"\n{keys}\n[pool.node]\nhandler = \"node.mjs\"\n\
         [[route]]\npath = \"/*\"\npool = \"api\"\n[[route]]\npath = \"/node/*\"\npool = \"node\"\n\
         [[route]]\npath = \"/store/*\"\nstore = {{}}\n"
    ))
    .file("app.py", APP)
    .file("node.mjs", NODE)
    .start()
}

#[test]
fn what_a_python_worker_writes_others_read_and_the_other_way_round() {
    for keys in ["workers = { min = 2, max = 2 }", "concurrency = 3"] {
        let server = server(keys);
        let answer = server.post("/py/a", br#"{"n":12345678901234567890,"list":[1.5,null]}"#);
        assert_eq!(
            (answer.status, answer.text()),
            (200, r#"{"list":[1.5,null],"n":12345678901234567890}"#)
        );
        assert_eq!(
            server.get("/store/Open/a").text(),
            r#"{"list":[1.5,null],"n":12345678901234567890}"#
        );
        assert_eq!(server.get("/node/a").json()["found"]["list"][0], 1.5);
        assert_eq!(server.get("/py/none").text(), r#"{"found":null}"#);
    }
}

#[test]
fn transactions_of_threads_and_processes_come_one_after_the_other() {
    let server = server("concurrency = 4\nworkers = { min = 2, max = 2 }");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..25 {
                    client.post("/count", b"");
                    assert_eq!(client.response().status, 200);
                }
            });
        }
    });
    assert_eq!(server.get("/store/Open/count").text(), "200");
}

#[test]
fn a_worker_that_is_killed_in_a_transaction_or_leaves_one_open_holds_up_nobody() {
    for keys in [
        "workers = { min = 2, max = 2 }",
        "concurrency = 2\nworkers = { min = 2, max = 2 }",
    ] {
        let server = server(keys);
        assert_eq!(server.post("/die", b"").status, 502);
        assert_eq!(server.post("/count", b"").status, 200);
        assert_eq!(server.post("/left", b"").text(), "left");
        server.wait_for_log(&[
            "POST /left",
            "has left a transaction of the store open: it was rolled back",
        ]);
        assert_eq!(server.post("/count", b"").text(), r#"{"count":2}"#);
        assert_eq!(server.get("/store/Open/lost").status, 404);
    }
}

#[test]
fn a_pool_reads_or_has_no_store_as_its_configuration_says() {
    for (keys, code) in [("store = \"ro\"", "read_only"), ("store = \"none\"", "no_store")] {
        let server = server(keys);
        assert_eq!(
            server.post("/refused", b"").text(),
            format!("{{\"code\":\"{code}\"}}")
        );
        let read = server.get("/py/a").status;
        assert_eq!(read, if code == "read_only" { 200 } else { 500 });
    }
}
