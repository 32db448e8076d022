//! Fake rules with given outcomes that record their calls.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt::Write as _,
    sync::Arc,
    time::Duration,
};

use forebay_workflow::{
    Before, Compat, Definition, Graph, Outcome, Problem, RuleCall, Rules, RunError, Step, Subflow, Trace,
    check, run,
};
use serde_json::{Map, Value};

/// The behaviour of a fake rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    True,
    False,
    Fails,
    /// Fails this many times, then is true.
    FailsAtFirst(u32),
    /// Takes this many milliseconds, then is true.
    Takes(u64),
}

/// Fake rules. A rule is true unless `does` says otherwise. Its value is its name, followed by the item of the loop around it.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) does: HashMap<&'static str, Does>,
    pub(crate) graphs: HashMap<&'static str, Arc<Graph>>,
    /// The rules that ran, each with the last result that it saw.
    pub(crate) ran: RefCell<Vec<(String, Option<String>)>>,
    /// The nodes that ran these rules.
    pub(crate) nodes: RefCell<Vec<String>>,
    pub(crate) failed: Cell<u32>,
}

impl Rules for Recorded {
    type Values = String;
    type Item = String;
    type Failure = String;

    async fn run(&self, call: RuleCall<'_, String, String>) -> Result<Outcome<String>, String> {
        let last = call.before.last.map(|last| last.values.clone());
        self.ran.borrow_mut().push((call.rule.to_owned(), last));
        self.nodes.borrow_mut().push(call.node.id.to_string());
        let does = self.does.get(call.rule).copied().unwrap_or(Does::True);
        let throws = || Err(format!("{} throws", call.rule));
        match does {
            Does::Fails => return throws(),
            Does::FailsAtFirst(times) if self.failed.get() < times => {
                self.failed.set(self.failed.get() + 1);
                return throws();
            }
            Does::Takes(ms) => self.sleep(Duration::from_millis(ms)).await,
            Does::True | Does::False | Does::FailsAtFirst(_) => {}
        }
        let item = call
            .before
            .item
            .map(|item| format!("({item})"))
            .unwrap_or_default();
        Ok(Outcome {
            is_true: does != Does::False,
            values: format!("{}{item}", call.rule),
        })
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// A rule whose name ends in `=x` selects the case `x`.
    fn case(&self, values: &String) -> Option<String> {
        values.split_once('=').map(|(_, case)| case.to_owned())
    }

    /// The definition contains the list itself, separated by commas.
    fn items(&self, over: &str, _: Before<'_, String, String>) -> Result<Vec<String>, String> {
        match over {
            "nothing" => Err("no list".to_owned()),
            "empty" => Ok(Vec::new()),
            over => Ok(over.split(',').map(str::to_owned).collect()),
        }
    }

    fn join(&self, parts: Vec<(&str, String)>) -> String {
        let parts: Vec<_> = parts
            .iter()
            .map(|(name, values)| format!("{name}:{values}"))
            .collect();
        format!("[{}]", parts.join(" "))
    }

    fn values(&self, written: &Map<String, Value>) -> String {
        Value::from(written.clone()).to_string()
    }

    /// Names that begin with `decision` are decisions; these are evaluated like rules.
    fn subflow(&self, workflow: &str) -> Option<Subflow> {
        if workflow.starts_with("decision") {
            return Some(Subflow::Decision);
        }
        self.graphs.get(workflow).cloned().map(Subflow::Graph)
    }

    async fn decide(&self, call: RuleCall<'_, String, String>) -> Result<Outcome<String>, String> {
        self.run(call).await
    }
}

/// Parses a graph from lines such as `1 PROCESS r1`, `2 LOGICAL AND @1` (a priority), `1 -> 2`, `3 -> 4 gold` (a case), `5 PARALLEL
/// join="ANY"`.
pub(crate) fn definition(text: &str) -> Definition {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        if let [from, "->", to, case @ ..] = &*words {
            let case = case
                .first()
                .map(|case| format!(r#", "case": "{case}""#))
                .unwrap_or_default();
            edges.push(format!(r#"{{"from": "{from}", "to": "{to}"{case}}}"#));
            continue;
        }
        let mut node = format!(r#"{{"id": "{}", "@type": "{}""#, words[0], words[1]);
        for word in &words[2..] {
            match (word.strip_prefix('@'), word.split_once(':')) {
                (Some(priority), _) => write!(node, r#", "priority": {priority}"#),
                (_, Some((member, value))) => write!(node, r#", "{member}": {value}"#),
                _ if words[1] == "LOGICAL" => write!(node, r#", "logical": "{word}""#),
                _ => write!(node, r#", "ruleId": "{word}""#),
            }
            .unwrap();
        }
        nodes.push(node + "}");
    }
    let text = format!(
        r#"{{"nodes": [{}], "edges": [{}]}}"#,
        nodes.join(", "),
        edges.join(", ")
    );
    Definition::parse(text.as_bytes()).unwrap()
}

pub(crate) fn graph(text: &str, compat: Compat) -> Graph {
    check(&definition(text), compat, |_| true).unwrap()
}

/// All problems that the check finds in a graph.
pub(crate) fn problems(text: &str, compat: Compat) -> Vec<Problem> {
    check(&definition(text), compat, |rule| rule != "unknown").unwrap_err()
}

/// The outcome of a run and its steps.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outcome: Result<Outcome<String>, RunError<String>>,
    pub(crate) steps: Vec<Step<String, String>>,
}

/// Runs a graph on a paused clock, which advances when everything waits.
pub(crate) fn run_in(graph: &Graph, rules: &Recorded) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let trace = Trace::new();
    let outcome = runtime.block_on(run(graph, rules, Some(&trace)));
    let steps = trace.steps().to_vec();
    Run { outcome, steps }
}

/// Runs a graph; `does` lists the rules that do more than be true.
pub(crate) fn run_with(graph: &Graph, does: &[(&'static str, Does)]) -> (Recorded, Run) {
    let rules = Recorded {
        does: does.iter().copied().collect(),
        ..Recorded::default()
    };
    let run = run_in(graph, &rules);
    (rules, run)
}

/// The outcome of a run as text: the values, prefixed with `!` if false; or `?` and the error message.
pub(crate) fn told(run: &Run) -> String {
    match &run.outcome {
        Ok(Outcome {
            is_true: true,
            values,
        }) => values.clone(),
        Ok(Outcome { values, .. }) => format!("!{values}"),
        Err(error) => format!("?{error}"),
    }
}

/// Runs a graph; returns the names of the rules that ran, and the outcome as text.
pub(crate) fn driver(graph: &Graph, does: &[(&'static str, Does)]) -> (String, String) {
    let (rules, run) = run_with(graph, does);
    let ran: Vec<_> = rules.ran.take().into_iter().map(|(rule, _)| rule).collect();
    (ran.join(" "), told(&run))
}
