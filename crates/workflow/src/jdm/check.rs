//! Checks a document, names everything that is wrong with it, and compiles it into a decision that can be evaluated.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    document::{Document, Kind, Mode, Transform},
    error::Problem,
    expression::Expressions,
    program::{Compiler, Program},
    switch::Switch,
    table::{CellError, Table},
    template::Config,
    value::Path,
};
use crate::{Schema, object::shortened};

/// A checked and compiled document. Can be shared between threads.
#[derive(Clone, Debug)]
pub struct Decision {
    pub(super) nodes: Box<[Checked]>,
    pub(super) edges: Box<[Way]>,
    /// Index of the input node.
    pub(super) input: usize,
    /// Whether any expression or function may read `$nodes`.
    pub(super) sees_nodes: bool,
    warnings: Box<[Problem]>,
}

impl Decision {
    /// Warnings of parts that work otherwise than their author may expect.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

/// A node of a checked document.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) id: Box<str>,
    pub(super) name: Box<str>,
    pub(super) work: Task,
    /// Incoming edges, in reverse order of the document.
    pub(super) before: Box<[usize]>,
    /// Outgoing edges, in reverse order of the document.
    pub(super) after: Box<[usize]>,
}

/// The compiled work of a node.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Input(Option<Schema>),
    Output(Option<Schema>),
    Table(Table, Turn),
    Expressions(Expressions, Turn),
    Switch(Switch),
    Function { source: Box<str>, version: u8 },
    Decision(Box<str>, Turn),
    Custom { kind: Box<str>, config: Config },
}

/// The compiled form of [`Transform`].
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) input: Option<Program>,
    pub(super) output: Option<Path>,
    pub(super) mode: Mode,
    pub(super) passes_through: bool,
}

/// An edge; its ends are indexes of nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) from: usize,
    pub(super) to: usize,
    /// For an edge from a switch: index of the statement that must be true.
    pub(super) statement: usize,
}

/// Checks and compiles a document, or returns every problem found. `knows` says whether a decision with a key exists.
pub fn check(document: &Document, knows: impl Fn(&str) -> bool) -> Result<Decision, Vec<Problem>> {
    let mut checker = Checker {
        document,
        problems: Vec::new(),
        warnings: Vec::new(),
        compiler: Compiler::new(),
        sees_nodes: false,
    };
    let input = checker.input();
    let edges = checker.edges();
    checker.check_cycles(&edges);
    let tasks: Vec<_> = (0..document.nodes.len())
        .map(|node| checker.task(node, &knows))
        .collect();
    let Some(input) = input.filter(|_| checker.problems.is_empty()) else {
        return Err(checker.problems);
    };
    let ends_of = |node: usize, end: fn(&Way) -> usize| {
        let ends = edges.iter().enumerate().rev();
        ends.filter(|(_, edge)| end(edge) == node)
            .map(|(at, _)| at)
            .collect::<Box<[_]>>()
    };
    let nodes = document.nodes.iter().enumerate().zip(tasks);
    Ok(Decision {
        nodes: nodes
            .filter_map(|((at, node), task)| {
                Some(Checked {
                    id: node.id.as_str().into(),
                    name: node.name.as_str().into(),
                    work: task?,
                    before: ends_of(at, |edge| edge.to),
                    after: ends_of(at, |edge| edge.from),
                })
            })
            .collect(),
        edges: edges.into(),
        input,
        sees_nodes: checker.sees_nodes,
        warnings: checker.warnings.into(),
    })
}

struct Checker<'d> {
    document: &'d Document,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    compiler: Compiler,
    sees_nodes: bool,
}

impl Checker<'_> {
    fn id(&self, node: usize) -> String {
        self.document.nodes[node].id.clone()
    }

    fn input(&mut self) -> Option<usize> {
        let nodes = self.document.nodes.iter().enumerate();
        let mut inputs = nodes.filter(|(_, node)| matches!(node.kind, Kind::Input { .. }));
        let Some((input, _)) = inputs.next() else {
            self.problems.push(Problem::NoInput);
            return None;
        };
        for (_, node) in inputs {
            let node = node.id.clone();
            self.problems.push(Problem::SecondInput { node });
        }
        Some(input)
    }

    /// Resolves the edges whose ends exist.
    fn edges(&mut self) -> Vec<Way> {
        let document = self.document;
        let mut places = HashMap::with_capacity(document.nodes.len());
        for (at, node) in document.nodes.iter().enumerate() {
            if places.insert(&*node.id, at).is_some() {
                let node = node.id.clone();
                self.problems.push(Problem::Twice { node });
            }
        }
        let mut edges = Vec::with_capacity(document.edges.len());
        for edge in &document.edges {
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
            let mut statement = 0;
            if let Kind::Switch { statements, .. } = &document.nodes[from].kind {
                let ends = || (edge.from.clone(), edge.to.clone());
                let Some(named) = &edge.statement else {
                    let (from, to) = ends();
                    self.problems.push(Problem::NoStatement { from, to });
                    continue;
                };
                match statements.iter().position(|statement| statement.id == *named) {
                    Some(place) => statement = place,
                    None => {
                        let (from, to) = ends();
                        let statement = named.clone();
                        self.problems
                            .push(Problem::NoSuchStatement { from, to, statement });
                        continue;
                    }
                }
            }
            edges.push(Way { from, to, statement });
        }
        edges
    }

    /// Removes nodes without predecessors repeatedly. The nodes that remain are in a cycle or behind one.
    fn check_cycles(&mut self, edges: &[Way]) {
        let count = self.document.nodes.len();
        let mut waits_for = vec![0_usize; count];
        let mut after = vec![Vec::new(); count];
        for edge in edges {
            waits_for[edge.to] += 1;
            after[edge.from].push(edge.to);
        }
        let mut free: Vec<_> = (0..count).filter(|&node| waits_for[node] == 0).collect();
        while let Some(node) = free.pop() {
            for &next in &after[node] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    free.push(next);
                }
            }
        }
        let mut is_told = vec![false; count];
        for node in 0..count {
            if waits_for[node] == 0 || is_told[node] {
                continue;
            }
            // Each remaining node has a remaining predecessor, so walking backwards must arrive at a node seen before.
            let mut seen = vec![node];
            let ring = loop {
                let last = seen[seen.len() - 1];
                is_told[last] = true;
                let stays = |edge: &&Way| edge.to == last && waits_for[edge.from] > 0;
                let Some(edge) = edges.iter().find(stays) else {
                    break None;
                };
                if let Some(start) = seen.iter().position(|&seen| seen == edge.from) {
                    break Some(start);
                }
                if is_told[edge.from] {
                    break None;
                }
                seen.push(edge.from);
            };
            if let Some(start) = ring {
                let ring = &seen[start..];
                let way: Vec<_> = ring
                    .iter()
                    .chain(ring.first())
                    .rev()
                    .map(|&at| self.id(at))
                    .collect();
                let node = way[0].clone();
                let way = way.join(" -> ");
                self.problems.push(Problem::Cycle { node, way });
            }
        }
    }

    fn see<'p>(&mut self, mut programs: impl Iterator<Item = &'p Program>) {
        self.sees_nodes |= programs.any(|program| program.sees_nodes);
    }

    fn fail(&mut self, node: usize, cells: Vec<CellError>) {
        let id = self.id(node);
        let problems = cells
            .into_iter()
            .map(|cell| Problem::Expression(id.clone(), cell));
        self.problems.extend(problems);
    }

    fn warn(&mut self, node: usize, cells: Vec<CellError>, kind: fn(String, CellError) -> Problem) {
        let id = self.id(node);
        let warnings = cells.into_iter().map(|cell| kind(id.clone(), cell));
        self.warnings.extend(warnings);
    }

    /// Compiles the work of a node. `None` if that fails.
    fn task(&mut self, node: usize, knows: &impl Fn(&str) -> bool) -> Option<Task> {
        let document = self.document;
        Some(match &document.nodes[node].kind {
            Kind::Input { schema } => Task::Input(self.schema(node, schema.as_ref())?),
            Kind::Output { schema } => Task::Output(self.schema(node, schema.as_ref())?),
            Kind::Table(rows, transform) => {
                let turn = self.turn(node, transform);
                let mut warnings = Vec::new();
                let table = Table::compile_with(rows, &mut self.compiler, &mut warnings);
                self.warn(node, warnings, Problem::Unparsable);
                let table = table.map_err(|flaws| self.fail(node, flaws)).ok()?;
                self.see(table.programs());
                Task::Table(table, turn?)
            }
            Kind::Expressions(list, transform) => {
                let turn = self.turn(node, transform);
                let expressions = Expressions::compile(list, &mut self.compiler);
                let expressions = expressions.map_err(|flaws| self.fail(node, flaws)).ok()?;
                self.see(expressions.programs());
                Task::Expressions(expressions, turn?)
            }
            Kind::Switch { collects, statements } => {
                let mut ids = HashSet::new();
                for statement in statements {
                    if !ids.insert(&*statement.id) {
                        self.problems.push(Problem::SameStatement {
                            node: self.id(node),
                            statement: statement.id.clone(),
                        });
                    }
                }
                let mut warnings = Vec::new();
                let switch = Switch::compile(*collects, statements, &mut self.compiler, &mut warnings);
                self.warn(node, warnings, Problem::Unparsable);
                let switch = switch.map_err(|flaws| self.fail(node, flaws)).ok()?;
                self.see(switch.programs());
                Task::Switch(switch)
            }
            Kind::Function { source, version } => {
                self.sees_nodes |= source.contains("$nodes");
                Task::Function {
                    source: source.as_str().into(),
                    version: *version,
                }
            }
            Kind::Decision { key, transform } => {
                self.sees_nodes = true;
                if !knows(key) {
                    let (node, key) = (self.id(node), key.clone());
                    self.problems.push(Problem::NoSuchDecision { node, key });
                }
                Task::Decision(key.as_str().into(), self.turn(node, transform)?)
            }
            Kind::Custom { kind, config } => {
                self.sees_nodes = true;
                let mut warnings = Vec::new();
                let config = Config::compile(config, "config", &mut self.compiler, &mut warnings);
                self.warn(node, warnings, Problem::NoTemplate);
                Task::Custom {
                    kind: kind.as_str().into(),
                    config,
                }
            }
        })
    }

    fn turn(&mut self, node: usize, transform: &Transform) -> Option<Turn> {
        let flaw = |place: &str, text: &str, reason| {
            vec![CellError {
                place: place.to_owned(),
                text: shortened(text),
                reason,
            }]
        };
        let input = match &transform.input {
            None => None,
            Some(text) => {
                let program = self.compiler.standard(text);
                let program =
                    program.map_err(|error| self.fail(node, flaw("inputField", text, error.to_string())));
                Some(program.ok()?)
            }
        };
        let output = match &transform.output {
            None => None,
            Some(path) => {
                let path = Path::of(path).map_err(|reason| self.fail(node, flaw("outputPath", path, reason)));
                Some(path.ok()?)
            }
        };
        self.see(input.iter());
        Some(Turn {
            input,
            output,
            mode: transform.mode,
            passes_through: transform.passes_through,
        })
    }

    #[expect(clippy::option_option, reason = "wrong, none, or one")]
    fn schema(&mut self, node: usize, schema: Option<&Value>) -> Option<Option<Schema>> {
        let Some(schema) = schema else {
            return Some(None);
        };
        match Schema::of(schema) {
            Ok(schema) => Some(Some(schema)),
            Err(reason) => {
                self.problems.push(Problem::Schema {
                    node: self.id(node),
                    reason,
                });
                None
            }
        }
    }
}
