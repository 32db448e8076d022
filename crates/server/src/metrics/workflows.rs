//! Counts of workflows. A workflow that keeps its name continues its counts after a reload.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use forebay_pg::{Durations, Histogram};
use forebay_workflow::{RunCounts, RunOutcome};
use parking_lot::RwLock;

/// Outcomes of runs.
pub(crate) const RUN_OUTCOMES: [&str; 6] = ["true", "false", "failed", "late", "refused", "gone"];
/// Outcomes of rules at nodes.
pub(crate) const NODE_OUTCOMES: [&str; 3] = ["true", "false", "failed"];
/// Most nodes counted separately within a workflow.
const NODES_MAX: usize = 1000;
/// The name under which all further nodes are counted.
const OTHER_NODES: &str = "(other)";

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

impl RunCounts for WorkflowCounts {
    fn begins(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    fn ends(&self, outcome: RunOutcome, took: Duration) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let index = match outcome {
            RunOutcome::True => 0,
            RunOutcome::False => 1,
            RunOutcome::Failed => 2,
            RunOutcome::Late => 3,
            RunOutcome::Refused => 4,
            RunOutcome::Gone => 5,
        };
        self.outcomes[index].fetch_add(1, Ordering::Relaxed);
        if outcome != RunOutcome::Refused {
            self.durations.record(took, 1);
        }
    }

    fn node(&self, node: &str, is_true: Option<bool>, took: Duration) {
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
}

impl WorkflowCounts {
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
