//! Starts one run in its engine: the graph or decision picks the next rule, and the engine evaluates it.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Instant};

use tracing::Level;

use super::{
    decisions::DecisionTasks,
    result::{first_line, write_evaluation, write_run},
    rules::RuleTasks,
    tasks::RunTasks,
};
use crate::{
    BegunRun, Bundle, Evaluator, LogLine, RuleModule, RunCounts, RunHost, RunLog, bundle::Plan, run,
};

/// Bytes that a log line counts for beyond its text.
const LINE_BYTES: usize = 32;

/// The parameters of a run.
#[derive(Debug)]
pub(crate) struct RunSpec<E: Evaluator> {
    pub(crate) book: Arc<Bundle<E>>,
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
}

/// Serves the rules of a run.
struct Host<E: Evaluator> {
    log: RefCell<Log>,
    book: Arc<Bundle<E>>,
}

/// Lines logged by rules, for the trace.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) lines: Vec<LogLine>,
    bytes: usize,
    bytes_max: usize,
    /// Lines dropped for lack of room.
    pub(super) left_out: usize,
    /// Log file that lines are written to as well.
    written: Option<Box<dyn RunLog>>,
}

/// Log levels by their number in a [`LogLine`].
const LEVELS: [Level; 4] = [Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];

impl Log {
    fn write(&mut self, level: Level, message: &str, failed: Option<(&str, &str)>) {
        if let Some(written) = &mut self.written {
            written.line(level, message, failed);
        }
    }

    /// Logs a node's failure; the stack trace follows the first line of `error`.
    fn failed(&mut self, node: &str, error: &str) {
        self.write(Level::ERROR, first_line(error), Some((node, error)));
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.left_out > 0 {
            let message = format!("{} further lines were left out (log_max)", self.left_out);
            self.write(Level::WARN, &message, None);
        }
    }
}

/// Starts a run. Nothing happens before its future is polled.
pub(crate) fn begin<E: Evaluator>(wanted: RunSpec<E>, engine: E::Engine) -> BegunRun<E::Rule> {
    let RunSpec {
        book,
        plan,
        counts,
        log: run_log,
        args,
        wants_trace,
        log_max,
        output_max,
        deadline,
    } = wanted;
    let host = Rc::new(Host {
        log: RefCell::new(Log {
            lines: Vec::new(),
            bytes: 0,
            bytes_max: log_max,
            left_out: 0,
            written: run_log,
        }),
        book,
    });
    let own = Rc::clone(&host);
    let result = Box::pin(async move {
        let (book, log) = (&*own.book, &own.log);
        let desk = RunTasks::<E>::new(engine, output_max, deadline, counts);
        match plan {
            Plan::Graph(graph) => {
                let rules = RuleTasks::new(&desk, book, &args);
                let run = run(&graph, &rules, wants_trace).await;
                if let Err(error) = &run.outcome {
                    log.borrow_mut().failed(&error.node, &error.cause.to_string());
                }
                write_run(&run, &log.borrow(), wants_trace, output_max)
            }
            Plan::Decision(decision) => {
                let functions = DecisionTasks::new(&desk, book);
                let input = serde_json::from_str(&args).unwrap_or_default();
                let evaluation = decision.evaluate(input, &functions, wants_trace).await;
                if let Err(error) = &evaluation.result {
                    log.borrow_mut().failed(&error.node, &error.cause.to_string());
                }
                write_evaluation(&evaluation, &log.borrow(), wants_trace)
            }
        }
    });
    BegunRun { result, host }
}

impl<E: Evaluator> RunHost<E::Rule> for Host<E> {
    fn module(&self, from: &str, name: &str) -> Result<RuleModule<E::Rule>, String> {
        self.book.module(from, name)
    }

    fn log(&self, line: LogLine) {
        let mut log = self.log.borrow_mut();
        let bytes = log.bytes.saturating_add(line.text.len() + LINE_BYTES);
        if bytes > log.bytes_max {
            log.left_out += 1;
        } else {
            log.bytes = bytes;
            let level = LEVELS[usize::from(line.level).min(LEVELS.len() - 1)];
            log.write(level, &line.text, None);
            log.lines.push(line);
        }
    }
}
