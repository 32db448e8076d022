//! A run: the input goes from node to node, in an order in which each comes after those that lead to it, until an output is reached.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use zen_expression::{
    Scope, Variable,
    variable::{RcCell, Symbol, VariableMap},
};

use super::{
    check::{Checked, Decision, Task, Turn},
    course::Course,
    document::Mode,
    error::{Cause, RunError},
    program::{Machine, Program},
    reader::shortened,
    value::{ITEMS_MAX, NODES, from_json, measure, merged, to_json},
};
use crate::{Mismatch, Schema};

/// Decisions that may be evaluated within one another.
pub const DEPTH_MAX: usize = 10;
/// Nodes that a run may come to, with those of all decisions in it and as often as loops come to them.
pub const RUNS_MAX: usize = 1_000_000;

/// Does for decisions what they cannot do themselves.
pub trait Functions {
    /// Why a function has failed.
    type Failure: fmt::Display;

    /// Calls a function. One that is dropped is not wanted any more.
    fn run(&self, call: FunctionCall<'_>) -> impl Future<Output = Result<Answer, Self::Failure>>;

    /// Another decision, by its key.
    fn decision(&self, key: &str) -> Option<Arc<Decision>>;

    /// When an expression may go over lists no longer; `None`: it always may.
    fn deadline(&self) -> Option<Instant>;
}

/// A function that is to be called.
#[derive(Clone, Debug)]
pub struct FunctionCall<'c> {
    /// The id of its node, behind those whose decisions it is in: `7/2`.
    pub node: &'c str,
    /// The name of its node.
    pub name: &'c str,
    /// What is to be done.
    pub work: Work<'c>,
    /// With what. As `$nodes` it has what all nodes before have come to, if the function may ask for that.
    pub input: Value,
    /// Whether the answer's trace is wanted.
    pub wants_trace: bool,
}

/// What a function does.
#[derive(Clone, Copy, Debug)]
pub enum Work<'c> {
    /// JavaScript.
    Source {
        /// Its text.
        source: &'c str,
        /// 1 where it has a function `main`, 2 where it exports `handler`.
        version: u8,
    },
    /// What the host knows how to do.
    Custom {
        /// Which of its kinds.
        kind: &'c str,
        /// What the kind has to know.
        config: &'c Value,
    },
}

/// What a function has come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// It.
    pub value: Value,
    /// What is to be shown of how it came about, such as what was logged.
    pub trace: Value,
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub struct Evaluation<F: fmt::Display> {
    /// How long it took.
    pub took: Duration,
    /// In the end.
    pub result: Result<Value, RunError<F>>,
    /// At each node, in their order, if that was asked for.
    pub trace: Option<Vec<Step>>,
}

/// What a node has come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it was given; null for the node that begins.
    pub input: Value,
    /// What it has come to; null for the node that ends, and for one that failed.
    pub output: Value,
    /// How long it took.
    pub took: Duration,
    /// How it came to that: the rows of a table that matched, the statements of a switch, the steps of a decision.
    pub trace: Value,
}

impl<F: fmt::Display> Evaluation<F> {
    /// As GoRules' engine and agent answer: `performance`, `result` and, if there is one, `trace` by the nodes' ids. Of a run that failed: `type`, `source`, `nodeId` and the trace.
    pub fn reply(&self) -> Value {
        let mut reply = match &self.result {
            Ok(result) => json!({"performance": performance(self.took), "result": result}),
            Err(error) => {
                json!({"type": "NodeError", "source": error.cause.to_string(), "nodeId": error.node})
            }
        };
        if let Some(trace) = &self.trace {
            reply["trace"] = trace_of(trace);
        }
        reply
    }
}

fn performance(took: Duration) -> String {
    format!("{took:.1?}")
}

fn trace_of(steps: &[Step]) -> Value {
    let steps = steps.iter().enumerate().map(|(order, step)| {
        let shown = json!({
            "id": step.id,
            "name": step.name,
            "input": step.input,
            "output": step.output,
            "performance": performance(step.took),
            "traceData": step.trace,
            "order": order,
        });
        (step.id.clone(), shown)
    });
    Value::Object(steps.collect())
}

impl Decision {
    /// Evaluates the decision. Whoever drops this ends the run at the function that is running; `wants_trace` has it remember what each node has come to.
    pub async fn evaluate<R: Functions>(
        &self,
        input: Value,
        functions: &R,
        wants_trace: bool,
    ) -> Evaluation<R::Failure> {
        let begun = Instant::now();
        let mut walk = Walk {
            functions,
            machine: Machine::new(functions.deadline()),
            runs: 0,
            wants_trace,
        };
        let mut trace = wants_trace.then(Vec::new);
        let result = match from_json(input) {
            Ok(input) => walk.walk(self, input, &Place::default(), &mut trace).await,
            Err(excess) => Err(RunError {
                node: self.nodes[self.input].id.to_string(),
                cause: Cause::TooMuch(excess),
            }),
        };
        Evaluation {
            result: result.map(|result| to_json(&result)),
            trace,
            took: begun.elapsed(),
        }
    }
}

/// Where a decision is evaluated.
#[derive(Default)]
struct Place {
    /// The nodes whose decisions it is in, each with a slash behind it.
    within: String,
    depth: usize,
    /// What the nodes around it have come to.
    nodes: Option<Variable>,
}

struct Walk<'w, R: Functions> {
    functions: &'w R,
    machine: Machine,
    runs: usize,
    wants_trace: bool,
}

/// What a node has come to, and how.
type Worked<F> = Result<(Variable, Value), Broken<F>>;

/// Why a node has come to nothing.
enum Broken<F: fmt::Display> {
    Here(Cause<F>),
    /// A node of its decision has failed; what the decision has come to until then.
    Within(RunError<F>, Value),
}

impl<F: fmt::Display> From<Cause<F>> for Broken<F> {
    fn from(cause: Cause<F>) -> Self {
        Self::Here(cause)
    }
}

impl<R: Functions> Walk<'_, R> {
    /// What a decision comes to.
    async fn walk(
        &mut self,
        decision: &Decision,
        input: Variable,
        place: &Place,
        trace: &mut Option<Vec<Step>>,
    ) -> Result<Variable, RunError<R::Failure>> {
        let mut course = Course::new(decision);
        while let Some(next) = course.next() {
            let node = &decision.nodes[next];
            let begun = self.wants_trace.then(Instant::now);
            if let Task::Switch(switch) = &node.work
                && !course.is_decided[next]
            {
                let given = course.given(next);
                let gone = switch.decide(&scope_of(&given, course.nodes()), &mut self.machine);
                if let Some((trace, begun)) = trace.as_mut().zip(begun) {
                    let given = to_json(&given);
                    let gone = switch.ids().zip(&gone).filter(|(_, is_gone)| **is_gone);
                    let statements: Vec<_> = gone.map(|(id, _)| json!({"id": id})).collect();
                    trace.push(Step {
                        output: given.clone(),
                        trace: json!({"statements": statements}),
                        ..step(node, given, begun.elapsed())
                    });
                }
                if course.decide(next, &gone) {
                    continue;
                }
            }
            course.go_on(next);
            if course.results[next].is_some() {
                continue;
            }
            let given = match node.work {
                Task::Input(_) => input.clone(),
                _ => course.given(next),
            };
            self.runs += 1;
            let worked = if self.runs > RUNS_MAX {
                Err(Cause::TooManyRuns.into())
            } else {
                self.work(node, given.clone(), course.nodes(), place).await
            };
            let worked = worked.and_then(|(value, shown)| {
                measure(&value).map_err(Cause::TooMuch)?;
                Ok((value, shown))
            });
            let (worked, shown) = match worked {
                Ok((value, shown)) => (Ok(value), shown),
                Err(Broken::Within(error, shown)) => (Err(error), shown),
                Err(Broken::Here(cause)) => {
                    let node = format!("{}{}", place.within, node.id);
                    (Err(RunError { node, cause }), Value::Null)
                }
            };
            if let Some((trace, begun)) = trace.as_mut().zip(begun)
                && !matches!(node.work, Task::Switch(_))
            {
                let given = match node.work {
                    Task::Input(_) => Value::Null,
                    _ => to_json(&given),
                };
                let mut step = step(node, given, begun.elapsed());
                step.trace = shown;
                if let Ok(value) = &worked
                    && !matches!(node.work, Task::Output(_))
                {
                    step.output = to_json(value);
                }
                trace.push(step);
            }
            course.come_to(next, worked?, place.nodes.as_ref());
            if matches!(node.work, Task::Output(_)) {
                break;
            }
        }
        Ok(course.result())
    }

    async fn work(
        &mut self,
        node: &Checked,
        given: Variable,
        nodes: Option<&Variable>,
        place: &Place,
    ) -> Worked<R::Failure> {
        let turn = match &node.work {
            Task::Input(schema) | Task::Output(schema) => {
                if let Some(schema) = schema {
                    validate(schema, &given)?;
                }
                return Ok((given, Value::Null));
            }
            Task::Switch(_) => return Ok((given, Value::Null)),
            Task::Function { source, version } => {
                let nodes = nodes.filter(|_| source.contains(NODES));
                let work = Work::Source {
                    source,
                    version: *version,
                };
                return self.call(node, work, &given, nodes, place).await;
            }
            Task::Custom { kind, config } => {
                return self
                    .call(node, Work::Custom { kind, config }, &given, nodes, place)
                    .await;
            }
            Task::Table(_, turn) | Task::Expressions(_, turn) | Task::Decision(_, turn) => turn,
        };
        let taken = match &turn.input {
            None => given.clone(),
            Some(program) => self.value(program, &scope_of(&given, nodes))?,
        };
        let (mut value, shown) = match turn.mode {
            Mode::Single => self.work_once(node, taken, nodes, place).await?,
            Mode::Loop => self.work_on_each(node, turn, &taken, nodes, place).await?,
        };
        if let Some(path) = &turn.output {
            let object = RcCell::<VariableMap>::default();
            path.lay(&object, value);
            value = Variable::Object(object);
        }
        if turn.passes_through {
            value = merged(given, &value);
        }
        Ok((value, shown))
    }

    async fn work_on_each(
        &mut self,
        node: &Checked,
        turn: &Turn,
        taken: &Variable,
        nodes: Option<&Variable>,
        place: &Place,
    ) -> Worked<R::Failure> {
        let Variable::Array(items) = taken else {
            return Err(Cause::NoList(taken.type_name()).into());
        };
        // Nothing may hold on to the list while something else is evaluated.
        let items = items.borrow().clone();
        if items.len() > ITEMS_MAX {
            return Err(Cause::TooManyItems(items.len()).into());
        }
        let mut values = Vec::with_capacity(items.len());
        let mut shown = Vec::new();
        for item in items {
            self.runs += 1;
            if self.runs > RUNS_MAX {
                return Err(Cause::TooManyRuns.into());
            }
            let (value, trace) = self.work_once(node, item.clone(), nodes, place).await?;
            if self.wants_trace && !trace.is_null() {
                shown.push(trace);
            }
            values.push(if turn.passes_through {
                merged(item, &value)
            } else {
                value
            });
        }
        Ok((Variable::from_array(values), Value::Array(shown)))
    }

    async fn work_once(
        &mut self,
        node: &Checked,
        taken: Variable,
        nodes: Option<&Variable>,
        place: &Place,
    ) -> Worked<R::Failure> {
        match &node.work {
            Task::Table(table, _) => {
                let decided =
                    table.decide_with(&mut scope_of(&taken, nodes), &mut self.machine, self.wants_trace);
                Ok((decided.value, decided.trace.unwrap_or_default()))
            }
            Task::Expressions(expressions, _) => {
                let mut shown = self.wants_trace.then(Map::new);
                let mut scope = scope_of(&taken, nodes);
                let value = expressions.evaluate(&mut scope, &mut self.machine, shown.as_mut());
                let value = value.map_err(|(text, fault)| Cause::Expression { text, fault })?;
                Ok((value, shown.map(Value::Object).unwrap_or_default()))
            }
            Task::Decision(key, _) => self.evaluate_within(node, key, taken, nodes, place).await,
            _ => Ok((taken, Value::Null)),
        }
    }

    /// What another decision comes to. If it fails, that is a failure of the node in it.
    async fn evaluate_within(
        &mut self,
        node: &Checked,
        key: &str,
        taken: Variable,
        nodes: Option<&Variable>,
        place: &Place,
    ) -> Worked<R::Failure> {
        let depth = place.depth + 1;
        if depth >= DEPTH_MAX {
            return Err(Cause::TooDeep(key.to_owned()).into());
        }
        let decision = self.functions.decision(key);
        let decision = decision.ok_or_else(|| Cause::NoSuchDecision(key.to_owned()))?;
        let place = Place {
            within: format!("{}{}/", place.within, node.id),
            depth,
            nodes: nodes.cloned(),
        };
        let mut trace = self.wants_trace.then(Vec::new);
        let walk: Pin<Box<dyn Future<Output = _> + '_>> =
            Box::pin(self.walk(&decision, taken, &place, &mut trace));
        let result = walk.await;
        let shown = trace.map(|steps| trace_of(&steps)).unwrap_or_default();
        match result {
            Ok(value) => Ok((value, shown)),
            Err(error) => Err(Broken::Within(error, shown)),
        }
    }

    async fn call(
        &mut self,
        node: &Checked,
        work: Work<'_>,
        given: &Variable,
        nodes: Option<&Variable>,
        place: &Place,
    ) -> Worked<R::Failure> {
        let mut input = to_json(given);
        if let (Value::Object(input), Some(nodes)) = (&mut input, nodes) {
            input.insert(NODES.to_owned(), to_json(nodes));
        }
        let call = FunctionCall {
            node: &format!("{}{}", place.within, node.id),
            name: &node.name,
            work,
            input,
            wants_trace: self.wants_trace,
        };
        let answer = self.functions.run(call).await.map_err(Cause::Function)?;
        let value = from_json(answer.value).map_err(Cause::TooMuch)?;
        Ok((value, answer.trace))
    }

    fn value(&mut self, program: &Program, scope: &Scope) -> Result<Variable, Cause<R::Failure>> {
        let value = self.machine.value(program, scope);
        value.map_err(|fault| Cause::Expression {
            text: shortened(&program.text),
            fault,
        })
    }
}

fn step(node: &Checked, input: Value, took: Duration) -> Step {
    Step {
        id: node.id.to_string(),
        name: node.name.to_string(),
        input,
        output: Value::Null,
        took,
        trace: Value::Null,
    }
}

/// What expressions of a node see.
fn scope_of(given: &Variable, nodes: Option<&Variable>) -> Scope {
    let mut scope = Scope::new(given.clone());
    if let Some(nodes) = nodes {
        scope.set_local(Symbol::from_static(NODES), nodes.clone());
    }
    scope
}

fn validate<F: fmt::Display>(schema: &Schema, value: &Variable) -> Result<(), Cause<F>> {
    let checked = schema.check(&to_json(value));
    checked.map_err(|Mismatch { path, reason }| Cause::Invalid { path, reason })
}
