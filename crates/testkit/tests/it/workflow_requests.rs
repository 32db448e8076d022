//! Requests for many runs of a workflow, and those of systems that know nothing of workflows.

use forebay_testkit::{Response, Server, Setup};
use serde_json::{Value, json};

use crate::workflows::{ROUTES, logged_failure, rules_of, run};

const CUSTOM: &str = "[[route]]\npath = \"/execute/custom\"\nworkflow = { api = \"custom\" }\n";
/// `{"format":"json"}` and `{"format":"xml"}`.
const JSON: &str = "reqSettings=eyJmb3JtYXQiOiJqc29uIn0%3D";
const XML: &str = "reqSettings=eyJmb3JtYXQiOiJ4bWwifQ%3D%3D";
/// `{"templateKey":"chat"}`, `{"templateKey":"page"}` and `{"templateKey":"none"}`.
const CHAT: &str = "respSettings=eyJ0ZW1wbGF0ZUtleSI6ImNoYXQifQ%3D%3D";
const PAGE: &str = "respSettings=eyJ0ZW1wbGF0ZUtleSI6InBhZ2UifQ%3D%3D";
const NONE: &str = "respSettings=eyJ0ZW1wbGF0ZUtleSI6Im5vbmUifQ%3D%3D";
const CLIENT: &str = "clientId=c&clientSecret=s";

fn start(keys: &str) -> Server {
    let config = format!("[workflow]\npath = \"flows\"\n{keys}\n{ROUTES}{CUSTOM}");
    let rules = [
        (
            "double",
            "const { n } = context.getArgs();\nif (n === 3) throw new Error('three');\nreturn new ScriptResult(n > 1, { n: 2 * n });",
        ),
        (
            "answer",
            "const args = context.getArgs();\nreturn new ScriptResult(true, { Text: `<${args.text}>`, args });",
        ),
        ("other", "return new ScriptResult(true, { more: 7 });"),
        ("waits", "return new Promise(() => {});"),
    ];
    rules_of(Setup::new(&config), &rules)
        .file(
            "flows/templates/chat.json",
            "{\"text\":\"${text}\",\"args\":${args}}",
        )
        .file("flows/templates/page.html", "<p>${text}, ${MORE}</p>")
        .threads(1)
        .start()
}

#[test]
fn a_list_of_arguments_has_a_list_of_results_in_its_order() {
    let server = start("executors = 2\ntimeout = \"200ms\"");
    let inputs: Vec<Value> = (0..100).map(|n| json!({"n": n})).collect();
    let response = server.post("/workflow/double", Value::from(inputs).to_string().as_bytes());
    assert_eq!(response.status, 200);
    let results: Value = response.json();
    for (n, result) in results.as_array().unwrap().iter().enumerate() {
        if n == 3 {
            assert_eq!(
                *result,
                json!({"error": "Error: three", "status": 500, "node": "1"})
            );
        } else {
            assert_eq!(*result, json!({"state": n > 1, "valueMap": {"n": 2 * n}}));
        }
    }
    assert_eq!(server.post("/workflow/double", b" []").body, b"[]");
    let late: Value = server.post("/workflow/waits", b"[{}, {}]").json();
    assert_eq!(late[1]["status"], 504);
    assert_eq!(server.post("/workflow/none", b"[{}]").status, 404);
    for (body, detail) in [
        (
            "[{}, 5]".to_owned(),
            "the body is not a JSON object of arguments: entry 1 of the list is another value",
        ),
        (
            format!("[{}{{}}]", "{},".repeat(1000)),
            "the body is not a JSON object of arguments: it is a list of 1001 objects, at most 1000",
        ),
        (
            "[{}".to_owned(),
            "the body is not a JSON object of arguments: EOF",
        ),
    ] {
        let response = server.post("/workflow/double", body.as_bytes());
        assert_eq!(response.status, 400);
        let told: Value = response.json();
        assert!(told["detail"].as_str().unwrap().starts_with(detail), "{told}");
    }
}

#[test]
fn a_list_whose_results_are_too_long_is_refused_as_a_whole() {
    let server = start("output_max = \"1KiB\"");
    let inputs: Vec<Value> = (4..104).map(|n| json!({"n": n})).collect();
    let response = server.post("/workflow/double", Value::from(inputs).to_string().as_bytes());
    assert_eq!(response.status, 500);
    let told: Value = response.json();
    assert_eq!(
        told["detail"],
        "the result is longer than 1024 bytes (workflow.output_max)"
    );
}

fn send(server: &Server, head: &str, body: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    client.response()
}

#[test]
fn other_systems_send_what_they_like_and_get_a_template() {
    let server = start("");
    let post = |query: &str, headers: &str, body: &str| {
        let head = format!("POST /execute/custom?{query} HTTP/1.1\r\nhost: a\r\n{headers}");
        send(&server, &head, body)
    };
    let all = format!("{JSON}&{CHAT}&{CLIENT}&scenesCodes=answer");
    let response = post(&all, "", "{\"text\":\"a\\\"b\",\"n\":5}");
    assert_eq!(
        (response.status, response.header("content-type")),
        (200, Some("application/json"))
    );
    let answer: Value = response.json();
    assert_eq!(
        answer,
        json!({"text": "<a\"b>", "args": {"text": "a\"b", "n": 5}})
    );
    // XML, by the media type or by the settings; the client in headers; two workflows.
    let body = "<xml><text>a &amp; b</text></xml>";
    let page = "<p>&lt;a &amp; b&gt;, 7</p>";
    let headers = "X-ClientId: c\r\nclientsecret: s\r\nscenesCodes: answer, other\r\n";
    for (settings, media_type) in [(XML, "text/plain"), (JSON, "application/xml")] {
        let headers = format!("{headers}content-type: {media_type}\r\n");
        let response = post(&format!("{settings}&{PAGE}"), &headers, body);
        assert_eq!(
            response.status,
            200,
            "{}",
            String::from_utf8_lossy(&response.body)
        );
        assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(response.body, page.as_bytes());
    }
    // All of it in the body, and arguments of the query over them: {"text":"q"}.
    let body = "{\"clientId\":\"c\",\"clientSecret\":\"s\",\"scenesCodes\":[\"answer\",\"other\"],\"timeout\":5000,\"text\":\"b\"}";
    let response = post(&format!("{JSON}&{PAGE}&args=eyJ0ZXh0IjoicSJ9"), "", body);
    assert_eq!(response.body, b"<p>&lt;q&gt;, 7</p>");
    // Rules are not told the secret.
    let told: Value = post(&format!("{JSON}&{CHAT}"), "", body).json();
    assert_eq!(
        (&told["args"]["clientId"], &told["args"]["clientSecret"]),
        (&json!("c"), &Value::Null)
    );
    let response = server.get(&format!("/execute/custom?{all}&args=eyJ0ZXh0IjoicSJ9"));
    assert_eq!(response.json()["text"], "<q>");
}

#[test]
fn custom_requests_that_lack_something_are_told_what() {
    let server = start("");
    for (query, body, status, message) in [
        (
            format!("{CHAT}&{CLIENT}"),
            "{}",
            400,
            "the parameter `reqSettings` is missing: JSON in base 64",
        ),
        (
            format!("{JSON}&{CLIENT}"),
            "{}",
            400,
            "the parameter `respSettings` is missing: JSON in base 64",
        ),
        (
            format!("reqSettings=%21&{CHAT}"),
            "{}",
            400,
            "the parameter `reqSettings` is no base 64: ",
        ),
        (
            format!("reqSettings=e30%3D&respSettings=e30%3D&{CLIENT}"),
            "{}",
            400,
            "the parameter `respSettings` has other JSON: missing field `templateKey`",
        ),
        (format!("{JSON}&{CHAT}"), "{}", 400, "`clientId` is missing"),
        (
            format!("{JSON}&{CHAT}&{CLIENT}"),
            "{}",
            400,
            "`scenesCodes` has 0 entries",
        ),
        (
            format!("{JSON}&{CHAT}&{CLIENT}&scenesCodes=none"),
            "{}",
            404,
            "there is no workflow `none`",
        ),
        (
            format!("{JSON}&{NONE}&{CLIENT}&scenesCodes=other"),
            "{}",
            400,
            "there is no template `none`",
        ),
        (
            format!("{JSON}&{CHAT}&{CLIENT}&scenesCodes=answer&timeout=x"),
            "{}",
            400,
            "`timeout` is x",
        ),
        (
            format!("{JSON}&{CHAT}&{CLIENT}"),
            "[]",
            400,
            "the body is not a JSON object: ",
        ),
        (
            format!("{XML}&{CHAT}&{CLIENT}"),
            "<a>",
            400,
            "the body is no XML: `a` has no end",
        ),
        (
            format!("{JSON}&{PAGE}&{CLIENT}&scenesCodes=other"),
            "{}",
            500,
            "nothing has given `text`, which the template has a place for",
        ),
        (
            format!("{JSON}&{CHAT}&{CLIENT}&scenesCodes=other,double"),
            "{\"n\":3}",
            500,
            "nothing has given `text`, which the template has a place for; Error: three",
        ),
    ] {
        let head = format!("POST /execute/custom?{query} HTTP/1.1\r\nhost: a\r\n");
        let response = send(&server, &head, body);
        let answer: Value = response.json();
        assert_eq!(
            (response.status, &answer["code"]),
            (status, &json!(status)),
            "{answer}"
        );
        let told = answer["message"].as_str().unwrap();
        assert!(told.starts_with(message), "{told}");
    }
}

#[test]
fn arguments_and_results_are_held_against_their_schemas() {
    let schemas = json!({
        "args": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0}, "to": {"enum": ["x"]}}},
        "result": {"properties": {"n": {"maximum": 10}}},
    });
    let same = (
        "same",
        "return new ScriptResult(true, { n: context.getArgs().n });",
    );
    let config = format!("[workflow]\npath = \"flows\"\n{ROUTES}");
    let server = rules_of(Setup::new(&config), &[same])
        .file("flows/schemas/same.json", schemas.to_string())
        .start();
    let post = |body: &Value| server.post("/workflow/same", body.to_string().as_bytes());
    assert_eq!(post(&json!({"n": 3})).json()["valueMap"]["n"], 3);
    for (args, status, told) in [
        (
            json!({"n": -1}),
            422,
            "the arguments do not match their schema: at /n: -1 is less than the minimum of 0",
        ),
        (json!({}), 422, "at /: \"n\" is a required property"),
        (json!({"n": 1, "to": "y"}), 422, "at /to: "),
        (
            json!({"n": 11}),
            500,
            "the result does not match its schema: at /n: 11 is greater than the maximum of 10",
        ),
    ] {
        let response = post(&args);
        let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!(response.status, status, "{args}: {detail}");
        assert!(detail.contains(told), "{args}: {detail}");
    }
    // Of a list each is looked at on its own.
    let list = post(&json!([{"n": 1}, {"n": -1}])).json();
    assert_eq!(list[0]["valueMap"]["n"], 1);
    assert_eq!(list[1]["status"], 422, "{list}");
    for (text, told) in [
        ("{\"args\": {\"type\": \"whole\"}}", "`args` is no JSON Schema"),
        ("{\"arguments\": {}}", "unknown field `arguments`"),
        ("[", "EOF"),
    ] {
        server.folder().write("flows/schemas/same.json", text);
        let checked = server.command(&["check"]);
        let said =
            String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        assert!(
            said.contains("schemas/same.json") && said.contains(told),
            "{said}"
        );
    }
}

#[test]
fn a_document_says_what_can_be_run_and_with_what() {
    let args = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let config = format!(
        "[workflow]\npath = \"flows\"\n[workflow.clients.a]\ntoken = \"TOKEN\"\nworkflows = [\"*\"]\n{ROUTES}{CUSTOM}"
    );
    let same = ("same", "return new ScriptResult(true);");
    let other = ("other", "return new ScriptResult(true);");
    let server = rules_of(Setup::new(&config), &[same, other])
        .file(
            "flows/schemas/same.json",
            json!({"args": args, "result": {"type": "object"}}).to_string(),
        )
        .env("TOKEN", "secret")
        .admin()
        .start();
    let document = server.admin().get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let all = [
        "/execute/custom",
        "/execute/internal/workflow",
        "/workflow/other",
        "/workflow/same",
    ];
    assert_eq!(paths, all, "{document}");
    let post = &document["paths"]["/workflow/same"]["post"];
    let body = &post["requestBody"]["content"]["application/json"]["schema"];
    let schema = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    assert_eq!(body["anyOf"][0], schema("same.args"), "{body}");
    assert_eq!(body["anyOf"][1]["items"], schema("same.args"), "{body}");
    let values = &post["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["valueMap"];
    assert_eq!(*values, schema("same.result"));
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["same.args"], args);
    assert_eq!(schemas["same.result"], json!({"type": "object"}));
    assert_eq!(post["security"], json!([{"workflow.token": []}]));
    let custom = &document["paths"]["/execute/custom"]["post"]["security"];
    assert_eq!(*custom, json!([{}, {"workflow.token": []}]));
    assert!(!document.to_string().contains("secret"), "{document}");
}

#[test]
fn anonymous_clients_do_not_learn_why_a_call_of_a_rule_failed() {
    let keys =
        |clients: &str| format!("allow = {{ fetch = [\"10.9.8.7:1\"] }}\n{clients}\n[workflow.scenes]\n");
    let rules = [
        (
            "denied",
            "await fetch('http://10.0.0.1/'); return new ScriptResult(true);",
        ),
        ("own", "throw new Error('mine');"),
    ];
    let rules = rules.map(|(name, body)| (name, format!("return (async () => {{ {body} }})();")));
    let rules: Vec<_> = rules.iter().map(|(name, body)| (*name, &**body)).collect();
    let withheld = "a call that its rule made failed; the log says why, under the id of the request";
    let told = "TypeError: `[workflow]` may not fetch from `10.0.0.1`: its `allow` names 10.9.8.7:1";
    let setup = |clients: &str| {
        Setup::new(&format!(
            "[workflow]\npath = \"flows\"\n{}\n{ROUTES}",
            keys(clients)
        ))
    };
    let server = rules_of(setup(""), &rules).start();
    let (_, answer) = run(&server, "/workflow/own", &json!({}));
    assert_eq!(answer["detail"], "node `1` failed: Error: mine");
    let (status, answer) = run(&server, "/workflow/denied?trace", &json!({}));
    assert_eq!(
        (status, &answer["detail"]),
        (500, &json!(format!("node `1` failed: {withheld}")))
    );
    assert_eq!(answer["trace"][0]["error"], withheld);
    let (_, answer) = run(&server, "/workflow/denied", &json!([{}]));
    assert_eq!(answer[0]["error"], withheld);
    let scenes = json!({"requestId": "r1", "clientId": "c", "clientSecret": "s", "scenesCodes": ["denied"]});
    let (_, answer) = run(&server, "/execute/internal/workflow?trace", &scenes);
    assert!(!answer.to_string().contains("10."), "{answer}");
    assert_eq!(answer["data"]["results"][0]["reason"], withheld);
    assert!(logged_failure(&server, "/workflow/denied", &json!({})).contains(told));
    let server = rules_of(setup("[workflow.clients]\nc = { secret = \"C_SECRET\" }"), &rules)
        .env("C_SECRET", "s")
        .start();
    let (_, answer) = run(&server, "/execute/internal/workflow?trace", &scenes);
    let result = &answer["data"]["results"][0];
    assert_eq!(
        (&result["reason"], &result["trace"][0]["error"]),
        (&json!(told), &json!(told))
    );
}

#[test]
fn the_trace_of_a_run_that_was_stopped_tells_how_far_it_came() {
    let server = start("timeout = \"400ms\"");
    let right = |steps: &Value| {
        let step = &steps[0];
        assert_eq!(
            (&step["node"], &step["kind"]),
            (&json!("1"), &json!("PROCESS")),
            "{steps}"
        );
        assert!(
            step.get("tookMs").is_none() && step["beganMs"].is_f64(),
            "{steps}"
        );
    };
    let (status, answer) = run(&server, "/workflow/waits?trace", &json!({}));
    assert_eq!(
        (status, &answer["detail"]),
        (504, &json!("the run did not end within 400ms (workflow.timeout)"))
    );
    right(&answer["trace"]);
    let (_, answer) = run(&server, "/workflow/waits?trace", &json!([{}]));
    assert_eq!(answer[0]["status"], 504);
    right(&answer[0]["trace"]);
    let scenes =
        json!({"requestId": "r1", "clientId": "c", "clientSecret": "s", "scenesCodes": ["waits", "other"]});
    let (status, answer) = run(&server, "/execute/internal/workflow?trace", &scenes);
    assert_eq!(status, 200, "{answer}");
    let results = &answer["data"]["results"];
    assert_eq!(results[0]["reason"], "Execution time exceeded in 400ms");
    right(&results[0]["trace"]);
    assert_eq!(results[1]["trace"][0]["valueMap"], json!({"more": 7}));
    let (_, answer) = run(&server, "/execute/internal/workflow", &scenes);
    assert!(answer["data"]["results"][1].get("trace").is_none(), "{answer}");
    // Instead of what the template makes of it.
    let custom = format!("/execute/custom?{JSON}&{CHAT}&{CLIENT}&scenesCodes=waits&trace");
    let answer = send(&server, &format!("POST {custom} HTTP/1.1\r\nhost: a\r\n"), "{}").json();
    right(&answer["data"]["results"][0]["trace"]);
}

#[test]
fn a_trace_has_what_each_node_was_given_and_came_to_and_what_its_rule_logged() {
    let graph = json!({
        "nodes": [
            {"@type": "BOOT", "id": "0"},
            {"@type": "PROCESS", "id": "1", "name": "first", "ruleId": "first"},
            {"@type": "SWITCH", "id": "2", "name": "which", "ruleId": "which"},
            {"@type": "PARALLEL", "id": "3"},
            {"@type": "RUN", "id": "4", "name": "one", "ruleId": "slow"},
            {"@type": "RUN", "id": "5", "name": "other", "ruleId": "slow"},
            {"@type": "RUN", "id": "6", "ruleId": "first"}
        ],
        "edges": [
            {"from": "0", "to": "1"}, {"from": "1", "to": "2"}, {"from": "2", "to": "3", "case": "a"},
            {"from": "2", "to": "6"}, {"from": "3", "to": "4"}, {"from": "3", "to": "5"}
        ]
    });
    let rules = [
        ("first", "return new ScriptResult(true, { n: 1 });"),
        ("which", "return new ScriptResult(true, { case: 'a' });"),
        (
            "slow",
            "return (async () => {\nfor (const n of [1, 2]) {\nconsole.log(context.getId(), n);\n\
             await new Promise((resolve) => setTimeout(resolve, 5));\n}\nreturn new ScriptResult(true);\n})();",
        ),
    ];
    let setup = Setup::new(&format!("[workflow]\npath = \"flows\"\n{ROUTES}"));
    let server = rules_of(setup, &rules)
        .file("flows/all.json", graph.to_string())
        .start();
    let (status, answer) = run(&server, "/workflow/all?trace", &json!({}));
    assert_eq!(status, 200, "{answer}");
    let steps: Vec<_> = answer["trace"].as_array().unwrap().iter().collect();
    let told = |member: &str| steps.iter().map(|step| step[member].clone()).collect::<Value>();
    assert_eq!(told("node"), json!(["1", "2", "3", "4", "5"]));
    assert_eq!(told("name"), json!(["first", "which", null, "one", "other"]));
    assert_eq!(told("parent"), json!([null, 0, 1, 2, 2]));
    assert_eq!(
        told("input"),
        json!([null, {"n": 1}, {"case": "a"}, {"case": "a"}, {"case": "a"}])
    );
    let own = |values: Value| json!({"state": true, "valueMap": values});
    assert_eq!(
        told("output"),
        json!([
            own(json!({"n": 1})),
            own(json!({"case": "a"})),
            null,
            own(json!({})),
            own(json!({}))
        ])
    );
    assert_eq!(told("next"), json!([["2"], ["3"], ["4", "5"], null, null]));
    assert_eq!(steps[1]["case"], "a");
    // Whichever waits end first, each line belongs to the node whose rule logged it.
    let lines = answer["logs"].as_array().unwrap();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in lines {
        let node = line["message"].as_str().unwrap().split(' ').next().unwrap();
        let step = if node == "4" { 3 } else { 4 };
        assert_eq!(
            (&line["node"], &line["step"]),
            (&json!(node), &json!(step)),
            "{line}"
        );
        assert_eq!(line["name"], steps[step]["name"]);
    }
}
