//! Checked graphs: trees in which each node knows its successors.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    Compat,
    definition::{Fallback, Join, Logical},
};

/// A checked graph, ready to run.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) nodes: Vec<Checked>,
    /// Index of the node after BOOT, where a run begins.
    pub(crate) first: usize,
    pub(crate) compat: Compat,
}

/// A node of a checked graph.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) id: String,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) kind: &'static str,
    pub(crate) timeout: Option<Duration>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) work: Work,
}

/// The work of a node. Other nodes are given as indexes into [`Graph::nodes`].
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Runs a rule, and continues if the rule is true.
    Rule { rule: String, next: Option<usize> },
    /// Runs the nodes after it; if they fail, runs a rule instead.
    Failback { rule: String, next: usize },
    /// Combines the results of its children, which run in this order.
    Logical { logical: Logical, children: Vec<usize> },
    /// Runs a rule, and continues with the node for the case that it names.
    Switch {
        rule: String,
        cases: HashMap<String, usize>,
        otherwise: Option<usize>,
    },
    /// Runs its children concurrently.
    Parallel { join: Join, children: Vec<usize> },
    /// Runs the nodes after it once for each item of a list.
    Loop { over: String, next: usize },
    /// Runs another graph, and continues if its outcome is true.
    Subflow { workflow: String, next: Option<usize> },
    /// Waits, then continues.
    Delay { time: Duration, next: usize },
    /// Runs the nodes after it, up to `attempts` times, until they succeed.
    Retry {
        attempts: u32,
        pause: Duration,
        next: usize,
    },
}

impl Graph {
    /// The number of nodes that a run can reach, BOOT excluded.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always false: BOOT has a successor.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The rules that the nodes name. A rule that several nodes name appears several times.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match &node.work {
            Work::Rule { rule, .. } | Work::Failback { rule, .. } | Work::Switch { rule, .. } => {
                Some(&**rule)
            }
            _ => None,
        })
    }

    /// The graphs that SUBFLOW nodes name. A graph that several nodes name appears several times.
    pub fn workflows(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match &node.work {
            Work::Subflow { workflow, .. } => Some(&**workflow),
            _ => None,
        })
    }
}
