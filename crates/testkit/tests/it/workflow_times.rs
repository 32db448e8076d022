//! Nodes of workflows whose rules never yield the processor, and time limits of nodes.

use std::time::{Duration, Instant};

use forebay_testkit::{Server, Setup};
use serde_json::{Value, json};

use crate::workflows::{ROUTES, run};

/// Bodies of rules that never end in practice, at every place where they can occur.
const ENDLESS: [(&str, &str); 6] = [
    ("at-once", "while (true) {}"),
    ("later", "await 0; while (true) {}"),
    (
        "after-a-wait",
        "await new Promise((resolve) => setTimeout(resolve, 5)); while (true) {}",
    ),
    (
        "again-and-again",
        "for (let n = 0; n < 3; n++) Promise.resolve().then(() => { while (true) {} }); await new Promise(() => {});",
    ),
    (
        "in-a-callback",
        "setTimeout(() => { while (true) {} }); await new Promise(() => {});",
    ),
    (
        "in-its-result",
        "return new ScriptResult(true, { a: { toJSON() { while (true) {} } } });",
    ),
];

fn setup() -> Setup {
    let keys = "executors = 1\nengines_max = 2\ntimeout = \"20s\"";
    Setup::new(&format!("[workflow]\npath = \"flows\"\n{keys}\n{ROUTES}")).threads(1)
}

/// A graph of these nodes in sequence, the first of which begins.
fn chain(nodes: &[Value]) -> String {
    let ids = (0..nodes.len()).map(|id| id.to_string());
    let nodes = nodes.iter().zip(ids).map(|(node, id)| {
        let mut node = node.clone();
        node["id"] = json!(id);
        node
    });
    let nodes: Vec<_> = nodes.collect();
    let edge = |at: usize| json!({"from": at.to_string(), "to": (at + 1).to_string()});
    let edges: Vec<_> = (0..nodes.len() - 1).map(edge).collect();
    json!({"nodes": nodes, "edges": edges}).to_string()
}

fn rule(setup: Setup, name: &str, body: &str) -> Setup {
    let text = format!("async function process(context) {{ {body} }}\n");
    setup.file(&format!("flows/rules/{name}.js"), text)
}

fn timed(rule: &str) -> Value {
    json!({"@type": "PROCESS", "ruleId": rule, "timeoutMs": 100})
}

fn boot() -> Value {
    json!({"@type": "BOOT"})
}

/// The outcome of a workflow, and how long it took.
fn came(server: &Server, name: &str) -> ((u16, Value), Duration) {
    let begun = Instant::now();
    let answer = run(server, &format!("/workflow/{name}"), &json!({}));
    (answer, begun.elapsed())
}

#[test]
fn a_rule_without_end_is_stopped_when_the_time_of_its_node_is_over_and_the_run_goes_on() {
    let after = "const last = context.getLastResult(); return new ScriptResult(last.getState(), { ...last.getValueMap(), after: typeof left });";
    let mut setup = rule(setup(), "after", after);
    for (name, body) in ENDLESS {
        let mut standing_in = timed(name);
        standing_in["fallback"] = json!({"state": true, "valueMap": {"by": "nobody"}});
        let behind = json!({"@type": "RUN", "ruleId": "after"});
        setup = rule(setup, name, &format!("globalThis.left = 1; {body}"))
            .file(
                &format!("flows/{name}.json"),
                chain(&[boot(), standing_in, behind]),
            )
            .file(&format!("flows/{name}-fails.json"), chain(&[boot(), timed(name)]));
    }
    let server = setup.start();
    for (name, _) in ENDLESS {
        // The machine may be busy with others, but hardly each time.
        let mut quickest = Duration::MAX;
        for _ in 0..4 {
            let (answer, took) = came(&server, name);
            // Values that the rule has set remain until the run is over, as they would without its abort.
            let values = json!({"by": "nobody", "after": "number"});
            assert_eq!(
                answer,
                (200, json!({"state": true, "valueMap": values})),
                "{name}"
            );
            quickest = quickest.min(took);
        }
        assert!(quickest < Duration::from_millis(150), "{name}: {quickest:?}");
        let ((status, answer), _) = came(&server, &format!("{name}-fails"));
        assert_eq!(status, 500, "{name}");
        let told = "node `1` failed: its rule is not over after 100ms (timeoutMs)";
        assert_eq!(answer["detail"], told, "{name}");
    }
}

#[test]
fn nothing_is_left_of_a_run_whose_rule_was_stopped() {
    let looks = "return new ScriptResult(true, { left: typeof left, changed: 'left' in [] || JSON.parse('1') !== 1 });";
    let leaves = "globalThis.left = 1; try { Array.prototype.left = 1; JSON.parse = () => 2; } catch {} setInterval(() => { globalThis.left = 2; }, 1); while (true) {}";
    let server = rule(rule(setup(), "leaves", leaves), "looks", looks)
        .file("flows/leaves.json", chain(&[boot(), timed("leaves")]))
        .file(
            "flows/looks.json",
            chain(&[boot(), json!({"@type": "RUN", "ruleId": "looks"})]),
        )
        .start();
    for _ in 0..3 {
        assert_eq!(came(&server, "leaves").0.0, 500);
        let values = json!({"left": "undefined", "changed": false});
        let answer = came(&server, "looks").0;
        assert_eq!(answer, (200, json!({"state": true, "valueMap": values})));
    }
}

/// A graph whose branches run at the same time.
fn beside(join: &str, branches: &[Value]) -> String {
    let mut nodes = vec![boot(), json!({"@type": "PARALLEL", "join": join})];
    nodes.extend_from_slice(branches);
    for (id, node) in nodes.iter_mut().enumerate() {
        node["id"] = json!(id.to_string());
        node["priority"] = json!(id);
    }
    let mut edges = vec![json!({"from": "0", "to": "1"})];
    edges.extend((2..nodes.len()).map(|to| json!({"from": "1", "to": to.to_string()})));
    json!({"nodes": nodes, "edges": edges}).to_string()
}

#[test]
fn rules_that_block_run_beside_each_other_and_outlast_one_that_is_stopped() {
    let keys = "executors = 1\ncompat = \"rengine\"\ntimeout = \"20s\"\nmemory_max = \"16MiB\"\nallow = { process = [\"/bin/sh\"] }";
    let execute = |script: &str| {
        format!("new ScriptProcessClient().execute('/bin/sh', ['-c', '{script}']).stdout.trim()")
    };
    let bodies = [
        (
            "slow",
            format!(
                "return new ScriptResult(true, {{ slow: {} }});",
                execute("sleep 600")
            ),
        ),
        (
            "quick",
            format!(
                "return new ScriptResult(true, {{ quick: {} }});",
                execute("echo 1")
            ),
        ),
        (
            "blocks",
            format!(
                "return new ScriptResult(true, {{ blocks: {} }});",
                execute("sleep 0.3; echo 2")
            ),
        ),
        // Half of the memory of an engine is in use while it waits.
        (
            "large",
            format!(
                "const kept = 'x'.repeat(9 << 20) + Date.now(); const told = {}; return new ScriptResult(kept.length > 1, {{ told }});",
                execute("sleep 0.1; echo 3")
            ),
        ),
        (
            "caught",
            format!(
                "try {{ {}; }} catch (e) {{ return new ScriptResult(true, {{ code: e.code }}); }}",
                "new ScriptProcessClient().execute('/bin/no')"
            ),
        ),
        ("endless", "while (true) {}".to_owned()),
    ];
    let setup = Setup::new(&format!("[workflow]\npath = \"flows\"\n{keys}\n{ROUTES}")).threads(1);
    let setup = bodies.iter().fold(setup, |setup, (name, body)| {
        // A rule that is asynchronous awaits its clients instead.
        let (kind, body) = match *name {
            "slow" | "quick" => (
                "async ",
                body.replace("new ScriptProcessClient", "(await new ScriptProcessClient")
                    .replace("]).stdout", "])).stdout"),
            ),
            _ => ("", body.clone()),
        };
        setup.file(
            &format!("flows/rules/{name}.js"),
            format!("{kind}function process(context) {{ {body} }}\n"),
        )
    });
    let runs = |rule: &str| json!({"@type": "RUN", "ruleId": rule});
    let mut endless = timed("endless");
    endless["fallback"] = json!({"state": true, "valueMap": {"endless": 0}});
    let mut late = runs("slow");
    late["timeoutMs"] = json!(200);
    late["fallback"] = json!({"state": true, "valueMap": {"late": 0}});
    let server = setup
        .file("flows/any.json", beside("ANY", &[runs("slow"), runs("quick")]))
        .file("flows/all.json", beside("ALL", &[runs("blocks"), endless, late]))
        .file("flows/large.json", chain(&[boot(), runs("large")]))
        .file("flows/caught.json", chain(&[boot(), runs("caught")]))
        .start();
    for _ in 0..3 {
        let (answer, took) = came(&server, "any");
        assert_eq!(answer.0, 200, "{answer:?}");
        assert!(answer.1.to_string().contains("\"quick\":\"1\""), "{answer:?}");
        assert!(took < Duration::from_secs(10), "{took:?}");
        let (answer, _) = came(&server, "all");
        let values = json!({"2": {"blocks": "2"}, "3": {"endless": 0}, "4": {"late": 0}});
        assert_eq!(answer, (200, json!({"state": true, "valueMap": values})));
        let (answer, _) = came(&server, "large");
        assert_eq!(answer, (200, json!({"state": true, "valueMap": {"told": "3"}})));
        let (answer, _) = came(&server, "caught");
        assert_eq!(
            answer,
            (200, json!({"state": true, "valueMap": {"code": "not_allowed"}}))
        );
    }
    assert!(!server.log().contains("nobody handles it"), "{}", server.log());
}

#[test]
fn rules_beside_one_that_is_stopped_go_on() {
    let busy = "const until = Date.now() + 250; while (Date.now() < until) {} await 0; return new ScriptResult(true, { busy: 1 });";
    let waits = "await new Promise((resolve) => setTimeout(resolve, 200)); return new ScriptResult(true, { waited: 1 });";
    let setup = [
        ("busy", busy),
        ("waits", waits),
        ("endless", "await 0; while (true) {}"),
    ]
    .into_iter()
    .fold(setup(), |setup, (name, body)| rule(setup, name, body));
    let mut endless = timed("endless");
    endless["fallback"] = json!({"state": true, "valueMap": {"endless": 0}});
    let graph = beside(
        "ALL",
        &[
            endless,
            json!({"@type": "RUN", "ruleId": "busy"}),
            json!({"@type": "RUN", "ruleId": "waits"}),
        ],
    );
    let server = setup.file("flows/beside.json", graph).start();
    for _ in 0..3 {
        let (answer, _) = came(&server, "beside");
        let values = json!({"2": {"endless": 0}, "3": {"busy": 1}, "4": {"waited": 1}});
        assert_eq!(answer, (200, json!({"state": true, "valueMap": values})));
    }
}

#[test]
fn a_rule_that_was_stopped_is_tried_again_and_a_rule_stands_in_for_it() {
    let tries = "const args = context.getArgs(); args.tries = (args.tries ?? 0) + 1; if (args.tries < 3) while (true) {} return new ScriptResult(true, { tries: args.tries });";
    let nodes = |first: Value| chain(&[boot(), first, timed("tries")]);
    let server = rule(
        rule(setup(), "tries", tries),
        "stands-in",
        "return new ScriptResult(true, { by: 'another' });",
    )
    .file(
        "flows/retry.json",
        nodes(json!({"@type": "RETRY", "attempts": 3, "delayMs": 1})),
    )
    .file(
        "flows/failback.json",
        nodes(json!({"@type": "FAILBACK", "ruleId": "stands-in"})),
    )
    .start();
    for (name, values) in [
        ("retry", json!({"tries": 3})),
        ("failback", json!({"by": "another"})),
    ] {
        let (answer, _) = came(&server, name);
        assert_eq!(
            answer,
            (200, json!({"state": true, "valueMap": values})),
            "{name}"
        );
    }
}

/// A decision of one table, whose row matches where this expression is true.
fn table(condition: &str) -> String {
    let content = json!({
        "hitPolicy": "first",
        "inputs": [{"id": "i", "name": "is", "field": ""}],
        "outputs": [{"id": "o", "name": "found", "field": "found"}],
        "rules": [{"_id": "1", "i": condition, "o": "true"}, {"_id": "2", "i": "", "o": "false"}],
    });
    json!({
        "nodes": [
            {"id": "in", "name": "in", "type": "inputNode"},
            {"id": "table", "name": "table", "type": "decisionTableNode", "content": content},
            {"id": "out", "name": "out", "type": "outputNode"},
        ],
        "edges": [
            {"id": "1", "sourceId": "in", "targetId": "table"},
            {"id": "2", "sourceId": "table", "targetId": "out"},
        ],
    })
    .to_string()
}

#[test]
fn loops_of_a_decision_end_with_the_time_of_the_run() {
    let search = "some(items, contains(text, needle))";
    let keys = "executors = 1\nengines_max = 2\ntimeout = \"1s\"";
    let server = Setup::new(&format!("[workflow]\npath = \"flows\"\n{keys}\n{ROUTES}"))
        .threads(1)
        .admin()
        .file("flows/search.json", table(search))
        .start();
    let (text, items): (_, Vec<u32>) = ("a".repeat(800_000), (0..20_000).collect());
    let asked = |needle: &str| json!({"text": text, "needle": needle, "items": items});
    let needle = format!("{}b", "a".repeat(1000));
    let (status, problem) = run(&server, "/workflow/search", &asked(&needle));
    assert_eq!(status, 504, "{problem}");
    // The only thread has finished with it.
    let (status, answer) = run(&server, "/workflow/search", &asked("a"));
    assert_eq!((status, &answer["result"]), (200, &json!({"found": true})));
    let metrics = server.admin().get("/metrics").text().to_owned();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("forebay_script_threads_given_up_total"));
    assert!(line.is_some_and(|line| line.ends_with(" 0")), "{metrics}");
}
