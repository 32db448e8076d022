//! How graphs are written.

use forebay_workflow::{Definition, Kind, Logical};

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
            "the definition.nodes[0]: found 3, expected an object",
        ),
        (r#"{"nodes": [{"id": "0"}]}"#, "nodes[0]: `@type` is missing"),
        (
            r#"{"nodes": [{"@type": "START"}]}"#,
            r#"nodes[0].@type: found "START", expected BOOT, PROCESS, RELATION, RUN, FAILBACK, LOGICAL, SWITCH, PARALLEL, LOOP, SUBFLOW, DELAY or RETRY"#,
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
    let many = vec![r#"{"@type": "BOOT", "id": 1}"#; 10_001].join(",");
    let error = Definition::parse(format!(r#"{{"nodes": [{many}]}}"#).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "nodes: 10001, at most 10000");
}
