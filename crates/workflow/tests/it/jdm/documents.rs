//! Parsing of documents.

use forebay_workflow::jdm::{Document, Kind, Mode};
use serde_json::json;

use super::host::{alone, node};

#[test]
fn a_document_is_read_and_what_editors_keep_in_it_is_left_to_them() {
    let text = br#"{
        "contentType": "application/vnd.gorules.decision",
        "nodes": [
            {"id": "1", "name": "request", "type": "inputNode", "position": {"x": 1, "y": 2}, "content": {"schema": ""}},
            {"id": "2", "name": "fees", "type": "decisionNode", "content": {"key": "fees.json", "executionMode": "loop", "inputField": "items", "outputPath": " ", "passThrough": true}},
            {"id": "3", "name": "more", "type": "functionNode", "content": "const main = () => 1"},
            {"id": "4", "name": "less", "type": "functionNode", "content": {"source": "export const handler = () => 2"}},
            {"id": "5", "type": "outputNode", "content": {"schema": "{\"type\": \"object\"}"}}
        ],
        "edges": [{"id": "6", "sourceId": "1", "targetId": "2", "type": "edge"}]
    }"#;
    let document = Document::parse(text).unwrap();
    assert_eq!(document.nodes[0].kind, Kind::Input { schema: None });
    let Kind::Decision { key, transform } = &document.nodes[1].kind else {
        panic!("{:?}", document.nodes[1]);
    };
    assert_eq!(
        (&**key, transform.mode, transform.passes_through),
        ("fees.json", Mode::Loop, true)
    );
    assert_eq!(
        (transform.input.as_deref(), transform.output.as_deref()),
        (Some("items"), None)
    );
    assert!(matches!(
        &document.nodes[2].kind,
        Kind::Function { version: 1, .. }
    ));
    assert!(matches!(
        &document.nodes[3].kind,
        Kind::Function { version: 2, .. }
    ));
    let schema = Some(json!({"type": "object"}));
    assert_eq!(document.nodes[4].kind, Kind::Output { schema });
    assert_eq!((&*document.edges[0].from, &*document.edges[0].to), ("1", "2"));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, right) in [
        ("{\n  nodes}", "line 2, column 3: key must be a string"),
        ("7", "the text.the document: found 7, expected an object"),
        ("{}", "the document: `nodes` is missing"),
        (r#"{"nodes": []}"#, "the document: `edges` is missing"),
        (
            r#"{"nodes": {}}"#,
            "the document.nodes: found {}, expected a list",
        ),
        (
            r#"{"blocks": [1]}"#,
            "the document.blocks: found [1], expected none: policies are not accepted, decision graphs are",
        ),
        (r#"{"nodes": [{"id": "1"}]}"#, "nodes[0]: `type` is missing"),
        (
            r#"{"nodes": [{"type": "loopNode"}]}"#,
            r#"nodes[0].type: found "loopNode", expected inputNode, outputNode, decisionTableNode, expressionNode, switchNode, functionNode, decisionNode or customNode"#,
        ),
        (
            r#"{"nodes": [{"type": "inputNode"}]}"#,
            "nodes[0]: `id` is missing",
        ),
        (
            r#"{"nodes": [{"type": "inputNode", "id": 7}]}"#,
            "nodes[0].id: found 7, expected text that is not empty",
        ),
        (
            r#"{"nodes": [{"type": "outputNode", "id": "7", "content": {"schema": "{"}}]}"#,
            r#"nodes[0].content.schema: found "{", expected a JSON Schema: an object, or its text"#,
        ),
        (
            r#"{"nodes": [{"type": "functionNode", "id": "7", "content": 8}]}"#,
            "nodes[0].content: found 8, expected text, or an object with `source`",
        ),
        (
            r#"{"nodes": [{"type": "decisionTableNode", "id": "7"}]}"#,
            "nodes[0]: `content` is missing",
        ),
        (
            r#"{"nodes": [{"type": "decisionTableNode", "id": "7", "content": {"inputs": [{"id": "a"}], "outputs": [], "rules": [{"a": ""}, {"a": 1}]}}]}"#,
            "nodes[0].content.rules[1].a: found 1, expected text",
        ),
        (
            r#"{"nodes": [{"type": "decisionTableNode", "id": "7", "content": {"inputs": [], "outputs": [], "rules": [], "hitPolicy": "any"}}]}"#,
            r#"nodes[0].content.hitPolicy: found "any", expected first or collect"#,
        ),
        (
            r#"{"nodes": [{"type": "expressionNode", "id": "7", "content": {"expressions": [], "executionMode": "twice"}}]}"#,
            r#"nodes[0].content.executionMode: found "twice", expected single or loop"#,
        ),
        (
            r#"{"nodes": [{"type": "expressionNode", "id": "7", "content": {"expressions": [], "passThrough": "no"}}]}"#,
            r#"nodes[0].content.passThrough: found "no", expected true or false"#,
        ),
        (
            r#"{"nodes": [], "edges": [{"sourceId": "1"}]}"#,
            "edges[0]: `targetId` is missing",
        ),
    ] {
        assert_eq!(Document::parse(text.as_bytes()).unwrap_err().to_string(), right);
    }
}

#[test]
fn a_document_has_so_many_nodes_and_no_more() {
    let mut document = alone("expressionNode", json!({"expressions": []}));
    let nodes = document["nodes"].as_array_mut().unwrap();
    nodes.extend((3..1_000).map(|id| node(&id.to_string(), "inputNode", json!({}))));
    assert!(Document::of(&document).is_ok());
    let nodes = document["nodes"].as_array_mut().unwrap();
    nodes.push(node("last", "inputNode", json!({})));
    let error = Document::of(&document).unwrap_err();
    assert_eq!(error.to_string(), "nodes: 1001, at most 1000");
}
