//! Starts one run in its engine: the graph or decision picks the next rule, and the engine evaluates it.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use tracing::Level;

use super::{
    decisions::{self, DecisionTasks},
    result::{PublicText, first_line, put_steps, put_trace, write_evaluation, write_run},
    rules::RuleTasks,
    tasks::{Reason, RunTasks},
};
use crate::{
    BegunRun, Bundle, Evaluator, LogLine, NodeName, RuleModule, RunCounts, RunHost, RunLog, Trace,
    bundle::Plan, jdm, run,
};

/// Bytes that a log line counts for beyond its text.
const LINE_BYTES: usize = 32;

/// The parameters of a run.
#[derive(Debug)]
pub(crate) struct RunSpec<E: Evaluator> {
    pub(crate) bundle: Arc<Bundle<E>>,
    pub(crate) plan: Plan,
    pub(crate) counts: Arc<dyn RunCounts>,
    /// Log file that lines go to, in addition to the trace.
    pub(crate) log: Option<Box<dyn RunLog>>,
    /// A JSON object.
    pub(crate) args: Arc<str>,
    /// Whether the result includes a trace of the nodes.
    pub(crate) wants_trace: bool,
    /// Most bytes that rules may log.
    pub(crate) log_max: usize,
    /// Most bytes of the result, and of all rules' results together.
    pub(crate) output_max: usize,
    /// When the run times out.
    pub(crate) deadline: Instant,
    /// Takes the trace of a run that is stopped before its end, as members of an object.
    pub(crate) unfinished: Option<oneshot::Sender<String>>,
    /// How much of the errors in the trace the client may read.
    pub(crate) public_text: PublicText,
}

/// Serves the rules of a run.
struct Host<E: Evaluator> {
    log: RefCell<Log>,
    bundle: Arc<Bundle<E>>,
    tasks: Rc<RunTasks<E>>,
}

/// Lines logged by rules, for the trace.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) lines: Vec<NodeLine>,
    begun: Instant,
    bytes: usize,
    bytes_max: usize,
    /// Lines dropped for lack of room.
    pub(super) left_out: usize,
    /// Log file that lines are written to as well.
    written: Option<Box<dyn RunLog>>,
}

/// A line that a rule has logged.
#[derive(Debug)]
pub(super) struct NodeLine {
    /// The node of the rule, if it is known.
    pub(super) node: Option<NodeName>,
    /// Time since the run began.
    pub(super) at: Duration,
    pub(super) level: Level,
    pub(super) text: String,
}

/// Log levels by their number in a [`LogLine`].
const LEVELS: [Level; 4] = [Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];

impl Log {
    fn write(&mut self, level: Level, message: &str, node: Option<&NodeName>, stack: Option<&str>) {
        if let Some(written) = &mut self.written {
            let node = node.map(|node| (&*node.id, node.name.as_deref()));
            written.line(level, message, node, stack);
        }
    }

    /// Logs a node's failure; the stack trace follows the first line of `error`.
    fn failed(&mut self, node: &NodeName, error: &str) {
        self.write(Level::ERROR, first_line(error), Some(node), Some(error));
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.left_out > 0 {
            let message = format!("{} further lines were left out (log_max)", self.left_out);
            self.write(Level::WARN, &message, None, None);
        }
    }
}

/// Starts a run. Nothing happens before its future is polled.
pub(crate) fn begin<E: Evaluator>(wanted: RunSpec<E>, engine: E::Engine) -> BegunRun<E::Rule> {
    let RunSpec {
        bundle,
        plan,
        counts,
        log: run_log,
        args,
        wants_trace,
        log_max,
        output_max,
        deadline,
        unfinished,
        public_text,
    } = wanted;
    let host = Rc::new(Host {
        log: RefCell::new(Log {
            lines: Vec::new(),
            begun: Instant::now(),
            bytes: 0,
            bytes_max: log_max,
            left_out: 0,
            written: run_log,
        }),
        bundle,
        tasks: Rc::new(RunTasks::new(engine, output_max, deadline, counts)),
    });
    let trace = wants_trace.then(|| match &plan {
        Plan::Graph(_) => RunTrace::Graph(Rc::new(Trace::new())),
        Plan::Decision(_) => RunTrace::Decision(Rc::default()),
    });
    let stopped = StoppedTrace {
        unfinished,
        trace: trace.clone(),
        host: Rc::clone(&host),
        public_text,
        output_max,
    };
    let own = Rc::clone(&host);
    let result = Box::pin(async move {
        let (bundle, log, tasks) = (&*own.bundle, &own.log, &*own.tasks);
        let result = match plan {
            Plan::Graph(graph) => {
                let rules = RuleTasks::new(tasks, bundle, &args);
                let trace = trace.as_ref().and_then(RunTrace::graph);
                let outcome = run(&graph, &rules, trace).await;
                if let Err(error) = &outcome {
                    log.borrow_mut().failed(&error.node, &error.cause.to_string());
                }
                write_run(&outcome, trace, &log.borrow(), public_text, output_max)
            }
            Plan::Decision(decision) => {
                let functions = DecisionTasks::new(tasks, bundle);
                let input = serde_json::from_str(&args).unwrap_or_default();
                let steps = trace.as_ref().and_then(RunTrace::decision);
                let evaluation = decision.evaluate(input, &functions, steps).await;
                if let Err(error) = &evaluation.result {
                    let node = NodeName {
                        id: (&*error.node).into(),
                        name: None,
                    };
                    log.borrow_mut().failed(&node, &error.cause.to_string());
                }
                write_evaluation(&evaluation, &log.borrow(), wants_trace)
            }
        };
        stopped.forget();
        result
    });
    BegunRun { result, host }
}

/// The trace of a run so far.
#[derive(Clone)]
enum RunTrace {
    Graph(Rc<Trace<Rc<str>, Reason>>),
    Decision(Rc<jdm::Steps>),
}

impl RunTrace {
    fn graph(&self) -> Option<&Trace<Rc<str>, Reason>> {
        match self {
            Self::Graph(trace) => Some(trace),
            Self::Decision(_) => None,
        }
    }

    fn decision(&self) -> Option<&jdm::Steps> {
        match self {
            Self::Graph(_) => None,
            Self::Decision(steps) => Some(steps),
        }
    }
}

/// Hands over the trace of a run that is dropped before its end.
struct StoppedTrace<E: Evaluator> {
    unfinished: Option<oneshot::Sender<String>>,
    trace: Option<RunTrace>,
    host: Rc<Host<E>>,
    public_text: PublicText,
    output_max: usize,
}

impl<E: Evaluator> StoppedTrace<E> {
    /// The run has ended: there is nothing to send.
    fn forget(mut self) {
        self.unfinished = None;
    }
}

impl<E: Evaluator> Drop for StoppedTrace<E> {
    fn drop(&mut self) {
        if let (Some(unfinished), Some(trace)) = (self.unfinished.take(), &self.trace) {
            let mut out = Vec::new();
            let log = self.host.log.borrow();
            match trace {
                RunTrace::Graph(trace) => {
                    put_trace(&mut out, trace, &log, self.public_text, self.output_max);
                }
                RunTrace::Decision(steps) => put_steps(&mut out, &steps.borrow(), &log, self.output_max),
            }
            // Nothing may wait for it any more.
            let _ = unfinished.send(String::from_utf8_lossy(&out).into_owned());
        }
    }
}

impl<E: Evaluator> RunHost<E::Rule> for Host<E> {
    fn module(&self, from: &str, name: &str) -> Result<RuleModule<E::Rule>, String> {
        self.bundle.module(from, name)
    }

    fn evaluate(
        &self,
        key: String,
        input: String,
        wants_trace: bool,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>>>> {
        let (tasks, bundle) = (Rc::clone(&self.tasks), Arc::clone(&self.bundle));
        Box::pin(async move { decisions::evaluate(&tasks, &bundle, &key, &input, wants_trace).await })
    }

    fn expression(&self, text: &str, context: &str, is_unary: bool) -> Result<String, String> {
        let context = serde_json::from_str(context).map_err(|error| error.to_string())?;
        let value = jdm::evaluate(text, context, is_unary, Some(self.tasks.deadline()));
        Ok(value?.to_string())
    }

    fn log(&self, line: LogLine) {
        let mut log = self.log.borrow_mut();
        let bytes = log.bytes.saturating_add(line.text.len() + LINE_BYTES);
        if bytes > log.bytes_max {
            log.left_out += 1;
        } else {
            log.bytes = bytes;
            let level = LEVELS[usize::from(line.level).min(LEVELS.len() - 1)];
            let LogLine { node, text, .. } = line;
            log.write(level, &text, node.as_ref(), None);
            let at = log.begun.elapsed();
            log.lines.push(NodeLine {
                node,
                at,
                level,
                text,
            });
        }
    }
}
