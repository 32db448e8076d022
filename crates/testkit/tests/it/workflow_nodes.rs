//! Nodes of workflows that query a database, the store or a server, without a rule.

use forebay_testkit::{Postgres, Server, Setup};
use serde_json::{Value, json};

use crate::{
    sql_handlers::make,
    workflows::{ROUTES, logged_failure, run},
};

fn setup(keys: &str) -> Setup {
    Setup::new(&format!("[workflow]\npath = \"flows\"\n{keys}\n{ROUTES}")).threads(1)
}

/// A graph of these nodes in sequence, numbered from 1.
fn chain(nodes: &[Value]) -> String {
    let mut all = vec![json!({"@type": "BOOT", "id": "0"})];
    let mut edges = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let mut node = node.clone();
        node["id"] = json!((at + 1).to_string());
        all.push(node);
        edges.push(json!({"from": at.to_string(), "to": (at + 1).to_string()}));
    }
    json!({"nodes": all, "edges": edges, "attributes": {"unit": "points"}}).to_string()
}

/// Adds a graph for each name.
fn with(setup: Setup, graphs: &[(&str, &[Value])]) -> Setup {
    graphs.iter().fold(setup, |setup, (name, nodes)| {
        setup.file(&format!("flows/{name}.json"), chain(nodes))
    })
}

/// The outcome of a workflow: its state and values.
fn came(server: &Server, name: &str, args: &Value) -> (bool, Value) {
    let (status, answer) = run(server, &format!("/workflow/{name}"), args);
    assert_eq!(status, 200, "{answer}");
    (answer["state"] == true, answer["valueMap"].clone())
}

/// The error of a workflow that fails.
fn failure(server: &Server, name: &str, args: &Value) -> String {
    logged_failure(server, &format!("/workflow/{name}"), args)
}

#[test]
fn a_node_asks_a_database_and_what_follows_sees_the_rows() {
    let postgres = Postgres::start();
    make(
        &postgres,
        "create table node_users (id int primary key, name text); grant all on node_users to public",
    );
    let keys = format!(
        "allow = {{ sql = [\"main\"] }}\n[sql.main]\nurl = \"{}\"\nacquire_timeout = \"30s\"",
        postgres.url()
    );
    let sql = |query: &str, parameters: Value, result: &str| json!({"@type": "SQL", "source": "main", "query": query, "parameters": parameters, "result": result});
    let by_id = "select id, name from node_users where id = :id";
    let id = json!({"id": "args.id"});
    let insert = sql(
        "insert into node_users values (:id, :name)",
        json!({"id": "args.id", "name": {"value": "O'Hara `${1}` \" \\"}}),
        "count",
    );
    let again = sql(
        "select name from node_users where id = :id::int and name = :name",
        json!({"id": "last.row.id", "name": "last.row.name"}),
        "value",
    );
    let other = json!({"@type": "SQL", "source": "other", "query": "select 1"});
    let server = with(
        setup(&keys),
        &[
            ("insert", &[insert]),
            ("rows", &[sql(by_id, id.clone(), "rows")]),
            ("value", &[sql(by_id, id.clone(), "row"), again]),
            ("row", &[sql(by_id, id, "row")]),
            ("other", &[other]),
        ],
    )
    .start();
    let name = "O'Hara `${1}` \" \\";
    let args = json!({"id": 7});
    assert_eq!(came(&server, "row", &args), (false, json!({"row": null})));
    assert_eq!(came(&server, "rows", &args), (false, json!({"rows": []})));
    assert_eq!(came(&server, "insert", &args), (true, json!({"count": 1})));
    assert_eq!(
        came(&server, "row", &args),
        (true, json!({"row": {"id": 7, "name": name}}))
    );
    assert_eq!(
        came(&server, "rows", &args),
        (true, json!({"rows": [{"id": 7, "name": name}]}))
    );
    assert_eq!(came(&server, "value", &args), (true, json!({"value": name})));
    // A false result ends the graph.
    assert_eq!(
        came(&server, "value", &json!({"id": 8})),
        (false, json!({"row": null}))
    );
    for (graph, args, right) in [
        ("insert", args, "duplicate key"),
        ("row", json!({}), "there is nothing at `args.id`"),
        ("other", json!({}), "database `other` may not be reached"),
    ] {
        let told = failure(&server, graph, &args);
        assert!(told.contains(right), "{graph}: {told}");
    }
}

#[test]
fn a_node_reads_and_writes_the_store() {
    let store = |operation: &str, value: Value| json!({"@type": "STORE", "operation": operation, "global": "Users", "subscripts": ["args.id", {"value": "points"}], "value": value});
    let unit = json!({"@type": "STORE", "operation": "set", "global": "Users", "subscripts": [{"value": "unit"}], "value": "attributes.unit"});
    let secret = json!({"@type": "STORE", "operation": "get", "global": "Secret"});
    let each = json!({"@type": "LOOP", "over": "args.list"});
    let add = json!({"@type": "STORE", "operation": "increment", "global": "Users", "subscripts": [{"value": "sum"}], "value": "item.n"});
    let server = with(
        setup("allow = { store = [\"Users\"] }\n[store]\npath = \"data\""),
        &[
            ("get", &[store("get", Value::Null)]),
            ("set", &[store("set", json!("args.points"))]),
            ("more", &[store("increment", Value::Null)]),
            ("remove", &[store("remove", Value::Null)]),
            ("unit", &[unit]),
            ("secret", &[secret]),
            ("sum", &[each, add]),
        ],
    )
    .start();
    let args = json!({"id": "ada", "points": 4});
    assert_eq!(came(&server, "get", &args), (false, json!({"value": null})));
    assert_eq!(came(&server, "remove", &args), (false, json!({})));
    assert_eq!(came(&server, "set", &args), (true, json!({"value": 4})));
    assert_eq!(came(&server, "more", &args), (true, json!({"value": 5})));
    assert_eq!(came(&server, "get", &args), (true, json!({"value": 5})));
    assert_eq!(came(&server, "remove", &args), (true, json!({})));
    assert_eq!(came(&server, "get", &args), (false, json!({"value": null})));
    assert_eq!(came(&server, "unit", &args), (true, json!({"value": "points"})));
    let list = json!({"list": [{"n": 2}, {"n": 3.5}]});
    assert_eq!(
        came(&server, "sum", &list),
        (true, json!({"0": {"value": 2}, "1": {"value": 5.5}}))
    );
    let told = failure(&server, "secret", &args);
    assert!(told.contains("may not reach global `Secret`"), "{told}");
    let told = failure(&server, "set", &json!({"id": "ada"}));
    assert!(told.contains("there is nothing at `args.points`"), "{told}");
}

#[test]
fn a_node_sends_a_request_and_what_fails_has_something_stand_in_for_it() {
    let other = Setup::new(
        "[script.echo]\nhandler = \"echo.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"echo\"\n",
    )
    .file(
        "echo.mjs",
        "export default async (request) => {
            if (request.path === '/text') return new Response('plain', { status: 201 });
            if (request.path === '/none') return new Response(null, { status: 204 });
            if (request.path === '/no') return Response.json({ why: 'no' }, { status: 409 });
            if (request.path === '/broken') return new Response('{', { headers: { 'content-type': 'application/json' } });
            const headers = Object.fromEntries(['content-type', 'x-own'].map((name) => [name, request.headers.get(name)]));
            return { method: request.method, headers, query: Object.fromEntries(request.query), body: await request.text() };
        };",
    )
    .start();
    let at = |path: &str, members: Value| {
        let mut node = json!({"@type": "HTTP", "url": format!("http://{}{path}", other.address())});
        for (name, value) in members.as_object().into_iter().flatten() {
            node[name] = value.clone();
        }
        node
    };
    let post = json!({"method": "POST", "headers": {"x-own": {"value": "mine"}}, "query": {"q": "args.q", "n": {"value": 1}}, "body": "args.order"});
    let text =
        json!({"method": "PUT", "headers": {"content-type": {"value": "text/plain"}}, "body": "args.q"});
    let away = json!({"@type": "HTTP", "url": "http://127.0.0.1:1/"});
    let stands_in = json!({"state": true, "valueMap": {"score": 0}});
    let mut away_stood_in = away.clone();
    away_stood_in["fallback"] = stands_in;
    let failback = json!({"@type": "FAILBACK", "ruleId": "mend"});
    let keys = format!("allow = {{ fetch = [\"{}\", \"127.0.0.1:1\"] }}", other.address());
    let elsewhere = json!({"@type": "HTTP", "url": "http://elsewhere.example/"});
    let server = with(
        setup(&keys),
        &[
            ("post", &[at("/", post)]),
            ("put", &[at("/", text)]),
            ("text", &[at("/text", json!({}))]),
            ("none", &[at("/none", json!({}))]),
            ("no", &[at("/no", json!({}))]),
            ("taken", &[at("/no", json!({"ok": [409]}))]),
            ("not-taken", &[at("/text", json!({"ok": [200]}))]),
            ("broken", &[at("/broken", json!({}))]),
            ("away", std::slice::from_ref(&away)),
            ("stood-in", &[away_stood_in]),
            ("mended", &[failback, away.clone()]),
            ("elsewhere", &[elsewhere]),
        ],
    )
    .file(
        "flows/rules/mend.js",
        "function process() { return new ScriptResult(true, { mended: 1 }); }",
    )
    .start();
    let args = json!({"q": "a b&c", "order": {"id": 1}});
    let headers = |kind: &str, own: Value| json!({"content-type": kind, "x-own": own});
    let posted = json!({"method": "POST", "headers": headers("application/json", json!("mine")), "query": {"q": "a b&c", "n": "1"}, "body": "{\"id\":1}"});
    let put =
        json!({"method": "PUT", "headers": headers("text/plain", Value::Null), "query": {}, "body": "a b&c"});
    for (graph, state, status, body) in [
        ("post", true, 200, posted),
        ("put", true, 200, put),
        ("text", true, 201, json!("plain")),
        ("none", true, 204, Value::Null),
        ("no", false, 409, json!({"why": "no"})),
        ("taken", true, 409, json!({"why": "no"})),
        ("not-taken", false, 201, json!("plain")),
    ] {
        let right = (state, json!({"status": status, "body": body}));
        assert_eq!(came(&server, graph, &args), right, "{graph}");
    }
    assert_eq!(came(&server, "stood-in", &args), (true, json!({"score": 0})));
    assert_eq!(came(&server, "mended", &args), (true, json!({"mended": 1})));
    for (graph, right) in [
        ("broken", "has answered 200 with JSON that cannot be read"),
        ("away", "127.0.0.1:1"),
        ("elsewhere", "may not fetch from"),
    ] {
        let told = failure(&server, graph, &args);
        assert!(told.contains(right), "{graph}: {told}");
    }
}
