//! The way of a run through the nodes: which one is next, what it is given, and which ways switches have cut.

use std::rc::Rc;

use zen_expression::{
    Variable,
    variable::{RcCell, Symbol, VariableMap},
};

use super::{
    check::{Decision, Task},
    value::{NODES, copied, merged},
};

/// The way of a run through the nodes, and what they have come to.
pub(super) struct Course<'d> {
    decision: &'d Decision,
    /// What is to be come to, the next last.
    waiting: Vec<usize>,
    is_passed: Vec<bool>,
    pub(super) results: Vec<Option<Variable>>,
    /// Whether a switch has decided.
    pub(super) is_decided: Vec<bool>,
    /// Edges that are not gone any more.
    is_cut: Vec<bool>,
    /// What nodes have come to, by their names, if anything may ask for that.
    nodes: Option<RcCell<VariableMap>>,
    nodes_value: Option<Variable>,
}

impl<'d> Course<'d> {
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

    /// The next node all of whose predecessors have been passed.
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

    /// Goes on with what comes after a node.
    pub(super) fn go_on(&mut self, node: usize) {
        let edges = self.decision.nodes[node].after.iter();
        let edges = edges.filter(|&&edge| !self.is_cut[edge]);
        self.waiting
            .extend(edges.map(|&edge| self.decision.edges[edge].to));
    }

    /// What a node is given: what those before it have come to, together.
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
            // What was made of the nodes before must not become a part of itself. One holder is this, one what expressions are given.
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

    /// Cuts the ways that a switch does not go, and with them all that only they lead to, or that leads nowhere but to them. If there are any, the run goes its way again from the beginning, past all that has been done.
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

    /// What the nodes that nothing comes after have come to, together.
    pub(super) fn result(&self) -> Variable {
        let nodes = self.decision.nodes.iter().enumerate();
        let ends = nodes.filter(|(at, node)| node.after.is_empty() && self.is_passed[*at]);
        let results = ends.filter_map(|(at, _)| self.results[at].as_ref());
        results.fold(Variable::empty_object(), merged)
    }
}
