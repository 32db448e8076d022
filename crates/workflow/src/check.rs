//! Checks a definition and builds a graph from it: every path starts at BOOT, and each node is reached by one path only.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Compat, Definition, Graph, Kind, Logical, Problem,
    graph::{Checked, Work},
};

/// Maximum distance of a node from BOOT. A run keeps every node on its path in memory.
const DEPTH_MAX: usize = 200;

/// Checks a definition and returns the graph, or every problem found. `knows` says whether a rule of a name exists.
pub fn check(
    definition: &Definition,
    compat: Compat,
    knows: impl Fn(&str) -> bool,
) -> Result<Graph, Vec<Problem>> {
    let mut checker = Checker::new(definition, compat);
    let boot = checker.boot();
    checker.connect(boot);
    if let Some(boot) = boot {
        checker.reach(boot);
    }
    checker.check_nodes(&knows);
    match (boot, checker.problems.is_empty()) {
        (Some(boot), true) => Ok(checker.graph(boot)),
        _ => Err(checker.problems),
    }
}

struct Checker<'d> {
    definition: &'d Definition,
    compat: Compat,
    problems: Vec<Problem>,
    /// Successors of each node in edge order; `check_children` sorts them by priority.
    after: Vec<Vec<usize>>,
    /// The parent of each node: the source of the first edge that leads to it.
    before: Vec<Option<usize>>,
    is_reached: Vec<bool>,
    /// The SWITCH case on the edge into each node.
    cases: Vec<Option<&'d str>>,
}

impl<'d> Checker<'d> {
    fn new(definition: &'d Definition, compat: Compat) -> Self {
        let count = definition.nodes.len();
        Self {
            definition,
            compat,
            problems: Vec::new(),
            after: vec![Vec::new(); count],
            before: vec![None; count],
            is_reached: vec![false; count],
            cases: vec![None; count],
        }
    }

    fn id(&self, node: usize) -> String {
        self.definition.nodes[node].id.clone()
    }

    fn kind(&self, node: usize) -> &'d Kind {
        &self.definition.nodes[node].kind
    }

    fn is_ours(&self) -> bool {
        self.compat == Compat::None
    }

    fn boot(&mut self) -> Option<usize> {
        let nodes = self.definition.nodes.iter().enumerate();
        let mut boots = nodes
            .filter(|(_, node)| node.kind == Kind::Boot)
            .map(|(at, _)| at);
        let boot = boots.next();
        let others: Vec<_> = boots.collect();
        for node in others {
            let node = self.id(node);
            self.problems.push(Problem::SecondBoot { node });
        }
        if boot.is_none() {
            self.problems.push(Problem::NoBoot);
        }
        boot
    }

    /// Resolves the edges and records parents and successors. Edges that break a rule are skipped.
    fn connect(&mut self, boot: Option<usize>) {
        let mut places = HashMap::with_capacity(self.definition.nodes.len());
        for (at, node) in self.definition.nodes.iter().enumerate() {
            if places.insert(&*node.id, at).is_some() {
                let node = node.id.clone();
                self.problems.push(Problem::Twice { node });
            }
        }
        for edge in &self.definition.edges {
            let (from, to) = match (places.get(&*edge.from), places.get(&*edge.to)) {
                (Some(&from), Some(&to)) => (from, to),
                (from, _) => {
                    let missing = if from.is_none() { &edge.from } else { &edge.to };
                    self.problems.push(Problem::NoSuchNode {
                        from: edge.from.clone(),
                        to: edge.to.clone(),
                        missing: missing.clone(),
                    });
                    continue;
                }
            };
            if Some(to) == boot {
                if self.is_ours() {
                    let (from, boot) = (self.id(from), self.id(to));
                    self.problems.push(Problem::BeforeBoot { from, boot });
                }
                continue;
            }
            if let Some(first) = self.before[to] {
                if self.is_ours() {
                    self.problems.push(Problem::SeveralParents {
                        node: self.id(to),
                        first: self.id(first),
                        second: self.id(from),
                    });
                }
                continue;
            }
            if let Some(case) = &edge.case
                && !matches!(self.kind(from), Kind::Switch { .. })
            {
                self.problems.push(Problem::CaseWithoutSwitch {
                    from: self.id(from),
                    to: self.id(to),
                    kind: self.kind(from).name(),
                    case: case.clone(),
                });
            }
            self.cases[to] = edge.case.as_deref();
            self.before[to] = Some(from);
            self.after[from].push(to);
        }
    }

    /// Follows every path from BOOT. A node has one parent, so a path can only loop back to its own start. A node that is not reached is
    /// part of a cycle or descends from a node without a parent.
    fn reach(&mut self, boot: usize) {
        let mut ways = vec![(boot, 0)];
        while let Some((node, depth)) = ways.pop() {
            if self.is_reached[node] {
                continue;
            }
            self.is_reached[node] = true;
            if depth > DEPTH_MAX {
                let (node, max) = (self.id(node), DEPTH_MAX);
                self.problems.push(Problem::TooDeep { node, max });
                continue;
            }
            self.choose_successor(node);
            ways.extend(self.after[node].iter().map(|&next| (next, depth + 1)));
        }
        if !self.is_ours() {
            return;
        }
        let mut is_told = vec![false; self.before.len()];
        for node in 0..self.before.len() {
            if self.is_reached[node] || is_told[node] {
                continue;
            }
            // Walk back to the root of this path, or once around its cycle.
            let mut seen = vec![node];
            while let Some(before) = self.before[seen[seen.len() - 1]] {
                if seen.contains(&before) || is_told[before] {
                    break;
                }
                seen.push(before);
            }
            let last = seen[seen.len() - 1];
            match self.before[last] {
                Some(before) if seen.contains(&before) => self.tell_ring(before),
                Some(_) => {}
                None => {
                    let node = self.id(last);
                    self.problems.push(Problem::Orphan { node });
                }
            }
            for node in seen {
                is_told[node] = true;
            }
        }
    }

    /// In Rengine, the last successor of a node that can have only one replaces the earlier ones.
    fn choose_successor(&mut self, node: usize) {
        let has_several = matches!(
            self.kind(node),
            Kind::Logical(_) | Kind::Switch { .. } | Kind::Parallel(_)
        );
        if !self.is_ours() && !has_several {
            let last = self.after[node].pop();
            self.after[node].clear();
            self.after[node].extend(last);
        }
    }

    /// Reports the cycle that contains a node.
    fn tell_ring(&mut self, node: usize) {
        let mut way = vec![self.id(node)];
        let mut before = self.before[node];
        while let Some(at) = before {
            way.push(self.id(at));
            if at == node {
                break;
            }
            before = self.before[at];
        }
        way.reverse();
        let (node, way) = (self.id(node), way.join(" -> "));
        self.problems.push(Problem::Cycle { node, way });
    }

    fn check_nodes(&mut self, knows: &impl Fn(&str) -> bool) {
        for node in 0..self.definition.nodes.len() {
            if !self.is_ours() && !self.is_reached[node] {
                continue;
            }
            let kind = self.kind(node);
            if let Some(rule) = kind.rule()
                && !knows(rule)
            {
                let (node, rule) = (self.id(node), rule.to_owned());
                self.problems.push(Problem::NoSuchRule { node, rule });
            }
            match kind {
                Kind::Logical(logical) => self.check_children(node, *logical),
                Kind::Run { .. } => {
                    if self.is_ours()
                        && let Some(&next) = self.after[node].first()
                    {
                        let (node, next) = (self.id(node), self.id(next));
                        self.problems.push(Problem::BehindRun { node, next });
                    }
                }
                Kind::Loop { over } => {
                    self.check_successor(node, true);
                    self.check_list(node, over);
                }
                Kind::Boot | Kind::Failback { .. } | Kind::Delay { .. } | Kind::Retry { .. } => {
                    self.check_successor(node, true);
                }
                Kind::Process { .. }
                | Kind::Relation { .. }
                | Kind::BuiltinTask { .. }
                | Kind::Subflow { .. } => {
                    self.check_successor(node, false);
                }
                Kind::Parallel(_) => self.check_any(node),
                Kind::Switch { .. } => self.check_cases(node),
            }
        }
    }

    /// Requires a successor.
    fn check_any(&mut self, node: usize) {
        if self.after[node].is_empty() {
            let (node, kind) = (self.id(node), self.kind(node).name());
            self.problems.push(Problem::NoSuccessor { node, kind });
        }
    }

    /// Requires that each case, and the default, has one successor.
    fn check_cases(&mut self, node: usize) {
        self.check_any(node);
        let mut ways: HashMap<Option<&str>, usize> = HashMap::new();
        for next in self.after[node].clone() {
            let case = self.cases[next];
            if let Some(first) = ways.insert(case, next) {
                self.problems.push(Problem::SameCase {
                    node: self.id(node),
                    case: case.map_or_else(
                        || "all other cases".to_owned(),
                        |case| format!("the case `{case}`"),
                    ),
                    first: self.id(first),
                    second: self.id(next),
                });
            }
        }
    }

    /// Requires that something gives the list of a LOOP.
    fn check_list(&mut self, node: usize, over: &str) {
        let mut before = Vec::new();
        let mut at = self.before[node];
        while let Some(parent) = at.filter(|parent| !before.contains(parent)) {
            before.push(parent);
            at = self.before[parent];
        }
        let is_given = match over.split('.').next() {
            Some("args") => true,
            Some("item") => before
                .iter()
                .any(|&node| matches!(self.kind(node), Kind::Loop { .. })),
            // Siblings that run earlier give a result, too.
            Some("last") => before.iter().any(|&node| {
                let kind = self.kind(node);
                kind.rule().is_some() || matches!(kind, Kind::Subflow { .. } | Kind::Logical(_))
            }),
            _ => false,
        };
        if !is_given {
            let (node, over) = (self.id(node), over.to_owned());
            self.problems.push(Problem::NoList { node, over });
        }
    }

    fn check_successor(&mut self, node: usize, is_needed: bool) {
        if is_needed {
            self.check_any(node);
        }
        let kind = self.kind(node).name();
        if let [first, second, ..] = *self.after[node] {
            self.problems.push(Problem::SeveralSuccessors {
                node: self.id(node),
                kind,
                first: self.id(first),
                second: self.id(second),
            });
        }
    }

    /// Sorts children by priority.
    fn check_children(&mut self, node: usize, logical: Logical) {
        self.check_any(node);
        let mut children = std::mem::take(&mut self.after[node]);
        let count = children.len();
        if count > 1 {
            if logical == Logical::Not {
                let node = self.id(node);
                self.problems.push(Problem::SeveralNegated { node, count });
            }
            let priority = |child: usize| self.definition.nodes[child].priority;
            for &child in children.iter().filter(|&&child| priority(child).is_none()) {
                let (node, parent) = (self.id(child), self.id(node));
                self.problems.push(Problem::NoPriority { node, parent });
            }
            children.sort_by_key(|&child| priority(child));
            for pair in children.windows(2) {
                if self.is_ours()
                    && let Some(same) = priority(pair[0])
                    && priority(pair[1]) == Some(same)
                {
                    self.problems.push(Problem::SamePriority {
                        parent: self.id(node),
                        first: self.id(pair[0]),
                        second: self.id(pair[1]),
                        priority: same,
                    });
                }
            }
        }
        self.after[node] = children;
    }

    /// Builds the graph of the reachable nodes. Call it only when the check found no problem.
    fn graph(self, boot: usize) -> Graph {
        let mut places = vec![0; self.definition.nodes.len()];
        let mut kept = 0;
        for (node, place) in places.iter_mut().enumerate() {
            *place = kept;
            kept += usize::from(self.is_reached[node] && node != boot);
        }
        let next_of = |node: usize| self.after[node].first().map(|&next| places[next]);
        // The check has made sure that a required successor exists.
        let needed = |node: usize| next_of(node).unwrap_or_default();
        let all_of = |node: usize| self.after[node].iter().map(|&child| places[child]).collect();
        let first = needed(boot);
        let reached = (0..places.len()).filter(|&node| self.is_reached[node] && node != boot);
        let nodes = reached.map(|node| {
            let work = match self.kind(node) {
                Kind::Process { rule } | Kind::Relation { rule } | Kind::BuiltinTask { rule, .. } => {
                    Work::Rule {
                        rule: rule.clone(),
                        next: next_of(node),
                    }
                }
                Kind::Run { rule } => Work::Rule {
                    rule: rule.clone(),
                    next: None,
                },
                Kind::Failback { rule } => Work::Failback {
                    rule: rule.clone(),
                    next: needed(node),
                },
                Kind::Logical(logical) => Work::Logical {
                    logical: *logical,
                    children: all_of(node),
                },
                Kind::Switch { rule } => {
                    let ways = || {
                        self.after[node]
                            .iter()
                            .map(|&next| (self.cases[next], places[next]))
                    };
                    Work::Switch {
                        rule: rule.clone(),
                        cases: ways()
                            .filter_map(|(case, next)| Some((case?.to_owned(), next)))
                            .collect(),
                        otherwise: ways().find(|(case, _)| case.is_none()).map(|(_, next)| next),
                    }
                }
                Kind::Parallel(join) => Work::Parallel {
                    join: *join,
                    children: all_of(node),
                },
                Kind::Loop { over } => Work::Loop {
                    over: over.clone(),
                    next: needed(node),
                },
                Kind::Subflow { workflow } => Work::Subflow {
                    workflow: workflow.clone(),
                    next: next_of(node),
                },
                Kind::Delay { time } => Work::Delay {
                    time: *time,
                    next: needed(node),
                },
                Kind::Retry { attempts, pause } => Work::Retry {
                    attempts: *attempts,
                    pause: *pause,
                    next: needed(node),
                },
                Kind::Boot => unreachable!("a graph has one BOOT"),
            };
            Checked {
                id: self.id(node),
                name: self.definition.nodes[node].name.as_deref().map(Arc::from),
                kind: self.kind(node).name(),
                timeout: self.definition.nodes[node].timeout,
                fallback: self.definition.nodes[node].fallback.clone(),
                work,
            }
        });
        Graph {
            nodes: nodes.collect(),
            first,
            compat: self.compat,
        }
    }
}
