//! Functions and custom nodes of GoRules' decisions: its libraries, `zen`, `http` and templates.

use forebay_testkit::Setup;
use serde_json::json;

use crate::{
    workflow_modules::decision,
    workflows::{rules, run},
};

/// A decision of one function of the second version.
fn function(source: &str) -> String {
    decision(&json!({"type": "functionNode", "content": {"source": source}}))
}

fn decisions(keys: &str, decisions: &[(&str, String)]) -> Setup {
    decisions.iter().fold(rules(keys, &[]), |setup, (name, text)| {
        setup.file(&format!("flows/{name}.json"), text)
    })
}

#[test]
fn functions_of_the_first_version_get_the_libraries_of_gorules() {
    let source = "const handler = (input, { dayjs, moment, Big, env }) => ({
        day: dayjs(input.at).add(1, 'month').format('YYYY-MM-DD'), same: moment === dayjs,
        sum: new Big('0.1').plus('0.2').toString(), places: Big.DP, env, left: dayjs.left ??= Object.keys(env).length });";
    let first = decision(&json!({"type": "functionNode", "content": source}));
    let changes = "const handler = (input, { Big, dayjs }) => { Big.DP = 3; dayjs.left = 7; return { third: Big(1).div(3).toString() }; };";
    let changes = decision(&json!({"type": "functionNode", "content": changes}));
    let keys = "executors = 1\nengines_max = 1";
    let server = decisions(keys, &[("first", first), ("changes", changes)]).start();
    for _ in 0..2 {
        let (status, response) = run(&server, "/workflow/changes", &json!({}));
        assert_eq!((status, &response["result"]), (200, &json!({"third": "0.333"})));
        let (status, response) = run(&server, "/workflow/first", &json!({"at": "2026-01-31T12:00:00"}));
        let right =
            json!({"day": "2026-02-28", "same": true, "sum": "0.3", "places": 20, "env": {}, "left": 0});
        assert_eq!((status, &response["result"]), (200, &right));
    }
}

#[test]
fn functions_import_the_modules_of_gorules_and_files_of_the_same_name_come_first() {
    let imports = "import zen from 'zen';\nimport dayjs from 'dayjs';\nimport Big from 'big.js';\nimport { z } from 'zod';
export const handler = async (input: { at: string }) => {
            await console.sleep(1);
            const checked = z.object({ at: z.string() }).safeParse({ at: 5 });
            return { year: dayjs(input.at).year(), sum: Big('0.1').plus(0.2).toNumber(), issue: checked.error.issues[0].path, kinds: [typeof zen.evaluate, typeof console.log] };
        };";
    let own = "import http from 'http';\nimport dayjs, { mark } from 'dayjs';\nexport const handler = () => ({ http, mark, dayjs: dayjs.mark });";
    let decided = decisions("", &[("imports", function(imports)), ("own", function(own))]);
    let server = decided.start();
    let (status, response) = run(&server, "/workflow/imports", &json!({"at": "2026-05-01"}));
    let right = json!({"year": 2026, "sum": 0.3, "issue": ["at"], "kinds": ["function", "function"]});
    assert_eq!((status, &response["result"]), (200, &right), "{response}");
    let server = decisions("", &[("own", function(own))])
        .file("flows/modules/http.js", "module.exports = 'own';\n")
        .file("flows/modules/dayjs.ts", "exports.mark = 'own' as string;\n")
        .start();
    let (status, response) = run(&server, "/workflow/own", &json!({}));
    let right = json!({"http": "own", "mark": "own", "dayjs": "own"});
    assert_eq!((status, &response["result"]), (200, &right), "{response}");
}

#[test]
fn zen_evaluates_decisions_and_expressions() {
    let rate = json!({"type": "expressionNode", "content": {"expressions": [{"id": "1", "key": "rate", "value": "country == 'DE' ? 0.19 : 0.2"}]}});
    let twice = "export const handler = async ({ n }) => ({ n: 2 * (await Promise.resolve(n)) });";
    let asks = "import zen, { evaluateExpression } from 'zen';
export const handler = async (input) => {
            const rates = await Promise.all(['DE', 'FR'].map((country) => zen.evaluate('rate.json', { country }, { trace: country === 'FR' })));
            const failures = await Promise.all([zen.evaluate('none', {}), zen.evaluate('wrong.json', {})].map((one) => one.catch((error) => error.message)));
            const reason = (task) => { try { return task(); } catch (error) { return error.message; } };
            return {
                rates: rates.map(({ result }) => result.rate), traces: rates.map(({ trace }) => trace?.it.name ?? null), failures,
                twice: (await zen.evaluate('twice', { n: 4 })).result.n,
                sum: evaluateExpression('a + sum(b)', { a: 1, b: [2, 3] }),
                unary: [zen.evaluateUnaryExpression('> 5', { $: 6 }), zen.evaluateUnaryExpression('> 5', { $: 5 })],
                wrong: reason(() => zen.evaluateExpression('a +', {})).split(':')[0],
            };
        };";
    let itself =
        "import zen from 'zen';\nexport const handler = (input) => zen.evaluate('itself.json', input);";
    let wrong = "export const handler = () => { throw new RangeError('no'); };";
    let server = decisions(
        "",
        &[
            ("rate", decision(&rate)),
            ("twice", function(twice)),
            ("wrong", function(wrong)),
            ("asks", function(asks)),
            ("itself", function(itself)),
        ],
    )
    .start();
    let (status, response) = run(&server, "/workflow/asks", &json!({}));
    let result = &response["result"];
    assert_eq!(status, 200, "{response}");
    let failures = result["failures"].as_array().unwrap();
    assert_eq!(failures[0], "there is no decision `none`");
    let failure = failures[1].as_str().unwrap();
    assert!(
        failure.starts_with("node `it` failed: RangeError: no"),
        "{failure}"
    );
    let right = json!({
        "rates": [0.19, 0.2], "traces": [null, "it"], "failures": failures, "twice": 8, "sum": 6, "unary": [true, false], "wrong": "`a +`",
    });
    assert_eq!(result, &right);
    let (status, response) = run(&server, "/workflow/itself", &json!({}));
    assert_eq!(status, 500, "{response}");
    let detail = response["detail"].as_str().unwrap();
    assert!(detail.contains("at most 1000 decisions at once"), "{detail}");
}

#[test]
fn http_sends_and_receives_json_where_rules_may_fetch_from() {
    let echo = "export default async (request) => new Response(JSON.stringify({ method: request.method, query: request.url.split('?')[1] ?? '', type: request.headers.get('content-type'), own: request.headers.get('x-own'), body: await request.text() }), { status: 418, headers: { 'content-type': 'application/json' } });\n";
    let other =
        Setup::new("[script.echo]\nhandler = \"echo.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"echo\"\n")
            .file("echo.mjs", echo)
            .start();
    let asks = "import http from 'http';
export const handler = async ({ url }) => {
            const failure = (promise) => promise.then(() => 'none', (error) => error.message);
            const got = await http.get(url, { params: { a: 1, b: 'x y' }, headers: { 'x-own': true } });
            const posted = await http.post(url, { c: [1] }, { headers: {} });
            return { got: got.data, status: got.status, type: got.headers['content-type'], posted: posted.data, away: await failure(http.get('http://127.0.0.1:1/')), auth: await failure(http.put(url, {}, { auth: { iam: 'aws' } })) };
        };";
    let forgets =
        "import { get } from 'http';\nexport const handler = ({ url }) => { get(url); return {}; };";
    let keys = format!("allow = {{ fetch = [\"{}\"] }}", other.address());
    let server = decisions(&keys, &[("asks", function(asks)), ("forgets", function(forgets))]).start();
    let url = format!("http://{}/it", other.address());
    let (status, response) = run(&server, "/workflow/asks", &json!({"url": url}));
    assert_eq!(status, 200, "{response}");
    let result = &response["result"];
    assert_eq!(
        result["got"],
        json!({"method": "GET", "query": "a=1&b=x+y", "type": null, "own": "true", "body": ""})
    );
    assert_eq!(
        (&result["status"], &result["type"]),
        (&json!(418), &json!("application/json"))
    );
    assert_eq!(
        result["posted"],
        json!({"method": "POST", "query": "", "type": "application/json", "own": null, "body": "{\"c\":[1]}"})
    );
    for (member, part) in [
        ("away", "may not fetch from"),
        ("auth", "`auth` is not supported"),
    ] {
        assert!(result[member].as_str().unwrap().contains(part), "{result}");
    }
    let (status, response) = run(&server, "/workflow/forgets", &json!({"url": url}));
    assert_eq!(status, 500);
    assert!(
        response["detail"]
            .as_str()
            .unwrap()
            .contains("`http.get` was not awaited"),
        "{response}"
    );
}

#[test]
fn templates_in_the_configuration_of_custom_nodes_are_evaluated_for_their_input() {
    let config = json!({"sum": "{{ a + 10 }}", "to": ["{{ name }}@example.com", " as it is "], "deep": {"list": "{{ map(items, # * 2) }}"}, "odd": "{{ a", "n": 7});
    let custom = json!({"type": "customNode", "content": {"kind": "show", "config": config}});
    let server = decisions("", &[("custom", decision(&custom))])
        .file(
            "flows/nodes/show.js",
            "export const handler = ({ config }) => config;\n",
        )
        .start();
    server.wait_for_log(&["config.odd", "is no template, so it stays as it is"]);
    let (status, response) = run(
        &server,
        "/workflow/custom",
        &json!({"a": 1, "name": "ada", "items": [1, 2]}),
    );
    let right = json!({"sum": 11, "to": ["ada@example.com", " as it is "], "deep": {"list": [2, 4]}, "odd": "{{ a", "n": 7});
    assert_eq!((status, &response["result"]), (200, &right), "{response}");
}

#[test]
fn results_of_functions_keep_whole_numbers_and_nan_is_an_error() {
    let exact = "export const handler = ({ n }) => ({ big: 2n ** 60n + 1n, list: [2 ** 53], deep: { none: undefined }, n });";
    let nan = "export const handler = () => ({ rate: 0 / 0 });";
    let first = decision(
        &json!({"type": "functionNode", "content": "const handler = () => ({ deep: { rate: 0 / 0, none: undefined } });"}),
    );
    let server = decisions(
        "",
        &[
            ("exact", function(exact)),
            ("nan", function(nan)),
            ("first", first),
        ],
    )
    .start();
    let response = server.post("/workflow/exact", br#"{"n": 9007199254740993}"#);
    let text = response.text();
    for part in [
        "\"big\":1152921504606846977",
        "\"list\":[9007199254740992]",
        "\"deep\":{\"none\":null}",
        "\"n\":9007199254740992",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let (status, response) = run(&server, "/workflow/nan", &json!({}));
    assert_eq!(status, 500);
    let detail = response["detail"].as_str().unwrap();
    assert!(detail.contains("the result's `rate` is NaN"), "{detail}");
    let (status, response) = run(&server, "/workflow/first", &json!({}));
    assert_eq!(
        (status, &response["result"]),
        (200, &json!({"deep": {"rate": null}}))
    );
}

#[test]
fn a_bad_file_does_not_keep_the_other_workflows_from_being_served() {
    let table = json!({"type": "decisionNode", "content": {"key": "none.json"}});
    let server = rules(
        "",
        &[
            ("good", "return new ScriptResult(true, { a: 1 });"),
            ("bad", "return 1 +;"),
        ],
    )
    .file("flows/table.json", decision(&table))
    .file("flows/torn.json", "{")
    .file("flows/binary.json", b"{\xff}")
    .start();
    server.wait_for_log(&["torn.json:1:1: EOF"]);
    let (status, response) = run(&server, "/workflow/good", &json!({}));
    assert_eq!((status, &response["valueMap"]), (200, &json!({"a": 1})));
    for (name, reason) in [
        ("bad", "rules/bad.js:2:"),
        ("table", "table.json: node `it`: there is no decision `none.json`"),
        ("torn", "torn.json:1:1: EOF"),
        ("binary", "binary.json: stream did not contain valid UTF-8"),
    ] {
        let (status, response) = run(&server, &format!("/workflow/{name}"), &json!({}));
        assert_eq!(status, 500, "{response}");
        let withheld = "its files have errors; the log has them, under the id of the request";
        let begins = format!("workflow `{name}` cannot be run: ");
        assert_eq!(response["detail"], format!("{begins}{withheld}"));
        let id = response["request_id"].as_str().unwrap();
        server.wait_for_log(&[id, &begins, reason]);
    }
}

#[test]
fn the_trace_of_a_decision_that_failed_or_was_stopped_has_the_nodes_that_were_over() {
    let decision = |source: &str| {
        json!({
            "nodes": [
                {"id": "in", "name": "in", "type": "inputNode"},
                {"id": "sum", "name": "sum", "type": "expressionNode", "content": {"expressions": [{"id": "1", "key": "sum", "value": "n + 1"}]}},
                {"id": "last", "name": "last", "type": "functionNode", "content": {"source": source}},
                {"id": "out", "name": "out", "type": "outputNode"},
            ],
            "edges": [
                {"id": "1", "sourceId": "in", "targetId": "sum"},
                {"id": "2", "sourceId": "sum", "targetId": "last"},
                {"id": "3", "sourceId": "last", "targetId": "out"},
            ],
        })
        .to_string()
    };
    let server = decisions(
        "timeout = \"1s\"",
        &[
            (
                "late",
                decision(
                    "export const handler = () => { console.log('waits'); return new Promise(() => {}); };",
                ),
            ),
            (
                "failed",
                decision("export const handler = () => { console.log('throws'); throw new Error('no'); };"),
            ),
        ],
    )
    .start();
    for (name, status, last, line) in [("late", 504, false, "waits"), ("failed", 500, true, "throws")] {
        let (answered, answer) = run(&server, &format!("/workflow/{name}?trace"), &json!({"n": 2}));
        assert_eq!(answered, status, "{answer}");
        let trace = &answer["trace"];
        assert_eq!(trace["sum"]["output"], json!({"sum": 3}), "{answer}");
        assert_eq!(
            (&trace["sum"]["order"], trace.get("last").is_some()),
            (&json!(1), last),
            "{answer}"
        );
        assert_eq!(answer["logs"][0]["message"], line, "{answer}");
        let (_, answer) = run(&server, &format!("/workflow/{name}"), &json!({"n": 2}));
        assert!(answer.get("trace").is_none(), "{answer}");
    }
}
