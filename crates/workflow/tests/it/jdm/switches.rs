//! Which edges switches take.

use serde_json::{Value, json};

use super::host::{Host, decision, document, evaluated_by, expressions, node, result};

fn says(id: &str) -> Value {
    node(id, "expressionNode", expressions(&[(id, "true")]))
}

/// Like `says`, but passes its input through.
fn adds(id: &str) -> Value {
    let mut node = says(id);
    node["content"]["passThrough"] = true.into();
    node
}

fn switch(hits: &str, conditions: &[&str]) -> Value {
    let statements = conditions.iter().enumerate();
    let statements =
        statements.map(|(id, condition)| json!({"id": format!("s{id}"), "condition": condition}));
    let content = json!({"hitPolicy": hits, "statements": statements.collect::<Vec<_>>()});
    node("switch", "switchNode", content)
}

#[test]
fn the_first_that_is_true_is_gone_or_all_are() {
    let nodes = |hits| {
        let switch = switch(hits, &["n > 10", "n > 5", "", "n < 0"]);
        [switch, says("a"), says("b"), says("c"), says("d")]
    };
    let edges = "in -> switch; switch -s0-> a; switch -s1-> b; switch -s2-> c; switch -s3-> d; a -> out; b -> out; c -> out; d -> out";
    let first = decision(&document(&nodes("first"), edges));
    let all = decision(&document(&nodes("collect"), edges));
    for (n, of_first, of_all) in [
        (
            json!(11),
            json!({"a": true}),
            json!({"a": true, "b": true, "c": true}),
        ),
        (json!(6), json!({"b": true}), json!({"b": true, "c": true})),
        (json!(0), json!({"c": true}), json!({"c": true})),
        // A value that is not a number is not greater than one.
        (json!("text"), json!({"c": true}), json!({"c": true})),
    ] {
        assert_eq!(result(&first, &json!({"n": n})), of_first);
        assert_eq!(result(&all, &json!({"n": n})), of_all);
    }
}

#[test]
fn what_only_leads_to_a_way_that_is_not_gone_is_not_gone_either() {
    // No condition is true: a branch that leads only to the switch adds nothing, and the result is that of the other branch.
    let nodes = [switch("first", &["n > 10"]), adds("before"), says("a"), says("b")];
    let edges = "in -> before; before -> switch; switch -s0-> a; in -> b";
    let decision = decision(&document(&nodes, edges));
    assert_eq!(result(&decision, &json!({"n": 1})), json!({"b": true}));
    assert_eq!(
        result(&decision, &json!({"n": 11})),
        json!({"a": true, "b": true})
    );
}

#[test]
fn what_is_only_there_for_a_switch_is_gone_with_it() {
    // `loose` is not reachable from the input; it runs because the switch depends on it.
    let nodes = [
        switch("first", &["n > 10"]),
        says("loose"),
        says("c"),
        says("b"),
        says("a"),
    ];
    // `c` is visited before the switch decides with one order of edges, and after it with the other.
    for edges in [
        "in -> switch; loose -> switch; loose -> c; switch -s0-> a; in -> b",
        "in -> switch; loose -> c; loose -> switch; switch -s0-> a; in -> b",
    ] {
        let decision = decision(&document(&nodes, edges));
        assert_eq!(result(&decision, &json!({"n": 1})), json!({"b": true}));
        let all = json!({"a": true, "b": true, "c": true});
        assert_eq!(result(&decision, &json!({"n": 11})), all);
    }
}

#[test]
fn where_all_ways_end_nothing_is_the_result() {
    let nodes = [switch("first", &["n > 10"]), says("a")];
    let decision = decision(&document(&nodes, "in -> switch; switch -s0-> a; a -> out"));
    assert_eq!(result(&decision, &json!({"n": 1})), json!({}));
}

#[test]
fn ways_that_come_together_again_give_what_was_gone() {
    let nodes = [
        switch("first", &["n > 10", ""]),
        says("a"),
        says("b"),
        node("sum", "expressionNode", expressions(&[("sum", "[a, b, n]")])),
    ];
    let edges =
        "in -> switch; switch -s0-> a; switch -s1-> b; a -> sum; b -> sum; switch -s0-> sum; sum -> out";
    let decision = decision(&document(&nodes, edges));
    assert_eq!(
        result(&decision, &json!({"n": 11})),
        json!({"sum": [true, null, 11]})
    );
    assert_eq!(
        result(&decision, &json!({"n": 1})),
        json!({"sum": [null, true, null]})
    );
}

#[test]
fn the_trace_has_the_statements_that_were_true() {
    let nodes = [switch("collect", &["n > 10", "n > 5", ""]), says("a")];
    let decision = decision(&document(&nodes, "in -> switch; switch -s1-> a; a -> out"));
    let evaluation = evaluated_by(&Host::default(), &decision, json!({"n": 7}), true);
    let trace = evaluation.trace.unwrap();
    let ids: Vec<_> = trace.iter().map(|step| &*step.id).collect();
    assert_eq!(ids, ["in", "switch", "a", "out"]);
    assert_eq!(
        trace[1].trace,
        json!({"statements": [{"id": "s1"}, {"id": "s2"}]})
    );
    assert_eq!(trace[1].output, json!({"n": 7}));
}
