//! Problems that the check finds in documents before they are evaluated.

use serde_json::json;

use super::host::{alone, decision, document, expressions, node, problems, result, warnings};

#[test]
fn each_fault_of_the_graph_is_named_with_its_nodes() {
    let plain = |id: &str| node(id, "expressionNode", expressions(&[]));
    for (nodes, edges, right) in [
        (
            vec![node("in2", "inputNode", json!(null))],
            "",
            "node `in2` is a second inputNode: a document has one",
        ),
        (vec![plain("a"), plain("a")], "", "node `a` is there twice"),
        (
            vec![],
            "in -> b",
            "the edge from `in` to `b`: there is no node `b`",
        ),
        (
            vec![],
            "b -> out",
            "the edge from `b` to `out`: there is no node `b`",
        ),
        (
            vec![plain("a"), plain("b"), plain("c"), plain("d")],
            "in -> a; a -> b; b -> c; c -> a; c -> d; d -> out",
            "node `c` comes after itself: c -> a -> b -> c",
        ),
        (
            vec![plain("a"), plain("b")],
            "a -> a; b -> b",
            "node `a` comes after itself: a -> a | node `b` comes after itself: b -> b",
        ),
        (
            vec![node("a", "decisionNode", json!({"key": "unknown"}))],
            "",
            "node `a`: there is no decision `unknown`",
        ),
    ] {
        assert_eq!(problems(&document(&nodes, edges)), right);
    }
    let empty = json!({"nodes": [], "edges": []});
    assert_eq!(
        problems(&empty),
        "the document has no inputNode, with which a run begins"
    );
}

#[test]
fn each_way_that_a_switch_does_not_have_is_named() {
    let statements = json!([{"id": "s", "condition": "a"}, {"id": "s", "condition": ""}]);
    let switch = node("a", "switchNode", json!({"statements": statements}));
    assert_eq!(
        problems(&document(&[switch], "in -> a; a -> out; a -t-> out")),
        "the edge from `a` to `out`: it names no statement of the switch (sourceHandle) | \
         the edge from `a` to `out`: the switch has no statement `t` | node `a`: statement `s` is there twice"
    );
}

#[test]
fn each_expression_that_cannot_be_compiled_is_named_with_its_place() {
    let long = format!("{}1", "1 +".repeat(6_000));
    let table = json!({
        "inputs": [{"id": "c1", "name": "Country", "field": "customer"}],
        "outputs": [{"id": "c3", "name": "Fee", "field": "fee"}, {"id": "c4", "field": "a.".repeat(40)}],
        "rules": [{"c1": "'a'"}, {"c3": long, "c4": "1"}],
        "inputField": "(",
    });
    let found = problems(&alone("decisionTableNode", table));
    let found: Vec<_> = found.split(" | ").collect();
    for (found, right) in found.iter().zip([
        "node `it`, inputField: `(`: ",
        "node `it`, row 2, column `Fee`: `1 +1 +",
        "node `it`, column `c4`: `a.a.a.",
    ]) {
        assert!(found.starts_with(right), "{found}\n{right}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
    let list = expressions(&[("a", "1"), ("b", "nothing("), ("", "("), ("c", "")]);
    let found = problems(&alone("expressionNode", list));
    assert!(
        found.starts_with("node `it`, expression 2 (`b`): `nothing(`: "),
        "{found}"
    );
    assert!(!found.contains(" | "), "{found}");
}

#[test]
fn a_cell_that_cannot_be_parsed_matches_nothing_and_is_warned_of() {
    let table = json!({
        "hitPolicy": "collect",
        "inputs": [{"id": "c1", "name": "Country", "field": "customer."}, {"id": "c2", "field": "total"}],
        "outputs": [{"id": "c3", "name": "Fee", "field": "fee"}],
        "rules": [{"c1": "'a'", "c3": "1"}, {"c2": ">", "c3": "2"}, {"c3": "1 +"}, {"c1": "", "c2": "7", "c3": "4"}],
    });
    let table = alone("decisionTableNode", table);
    let found = warnings(&table);
    let found: Vec<_> = found.split(" | ").collect();
    for (found, right) in found.iter().zip([
        "node `it`, column `Country`: `customer.` cannot be parsed, so it matches nothing: ",
        "node `it`, row 2, column `c2`: `>` cannot be parsed, so it matches nothing: ",
        "node `it`, row 3, column `Fee`: `1 +` cannot be parsed, so it matches nothing: ",
    ]) {
        assert!(found.starts_with(right), "{found}\n{right}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
    let decided = result(&decision(&table), &json!({"total": 7}));
    assert_eq!(decided, json!([{"fee": 4}]));
    let statements = json!([{"id": "s", "condition": "a b"}, {"id": "t", "condition": ""}]);
    let wrong = node("wrong", "expressionNode", expressions(&[("way", "'wrong'")]));
    let right = node("right", "expressionNode", expressions(&[("way", "'right'")]));
    let switch = document(
        &[
            node("it", "switchNode", json!({"statements": statements})),
            wrong,
            right,
        ],
        "in -> it; it -s-> wrong; it -t-> right; wrong -> out; right -> out",
    );
    let found = warnings(&switch);
    assert!(
        found.starts_with("node `it`, statement 1: `a b` cannot be parsed, so it matches nothing: "),
        "{found}"
    );
    let decided = result(&decision(&switch), &json!({}));
    assert_eq!(decided, json!({"way": "right"}));
}

#[test]
fn a_schema_that_is_none_is_named() {
    let schema = json!({"schema": {"type": "nothing"}});
    let found = problems(&document(&[node("end", "outputNode", schema)], ""));
    assert!(
        found.starts_with("node `end`: its schema: \"nothing\""),
        "{found}"
    );
    // References to other documents are not fetched.
    let schema = json!({"schema": {"$ref": "https://example.com/schema.json"}});
    let found = problems(&document(&[node("end", "outputNode", schema)], ""));
    assert!(found.starts_with("node `end`: its schema: "), "{found}");
}

#[test]
fn expressions_that_are_too_long_or_too_deep_are_refused() {
    let refused = |text: &str| {
        let found = problems(&alone("expressionNode", expressions(&[("a", text)])));
        found.rsplit("`: ").next().unwrap().to_owned()
    };
    let long = "1 +".repeat(6_000);
    assert_eq!(refused(&long), "it has 18000 bytes, at most 16384");
    let deep = format!("{}1{}", "(".repeat(65), ")".repeat(65));
    assert_eq!(refused(&deep), "more than 64 brackets are within one another");
    let loops = "map(a, map(b, map(c, map(d, 1))))";
    assert_eq!(refused(loops), "more than 3 loops are within one another");
}

#[test]
fn long_chains_of_operators_end_in_a_decision_or_a_problem() {
    for part in [
        "1+",
        "-",
        "not ",
        "a ? 1 : ",
        "a.",
        "a ?? ",
        "2^",
        "!",
        "a['b']",
        "a = [a]; ",
    ] {
        let mut text = part.repeat(16_000 / part.len());
        text.push('1');
        let document = alone("expressionNode", expressions(&[("a", &text)]));
        let document = forebay_workflow::jdm::Document::of(&document).unwrap();
        // The result is irrelevant; the check must return without a stack overflow.
        if let Ok(decision) = forebay_workflow::jdm::check(&document, |_| true) {
            super::host::evaluated_by(&super::host::Host::default(), &decision, json!({}), true);
        }
    }
}
