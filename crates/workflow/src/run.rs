//! A run through a graph: one node after another, and what each has come to.

use std::{
    cell::RefCell,
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    future::{Either, select},
    stream::{FuturesUnordered, StreamExt as _},
};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{
    Compat, Graph, Logical,
    definition::Join,
    graph::{Checked, Work},
};

/// Graphs that may run within one another.
pub const DEPTH_MAX: usize = 10;
/// Nodes that may come one after another on one way, with those of all graphs that it leads through: a run keeps all of them in mind, on the stack of its thread.
pub const WAY_MAX: usize = 400;
/// Bytes of the stack that one node has, and how many more there are where these are not left.
const STACK_LEFT_MIN: usize = 64 << 10;
const STACK_BYTES: usize = 1 << 20;
/// Items of a list that a LOOP goes over.
pub const ITEMS_MAX: usize = 10_000;

/// Runs rules, and knows what they give. What that is besides true or false is theirs alone.
pub trait Rules {
    /// What a rule has found out.
    type Values: Clone;
    /// An item of a list that a LOOP goes over.
    type Item: Clone;
    /// Why a rule has failed.
    type Failure: Clone + fmt::Display;

    /// Runs a rule. Several may run at the same time; one that is dropped is not wanted any more.
    fn run(
        &self,
        call: RuleCall<'_, Self::Values, Self::Item>,
    ) -> impl Future<Output = Result<Outcome<Self::Values>, Self::Failure>>;

    /// Resolves after so long.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()>;

    /// The case that a SWITCH goes on with, if the values of its rule name one.
    fn case(&self, values: &Self::Values) -> Option<String>;

    /// The list that a LOOP goes over, by what its node says.
    fn items(
        &self,
        over: &str,
        before: Before<'_, Self::Values, Self::Item>,
    ) -> Result<Vec<Self::Item>, Self::Failure>;

    /// The values of several that have run, each with its node, or with the number of its item.
    fn join(&self, parts: Vec<(&str, Self::Values)>) -> Self::Values;

    /// Values that a graph has written down.
    fn values(&self, written: &Map<String, Value>) -> Self::Values;

    /// What a SUBFLOW runs, by its name.
    fn subflow(&self, workflow: &str) -> Option<Subflow>;

    /// Has a decision made; `call.rule` is its name.
    fn decide(
        &self,
        call: RuleCall<'_, Self::Values, Self::Item>,
    ) -> impl Future<Output = Result<Outcome<Self::Values>, Self::Failure>>;
}

/// What a SUBFLOW runs.
#[derive(Clone, Debug)]
pub enum Subflow {
    /// Another graph.
    Graph(Arc<Graph>),
    /// A decision, which those make who run the rules.
    Decision,
}

/// A rule that is to be run.
#[derive(Debug)]
pub struct RuleCall<'c, V, I> {
    /// The node that runs it, behind those whose graphs it is in: `7/2`.
    pub node: &'c str,
    /// The kind of that node, as graphs write it.
    pub kind: &'static str,
    /// The rule.
    pub rule: &'c str,
    /// What was before it.
    pub before: Before<'c, V, I>,
    /// How long its node waits for it; then it is dropped. Who runs rules on the thread that waits has to stop it by then.
    pub time_max: Option<Duration>,
}

/// What was before a node.
#[derive(Debug)]
pub struct Before<'c, V, I> {
    /// What the rule before it has come to, if any was.
    pub last: Option<&'c Outcome<V>>,
    /// The item of the innermost LOOP around it.
    pub item: Option<&'c I>,
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
#[error("node `{node}` failed: {cause}")]
pub struct RunError<F: fmt::Display> {
    /// Where, as [`RuleCall::node`] has it.
    pub node: String,
    /// Why.
    pub cause: Cause<F>,
}

/// Why a node has failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Cause<F: fmt::Display> {
    /// Its rule has.
    #[error("{0}")]
    Rule(F),
    /// Its rule took too long.
    #[error("its rule is not over after {0:?} (timeoutMs)")]
    Late(Duration),
    /// There is no graph of this name.
    #[error("there is no workflow `{0}`")]
    NoSuchWorkflow(String),
    /// Too many graphs run within one another.
    #[error("workflow `{0}` would run within {DEPTH_MAX} others")]
    TooDeep(String),
    /// The way to it is too long.
    #[error("more than {WAY_MAX} nodes are before it")]
    TooFar,
    /// A list is too long.
    #[error("its list has {0} items, at most {ITEMS_MAX}")]
    TooManyItems(usize),
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub struct Run<V, F: fmt::Display> {
    /// In the end.
    pub outcome: Result<Outcome<V>, RunError<F>>,
    /// At each node, in the order in which they came to their ends.
    pub steps: Vec<Step<V, F>>,
}

/// What a node has come to.
#[derive(Clone, Debug)]
pub struct Step<V, F: fmt::Display> {
    /// Its id, as [`RuleCall::node`] has it.
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

/// Runs a graph. Whoever drops this ends the run at the rules that are running; `wants_steps` has it remember what each node has come to.
pub async fn run<R: Rules>(graph: &Graph, rules: &R, wants_steps: bool) -> Run<R::Values, R::Failure> {
    let walk = Walk {
        rules,
        begun: Instant::now(),
        steps: wants_steps.then(RefCell::default),
    };
    let mut branch = Branch {
        last: None,
        item: None,
        within: Rc::from(""),
        depth: 1,
        nodes: 0,
    };
    let outcome = walk.enter(graph, graph.first, &mut branch).await;
    Run {
        outcome,
        steps: walk.steps.map(RefCell::into_inner).unwrap_or_default(),
    }
}

struct Walk<'w, R: Rules> {
    rules: &'w R,
    begun: Instant,
    steps: Option<RefCell<Steps<R>>>,
}

/// What was before on one way through the graph.
struct Branch<R: Rules> {
    last: Option<Outcome<R::Values>>,
    item: Option<R::Item>,
    /// The nodes whose graphs this is in, each with a slash behind it.
    within: Rc<str>,
    /// How many graphs those are, with the outermost.
    depth: usize,
    /// The nodes that lead here, of all these graphs.
    nodes: usize,
}

impl<R: Rules> Clone for Branch<R> {
    fn clone(&self) -> Self {
        Self {
            last: self.last.clone(),
            item: self.item.clone(),
            within: Rc::clone(&self.within),
            depth: self.depth,
            nodes: self.nodes,
        }
    }
}

impl<R: Rules> Branch<R> {
    fn before(&self) -> Before<'_, R::Values, R::Item> {
        Before {
            last: self.last.as_ref(),
            item: self.item.as_ref(),
        }
    }

    fn name_of(&self, node: &Checked) -> String {
        format!("{}{}", self.within, node.id)
    }
}

type Steps<R> = Vec<Step<<R as Rules>::Values, <R as Rules>::Failure>>;
type Ended<R> = Result<Outcome<<R as Rules>::Values>, RunError<<R as Rules>::Failure>>;

impl<R: Rules> Walk<'_, R> {
    /// What a node and all that comes after it come to. How deep that goes is bounded by [`WAY_MAX`], and has more of a stack where the thread's is used up.
    fn enter<'a>(
        &'a self,
        graph: &'a Graph,
        node: usize,
        branch: &'a mut Branch<R>,
    ) -> Pin<Box<dyn Future<Output = Ended<R>> + 'a>> {
        let mut walking = Box::pin(async move {
            let node = &graph.nodes[node];
            let begun = self.steps.is_some().then(|| self.begun.elapsed());
            let outcome = if branch.nodes == WAY_MAX {
                Err(Self::failed(branch.name_of(node), Cause::TooFar))
            } else {
                branch.nodes += 1;
                let outcome = self.work(graph, node, branch).await;
                branch.nodes -= 1;
                outcome
            };
            if graph.compat == Compat::Rengine
                && let Ok(outcome) = &outcome
            {
                branch.last = Some(outcome.clone());
            }
            if let (Some(steps), Some(begun)) = (&self.steps, begun) {
                steps.borrow_mut().push(Step {
                    node: branch.name_of(node),
                    kind: node.kind,
                    begun,
                    took: self.begun.elapsed().saturating_sub(begun),
                    outcome: outcome.clone(),
                });
            }
            outcome
        });
        Box::pin(poll_fn(move |context| {
            stacker::maybe_grow(STACK_LEFT_MIN, STACK_BYTES, || walking.as_mut().poll(context))
        }))
    }

    async fn work(&self, graph: &Graph, node: &Checked, branch: &mut Branch<R>) -> Ended<R> {
        match &node.work {
            Work::Rule { rule, next } => {
                let outcome = self.run_rule(graph, node, rule, branch).await?;
                self.go_on(graph, outcome, *next, branch).await
            }
            Work::Failback { rule, next } => match self.enter(graph, *next, branch).await {
                Ok(outcome) => Ok(outcome),
                Err(_) => self.run_rule(graph, node, rule, branch).await,
            },
            Work::Logical { logical, children } => self.decide(graph, *logical, children, branch).await,
            Work::Switch {
                rule,
                cases,
                otherwise,
            } => {
                let outcome = self.run_rule(graph, node, rule, branch).await?;
                let case = self.rules.case(&outcome.values);
                let next = case.and_then(|case| cases.get(&case).copied()).or(*otherwise);
                match next {
                    Some(next) if outcome.is_true => self.enter(graph, next, branch).await,
                    // Nothing stands for that case.
                    _ => Ok(Outcome {
                        is_true: false,
                        ..outcome
                    }),
                }
            }
            Work::Parallel { join, children } => self.run_together(graph, *join, children, branch).await,
            Work::Loop { over, next } => self.go_over(graph, node, over, *next, branch).await,
            Work::Subflow { workflow, next } => {
                let outcome = self.run_subflow(node, workflow, branch).await?;
                self.go_on(graph, outcome, *next, branch).await
            }
            Work::Delay { time, next } => {
                self.rules.sleep(*time).await;
                self.enter(graph, *next, branch).await
            }
            Work::Retry {
                attempts,
                pause,
                next,
            } => {
                for _ in 1..*attempts {
                    let mut attempt = branch.clone();
                    if let Ok(outcome) = self.enter(graph, *next, &mut attempt).await {
                        *branch = attempt;
                        return Ok(outcome);
                    }
                    self.rules.sleep(*pause).await;
                }
                self.enter(graph, *next, branch).await
            }
        }
    }

    async fn go_on(
        &self,
        graph: &Graph,
        outcome: Outcome<R::Values>,
        next: Option<usize>,
        branch: &mut Branch<R>,
    ) -> Ended<R> {
        match next {
            Some(next) if outcome.is_true => self.enter(graph, next, branch).await,
            _ => Ok(outcome),
        }
    }

    fn failed(node: String, cause: Cause<R::Failure>) -> RunError<R::Failure> {
        RunError { node, cause }
    }

    /// Runs the rule of a node; those that come after it see what it has come to.
    async fn run_rule(&self, graph: &Graph, node: &Checked, rule: &str, branch: &mut Branch<R>) -> Ended<R> {
        let name = branch.name_of(node);
        let running = self.rules.run(RuleCall {
            node: &name,
            kind: node.kind,
            rule,
            before: branch.before(),
            time_max: node.timeout,
        });
        let outcome = match node.timeout {
            None => running.await.map_err(Cause::Rule),
            Some(limit) => match select(pin!(running), pin!(self.rules.sleep(limit))).await {
                Either::Left((outcome, _)) => outcome.map_err(Cause::Rule),
                Either::Right(_) => Err(Cause::Late(limit)),
            },
        };
        let outcome = match (outcome, &node.fallback) {
            (Ok(outcome), _) => outcome,
            (Err(_), Some(fallback)) => Outcome {
                is_true: fallback.is_true,
                values: self.rules.values(&fallback.values),
            },
            (Err(cause), None) => return Err(Self::failed(name, cause)),
        };
        if graph.compat == Compat::None {
            branch.last = Some(outcome.clone());
        }
        Ok(outcome)
    }

    /// Has children decide, one after another. The values are those of the last that has run.
    async fn decide(
        &self,
        graph: &Graph,
        logical: Logical,
        children: &[usize],
        branch: &mut Branch<R>,
    ) -> Ended<R> {
        let (mut all, mut any) = (true, false);
        let mut values = None;
        for &child in children {
            let outcome = self.enter(graph, child, branch).await?;
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
            Logical::AllOr if graph.compat == Compat::Rengine => true,
            Logical::Or | Logical::AllOr => any,
            Logical::Not => !any,
        };
        let values = values.expect("a graph whose LOGICAL nodes have children is all that is checked");
        Ok(Outcome { is_true, values })
    }

    /// Runs children at the same time; those that are not needed any more are ended.
    async fn run_together(
        &self,
        graph: &Graph,
        join: Join,
        children: &[usize],
        branch: &mut Branch<R>,
    ) -> Ended<R> {
        let mut running: FuturesUnordered<_> = children
            .iter()
            .enumerate()
            .map(|(place, &child)| {
                let mut branch = branch.clone();
                async move { (place, self.enter(graph, child, &mut branch).await) }
            })
            .collect();
        let mut outcomes: Vec<Option<Outcome<R::Values>>> = vec![None; children.len()];
        let mut failure = None;
        while let Some((place, ended)) = running.next().await {
            match (join, ended) {
                (Join::All, Err(error)) => return Err(error),
                (Join::Any, Err(error)) => drop(failure.get_or_insert(error)),
                (Join::Any, Ok(outcome)) if outcome.is_true => {
                    branch.last = Some(outcome.clone());
                    return Ok(outcome);
                }
                (_, Ok(outcome)) => outcomes[place] = Some(outcome),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        let is_true = join == Join::All && outcomes.iter().all(|outcome| outcome.is_true);
        let names = children.iter().map(|&child| &*graph.nodes[child].id);
        let parts = names.zip(outcomes.into_iter().map(|outcome| outcome.values));
        let values = self.rules.join(parts.collect());
        let outcome = Outcome { is_true, values };
        branch.last = Some(outcome.clone());
        Ok(outcome)
    }

    /// Goes on once for each item, until one is false.
    async fn go_over(
        &self,
        graph: &Graph,
        node: &Checked,
        over: &str,
        next: usize,
        branch: &mut Branch<R>,
    ) -> Ended<R> {
        let items = self.rules.items(over, branch.before());
        let items = items.map_err(|failure| Self::failed(branch.name_of(node), Cause::Rule(failure)))?;
        if items.len() > ITEMS_MAX {
            return Err(Self::failed(
                branch.name_of(node),
                Cause::TooManyItems(items.len()),
            ));
        }
        let outer = branch.item.take();
        let mut parts = Vec::with_capacity(items.len());
        let mut ended = Ok(true);
        for item in items {
            branch.item = Some(item);
            ended = self.enter(graph, next, branch).await.map(|outcome| {
                parts.push(outcome.values);
                outcome.is_true
            });
            if !matches!(ended, Ok(true)) {
                break;
            }
        }
        branch.item = outer;
        let is_true = ended?;
        let numbers: Vec<_> = (0..parts.len()).map(|number| number.to_string()).collect();
        let parts = numbers.iter().map(String::as_str).zip(parts).collect();
        let outcome = Outcome {
            is_true,
            values: self.rules.join(parts),
        };
        branch.last = Some(outcome.clone());
        Ok(outcome)
    }

    async fn run_subflow(&self, node: &Checked, workflow: &str, branch: &mut Branch<R>) -> Ended<R> {
        let name = branch.name_of(node);
        if branch.depth == DEPTH_MAX {
            return Err(Self::failed(name, Cause::TooDeep(workflow.to_owned())));
        }
        let outcome = match self.rules.subflow(workflow) {
            None => {
                return Err(Self::failed(name, Cause::NoSuchWorkflow(workflow.to_owned())));
            }
            Some(Subflow::Graph(graph)) => {
                let mut within = Branch {
                    within: format!("{name}/").into(),
                    depth: branch.depth + 1,
                    ..branch.clone()
                };
                self.enter(&graph, graph.first, &mut within).await?
            }
            Some(Subflow::Decision) => {
                let decided = self.rules.decide(RuleCall {
                    node: &name,
                    kind: node.kind,
                    rule: workflow,
                    before: branch.before(),
                    time_max: None,
                });
                let decided = decided.await;
                decided.map_err(|failure| Self::failed(name, Cause::Rule(failure)))?
            }
        };
        branch.last = Some(outcome.clone());
        Ok(outcome)
    }
}
