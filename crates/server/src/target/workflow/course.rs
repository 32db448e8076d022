//! A run as the course of a call: what is to run runs in the call's engine, and a graph or a decision says which.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use forebay_script::{Course, Event, LogLine, Order};
use forebay_workflow::run;
use serde_json::value::RawValue;

use super::{
    book::{Book, Plan},
    decisions::DecisionDesk,
    desk::{Came, Desk},
    result::{write_evaluation, write_run},
    rules::RuleDesk,
};

/// A run that is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) book: Arc<Book>,
    pub(super) plan: Plan,
    /// JSON, an object.
    pub(super) args: Box<RawValue>,
    /// Whether the result tells what each node has come to.
    pub(super) wants_trace: bool,
    /// Bytes that rules may log.
    pub(super) log_max: usize,
}

/// The course of one run.
pub(super) struct RunCourse {
    /// Gives the result, as JSON.
    run: Pin<Box<dyn Future<Output = Vec<u8>>>>,
    desk: Rc<Desk>,
    log: Rc<RefCell<Log>>,
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
            plan,
            args,
            wants_trace,
            log_max,
        } = wanted;
        let desk = Rc::<Desk>::default();
        let log = Rc::new(RefCell::new(Log {
            bytes_max: log_max,
            ..Log::default()
        }));
        let (own, its_log) = (Rc::clone(&desk), Rc::clone(&log));
        Self {
            run: Box::pin(async move {
                match plan {
                    Plan::Graph(graph) => {
                        let rules = RuleDesk::new(&own, &book, &args);
                        let run = run(&graph, &rules, wants_trace).await;
                        write_run(&run, &its_log.borrow(), wants_trace)
                    }
                    Plan::Decision(decision) => {
                        let functions = DecisionDesk::new(&own, &book);
                        let input = serde_json::from_str(args.get()).unwrap_or_default();
                        let evaluation = decision.evaluate(input, &functions, wants_trace).await;
                        write_evaluation(&evaluation, &its_log.borrow(), wants_trace)
                    }
                }
            }),
            desk,
            log,
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
        let mut orders = self.desk.take_orders();
        if let Poll::Ready(result) = ended {
            orders.push(Order::Answer(result));
        }
        orders
    }

    fn log(&mut self, line: LogLine) {
        let mut log = self.log.borrow_mut();
        log.bytes = log.bytes.saturating_add(line.text.len() + 1);
        if log.bytes > log.bytes_max {
            log.left_out += 1;
        } else {
            log.lines.push(line);
        }
    }
}
