//! Property test: any document is either rejected with a reason, or its evaluation terminates.

use std::sync::Arc;

use forebay_workflow::jdm::{Document, check};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::host::{self, Host, alone, evaluated_by, expressions};

/// Random expressions, composed of typical fragments.
fn any_expression() -> impl Strategy<Value = String> {
    let words = [
        "a",
        "b",
        "$",
        "$root",
        "$nodes",
        "#",
        "1",
        "-",
        "0.5",
        "'x'",
        "`${a}`",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "..",
        ",",
        ":",
        "+",
        "*",
        "^",
        ">",
        "<=",
        "==",
        "and",
        "or",
        "not",
        "in",
        "??",
        "?",
        ".",
        "=",
        ";",
        "map(",
        "filter(",
        "sum(",
        "len(",
        "string(",
        "d(",
        "rand(",
        "split(",
        "median(",
        "flatten(",
        "null",
        "true",
        "1e9",
        "[1..a]",
        "map([0..3], #)",
        "[a]",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..7).prop_map(|words| words.join(" "))
}

fn sound_expression() -> impl Strategy<Value = String> {
    let texts = [
        "a",
        "$",
        "$root",
        "$nodes",
        "a + 1",
        "[$, a]",
        "{x: $nodes}",
        "map([0..2], [#, a])",
        "a > 1",
        "sum([a, 1])",
        "b.c",
        "a ?? b",
        "x = a; y = [x, x]",
        "map(b, #)",
        "'t'",
        "true",
        "",
    ];
    prop::sample::select(texts.to_vec()).prop_map(str::to_owned)
}

fn any_node(id: usize) -> impl Strategy<Value = Value> {
    let text = || prop_oneof![30 => sound_expression(), 1 => any_expression()];
    let path = prop::sample::select(vec!["", "a", "b.c", "a.b.c", "a..b", "$", "$nodes"]);
    let kinds = vec![
        "expressionNode",
        "expressionNode",
        "decisionTableNode",
        "switchNode",
        "functionNode",
        "customNode",
        "decisionNode",
        "outputNode",
    ];
    (prop::sample::select(kinds), prop::collection::vec((path, text()), 1..4), any::<[bool; 4]>()).prop_map(
        move |(kind, texts, [one, two, three, four])| {
            let rules = texts.iter().cycle().take(if one { 12 } else { 2 });
            let expressions = texts.iter().map(|(key, text)| json!({"id": key, "key": key, "value": text}));
            let content = json!({
                "hitPolicy": if one { "first" } else { "collect" },
                "executionMode": if two { "loop" } else { "single" },
                "passThrough": three,
                "inputField": if four { &*texts[0].1 } else { "" },
                "outputPath": texts[0].0,
                "expressions": expressions.collect::<Vec<_>>(),
                "inputs": [{"id": "i", "field": texts[0].1}, {"id": "j", "field": ""}],
                "outputs": [{"id": "o", "field": texts[0].0}, {"id": "p", "field": if two { "l[]" } else { "m" }}],
                "rules": rules.map(|(_, text)| json!({"i": text, "o": text, "p": "1"})).collect::<Vec<_>>(),
                "statements": [{"id": "0", "condition": texts[0].1}, {"id": "1", "condition": ""}],
                "source": if one { "fails" } else { "$nodes" },
                "kind": "k",
                // Ten levels of a document that doubles its data take long before they reach a limit.
                "key": if one && two && four { "itself" } else { "other" },
            });
            json!({"id": id.to_string(), "name": if four { "same" } else { kind }, "type": kind, "content": content})
        },
    )
}

fn any_document() -> impl Strategy<Value = Value> {
    let nodes = (1..6_usize).prop_flat_map(|count| (1..=count).map(any_node).collect::<Vec<_>>());
    let edges = prop::collection::vec((0..20_usize, 0..20_usize, 0..2_u8), 2..12);
    // Most documents are valid, so that they are evaluated.
    (nodes, edges, prop::bool::weighted(0.9)).prop_map(|(mut nodes, edges, is_sound)| {
        nodes.push(json!({"id": "0", "type": "inputNode"}));
        let count = nodes.len();
        let ends = edges.iter().map(|&(from, to, statement)| {
            let (from, to) = if is_sound { (from % count, to % count) } else { (from, to) };
            if is_sound { (from.min(to), from.max(to), statement) } else { (from, to, statement) }
        });
        let ends = ends.filter(|(from, to, _)| !is_sound || from != to);
        let edges = ends.map(|(from, to, statement)| {
            json!({"id": "e", "sourceId": from.to_string(), "targetId": to.to_string(), "sourceHandle": statement.to_string()})
        });
        json!({"nodes": nodes, "edges": edges.collect::<Vec<_>>()})
    })
}

fn run(document: &Document) -> Result<(), TestCaseError> {
    match check(document, |_| true) {
        Err(problems) => prop_assert!(!problems.is_empty()),
        Ok(decision) => {
            let mut functions = Host::default();
            let decision = Arc::new(decision);
            functions.decisions.insert("itself", decision.clone());
            let content = expressions(&[("a", "[$, a]")]);
            functions.decisions.insert(
                "other",
                Arc::new(host::decision(&alone("expressionNode", content))),
            );
            for input in [
                json!({}),
                json!({"a": 3, "b": [1, {"c": "x"}]}),
                json!([1]),
                json!(7),
            ] {
                let plain = evaluated_by(&functions, &decision, input.clone(), false);
                let traced = evaluated_by(&functions, &decision, input, true);
                prop_assert_eq!(plain.result.is_ok(), traced.result.is_ok());
                prop_assert!(traced.reply().is_object());
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_is_refused_with_a_reason_or_evaluated_to_its_end(document in any_document()) {
        if let Ok(document) = Document::of(&document) {
            run(&document)?;
        }
    }

    #[test]
    fn an_expression_is_refused_with_a_reason_or_evaluated(text in any_expression()) {
        let list = json!([{"id": "e", "key": "k", "value": text}, {"id": "f", "key": "l", "value": "[$, $]"}]);
        let document = alone("expressionNode", json!({"expressions": list}));
        run(&Document::of(&document).unwrap())?;
    }

    #[test]
    fn bytes_are_refused_with_a_reason_or_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Err(error) = Document::parse(&bytes) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
