//! Runs a graph node by node, and records the outcome of each node.

mod trace;
mod walk;

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use thiserror::Error;

pub use self::trace::{Step, Trace};
use self::walk::Walk;
use crate::Graph;

/// Maximum nesting of graphs.
pub const DEPTH_MAX: usize = 10;
/// Maximum number of nodes on one path, including those of the graphs around it. A run keeps all of them on its thread's stack.
pub const WAY_MAX: usize = 400;
/// Maximum number of items in the list of a LOOP.
pub const ITEMS_MAX: usize = 10_000;

/// Runs rules and interprets their values. The graph itself only looks at whether an outcome is true.
pub trait Rules {
    /// The values that a rule returns.
    type Values: Clone;
    /// An item of the list of a LOOP.
    type Item: Clone;
    /// The error of a rule that failed.
    type Failure: Clone + fmt::Display;

    /// Runs a rule. Several may run concurrently. Dropping the future cancels the rule.
    fn run(
        &self,
        call: RuleCall<'_, Self::Values, Self::Item>,
    ) -> impl Future<Output = Result<Outcome<Self::Values>, Self::Failure>>;

    /// Resolves after this time.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()>;

    /// The case that a SWITCH follows, if the values of its rule name one.
    fn case(&self, values: &Self::Values) -> Option<String>;

    /// The list of a LOOP; `over` is what its definition says.
    fn items(
        &self,
        over: &str,
        before: Before<'_, Self::Values, Self::Item>,
    ) -> Result<Vec<Self::Item>, Self::Failure>;

    /// Combines the values of several branches. Each comes with the id of its node, or with the index of its item.
    fn join(&self, parts: Vec<(&str, Self::Values)>) -> Self::Values;

    /// Converts values that are written in the definition.
    fn values(&self, written: &Map<String, Value>) -> Self::Values;

    /// Looks up the workflow that a SUBFLOW names.
    fn subflow(&self, workflow: &str) -> Option<Subflow>;

    /// Evaluates a decision; `call.rule` is its name.
    fn decide(
        &self,
        call: RuleCall<'_, Self::Values, Self::Item>,
    ) -> impl Future<Output = Result<Outcome<Self::Values>, Self::Failure>>;
}

/// The target of a SUBFLOW.
#[derive(Clone, Debug)]
pub enum Subflow {
    /// Another graph.
    Graph(Arc<Graph>),
    /// A decision, which the implementation of [`Rules`] evaluates.
    Decision,
}

/// How a run names a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    /// The id of the node, prefixed with the nodes whose graphs contain it: `7/2`.
    pub id: Rc<str>,
    /// The display name, if it has one.
    pub name: Option<Arc<str>>,
}

/// A request to run a rule.
#[derive(Debug)]
pub struct RuleCall<'c, V, I> {
    /// The node whose rule it is.
    pub node: &'c NodeName,
    /// The kind of the node, as written in definitions.
    pub kind: &'static str,
    /// The name of the rule.
    pub rule: &'c str,
    /// The context that earlier nodes have left.
    pub before: Before<'c, V, I>,
    /// Timeout of the node, after which the future is dropped. An implementation that runs rules on the waiting thread has to stop them by
    /// then itself.
    pub time_max: Option<Duration>,
}

/// The context in which a node runs.
#[derive(Debug)]
pub struct Before<'c, V, I> {
    /// Outcome of the previous rule, if there was one.
    pub last: Option<&'c Outcome<V>>,
    /// The current item of the innermost LOOP.
    pub item: Option<&'c I>,
}

/// The outcome of a rule or of a part of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<V> {
    /// Whether the rule is true, which decides if its branch continues.
    pub is_true: bool,
    /// The values of the last rule that ran.
    pub values: V,
}

/// A run that failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("node `{}` failed: {cause}", node.id)]
pub struct RunError<F: fmt::Display> {
    /// The failed node.
    pub node: NodeName,
    /// The cause of the failure.
    pub cause: Cause<F>,
}

/// The cause of a node's failure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Cause<F: fmt::Display> {
    /// The rule failed.
    #[error("{0}")]
    Rule(F),
    /// The rule timed out.
    #[error("its rule is not over after {0:?} (timeoutMs)")]
    Late(Duration),
    /// No graph has this name.
    #[error("there is no workflow `{0}`")]
    NoSuchWorkflow(String),
    /// Graphs are nested too deeply.
    #[error("workflow `{0}` would run within {DEPTH_MAX} others")]
    TooDeep(String),
    /// The path to the node is too long.
    #[error("more than {WAY_MAX} nodes are before it")]
    TooFar,
    /// The list of a LOOP is too long.
    #[error("its list has {0} items, at most {ITEMS_MAX}")]
    TooManyItems(usize),
}

/// The outcome of a node and all nodes after it.
pub type Ended<V, F> = Result<Outcome<V>, RunError<F>>;

/// Runs a graph, and records a [`Step`] for each node if there is a trace. Dropping the future cancels the rules in progress.
///
/// # Errors
/// The first failure that no node caught.
pub async fn run<R: Rules>(
    graph: &Graph,
    rules: &R,
    trace: Option<&Trace<R::Values, R::Failure>>,
) -> Result<Outcome<R::Values>, RunError<R::Failure>> {
    Walk { rules, trace }.run(graph).await
}
