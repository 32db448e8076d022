//! A run of a graph as the course of a call: rules run in the call's engine, and the graph says which.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt::Write as _,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use forebay_script::{Course, Event, LogLine, Order, RuleOutcome, RunOrder, Ticket};
use forebay_workflow::{Before, Graph, Outcome, RuleCall, Rules, Run, run};
use serde_json::{Map, Value, value::RawValue};

use super::{book::Book, result::write_result};

/// What a rule has found out: JSON, an object.
type Values = Rc<str>;

/// A run that is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) book: Arc<Book>,
    pub(super) workflow: String,
    /// JSON, an object.
    pub(super) args: Box<RawValue>,
    /// Whether the result tells what each node has come to.
    pub(super) wants_trace: bool,
    /// Bytes that rules may log.
    pub(super) log_max: usize,
}

/// The course of one run.
pub(super) struct RunCourse {
    run: Pin<Box<dyn Future<Output = Run<Values, Reason>>>>,
    desk: Rc<Desk>,
    log: Log,
    wants_trace: bool,
}

/// Why a rule has failed: the error and where it was thrown.
#[derive(Clone, Debug)]
pub(super) struct Reason(Rc<str>);

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0.trim_end())
    }
}

/// What rules have logged.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) lines: Vec<LogLine>,
    bytes: usize,
    bytes_max: usize,
    /// Lines for which there was no room.
    pub(super) left_out: usize,
}

impl RunCourse {
    /// Begins a run; nothing is done before the first event.
    pub(super) fn new(wanted: Wanted) -> Self {
        let Wanted {
            book,
            workflow,
            args,
            wants_trace,
            log_max,
        } = wanted;
        let graph = book
            .workflow(&workflow)
            .map(|workflow| Arc::clone(&workflow.graph));
        let desk = Rc::new(Desk {
            book,
            args,
            last: Cell::new(0),
            orders: RefCell::default(),
            slots: RefCell::default(),
        });
        let own = Rc::clone(&desk);
        Self {
            run: Box::pin(async move {
                let graph = graph.expect("it was looked up before the call began");
                run(&graph, &*own, wants_trace).await
            }),
            desk,
            log: Log {
                bytes_max: log_max,
                ..Log::default()
            },
            wants_trace,
        }
    }
}

impl Course for RunCourse {
    fn go_on(&mut self, event: Event) -> Vec<Order> {
        match event {
            Event::Begun => {}
            Event::Ended { ticket, outcome } => self.desk.come(ticket, Came::Ended(outcome)),
            Event::Passed { ticket } => self.desk.come(ticket, Came::Passed),
        }
        let ended = self.run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut orders = self.desk.orders.take();
        if let Poll::Ready(run) = ended {
            orders.push(Order::Answer(write_result(&run, &self.log, self.wants_trace)));
        }
        orders
    }

    fn log(&mut self, line: LogLine) {
        self.log.bytes = self.log.bytes.saturating_add(line.text.len() + 1);
        if self.log.bytes > self.log.bytes_max {
            self.log.left_out += 1;
        } else {
            self.log.lines.push(line);
        }
    }
}

/// Where rules and times that were ordered come to the run.
struct Desk {
    book: Arc<Book>,
    args: Box<RawValue>,
    last: Cell<Ticket>,
    orders: RefCell<Vec<Order>>,
    slots: RefCell<HashMap<Ticket, Slot>>,
}

#[derive(Default)]
struct Slot {
    came: Option<Came>,
    waker: Option<Waker>,
}

enum Came {
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

impl Desk {
    fn order(&self, order: impl FnOnce(Ticket) -> Order) -> Ordered<'_> {
        let ticket = self.last.get() + 1;
        self.last.set(ticket);
        self.slots.borrow_mut().insert(ticket, Slot::default());
        self.orders.borrow_mut().push(order(ticket));
        Ordered { desk: self, ticket }
    }

    /// Something has come; nobody may wait for it any more.
    fn come(&self, ticket: Ticket, came: Came) {
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

    fn list(&self, over: &str, before: &Before<'_, Values, Values>) -> Result<Vec<Values>, String> {
        let mut path = over.split('.');
        let first = path.next().unwrap_or_default();
        let text: Option<&str> = match first {
            "args" => Some(self.args.get()),
            "last" => before.last.map(|last| &*last.values),
            "item" => before.item.map(|item| &**item),
            _ => {
                return Err(format!(
                    "`over` is `{over}`: it begins with `args`, `last` or `item`"
                ));
            }
        };
        let nothing = || format!("there is no list at `{over}`");
        let mut found: Value = text
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(nothing)?;
        for name in path {
            found = match found.get_mut(name) {
                Some(member) => member.take(),
                None => return Err(nothing()),
            };
        }
        match found {
            Value::Array(items) => Ok(items.iter().map(|item| item.to_string().into()).collect()),
            _ => Err(nothing()),
        }
    }
}

impl Rules for Desk {
    type Values = Values;
    type Item = Values;
    type Failure = Reason;

    async fn run(&self, call: RuleCall<'_, Values, Values>) -> Result<Outcome<Values>, Reason> {
        let Some(rule) = self.book.rule(call.rule) else {
            return Err(Reason(format!("there is no rule `{}`", call.rule).into()));
        };
        let ordered = self.order(|ticket| {
            Order::Run(RunOrder {
                ticket,
                rule: Arc::clone(rule),
                node: call.node.to_owned(),
                kind: call.kind,
                last: call.before.last.map(|last| RuleOutcome {
                    is_true: last.is_true,
                    values: last.values.to_string(),
                }),
                item: call.before.item.map(ToString::to_string),
            })
        });
        match ordered.came().await {
            Came::Ended(Ok(outcome)) => Ok(Outcome {
                is_true: outcome.is_true,
                values: outcome.values.into(),
            }),
            Came::Ended(Err(reason)) => Err(Reason(reason.into())),
            Came::Passed => unreachable!("a rule is no time"),
        }
    }

    async fn sleep(&self, time: Duration) {
        self.order(|ticket| Order::Pass { ticket, time }).came().await;
    }

    /// The member `case` of its values: text, or a number or truth as text.
    fn case(&self, values: &Values) -> Option<String> {
        let values: Map<String, Value> = serde_json::from_str(values).ok()?;
        match values.get("case")? {
            Value::String(case) => Some(case.clone()),
            case @ (Value::Number(_) | Value::Bool(_)) => Some(case.to_string()),
            _ => None,
        }
    }

    fn items(&self, over: &str, before: Before<'_, Values, Values>) -> Result<Vec<Values>, Reason> {
        self.list(over, &before).map_err(|reason| Reason(reason.into()))
    }

    /// An object with the values of each by its name.
    fn join(&self, parts: Vec<(&str, Values)>) -> Values {
        let mut joined = String::from("{");
        for (at, (name, values)) in parts.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            // Writing to a string does not fail.
            let _ = write!(joined, "{comma}{}:{values}", Value::from(*name));
        }
        joined.push('}');
        joined.into()
    }

    fn values(&self, written: &Map<String, Value>) -> Values {
        Value::Object(written.clone()).to_string().into()
    }

    fn graph(&self, workflow: &str) -> Option<Arc<Graph>> {
        let workflow = self.book.workflow(workflow)?;
        Some(Arc::clone(&workflow.graph))
    }
}
