//! The way of a run through its graph, node by node.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
};

use futures_util::{
    future::{Either, select},
    stream::{FuturesUnordered, StreamExt as _},
};

use super::{
    Before, Cause, DEPTH_MAX, Ended, ITEMS_MAX, NodeName, Outcome, RuleCall, Rules, RunError, Step, Subflow,
    Trace, WAY_MAX,
};
use crate::{
    Compat, Graph, Logical,
    definition::Join,
    graph::{Checked, Work},
};

/// Each node gets at least this much stack; if less is left, `STACK_BYTES` more are allocated.
const STACK_LEFT_MIN: usize = 64 << 10;
const STACK_BYTES: usize = 1 << 20;

/// A run of a graph.
pub(super) struct Walk<'w, R: Rules> {
    pub(super) rules: &'w R,
    pub(super) trace: Option<&'w Trace<R::Values, R::Failure>>,
}

/// The state of one path through the graph.
struct Branch<R: Rules> {
    last: Option<Outcome<R::Values>>,
    item: Option<R::Item>,
    /// The nodes whose graphs contain this one, each followed by a slash.
    within: Rc<str>,
    /// Number of nested graphs, including the outermost.
    depth: usize,
    /// Number of nodes on the path so far, in all graphs.
    nodes: usize,
    /// The step of the node that the path has reached, if the run is traced.
    step: Option<usize>,
}

impl<R: Rules> Clone for Branch<R> {
    fn clone(&self) -> Self {
        Self {
            last: self.last.clone(),
            item: self.item.clone(),
            within: Rc::clone(&self.within),
            depth: self.depth,
            nodes: self.nodes,
            step: self.step,
        }
    }
}

impl<R: Rules> Branch<R> {
    fn before(&self) -> Before<'_, R::Values, R::Item> {
        Before {
            last: self.last.as_ref(),
            item: self.item.as_ref(),
        }
    }

    fn name_of(&self, node: &Checked) -> NodeName {
        NodeName {
            id: format!("{}{}", self.within, node.id).into(),
            name: node.name.clone(),
        }
    }
}

/// How a run goes on after a node.
enum Way<V> {
    /// With this node.
    On(usize),
    /// Not at all: this is the outcome.
    End(Outcome<V>),
}

impl<V> Way<V> {
    /// To the next node, if there is one and the outcome is true.
    fn after(outcome: Outcome<V>, next: Option<usize>) -> Self {
        match next {
            Some(next) if outcome.is_true => Self::On(next),
            _ => Self::End(outcome),
        }
    }
}

type WayOf<R> = Result<Way<<R as Rules>::Values>, RunError<<R as Rules>::Failure>>;
type EndedOf<R> = Ended<<R as Rules>::Values, <R as Rules>::Failure>;

impl<R: Rules> Walk<'_, R> {
    /// Runs the whole graph.
    pub(super) async fn run(&self, graph: &Graph) -> EndedOf<R> {
        let mut branch = Branch {
            last: None,
            item: None,
            within: Rc::from(""),
            depth: 1,
            nodes: 0,
            step: None,
        };
        self.enter(graph, graph.first, &mut branch).await
    }

    /// Runs a node and all nodes after it. Nodes that follow one another are run one after the other; those whose outcome is needed by the node
    /// before them are run within it. [`WAY_MAX`] bounds that recursion; more stack is allocated when the thread's runs out.
    fn enter<'a>(
        &'a self,
        graph: &'a Graph,
        first: usize,
        branch: &'a mut Branch<R>,
    ) -> Pin<Box<dyn Future<Output = EndedOf<R>> + 'a>> {
        let mut walking = Box::pin(async move {
            let (outer, before) = (branch.step, branch.nodes);
            let mut steps = Vec::new();
            let mut node = first;
            let outcome = loop {
                let here = &graph.nodes[node];
                branch.step = self.trace.map(|trace| {
                    let input = branch.last.as_ref().map(|last| last.values.clone());
                    trace.begin(branch.name_of(here), here.kind, branch.step, input)
                });
                steps.extend(branch.step);
                if branch.nodes == WAY_MAX {
                    break Err(Self::failed(branch.name_of(here), Cause::TooFar));
                }
                branch.nodes += 1;
                match self.work(graph, here, branch).await {
                    Ok(Way::On(next)) => node = next,
                    Ok(Way::End(outcome)) => break Ok(outcome),
                    Err(error) => break Err(error),
                }
            };
            (branch.step, branch.nodes) = (outer, before);
            if graph.compat == Compat::Rengine
                && let Ok(outcome) = &outcome
            {
                branch.last = Some(outcome.clone());
            }
            if let Some(trace) = self.trace {
                // All of them have this outcome; the last one ends first.
                steps
                    .into_iter()
                    .rev()
                    .for_each(|step| trace.end(step, outcome.clone()));
            }
            outcome
        });
        Box::pin(poll_fn(move |context| {
            stacker::maybe_grow(STACK_LEFT_MIN, STACK_BYTES, || walking.as_mut().poll(context))
        }))
    }

    async fn work(&self, graph: &Graph, node: &Checked, branch: &mut Branch<R>) -> WayOf<R> {
        match &node.work {
            Work::Rule { rule, next } => {
                let outcome = self.run_rule(graph, node, rule, branch).await?;
                Ok(Way::after(outcome, *next))
            }
            Work::Failback { rule, next } => match self.enter(graph, *next, branch).await {
                Ok(outcome) => Ok(Way::End(outcome)),
                Err(error) => {
                    self.note(branch, |step| step.fallback = Some(error));
                    self.run_rule(graph, node, rule, branch).await.map(Way::End)
                }
            },
            Work::Logical { logical, children } => {
                self.decide(graph, *logical, children, branch).await.map(Way::End)
            }
            Work::Switch {
                rule,
                cases,
                otherwise,
            } => {
                let outcome = self.run_rule(graph, node, rule, branch).await?;
                let case = self.rules.case(&outcome.values);
                let next = case
                    .as_ref()
                    .and_then(|case| cases.get(case).copied())
                    .or(*otherwise);
                self.note(branch, |step| step.case = case);
                Ok(match next {
                    Some(next) if outcome.is_true => Way::On(next),
                    // No edge for that case.
                    _ => Way::End(Outcome {
                        is_true: false,
                        ..outcome
                    }),
                })
            }
            Work::Parallel { join, children } => self
                .run_together(graph, *join, children, branch)
                .await
                .map(Way::End),
            Work::Loop { over, next } => self.go_over(graph, node, over, *next, branch).await.map(Way::End),
            Work::Subflow { workflow, next } => {
                let outcome = self.run_subflow(node, workflow, branch).await?;
                Ok(Way::after(outcome, *next))
            }
            Work::Delay { time, next } => {
                self.rules.sleep(*time).await;
                Ok(Way::On(*next))
            }
            Work::Retry {
                attempts,
                pause,
                next,
            } => {
                for attempt in 1..*attempts {
                    self.note(branch, |step| step.attempts = Some(attempt));
                    let mut attempt = branch.clone();
                    if let Ok(outcome) = self.enter(graph, *next, &mut attempt).await {
                        *branch = attempt;
                        return Ok(Way::End(outcome));
                    }
                    self.rules.sleep(*pause).await;
                }
                self.note(branch, |step| step.attempts = Some(*attempts));
                Ok(Way::On(*next))
            }
        }
    }

    /// Adds to the step of the node that a branch has reached.
    fn note(&self, branch: &Branch<R>, add: impl FnOnce(&mut Step<R::Values, R::Failure>)) {
        if let (Some(trace), Some(step)) = (self.trace, branch.step) {
            add(&mut trace.steps.borrow_mut()[step]);
        }
    }

    fn failed(node: NodeName, cause: Cause<R::Failure>) -> RunError<R::Failure> {
        RunError { node, cause }
    }

    /// Runs the rule of a node, and makes its outcome visible to the nodes after it.
    async fn run_rule(
        &self,
        graph: &Graph,
        node: &Checked,
        rule: &str,
        branch: &mut Branch<R>,
    ) -> EndedOf<R> {
        let name = branch.name_of(node);
        let running = self.rules.run(RuleCall {
            node: &name,
            kind: node.kind,
            rule,
            before: branch.before(),
            time_max: node.timeout,
        });
        let outcome = match node.timeout {
            None => running.await.map_err(Cause::Rule),
            Some(limit) => match select(pin!(running), pin!(self.rules.sleep(limit))).await {
                Either::Left((outcome, _)) => outcome.map_err(Cause::Rule),
                Either::Right(_) => Err(Cause::Late(limit)),
            },
        };
        let outcome = match (outcome, &node.fallback) {
            (Ok(outcome), _) => outcome,
            (Err(cause), Some(fallback)) => {
                self.note(branch, |step| step.fallback = Some(Self::failed(name, cause)));
                Outcome {
                    is_true: fallback.is_true,
                    values: self.rules.values(&fallback.values),
                }
            }
            (Err(cause), None) => return Err(Self::failed(name, cause)),
        };
        self.note(branch, |step| step.own = Some(outcome.clone()));
        if graph.compat == Compat::None {
            branch.last = Some(outcome.clone());
        }
        Ok(outcome)
    }

    /// Runs children in order and combines their results. The values are those of the last child that ran.
    async fn decide(
        &self,
        graph: &Graph,
        logical: Logical,
        children: &[usize],
        branch: &mut Branch<R>,
    ) -> EndedOf<R> {
        let (mut all, mut any) = (true, false);
        let mut values = None;
        for &child in children {
            let outcome = self.enter(graph, child, branch).await?;
            all &= outcome.is_true;
            any |= outcome.is_true;
            let is_decided = match logical {
                Logical::And => !outcome.is_true,
                Logical::Or => outcome.is_true,
                Logical::AllAnd | Logical::AllOr | Logical::Not => false,
            };
            values = Some(outcome.values);
            if is_decided {
                break;
            }
        }
        let is_true = match logical {
            Logical::And | Logical::AllAnd => all,
            Logical::AllOr if graph.compat == Compat::Rengine => true,
            Logical::Or | Logical::AllOr => any,
            Logical::Not => !any,
        };
        let values = values.expect("a graph whose LOGICAL nodes have children is all that is checked");
        Ok(Outcome { is_true, values })
    }

    /// Runs children concurrently, and cancels those that are no longer needed.
    async fn run_together(
        &self,
        graph: &Graph,
        join: Join,
        children: &[usize],
        branch: &mut Branch<R>,
    ) -> EndedOf<R> {
        let mut running: FuturesUnordered<_> = children
            .iter()
            .enumerate()
            .map(|(place, &child)| {
                let mut branch = branch.clone();
                async move { (place, self.enter(graph, child, &mut branch).await) }
            })
            .collect();
        let mut outcomes: Vec<Option<Outcome<R::Values>>> = vec![None; children.len()];
        let mut failure = None;
        while let Some((place, ended)) = running.next().await {
            match (join, ended) {
                (Join::All, Err(error)) => return Err(error),
                (Join::Any, Err(error)) => drop(failure.get_or_insert(error)),
                (Join::Any, Ok(outcome)) if outcome.is_true => {
                    branch.last = Some(outcome.clone());
                    return Ok(outcome);
                }
                (_, Ok(outcome)) => outcomes[place] = Some(outcome),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        let is_true = join == Join::All && outcomes.iter().all(|outcome| outcome.is_true);
        let names = children.iter().map(|&child| &*graph.nodes[child].id);
        let parts = names.zip(outcomes.into_iter().map(|outcome| outcome.values));
        let values = self.rules.join(parts.collect());
        let outcome = Outcome { is_true, values };
        branch.last = Some(outcome.clone());
        Ok(outcome)
    }

    /// Runs the nodes after it once for each item, until one outcome is false.
    async fn go_over(
        &self,
        graph: &Graph,
        node: &Checked,
        over: &str,
        next: usize,
        branch: &mut Branch<R>,
    ) -> EndedOf<R> {
        let items = self.rules.items(over, branch.before());
        let items = items.map_err(|failure| Self::failed(branch.name_of(node), Cause::Rule(failure)))?;
        if items.len() > ITEMS_MAX {
            return Err(Self::failed(
                branch.name_of(node),
                Cause::TooManyItems(items.len()),
            ));
        }
        let outer = branch.item.take();
        let mut parts = Vec::with_capacity(items.len());
        let mut ended = Ok(true);
        for item in items {
            branch.item = Some(item);
            ended = self.enter(graph, next, branch).await.map(|outcome| {
                parts.push(outcome.values);
                outcome.is_true
            });
            if !matches!(ended, Ok(true)) {
                break;
            }
        }
        branch.item = outer;
        let is_true = ended?;
        let numbers: Vec<_> = (0..parts.len()).map(|number| number.to_string()).collect();
        let parts = numbers.iter().map(String::as_str).zip(parts).collect();
        let outcome = Outcome {
            is_true,
            values: self.rules.join(parts),
        };
        branch.last = Some(outcome.clone());
        Ok(outcome)
    }

    async fn run_subflow(&self, node: &Checked, workflow: &str, branch: &mut Branch<R>) -> EndedOf<R> {
        let name = branch.name_of(node);
        if branch.depth == DEPTH_MAX {
            return Err(Self::failed(name, Cause::TooDeep(workflow.to_owned())));
        }
        let outcome = match self.rules.subflow(workflow) {
            None => {
                return Err(Self::failed(name, Cause::NoSuchWorkflow(workflow.to_owned())));
            }
            Some(Subflow::Graph(graph)) => {
                let mut within = Branch {
                    within: format!("{}/", name.id).into(),
                    depth: branch.depth + 1,
                    ..branch.clone()
                };
                self.enter(&graph, graph.first, &mut within).await?
            }
            Some(Subflow::Decision) => {
                let decided = self.rules.decide(RuleCall {
                    node: &name,
                    kind: node.kind,
                    rule: workflow,
                    before: branch.before(),
                    time_max: None,
                });
                let decided = decided.await;
                decided.map_err(|failure| Self::failed(name, Cause::Rule(failure)))?
            }
        };
        self.note(branch, |step| step.own = Some(outcome.clone()));
        branch.last = Some(outcome.clone());
        Ok(outcome)
    }
}
