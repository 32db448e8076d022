//! Where the answer to one statement arrives.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
};

use crate::{
    Column, PgError, Row,
    prepared::Named,
    timing::{Reached, Timing},
};

/// A statement that waits for its answer.
#[derive(Default)]
pub(super) struct Slot {
    /// How large its result may be.
    result_bytes_max: usize,
    rows: RefCell<Vec<Row>>,
    bytes: Cell<usize>,
    outcome: RefCell<Option<Result<u64, PgError>>>,
    waker: RefCell<Option<Waker>>,
    is_abandoned: Cell<bool>,
    is_exposed: Cell<bool>,
    is_over: Cell<bool>,
    pub(super) timing: Timing,
}

impl Slot {
    pub(super) fn new(result_bytes_max: usize, timing: Timing) -> Self {
        Self {
            result_bytes_max,
            timing,
            ..Self::default()
        }
    }

    /// Nobody waits any more: rows are dropped as they come.
    pub(super) fn abandon(&self) {
        self.is_abandoned.set(true);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.get()
    }

    /// Another statement of its connection is cancelled while it is on the connection too.
    pub(super) fn expose(&self) {
        self.is_exposed.set(true);
    }

    pub(super) fn is_exposed(&self) -> bool {
        self.is_exposed.get()
    }

    /// Whether the server has done with it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Keeps a row, unless nobody waits for it or the result becomes too large: then nobody waits from here on.
    pub(super) fn push(&self, row: Row) {
        self.timing.reach(Reached::Answered);
        if self.is_abandoned() {
            return;
        }
        let bytes = self.bytes.get() + row.bytes();
        self.bytes.set(bytes);
        if bytes > self.result_bytes_max {
            self.abandon();
            self.rows.take();
            self.tell(Err(PgError::TooLarge {
                result_bytes_max: self.result_bytes_max,
            }));
        } else {
            self.rows.borrow_mut().push(row);
        }
    }

    /// The server has done with it, or the connection has ended.
    pub(super) fn finish(&self, outcome: Result<u64, PgError>) {
        self.is_over.set(true);
        self.timing.reach(Reached::Answered);
        self.timing.reach(Reached::Decoded);
        self.tell(outcome);
    }

    /// The first outcome counts.
    fn tell(&self, outcome: Result<u64, PgError>) {
        self.outcome.borrow_mut().get_or_insert(outcome);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Resolves when it has an outcome.
    pub(super) async fn over(&self) {
        poll_fn(|context| {
            if self.outcome.borrow().is_some() {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Resolves with its rows and how many are affected.
    pub(super) async fn outcome(&self) -> Result<(Vec<Row>, u64), PgError> {
        self.over().await;
        self.take_outcome().expect("it is there")
    }

    /// The same, if it has an outcome by now.
    pub(super) fn take_outcome(&self) -> Option<Result<(Vec<Row>, u64), PgError>> {
        let outcome = self.outcome.borrow_mut().take()?;
        Some(outcome.map(|affected| (self.rows.take(), affected)))
    }
}

/// A statement that a connection has prepared, or is preparing: those that run it are sent right behind.
pub(super) struct Statement {
    pub(super) text: Arc<str>,
    pub(super) name: Arc<str>,
    columns: RefCell<Option<Result<Arc<[Column]>, PgError>>>,
    is_exposed: Cell<bool>,
}

impl Named for Rc<Statement> {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Statement {
    pub(super) fn new(text: &str, name: Arc<str>) -> Self {
        Self {
            text: text.into(),
            name,
            columns: RefCell::default(),
            is_exposed: Cell::new(false),
        }
    }

    pub(super) fn expose(&self) {
        self.is_exposed.set(true);
    }

    pub(super) fn is_exposed(&self) -> bool {
        self.is_exposed.get()
    }

    pub(super) fn finish(&self, outcome: Result<Arc<[Column]>, PgError>) {
        *self.columns.borrow_mut() = Some(outcome);
    }

    /// Its columns, known before the first that runs it is over.
    pub(super) fn columns(&self) -> Result<Arc<[Column]>, PgError> {
        self.columns.borrow().clone().unwrap_or_else(|| {
            Err(PgError::Protocol {
                reason: "no description of a statement".into(),
            })
        })
    }

    /// Why it could not be prepared.
    pub(super) fn failure(&self) -> Option<PgError> {
        self.columns.borrow().as_ref()?.as_ref().err().cloned()
    }
}
