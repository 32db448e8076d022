//! Parsing of graph definitions.

use forebay_workflow::{BuiltinTask, Definition, Kind, Logical, Operand, Operation};
use serde_json::json;

#[test]
fn a_graph_of_rengine_is_read_with_its_attributes() {
    let text = br#"{
        "engine": "STANDARD_GRAPH",
        "nodes": [
            {"@type": "BOOT", "id": "0", "name": "begin", "attributes": {"top": 1, "left": 2, "color": null}},
            {"@type": "LOGICAL", "id": "1", "logical": "ALL_OR", "priority": null},
            {"@type": "RUN", "id": 2, "ruleId": 650868953448848, "priority": -1}
        ],
        "edges": [{"name": "first", "from": "0", "to": "1", "attributes": null}, {"from": "1", "to": 2}],
        "attributes": {"foo": "bar"}
    }"#;
    let graph = Definition::parse(text).unwrap();
    assert_eq!(graph.attributes["foo"], "bar");
    assert_eq!(graph.nodes[0].name.as_deref(), Some("begin"));
    assert_eq!(graph.nodes[1].kind, Kind::Logical(Logical::AllOr));
    let rule = "650868953448848".to_owned();
    assert_eq!(graph.nodes[2].kind, Kind::Run { rule });
    assert_eq!((&*graph.nodes[2].id, graph.nodes[2].priority), ("2", Some(-1)));
    assert_eq!((&*graph.edges[1].from, &*graph.edges[1].to), ("1", "2"));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, right) in [
        ("{\n  nodes}", "line 2, column 3: key must be a string"),
        ("7", "the definition.the graph: found 7, expected an object"),
        ("{}", "the graph: `nodes` is missing"),
        (
            r#"{"nodes": []}"#,
            "the graph.nodes: found [], expected a list that is not empty",
        ),
        (
            r#"{"engine": "FLINK_CEP_GRAPH"}"#,
            r#"the graph.engine: found "FLINK_CEP_GRAPH", expected "STANDARD_GRAPH""#,
        ),
        (
            r#"{"attributes": 1}"#,
            "the graph.attributes: found 1, expected an object",
        ),
        (
            r#"{"nodes": [3]}"#,
            "the graph.nodes[0]: found 3, expected an object",
        ),
        (r#"{"nodes": [{"id": "0"}]}"#, "nodes[0]: `@type` is missing"),
        (
            r#"{"nodes": [{"@type": "START"}]}"#,
            r#"nodes[0].@type: found "START", expected BOOT, PROCESS, RELATION, RUN, FAILBACK, LOGICAL, SWITCH, PARALLEL, LOOP, SUBFLOW, DELAY, RETRY, SQL, STORE or HTTP"#,
        ),
        (r#"{"nodes": [{"@type": "BOOT"}]}"#, "nodes[0]: `id` is missing"),
        (
            r#"{"nodes": [{"@type": "BOOT", "id": ""}]}"#,
            r#"nodes[0].id: found "", expected text that is not empty, or a whole number"#,
        ),
        (
            r#"{"nodes": [{"@type": "BOOT", "id": 0.5}]}"#,
            "nodes[0].id: found 0.5, expected text that is not empty, or a whole number",
        ),
        (
            r#"{"nodes": [{"@type": "RUN", "id": 1}]}"#,
            "nodes[0]: `ruleId` is missing",
        ),
        (
            r#"{"nodes": [{"@type": "LOGICAL", "id": 1}]}"#,
            "nodes[0]: `logical` is missing",
        ),
        (
            r#"{"nodes": [{"@type": "LOGICAL", "id": 1, "logical": "XOR"}]}"#,
            r#"nodes[0].logical: found "XOR", expected AND, OR, ALL_AND, ALL_OR or NOT"#,
        ),
        (
            r#"{"nodes": [{"@type": "BOOT", "id": 1, "priority": "1"}]}"#,
            r#"nodes[0].priority: found "1", expected a whole number"#,
        ),
        (
            r#"{"nodes": [{"@type": "BOOT", "id": 1}]}"#,
            "the graph: `edges` is missing",
        ),
        (
            r#"{"nodes": [{"@type": "BOOT", "id": 1}], "edges": [{"from": 1}]}"#,
            "edges[0]: `to` is missing",
        ),
    ] {
        assert_eq!(Definition::parse(text.as_bytes()).unwrap_err().to_string(), right);
    }
    let fallback = r#"{"nodes": [{"@type": "RUN", "id": 1, "ruleId": "a", "fallback": {"state": true, "values": {}}}], "edges": []}"#;
    let error = Definition::parse(fallback.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("nodes[0].fallback: found "), "{error}");
    let many = vec![r#"{"@type": "BOOT", "id": 1}"#; 10_001].join(",");
    let error = Definition::parse(format!(r#"{{"nodes": [{many}]}}"#).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "nodes: 10001, at most 10000");
}

#[test]
fn members_of_nodes_that_mean_nothing_are_warned_of() {
    let text = r#"{"nodes": [
        {"@type": "BOOT", "id": "0"}, {"@type": "PROCESS", "id": "1", "ruleId": "a", "timeOutMs": 5, "timeoutMs": 6},
        {"@type": "DELAY", "id": "2", "delayMs": 1, "timeoutMs": 6, "x": 1}
    ], "edges": [{"from": "0", "to": "1"}], "editor": {}}"#;
    assert_eq!(
        Definition::parse(text.as_bytes()).unwrap().warnings,
        [
            "node `1` (PROCESS): `timeOutMs` without effect: there are @type, fallback, id, name, priority, ruleId, timeoutMs",
            "node `2` (DELAY): `timeoutMs`, `x` without effect: there are @type, delayMs, id, name, priority",
        ]
    );
}

#[test]
fn nodes_that_need_no_rule_say_what_they_ask_for() {
    let node = |text: &str| {
        let text = format!(r#"{{"nodes": [{text}], "edges": [{{"from": 0, "to": 1}}]}}"#);
        Definition::parse(text.as_bytes()).map(|definition| definition.nodes[0].kind.clone())
    };
    let kind = node(
        r#"{"@type": "STORE", "id": 1, "operation": "set", "global": "Users", "subscripts": ["args.user.id", {"value": "name"}], "value": "item", "attributes": {"top": 1}, "timeoutMs": 5, "fallback": {"state": false}}"#,
    );
    let Ok(Kind::BuiltinTask { task, .. }) = &kind else {
        panic!("{kind:?}");
    };
    let right = BuiltinTask::Store {
        operation: Operation::Set,
        global: "Users".to_owned(),
        subscripts: vec![
            Operand::Place("args.user.id".to_owned()),
            Operand::Constant(json!("name")),
        ],
        value: Some(Operand::Place("item".to_owned())),
    };
    assert_eq!(task, &right);

    let place = r#"a place (`args`, `last`, `item` or `attributes`, and names behind points), or {"value": a constant}"#;
    for (members, right) in [
        (r#""@type": "SQL", "query": "select 1""#, "nodes[0]: `source` is missing".to_owned()),
        (r#""@type": "SQL", "source": "main""#, "nodes[0]: `query` is missing".to_owned()),
        (
            r#""@type": "SQL", "source": "main", "query": """#,
            r#"nodes[0].query: found "", expected text that is not empty"#.to_owned(),
        ),
        (
            r#""@type": "SQL", "source": "main", "query": "select 1", "result": "all""#,
            r#"nodes[0].result: found "all", expected rows, row, value or count"#.to_owned(),
        ),
        (
            r#""@type": "SQL", "source": "main", "query": "select 1", "querry": 1"#,
            "nodes[0]: `querry` is not known; accepted are source, query, parameters, result, @type, id, name, priority, timeoutMs, fallback, attributes".to_owned(),
        ),
        (
            r#""@type": "SQL", "source": "main", "query": "select :a", "parameters": {"a": "arg.b"}"#,
            format!(r#"nodes[0].parameters.a: found "arg.b", expected {place}"#),
        ),
        (
            r#""@type": "SQL", "source": "main", "query": "select :a", "parameters": ["args.b"]"#,
            r#"nodes[0].parameters: found ["args.b"], expected an object of at most 1000 members"#.to_owned(),
        ),
        (r#""@type": "STORE", "global": "a""#, "nodes[0]: `operation` is missing".to_owned()),
        (
            r#""@type": "STORE", "operation": "put""#,
            r#"nodes[0].operation: found "put", expected get, set, increment or remove"#.to_owned(),
        ),
        (r#""@type": "STORE", "operation": "get""#, "nodes[0]: `global` is missing".to_owned()),
        (
            r#""@type": "STORE", "operation": "set", "global": "a""#,
            "nodes[0]: `value` is missing".to_owned(),
        ),
        (
            r#""@type": "STORE", "operation": "get", "global": "a", "value": "last""#,
            r#"nodes[0].value: found "last", expected nothing: only set and increment take a value"#.to_owned(),
        ),
        (
            r#""@type": "STORE", "operation": "get", "global": "a", "subscripts": ["last", "args..b"]"#,
            format!(r#"nodes[0].subscripts.1: found "args..b", expected {place}"#),
        ),
        (
            r#""@type": "STORE", "operation": "increment", "global": "a", "value": 7"#,
            format!("nodes[0].value: found 7, expected {place}"),
        ),
        (r#""@type": "HTTP""#, "nodes[0]: `url` is missing".to_owned()),
        (
            r#""@type": "HTTP", "url": "ftp://a""#,
            r#"nodes[0].url: found "ftp://a", expected an address that begins with http:// or https://"#.to_owned(),
        ),
        (
            r#""@type": "HTTP", "url": "http://a", "method": "post""#,
            r#"nodes[0].method: found "post", expected GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"#.to_owned(),
        ),
        (
            r#""@type": "HTTP", "url": "http://a", "body": "args""#,
            r#"nodes[0].body: found "args", expected nothing: GET and HEAD send no body"#.to_owned(),
        ),
        (
            r#""@type": "HTTP", "url": "http://a", "ok": [200, 600]"#,
            "nodes[0].ok: found [200,600], expected a list of statuses from 100 to 599".to_owned(),
        ),
        (
            r#""@type": "HTTP", "url": "http://a", "headers": {"accept": "text/plain"}"#,
            format!(r#"nodes[0].headers.accept: found "text/plain", expected {place}"#),
        ),
        (
            r#""@type": "POOL", "pool": "a""#,
            "nodes[0]: `path` is missing".to_owned(),
        ),
        (
            r#""@type": "POOL", "path": "/""#,
            "nodes[0]: `pool` is missing".to_owned(),
        ),
        (
            r#""@type": "POOL", "pool": "", "path": "/""#,
            r#"nodes[0].pool: found "", expected text that is not empty"#.to_owned(),
        ),
        (
            r#""@type": "POOL", "pool": "a", "path": "/a?b=1""#,
            r#"nodes[0].path: found "/a?b=1", expected a path that begins with one /, without a query"#.to_owned(),
        ),
        (
            r#""@type": "POOL", "pool": "a", "path": "//a""#,
            r#"nodes[0].path: found "//a", expected a path that begins with one /, without a query"#.to_owned(),
        ),
        (
            r#""@type": "POOL", "pool": "a", "path": "/", "body": "args""#,
            r#"nodes[0].body: found "args", expected nothing: GET and HEAD send no body"#.to_owned(),
        ),
    ] {
        let told = node(&format!("{{{members}, \"id\": 1}}")).unwrap_err();
        assert_eq!(told.to_string(), right);
    }
}
