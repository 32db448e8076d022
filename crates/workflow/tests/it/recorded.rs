//! Rules whose outcomes are given, and which remember what was asked of them.

use std::{collections::HashMap, fmt::Write as _};

use forebay_workflow::{Compat, Definition, Graph, Outcome, Problem, RuleCall, Rules, Run, check, run};

/// What a rule does when it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    True,
    False,
    Fails,
}

/// True unless something else is said of them; the value of a rule is its name.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) does: HashMap<&'static str, Does>,
    /// The rules that ran, each with the values of what it saw as the last result.
    pub(crate) ran: Vec<(String, Option<String>)>,
}

impl Rules for Recorded {
    type Values = String;
    type Failure = String;

    async fn run(&mut self, call: RuleCall<'_, String>) -> Result<Outcome<String>, String> {
        let last = call.last.map(|last| last.values.clone());
        self.ran.push((call.rule.to_owned(), last));
        match self.does.get(call.rule).copied().unwrap_or(Does::True) {
            Does::Fails => Err(format!("{} throws", call.rule)),
            does => Ok(Outcome {
                is_true: does == Does::True,
                values: call.rule.to_owned(),
            }),
        }
    }
}

/// A graph of lines such as `1 PROCESS r1`, `2 LOGICAL AND @1` (a priority), `1 -> 2`.
pub(crate) fn definition(text: &str) -> Definition {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        if let [from, "->", to] = *words {
            edges.push(format!(r#"{{"from": "{from}", "to": "{to}"}}"#));
            continue;
        }
        let mut node = format!(r#"{{"id": "{}", "@type": "{}""#, words[0], words[1]);
        for word in &words[2..] {
            match word.strip_prefix('@') {
                Some(priority) => write!(node, r#", "priority": {priority}"#),
                None if words[1] == "LOGICAL" => write!(node, r#", "logical": "{word}""#),
                None => write!(node, r#", "ruleId": "{word}""#),
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

/// What is wrong with it.
pub(crate) fn problems(text: &str, compat: Compat) -> Vec<Problem> {
    check(&definition(text), compat, |rule| rule != "unknown").unwrap_err()
}

/// Runs a graph with rules of which some do not give true.
pub(crate) fn run_with(graph: &Graph, does: &[(&'static str, Does)]) -> (Recorded, Run<String, String>) {
    let mut rules = Recorded {
        does: does.iter().copied().collect(),
        ran: Vec::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let run = runtime.block_on(run(graph, &mut rules, true));
    (rules, run)
}

/// The names of the rules that ran, and what that has come to: its values, after `!` where it is false, and the text of a failure after `?`.
pub(crate) fn course(graph: &Graph, does: &[(&'static str, Does)]) -> (String, String) {
    let (rules, run) = run_with(graph, does);
    let ran: Vec<_> = rules.ran.iter().map(|(rule, _)| &**rule).collect();
    let outcome = match run.outcome {
        Ok(Outcome {
            is_true: true,
            values,
        }) => values,
        Ok(Outcome { values, .. }) => format!("!{values}"),
        Err(error) => format!("?{error}"),
    };
    (ran.join(" "), outcome)
}
