//! Durable runs: they continue without their clients and after a crash, and one key is one run.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use forebay_testkit::{Folder, Response, Server, Setup, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    support::metric,
    workflows::{ROUTES, rules_of},
};

/// Counts its runs, separately for each `n`.
const COUNT: (&str, &str) = (
    "count",
    "const runs = store.node('Count', context.getArgs().n).increment(1);
    return new ScriptResult(true, { runs });",
);
const FAIL: (&str, &str) = ("fail", "throw new Error('no luck');");
/// Counts like [`COUNT`], after a second.
const SLOW: (&str, &str) = (
    "slow",
    "const end = Date.now() + 1000;
    while (Date.now() < end);
    const runs = store.node('Count', context.getArgs().n).increment(1);
    return new ScriptResult(true, { runs });",
);
const WAIT: (&str, &str) = ("wait", "return new Promise(() => {});");

/// A server with its store in `data`, and these keys under `[workflow]`.
fn setup(data: &Folder, keys: &str) -> Setup {
    setup_with(
        &format!("path = \"{}\"", data.path().join("data").display()),
        keys,
    )
}

/// A server with these keys under `[store]` and `[workflow]`.
pub(crate) fn setup_with(store: &str, keys: &str) -> Setup {
    let config = format!(
        "[store]\n{store}\n[workflow]\npath = \"flows\"\ntimeout = \"20s\"\nallow = {{ store = [\"Count\"] }}\n{keys}\n{ROUTES}"
    );
    rules_of(Setup::new(&config), &[COUNT, FAIL, SLOW, WAIT])
        .threads(1)
        .admin()
}

/// A graph that waits for so long before it runs a rule.
pub(crate) fn after(delay_ms: u32, rule: &str) -> String {
    let graph = json!({
        "nodes": [{"@type": "BOOT", "id": "0"}, {"@type": "DELAY", "id": "1", "delayMs": delay_ms}, {"@type": "PROCESS", "id": "2", "ruleId": rule}],
        "edges": [{"from": "0", "to": "1"}, {"from": "1", "to": "2"}],
    });
    graph.to_string()
}

pub(crate) const RUNS: &str = "runs = { global = \"Runs\" }";

/// Requests a run with these fields.
fn ask(server: &Server, method: &str, target: &str, fields: &str, body: &Value) -> Response {
    let body = body.to_string();
    let body = if method == "GET" { "" } else { &body };
    server.connect().ask(method, target, fields, body)
}

pub(crate) fn post(server: &Server, workflow: &str, fields: &str, body: &Value) -> Response {
    ask(server, "POST", &format!("/workflow/{workflow}"), fields, body)
}

const ASYNC: &str = "prefer: respond-async\r\n";

/// Makes the server accept a run under this key.
pub(crate) fn accept(server: &Server, workflow: &str, key: &str, body: &Value) {
    let fields = format!("{ASYNC}idempotency-key: {key}\r\n");
    let response = post(server, workflow, &fields, body);
    assert_eq!(response.status, 202, "{}", response.text());
}

/// The state of a run, when it is over or after a while.
pub(crate) fn told(server: &Server, workflow: &str, key: &str) -> Value {
    let target = format!("/workflow/{workflow}?run={key}");
    let response = ask(server, "GET", &target, "prefer: wait=20\r\n", &Value::Null);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

pub(crate) fn state(server: &Server, workflow: &str, key: &str) -> Value {
    let response = server.get(&format!("/workflow/{workflow}?run={key}"));
    response.json()["state"].clone()
}

#[test]
fn a_client_that_does_not_wait_is_told_where_its_run_is_and_what_it_has_come_to() {
    let data = Folder::new();
    let server = setup(&data, RUNS).start();
    let response = post(&server, "wait", ASYNC, &json!({}));
    assert_eq!(response.status, 202);
    assert_eq!(response.header("preference-applied"), Some("respond-async"));
    let id = response.json()["run"].as_str().unwrap().to_owned();
    let place = format!("/workflow/wait?run={id}");
    assert_eq!(response.header("location"), Some(&*place));
    // A run that is over by the time it is accepted may be answered with its result.
    let come_to = |workflow: &str, key: &str, args: Value| {
        let name = workflow.split('?').next().unwrap();
        post(
            &server,
            workflow,
            &format!("{ASYNC}idempotency-key: {key}\r\n"),
            &args,
        );
        told(&server, name, key)
    };
    let told = come_to("count", "a", json!({"n": 1}));
    assert_eq!(told["state"], "done", "{told}");
    assert_eq!(told["result"], json!({"state": true, "valueMap": {"runs": 1}}));
    assert!(told["endedMs"].as_u64() >= told["askedMs"].as_u64(), "{told}");
    let methods = ask(&server, "OPTIONS", "/workflow/count", "", &json!(""));
    assert_eq!(methods.header("allow"), Some("GET, HEAD, OPTIONS, POST"));
    // It is a run of that workflow only.
    for target in ["/workflow/fail?run=a", "/workflow/count?run=x"] {
        let response = server.get(target);
        assert_eq!(response.status, 404, "{}", response.text());
    }
    let told = come_to("fail", "b", json!({}));
    assert_eq!(told["state"], "failed");
    assert_eq!(told["status"], 500);
    assert!(told["error"].as_str().unwrap().contains("no luck"), "{told}");
    assert!(told.get("trace").is_none(), "{told}");
    let told = come_to("fail?trace", "c", json!({}));
    assert_eq!(told["trace"][0]["error"], "Error: no luck", "{told}");
}

#[test]
fn one_who_would_rather_wait_a_little_is_answered_when_it_is_over_by_then() {
    let data = Folder::new();
    let server = setup(&data, RUNS).start();
    let waits = |workflow: &str, seconds: u32| {
        post(
            &server,
            workflow,
            &format!("prefer: respond-async, wait={seconds}\r\n"),
            &json!({"n": 1}),
        )
    };
    let response = waits("count", 20);
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["valueMap"]["runs"], 1);
    assert!(response.header("workflow-run").is_some());
    // Longer than any timer can represent.
    let response = waits("count", u32::MAX);
    assert_eq!(response.status, 200, "{}", response.text());
    let response = waits("wait", 0);
    assert_eq!(response.status, 202, "{}", response.text());
}

#[test]
fn a_key_is_one_run_however_often_it_is_asked_for() {
    let data = Folder::new();
    let server = setup(&data, RUNS).start();
    let keyed =
        |key: &str, body: &Value| post(&server, "count", &format!("idempotency-key: \"{key}\"\r\n"), body);
    for _ in 0..3 {
        let response = keyed("a", &json!({"n": 1}));
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.json()["valueMap"]["runs"], 1);
    }
    assert_eq!(keyed("b", &json!({"n": 1})).json()["valueMap"]["runs"], 2);
    // Without a key each is a run of its own.
    assert_eq!(
        post(&server, "count", "", &json!({"n": 1})).json()["valueMap"]["runs"],
        3
    );
    let other = keyed("a", &json!({"n": 2}));
    assert_eq!(other.status, 422, "{}", other.text());
    assert!(
        other.text().contains("key `a` was already used with another"),
        "{}",
        other.text()
    );
    // A failure is an outcome, too.
    let fails = || post(&server, "fail", "idempotency-key: f\r\n", &json!({}));
    let (first, second) = (fails(), fails());
    assert_eq!((first.status, second.status), (500, 500));
    assert_eq!(first.json()["detail"], second.json()["detail"]);
    assert_eq!(
        metric(
            &server,
            "forebay_workflow_runs_total{workflow=\"fail\",outcome=\"failed\"}"
        ),
        1
    );
    let wrong = post(&server, "count", "idempotency-key: a b\r\n", &json!({}));
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    let list = post(&server, "count", ASYNC, &json!([{"n": 1}]));
    assert_eq!(list.status, 400, "{}", list.text());
}

#[test]
fn a_key_is_one_run_of_one_user_whose_namesake_of_another_section_is_another() {
    let data = Folder::new();
    let realms = "[policy.site]\nauth = [\"robots\", \"others\"]\n[auth.robots.tokens.one]\ntoken = \"ONE\"\n[auth.others.tokens.one]\ntoken = \"OTHER\"\n";
    let server = setup(&data, &format!("{RUNS}\n{realms}"))
        .server("policy = \"site\"")
        .env("ONE", "first-secret")
        .env("OTHER", "other-secret")
        .start();
    for (token, status) in [
        ("first-secret", 200),
        ("first-secret", 200),
        ("other-secret", 422),
    ] {
        let fields = format!("authorization: Bearer {token}\r\nidempotency-key: k\r\n");
        let response = post(&server, "count", &fields, &json!({"n": 1}));
        assert_eq!(response.status, status, "{token}: {}", response.text());
    }
}

#[test]
fn arguments_that_a_decision_refuses_are_wrong_arguments_of_a_kept_run_too() {
    let data = Folder::new();
    let schema = json!({"type": "object", "required": ["n"]}).to_string();
    let decision = json!({
        "nodes": [
            {"id": "in", "name": "request", "type": "inputNode", "content": {"schema": schema}},
            {"id": "out", "name": "response", "type": "outputNode"},
        ],
        "edges": [{"id": "a", "sourceId": "in", "targetId": "out"}],
    });
    let server = setup(&data, RUNS)
        .file("flows/same.json", decision.to_string())
        .start();
    let refused = post(&server, "same", "", &json!({}));
    assert_eq!(refused.status, 422, "{}", refused.text());
    let kept = post(&server, "same", "idempotency-key: k\r\n", &json!({}));
    assert_eq!(kept.status, 422, "{}", kept.text());
    assert_eq!(kept.json()["detail"], refused.json()["detail"]);
    // A request that prefers not to wait may still get an outcome that is there at once.
    let later = post(
        &server,
        "same",
        &format!("{ASYNC}idempotency-key: later\r\n"),
        &json!({}),
    );
    assert!([202, 422].contains(&later.status), "{}", later.text());
    let report = told(&server, "same", "later");
    assert_eq!(
        (&report["state"], &report["status"], &report["error"]),
        (&json!("failed"), &json!(422), &refused.json()["detail"])
    );
}

#[test]
fn those_who_ask_while_it_runs_get_what_it_comes_to() {
    let data = Folder::new();
    let slow = "idempotency-key: slow\r\n";
    // The graph waits for a moment before it counts.
    let server = setup(&data, RUNS)
        .file("flows/slow.json", after(300, "count"))
        .start();
    let counts: Vec<Value> = std::thread::scope(|scope| {
        let asked = (0..4).map(|_| scope.spawn(|| post(&server, "slow", slow, &json!({"n": 7})).json()));
        let asked: Vec<_> = asked.collect();
        asked
            .into_iter()
            .map(|one| one.join().unwrap()["valueMap"]["runs"].clone())
            .collect()
    });
    assert_eq!(counts, vec![json!(1); 4]);
}

#[test]
fn what_was_accepted_is_run_though_the_server_was_killed() {
    let data = Folder::new();
    let mut killed = setup(&data, RUNS).start();
    accept(&killed, "wait", "w", &json!({"n": 5}));
    wait_until("it to run", || state(&killed, "wait", "w") == "running");
    killed.kill();
    let server = setup(&data, RUNS)
        .file(
            "flows/rules/wait.js",
            "function process(context) { return new ScriptResult(true, { n: context.getArgs().n }); }",
        )
        .start();
    let told = told(&server, "wait", "w");
    assert_eq!(told["result"]["valueMap"], json!({"n": 5}), "{told}");
    // Its key still belongs to that run.
    let again = post(&server, "wait", "idempotency-key: w\r\n", &json!({"n": 5}));
    assert_eq!(again.json()["valueMap"], json!({"n": 5}));
    let mut killed = server;
    killed.kill();
    let server = setup(&data, RUNS).start();
    assert_eq!(state(&server, "wait", "w"), "done");
}

#[test]
fn a_server_that_is_stopped_ends_what_runs_and_leaves_what_waits_to_the_next() {
    let data = Folder::new();
    let start = || {
        setup(&data, "runs = { global = \"Runs\", at_a_time = 2 }")
            .file("flows/slow.json", after(200, "count"))
            .start()
    };
    let mut stopped = start();
    for run in 0..8 {
        accept(&stopped, "slow", &run.to_string(), &json!({"n": run}));
    }
    stopped.terminate();
    assert!(stopped.wait().success());
    let server = start();
    for run in 0..8 {
        let told = told(&server, "slow", &run.to_string());
        assert_eq!(
            told["result"]["valueMap"],
            json!({"runs": 1}),
            "run {run}: {told}"
        );
    }
    assert_eq!(metric(&server, "forebay_workflow_kept_runs_open"), 0);
    assert!(
        metric(
            &server,
            "forebay_workflow_runs_total{workflow=\"slow\",outcome=\"true\"}"
        ) < 8
    );
}

#[test]
fn there_are_so_many_open_runs_and_no_more_and_a_full_queue_is_waited_for() {
    let data = Folder::new();
    let keys = "accept_queue_max = 1\nruns = { global = \"Runs\", open_max = 2 }";
    let server = setup(&data, keys).start();
    let mut busy = server.connect();
    busy.send("POST /workflow/wait HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}");
    wait_until("the one place to be taken", || {
        metric(&server, "forebay_workflow_runs_in_flight{workflow=\"wait\"}") == 1
    });
    let keyed = post(&server, "count", "idempotency-key: now\r\n", &json!({"n": 1}));
    assert_eq!((keyed.status, keyed.header("retry-after")), (503, Some("1")));
    accept(&server, "count", "a", &json!({"n": 1}));
    accept(&server, "count", "b", &json!({"n": 1}));
    let refused = post(&server, "count", ASYNC, &json!({"n": 1}));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("open_max"), "{}", refused.text());
    assert_eq!(state(&server, "count", "a"), "waiting");
    drop(busy);
    assert_eq!(told(&server, "count", "a")["state"], "done");
    assert_eq!(told(&server, "count", "b")["state"], "done");
    // The rejected run was not kept: its key is free.
    let keyed = post(&server, "count", "idempotency-key: now\r\n", &json!({"n": 1}));
    assert_eq!(keyed.json()["valueMap"]["runs"], 3, "{}", keyed.text());
}

#[test]
fn runs_are_their_clients_own() {
    let data = Folder::new();
    let clients = "[workflow.clients.ada]\ntoken = \"ADA\"\nworkflows = [\"*\"]\n[workflow.clients.bob]\ntoken = \"BOB\"\nworkflows = [\"count\"]";
    let server = setup(&data, &format!("{RUNS}\n{clients}"))
        .env("ADA", "ada-token")
        .env("BOB", "bob-token")
        .start();
    let of = |client: &str, n: u32| {
        let fields = format!("authorization: Bearer {client}-token\r\nidempotency-key: k\r\n");
        post(&server, "count", &fields, &json!({"n": n}))
    };
    assert_eq!(of("ada", 1).json()["valueMap"]["runs"], 1);
    assert_eq!(of("bob", 2).json()["valueMap"]["runs"], 1);
    let asks = |client: &str, workflow: &str| {
        let fields = format!("authorization: Bearer {client}-token\r\n");
        ask(
            &server,
            "GET",
            &format!("/workflow/{workflow}?run=k"),
            &fields,
            &Value::Null,
        )
    };
    assert_eq!(asks("ada", "count").status, 200);
    assert_eq!(asks("bob", "wait").status, 403);
    assert_eq!(server.get("/workflow/count?run=k").status, 401);
    let fields = "authorization: Bearer ada-token\r\nprefer: respond-async\r\nidempotency-key: only-ada\r\n";
    // It may be over by the time it is accepted.
    let status = post(&server, "count", fields, &json!({"n": 3})).status;
    assert!(matches!(status, 200 | 202), "{status}");
    let fields = "authorization: Bearer bob-token\r\n";
    assert_eq!(
        ask(
            &server,
            "GET",
            "/workflow/count?run=only-ada",
            fields,
            &Value::Null
        )
        .status,
        404
    );
}

#[test]
fn where_no_runs_are_kept_a_key_is_refused_and_a_preference_is_not_heeded() {
    let data = Folder::new();
    let server = setup(&data, "").start();
    let keyed = post(&server, "count", "idempotency-key: a\r\n", &json!({"n": 1}));
    assert_eq!(keyed.status, 400, "{}", keyed.text());
    assert!(
        keyed.text().contains("runs are not kept here"),
        "{}",
        keyed.text()
    );
    let preferred = post(&server, "count", ASYNC, &json!({"n": 1}));
    assert_eq!(preferred.status, 200, "{}", preferred.text());
    assert_eq!(preferred.header("preference-applied"), None);
}

#[test]
fn what_was_refused_is_not_run_after_a_start_either() {
    let data = Folder::new();
    let mut server = setup(&data, &format!("accept_queue_max = 1\n{RUNS}")).start();
    let mut busy = server.connect();
    busy.send("POST /workflow/wait HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}");
    wait_until("the one place to be taken", || {
        metric(&server, "forebay_workflow_runs_in_flight{workflow=\"wait\"}") == 1
    });
    let refused = post(&server, "count", "idempotency-key: now\r\n", &json!({"n": 1}));
    assert_eq!(refused.status, 503, "{}", refused.text());
    server.kill();
    let server = setup(&data, RUNS).start();
    assert_eq!(server.get("/workflow/count?run=now").status, 404);
    assert_eq!(metric(&server, "forebay_workflow_kept_runs_open"), 0);
    let other = post(&server, "count", "idempotency-key: other\r\n", &json!({"n": 1}));
    assert_eq!(other.json()["valueMap"]["runs"], 1);
}

#[test]
fn one_who_waits_for_a_run_that_is_promised_gets_what_it_comes_to() {
    let data = Folder::new();
    let server = setup(&data, &format!("accept_queue_max = 1\n{RUNS}")).start();
    let mut busy = server.connect();
    busy.send("POST /workflow/wait HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}");
    wait_until("the one place to be taken", || {
        metric(&server, "forebay_workflow_runs_in_flight{workflow=\"wait\"}") == 1
    });
    accept(&server, "count", "k", &json!({"n": 1}));
    let mut waits = server.connect();
    waits.send("POST /workflow/count HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 7\r\n\r\n{\"n\":1}");
    drop(busy);
    assert_eq!(waits.response().json()["valueMap"]["runs"], 1);
    assert_eq!(told(&server, "count", "k")["result"]["valueMap"]["runs"], 1);
}

#[test]
fn while_one_process_replaces_another_every_accepted_run_is_run_once() {
    let data = Folder::new();
    let server = setup(&data, RUNS).start();
    let before = server.process();
    accept(&server, "slow", "slow", &json!({ "n": "slow" }));
    wait_until("a run", || state(&server, "slow", "slow") == "running");
    let done = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) {
                let fields = format!("{ASYNC}idempotency-key: {asked}\r\n");
                let response = post(&server, "count", &fields, &json!({ "n": asked }));
                // One that is over by the time it is accepted is answered with its result.
                assert!(matches!(response.status, 200 | 202), "{}", response.text());
                asked += 1;
            }
            asked
        });
        let upgraded = server.command(&["upgrade"]);
        assert!(upgraded.status.success(), "{upgraded:?}");
        wait_until("the process before to end", || !before.is_alive());
        done.store(true, Ordering::Relaxed);
        asking.join().expect("every run is accepted")
    });
    let after = server.serving();
    let slow = told(&server, "slow", "slow");
    assert_eq!(slow["result"]["valueMap"]["runs"], 1, "{slow}");
    for number in 0..asked {
        let told = told(&server, "count", &number.to_string());
        assert_eq!(told["state"], "done", "{told}");
        assert_eq!(told["result"]["valueMap"]["runs"], 1, "{told}");
    }
    after.signal(Signal::TERM);
    wait_until("the last process to end", || !after.is_alive());
}
