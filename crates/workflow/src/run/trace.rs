//! The steps of a run.

use std::{
    cell::{Ref, RefCell},
    fmt,
    time::{Duration, Instant},
};

use super::{Ended, NodeName, Outcome, RunError};

/// The steps of a run, as far as it has come: it can be read while the run goes on, and after the run was cancelled.
#[derive(Debug)]
pub struct Trace<V, F: fmt::Display> {
    begun: Instant,
    pub(super) steps: RefCell<Vec<Step<V, F>>>,
}

/// One node's part in a run.
#[derive(Clone, Debug)]
pub struct Step<V, F: fmt::Display> {
    /// The node that was entered.
    pub node: NodeName,
    /// The kind of the node, as written in definitions.
    pub kind: &'static str,
    /// Index of the step that led to this one.
    pub parent: Option<usize>,
    /// Start of the node, relative to the start of the run.
    pub begun: Duration,
    /// Values of the previous rule, if there was one.
    pub input: Option<V>,
    /// Outcome of the node's own rule or graph, or of the fallback in its place.
    pub own: Option<Outcome<V>>,
    /// Why a fallback stands in for the outcome of the rule, or of the nodes after a FAILBACK.
    pub fallback: Option<RunError<F>>,
    /// The case that the rule of a SWITCH named.
    pub case: Option<String>,
    /// Number of attempts that a RETRY has begun.
    pub attempts: Option<u32>,
    /// Duration, including all nodes after it, and their outcome together. `None` if the node has not ended, or was cancelled.
    pub ended: Option<(Duration, Ended<V, F>)>,
}

impl<V: Clone, F: fmt::Display + Clone> Trace<V, F> {
    /// The trace of a run that begins now.
    #[expect(clippy::new_without_default, reason = "its clock starts with it")]
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            steps: RefCell::default(),
        }
    }

    /// The steps so far, in the order in which they began.
    pub fn steps(&self) -> Ref<'_, [Step<V, F>]> {
        Ref::map(self.steps.borrow(), |steps| &**steps)
    }

    /// Time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn begin(
        &self,
        node: NodeName,
        kind: &'static str,
        parent: Option<usize>,
        input: Option<V>,
    ) -> usize {
        let mut steps = self.steps.borrow_mut();
        steps.push(Step {
            node,
            kind,
            parent,
            begun: self.elapsed(),
            input,
            own: None,
            fallback: None,
            case: None,
            attempts: None,
            ended: None,
        });
        steps.len() - 1
    }

    pub(super) fn end(&self, step: usize, outcome: Ended<V, F>) {
        let step = &mut self.steps.borrow_mut()[step];
        step.ended = Some((self.elapsed().saturating_sub(step.begun), outcome));
    }
}
