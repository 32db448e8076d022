//! Limits of a run that hold for any input.

use std::{fmt::Write as _, sync::Arc, time::Instant};

use forebay_workflow::jdm::from_json;
use serde_json::{Value, json};

use super::host::{Host, alone, decision, document, evaluated_by, expressions, failure, node, result};

fn fails(list: &[(&str, &str)], input: &Value) -> String {
    failure(&decision(&alone("expressionNode", expressions(list))), input)
}

fn gives(text: &str, input: &Value) -> Value {
    result(
        &decision(&alone("expressionNode", expressions(&[("a", text)]))),
        input,
    )["a"]
        .take()
}

#[test]
fn a_range_that_something_goes_over_has_so_many_numbers_and_no_more() {
    let right = "node `it` failed: `sum(map([1..n], #))`: it goes over a range of more than 10000 numbers";
    let text = "sum(map([1..n], #))";
    assert_eq!(gives(text, &json!({"n": 10_000})), json!(50_005_000));
    assert_eq!(fails(&[("a", text)], &json!({"n": 10_001})), right);
    assert_eq!(fails(&[("a", text)], &json!({"n": 1e18})), right);
    // The limit does not affect legitimate uses: in loops, in conditions, or where the range is never expanded.
    let nested = "map([0..2], map([0..#], n > 1 ? len(map([1..n], #)) : 0))";
    assert_eq!(gives(nested, &json!({"n": 2})), json!([[2], [2, 2], [2, 2, 2]]));
    assert_eq!(gives(nested, &json!({"n": 1})), json!([[0], [0, 0], [0, 0, 0]]));
    assert!(fails(&[("a", "map([1..10001], 1)")], &json!({})).ends_with("10000 numbers"));
    assert_eq!(gives("5 in [1..1000000]", &json!({})), json!(true));
    assert_eq!(
        gives("n in (n > 1 ? [1..n] : [5..6])", &json!({"n": 3})),
        json!(true)
    );
    let dates = "d('2026-02-03') in (n > 1 ? [d('2026-01-01')..d('2026-12-31')] : [1..n])";
    assert_eq!(gives(dates, &json!({"n": 3})), json!(true));
    assert!(fails(&[("r", "[1..n]"), ("a", "map($.r, #)")], &json!({"n": 1e9})).ends_with("10000 numbers"));
}

#[test]
fn loops_within_one_another_go_over_so_many_items_and_no_more() {
    let text = "sum(map(items, len(map(items, 1))))";
    let items = |count: usize| json!({"items": vec![1; count]});
    assert_eq!(gives(text, &items(1000)), json!(1_000_000));
    assert_eq!(
        fails(&[("a", text)], &items(1001)),
        format!("node `it` failed: `{text}`: loops within one another go over more than 1000000 items")
    );
    let text = "map([1..n], map([#..n], [#, len(filter([1..n], # > 2))]))";
    assert_eq!(
        gives(text, &json!({"n": 3})),
        json!([[[1, 1], [2, 1], [3, 1]], [[2, 1], [3, 1]], [[3, 1]]])
    );
    let text = "map(items, sum(map([1..10000], #)))";
    assert_eq!(gives(text, &items(100)), json!(vec![50_005_000; 100]));
    assert!(fails(&[("a", text)], &items(101)).ends_with("1000000 items"));
}

#[test]
fn texts_are_compared_for_their_likeness_as_far_as_that_takes_no_long_time() {
    let of = |left: Value, right: usize| json!({"left": left, "right": "a".repeat(right)});
    let text = "fuzzyMatch(left, right)";
    let a = |count: usize| json!("a".repeat(count));
    assert_eq!(gives(text, &of(a(2000), 2000)), json!(1));
    let refused = fails(&[("a", text)], &of(a(2000), 2001));
    let right = "`fuzzyMatch` compares texts whose lengths, multiplied, are more than 4000000";
    assert_eq!(refused, format!("node `it` failed: `{text}`: {right}"));
    assert!(fails(&[("a", text)], &of(json!(["a", a(999), a(1001)]), 2000)).ends_with(right));
    // The limit does not affect legitimate uses.
    assert_eq!(gives(text, &of(json!(["a", "aa"]), 2)), json!([0.5, 1]));
    assert_eq!(gives(text, &of(json!([]), 2)), json!([]));
    assert_eq!(gives(text, &of(json!(""), 5_000_000)), json!(0));
    let within = "map(left, fuzzyMatch(#, right) > 0.9 ? # : fuzzyMatch([#], right)[0])";
    assert_eq!(gives(within, &of(json!(["aa", "ab"]), 2)), json!(["aa", 0.5]));
    let number = fails(&[("a", text)], &json!({"left": "a", "right": 5}));
    assert!(number.contains("`fuzzyMatch` failed"), "{number}");
}

#[test]
fn loops_turn_until_the_run_has_to_be_over() {
    let text = "map(items, # + 1)";
    let late = |text: &str, input: Value, deadline: Instant| {
        let host = Host {
            deadline: Some(deadline),
            ..Host::default()
        };
        let decision = decision(&alone("expressionNode", expressions(&[("a", text)])));
        let run = evaluated_by(&host, &decision, input, false);
        run.result.map_err(|error| error.to_string())
    };
    let now = Instant::now();
    let later = now + std::time::Duration::from_hours(1);
    let right = |text: &str| {
        Err(format!(
            "node `it` failed: `{text}`: it was not done when the time of the run was over"
        ))
    };
    let items = json!({"items": [1, 2]});
    assert_eq!(late(text, items.clone(), now), right(text));
    assert_eq!(late(text, items.clone(), later), Ok(json!({"a": [2, 3]})));
    for text in [
        "all(items, # > 0)",
        "count(items, # > 1)",
        "flatMap(items, [#])",
        "map([1..2], map(items, #))",
    ] {
        assert_eq!(late(text, items.clone(), now), right(text));
        assert!(late(text, items.clone(), later).is_ok());
    }
    // A loop without iterations cannot be late, and `$root` does not contain the clock.
    assert_eq!(late("map([], 1)", items.clone(), now), Ok(json!({"a": []})));
    let text = "[keys($root), map(items, 1)]";
    let seen = json!({"a": [["items", "$nodes"], [1, 1]]});
    assert_eq!(late(text, items, later), Ok(seen));
    let text = "map($root, # + 1)";
    assert_eq!(late(text, json!([1]), later), Ok(json!({"a": [2]})));
    assert_eq!(late(text, json!([1]), now), right(text));
}

#[test]
fn values_of_the_input_are_within_one_another_so_deep_and_no_deeper() {
    let deep = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    assert!(from_json(deep(128)).is_ok());
    let refused = from_json(deep(129)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a value has more than 128 others within one another"
    );
}

#[test]
fn what_an_expression_names_to_use_it_again_is_no_longer_than_it_may_be() {
    let mut doubled = "a = 'xx'".to_owned();
    let mut joined = "a = [1, 2]".to_owned();
    for _ in 0..14 {
        doubled.push_str("; a = a + a");
        joined.push_str("; a = flatten([a, a])");
    }
    let is_refused = |text: &str| {
        let failure = fails(&[("a", text)], &json!({}));
        assert!(
            failure.ends_with("it names a text or a list of more than 65536 characters or items"),
            "{failure}"
        );
    };
    assert_eq!(gives(&format!("{doubled}; len(a)"), &json!({})), json!(32_768));
    assert_eq!(gives(&format!("{joined}; len(a)"), &json!({})), json!(32_768));
    is_refused(&format!("{doubled}; a = a + a + a; len(a)"));
    is_refused(&format!("{joined}; a = flatten([a, a, a]); len(a)"));
    assert_eq!(gives("b = 1; c = b + n; [b, c]", &json!({"n": 1})), json!([1, 2]));
    assert_eq!(
        gives("x.y = n > 1 ? 'a' : {}; z = true", &json!({"n": 1, "x": {}})),
        json!({"x": {"y": {}}, "z": true})
    );
}

#[test]
fn values_grow_only_so_far() {
    let grown = |first: &str, next: &str, count: usize| {
        let keys: Vec<_> = (0..=count).map(|key| format!("k{key}")).collect();
        let texts: Vec<_> = (1..=count)
            .map(|key| next.replace('_', &format!("$.k{}", key - 1)))
            .collect();
        let mut list = vec![(&*keys[0], first)];
        list.extend(
            keys[1..]
                .iter()
                .map(String::as_str)
                .zip(texts.iter().map(String::as_str)),
        );
        let failure = fails(&list, &json!({}));
        failure.rsplit("`: ").next().unwrap().to_owned()
    };
    assert_eq!(
        grown("'xxxxxxxxxxxxxxxx'", "_ + _", 40),
        "a value has more than 67108864 bytes of text in it"
    );
    assert_eq!(
        grown("1", "[_, _]", 40),
        "a value has more than 1000000 others in it"
    );
    assert_eq!(
        grown("1", "[_]", 200),
        "a value has more than 128 others within one another"
    );
}

#[test]
fn values_grow_only_so_far_from_node_to_node() {
    let count = 200;
    let mut edges = "in -> n0; ".to_owned();
    let mut nodes = Vec::new();
    for number in 0..count {
        let mut content = expressions(&[("x", "deeper ?? 1")]);
        content["outputPath"] = "deeper".into();
        nodes.push(node(&format!("n{number}"), "expressionNode", content));
        let next = if number + 1 == count {
            "out".to_owned()
        } else {
            format!("n{}", number + 1)
        };
        write!(edges, "n{number} -> {next}; ").unwrap();
    }
    let failure = failure(&decision(&document(&nodes, &edges)), &json!({}));
    assert!(
        failure.ends_with("a value has more than 128 others within one another"),
        "{failure}"
    );
}

#[test]
fn what_a_node_comes_to_is_no_more_than_a_value_may_be() {
    let mut content = expressions(&[("x", "$nodes.request.large")]);
    content["inputField"] = "items".into();
    content["executionMode"] = "loop".into();
    let decision = decision(&alone("expressionNode", content));
    assert_eq!(
        failure(
            &decision,
            &json!({"items": vec![1; 1_000], "large": vec![1; 1_000]})
        ),
        "node `it` failed: a value has more than 1000000 others in it"
    );
}

#[test]
fn loops_of_decisions_come_to_so_many_nodes_and_no_more() {
    let inner = json!({"key": "inner", "inputField": "items", "executionMode": "loop"});
    let innermost = json!({"key": "innermost", "inputField": "items", "executionMode": "loop"});
    let single = |content: Value| document(&[node("sub", "decisionNode", content)], "in -> sub; sub -> out");
    let mut host = Host::default();
    host.decisions
        .insert("inner", Arc::new(decision(&single(innermost))));
    host.decisions
        .insert("innermost", Arc::new(decision(&document(&[], "in -> out"))));
    let leaf = json!({"items": vec![1; 600]});
    let evaluation = evaluated_by(
        &host,
        &decision(&single(inner)),
        json!({"items": vec![leaf; 600]}),
        false,
    );
    assert_eq!(
        evaluation
            .result
            .unwrap_err()
            .to_string()
            .split(" failed: ")
            .last()
            .unwrap(),
        "the run has come to 1000000 nodes, with those of decisions and loops, and may come to no more"
    );
}

#[test]
fn what_the_machine_is_not_prepared_for_is_a_failure_like_any_other() {
    for text in [
        "rand(-5)",
        "median([])",
        "map((n..n + 1], #)",
        "d('x').add('99999999999y')",
    ] {
        let decision = decision(&alone("expressionNode", expressions(&[("a", text)])));
        let evaluation = evaluated_by(&Host::default(), &decision, json!({"n": i64::MAX}), false);
        // The result is irrelevant here; the next evaluation must still be correct.
        drop(evaluation);
        assert_eq!(gives("n + 1", &json!({"n": 1})), json!(2));
    }
    let failure = fails(&[("a", "rand(-5)")], &json!({}));
    assert_eq!(
        failure,
        "node `it` failed: `rand(-5)`: it asks for something that cannot be evaluated"
    );
}
