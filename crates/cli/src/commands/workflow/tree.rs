//! The trace of a run as a tree: each node below the one that led to it, with what its own rule returned. The first line has what the run
//! came to.

use std::fmt::Write as _;

use serde_json::Value;

use crate::output;

/// Longest values that are shown, in characters.
const VALUES_MAX: usize = 160;

struct Colours {
    good: &'static str,
    bad: &'static str,
    dim: &'static str,
    plain: &'static str,
}

/// The outcome of a traced run, as lines of text.
pub(super) fn of(workflow: &str, outcome: &Value, took_ms: f64) -> String {
    let colours = if output::in_colour() {
        Colours {
            good: "\x1b[32m",
            bad: "\x1b[31m",
            dim: "\x1b[2m",
            plain: "\x1b[0m",
        }
    } else {
        Colours {
            good: "",
            bad: "",
            dim: "",
            plain: "",
        }
    };
    let mut text = format!("{workflow}  {}  {took_ms:.1} ms\n", told(outcome, &colours));
    match outcome.get("trace") {
        Some(Value::Array(steps)) => put_steps(&mut text, steps, outcome, &colours),
        Some(Value::Object(steps)) => put_decisions(&mut text, steps.values(), &colours),
        _ => {}
    }
    put_log(&mut text, outcome, None, "  ");
    if let Some(count) = outcome.get("logsLeftOut") {
        let _ = writeln!(text, "  {count} further lines were left out (log_max)");
    }
    text
}

/// The outcome of a run or a node.
fn told(outcome: &Value, colours: &Colours) -> String {
    let Colours {
        good,
        bad,
        dim,
        plain,
    } = colours;
    if let Some(error) = outcome.get("error").and_then(Value::as_str) {
        let first = error.lines().next().unwrap_or_default();
        return format!("{bad}{first}{plain}");
    }
    let values = |name| outcome.get(name).map(|values| short(&values.to_string()));
    match outcome.get("state").and_then(Value::as_bool) {
        Some(state) => {
            let colour = if state { good } else { bad };
            let values = values("valueMap").unwrap_or_default();
            format!("{colour}{state}{plain}  {dim}{values}{plain}")
        }
        None => values("result").or_else(|| values("output")).unwrap_or_default(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(VALUES_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Prints the steps as a tree. They are given in the order in which they began.
fn put_steps(text: &mut String, steps: &[Value], outcome: &Value, colours: &Colours) {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); steps.len() + 1];
    for (at, step) in steps.iter().enumerate() {
        let parent = step.get("parent").and_then(Value::as_u64);
        let parent = parent.and_then(|parent| usize::try_from(parent).ok());
        children[parent.filter(|parent| *parent < at).unwrap_or(steps.len())].push(at);
    }
    let mut open: Vec<(usize, String, bool)> = Vec::new();
    let push = |open: &mut Vec<(usize, String, bool)>, of: usize, indent: &str| {
        let count = children[of].len();
        for (index, child) in children[of].iter().enumerate().rev() {
            open.push((*child, indent.to_owned(), index + 1 == count));
        }
    };
    push(&mut open, steps.len(), "");
    while let Some((at, indent, is_last)) = open.pop() {
        let (branch, below) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let below = format!("{indent}{below}");
        let step = &steps[at];
        let member = |name| step.get(name).and_then(Value::as_str).unwrap_or_default();
        let took = step.get("tookMs").and_then(Value::as_f64);
        let took = took.map_or_else(|| "not over".to_owned(), |took| format!("{took:.3} ms"));
        let name = match member("name") {
            "" => String::new(),
            name => format!(" {name}"),
        };
        let _ = writeln!(
            text,
            "{indent}{branch}{}{name}  {}{}  {took}{}  {}",
            member("node"),
            colours.dim,
            member("kind"),
            colours.plain,
            told(step.get("output").unwrap_or(step), colours)
        );
        if let Some(reason) = step.get("fallback").and_then(Value::as_str) {
            let _ = writeln!(
                text,
                "{below}{}fallback for: {reason}{}",
                colours.dim, colours.plain
            );
        }
        if let Some(attempts) = step.get("attempts") {
            let _ = writeln!(
                text,
                "{below}{}attempts: {attempts}{}",
                colours.dim, colours.plain
            );
        }
        put_log(text, outcome, Some(at), &below);
        push(&mut open, at, &below);
    }
}

/// The lines that the rule of a step logged, or those that belong to no step.
fn put_log(text: &mut String, outcome: &Value, step: Option<usize>, indent: &str) {
    let lines = outcome.get("logs").and_then(Value::as_array);
    for line in lines.into_iter().flatten() {
        let member = |name| line.get(name).and_then(Value::as_str).unwrap_or_default();
        let of = line.get("step").and_then(Value::as_u64);
        if of == step.map(|step| step as u64) {
            let _ = writeln!(text, "{indent}{:<5}  {}", member("level"), member("message"));
        }
    }
}

/// The nodes of a decision in the order in which they were visited.
fn put_decisions<'v>(text: &mut String, steps: impl Iterator<Item = &'v Value>, colours: &Colours) {
    let mut steps: Vec<&Value> = steps.collect();
    steps.sort_by_key(|step| step.get("order").and_then(Value::as_u64));
    for step in steps {
        let member = |name| step.get(name).and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(
            text,
            "  {}  {}{}{}  {}",
            member("name"),
            colours.dim,
            member("performance"),
            colours.plain,
            told(step, colours)
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_node_stands_below_the_one_that_led_to_it() {
        // The two branches are interleaved in time.
        let step = |node: &str, parent: Option<u32>| json!({"node": node, "kind": "K", "parent": parent, "tookMs": 1.0, "state": true, "valueMap": {}});
        let mut trace = [
            step("1", None),
            step("2", Some(0)),
            step("3", Some(0)),
            step("3/1", Some(2)),
            step("3/2", Some(3)),
        ];
        trace[0]["name"] = "both".into();
        trace[1]["fallback"] = "Error: no".into();
        trace[2]["output"] = json!({"state": true, "valueMap": {"own": 1}});
        trace[2]["state"] = false.into();
        trace[4] = json!({"node": "3/2", "kind": "K", "parent": 3});
        let outcome = json!({"state": false, "valueMap": {"n": 1}, "trace": trace, "logs": [
            {"level": "info", "message": "other"}, {"level": "warn", "message": "late", "step": 2}
        ]});
        let text = of("outer", &outcome, 2.0);
        assert_eq!(
            text,
            "outer  false  {\"n\":1}  2.0 ms\n\
             └─ 1 both  K  1.000 ms  true  {}\n   \
                ├─ 2  K  1.000 ms  true  {}\n   \
                │  fallback for: Error: no\n   \
                └─ 3  K  1.000 ms  true  {\"own\":1}\n      \
                   warn   late\n      \
                   └─ 3/1  K  1.000 ms  true  {}\n         \
                      └─ 3/2  K  not over  \n  \
             info   other\n"
        );
    }

    #[test]
    fn a_node_that_has_failed_is_told_by_its_first_line() {
        let outcome = json!({"error": "Error: no\n  at x.js:1", "node": "1", "trace": []});
        assert_eq!(of("w", &outcome, 1.0), "w  Error: no  1.0 ms\n");
    }
}
