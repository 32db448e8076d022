//! The trace of a run as a tree: each node below the one that led to it.

use std::{collections::HashMap, fmt::Write as _};

use forebay_workflow::WorkflowFiles;
use serde_json::Value;

use crate::output;

/// Longest values that are shown, in characters.
const VALUES_MAX: usize = 160;

/// The parts of a graph's file that a trace needs.
#[derive(Default)]
struct Graph {
    /// For each node, the node that leads to it.
    before: HashMap<String, String>,
    names: HashMap<String, String>,
    /// The graphs that nodes run.
    subflows: HashMap<String, String>,
}

struct Colours {
    good: &'static str,
    bad: &'static str,
    dim: &'static str,
    plain: &'static str,
}

/// The outcome of a traced run, as lines of text.
pub(super) fn of(workflow: &str, outcome: &Value, files: &WorkflowFiles, took_ms: f64) -> String {
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
        Some(Value::Array(steps)) => put_steps(&mut text, workflow, steps, files, &colours),
        Some(Value::Object(steps)) => put_decisions(&mut text, steps.values(), &colours),
        _ => {}
    }
    if let Some(Value::Array(lines)) = outcome.get("logs")
        && !lines.is_empty()
    {
        text.push_str("log\n");
        for line in lines {
            let member = |name| line.get(name).and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(text, "  {:<5}  {}", member("level"), member("message"));
        }
    }
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

/// Prints the steps as a tree. They are given in the order in which they end, so a node follows those it led to; the graphs tell which
/// those are.
fn put_steps(text: &mut String, workflow: &str, steps: &[Value], files: &WorkflowFiles, colours: &Colours) {
    let mut graphs = HashMap::new();
    let node_of = |step: &Value| {
        step.get("node")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut places = Vec::with_capacity(steps.len());
    for step in steps {
        places.push(place_of(workflow, &node_of(step), files, &mut graphs));
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); steps.len() + 1];
    for (at, (before, _)) in places.iter().enumerate() {
        let after = &steps[at + 1..];
        let parent = before
            .as_ref()
            .and_then(|before| after.iter().position(|step| node_of(step) == *before));
        let parent = parent.map_or(steps.len(), |behind| at + 1 + behind);
        children[parent].push(at);
    }
    let began = |at: &usize| {
        steps[*at]
            .get("beganMs")
            .and_then(Value::as_f64)
            .unwrap_or_default()
    };
    for all in &mut children {
        all.sort_by(|one, other| began(one).total_cmp(&began(other)));
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
        let step = &steps[at];
        let kind = step.get("kind").and_then(Value::as_str).unwrap_or_default();
        let took = step.get("tookMs").and_then(Value::as_f64).unwrap_or_default();
        let name = places[at]
            .1
            .as_deref()
            .map(|name| format!(" {name}"))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "{indent}{branch}{}{name}  {}{kind}  {took:.3} ms{}  {}",
            node_of(step),
            colours.dim,
            colours.plain,
            told(step, colours)
        );
        push(&mut open, at, &format!("{indent}{below}"));
    }
}

/// The step that leads to a node, and the node's name. Nodes of nested graphs are named with the nodes that run those graphs: `7/2`.
fn place_of(
    workflow: &str,
    node: &str,
    files: &WorkflowFiles,
    graphs: &mut HashMap<String, Graph>,
) -> (Option<String>, Option<String>) {
    let mut graph_name = workflow.to_owned();
    let (within, own) = match node.rsplit_once('/') {
        Some((within, own)) => (Some(within), own),
        None => (None, node),
    };
    for part in within.into_iter().flat_map(|within| within.split('/')) {
        let graph = graphs
            .entry(graph_name.clone())
            .or_insert_with(|| graph_of(&graph_name, files));
        match graph.subflows.get(part) {
            Some(subflow) => graph_name.clone_from(subflow),
            None => return (None, None),
        }
    }
    let graph = graphs
        .entry(graph_name.clone())
        .or_insert_with(|| graph_of(&graph_name, files));
    let before = match (within, graph.before.get(own)) {
        (Some(within), Some(before)) => Some(format!("{within}/{before}")),
        (None, Some(before)) => Some(before.clone()),
        // The nodes that BOOT leads to in a nested graph follow the node that runs it.
        (Some(within), None) => Some(within.to_owned()),
        (None, None) => None,
    };
    (before, graph.names.get(own).cloned())
}

fn graph_of(name: &str, files: &WorkflowFiles) -> Graph {
    let text = files.get(&format!("{name}.json")).unwrap_or_default();
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let list = |name| {
        document
            .get(name)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let mut graph = Graph::default();
    let mut boots = Vec::new();
    for node in list("nodes") {
        let member = |name| {
            node.get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let id = member("id");
        if member("@type") == "BOOT" {
            boots.push(id.clone());
        }
        if !member("workflow").is_empty() {
            graph.subflows.insert(id.clone(), member("workflow"));
        }
        if !member("name").is_empty() {
            graph.names.insert(id, member("name"));
        }
    }
    for edge in list("edges") {
        let end = |name| {
            edge.get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        if !boots.contains(&end("from")) {
            graph.before.entry(end("to")).or_insert_with(|| end("from"));
        }
    }
    graph
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
        let graph = json!({
            "nodes": [
                {"@type": "BOOT", "id": "0"}, {"@type": "PARALLEL", "id": "1", "name": "both"},
                {"@type": "RUN", "id": "2", "ruleId": "a"}, {"@type": "SUBFLOW", "id": "3", "workflow": "inner"}
            ],
            "edges": [{"from": "0", "to": "1"}, {"from": "1", "to": "2"}, {"from": "1", "to": "3"}]
        });
        let inner = json!({
            "nodes": [{"@type": "BOOT", "id": "0"}, {"@type": "PROCESS", "id": "1", "ruleId": "a"}, {"@type": "RUN", "id": "2", "ruleId": "a"}],
            "edges": [{"from": "0", "to": "1"}, {"from": "1", "to": "2"}]
        });
        let mut files = WorkflowFiles::default();
        files.add("outer.json", graph.to_string()).unwrap();
        files.add("inner.json", inner.to_string()).unwrap();
        // The two branches are interleaved in time.
        let step = |node: &str, began: f64| json!({"node": node, "kind": "K", "beganMs": began, "tookMs": 1.0, "state": true, "valueMap": {}});
        let trace = [
            step("3/2", 0.4),
            step("2", 0.2),
            step("3/1", 0.3),
            step("3", 0.25),
            step("1", 0.1),
        ];
        let outcome = json!({"state": false, "valueMap": {"n": 1}, "trace": trace, "logs": [{"level": "warn", "message": "late"}]});
        let text = of("outer", &outcome, &files, 2.0);
        assert_eq!(
            text,
            "outer  false  {\"n\":1}  2.0 ms\n\
             └─ 1 both  K  1.000 ms  true  {}\n   \
                ├─ 2  K  1.000 ms  true  {}\n   \
                └─ 3  K  1.000 ms  true  {}\n      \
                   └─ 3/1  K  1.000 ms  true  {}\n         \
                      └─ 3/2  K  1.000 ms  true  {}\n\
             log\n  warn   late\n"
        );
    }

    #[test]
    fn a_node_that_has_failed_is_told_by_its_first_line() {
        let outcome = json!({"error": "Error: no\n  at x.js:1", "node": "1", "trace": []});
        let text = of("w", &outcome, &WorkflowFiles::default(), 1.0);
        assert_eq!(text, "w  Error: no  1.0 ms\n");
    }
}
