//! Tracks a run's pending rules, functions and timers.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use forebay_script::{Command, Rule, RuleOutcome, RunOrder, TaskId};
use forebay_workflow::NodeName;

use crate::metrics::WorkflowCounts;

/// Why a rule failed: the error, with its stack trace.
#[derive(Clone, Debug)]
pub(super) struct Reason(pub(in crate::target::workflow) Rc<str>);

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0.trim_end())
    }
}

impl From<String> for Reason {
    fn from(reason: String) -> Self {
        Self(reason.into())
    }
}

/// The error of a run that reaches its deadline while no rule is running.
pub(super) const LATE: &str = "the time of the run is over (timeout)";
/// Decisions made between two yields to other runs.
const DECISIONS_AT_ONCE: u32 = 16;

/// The pending tasks of one run.
pub(super) struct PendingTasks {
    /// Bytes returned by rules so far, and their limit.
    bytes: Cell<usize>,
    bytes_max: usize,
    deadline: Instant,
    counts: Arc<WorkflowCounts>,
    last: Cell<TaskId>,
    /// Number of decisions made without a rule.
    decided: Cell<u32>,
    orders: RefCell<Vec<Command>>,
    slots: RefCell<HashMap<TaskId, Slot>>,
}

#[derive(Default)]
struct Slot {
    /// The node whose rule it is.
    node: Option<NodeName>,
    came: Option<TaskEvent>,
    waker: Option<Waker>,
}

/// Completion of a task.
pub(super) enum TaskEvent {
    Ended(Result<RuleOutcome, String>),
    Passed,
}

/// A pending task, cancelled on drop.
struct Ordered<'d> {
    desk: &'d PendingTasks,
    ticket: TaskId,
}

impl Drop for Ordered<'_> {
    fn drop(&mut self) {
        if self.desk.slots.borrow_mut().remove(&self.ticket).is_some() {
            let ticket = self.ticket;
            self.desk.orders.borrow_mut().push(Command::Forget { ticket });
        }
    }
}

impl Ordered<'_> {
    async fn came(self) -> TaskEvent {
        poll_fn(|context| {
            let mut slots = self.desk.slots.borrow_mut();
            let slot = slots.entry(self.ticket).or_default();
            match slot.came.take() {
                Some(came) => {
                    slots.remove(&self.ticket);
                    Poll::Ready(came)
                }
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// A rule to run, its node and its input.
pub(super) struct Task<'t> {
    pub(super) rule: &'t Arc<Rule>,
    pub(super) node: &'t NodeName,
    pub(super) kind: &'static str,
    pub(super) last: Option<RuleOutcome>,
    pub(super) item: Option<String>,
    /// Time limit of its node.
    pub(super) time_max: Option<Duration>,
}

impl PendingTasks {
    /// For a run whose rules may return at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize, deadline: Instant, counts: Arc<WorkflowCounts>) -> Self {
        Self {
            bytes: Cell::new(0),
            bytes_max,
            deadline,
            counts,
            last: Cell::new(0),
            decided: Cell::new(0),
            orders: RefCell::default(),
            slots: RefCell::default(),
        }
    }

    /// When the run times out.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the run has timed out. Work without rules has to check this itself, because nothing interrupts it.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Counts bytes that the run holds; an error beyond the limit.
    pub(super) fn keep(&self, bytes: usize) -> Result<(), Reason> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() <= self.bytes_max {
            return Ok(());
        }
        let bytes_max = self.bytes_max;
        Err(format!("the rules of this run have given more than {bytes_max} bytes (output_max)").into())
    }

    /// Yields to other runs now and then; an error if the run has timed out.
    pub(super) async fn give_way(&self) -> Result<(), Reason> {
        if self.is_late() {
            return Err(LATE.to_owned().into());
        }
        self.decided.set(self.decided.get() + 1);
        if self.decided.get().is_multiple_of(DECISIONS_AT_ONCE) {
            self.sleep(Duration::ZERO).await;
        }
        Ok(())
    }

    /// The node of a rule that runs.
    pub(super) fn node_of(&self, ticket: TaskId) -> Option<NodeName> {
        self.slots.borrow().get(&ticket)?.node.clone()
    }

    fn order(&self, node: Option<&NodeName>, order: impl FnOnce(TaskId) -> Command) -> Ordered<'_> {
        let ticket = self.last.get() + 1;
        self.last.set(ticket);
        let slot = Slot {
            node: node.cloned(),
            ..Slot::default()
        };
        self.slots.borrow_mut().insert(ticket, slot);
        self.orders.borrow_mut().push(order(ticket));
        Ordered { desk: self, ticket }
    }

    /// Runs a rule in the engine and returns its outcome.
    pub(super) async fn run(&self, task: Task<'_>) -> Result<RuleOutcome, Reason> {
        let begun = Instant::now();
        let ordered = self.order(Some(task.node), |ticket| {
            Command::Run(RunOrder {
                ticket,
                rule: Arc::clone(task.rule),
                node: task.node.id.to_string(),
                kind: task.kind,
                last: task.last,
                item: task.item,
                time_max: task.time_max,
            })
        });
        match ordered.came().await {
            TaskEvent::Ended(outcome) => {
                let is_true = outcome.as_ref().ok().map(|outcome| outcome.is_true);
                self.counts.node(&task.node.id, is_true, begun.elapsed());
                let outcome = outcome.map_err(Reason::from)?;
                self.keep(outcome.values.len())?;
                Ok(outcome)
            }
            TaskEvent::Passed => unreachable!("a rule is no time"),
        }
    }

    /// Waits for `time`.
    pub(super) async fn sleep(&self, time: Duration) {
        self.order(None, |ticket| Command::Pass { ticket, time })
            .came()
            .await;
    }

    /// Completes a task; ignored if it has been cancelled.
    pub(super) fn come(&self, ticket: TaskId, came: TaskEvent) {
        let waker = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(&ticket) else {
                return;
            };
            slot.came = Some(came);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the commands for the engine that have accumulated.
    pub(super) fn take_orders(&self) -> Vec<Command> {
        self.orders.take()
    }
}
