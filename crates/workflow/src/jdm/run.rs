//! Evaluates a decision: passes the input from node to node in topological order, until it reaches an output node.

use std::{
    cell::RefCell,
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
    document::Mode,
    error::{Cause, RunError},
    evaluation::{Evaluation, Step, Steps, trace_of},
    program::{Machine, Program},
    traversal::Traversal,
    value::{ITEMS_MAX, NODES, from_json, measure, merged, to_json},
};
use crate::{Mismatch, Schema, object::shortened};

/// Maximum nesting of decisions.
pub const DEPTH_MAX: usize = 10;
/// Maximum number of node evaluations in a run, including nested decisions and every iteration of a loop.
pub const RUNS_MAX: usize = 1_000_000;

/// The host: the parts of a decision that cannot be evaluated here.
pub trait Functions {
    /// The error of a function that failed.
    type Failure: fmt::Display;

    /// Calls a function. Dropping the future cancels it.
    fn run(&self, call: FunctionCall<'_>) -> impl Future<Output = Result<Answer, Self::Failure>>;

    /// Looks up a decision by its key.
    fn decision(&self, key: &str) -> Option<Arc<Decision>>;

    /// When loops in expressions must stop; `None` for no limit.
    fn deadline(&self) -> Option<Instant>;
}

/// A request to call a function.
#[derive(Clone, Debug)]
pub struct FunctionCall<'c> {
    /// The id of the node, prefixed with the nodes whose decisions contain it: `7/2`.
    pub node: &'c str,
    /// The display name of the node.
    pub name: &'c str,
    /// The function to call.
    pub work: Work<'c>,
    /// Its input. If the function may read `$nodes`, the input has a member `$nodes` with the results of all earlier nodes.
    pub input: Value,
    /// Whether the result should include a trace.
    pub wants_trace: bool,
}

/// The implementation of a function node.
#[derive(Clone, Copy, Debug)]
pub enum Work<'c> {
    /// A JavaScript function.
    Source {
        /// The source text of the module.
        source: &'c str,
        /// 1 if it has a function `main`, 2 if it exports `handler`.
        version: u8,
    },
    /// A node that the host implements.
    Custom {
        /// The host's name for this kind of node.
        kind: &'c str,
        /// Settings for the host, with their templates evaluated.
        config: &'c Value,
    },
}

/// The result of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The returned value.
    pub value: Value,
    /// Details to show in the trace, such as log output.
    pub trace: Value,
}

impl Decision {
    /// Evaluates the decision. Dropping the future cancels the function in progress. With `trace`, the run records a [`Step`] there for
    /// each node that is over; at its end they move into the [`Evaluation`].
    pub async fn evaluate<R: Functions>(
        &self,
        input: Value,
        functions: &R,
        trace: Option<&Steps>,
    ) -> Evaluation<R::Failure> {
        let begun = Instant::now();
        let mut walk = Walk {
            functions,
            machine: Machine::new(functions.deadline()),
            runs: 0,
            wants_trace: trace.is_some(),
        };
        let result = match from_json(input) {
            Ok(input) => walk.walk(self, input, &Place::default(), trace).await,
            Err(excess) => Err(RunError {
                node: self.nodes[self.input].id.to_string(),
                cause: Cause::TooMuch(excess),
            }),
        };
        Evaluation {
            result: result.map(|result| to_json(&result)),
            trace: trace.map(RefCell::take),
            took: begun.elapsed(),
        }
    }
}

/// The context of a nested decision.
#[derive(Default)]
struct Place {
    /// The nodes whose decisions contain this one, each followed by a slash.
    within: String,
    depth: usize,
    /// Results of the nodes in the enclosing decision.
    nodes: Option<Variable>,
}

struct Walk<'w, R: Functions> {
    functions: &'w R,
    machine: Machine,
    runs: usize,
    wants_trace: bool,
}

/// The result of a node, and the details for its trace.
type Worked<F> = Result<(Variable, Value), Broken<F>>;

/// A failed node.
enum Broken<F: fmt::Display> {
    Here(Cause<F>),
    /// A node of the nested decision failed; the value is the trace of that decision so far.
    Within(RunError<F>, Value),
}

impl<F: fmt::Display> From<Cause<F>> for Broken<F> {
    fn from(cause: Cause<F>) -> Self {
        Self::Here(cause)
    }
}

impl<R: Functions> Walk<'_, R> {
    /// Evaluates a decision, which may be nested.
    async fn walk(
        &mut self,
        decision: &Decision,
        input: Variable,
        place: &Place,
        trace: Option<&Steps>,
    ) -> Result<Variable, RunError<R::Failure>> {
        let mut traversal = Traversal::new(decision);
        while let Some(next) = traversal.next() {
            let node = &decision.nodes[next];
            let begun = self.wants_trace.then(Instant::now);
            if let Task::Switch(switch) = &node.work
                && !traversal.is_decided[next]
            {
                let given = traversal.given(next);
                let gone = switch.decide(&scope_of(&given, traversal.nodes()), &mut self.machine);
                if let Some((trace, begun)) = trace.zip(begun) {
                    let given = to_json(&given);
                    let gone = switch.ids().zip(&gone).filter(|(_, is_gone)| **is_gone);
                    let statements: Vec<_> = gone.map(|(id, _)| json!({"id": id})).collect();
                    trace.borrow_mut().push(Step {
                        output: given.clone(),
                        trace: json!({"statements": statements}),
                        ..step(node, given, begun.elapsed())
                    });
                }
                if traversal.decide(next, &gone) {
                    continue;
                }
            }
            traversal.advance(next);
            if traversal.results[next].is_some() {
                continue;
            }
            let given = match node.work {
                Task::Input(_) => input.clone(),
                _ => traversal.given(next),
            };
            self.runs += 1;
            let worked = if self.runs > RUNS_MAX {
                Err(Cause::TooManyRuns.into())
            } else {
                self.work(node, given.clone(), traversal.nodes(), place).await
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
            if let Some((trace, begun)) = trace.zip(begun)
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
                trace.borrow_mut().push(step);
            }
            traversal.come_to(next, worked?, place.nodes.as_ref());
            if matches!(node.work, Task::Output(_)) {
                break;
            }
        }
        Ok(traversal.result())
    }

    async fn work(
        &mut self,
        node: &Checked,
        given: Variable,
        nodes: Option<&Variable>,
        place: &Place,
    ) -> Worked<R::Failure> {
        let turn = match &node.work {
            Task::Input(schema) => {
                if let Some(Err(Mismatch { path, reason })) =
                    schema.as_ref().map(|schema| validate(schema, &given))
                {
                    return Err(Cause::InvalidInput { path, reason }.into());
                }
                return Ok((given, Value::Null));
            }
            Task::Output(schema) => {
                if let Some(Err(Mismatch { path, reason })) =
                    schema.as_ref().map(|schema| validate(schema, &given))
                {
                    return Err(Cause::InvalidOutput { path, reason }.into());
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
                let config = config.evaluate(&scope_of(&given, nodes), &mut self.machine);
                let config = &config.map_err(|(text, fault)| Cause::Expression { text, fault })?;
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
        // Copy the list: it must not stay borrowed while something else is evaluated.
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

    /// Evaluates another decision. A failure in it is reported for its own node.
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
        let trace = self.wants_trace.then(Steps::default);
        let walk: Pin<Box<dyn Future<Output = _> + '_>> =
            Box::pin(self.walk(&decision, taken, &place, trace.as_ref()));
        let result = walk.await;
        let shown = trace.map(|steps| trace_of(&steps.take())).unwrap_or_default();
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

/// The variables that expressions of a node see.
fn scope_of(given: &Variable, nodes: Option<&Variable>) -> Scope {
    let mut scope = Scope::new(given.clone());
    if let Some(nodes) = nodes {
        scope.set_local(Symbol::from_static(NODES), nodes.clone());
    }
    scope
}

fn validate(schema: &Schema, value: &Variable) -> Result<(), Mismatch> {
    schema.check(&to_json(value))
}
