//! Drives one run inside an engine: the graph or decision picks the next rule, and the engine executes it.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use forebay_script::{Command, Event, LogLine, RuleModule, RunDriver};
use forebay_workflow::{NodeName, Trace, run};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tracing::Level;

use super::{
    decisions::DecisionTasks,
    pending_tasks::{PendingTasks, Reason, TaskEvent},
    result::{put_trace, write_evaluation, write_run},
    rules::RuleTasks,
};
use crate::{
    logging::RunLog,
    metrics::WorkflowCounts,
    target::workflow::{
        bundle::{Bundle, Plan},
        first_line,
    },
};

/// Bytes that a log line counts for beyond its text.
const LINE_BYTES: usize = 32;

/// The parameters of a run.
#[derive(Debug)]
pub(in crate::target::workflow) struct RunSpec {
    pub(in crate::target::workflow) book: Arc<Bundle>,
    pub(in crate::target::workflow) plan: Plan,
    pub(in crate::target::workflow) counts: Arc<WorkflowCounts>,
    /// Log file that lines go to, in addition to the trace.
    pub(in crate::target::workflow) log: Option<RunLog>,
    /// A JSON object.
    pub(in crate::target::workflow) args: Box<RawValue>,
    /// Whether the result includes a trace of the nodes.
    pub(in crate::target::workflow) wants_trace: bool,
    /// Most bytes that rules may log.
    pub(in crate::target::workflow) log_max: usize,
    /// Most bytes of the result, and of all rules' results together.
    pub(in crate::target::workflow) output_max: usize,
    /// When the run times out.
    pub(in crate::target::workflow) deadline: Instant,
    /// Takes the trace of a run that is stopped before its end, as members of an object.
    pub(in crate::target::workflow) unfinished: Option<oneshot::Sender<String>>,
    /// Whether errors in the trace may tell only what anybody may know.
    pub(in crate::target::workflow) is_anonymous: bool,
}

/// The state machine of one run.
pub(in crate::target::workflow) struct WorkflowDriver {
    /// Resolves to the result, as JSON.
    run: Pin<Box<dyn Future<Output = Vec<u8>>>>,
    desk: Rc<PendingTasks>,
    log: Rc<RefCell<Log>>,
    /// The steps of a graph, if they were asked for.
    trace: Option<Rc<Trace<Rc<str>, Reason>>>,
    unfinished: Option<oneshot::Sender<String>>,
    is_anonymous: bool,
    output_max: usize,
    book: Arc<Bundle>,
    /// Whether the result has been returned.
    is_over: bool,
}

/// Lines logged by rules, for the trace.
#[derive(Debug)]
pub(in crate::target::workflow) struct Log {
    pub(in crate::target::workflow) lines: Vec<NodeLine>,
    begun: Instant,
    bytes: usize,
    bytes_max: usize,
    /// Lines dropped for lack of room.
    pub(in crate::target::workflow) left_out: usize,
    /// Log file that lines are written to as well.
    written: Option<RunLog>,
}

/// A line that a rule has logged.
#[derive(Debug)]
pub(in crate::target::workflow) struct NodeLine {
    /// The node of the rule, if it is known.
    pub(in crate::target::workflow) node: Option<NodeName>,
    /// Time since the run began.
    pub(in crate::target::workflow) at: Duration,
    pub(in crate::target::workflow) level: Level,
    pub(in crate::target::workflow) text: String,
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

impl WorkflowDriver {
    /// Creates a run. Nothing happens before the first event.
    pub(in crate::target::workflow) fn new(wanted: RunSpec) -> Self {
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
            unfinished,
            is_anonymous,
        } = wanted;
        let desk = Rc::new(PendingTasks::new(output_max, deadline, counts));
        let log = Rc::new(RefCell::new(Log {
            lines: Vec::new(),
            begun: Instant::now(),
            bytes: 0,
            bytes_max: log_max,
            left_out: 0,
            written: run_log,
        }));
        let trace = wants_trace.then(|| Rc::new(Trace::new()));
        let (own, its_log, its_trace) = (Rc::clone(&desk), Rc::clone(&log), trace.clone());
        let its_book = Arc::clone(&book);
        Self {
            book: its_book,
            run: Box::pin(async move {
                match plan {
                    Plan::Graph(graph) => {
                        let rules = RuleTasks::new(&own, &book, &args);
                        let outcome = run(&graph, &rules, its_trace.as_deref()).await;
                        if let Err(error) = &outcome {
                            its_log.borrow_mut().failed(&error.node, &error.cause.to_string());
                        }
                        write_run(
                            &outcome,
                            its_trace.as_deref(),
                            &its_log.borrow(),
                            is_anonymous,
                            output_max,
                        )
                    }
                    Plan::Decision(decision) => {
                        let functions = DecisionTasks::new(&own, &book);
                        let input = serde_json::from_str(args.get()).unwrap_or_default();
                        let evaluation = decision.evaluate(input, &functions, wants_trace).await;
                        if let Err(error) = &evaluation.result {
                            let node = NodeName {
                                id: (&*error.node).into(),
                                name: None,
                            };
                            its_log.borrow_mut().failed(&node, &error.cause.to_string());
                        }
                        write_evaluation(&evaluation, &its_log.borrow(), wants_trace)
                    }
                }
            }),
            desk,
            log,
            trace,
            unfinished,
            is_anonymous,
            output_max,
            is_over: false,
        }
    }
}

/// Records a wake-up. A run wakes itself when it yields.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for WorkflowDriver {
    fn drop(&mut self) {
        if !self.is_over
            && let (Some(unfinished), Some(trace)) = (self.unfinished.take(), &self.trace)
        {
            let mut out = Vec::new();
            put_trace(
                &mut out,
                trace,
                &self.log.borrow(),
                self.is_anonymous,
                self.output_max,
            );
            // Nothing may wait for it any more.
            let _ = unfinished.send(String::from_utf8_lossy(&out).into_owned());
        }
    }
}

impl RunDriver for WorkflowDriver {
    fn advance(&mut self, event: Event) -> Vec<Command> {
        match event {
            Event::Begun => {}
            Event::Ended { ticket, outcome } => self.desk.come(ticket, TaskEvent::Ended(outcome)),
            Event::Passed { ticket } => self.desk.come(ticket, TaskEvent::Passed),
        }
        if self.is_over {
            return Vec::new();
        }
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            woken.0.store(false, Ordering::Relaxed);
            if let Poll::Ready(result) = self.run.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.is_over = true;
                // Pending tasks are no longer needed.
                drop(self.desk.take_orders());
                return vec![Command::Answer(result)];
            }
            if !woken.0.load(Ordering::Relaxed) {
                return self.desk.take_orders();
            }
        }
    }

    fn module(&self, from: &str, name: &str) -> Result<RuleModule, String> {
        self.book.module(from, name)
    }

    fn log(&mut self, line: LogLine) {
        let mut log = self.log.borrow_mut();
        let bytes = log.bytes.saturating_add(line.text.len() + LINE_BYTES);
        if bytes > log.bytes_max {
            log.left_out += 1;
        } else {
            log.bytes = bytes;
            let level = LEVELS[usize::from(line.level).min(LEVELS.len() - 1)];
            let node = line.rule.and_then(|rule| self.desk.node_of(rule));
            log.write(level, &line.text, node.as_ref(), None);
            let at = log.begun.elapsed();
            let text = line.text;
            log.lines.push(NodeLine {
                node,
                at,
                level,
                text,
            });
        }
    }
}
