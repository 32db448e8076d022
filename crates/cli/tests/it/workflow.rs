//! `forebay workflow`: releases, runs without a server, tests, differences, collections of Rengine.

use std::process::Stdio;

use forebay_testkit::Folder;
use serde_json::{Value, json};

use crate::run::{Ended, ended, forebay, run};

const STORE: &str = "[store]\npath = \"data\"\n[workflow]\nstore = \"Workflow\"\n";
const FOLDER: &str = "[workflow]\npath = \"flows\"\n";

const BELOW: &str = "function process(context) {\n  const { amount } = context.getArgs();\n  console.warn('amount', amount);\n  if (amount === undefined) throw new Error('no amount');\n  return new ScriptResult(amount < 100, { amount });\n}\n";
const APPROVE: &str = "export const limit = 1;\n";

/// A folder with this configuration, and `flows` with a graph of two nodes, its rules and two tests.
fn folder(config: &str) -> Folder {
    let folder = Folder::new();
    folder.write("forebay.toml", config);
    let graph = json!({
        "nodes": [
            {"@type": "BOOT", "id": "0"},
            {"@type": "RELATION", "id": "1", "name": "below the limit", "ruleId": "below"},
            {"@type": "RUN", "id": "2", "ruleId": "approve"}
        ],
        "edges": [{"from": "0", "to": "1"}, {"from": "1", "to": "2"}]
    });
    folder.write("flows/order.json", graph.to_string());
    folder.write("flows/rules/below.js", BELOW);
    folder.write(
        "flows/rules/approve.ts",
        "function process(context: any) {\n  return new ScriptResult(true, { approved: context.getLastResult().getValueMap().amount as number, at: Date.now() });\n}\n",
    );
    let tests = json!([
        {"name": "little", "workflow": "order", "args": {"amount": 40}, "expect": {"state": true, "valueMap": {"approved": 40, "at": 0}}, "ignore": ["valueMap.at"]},
        {"name": "nothing", "workflow": "order", "expect": {"error": "no amount"}}
    ]);
    folder.write("flows/tests/order.json", tests.to_string());
    folder
}

fn workflow(folder: &Folder, words: &[&str]) -> Ended {
    run(folder.path(), &[&["workflow"], words].concat())
}

/// Runs a command that must succeed; returns its output.
fn done(folder: &Folder, words: &[&str]) -> String {
    let ended = workflow(folder, words);
    assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
    ended.out
}

/// As [`done`], with `--json`.
fn told(folder: &Folder, words: &[&str]) -> Value {
    serde_json::from_str(&done(folder, &[words, &["--json"]].concat())).unwrap()
}

#[test]
fn a_release_goes_from_a_folder_to_a_folder_and_everything_is_in_the_log() {
    let folder = folder(STORE);
    let ended = workflow(&folder, &["list"]);
    assert_eq!(ended.code, 4);
    assert!(
        ended.err.contains("there is no store in") && ended.err.contains("`forebay workflow import FOLDER`"),
        "{}",
        ended.err
    );
    let out = done(
        &folder,
        &["import", "flows", "--note", "the first", "--by", "ada"],
    );
    assert_eq!(out, "release 1: a draft of 1 workflow, 4 files\n");
    done(&folder, &["publish", "1", "--by", "bob"]);
    folder.write("flows/rules/below.js", BELOW.replace("100", "200"));
    assert_eq!(told(&folder, &["import", "flows"])["release"], 2);
    done(&folder, &["state", "2", "test"]);
    done(&folder, &["publish", "2", "--canary", "12.5%"]);
    let list = told(&folder, &["list"]);
    assert_eq!(list["published"], 1);
    assert_eq!(list["canary"], json!({"release": 2, "perTenThousand": 1250}));
    assert_eq!(list["releases"][0]["about"]["note"], "the first");
    assert_eq!(list["releases"][1]["state"], "canary");
    let list = done(&folder, &["list"]);
    assert!(
        list.contains("canary 12.5%") && list.contains("ada") && list.contains("the first"),
        "{list}"
    );
    done(&folder, &["publish", "2"]);
    assert_eq!(told(&folder, &["rollback"]), json!({"from": 2, "to": 1}));
    let log: Vec<Value> = done(&folder, &["log", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let entries: Vec<(&str, u64)> = log
        .iter()
        .map(|entry| {
            (
                entry["what"].as_str().unwrap(),
                entry["release"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        entries,
        [
            ("rollback", 1),
            ("publish", 2),
            ("canary", 2),
            ("test", 2),
            ("import", 2),
            ("publish", 1),
            ("import", 1)
        ]
    );
    assert_eq!((&log[5]["by"], &log[6]["by"]), (&json!("bob"), &json!("ada")));
    assert_eq!(done(&folder, &["log", "-n", "1"]).lines().count(), 2);
    done(&folder, &["export", "1", "out/first"]);
    assert_eq!(folder.read("out/first/rules/below.js").as_deref(), Some(BELOW));
    assert_eq!(done(&folder, &["diff", "1", "out/first"]), "nothing differs\n");
    let ended = workflow(&folder, &["export", "2", "out/first"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("is not empty"), "{}", ended.err);
    assert_eq!(
        done(&folder, &["diff", "1", "2"]),
        "changed  rules/below.js\n  -   return new ScriptResult(amount < 100, { amount });\n  +   return new ScriptResult(amount < 200, { amount });\n"
    );
}

#[test]
fn what_cannot_be_done_is_told_with_the_next_step() {
    let folder = folder(STORE);
    done(&folder, &["import", "flows"]);
    for (words, code, parts) in [
        (
            &["publish", "7"][..],
            4,
            [
                "there is no release 7 in the global `Workflow`; the newest is 1",
                "forebay workflow list",
            ],
        ),
        (&["run", "order"], 4, ["no release is published", "--release N"]),
        (
            &["run", "other", "--release", "1"],
            4,
            ["there is no workflow `other`", "forebay workflow check"],
        ),
        (
            &["run", "order", "--release", "1", "--args", "[1]"],
            2,
            ["--args are not a JSON object", "another value than an object"],
        ),
        (
            &["run", "order", "--release", "1", "--args", "@none.json"],
            1,
            ["none.json", "No such file"],
        ),
        (
            &["rollback"],
            1,
            ["no release was published before", "forebay workflow list"],
        ),
        (
            &["publish", "1", "--canary", "100%"],
            2,
            ["a share is 0.01% to 99.99%", "--canary"],
        ),
        (&["import", "none"], 1, ["cannot read none", "No such file"]),
    ] {
        let ended = workflow(&folder, words);
        assert_eq!(ended.code, code, "{words:?}: {ended:?}");
        for part in parts {
            assert!(ended.err.contains(part), "{words:?}: {part}: {}", ended.err);
        }
    }
    done(&folder, &["publish", "1"]);
    let ended = workflow(&folder, &["discard", "1"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .err
            .contains("release 1 cannot be discarded: it is published"),
        "{}",
        ended.err
    );
    done(&folder, &["import", "flows"]);
    done(&folder, &["publish", "2"]);
    let ended = workflow(&folder, &["discard", "1"]);
    assert!(
        ended.err.contains("release 1 has been published") && ended.err.contains("--former"),
        "{}",
        ended.err
    );
    done(&folder, &["discard", "1", "--former"]);
    assert_eq!(
        workflow(&folder, &["rollback"]).code,
        1,
        "what is discarded does not come back"
    );
    folder.write("forebay.toml", FOLDER);
    let ended = workflow(&folder, &["list"]);
    assert_eq!(ended.code, 3);
    assert!(
        ended.err.contains("have no releases") && ended.err.contains("store = "),
        "{}",
        ended.err
    );
    folder.write("forebay.toml", "");
    let ended = workflow(&folder, &["list"]);
    assert_eq!(ended.code, 3);
    assert!(ended.err.contains("no section [workflow]"), "{}", ended.err);
}

#[test]
fn workflows_of_a_folder_are_checked_run_traced_and_tested_without_a_server() {
    let folder = folder(FOLDER);
    let out = done(&folder, &["check"]);
    assert!(out.ends_with("flows: nothing is wrong with order\n"), "{out}");
    let outcome: Value =
        serde_json::from_str(&done(&folder, &["run", "order", "--args", "{\"amount\":400}"])).unwrap();
    assert_eq!(outcome, json!({"state": false, "valueMap": {"amount": 400}}));
    folder.write("args.json", "{\"amount\":40}");
    let trace = done(&folder, &["trace", "order", "--args", "@args.json"]);
    let lines: Vec<&str> = trace.lines().collect();
    assert!(lines[0].starts_with("order  true  {\"approved\":40"), "{trace}");
    assert!(
        lines[1].starts_with("└─ 1 below the limit  RELATION  ")
            && lines[1].ends_with(r#"true  {"amount":40}"#),
        "{trace}"
    );
    assert_eq!(lines[2], "   warn   amount 40");
    assert!(
        lines[3].starts_with("   └─ 2  RUN  ") && lines.len() == 4,
        "{trace}"
    );
    let ended = workflow(&folder, &["trace", "order"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.out.contains("└─ 1 below the limit  RELATION") && ended.out.contains("Error: no amount"),
        "{}",
        ended.out
    );
    assert!(
        ended.err.contains("node `1` failed: Error: no amount") && ended.err.contains("below.js:4"),
        "{}",
        ended.err
    );
    let out = done(&folder, &["test"]);
    assert_eq!(
        out,
        "holds  tests/order.json: little (order)\nholds  tests/order.json: nothing (order)\n2 of 2 hold\n"
    );
    folder.write("flows/rules/below.js", BELOW.replace("100", "10"));
    let ended = workflow(&folder, &["test"]);
    assert_eq!(ended.code, 3);
    assert!(
        ended
            .out
            .contains("FAILS  tests/order.json: little (order)\n         state: expected true, found false"),
        "{}",
        ended.out
    );
    assert!(
        ended.err.contains("1 of 2 stored tests do not hold"),
        "{}",
        ended.err
    );
    folder.write("flows/rules/below.js", "function process() {\n  return 1 +;\n}\n");
    folder.write(
        "flows/tests/order.json",
        "[{\"name\":\"n\",\"workflow\":\"none\",\"expect\":{\"error\":\"\"}}]",
    );
    for words in [["check"], ["test"]] {
        let ended = workflow(&folder, &words);
        assert_eq!(ended.code, 3, "{words:?}: {ended:?}");
        assert!(ended.err.contains("below.js:2:"), "{}", ended.err);
        assert!(
            ended.err.contains("test `n`: there is no workflow `none`"),
            "{}",
            ended.err
        );
    }
    let ended = run(folder.path(), &["check"]);
    assert_eq!(ended.code, 3);
    assert!(
        ended.err.contains("test `n`: there is no workflow `none`"),
        "{}",
        ended.err
    );
    // The workflows whose files are whole can be run.
    let ended = workflow(&folder, &["run", "order"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let refused = "workflow `order` cannot be run: ";
    assert!(
        ended.err.contains(refused) && ended.err.contains("below.js:2:"),
        "{}",
        ended.err
    );
    let graph = json!({
        "nodes": [{"@type": "BOOT", "id": "0"}, {"@type": "RUN", "id": "1", "ruleId": "whole"}],
        "edges": [{"from": "0", "to": "1"}]
    });
    folder.write("flows/whole.json", graph.to_string());
    folder.write(
        "flows/rules/whole.js",
        "function process() { return new ScriptResult(true, { a: 1 }); }\n",
    );
    let outcome: Value = serde_json::from_str(&done(&folder, &["run", "whole"])).unwrap();
    assert_eq!(outcome, json!({"state": true, "valueMap": {"a": 1}}));
}

#[test]
fn tests_can_have_a_time_of_their_own() {
    let folder = folder(FOLDER);
    folder.write(
        "flows/rules/approve.ts",
        "function process(): ScriptResult {\n  return new ScriptResult(true, { now: Date.now(), iso: new Date(), is: new Date() instanceof Date, own: new Date(5).getTime() });\n}\n",
    );
    let expressions = json!([{"id": "1", "key": "at", "value": "string(d())"}]);
    let decision = json!({
        "nodes": [
            {"id": "in", "name": "request", "type": "inputNode"},
            {"id": "now", "name": "now", "type": "expressionNode", "content": {"expressions": expressions}},
        ],
        "edges": [{"id": "1", "sourceId": "in", "targetId": "now"}],
    });
    folder.write("flows/now.json", decision.to_string());
    let values = json!({"now": 981_173_106_500_u64, "iso": "2001-02-03T04:05:06.500Z", "is": true, "own": 5});
    let tests = json!([
        {"name": "rule", "workflow": "order", "args": {"amount": 40}, "expect": {"state": true, "valueMap": values}},
        {"name": "expression", "workflow": "now", "expect": {"result": {"at": "2001-02-03"}}}
    ]);
    folder.write("flows/tests/order.json", tests.to_string());
    let ended = workflow(&folder, &["test", "--now", "2001-02-03T04:05:06.5Z"]);
    assert!(
        ended.out.contains("holds  tests/order.json: rule") && ended.out.contains("found \"2001-02-03"),
        "{ended:?}"
    );
    assert_eq!(workflow(&folder, &["test", "--now", "today"]).code, 2);
    let ended = workflow(&folder, &["test"]);
    assert!(ended.err.contains("2 of 2 stored tests do not hold"), "{ended:?}");
}

#[test]
fn a_cell_that_cannot_be_parsed_is_warned_of_and_the_others_decide() {
    let folder = folder(FOLDER);
    let rules = json!([{"_id": "1", "i": "> >", "o": "1"}, {"_id": "2", "i": "> 5", "o": "2"}]);
    let table = json!({
        "inputs": [{"id": "i", "name": "amount", "field": "amount"}],
        "outputs": [{"id": "o", "name": "fee", "field": "fee"}],
        "rules": rules,
    });
    let decision = json!({
        "nodes": [
            {"id": "in", "name": "request", "type": "inputNode"},
            {"id": "fee", "name": "fee", "type": "decisionTableNode", "content": table},
        ],
        "edges": [{"id": "1", "sourceId": "in", "targetId": "fee"}],
    });
    folder.write("flows/fee.json", decision.to_string());
    let place = "flows/fee.json: node `fee`, row 1, column `amount`: `> >` cannot be parsed";
    check_warns(&folder, place);
    let told = told(&folder, &["check"]);
    assert_eq!(told["warnings"].as_array().unwrap().len(), 1, "{told}");
    let result: Value =
        serde_json::from_str(&done(&folder, &["run", "fee", "--args", r#"{"amount": 6}"#])).unwrap();
    assert_eq!(result["result"], json!({"fee": 2}));
}

/// Both checks pass, with one line on standard error: a warning of this place.
fn check_warns(folder: &Folder, place: &str) {
    for words in [&["check"][..], &["workflow", "check"]] {
        let ended = run(folder.path(), words);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(
            ended.err.starts_with("warning: ") && ended.err.contains(place),
            "{ended:?}"
        );
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    }
}

#[test]
fn calls_that_rules_do_not_await_are_warned_of_unless_clients_block_them() {
    let folder = folder(FOLDER);
    folder.write(
        "flows/rules/approve.ts",
        "function process(context: any) {\n  const http = new ScriptHttpClient() as any;\n  const found: any = http.getForJson('u');\n  \
         return new ScriptResult(found.length > 0);\n}\n",
    );
    let place = "rules/approve.ts:3:22: `http.getForJson` returns a promise that nothing awaits: write `await` before the call";
    check_warns(&folder, place);
    folder.write("forebay.toml", format!("{FOLDER}compat = \"rengine\"\n"));
    assert_eq!(run(folder.path(), &["check"]).err, "");
    folder.write("forebay.toml", STORE);
    let ended = workflow(&folder, &["import", "flows"]);
    assert_eq!(ended.out, "release 1: a draft of 1 workflow, 4 files\n");
    assert!(ended.err.contains(place), "{ended:?}");
    let told = told(&folder, &["import", "flows"]);
    let warnings = told["warnings"].as_array().unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].as_str().unwrap().contains(place),
        "{told}"
    );
}

#[test]
fn what_is_wrong_with_nodes_that_need_no_rule_is_told_with_their_file() {
    let folder = folder(FOLDER);
    let graph = |nodes: &[Value]| {
        let mut all = vec![json!({"@type": "BOOT", "id": "0"})];
        all.extend_from_slice(nodes);
        let edges = [json!({"from": "0", "to": "1"}), json!({"from": "1", "to": "2"})];
        json!({"nodes": all, "edges": edges[..nodes.len()]}).to_string()
    };
    let missing = json!({"@type": "SQL", "id": "1", "source": "main", "query": "select :id, :name", "parameters": {"id": "args.id"}});
    let unnamed = json!({"@type": "STORE", "id": "2", "operation": "get", "global": "a b"});
    let place = json!({"@type": "STORE", "id": "1", "operation": "get", "global": "a", "subscripts": ["arguments.id"]});
    folder.write("flows/two.json", graph(&[missing, unnamed]));
    folder.write("flows/place.json", graph(&[place]));
    let ended = run(folder.path(), &["check"]);
    assert_eq!(ended.code, 3);
    for right in [
        "two.json: node `1`: query: `:name` is not among `parameters`",
        "two.json: node `2`: global: the name of a global cannot contain ' '",
        "place.json: nodes[1].subscripts.0: found \"arguments.id\", expected a place",
    ] {
        assert!(ended.err.contains(right), "{right}: {}", ended.err);
    }
}

#[test]
fn a_draft_may_have_faults_which_its_maker_is_told_and_is_not_published() {
    let folder = folder(STORE);
    folder.write("flows/rules/approve.ts", APPROVE);
    folder.write("flows/rules/below.js", "function process() {\n  return 1 +;\n}\n");
    let ended = workflow(&folder, &["import", "flows"]);
    assert_eq!(ended.code, 0);
    assert!(
        ended.err.contains("it cannot be published as it is")
            && ended.err.contains("release-1/rules/below.js:2:"),
        "{}",
        ended.err
    );
    let ended = workflow(&folder, &["publish", "1"]);
    assert_eq!(ended.code, 3);
    assert!(ended.err.contains("release-1/rules/below.js:2:"), "{}", ended.err);
    assert_eq!(told(&folder, &["list"])["published"], Value::Null);
    assert_eq!(workflow(&folder, &["state", "1", "test"]).code, 3);
}

#[test]
fn releases_that_are_made_at_the_same_time_are_all_there_and_whole() {
    let folder = folder(STORE);
    done(&folder, &["import", "flows"]);
    let children: Vec<_> = (0..6)
        .map(|_| {
            forebay(folder.path(), &["workflow", "import", "flows", "--json"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut numbers: Vec<u64> = children
        .into_iter()
        .map(|child| {
            let ended = ended(&child.wait_with_output().unwrap());
            assert_eq!(ended.code, 0, "{ended:?}");
            serde_json::from_str::<Value>(&ended.out).unwrap()["release"]
                .as_u64()
                .unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7]);
    for number in numbers {
        assert_eq!(
            done(&folder, &["diff", &number.to_string(), "flows"]),
            "nothing differs\n"
        );
    }
    assert_eq!(done(&folder, &["log", "--json"]).lines().count(), 7);
}

#[test]
fn an_import_that_is_killed_leaves_all_of_a_release_or_nothing() {
    let folder = folder(STORE);
    done(&folder, &["import", "flows"]);
    let filler = format!("// {}\n", "x".repeat(1 << 20));
    for number in 0..30 {
        folder.write(
            &format!("flows/rules/r{number}.js"),
            format!("function process() {{}}\n{filler}"),
        );
    }
    for _ in 0..6 {
        let mut child = forebay(folder.path(), &["workflow", "import", "flows"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The store's file grows with any write.
        let size = || std::fs::metadata(folder.path().join("data/store.mdbx")).map_or(0, |file| file.len());
        let before = size();
        forebay_testkit::wait_until("it to write, or to end", || {
            size() != before || child.try_wait().unwrap().is_some()
        });
        let _ = child.kill();
        child.wait().unwrap();
    }
    let list = told(&folder, &["list"]);
    for release in list["releases"].as_array().unwrap() {
        let number = release["release"].as_u64().unwrap();
        let target = format!("out/{number}");
        let out = done(&folder, &["export", &number.to_string(), &target]);
        let files = release["about"]["files"].as_u64().unwrap();
        assert!(out.contains(&format!("{files} files")), "{out}");
    }
    let log = done(&folder, &["log", "--json"]);
    assert_eq!(log.lines().count(), list["releases"].as_array().unwrap().len());
}

#[test]
fn collections_of_a_rengine_become_a_release_that_runs() {
    let folder = Folder::new();
    folder.write(
        "forebay.toml",
        STORE.replace(
            "store = \"Workflow\"",
            "store = \"Workflow\"\ncompat = \"rengine\"",
        ),
    );
    let long = |number: u64| json!({"$numberLong": number.to_string()});
    let live = |mut document: Value| {
        document["enable"] = json!({"$numberInt": "1"});
        document["delFlag"] = json!(0);
        document
    };
    let upload = |id: u64, name: &str| {
        live(
            json!({"_id": long(id), "uploadType": "LIBJS", "objectPrefix": format!("libjs/0/{name}/{name}-v1.js"), "filename": name, "extension": ".js"}),
        )
    };
    let graph = |workflow: u64, nodes: Value, edges: Value| {
        live(json!({
            "_id": long(workflow + 100), "workflowId": long(workflow), "revision": long(1), "attributes": {"unit": "points"},
            "details": {"engine": "STANDARD_GRAPH", "nodes": nodes, "edges": edges}
        }))
    };
    let collections = json!({
        "re_sceneses": [
            live(json!({"_id": long(1), "scenesCode": "hello"})), live(json!({"_id": long(2), "scenesCode": "broken"}))
        ],
        "re_workflows": [
            live(json!({"_id": long(11), "scenesId": long(1), "engine": "STANDARD_GRAPH"})),
            live(json!({"_id": long(12), "scenesId": long(2), "engine": "STANDARD_GRAPH"}))
        ],
        "re_workflow_graphs": [
            graph(11, json!([{"@type": "BOOT", "id": "0", "attributes": {"top": "1px"}}, {"@type": "PROCESS", "id": "1", "ruleId": long(650_869_239_922_658)}]), json!([{"name": "e", "from": "0", "to": "1", "attributes": null}])),
            graph(12, json!([{"@type": "BOOT", "id": "0"}, {"@type": "PROCESS", "id": "1", "ruleId": long(99)}]), json!([{"from": "0", "to": "1"}]))
        ],
        "re_rules": [live(json!({"_id": long(650_869_239_922_658), "nameEn": "greet", "engine": "JS"}))],
        "re_rule_scripts": [live(json!({
            "_id": long(3), "ruleId": long(650_869_239_922_658), "revision": 1, "entrypointUploadId": long(21), "uploadIds": [long(21), long(22)]
        }))],
        "sys_uploads": [upload(21, "greet"), upload(22, "commons")]
    });
    folder.write("rengine.json", collections.to_string());
    folder.write(
        "bucket/libjs/0/commons/commons-v1.js",
        "function greeting(name) { return 'hello ' + name; }",
    );
    folder.write(
        "bucket/libjs/0/greet/greet-v1.js",
        "function process(context) {\n  const greetings = greeting(context.getParameter().getArgs().name);\n  return new ScriptResult(true, { greetings, unit: context.getAttributes().unit });\n}",
    );
    let ended = workflow(&folder, &["import", "rengine.json", "--files", "bucket"]);
    assert_eq!(
        (ended.code, &*ended.out),
        (0, "release 1: a draft of 1 workflow, 3 files\n"),
        "{ended:?}"
    );
    assert!(
        ended.err.contains("left out: broken.json: node `1`"),
        "{}",
        ended.err
    );
    let outcome: Value = serde_json::from_str(&done(
        &folder,
        &["run", "hello", "--release", "1", "--args", "{\"name\":\"ada\"}"],
    ))
    .unwrap();
    assert_eq!(
        outcome["valueMap"],
        json!({"greetings": "hello ada", "unit": "points"})
    );
    assert!(done(&folder, &["publish", "1"]).contains("it has no stored tests"));
    folder.write("rengine.json", "{\"re_rules\": 1}");
    let ended = workflow(&folder, &["import", "rengine.json"]);
    assert_eq!(ended.code, 3);
    assert!(
        ended
            .err
            .contains("rengine.json: `re_rules` is another value than a list"),
        "{}",
        ended.err
    );
}

#[test]
fn runs_without_a_server_reach_the_store_as_far_as_rules_are_allowed() {
    let folder = folder(&format!("{STORE}allow = {{ store = [\"Order\"] }}\n"));
    folder.write(
        "flows/rules/below.js",
        "function process(context) {\n  store.node('Order', 'sum').increment(context.getArgs().amount);\n  return new ScriptResult(false, { sum: store.get('Order', 'sum') });\n}\n",
    );
    folder.write(
        "flows/tests/order.json",
        "[{\"name\":\"adds\",\"workflow\":\"order\",\"args\":{\"amount\":5},\"expect\":{\"state\":false,\"valueMap\":{\"sum\":5}}}]",
    );
    done(&folder, &["import", "flows"]);
    // The store is already open when a release is published.
    done(&folder, &["publish", "1"]);
    let outcome = done(&folder, &["run", "order", "--args", "{\"amount\":2}"]);
    assert_eq!(outcome, "{\"state\":false,\"valueMap\":{\"sum\":7}}\n");
    let ended = run(folder.path(), &["store", "get", "Order/sum"]);
    assert_eq!((ended.code, &*ended.out), (0, "7\n"));
    folder.write(
        "forebay.toml",
        "[store]\npath = \"none\"\n[workflow]\npath = \"flows\"\nallow = { store = [\"Order\"] }\n",
    );
    let ended = workflow(&folder, &["run", "order"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .err
            .contains("(workflow.allow.store), which cannot be opened")
            && ended.err.contains("`forebay serve` makes it"),
        "{}",
        ended.err
    );
}

#[test]
fn what_nodes_get_wrong_or_may_not_reach_is_warned_of_with_its_place() {
    let graph = |node: &str| {
        format!(
            r#"{{"nodes": [{{"@type": "BOOT", "id": "0"}}, {{"id": "1", {node}}}], "edges": [{{"from": "0", "to": "1"}}]}}"#
        )
    };
    let folder = folder("[workflow]\npath = \"flows\"\nallow = { fetch = [\"localhost:1\"] }\n");
    for (name, node) in [
        (
            "late",
            r#""@type": "PROCESS", "ruleId": "approve", "timeOutMs": 5"#,
        ),
        ("near", r#""@type": "HTTP", "url": "http://localhost:1/x""#),
        ("far", r#""@type": "HTTP", "url": "http://10.0.0.1/x""#),
        ("sql", r#""@type": "SQL", "source": "main", "query": "select 1""#),
        (
            "store",
            r#""@type": "STORE", "operation": "get", "global": "Secret""#,
        ),
        ("pool", r#""@type": "POOL", "pool": "api", "path": "/""#),
        ("there", r#""@type": "SUBFLOW", "workflow": "back""#),
        ("back", r#""@type": "SUBFLOW", "workflow": "there""#),
        ("once", r#""@type": "SUBFLOW", "workflow": "near""#),
    ] {
        folder.write(&format!("flows/{name}.json"), graph(node));
    }
    let ended = workflow(&folder, &["check"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let mut warnings: Vec<_> = ended
        .err
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    warnings.sort_unstable();
    let right = [
        "back.json: node `1` runs `there`, which leads to `back` again: ",
        "far.json: node `1`: `http://10.0.0.1/x` may not be reached: `allow` of `[workflow]` does not name it in `fetch`",
        "late.json: node `1` (PROCESS): `timeOutMs` without effect: there are ",
        "pool.json: node `1`: pool `api` may not be reached: `allow` of `[workflow]` does not name it in `pool`",
        "sql.json: node `1`: database `main` may not be reached: `allow` of `[workflow]` does not name it in `sql`",
        "store.json: node `1`: global `Secret` may not be reached: `allow` of `[workflow]` does not name it in `store`",
        "there.json: node `1` runs `back`, which leads to `there` again: ",
    ];
    assert_eq!(warnings.len(), right.len(), "{warnings:#?}");
    for (warning, right) in warnings.iter().zip(right) {
        assert!(warning.contains(right), "{warning}");
    }
}
