//! Graphs of rules over HTTP: by name, and as Rengine's requests name them.

use forebay_testkit::{Server, Setup};
use serde_json::{Value, json};

use crate::support::metric;

pub(crate) const ROUTES: &str = "[[route]]\npath = \"/workflow/*\"\nworkflow = {}\n[[route]]\npath = \"/execute/internal/workflow\"\nworkflow = {}\n";

fn setup(keys: &str) -> Setup {
    Setup::new(&format!("[workflow]\npath = \"flows\"\n{keys}\n{ROUTES}")).threads(1)
}

/// A graph of rules in sequence.
fn chain(rules: &[&str]) -> String {
    let mut nodes = vec![json!({"@type": "BOOT", "id": "0"})];
    let mut edges = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        nodes.push(json!({"@type": "PROCESS", "id": (at + 1).to_string(), "ruleId": rule}));
        edges.push(json!({"from": at.to_string(), "to": (at + 1).to_string()}));
    }
    json!({"nodes": nodes, "edges": edges, "attributes": {"unit": "points"}}).to_string()
}

fn rule(body: &str) -> String {
    format!("function process(context) {{\n{body}\n}}\n")
}

/// Graphs of one rule each, with these names and bodies.
pub(crate) fn rules(keys: &str, rules: &[(&str, &str)]) -> Setup {
    rules_of(setup(keys), rules)
}

pub(crate) fn rules_of(setup: Setup, rules: &[(&str, &str)]) -> Setup {
    rules.iter().fold(setup, |setup, (name, body)| {
        setup
            .file(&format!("flows/{name}.json"), chain(&[name]))
            .file(&format!("flows/rules/{name}.js"), rule(body))
    })
}

pub(crate) fn run(server: &Server, target: &str, args: &Value) -> (u16, Value) {
    let response = server.post(target, args.to_string().as_bytes());
    (response.status, response.json())
}

/// Runs a workflow that fails; returns what the log says about it.
pub(crate) fn logged_failure(server: &Server, target: &str, args: &Value) -> String {
    let (status, answer) = run(server, target, args);
    assert_eq!(status, 500, "{answer}");
    let id = answer["request_id"]
        .as_str()
        .expect("problems have the request's id");
    let line = server.wait_for_log(&["forebay::workflow", id]);
    let line: Value = serde_json::from_str(&line).expect("the log is JSON");
    line["message"].as_str().unwrap_or_default().to_owned()
}

fn scenes(server: &Server, members: &Value) -> (u16, Value) {
    let mut request = json!({"requestId": "r1", "clientId": "c", "clientSecret": "s"});
    for (name, value) in members.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    run(server, "/execute/internal/workflow", &request)
}

#[test]
fn a_workflow_is_run_by_its_name_with_the_arguments_as_the_body() {
    let server = setup("")
        .file("flows/score.json", chain(&["first", "second"]))
        .file(
            "flows/rules/first.js",
            rule("console.warn('n is', context.getArgs().n);\nreturn new ScriptResult(true, { sum: context.getArgs().n + 1 });"),
        )
        .file("flows/rules/second/lib.js", "const twice = (n) => 2 * n;")
        .file(
            "flows/rules/second/index.js",
            rule("const { sum } = context.getLastResult().getValueMap();\nreturn new ScriptResult(sum > 3, { points: twice(sum), unit: context.getAttributes().unit });"),
        )
        .start();
    let values = json!({"points": 12, "unit": "points"});
    assert_eq!(
        run(&server, "/workflow/score", &json!({"n": 5})),
        (200, json!({"state": true, "valueMap": values}))
    );
    assert_eq!(
        run(&server, "/workflow/score", &json!({"n": 1})),
        (
            200,
            json!({"state": false, "valueMap": {"points": 4, "unit": "points"}})
        )
    );
    let (status, traced) = run(&server, "/workflow/score?trace", &json!({"n": 5}));
    assert_eq!(status, 200);
    let steps = traced["trace"].as_array().unwrap();
    let nodes: Vec<_> = steps
        .iter()
        .map(|step| (&step["node"], &step["kind"], &step["valueMap"]))
        .collect();
    assert_eq!(
        nodes,
        [
            (&json!("1"), &json!("PROCESS"), &values),
            (&json!("2"), &json!("PROCESS"), &values)
        ]
    );
    let line = &traced["logs"][0];
    assert_eq!(
        (&line["level"], &line["message"]),
        (&json!("warn"), &json!("n is 5"))
    );
}

#[test]
fn requests_that_cannot_be_run_are_told_why() {
    let server = rules(
        "",
        &[("good", "return new ScriptResult(true);"), ("bad", "null.x;")],
    )
    .start();
    for (target, body, status, detail) in [
        ("/workflow/none", "{}", 404, "there is no workflow `none`"),
        (
            "/workflow/good",
            "1",
            400,
            "the body is not a JSON object of arguments: it is another value",
        ),
        (
            "/workflow/good",
            "{\"a\":",
            400,
            "the body is not a JSON object of arguments: EOF",
        ),
        (
            "/workflow/good?trace=maybe",
            "{}",
            400,
            "query parameter \"trace\": it is `true`, `false` or without a value",
        ),
        (
            "/workflow/good?tracing",
            "{}",
            400,
            "query parameter \"tracing\": there are `trace` and `release`",
        ),
        (
            "/workflow/bad",
            "{}",
            500,
            "node `1` failed: TypeError: cannot read property 'x' of null",
        ),
    ] {
        let response = server.post(target, body.as_bytes());
        assert_eq!(response.status, status, "{target} {body}");
        let told = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(told.starts_with(detail), "{target} {body}: {told}");
    }
    assert_eq!(server.get("/workflow/good").status, 405);
    server.wait_for_log(&["node `1` failed: TypeError", "bad.js:2:"]);
    // Without a body there are no arguments.
    assert_eq!(
        server.post("/workflow/good", b"").json(),
        json!({"state": true, "valueMap": {}})
    );
}

#[test]
fn scenes_are_run_together_and_each_has_its_result() {
    let server = rules(
        "",
        &[
            ("a", "return new ScriptResult(true, { of: context.getArgs().user, client: context.getParameter().getClientId(), id: context.getParameter().getTraceId() });"),
            ("b", "return new ScriptResult(false, { b: 1 });"),
            ("c", "throw new RangeError('too far');"),
        ],
    )
    .start();
    let (status, answer) = scenes(
        &server,
        &json!({"scenesCodes": ["a", "b"], "args": {"user": "u"}}),
    );
    assert_eq!(status, 200);
    assert!(
        answer["timestamp"]
            .as_u64()
            .is_some_and(|ms| ms > 1_700_000_000_000)
    );
    let result = |code: &str, values: Value| json!({"scenesCode": code, "success": true, "valueMap": values, "reason": null});
    let a = result("a", json!({"of": "u", "client": "c", "id": "r1"}));
    let expected = json!({
        "code": 200, "status": "SUCCESS", "requestId": "r1", "timestamp": answer["timestamp"], "message": "Ok",
        "data": {"requestId": "r1", "results": [a, result("b", json!({"b": 1}))], "description": "All executed successfully"},
    });
    assert_eq!(answer, expected);
    let failed =
        json!({"scenesCode": "c", "success": false, "valueMap": null, "reason": "RangeError: too far"});
    let (_, answer) = scenes(&server, &json!({"scenesCodes": ["c", "nowhere", "b"]}));
    assert_eq!(answer["status"], "PART_SUCCESS");
    assert_eq!(answer["data"]["description"], "There are failed executions");
    assert_eq!(
        answer["data"]["results"],
        json!([failed, {"scenesCode": "nowhere", "success": false, "valueMap": null, "reason": "there is no workflow `nowhere`"},
            result("b", json!({"b": 1}))])
    );
    let (status, traced) = run(&server, "/workflow/c?trace", &json!({}));
    assert_eq!((status, &traced["logs"]), (500, &json!([])), "{traced}");
    assert_eq!(traced["trace"][0]["error"], "RangeError: too far", "{traced}");
    let (status, answer) = scenes(&server, &json!({"scenesCodes": ["a", "nowhere"]}));
    assert_eq!(
        (status, &answer["status"], &answer["data"]["description"]),
        (200, &json!("PART_SUCCESS"), &json!("There are failed executions"))
    );
    let (status, answer) = scenes(&server, &json!({"scenesCodes": ["c"]}));
    assert_eq!(
        (
            status,
            &answer["code"],
            &answer["status"],
            &answer["data"]["results"]
        ),
        (500, &json!(500), &json!("FAILED"), &json!([failed]))
    );
}

/// An object nested this deep.
fn nested(depth: usize) -> Value {
    (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
}

#[test]
fn requests_of_rengine_that_lack_something_are_refused() {
    let members = json!({"requestId": "r1", "clientId": "c", "clientSecret": "s", "scenesCodes": ["a"]});
    for (keys, rengine) in [("", false), ("compat = \"rengine\"", true)] {
        let server = rules(keys, &[("a", "return new ScriptResult(true);")]).start();
        for (member, value, code, message) in [
            (
                "requestId",
                json!(null),
                400,
                "`requestId` is missing: text that is not blank",
            ),
            (
                "clientId",
                json!(" "),
                400,
                "`clientId` is missing: text that is not blank",
            ),
            (
                "clientSecret",
                json!(null),
                400,
                "`clientSecret` is missing: text that is not blank",
            ),
            (
                "scenesCodes",
                json!([]),
                400,
                "`scenesCodes` has 0 entries: 1 to 100 names of workflows",
            ),
            (
                "scenesCodes",
                json!(["x", "y"]),
                404,
                "there is no workflow `x`, `y`",
            ),
            (
                "timeout",
                json!(0),
                400,
                "`timeout` is 0: milliseconds, more than 0",
            ),
            ("args", json!([1]), 400, "`args` is another value than an object"),
            (
                "args",
                nested(200),
                400,
                "`args` is nested deeper than 128 levels",
            ),
            (
                "timeout",
                json!("5"),
                400,
                "`timeout`: invalid type: string \"5\", expected i64",
            ),
            ("args", json!(null), 200, "Ok"),
        ] {
            let mut request = members.clone();
            request[member] = value;
            let (status, answer) = run(&server, "/execute/internal/workflow", &request);
            assert_eq!(status, if rengine { 200 } else { code }, "{member}");
            assert_eq!(
                (&answer["code"], &answer["message"]),
                (&json!(code), &json!(message)),
                "{member}"
            );
        }
        let response = server.post("/execute/internal/workflow", b"{\"requestId\":");
        assert_eq!(response.status, if rengine { 200 } else { 400 });
        assert_eq!(response.json()["code"], 400);
    }
}

#[test]
fn runs_that_take_too_long_are_stopped_and_those_beside_them_are_told() {
    let server = rules(
        "timeout = \"300ms\"\nexecutors = 1",
        &[
            ("spin", "for (;;) {}"),
            ("wait", "return new Promise(() => {});"),
            ("quick", "return new ScriptResult(true, { a: 1 });"),
        ],
    )
    .start();
    for name in ["spin", "wait"] {
        let (status, problem) = run(&server, &format!("/workflow/{name}"), &json!({}));
        assert_eq!(status, 504, "{name}: {problem}");
        assert_eq!(run(&server, "/workflow/quick", &json!({})).0, 200);
    }
    let (status, answer) = scenes(
        &server,
        &json!({"scenesCodes": ["quick", "wait"], "timeout": 100}),
    );
    assert_eq!((status, &answer["status"]), (200, &json!("PART_SUCCESS")));
    assert_eq!(answer["data"]["results"][0]["valueMap"], json!({"a": 1}));
    assert_eq!(
        answer["data"]["results"][1]["reason"],
        "Execution time exceeded in 100ms"
    );
}

#[test]
fn more_runs_than_may_wait_are_refused_at_once() {
    let server = rules(
        "executors = 1\nengines_max = 1\naccept_queue_max = 2\ntimeout = \"20s\"",
        &[("wait", "return new Promise(() => {});")],
    )
    .admin()
    .start();
    let mut waiting: Vec<_> = (0..2)
        .map(|_| {
            let mut client = server.connect();
            client.post("/workflow/wait", b"{}");
            client
        })
        .collect();
    forebay_testkit::wait_until("one run to wait for the engine of the other", || {
        metric(&server, "forebay_script_queue_calls{script=\"(workflow)\"}") == 1
    });
    let refused = server.post("/workflow/wait", b"{}");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    let (status, answer) = scenes(&server, &json!({"scenesCodes": ["wait"]}));
    assert_eq!((status, &answer["code"]), (503, &json!(503)));
    // A client that leaves frees its slot.
    waiting.clear();
    forebay_testkit::wait_until("their leaving to be seen", || {
        metric(
            &server,
            "forebay_script_calls_cancelled_total{script=\"(workflow)\"}",
        ) == 2
    });
}

#[test]
fn a_reload_brings_new_graphs_and_rules_and_leaves_the_old_where_they_are_wrong() {
    let server = rules("", &[("a", "return new ScriptResult(true, { v: 1 });")]).start();
    let value = || run(&server, "/workflow/a", &json!({})).1["valueMap"]["v"].clone();
    assert_eq!(value(), 1);
    let write = |body: &str| server.folder().write("flows/rules/a.js", rule(body));
    write("return new ScriptResult(true, { v: 2 });");
    server.hang_up();
    forebay_testkit::wait_until("the new rule to answer", || value() == 2);
    write("return (;");
    server.hang_up();
    server.wait_for_log(&["a.js:2:", "SyntaxError"]);
    assert_eq!(value(), 2);
}

#[test]
fn a_rule_is_run_alone_by_its_name() {
    let route = "[[route]]\npath = \"/execute/internal/rulescript\"\nworkflow = { api = \"rulescript\" }\n";
    let server = setup(route)
        .file(
            "flows/rules/42.js",
            rule("if (context.getArgs().n > 9) throw new RangeError('too far');\nreturn new ScriptResult(true, { n: context.getArgs().n + 1, kind: context.getType() });"),
        )
        .start();
    let ask = |members: Value| {
        let mut request = json!({"requestId": "r1", "clientId": "c", "clientSecret": "s"});
        request
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        run(&server, "/execute/internal/rulescript", &request)
    };
    for rule in [json!(42), json!("42")] {
        let (status, answer) = ask(json!({"ruleScriptId": rule, "engine": "JS", "args": {"n": 1}}));
        assert_eq!((status, &answer["status"]), (200, &json!("SUCCESS")));
        let data = json!({"success": true, "valueMap": {"n": 2, "kind": "PROCESS"}, "reason": null});
        assert_eq!(answer["data"], data);
    }
    let (status, answer) = ask(json!({"ruleScriptId": 42, "args": {"n": 10}}));
    assert_eq!((status, &answer["status"]), (500, &json!("FAILED")));
    assert_eq!(
        answer["data"],
        json!({"success": false, "valueMap": null, "reason": "RangeError: too far"})
    );
    for (members, code, message) in [
        (json!({"ruleScriptId": 7}), 404, "there is no rule `7`"),
        (json!({}), 400, "`ruleScriptId` is missing: the name of a rule"),
        (
            json!({"ruleScriptId": 42, "engine": "GROOVY"}),
            400,
            "`engine` is GROOVY: rules are written for JS",
        ),
    ] {
        let (status, answer) = ask(members);
        assert_eq!(
            (status, &answer["code"], &answer["message"]),
            (code, &json!(code), &json!(message))
        );
    }
}

#[test]
fn rules_use_files_of_the_folders_that_are_allowed() {
    let server = setup("allow = { files = [\"data\"] }")
        .file("data/rates.csv", "DE;0.19\n")
        .file("secret.txt", "secret")
        .file("flows/read.json", chain(&["read"]))
        .file(
            "flows/rules/read.js",
            rule("return new ScriptResult(true, { text: Files.readToString(context.getArgs().path) });"),
        )
        .start();
    let read = |path: &str| run(&server, "/workflow/read", &json!({"path": path}));
    assert_eq!(read("rates.csv").1["valueMap"], json!({"text": "DE;0.19\n"}));
    for path in ["../secret.txt", "/etc/hostname", "none.csv"] {
        assert_eq!(read(path).0, 500, "{path}");
    }
}

/// A decision that looks a rate up, has a function round the fee, and ends.
fn decision(function: &str) -> String {
    json!({
        "nodes": [
            {"id": "in", "name": "request", "type": "inputNode"},
            {"id": "rate", "name": "rate", "type": "decisionTableNode", "content": {
                "hitPolicy": "first",
                "passThrough": true,
                "inputs": [{"id": "i", "name": "country", "field": "country"}],
                "outputs": [{"id": "o", "name": "rate", "field": "rate"}],
                "rules": [{"_id": "1", "i": "\"DE\"", "o": "0.19"}, {"_id": "2", "i": "", "o": "0.2"}],
            }},
            {"id": "round", "name": "round", "type": "functionNode", "content": {"source": function}},
            {"id": "out", "name": "response", "type": "outputNode"},
        ],
        "edges": [
            {"id": "1", "sourceId": "in", "targetId": "rate", "type": "edge"},
            {"id": "2", "sourceId": "rate", "targetId": "round", "type": "edge"},
            {"id": "3", "sourceId": "round", "targetId": "out", "type": "edge"},
        ],
    })
    .to_string()
}

#[test]
fn decisions_of_gorules_are_evaluated_and_call_their_functions() {
    let round = "export const handler = async (input: { amount: number; rate: number }) => {\n  console.log('rate', input.rate);\n  return { fee: Math.round(input.amount * input.rate) };\n};\n";
    let throws = "export const handler = (input) => {\n  return input.none.at;\n};\n";
    let server = setup("")
        .file("flows/fee.json", decision(round))
        .file("flows/broken.json", decision(throws))
        .file(
            "flows/order.json",
            graph(
                &[
                    json!({"@type": "SUBFLOW", "id": "1", "workflow": "fee"}),
                    json!({"@type": "PROCESS", "id": "2", "ruleId": "next"}),
                    json!({"@type": "SUBFLOW", "id": "3", "workflow": "fee"}),
                    json!({"@type": "RUN", "id": "4", "ruleId": "total"}),
                ],
                &[("0", "1"), ("1", "2"), ("2", "3"), ("3", "4")],
            ),
        )
        .file(
            "flows/rules/next.js",
            rule("const { fee } = context.getLastResult().getValueMap();\ncontext.getArgs().first = fee;\nreturn new ScriptResult(true, { country: 'FR', amount: 1010 });"),
        )
        .file(
            "flows/rules/total.js",
            rule("const { fee } = context.getLastResult().getValueMap();\nreturn new ScriptResult(true, { total: fee, first: context.getArgs().first });"),
        )
        .start();
    let (status, answer) = run(&server, "/workflow/fee", &json!({"country": "DE", "amount": 101}));
    assert_eq!((status, &answer["result"]), (200, &json!({"fee": 19})));
    assert!(
        answer["performance"].is_string() && answer.get("trace").is_none(),
        "{answer}"
    );
    let (_, answer) = run(
        &server,
        "/workflow/fee?trace",
        &json!({"country": "FR", "amount": 101}),
    );
    assert_eq!(answer["result"], json!({"fee": 20}));
    assert_eq!(answer["trace"]["rate"]["output"]["rate"], 0.2);
    assert_eq!(answer["logs"][0]["message"], "rate 0.2");
    assert_eq!(
        (&answer["logs"][0]["node"], &answer["logs"][0]["name"]),
        (&json!("round"), &json!("round"))
    );
    // Within a graph: applied to the arguments, or to the result of the rule before it.
    let (status, answer) = run(
        &server,
        "/workflow/order",
        &json!({"country": "FR", "amount": 10}),
    );
    assert_eq!(
        (status, &answer),
        (
            200,
            &json!({"state": true, "valueMap": {"total": 202, "first": 2}})
        )
    );
    let (status, problem) = run(&server, "/workflow/broken", &json!({"country": "DE"}));
    assert_eq!(status, 500);
    assert_eq!(
        problem["detail"],
        "node `round` failed: TypeError: cannot read property 'at' of undefined"
    );
    server.wait_for_log(&["broken.json: node `round`:2:"]);
    let (_, answer) = scenes(
        &server,
        &json!({"scenesCodes": ["fee"], "args": {"country": "DE", "amount": 100}}),
    );
    assert_eq!(answer["data"]["results"][0]["valueMap"], json!({"fee": 19}));
}

/// A graph of these nodes after BOOT, and these edges; `0` is BOOT.
fn graph(nodes: &[Value], edges: &[(&str, &str)]) -> String {
    let mut all = vec![json!({"@type": "BOOT", "id": "0"})];
    all.extend_from_slice(nodes);
    let edges: Vec<_> = edges
        .iter()
        .map(|(from, to)| json!({"from": from, "to": to}))
        .collect();
    json!({"nodes": all, "edges": edges}).to_string()
}

#[test]
fn branches_that_are_not_needed_any_more_do_not_begin() {
    let node = |id: &str, rule: &str| json!({"@type": "RUN", "id": id, "ruleId": rule});
    let parallel = |id: &str, join: &str| json!({"@type": "PARALLEL", "id": id, "join": join});
    let any = graph(
        &[parallel("p", "ANY"), node("1", "yes"), node("2", "spin")],
        &[("0", "p"), ("p", "1"), ("p", "2")],
    );
    // The inner ones each let others go first.
    let nested = graph(
        &[
            parallel("p", "ALL"),
            parallel("q", "ALL"),
            parallel("r", "ALL"),
            node("1", "later"),
            node("2", "later"),
            node("3", "yes"),
        ],
        &[
            ("0", "p"),
            ("p", "q"),
            ("p", "r"),
            ("p", "3"),
            ("q", "1"),
            ("r", "2"),
        ],
    );
    let server = setup("timeout = \"3s\"")
        .file("flows/any.json", any)
        .file("flows/nested.json", nested)
        .file("flows/rules/yes.js", rule("console.log('yes');\nreturn new ScriptResult(true, { a: 1 });"))
        .file("flows/rules/spin.js", rule("for (;;) {}"))
        .file(
            "flows/rules/later.js",
            rule("console.log('later');\nreturn new Promise((resolve) => setTimeout(resolve, 1)).then(() => new ScriptResult(true));"),
        )
        .start();
    let (status, answer) = run(&server, "/workflow/any", &json!({}));
    assert_eq!((status, &answer["valueMap"]), (200, &json!({"a": 1})));
    let (status, answer) = run(&server, "/workflow/nested?trace", &json!({}));
    assert_eq!(
        (status, &answer["valueMap"]),
        (200, &json!({"q": {"1": {}}, "r": {"2": {}}, "3": {"a": 1}}))
    );
    let lines: Vec<_> = answer["logs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| &line["message"])
        .collect();
    assert_eq!(lines, ["later", "later", "yes"]);
}

#[test]
fn loops_without_rules_end_with_their_time_and_results_are_bounded() {
    let around = |over: &str, id: &str| json!({"@type": "LOOP", "id": id, "over": over});
    let empty = graph(
        &[
            around("args.a", "1"),
            around("args.a", "2"),
            around("args.a", "3"),
            around("args.b", "4"),
            json!({"@type": "RUN", "id": "5", "ruleId": "echo"}),
        ],
        &[("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")],
    );
    let echo = graph(
        &[
            around("args.a", "1"),
            json!({"@type": "RUN", "id": "5", "ruleId": "echo"}),
        ],
        &[("0", "1"), ("1", "5")],
    );
    let failback = graph(
        &[
            json!({"@type": "FAILBACK", "id": "1", "ruleId": "echo"}),
            json!({"@type": "RUN", "id": "2", "ruleId": "bad"}),
        ],
        &[("0", "1"), ("1", "2")],
    );
    let server = setup("timeout = \"500ms\"\noutput_max = \"64KiB\"\nexecutors = 1")
        .file("flows/empty.json", empty)
        .file("flows/echo.json", echo)
        .file("flows/failback.json", failback)
        .file(
            "flows/rules/echo.js",
            rule("return new ScriptResult(true, { item: context.getItem() });"),
        )
        .file("flows/rules/bad.js", rule("null.x;"))
        .start();
    let many: Vec<u32> = (0..5000).collect();
    let (status, problem) = run(&server, "/workflow/empty", &json!({"a": many, "b": []}));
    assert_eq!(status, 504, "{problem}");
    // The only thread has finished with it.
    assert_eq!(run(&server, "/workflow/echo", &json!({"a": [1]})).0, 200);
    let long: Vec<String> = vec!["x".repeat(1000); 100];
    let (status, problem) = run(&server, "/workflow/echo", &json!({"a": long}));
    assert_eq!(status, 500);
    assert_eq!(
        problem["detail"],
        "node `5` failed: the rules of this run have given more than 65536 bytes (output_max)"
    );
    // Paths are not accessible to clients.
    let (status, answer) = run(&server, "/workflow/failback?trace", &json!({}));
    assert_eq!(status, 200);
    assert_eq!(
        answer["trace"][1]["error"],
        "TypeError: cannot read property 'x' of null"
    );
    assert!(!answer.to_string().contains("bad.js"), "{answer}");
}

/// `examples/workflows`, unchanged.
fn example() -> Server {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows");
    let read = |path: &std::path::Path| {
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut setup = Setup::new(&read(&folder.join("forebay.toml"))).threads(1);
    for inner in ["workflows", "workflows/rules"] {
        for entry in std::fs::read_dir(folder.join(inner))
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.path().is_file() {
                let name = entry.file_name().into_string().unwrap_or_default();
                setup = setup.file(&format!("{inner}/{name}"), read(&entry.path()));
            }
        }
    }
    setup.start()
}

#[test]
fn the_example_answers_as_it_says() {
    let server = example();
    let readme = include_str!("../../../../examples/workflows/README.md");
    for (target, body) in [
        ("/workflow/hello", r#"{"name":"Ada"}"#),
        (
            "/workflow/promotion",
            r#"{"userId":"u1","date":"2026-11-20","recharge":150}"#,
        ),
    ] {
        let response = server.post(target, body.as_bytes());
        let told = format!(
            "$ curl -d '{body}' http://127.0.0.1:8080{target}\n{}\n",
            response.text()
        );
        assert!(readme.contains(&told), "{told}");
    }
    let rules = |answer: &Value| -> Vec<String> {
        let steps = answer["trace"].as_array().into_iter().flatten();
        let mut ran: Vec<_> = steps
            .filter(|step| step["kind"] != "LOGICAL" && step["kind"] != "FAILBACK")
            .map(|step| {
                (
                    step["beganMs"].as_f64(),
                    step["node"].as_str().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        ran.sort_by(|a, b| a.0.partial_cmp(&b.0).expect("times are numbers"));
        ran.into_iter().map(|(_, node)| node).collect()
    };
    let all = json!({"userId": "u1", "date": "2026-11-20", "recharge": 150});
    let (_, answer) = run(&server, "/workflow/promotion?trace", &all);
    assert_eq!(rules(&answer), ["11", "21", "51", "61", "71", "53", "54", "63"]);
    let (_, answer) = run(
        &server,
        "/workflow/promotion",
        &json!({"userId": "u1", "date": "2026-12-20", "recharge": 150}),
    );
    assert_eq!(answer["state"], false);
}

#[test]
fn the_benchmark_of_rengine_has_its_answer_and_each_run_keys_of_its_own() {
    let server = example();
    let request = include_bytes!("../../../../examples/workflows/benchmark1.json");
    let response = server.post("/execute/internal/workflow", request);
    assert_eq!(
        (response.status, response.body.len()),
        (200, 692),
        "{}",
        response.text()
    );
    let answer = response.json();
    assert_eq!(answer["status"], "SUCCESS");
    let values = &answer["data"]["results"][0]["valueMap"];
    for (name, value) in [
        ("codingResult", "75M7MfQsC4p2rUNe7dDjXK"),
        (
            "hashingResult",
            "z/EfkNDTK/okjQ+jyOQ+vI22o9zFjK38cTtL9r9sEy1a5thhkF4b9sr6LZdR1yE4wIPwNIzApzX7mBcKg0nT+Q==",
        ),
        ("aesResult", "abcdefghijklmnopqrstuvwxyz"),
        ("rsaResult", "abcdefghijklmnopqrstuvwxyz"),
    ] {
        assert_eq!(values[name], value, "{name}");
    }
    let keys: std::collections::HashSet<String> = (0..8)
        .map(|_| {
            let (_, answer) = run(&server, "/workflow/test_script_sdk_example?trace", &json!({}));
            let lines = answer["logs"].as_array().into_iter().flatten();
            let mut lines = lines.filter_map(|line| line["message"].as_str());
            lines
                .find(|line| line.starts_with("RSA public key: "))
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(keys.len(), 8);
    assert!(keys.iter().all(|key| key.len() > 200), "{keys:?}");
}
