//! Nodes and rules of workflows that ask the server's own pools.

use std::time::{Duration, Instant};

use forebay_testkit::{Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::{
    support::metric,
    workflows::{ROUTES, logged_failure, run},
};

/// A handler that returns its request, and can fail.
const NODE: &str = "
import { existsSync } from 'node:fs';
export default async (request) => {
    if (request.path === '/text') return new Response('plain', { status: 201 });
    if (request.path === '/none') return new Response(null, { status: 204 });
    if (request.path === '/no') return Response.json({ why: 'no' }, { status: 409 });
    if (request.path === '/crash') process.exit(7);
    if (request.path === '/hang') await new Promise(() => {});
    if (request.path === '/later') {
        while (!existsSync('reloaded')) await new Promise((resolve) => setTimeout(resolve, 5));
        return 'later';
    }
    if (request.path === '/bytes') return new Response(new Uint8Array([255, 254]));
    if (request.path === '/long') return new Response('x'.repeat(200_000));
    if (request.path === '/pieces') {
        let left = 300;
        const pull = (controller) => (left-- > 0 ? controller.enqueue(new TextEncoder().encode('y'.repeat(1000))) : controller.close());
        return new Response(new ReadableStream({ pull }));
    }
    const body = await request.text();
    const own = request.headers.get('x-own');
    return { method: request.method, path: request.path, own, query: Object.fromEntries(request.query), length: body.length, body: body.slice(0, 100) };
};
";

const PYTHON: &str = "
from forebay import App

app = App()


@app.post('/sum')
def total(request):
    return {'path': request.path, 'sum': sum(request.json())}
";

/// A graph of one node.
fn graph(node: &Value) -> String {
    let mut node = node.clone();
    node["id"] = json!("1");
    let nodes = [json!({"@type": "BOOT", "id": "0"}), node];
    json!({"nodes": nodes, "edges": [{"from": "0", "to": "1"}]}).to_string()
}

fn of_pool(path: &str, members: Value) -> Value {
    let mut node = json!({"@type": "POOL", "pool": "api", "path": path});
    if let (Value::Object(node), Value::Object(members)) = (&mut node, members) {
        node.extend(members);
    }
    node
}

/// A configuration with a pool of one Node worker.
fn config(keys: &str, of_pool: &str) -> String {
    format!(
        "[workflow]\npath = \"flows\"\n{keys}\n[pool.api]\nhandler = \"api.mjs\"\nworkers = {{ min = 1, max = 1 }}\n{of_pool}\n{ROUTES}"
    )
}

/// A server with this configuration and these graphs.
fn setup(keys: &str, of_pool: &str, graphs: &[(&str, Value)]) -> Setup {
    let setup = Setup::new(&config(keys, of_pool)).threads(1).admin();
    let setup = setup.file("api.mjs", NODE);
    graphs.iter().fold(setup, |setup, (name, node)| {
        setup.file(&format!("flows/{name}.json"), graph(node))
    })
}

const ALLOWED: &str = "allow = { pool = [\"api\"] }";

fn came(server: &Server, name: &str, args: &Value) -> (bool, Value) {
    let (status, answer) = run(server, &format!("/workflow/{name}"), args);
    assert_eq!(status, 200, "{name}: {answer}");
    (answer["state"] == true, answer["valueMap"].clone())
}

fn failure(server: &Server, name: &str) -> String {
    logged_failure(server, &format!("/workflow/{name}"), &json!({}))
}

#[test]
fn a_node_has_a_worker_answer_as_a_server_does() {
    let post = json!({"method": "POST", "headers": {"x-own": {"value": "mine"}}, "query": {"q": "args.q"}, "body": "args.order"});
    let server = setup(
        ALLOWED,
        "",
        &[
            ("post", of_pool("/orders/1", post)),
            (
                "put",
                of_pool("/big", json!({"method": "PUT", "body": "args.big"})),
            ),
            ("text", of_pool("/text", json!({}))),
            ("none", of_pool("/none", json!({}))),
            ("head", of_pool("/long", json!({"method": "HEAD"}))),
            ("no", of_pool("/no", json!({}))),
            ("taken", of_pool("/no", json!({"ok": [409]}))),
            ("pieces", of_pool("/pieces", json!({}))),
        ],
    )
    .start();
    let args = json!({"q": "a b&c", "order": {"id": 1}});
    let posted = json!({"method": "POST", "path": "/orders/1", "own": "mine", "query": {"q": "a b&c"}, "length": 8, "body": "{\"id\":1}"});
    for (graph, state, status, body) in [
        ("post", true, 200, posted),
        ("text", true, 201, json!("plain")),
        ("none", true, 204, Value::Null),
        ("head", true, 200, Value::Null),
        ("no", false, 409, json!({"why": "no"})),
        ("taken", true, 409, json!({"why": "no"})),
        ("pieces", true, 200, json!("y".repeat(300_000))),
    ] {
        let right = (state, json!({"status": status, "body": body}));
        assert_eq!(came(&server, graph, &args), right, "{graph}");
    }
    // More than what goes with the head.
    let (state, answer) = came(&server, "put", &json!({"big": "x".repeat(500_000)}));
    assert_eq!((state, &answer["body"]["length"]), (true, &json!(500_002)));
}

#[test]
fn a_pool_of_python_answers_too() {
    let node =
        json!({"@type": "POOL", "pool": "sums", "path": "/sum", "method": "POST", "body": "args.numbers"});
    let config = format!(
        "[workflow]\npath = \"flows\"\nallow = {{ pool = [\"sums\"] }}\n[pool.sums]\nhandler = \"sums.py\"\nworkers = {{ min = 1, max = 1 }}\n{ROUTES}"
    );
    let server = Setup::new(&config)
        .threads(2)
        .file("sums.py", PYTHON)
        .file("flows/sum.json", graph(&node))
        .start();
    let right = json!({"status": 200, "body": {"path": "/sum", "sum": 6}});
    assert_eq!(
        came(&server, "sum", &json!({"numbers": [1, 2, 3]})),
        (true, right)
    );
}

#[test]
fn rules_ask_pools_as_they_fetch() {
    let rule = "async function process(context) {
        const response = await pools.api.fetch('/a%20b?x=1', { method: 'POST', body: 'text', headers: { 'x-own': 'o' } });
        const [own, type] = [await response.json(), response.headers.get('content-type')];
        const refused = [];
        for (const ask of [() => pools.api.fetch('away'), () => pools.api.fetch('//away/'), () => pools.other.fetch('/')]) {
            try { await ask(); } catch (error) { refused.push(String(error)); }
        }
        return new ScriptResult(response.ok, { own, type, refused });
    }";
    let server = setup(
        ALLOWED,
        "",
        &[("ask", json!({"@type": "PROCESS", "ruleId": "ask"}))],
    )
    .file("flows/rules/ask.js", rule)
    .start();
    let (_, values) = came(&server, "ask", &json!({}));
    assert_eq!(values["own"]["path"], "/a%20b");
    assert_eq!(values["own"]["query"], json!({"x": "1"}));
    assert_eq!(
        (&values["own"]["own"], &values["own"]["body"]),
        (&json!("o"), &json!("text"))
    );
    assert!(
        values["type"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("application/json"))
    );
    assert_eq!(
        values["refused"],
        json!([
            "TypeError: `path` begins with one `/`, and this one is \"away\"",
            "TypeError: `path` begins with one `/`, and this one is \"//away/\"",
            "ClientError: pool `other` may not be reached: `allow` of `[workflow]` names api in `pool`",
        ])
    );
}

#[test]
fn what_becomes_of_a_worker_is_told_and_something_stands_in() {
    let stands_in = json!({"fallback": {"state": true, "valueMap": {"score": 0}}});
    let mut hang = stands_in.clone();
    hang["timeoutMs"] = json!(100);
    let server = setup(
        &format!("{ALLOWED}\ntimeout = \"20s\"\nfetch_bytes_max = \"100KiB\""),
        "run_timeout = \"1s\"",
        &[
            ("crash", of_pool("/crash", json!({}))),
            ("crash-stood-in", of_pool("/crash", stands_in)),
            ("slow", of_pool("/hang", json!({}))),
            ("hang", of_pool("/hang", hang)),
            ("bytes", of_pool("/bytes", json!({}))),
            ("long", of_pool("/long", json!({}))),
            ("pieces", of_pool("/pieces", json!({}))),
            ("text", of_pool("/text", json!({}))),
        ],
    )
    .start();
    let zero = (true, json!({"score": 0}));
    let told = failure(&server, "crash");
    assert!(
        told.contains("pool `api` failed: worker") && told.contains("ended while it ran"),
        "{told}"
    );
    assert_eq!(came(&server, "crash-stood-in", &json!({})), zero);
    let told = failure(&server, "slow");
    assert!(
        told.contains("handler has run longer than 1s (run_timeout)"),
        "{told}"
    );
    let begun = Instant::now();
    assert_eq!(came(&server, "hang", &json!({})), zero);
    assert!(begun.elapsed() < Duration::from_secs(10));
    for (graph, right) in [
        ("bytes", "the body of its answer is no text in UTF-8"),
        (
            "long",
            "the answer of pool `api` is longer than 102400 bytes (fetch_bytes_max)",
        ),
        (
            "pieces",
            "the answer of pool `api` is longer than 102400 bytes (fetch_bytes_max)",
        ),
    ] {
        let told = failure(&server, graph);
        assert!(told.contains(right), "{graph}: {told}");
    }
    // The worker is there for others.
    assert_eq!(came(&server, "text", &json!({})).1["status"], 201);
}

#[test]
fn a_run_that_is_over_takes_its_job_back_and_a_full_pool_says_so() {
    let server = setup(
        &format!("{ALLOWED}\ntimeout = \"2s\""),
        "queue_max = 1\nrun_timeout = \"1h\"",
        &[
            ("hang", of_pool("/hang", json!({}))),
            ("text", of_pool("/text", json!({}))),
        ],
    )
    .start();
    // One runs, one waits, and for a third there is no room.
    let mut clients = [server.connect(), server.connect()];
    for (client, accepted) in clients.iter_mut().zip(1..) {
        client.post("/workflow/hang", b"{}");
        wait_until("the job to be where it stays", || {
            let now = |series: &str| metric(&server, &format!("forebay_pool_{series}{{pool=\"api\"}}"));
            (now("jobs_accepted_total"), now("queue_jobs")) == (accepted, accepted - 1)
        });
    }
    let told = failure(&server, "text");
    assert!(
        told.contains("pool `api` refused: queue of pool `api` is full (queue_max 1)"),
        "{told}"
    );
    for client in &mut clients {
        assert_eq!(client.response().status, 504);
    }
    // Neither of both is there any more.
    wait_until("the worker to answer again", || {
        run(&server, "/workflow/text", &json!({})).0 == 200
    });
}

#[test]
fn a_node_whose_time_is_over_takes_its_job_back_though_the_run_goes_on() {
    let stands_in = json!({"timeoutMs": 100, "fallback": {"state": true, "valueMap": {"score": 0}}});
    let server = setup(
        &format!("{ALLOWED}\ntimeout = \"1h\""),
        "run_timeout = \"1h\"",
        &[
            ("hang", of_pool("/hang", stands_in)),
            ("text", of_pool("/text", json!({}))),
        ],
    )
    .start();
    assert_eq!(came(&server, "hang", &json!({})), (true, json!({"score": 0})));
    wait_until("the job to be cancelled", || {
        metric(&server, "forebay_pool_jobs_cancelled_total{pool=\"api\"}") == 1
    });
}

#[test]
fn a_pool_that_is_not_there_is_refused_by_its_name() {
    let text = of_pool("/text", json!({}));
    let server = setup(ALLOWED, "", &[("text", text)]).start();
    server.reconfigure(&config("allow = { pool = [\"apy\"] }", ""));
    for (command, code) in [("check", 3), ("reload", 1)] {
        let output = server.command(&[command]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{command}: {told}");
        assert!(
            told.contains("allow.pool") && told.contains("`api`"),
            "{command}: {told}"
        );
    }
    assert_eq!(came(&server, "text", &json!({})).1["status"], 201);
}

#[test]
fn a_run_keeps_the_pool_that_it_began_with_through_a_reload() {
    let server = setup(ALLOWED, "", &[("later", of_pool("/later", json!({})))]).start();
    let mut client = server.connect();
    client.post("/workflow/later", b"{}");
    wait_until("the job to be accepted", || {
        metric(&server, "forebay_pool_jobs_accepted_total{pool=\"api\"}") == 1
    });
    server.reconfigure(&config(ALLOWED, "run_timeout = \"59s\""));
    assert!(server.command(&["reload"]).status.success());
    server.folder().write("reloaded", "");
    let response = client.response();
    assert_eq!(
        (response.status, &response.json()["valueMap"]["body"]),
        (200, &json!("later"))
    );
}

#[test]
fn a_run_without_its_client_keeps_its_pool_through_a_reload_and_a_stop() {
    let two = json!({
        "nodes": [
            {"@type": "BOOT", "id": "0"},
            {"@type": "POOL", "id": "1", "pool": "api", "path": "/later"},
            {"@type": "POOL", "id": "2", "pool": "api", "path": "/text"},
        ],
        "edges": [{"from": "0", "to": "1"}, {"from": "1", "to": "2"}],
    });
    let keys = format!("{ALLOWED}\nruns = {{ global = \"Runs\" }}");
    let of_api = |more: &str| format!("{more}[store]\npath = \"data\"");
    let start = || {
        let setup = setup(&keys, &of_api(""), &[]);
        setup.file("flows/two.json", two.to_string()).start()
    };
    let begin = |server: &Server| {
        let mut client = server.connect();
        client.send("POST /workflow/two HTTP/1.1\r\nhost: a\r\nprefer: respond-async\r\nidempotency-key: one\r\ncontent-length: 2\r\n\r\n{}");
        assert_eq!(client.response().status, 202);
        wait_until("the job to be accepted", || {
            metric(server, "forebay_pool_jobs_accepted_total{pool=\"api\"}") == 1
        });
    };
    let server = start();
    begin(&server);
    server.reconfigure(&config(&keys, &of_api("run_timeout = \"59s\"\n")));
    assert!(server.command(&["reload"]).status.success());
    server.folder().write("reloaded", "");
    let mut client = server.connect();
    client.send("GET /workflow/two?run=one HTTP/1.1\r\nhost: a\r\nprefer: wait=20\r\n\r\n");
    let told = client.response().json();
    assert_eq!(
        (&told["state"], &told["result"]["valueMap"]["body"]),
        (&json!("done"), &json!("plain")),
        "{told}"
    );

    let mut server = start();
    begin(&server);
    server.terminate();
    server.wait_for_log(&["stopping: requests under way"]);
    server.folder().write("reloaded", "");
    assert!(server.wait().success());
    assert!(!server.log().contains("is stopping"), "{}", server.log());
}
