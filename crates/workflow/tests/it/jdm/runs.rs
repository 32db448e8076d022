//! How runs proceed from node to node, and which results nodes see.

use std::sync::Arc;

use serde_json::{Value, json};

use super::host::{Host, decision, document, evaluated_by, expressions, failure, node, result};

fn adds(id: &str, text: &str) -> Value {
    node(id, "expressionNode", expressions(&[(id, text)]))
}

#[test]
fn a_node_is_given_what_those_before_it_have_come_to_together() {
    let nodes = [
        adds("a", "{x: 1, y: [1], z: null}"),
        adds("b", "{x: 2}"),
        node(
            "other",
            "expressionNode",
            expressions(&[("a", "{y: [2], n: null, z: 5}"), ("gone", "null")]),
        ),
        adds("all", "[a, b]"),
    ];
    let edges = "in -> a; in -> b; in -> other; a -> all; b -> all; other -> all; all -> out";
    let given = result(&decision(&document(&nodes, edges)), &json!({}));
    // The last edge of the document is the base of the merge; null removes a member beneath it.
    assert_eq!(given, json!({"all": [{"x": 1, "y": [1], "n": null}, {"x": 2}]}));
}

#[test]
fn without_an_output_the_result_is_what_all_ends_have_come_to() {
    let nodes = [adds("a", "1"), adds("b", "2"), adds("c", "a + 1")];
    let decision = decision(&document(&nodes, "in -> a; in -> b; a -> c"));
    assert_eq!(result(&decision, &json!({})), json!({"b": 2, "c": 2}));
}

#[test]
fn a_run_ends_at_the_first_output_that_it_comes_to() {
    let nodes = [
        adds("a", "1"),
        adds("b", "missing.b + 1"),
        node("out2", "outputNode", json!(null)),
    ];
    let decision = decision(&document(&nodes, "in -> a; a -> out; in -> b; b -> out2"));
    assert_eq!(result(&decision, &json!({})), json!({"a": 1}));
}

#[test]
fn what_nodes_before_have_come_to_is_known_by_their_names() {
    let nodes = [
        adds("a", "n + 1"),
        adds("b", "$nodes['the a'].a + $nodes.request.n"),
        adds("c", "{seen: keys($nodes), nodes: $nodes}"),
    ];
    let decision = decision(&document(&nodes, "in -> a; a -> b; b -> c; c -> out"));
    let given = result(&decision, &json!({"n": 1}));
    let mut seen: Vec<_> = given["c"]["seen"].as_array().unwrap().clone();
    seen.sort_by_key(ToString::to_string);
    assert_eq!(seen, ["request", "the a", "the b"]);
    assert_eq!(given["c"]["nodes"]["the b"], json!({"b": 3}));
    // `$nodes` never appears in a result.
    let root = super::host::alone("expressionNode", expressions(&[("a", "$root"), ("b", "$nodes")]));
    let given = result(&super::host::decision(&root), &json!({"n": 1}));
    assert_eq!(given["a"], json!({"n": 1}));
    assert_eq!(given["b"], json!({"request": {"n": 1}}));
    let root = super::host::alone("expressionNode", expressions(&[("a", "$root[key].request.n")]));
    let input = json!({"n": 1, "key": "$nodes"});
    assert_eq!(result(&super::host::decision(&root), &input), json!({"a": 1}));
}

#[test]
fn what_a_node_makes_of_what_it_is_given_is_not_seen_by_others() {
    let mut passes = expressions(&[("x", "1"), ("inner.y", "2")]);
    passes["passThrough"] = true.into();
    let mut loops = passes.clone();
    loops["inputField"] = "items".into();
    loops["outputPath"] = "items".into();
    loops["executionMode"] = "loop".into();
    let nodes = [
        node("passes", "expressionNode", passes),
        node("loops", "expressionNode", loops),
        adds("others", "$root['$nodes'].request"),
    ];
    let edges = "in -> passes; passes -> loops; loops -> others; others -> out";
    let decision = decision(&document(&nodes, edges));
    let input = json!({"n": 1, "inner": {"z": 3}, "items": [{"n": 2, "inner": {"z": 4}}]});
    assert_eq!(result(&decision, &input), json!({"others": input}));
}

#[test]
fn functions_are_called_with_their_text_and_what_they_are_given() {
    let nodes = [
        node("one", "functionNode", json!({"source": "plain"})),
        node("two", "functionNode", json!("asks for $nodes")),
        node(
            "three",
            "customNode",
            json!({"kind": "mail", "config": {"to": 1}}),
        ),
    ];
    let decision = decision(&document(
        &nodes,
        "in -> one; one -> two; two -> three; three -> out",
    ));
    let host = Host::default();
    let evaluation = evaluated_by(&host, &decision, json!({"n": 1}), true);
    let given = evaluation.result.unwrap();
    assert_eq!(given["work"], json!(r#"mail {"to":1}"#));
    assert_eq!(given["given"]["work"], json!("asks for $nodes v1"));
    let first = &given["given"]["given"];
    assert_eq!(
        *first,
        json!({"node": "one", "name": "the one", "work": "plain v2", "given": {"n": 1}})
    );
    let trace = evaluation.trace.unwrap();
    assert_eq!(trace[1].trace, json!({"log": ["plain v2"]}));
}

#[test]
fn functions_that_ask_for_other_nodes_are_told_what_they_have_come_to() {
    let nodes = [
        node("one", "functionNode", json!({"source": "plain"})),
        node("two", "functionNode", json!("asks for $nodes")),
    ];
    let decision = decision(&document(&nodes, "in -> one; one -> two; two -> out"));
    let host = Host::default();
    let evaluation = evaluated_by(&host, &decision, json!({"n": 1}), false);
    let first = evaluation.result.unwrap()["given"].take();
    let calls = host.calls.take();
    assert_eq!(calls[0], json!({"n": 1}));
    assert_eq!(calls[1]["$nodes"], json!({"request": {"n": 1}, "the one": first}));
}

#[test]
fn what_was_done_before_a_switch_is_not_done_again() {
    let statements = json!([{"id": "s", "condition": "given.n > 1"}, {"id": "t", "condition": ""}]);
    let nodes = [
        node("one", "functionNode", json!({"source": "plain"})),
        node("switch", "switchNode", json!({"statements": statements})),
        adds("a", "1"),
    ];
    let decision = decision(&document(
        &nodes,
        "in -> one; one -> switch; switch -s-> a; switch -t-> out",
    ));
    let host = Host::default();
    let evaluation = evaluated_by(&host, &decision, json!({"n": 2}), false);
    assert_eq!(evaluation.result.unwrap(), json!({"a": 1}));
    assert_eq!(host.calls.take().len(), 1);
}

#[test]
fn what_has_no_members_is_nothing_to_the_nodes_behind_it() {
    let table = json!({"inputs": [], "outputs": [], "rules": []});
    let nodes = [
        node("table", "decisionTableNode", table),
        adds("a", "[type($root), type($nodes['the table'])]"),
    ];
    let decision = decision(&document(&nodes, "in -> table; table -> a; a -> out"));
    assert_eq!(
        result(&decision, &json!({"n": 2})),
        json!({"a": ["object", "null"]})
    );
}

#[test]
fn a_function_that_fails_fails_the_run_and_is_named() {
    let nodes = [node("one", "functionNode", json!({"source": "fails"}))];
    let decision = decision(&document(&nodes, "in -> one; one -> out"));
    assert_eq!(failure(&decision, &json!({})), "node `one` failed: it throws");
    let evaluation = evaluated_by(&Host::default(), &decision, json!({"n": 1}), true);
    let reply = evaluation.reply();
    assert_eq!(reply["type"], "NodeError");
    assert_eq!(
        (&reply["nodeId"], &reply["source"]),
        (&json!("one"), &json!("it throws"))
    );
    assert_eq!(reply["trace"]["one"]["input"], json!({"n": 1}));
    assert_eq!(reply["trace"]["one"]["output"], Value::Null);
}

#[test]
fn a_reply_is_what_clients_of_gorules_read() {
    let decision = decision(&document(&[adds("a", "n + 1")], "in -> a; a -> out"));
    let reply = evaluated_by(&Host::default(), &decision, json!({"n": 1}), true).reply();
    assert_eq!(reply["result"], json!({"a": 2}));
    let performance = reply["performance"].as_str().unwrap();
    assert!(
        performance.ends_with('s') && performance.contains('.'),
        "{performance}"
    );
    let mut step = reply["trace"]["a"].clone();
    assert!(step["performance"].take().is_string());
    assert_eq!(
        step,
        json!({
            "id": "a", "name": "the a", "order": 1, "performance": null,
            "input": {"n": 1}, "output": {"a": 2}, "traceData": {"a": {"result": 2}},
        })
    );
    let last = &reply["trace"]["out"];
    assert_eq!(
        (&last["input"], &last["output"]),
        (&json!({"a": 2}), &Value::Null)
    );
    let plain = evaluated_by(&Host::default(), &decision, json!({"n": 1}), false).reply();
    assert!(plain.get("trace").is_none());
}

fn host_of(decisions: Vec<(&'static str, Value)>) -> Host {
    let decisions = decisions.into_iter();
    Host {
        decisions: decisions
            .map(|(key, document)| (key, Arc::new(decision(&document))))
            .collect(),
        ..Host::default()
    }
}

#[test]
fn a_decision_is_evaluated_within_another_and_knows_what_is_around_it() {
    let inner = document(
        &[adds(
            "x",
            "{n: n, around: $nodes.request['$nodes'].request.factor}",
        )],
        "in -> x; x -> out",
    );
    let content =
        json!({"key": "inner", "inputField": "items", "outputPath": "list", "executionMode": "loop"});
    let nodes = [node("sub", "decisionNode", content)];
    let outer = decision(&document(&nodes, "in -> sub; sub -> out"));
    let host = host_of(vec![("inner", inner)]);
    let evaluation = evaluated_by(
        &host,
        &outer,
        json!({"items": [{"n": 1}, {"n": 2}], "factor": 3}),
        true,
    );
    let inner = |n: u8| json!({"x": {"n": n, "around": 3}});
    assert_eq!(evaluation.result.unwrap(), json!({"list": [inner(1), inner(2)]}));
    let trace = &evaluation.trace.unwrap()[1].trace;
    assert_eq!(trace[1]["x"]["output"], inner(2));
}

#[test]
fn what_fails_within_a_decision_is_named_with_the_way_there() {
    let inner = document(&[adds("x", "n + {}")], "in -> x; x -> out");
    let nodes = [node("sub", "decisionNode", json!({"key": "inner"}))];
    let outer = decision(&document(&nodes, "in -> sub; sub -> out"));
    let host = host_of(vec![("inner", inner)]);
    let evaluation = evaluated_by(&host, &outer, json!({"n": 1}), true);
    assert_eq!(
        evaluation.result.unwrap_err().to_string(),
        "node `sub/x` failed: `n + {}`: Opcode Add: Unsupported type"
    );
    assert_eq!(evaluation.trace.unwrap()[1].trace["x"]["input"], json!({"n": 1}));
    let evaluation = evaluated_by(&Host::default(), &outer, json!({}), false);
    assert_eq!(
        evaluation.result.unwrap_err().to_string(),
        "node `sub` failed: there is no decision `inner`"
    );
}

#[test]
fn a_decision_within_itself_comes_to_an_end() {
    let nodes = [node("sub", "decisionNode", json!({"key": "self"}))];
    let document = document(&nodes, "in -> sub; sub -> out");
    let host = host_of(vec![("self", document.clone())]);
    let evaluation = evaluated_by(&host, &decision(&document), json!({}), false);
    let way = ["sub"; 10].join("/");
    assert_eq!(
        evaluation.result.unwrap_err().to_string(),
        format!("node `{way}` failed: decision `self` would be evaluated within 10 others")
    );
}

#[test]
fn schemas_are_satisfied_or_the_run_fails_with_the_place() {
    let schema = r#"{"type": "object", "properties": {"customer": {"properties": {"age": {"type": "integer"}}}}, "required": ["customer"]}"#;
    let mut document = document(&[], "in -> out");
    document["nodes"][0]["content"] = json!({"schema": schema});
    document["nodes"][1]["content"] = json!({"schema": {"properties": {"b": {"maximum": 5}}}});
    let decision = decision(&document);
    let input = json!({"customer": {"age": 7}, "b": 5});
    assert_eq!(result(&decision, &input), input);
    for (input, right) in [
        (
            json!({"customer": {"age": 7.5}}),
            "node `in` failed: /customer/age: 7.5 is not of type \"integer\"",
        ),
        (
            json!({}),
            "node `in` failed: /: \"customer\" is a required property",
        ),
        (
            json!({"customer": {}, "b": 6}),
            "node `out` failed: /b: 6 is greater than the maximum of 5",
        ),
    ] {
        assert_eq!(failure(&decision, &input), right);
    }
}
