//! Builders for test documents, and a host that evaluates them.

use std::{cell::RefCell, collections::HashMap, fmt::Write as _, sync::Arc, time::Instant};

use forebay_workflow::jdm::{
    Answer, Decision, Document, Evaluation, FunctionCall, Functions, Problem, Steps, Work, check,
};
use serde_json::{Value, json};

/// Builds a node; its name is `the <id>`.
pub(crate) fn node(id: &str, kind: &str, content: Value) -> Value {
    let mut node = json!({"id": id, "name": format!("the {id}"), "type": kind});
    node["content"] = content;
    node
}

/// Builds a document from an input `in`, the given nodes, an output `out`, and edges such as `in -> a; a -> out` or, from a switch, `a
/// -s1-> out`.
pub(crate) fn document(nodes: &[Value], edges: &str) -> Value {
    let mut all = vec![
        json!({"id": "in", "name": "request", "type": "inputNode"}),
        json!({"id": "out", "name": "response", "type": "outputNode"}),
    ];
    all.extend_from_slice(nodes);
    let edges = edges.split(';').map(str::trim).filter(|edge| !edge.is_empty());
    let edges = edges.map(|edge| {
        let (from, rest) = edge.split_once(" -").unwrap();
        let (statement, to) = rest.split_once("> ").unwrap();
        let statement = statement.trim_end_matches('-');
        let mut edge = json!({"id": edge, "sourceId": from, "targetId": to});
        if !statement.is_empty() {
            edge["sourceHandle"] = statement.into();
        }
        edge
    });
    json!({"nodes": all, "edges": edges.collect::<Vec<_>>()})
}

/// A document with a single node `it` between input and output.
pub(crate) fn alone(kind: &str, content: Value) -> Value {
    document(&[node("it", kind, content)], "in -> it; it -> out")
}

/// Builds the content of an `expressionNode`.
pub(crate) fn expressions(list: &[(&str, &str)]) -> Value {
    let list = list.iter().enumerate();
    let list = list.map(|(id, (key, value))| json!({"id": id.to_string(), "key": key, "value": value}));
    json!({"expressions": list.collect::<Vec<_>>()})
}

pub(crate) fn decision(document: &Value) -> Decision {
    match checked(document) {
        Ok(decision) => decision,
        Err(problems) => panic!("{}", told(&problems)),
    }
}

pub(crate) fn problems(document: &Value) -> String {
    told(&checked(document).map(|_| ()).unwrap_err())
}

/// The warnings about a document without problems.
pub(crate) fn warnings(document: &Value) -> String {
    told(decision(document).warnings())
}

fn checked(document: &Value) -> Result<Decision, Vec<Problem>> {
    let text = document.to_string();
    check(&Document::parse(text.as_bytes()).unwrap(), |key| key != "unknown")
}

fn told(problems: &[Problem]) -> String {
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    problems.join(" | ")
}

/// A host with some decisions, whose functions return their own call.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) decisions: HashMap<&'static str, Arc<Decision>>,
    /// Deadline of the runs.
    pub(crate) deadline: Option<Instant>,
    /// Inputs of the function calls so far.
    pub(crate) calls: RefCell<Vec<Value>>,
}

impl Functions for Host {
    type Failure = String;

    async fn run(&self, call: FunctionCall<'_>) -> Result<Answer, String> {
        let mut seen = String::new();
        self.calls.borrow_mut().push(call.input.clone());
        match call.work {
            Work::Source { source: "fails", .. } => return Err("it throws".to_owned()),
            Work::Source { source, version } => write!(seen, "{source} v{version}").unwrap(),
            Work::Custom { kind, config } => write!(seen, "{kind} {config}").unwrap(),
        }
        Ok(Answer {
            value: json!({"node": call.node, "name": call.name, "work": seen, "given": call.input}),
            trace: json!({"log": [seen]}),
        })
    }

    fn decision(&self, key: &str) -> Option<Arc<Decision>> {
        self.decisions.get(key).cloned()
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

pub(crate) fn evaluated_by(
    host: &Host,
    decision: &Decision,
    input: Value,
    wants_trace: bool,
) -> Evaluation<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let steps = Steps::default();
    runtime.block_on(decision.evaluate(input, host, wants_trace.then_some(&steps)))
}

/// The result of a decision; asserts that it is the same with a trace.
pub(crate) fn result(decision: &Decision, input: &Value) -> Value {
    let host = Host::default();
    let plain = evaluated_by(&host, decision, input.clone(), false);
    let traced = evaluated_by(&host, decision, input.clone(), true);
    assert_eq!(plain.result, traced.result);
    assert!(plain.trace.is_none() && traced.trace.is_some());
    plain.result.unwrap()
}

/// The error message of a run that fails.
pub(crate) fn failure(decision: &Decision, input: &Value) -> String {
    let evaluation = evaluated_by(&Host::default(), decision, input.clone(), false);
    evaluation.result.unwrap_err().to_string()
}
