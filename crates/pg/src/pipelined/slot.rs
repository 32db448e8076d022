//! Receives the answer to one statement.

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

/// A statement waiting for its answer.
#[derive(Default)]
pub(super) struct Slot {
    /// Largest result, in bytes.
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

    /// Marks the statement as abandoned: its rows are dropped as they arrive.
    pub(super) fn abandon(&self) {
        self.is_abandoned.set(true);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.get()
    }

    /// Records that another statement is being cancelled while this one is on the connection.
    pub(super) fn expose(&self) {
        self.is_exposed.set(true);
    }

    pub(super) fn is_exposed(&self) -> bool {
        self.is_exposed.get()
    }

    /// Whether the server has finished it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Stores a row, unless the statement is abandoned or the result becomes too large, which abandons it.
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

    /// Records the outcome: the server has finished it, or the connection has ended.
    pub(super) fn finish(&self, outcome: Result<u64, PgError>) {
        self.is_over.set(true);
        self.timing.reach(Reached::Answered);
        self.timing.reach(Reached::Decoded);
        self.tell(outcome);
    }

    /// Keeps the first outcome.
    fn tell(&self, outcome: Result<u64, PgError>) {
        self.outcome.borrow_mut().get_or_insert(outcome);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Resolves once there is an outcome.
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

    /// Resolves to its rows and the number of rows affected.
    pub(super) async fn outcome(&self) -> Result<(Vec<Row>, u64), PgError> {
        self.over().await;
        self.take_outcome().expect("it is there")
    }

    /// The outcome, if there is one by now.
    pub(super) fn take_outcome(&self) -> Option<Result<(Vec<Row>, u64), PgError>> {
        let outcome = self.outcome.borrow_mut().take()?;
        Some(outcome.map(|affected| (self.rows.take(), affected)))
    }
}

/// A statement that a connection has prepared or is preparing: runs of it are sent right behind.
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

    /// Its columns, known before its first run has finished.
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
