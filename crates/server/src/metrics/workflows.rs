//! Counts of workflows. A workflow that keeps its name continues its counts after a reload.

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

/// Outcomes of runs.
pub(crate) const RUN_OUTCOMES: [&str; 6] = ["true", "false", "failed", "late", "refused", "gone"];
/// Outcomes of rules at nodes.
pub(crate) const NODE_OUTCOMES: [&str; 3] = ["true", "false", "failed"];
/// Most nodes counted separately within a workflow.
const NODES_MAX: usize = 1000;
/// The name under which all further nodes are counted.
const OTHER_NODES: &str = "(other)";

/// The outcome of a run; its discriminant is the index in [`RUN_OUTCOMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    True,
    False,
    Failed,
    Late,
    Refused,
    /// The client no longer waits for it.
    Gone,
}

/// Counts of one workflow.
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

/// A run in progress; counted when this is dropped.
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
            // A client that waited until the deadline notices by its own clock.
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
    /// Counts the start of a run that must end by `deadline`.
    pub(crate) fn begin(self: &Arc<Self>, deadline: Instant) -> CountedRun {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        CountedRun {
            counts: self.clone(),
            begun: Instant::now(),
            deadline,
            outcome: None,
        }
    }

    /// Counts a rule at a node: its result, or `None` if it failed.
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

/// A snapshot of one workflow's counts.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowTotals {
    /// Runs in progress or waiting.
    pub(crate) in_flight: u64,
    /// Finished runs, in the order of [`RUN_OUTCOMES`].
    pub(crate) outcomes: [u64; RUN_OUTCOMES.len()],
    /// Durations of runs that were not refused, including waiting.
    pub(crate) durations: Durations,
    /// Sorted by node id.
    pub(crate) nodes: Vec<NodeTotals>,
}

/// A snapshot of one node's counts.
#[derive(Clone, Debug)]
pub(crate) struct NodeTotals {
    pub(crate) node: String,
    /// Finished rules, in the order of [`NODE_OUTCOMES`].
    pub(crate) outcomes: [u64; NODE_OUTCOMES.len()],
    /// Total time of all rules.
    pub(crate) sum: Duration,
}

/// Registry of all workflows' counts, by name.
#[derive(Debug, Default)]
pub(crate) struct WorkflowMetrics {
    workflows: RwLock<BTreeMap<String, Arc<WorkflowCounts>>>,
}

impl WorkflowMetrics {
    /// The counts of a workflow, created if there are none.
    pub(crate) fn of(&self, name: &str) -> Arc<WorkflowCounts> {
        if let Some(counts) = self.workflows.read().get(name) {
            return counts.clone();
        }
        self.workflows.write().entry(name.to_owned()).or_default().clone()
    }

    /// Drops all counts.
    pub(crate) fn clear(&self) {
        self.workflows.write().clear();
    }

    /// The counts of all workflows, by name.
    pub(crate) fn read(&self) -> Vec<(String, WorkflowTotals)> {
        let workflows = self.workflows.read();
        workflows
            .iter()
            .map(|(name, counts)| (name.clone(), counts.read()))
            .collect()
    }
}
