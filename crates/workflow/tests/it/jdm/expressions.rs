//! Evaluation of expression nodes.

use serde_json::{Value, json};

use super::host::{Host, alone, decision, evaluated_by, expressions, failure, result};

fn evaluated(list: &[(&str, &str)], input: &Value) -> Value {
    result(&decision(&alone("expressionNode", expressions(list))), input)
}

#[test]
fn each_sees_those_before_it() {
    let list = [
        ("total", "sum(map(items, #.price))"),
        ("fee.card", "$.total * 0.02"),
        ("fee.all", "$.fee.card + $.total"),
        ("", "1"),
        ("left out", ""),
    ];
    let input = json!({"items": [{"price": 10.5}, {"price": 4.5}]});
    assert_eq!(
        evaluated(&list, &input),
        json!({"total": 15, "fee": {"card": 0.3, "all": 15.3}})
    );
}

#[test]
fn what_was_made_of_those_before_stays_as_it_was() {
    let list = [
        ("a", "1"),
        ("all", "$"),
        ("b", "2"),
        ("both", "[$, $.all]"),
        ("inner.c", "input"),
        ("inner.c.d", "3"),
    ];
    let input = json!({"input": {"e": 4}});
    let first = json!({"a": 1});
    let then = json!({"a": 1, "all": first, "b": 2});
    assert_eq!(
        evaluated(&list, &input),
        json!({"a": 1, "all": first, "b": 2, "both": [then, first], "inner": {"c": {"e": 4, "d": 3}}})
    );
    // Assigning a member in a value taken from the input does not change the input.
    let list = [
        ("x", "input"),
        ("x.d", "3"),
        ("y", "input"),
        ("z", "1"),
        ("z.d", "2"),
    ];
    let right = json!({"x": {"e": 4, "d": 3}, "y": {"e": 4}, "z": 1});
    assert_eq!(evaluated(&list, &input), right);
}

#[test]
fn numbers_are_decimals_and_come_back_as_they_were() {
    for number in [
        json!(0.1),
        json!(-2.5),
        json!(9_007_199_254_740_993_u64),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e15),
        json!(123_456.789),
    ] {
        let given = evaluated(&[("a", "a")], &json!({"a": number}));
        assert_eq!(given["a"].as_f64(), number.as_f64());
        assert_eq!(
            given["a"].as_i64(),
            number.as_i64().or(number.as_f64().and_then(whole))
        );
    }
    assert_eq!(evaluated(&[("a", "0.1 + 0.2")], &json!({})), json!({"a": 0.3}));
    let decision = decision(&alone("expressionNode", expressions(&[])));
    assert_eq!(
        failure(&decision, &json!({"a": 1e40})),
        "node `in` failed: a number is beyond ±7.9e28"
    );
}

fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 1e16).then_some(number as i64)
}

#[test]
fn one_that_has_no_value_fails_the_run_and_is_named() {
    let decision = decision(&alone("expressionNode", expressions(&[("a", "b + 1")])));
    assert_eq!(
        failure(&decision, &json!({"b": true})),
        "node `it` failed: `b + 1`: Opcode Add: Unsupported type"
    );
    assert_eq!(result(&decision, &json!({"b": 2})), json!({"a": 3}));
}

#[test]
fn dates_and_ranges_become_text() {
    let list = [("day", "d('2026-02-03', 'UTC')"), ("range", "[1..5)")];
    assert_eq!(
        evaluated(&list, &json!({})),
        json!({"day": "2026-02-03T00:00:00Z", "range": "[1..5)"})
    );
}

#[test]
fn a_node_takes_a_part_lays_down_elsewhere_and_lets_the_rest_through() {
    let mut content = expressions(&[("double", "price * 2")]);
    let input = json!({"item": {"price": 4}, "other": {"kept": true}});
    content["inputField"] = "item".into();
    let plain = decision(&alone("expressionNode", content.clone()));
    assert_eq!(result(&plain, &input), json!({"double": 8}));
    content["outputPath"] = "other.new".into();
    let laid = decision(&alone("expressionNode", content.clone()));
    assert_eq!(result(&laid, &input), json!({"other": {"new": {"double": 8}}}));
    content["passThrough"] = true.into();
    let passed = decision(&alone("expressionNode", content));
    assert_eq!(
        result(&passed, &input),
        json!({"item": {"price": 4}, "other": {"kept": true, "new": {"double": 8}}})
    );
}

#[test]
fn a_node_that_loops_works_on_each_item() {
    let mut content = expressions(&[("double", "price * 2")]);
    content["inputField"] = "items".into();
    content["executionMode"] = "loop".into();
    content["outputPath"] = "items".into();
    let input = json!({"items": [{"price": 1}, {"price": 2}], "other": 3});
    let plain = decision(&alone("expressionNode", content.clone()));
    assert_eq!(
        result(&plain, &input),
        json!({"items": [{"double": 2}, {"double": 4}]})
    );
    content["passThrough"] = true.into();
    let passed = decision(&alone("expressionNode", content));
    assert_eq!(
        result(&passed, &input),
        json!({"items": [{"price": 1, "double": 2}, {"price": 2, "double": 4}], "other": 3})
    );
    assert_eq!(
        failure(&passed, &json!({"items": 7})),
        "node `it` failed: it goes over each item of a list, but was given number"
    );
    let many = json!({"items": vec![json!({"price": 1}); 10_001]});
    assert_eq!(
        failure(&passed, &many),
        "node `it` failed: its list has 10001 items, at most 10000"
    );
}

#[test]
fn the_trace_has_each_value() {
    let decision = decision(&alone("expressionNode", expressions(&[("a", "b + 1")])));
    let evaluation = evaluated_by(&Host::default(), &decision, json!({"b": 1}), true);
    let trace = evaluation.trace.unwrap();
    let steps: Vec<_> = trace.iter().map(|step| (&*step.id, &*step.name)).collect();
    assert_eq!(steps, [("in", "request"), ("it", "the it"), ("out", "response")]);
    assert_eq!(trace[1].input, json!({"b": 1}));
    assert_eq!(trace[1].output, json!({"a": 2}));
    assert_eq!(trace[1].trace, json!({"a": {"result": 2}}));
}
