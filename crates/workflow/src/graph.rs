//! Graphs that were checked: trees, whose nodes know what comes after them.

use std::{collections::HashMap, time::Duration};

use crate::{
    Compat,
    definition::{Fallback, Join, Logical},
};

/// A graph that can be run.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) nodes: Vec<Checked>,
    /// Where a run begins: what BOOT goes on with.
    pub(crate) first: usize,
    pub(crate) compat: Compat,
}

/// A node of a graph that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) id: String,
    pub(crate) kind: &'static str,
    pub(crate) timeout: Option<Duration>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) work: Work,
}

/// What a node does, and with which others, by their places in [`Graph::nodes`].
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Runs a rule, and goes on where that is true.
    Rule { rule: String, next: Option<usize> },
    /// Goes on; runs a rule where that fails.
    Failback { rule: String, next: usize },
    /// Has its children decide, in this order.
    Logical { logical: Logical, children: Vec<usize> },
    /// Runs a rule, and goes on with what stands for the case that it names.
    Switch {
        rule: String,
        cases: HashMap<String, usize>,
        otherwise: Option<usize>,
    },
    /// Runs its children at the same time.
    Parallel { join: Join, children: Vec<usize> },
    /// Goes on once for each item of a list.
    Loop { over: String, next: usize },
    /// Runs another graph, and goes on where that is true.
    Subflow { workflow: String, next: Option<usize> },
    /// Waits, and goes on.
    Delay { time: Duration, next: usize },
    /// Goes on, so often at most.
    Retry {
        attempts: u32,
        pause: Duration,
        next: usize,
    },
}

impl Graph {
    /// How many nodes a run may come to, BOOT not counted.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: a graph has a node after BOOT.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The rules that its nodes name, each as often as it is named.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match &node.work {
            Work::Rule { rule, .. } | Work::Failback { rule, .. } | Work::Switch { rule, .. } => {
                Some(&**rule)
            }
            _ => None,
        })
    }

    /// The graphs that it runs, each as often as it is named.
    pub fn workflows(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match &node.work {
            Work::Subflow { workflow, .. } => Some(&**workflow),
            _ => None,
        })
    }
}
