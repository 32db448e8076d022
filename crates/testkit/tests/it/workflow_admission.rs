//! Admission of workflow runs: authorization, concurrency limits, and their metrics.

use forebay_testkit::{Client, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::{
    explain::stdout,
    support::metric,
    workflows::{ROUTES, rules_of},
};

const CLIENTS: &str = r#"
[workflow.clients.shop]
secret = "SHOP_SECRET"
workflows = ["hello", "wait"]
[workflow.clients.robot]
token = "ROBOT_TOKEN"
runs_per_second = 2
[workflow.clients.batch]
secret = "BATCH_SECRET"
runs_max = 1
"#;

const HELLO: (&str, &str) = (
    "hello",
    "return new ScriptResult(true, { client: context.getParameter().getClientId() });",
);
const OTHER: (&str, &str) = ("other", "return new ScriptResult(false);");
const WAIT: (&str, &str) = ("wait", "return new Promise(() => {});");

fn start(keys: &str) -> Server {
    let config = format!("[workflow]\npath = \"flows\"\ntimeout = \"20s\"\n{keys}\n{ROUTES}");
    rules_of(Setup::new(&config), &[HELLO, OTHER, WAIT])
        .env("SHOP_SECRET", "s3cret")
        .env("ROBOT_TOKEN", "t0ken")
        .env("BATCH_SECRET", "b4tch")
        .threads(1)
        .admin()
        .start()
}

/// Sends a request with this `Authorization`.
fn ask(server: &Server, workflow: &str, authorization: &str) -> forebay_testkit::Response {
    let mut client = server.connect();
    begin(&mut client, workflow, authorization);
    client.response()
}

fn begin(client: &mut Client, workflow: &str, authorization: &str) {
    let text = format!(
        "POST /workflow/{workflow} HTTP/1.1\r\nhost: a\r\n{authorization}content-length: 2\r\n\r\n{{}}"
    );
    client.send(text.as_bytes());
}

/// `Authorization: Basic` of shop:s3cret and batch:b4tch.
const SHOP: &str = "authorization: Basic c2hvcDpzM2NyZXQ=\r\n";
const BATCH: &str = "authorization: basic YmF0Y2g6YjR0Y2g=\r\n";
const ROBOT: &str = "authorization: Bearer t0ken\r\n";

#[test]
fn only_clients_that_show_who_they_are_have_workflows_run() {
    let server = start(CLIENTS);
    for (authorization, client) in [(SHOP, "shop"), (ROBOT, "robot"), (BATCH, "batch")] {
        let response = ask(&server, "hello", authorization);
        assert_eq!(response.status, 200);
        assert_eq!(response.json()["valueMap"]["client"], client);
    }
    for (authorization, workflow, status) in [
        ("", "hello", 401),
        ("authorization: Bearer s3cret\r\n", "hello", 401),
        ("authorization: Basic c2hvcDpzM2NyZXQx\r\n", "hello", 401),
        // robot:none, which has no secret
        ("authorization: Basic cm9ib3Q6bm9uZQ==\r\n", "hello", 401),
        ("authorization: Basic !\r\n", "hello", 401),
        (SHOP, "other", 403),
    ] {
        let response = ask(&server, workflow, authorization);
        assert_eq!(response.status, status, "{authorization} {workflow}");
        assert_eq!(response.header("www-authenticate").is_some(), status == 401);
    }
    let scenes = |id: &str, secret: &str, code: &str| {
        let request =
            json!({"requestId": "r", "clientId": id, "clientSecret": secret, "scenesCodes": [code]});
        let response = server.post("/execute/internal/workflow", request.to_string().as_bytes());
        let answer: Value = response.json();
        assert_eq!(answer["code"], response.status);
        (
            response.status,
            answer["data"]["results"][0]["valueMap"]["client"].clone(),
        )
    };
    assert_eq!(scenes("shop", "s3cret", "hello"), (200, json!("shop")));
    assert_eq!(scenes("shop", "s3cre", "hello").0, 401);
    assert_eq!(scenes("robot", "t0ken", "hello").0, 401);
    assert_eq!(scenes("shop", "s3cret", "other").0, 403);
    // A token replaces both, and without either the client is unknown.
    let body = "{\"requestId\":\"r\",\"scenesCodes\":[\"hello\"]}";
    for (authorization, status) in [(ROBOT, 200), ("", 400), ("authorization: Bearer no\r\n", 401)] {
        let head = format!("POST /execute/internal/workflow HTTP/1.1\r\nhost: a\r\n{authorization}");
        let mut client = server.connect();
        client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
        assert_eq!(client.response().status, status, "{authorization}");
    }
    let runs = |outcome: &str| {
        let name = format!("forebay_workflow_runs_total{{workflow=\"other\",outcome=\"{outcome}\"}}");
        metric(&server, &name)
    };
    assert_eq!((runs("refused"), runs("false")), (2, 0));
}

#[test]
fn a_client_has_no_more_runs_than_are_its_own() {
    let server = start(CLIENTS);
    let statuses: Vec<_> = (0..20).map(|_| ask(&server, "hello", ROBOT)).collect();
    let refused: Vec<_> = statuses
        .iter()
        .filter(|response| response.status == 429)
        .collect();
    assert_eq!(statuses[0].status, 200);
    assert!(
        !refused.is_empty()
            && refused
                .iter()
                .all(|response| response.header("retry-after") == Some("1"))
    );
    let mut waiting = server.connect();
    begin(&mut waiting, "wait", BATCH);
    let in_flight = || metric(&server, "forebay_workflow_runs_in_flight{workflow=\"wait\"}");
    wait_until("the run to begin", || in_flight() == 1);
    assert_eq!(ask(&server, "hello", BATCH).status, 429);
    assert_eq!(ask(&server, "hello", SHOP).status, 200);
    // A client that leaves frees its slot.
    drop(waiting);
    wait_until("its leaving to be seen", || in_flight() == 0);
    assert_eq!(ask(&server, "hello", BATCH).status, 200);
    let gone = metric(
        &server,
        "forebay_workflow_runs_total{workflow=\"wait\",outcome=\"gone\"}",
    );
    assert_eq!(gone, 1);
}

#[test]
fn a_workflow_takes_no_more_engines_than_are_its_own() {
    let server = start("executors = 1\nengines_max = 2\n[workflow.scenes.wait]\nruns_max = 1\nqueue_max = 1");
    let in_flight = || metric(&server, "forebay_workflow_runs_in_flight{workflow=\"wait\"}");
    let mut clients = [server.connect(), server.connect()];
    for (client, count) in clients.iter_mut().zip(1..) {
        begin(client, "wait", "");
        wait_until("the run to be counted", || in_flight() == count);
    }
    let refused = ask(&server, "wait", "");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    // One of the two engines is left to others, although two runs have arrived before.
    assert_eq!(ask(&server, "hello", "").status, 200);
    drop(clients);
    wait_until("their leaving to be seen", || in_flight() == 0);
}

#[test]
fn runs_are_counted_by_what_they_came_to_and_rules_by_their_nodes() {
    let server = start("[workflow.scenes.wait]\ntimeout = \"50ms\"");
    assert_eq!(ask(&server, "hello", "").status, 200);
    assert_eq!(ask(&server, "wait", "").status, 504);
    assert_eq!(ask(&server, "other", "").status, 200);
    assert_eq!(ask(&server, "other", "").status, 200);
    for (name, count) in [
        ("runs_total{workflow=\"hello\",outcome=\"true\"}", 1),
        ("runs_total{workflow=\"other\",outcome=\"false\"}", 2),
        ("runs_total{workflow=\"wait\",outcome=\"late\"}", 1),
        ("run_duration_seconds_count{workflow=\"other\"}", 2),
        (
            "node_runs_total{workflow=\"other\",node=\"1\",outcome=\"false\"}",
            2,
        ),
        (
            "node_runs_total{workflow=\"hello\",node=\"1\",outcome=\"true\"}",
            1,
        ),
    ] {
        assert_eq!(
            metric(&server, &format!("forebay_workflow_{name}")),
            count,
            "{name}"
        );
    }
}

#[test]
fn what_rules_log_is_in_a_file_of_their_workflow_and_can_be_followed() {
    let config = format!(
        "[workflow]\npath = \"flows\"\nlogs = \"logs\"\n[workflow.scenes.wait]\ntimeout = \"100ms\"\n{ROUTES}"
    );
    let talks = "console.warn('n is', context.getArgs().n);\nif (context.getArgs().n > 1) null.x;\nreturn new ScriptResult(true);";
    let server = rules_of(Setup::new(&config), &[("talks", talks), WAIT])
        .admin()
        .start();
    for (n, status) in [(1, 200), (2, 500)] {
        let body = json!({"n": n}).to_string();
        assert_eq!(server.post("/workflow/talks", body.as_bytes()).status, status);
    }
    assert_eq!(server.post("/workflow/wait", b"{}").status, 504);
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let texts = ["level", "target", "message"].map(|name| line[name].as_str().unwrap().to_owned());
        (
            texts,
            line["node"].clone(),
            line["stack"].as_str().map(str::to_owned),
        )
    };
    let path = server.folder().path().join("logs/talks.log");
    wait_until("three lines in the file", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 3)
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().map(line).collect();
    let texts = |level: &str, message: &str| [level, "talks", message].map(str::to_owned);
    assert_eq!(lines[0], (texts("WARN", "n is 1"), json!("1"), None));
    assert_eq!(lines[1].0, texts("WARN", "n is 2"));
    let failure = "TypeError: cannot read property 'x' of null";
    assert_eq!(
        (&lines[2].0, &lines[2].1),
        (&texts("ERROR", failure), &json!("1"))
    );
    assert!(lines[2].2.as_ref().unwrap().contains("talks.js:3:"));
    let asked = |words: &[&str]| stdout(&server.command(words));
    assert_eq!(asked(&["logs", "--workflow", "talks"]), text);
    let waits = asked(&["logs", "--workflow", "wait", "--level", "error"]);
    assert!(
        waits.lines().map(line).eq([(
            ["ERROR", "wait", "the run timed out (timeout)"].map(str::to_owned),
            Value::Null,
            None
        )]),
        "{waits}"
    );
}
