//! A run through a graph: one node after another, and what each has come to.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::{
    Compat, Graph, Logical,
    graph::{Checked, Work},
};

/// Runs rules. What they give besides true or false is theirs alone.
pub trait Rules {
    /// What a rule has found out.
    type Values: Clone;
    /// Why a rule has failed.
    type Failure: Clone;

    /// Runs a rule.
    fn run(
        &mut self,
        call: RuleCall<'_, Self::Values>,
    ) -> impl Future<Output = Result<Outcome<Self::Values>, Self::Failure>>;
}

/// A rule that is to be run.
#[derive(Debug)]
pub struct RuleCall<'c, V> {
    /// The node that runs it.
    pub node: &'c str,
    /// The kind of that node, as graphs write it.
    pub kind: &'static str,
    /// The rule.
    pub rule: &'c str,
    /// What the rule before it has come to, if any was before it.
    pub last: Option<&'c Outcome<V>>,
}

/// What a rule, or a part of a graph, has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<V> {
    /// Whether it is so.
    pub is_true: bool,
    /// What was found out by the last rule that ran.
    pub values: V,
}

/// A graph has failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("node `{node}` failed: {failure}")]
pub struct RunError<F> {
    /// Where.
    pub node: String,
    /// Why.
    pub failure: F,
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub struct Run<V, F> {
    /// In the end.
    pub outcome: Result<Outcome<V>, RunError<F>>,
    /// At each node, in the order in which they came to their ends.
    pub steps: Vec<Step<V, F>>,
}

/// What a node has come to.
#[derive(Clone, Debug)]
pub struct Step<V, F> {
    /// Its id.
    pub node: String,
    /// Its kind, as graphs write it.
    pub kind: &'static str,
    /// When it began, after the beginning of the run.
    pub begun: Duration,
    /// How long it took, with all that came after it.
    pub took: Duration,
    /// What it and all that came after it have come to.
    pub outcome: Result<Outcome<V>, RunError<F>>,
}

/// Runs a graph. Whoever drops this ends the run at the rule that is running; `wants_steps` has it remember what each node has come to.
pub async fn run<R: Rules>(graph: &Graph, rules: &mut R, wants_steps: bool) -> Run<R::Values, R::Failure> {
    let mut walk = Walk {
        graph,
        rules,
        last: None,
        begun: Instant::now(),
        steps: wants_steps.then(Vec::new),
    };
    let outcome = walk.enter(graph.first).await;
    Run {
        outcome,
        steps: walk.steps.unwrap_or_default(),
    }
}

struct Walk<'w, R: Rules> {
    graph: &'w Graph,
    rules: &'w mut R,
    last: Option<Outcome<R::Values>>,
    begun: Instant,
    steps: Option<Vec<Step<R::Values, R::Failure>>>,
}

type Ended<R> = Result<Outcome<<R as Rules>::Values>, RunError<<R as Rules>::Failure>>;

impl<'w, R: Rules> Walk<'w, R> {
    /// What a node and all that comes after it come to. How deep that goes is bounded by the check of the graph.
    fn enter(&mut self, node: usize) -> Pin<Box<dyn Future<Output = Ended<R>> + '_>> {
        Box::pin(async move {
            let graph = self.graph;
            let node = &graph.nodes[node];
            let begun = self.steps.is_some().then(|| self.begun.elapsed());
            let outcome = self.work(node).await;
            if self.graph.compat == Compat::Rengine
                && let Ok(outcome) = &outcome
            {
                self.last = Some(outcome.clone());
            }
            if let (Some(steps), Some(begun)) = (&mut self.steps, begun) {
                steps.push(Step {
                    node: node.id.clone(),
                    kind: node.kind,
                    begun,
                    took: self.begun.elapsed().saturating_sub(begun),
                    outcome: outcome.clone(),
                });
            }
            outcome
        })
    }

    async fn work(&mut self, node: &'w Checked) -> Ended<R> {
        match &node.work {
            Work::Rule { rule, next } => {
                let outcome = self.run_rule(node, rule).await?;
                match next {
                    Some(next) if outcome.is_true => self.enter(*next).await,
                    _ => Ok(outcome),
                }
            }
            Work::Failback { rule, next } => match self.enter(*next).await {
                Ok(outcome) => Ok(outcome),
                Err(_) => self.run_rule(node, rule).await,
            },
            Work::Logical { logical, children } => self.decide(*logical, children).await,
        }
    }

    /// Runs a rule; those that come after it see what it has come to.
    async fn run_rule(&mut self, node: &Checked, rule: &str) -> Ended<R> {
        let call = RuleCall {
            node: &node.id,
            kind: node.kind,
            rule,
            last: self.last.as_ref(),
        };
        let outcome = self.rules.run(call).await.map_err(|failure| RunError {
            node: node.id.clone(),
            failure,
        })?;
        if self.graph.compat == Compat::None {
            self.last = Some(outcome.clone());
        }
        Ok(outcome)
    }

    /// Has children decide. The values are those of the last that has run.
    async fn decide(&mut self, logical: Logical, children: &[usize]) -> Ended<R> {
        let (mut all, mut any) = (true, false);
        let mut values = None;
        for &child in children {
            let outcome = self.enter(child).await?;
            all &= outcome.is_true;
            any |= outcome.is_true;
            let is_decided = match logical {
                Logical::And => !outcome.is_true,
                Logical::Or => outcome.is_true,
                Logical::AllAnd | Logical::AllOr | Logical::Not => false,
            };
            values = Some(outcome.values);
            if is_decided {
                break;
            }
        }
        let is_true = match logical {
            Logical::And | Logical::AllAnd => all,
            Logical::AllOr if self.graph.compat == Compat::Rengine => true,
            Logical::Or | Logical::AllOr => any,
            Logical::Not => !any,
        };
        let values = values.expect("a graph whose LOGICAL nodes have children is all that is checked");
        Ok(Outcome { is_true, values })
    }
}
