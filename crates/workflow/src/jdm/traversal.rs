//! Traversal of a decision graph: which node is next, its input, and which edges switches have cut.

use std::rc::Rc;

use zen_expression::{
    Variable,
    variable::{RcCell, Symbol, VariableMap},
};

use super::{
    check::{Decision, Task},
    value::{NODES, copied, merged},
};

/// The state of a traversal, with the results so far.
pub(super) struct Traversal<'d> {
    decision: &'d Decision,
    /// Stack of nodes to visit; the next is last.
    waiting: Vec<usize>,
    is_passed: Vec<bool>,
    pub(super) results: Vec<Option<Variable>>,
    /// For each node, whether it is a switch that has decided.
    pub(super) is_decided: Vec<bool>,
    /// For each edge, whether a switch has cut it.
    is_cut: Vec<bool>,
    /// Results by node name (`$nodes`), if anything may read them.
    nodes: Option<RcCell<VariableMap>>,
    nodes_value: Option<Variable>,
}

impl<'d> Traversal<'d> {
    pub(super) fn new(decision: &'d Decision) -> Self {
        let count = decision.nodes.len();
        let nodes = decision.sees_nodes.then(RcCell::<VariableMap>::default);
        Self {
            decision,
            waiting: vec![decision.input],
            is_passed: vec![false; count],
            results: vec![None; count],
            is_decided: vec![false; count],
            is_cut: vec![false; decision.edges.len()],
            nodes_value: nodes.clone().map(Variable::Object),
            nodes,
        }
    }

    fn before(&self, node: usize) -> impl Iterator<Item = usize> {
        let edges = self.decision.nodes[node].before.iter();
        let edges = edges.filter(|&&edge| !self.is_cut[edge]);
        edges.map(|&edge| self.decision.edges[edge].from)
    }

    pub(super) fn nodes(&self) -> Option<&Variable> {
        self.nodes_value.as_ref()
    }

    /// Returns the next node whose predecessors have all been passed.
    pub(super) fn next(&mut self) -> Option<usize> {
        while let Some(node) = self.waiting.pop() {
            if self.is_passed[node] {
                continue;
            }
            let before: Vec<_> = self
                .before(node)
                .filter(|&before| !self.is_passed[before])
                .collect();
            if before.is_empty() {
                self.is_passed[node] = true;
                return Some(node);
            }
            self.waiting.push(node);
            self.waiting.extend(before);
        }
        None
    }

    /// Schedules the successors of a node.
    pub(super) fn advance(&mut self, node: usize) {
        let edges = self.decision.nodes[node].after.iter();
        let edges = edges.filter(|&&edge| !self.is_cut[edge]);
        self.waiting
            .extend(edges.map(|&edge| self.decision.edges[edge].to));
    }

    /// Input of a node: the merged results of its predecessors.
    pub(super) fn given(&self, node: usize) -> Variable {
        let mut results = self
            .before(node)
            .filter_map(|before| self.results[before].as_ref());
        let first = match results.next() {
            Some(value @ (Variable::Object(_) | Variable::Array(_))) => value.clone(),
            _ => Variable::empty_object(),
        };
        results.fold(first, merged)
    }

    pub(super) fn come_to(&mut self, node: usize, value: Variable, around: Option<&Variable>) {
        if let Some(nodes) = &mut self.nodes {
            // A value that was derived from `$nodes` must not become a part of itself. Two references are expected: this one, and the one
            // that expressions read.
            if Rc::strong_count(nodes) > 2 {
                *nodes = copied(nodes);
                self.nodes_value = Some(Variable::Object(Rc::clone(nodes)));
            }
            let checked = &self.decision.nodes[node];
            let seen = match (&checked.work, around, &value) {
                (Task::Input(_), Some(around), Variable::Object(members)) => {
                    let members = copied(members);
                    members
                        .borrow_mut()
                        .insert(Symbol::from_static(NODES), around.clone());
                    Variable::Object(members)
                }
                _ => value.clone(),
            };
            nodes.borrow_mut().insert(Symbol::from(&*checked.name), seen);
        }
        self.results[node] = Some(value);
    }

    /// Cuts the edges that a switch does not take, and then every edge that is only reachable through them or leads only to them. `gone`
    /// says which statements' edges are taken. If anything was cut, returns true and restarts the traversal at the input; finished nodes
    /// keep their results.
    pub(super) fn decide(&mut self, switch: usize, gone: &[bool]) -> bool {
        self.is_decided[switch] = true;
        let decision = self.decision;
        let mut cut = decision.nodes[switch].after.to_vec();
        cut.retain(|&edge| !self.is_cut[edge] && !gone[decision.edges[edge].statement]);
        if cut.is_empty() {
            return false;
        }
        while let Some(edge) = cut.pop() {
            self.is_cut[edge] = true;
            let is_left = |edge: &&usize| !self.is_cut[**edge];
            let ends = decision.edges[edge];
            let (to, from) = (&decision.nodes[ends.to], &decision.nodes[ends.from]);
            if !to.before.iter().any(|edge| is_left(&edge)) {
                cut.extend(to.after.iter().filter(is_left));
            }
            if !from.after.iter().any(|edge| is_left(&edge)) {
                cut.extend(from.before.iter().filter(is_left));
            }
        }
        self.is_passed.fill(false);
        self.waiting.clear();
        self.waiting.push(decision.input);
        true
    }

    /// Result of the traversal: the merged results of all nodes without successors.
    pub(super) fn result(&self) -> Variable {
        let nodes = self.decision.nodes.iter().enumerate();
        let ends = nodes.filter(|(at, node)| node.after.is_empty() && self.is_passed[*at]);
        let results = ends.filter_map(|(at, _)| self.results[at].as_ref());
        results.fold(Variable::empty_object(), merged)
    }
}
