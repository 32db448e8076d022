//! What workflows count. A workflow of the same name goes on counting after a reload.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_pg::{Durations, Histogram};
use parking_lot::RwLock;

/// What becomes of runs.
pub(crate) const RUN_OUTCOMES: [&str; 6] = ["true", "false", "failed", "late", "refused", "gone"];
/// What becomes of rules at their nodes.
pub(crate) const NODE_OUTCOMES: [&str; 3] = ["true", "false", "failed"];
/// Most nodes of a workflow that are counted on their own.
const NODES_MAX: usize = 1000;
/// As what further ones are counted.
const OTHER_NODES: &str = "(other)";

/// What has become of a run: its place in [`RUN_OUTCOMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    True,
    False,
    Failed,
    Late,
    Refused,
    /// Nobody waits for it any more.
    Gone,
}

/// The counts of one workflow.
#[derive(Debug, Default)]
pub(crate) struct WorkflowCounts {
    in_flight: AtomicU64,
    outcomes: [AtomicU64; RUN_OUTCOMES.len()],
    durations: Histogram,
    nodes: RwLock<BTreeMap<String, Arc<NodeCounts>>>,
}

#[derive(Debug, Default)]
struct NodeCounts {
    outcomes: [AtomicU64; NODE_OUTCOMES.len()],
    sum_us: AtomicU64,
}

/// A run that is under way; it counts when this goes.
#[derive(Debug)]
pub(crate) struct CountedRun {
    counts: Arc<WorkflowCounts>,
    begun: Instant,
    deadline: Instant,
    outcome: Option<RunOutcome>,
}

impl CountedRun {
    pub(crate) fn ends(mut self, outcome: RunOutcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for CountedRun {
    fn drop(&mut self) {
        let now = Instant::now();
        let left = || {
            // Whoever has waited until then learns it by its own clock.
            if now >= self.deadline {
                RunOutcome::Late
            } else {
                RunOutcome::Gone
            }
        };
        let outcome = self.outcome.unwrap_or_else(left);
        let counts = &self.counts;
        counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        counts.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if outcome != RunOutcome::Refused {
            counts.durations.record(now - self.begun, 1);
        }
    }
}

impl WorkflowCounts {
    /// A run begins, which may take until `deadline`.
    pub(crate) fn begin(self: &Arc<Self>, deadline: Instant) -> CountedRun {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        CountedRun {
            counts: self.clone(),
            begun: Instant::now(),
            deadline,
            outcome: None,
        }
    }

    /// A rule has run at a node: whether it is true, or none where it has failed.
    pub(crate) fn node(&self, node: &str, is_true: Option<bool>, took: Duration) {
        let outcome = match is_true {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        };
        let counts = self.of_node(node);
        counts.outcomes[outcome].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counts.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    fn of_node(&self, node: &str) -> Arc<NodeCounts> {
        if let Some(counts) = self.nodes.read().get(node) {
            return counts.clone();
        }
        let mut nodes = self.nodes.write();
        let node = if nodes.len() < NODES_MAX {
            node
        } else {
            OTHER_NODES
        };
        nodes.entry(node.to_owned()).or_default().clone()
    }

    fn read(&self) -> WorkflowTotals {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let nodes = self.nodes.read();
        let totals = |(node, counts): (&String, &Arc<NodeCounts>)| NodeTotals {
            node: node.clone(),
            outcomes: counts.outcomes.each_ref().map(read),
            sum: Duration::from_micros(read(&counts.sum_us)),
        };
        WorkflowTotals {
            in_flight: read(&self.in_flight),
            outcomes: self.outcomes.each_ref().map(read),
            durations: self.durations.read(),
            nodes: nodes.iter().map(totals).collect(),
        }
    }
}

/// What a workflow has counted.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowTotals {
    /// Runs that are under way or wait.
    pub(crate) in_flight: u64,
    /// Runs that are over, in the order of [`RUN_OUTCOMES`].
    pub(crate) outcomes: [u64; RUN_OUTCOMES.len()],
    /// Of the runs that were not refused, waiting included.
    pub(crate) durations: Durations,
    /// By their ids.
    pub(crate) nodes: Vec<NodeTotals>,
}

/// What a node has counted.
#[derive(Clone, Debug)]
pub(crate) struct NodeTotals {
    pub(crate) node: String,
    /// Rules that are over, in the order of [`NODE_OUTCOMES`].
    pub(crate) outcomes: [u64; NODE_OUTCOMES.len()],
    /// How long they took together.
    pub(crate) sum: Duration,
}

/// The counts of all workflows, by name.
#[derive(Debug, Default)]
pub(crate) struct WorkflowBook {
    workflows: RwLock<BTreeMap<String, Arc<WorkflowCounts>>>,
}

impl WorkflowBook {
    /// The counts of a workflow.
    pub(crate) fn of(&self, name: &str) -> Arc<WorkflowCounts> {
        if let Some(counts) = self.workflows.read().get(name) {
            return counts.clone();
        }
        self.workflows.write().entry(name.to_owned()).or_default().clone()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.workflows.write().clear();
    }

    /// Every workflow's counts, by name.
    pub(crate) fn read(&self) -> Vec<(String, WorkflowTotals)> {
        let workflows = self.workflows.read();
        workflows
            .iter()
            .map(|(name, counts)| (name.clone(), counts.read()))
            .collect()
    }
}
