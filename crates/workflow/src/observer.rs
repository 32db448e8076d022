//! Counting and logging of runs.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::Level;

/// Counts and logs runs.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// The counts of a workflow.
    fn counts(&self, workflow: &str) -> Arc<dyn RunCounts>;

    /// The log of a run, if runs are logged.
    fn log(&self, workflow: &str, request_id: &str) -> Option<Box<dyn RunLog>>;
}

/// Counts the runs of one workflow.
pub trait RunCounts: fmt::Debug + Send + Sync {
    /// A run is requested.
    fn begins(&self);

    /// A run is over, this long after it was requested.
    fn ends(&self, outcome: RunOutcome, took: Duration);

    /// A rule at a node is over: its result, or `None` if it failed.
    fn node(&self, node: &str, is_true: Option<bool>, took: Duration);
}

/// The log of one run.
pub trait RunLog: fmt::Debug + Send {
    /// Adds a line, with the id and name of the node that it is about, and the stack of a failure.
    fn line(&mut self, level: Level, message: &str, node: Option<(&str, Option<&str>)>, stack: Option<&str>);
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Over, and true.
    True,
    /// Over, and false.
    False,
    /// It failed.
    Failed,
    /// It timed out.
    Late,
    /// It never began.
    Refused,
    /// The client no longer waits for it.
    Gone,
}

/// A run in progress; counted when this is dropped.
#[derive(Debug)]
pub(crate) struct CountedRun {
    counts: Arc<dyn RunCounts>,
    begun: Instant,
    deadline: Instant,
    outcome: Option<RunOutcome>,
}

impl CountedRun {
    /// Counts the start of a run that must end by `deadline`.
    pub(crate) fn begin(counts: Arc<dyn RunCounts>, deadline: Instant) -> Self {
        counts.begins();
        Self {
            counts,
            begun: Instant::now(),
            deadline,
            outcome: None,
        }
    }

    pub(crate) fn ends(mut self, outcome: RunOutcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for CountedRun {
    fn drop(&mut self) {
        let now = Instant::now();
        let left = || {
            // A client that waited until the deadline notices by its own clock.
            if now >= self.deadline {
                RunOutcome::Late
            } else {
                RunOutcome::Gone
            }
        };
        self.counts
            .ends(self.outcome.unwrap_or_else(left), now - self.begun);
    }
}
