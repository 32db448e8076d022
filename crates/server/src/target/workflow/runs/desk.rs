//! Where what a run has ordered comes to it: rules, functions and times.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use forebay_script::{Order, Rule, RuleOutcome, RunOrder, Ticket};

use crate::metrics::WorkflowCounts;

/// Why a rule has failed: the error and where it was thrown.
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

/// Why what goes on without rules ends.
pub(super) const LATE: &str = "the time of the run is over (timeout)";
/// So many decisions are made before others have their turn.
const DECISIONS_AT_ONCE: u32 = 16;

/// The orders of one run.
pub(super) struct Desk {
    /// Bytes that rules have given, and how many they may.
    bytes: Cell<usize>,
    bytes_max: usize,
    deadline: Instant,
    counts: Arc<WorkflowCounts>,
    last: Cell<Ticket>,
    /// Decisions that were made without a rule.
    decided: Cell<u32>,
    orders: RefCell<Vec<Order>>,
    slots: RefCell<HashMap<Ticket, Slot>>,
}

#[derive(Default)]
struct Slot {
    came: Option<Came>,
    waker: Option<Waker>,
}

/// What has come of an order.
pub(super) enum Came {
    Ended(Result<RuleOutcome, String>),
    Passed,
}

/// Something that was ordered; it is not wanted any more when this is dropped.
struct Ordered<'d> {
    desk: &'d Desk,
    ticket: Ticket,
}

impl Drop for Ordered<'_> {
    fn drop(&mut self) {
        if self.desk.slots.borrow_mut().remove(&self.ticket).is_some() {
            let ticket = self.ticket;
            self.desk.orders.borrow_mut().push(Order::Forget { ticket });
        }
    }
}

impl Ordered<'_> {
    async fn came(self) -> Came {
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

/// A rule that is to run, where, and with what.
pub(super) struct Task<'t> {
    pub(super) rule: &'t Arc<Rule>,
    pub(super) node: &'t str,
    pub(super) kind: &'static str,
    pub(super) last: Option<RuleOutcome>,
    pub(super) item: Option<String>,
    /// How long its node waits for it.
    pub(super) time_max: Option<Duration>,
}

impl Desk {
    /// Of a run whose rules may give so many bytes.
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

    /// How long a run may last.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether a run has lasted as long as it may: what goes on without rules asks, for nobody stops it.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Counts what a run keeps; an error where that is more than it may.
    pub(super) fn keep(&self, bytes: usize) -> Result<(), Reason> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() <= self.bytes_max {
            return Ok(());
        }
        let bytes_max = self.bytes_max;
        Err(format!("the rules of this run have given more than {bytes_max} bytes (output_max)").into())
    }

    /// Lets others go first, now and then; an error where the run has lasted as long as it may.
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

    fn order(&self, order: impl FnOnce(Ticket) -> Order) -> Ordered<'_> {
        let ticket = self.last.get() + 1;
        self.last.set(ticket);
        self.slots.borrow_mut().insert(ticket, Slot::default());
        self.orders.borrow_mut().push(order(ticket));
        Ordered { desk: self, ticket }
    }

    /// Has a rule run.
    pub(super) async fn run(&self, task: Task<'_>) -> Result<RuleOutcome, Reason> {
        let begun = Instant::now();
        let ordered = self.order(|ticket| {
            Order::Run(RunOrder {
                ticket,
                rule: Arc::clone(task.rule),
                node: task.node.to_owned(),
                kind: task.kind,
                last: task.last,
                item: task.item,
                time_max: task.time_max,
            })
        });
        match ordered.came().await {
            Came::Ended(outcome) => {
                let is_true = outcome.as_ref().ok().map(|outcome| outcome.is_true);
                self.counts.node(task.node, is_true, begun.elapsed());
                let outcome = outcome.map_err(Reason::from)?;
                self.keep(outcome.values.len())?;
                Ok(outcome)
            }
            Came::Passed => unreachable!("a rule is no time"),
        }
    }

    /// Resolves after so long.
    pub(super) async fn sleep(&self, time: Duration) {
        self.order(|ticket| Order::Pass { ticket, time }).came().await;
    }

    /// Something has come; nobody may wait for it any more.
    pub(super) fn come(&self, ticket: Ticket, came: Came) {
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

    /// What is to be done now.
    pub(super) fn take_orders(&self) -> Vec<Order> {
        self.orders.take()
    }
}
