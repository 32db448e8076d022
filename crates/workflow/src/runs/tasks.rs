//! The tasks of one run: its rules, functions and delays.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Engine as _, EngineCall, Evaluator, NodeName, RuleOutcome, RunCounts};

/// Why a rule failed: the error, with its stack trace.
#[derive(Clone, Debug)]
pub(super) struct Reason(Rc<str>);

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0.trim_end())
    }
}

impl From<String> for Reason {
    fn from(reason: String) -> Self {
        Self(reason.into())
    }
}

/// The error of a run that reaches its deadline while no rule is running.
pub(super) const LATE: &str = "the time of the run is over (timeout)";
/// Decisions made between two yields to other runs.
const DECISIONS_AT_ONCE: u32 = 16;

/// The tasks of one run: evaluates rules in its engine, and keeps to the limits of the run.
pub(super) struct RunTasks<E: Evaluator> {
    engine: E::Engine,
    /// Bytes returned by rules so far, and their limit.
    bytes: Cell<usize>,
    bytes_max: usize,
    deadline: Instant,
    counts: Arc<dyn RunCounts>,
    /// Number of decisions made without a rule.
    decided: Cell<u32>,
}

/// A rule to run, its node and its input.
pub(super) struct Task<'t, R> {
    pub(super) rule: &'t Arc<R>,
    pub(super) node: &'t NodeName,
    pub(super) kind: &'static str,
    pub(super) last: Option<RuleOutcome>,
    pub(super) item: Option<String>,
    /// Time limit of its node.
    pub(super) time_max: Option<Duration>,
}

impl<E: Evaluator> RunTasks<E> {
    /// For a run whose rules may return at most `bytes_max` bytes.
    pub(super) fn new(
        engine: E::Engine,
        bytes_max: usize,
        deadline: Instant,
        counts: Arc<dyn RunCounts>,
    ) -> Self {
        Self {
            engine,
            bytes: Cell::new(0),
            bytes_max,
            deadline,
            counts,
            decided: Cell::new(0),
        }
    }

    /// When the run times out.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the run has timed out. Work without rules has to check this itself, because nothing interrupts it.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Counts bytes that the run holds; an error beyond the limit.
    pub(super) fn keep(&self, bytes: usize) -> Result<(), Reason> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() <= self.bytes_max {
            return Ok(());
        }
        let bytes_max = self.bytes_max;
        Err(format!("the rules of this run have given more than {bytes_max} bytes (output_max)").into())
    }

    /// Yields to other runs now and then; an error if the run has timed out.
    pub(super) async fn give_way(&self) -> Result<(), Reason> {
        if self.is_late() {
            return Err(LATE.to_owned().into());
        }
        self.decided.set(self.decided.get() + 1);
        if self.decided.get().is_multiple_of(DECISIONS_AT_ONCE) {
            self.sleep(Duration::ZERO).await;
        }
        Ok(())
    }

    /// Runs a rule in the engine and returns its outcome.
    pub(super) async fn run(&self, task: Task<'_, E::Rule>) -> Result<RuleOutcome, Reason> {
        let begun = Instant::now();
        let outcome = self.engine.evaluate(EngineCall {
            rule: Arc::clone(task.rule),
            node: task.node.clone(),
            kind: task.kind,
            last: task.last,
            item: task.item,
            time_max: task.time_max,
        });
        let outcome = outcome.await;
        let is_true = outcome.as_ref().ok().map(|outcome| outcome.is_true);
        self.counts.node(&task.node.id, is_true, begun.elapsed());
        let outcome = outcome.map_err(Reason::from)?;
        self.keep(outcome.values.len())?;
        Ok(outcome)
    }

    /// Waits for `time`.
    pub(super) async fn sleep(&self, time: Duration) {
        self.engine.sleep(time).await;
    }
}
