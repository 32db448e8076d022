//! Statements while they are being executed.

use std::{sync::Arc, time::Instant};

use crate::{
    Ask, Column, PgError, Row, Rows,
    counts::Placed,
    error::FailureOutcome,
    protocol::{Outcome, misplaced},
    statement::only_reads,
    timing::{Reached, Timing},
};

/// A statement to be executed.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) text: String,
    parameters: Vec<Option<Vec<u8>>>,
    timing: Timing,
    /// Time at which it got a connection.
    placed: Placed,
}

impl From<&Ask<'_>> for Statement {
    fn from(ask: &Ask<'_>) -> Self {
        Self {
            text: ask.text.to_owned(),
            parameters: ask
                .parameters
                .iter()
                .map(|value| value.map(<[u8]>::to_vec))
                .collect(),
            timing: ask.timing.clone(),
            placed: Arc::clone(&ask.placed),
        }
    }
}

impl Statement {
    pub(super) fn parameters(&self) -> Vec<Option<&[u8]>> {
        self.parameters.iter().map(Option::as_deref).collect()
    }

    /// Records that the statement has got a connection.
    pub(super) fn place(&self) {
        let _ = self.placed.set(Instant::now());
        self.timing.reach(Reached::Placed);
    }
}

/// A statement that has been sent.
#[derive(Debug)]
pub(super) struct Sent<'s> {
    statement: &'s Statement,
    columns: Arc<[Column]>,
    rows: Vec<Row>,
    bytes: usize,
    /// Another statement was to be cancelled while this one was on the connection.
    pub(super) is_exposed: bool,
    /// Its outcome is known; anything that still arrives is dropped.
    pub(super) is_over: bool,
}

/// Outcome of a statement.
#[derive(Debug)]
pub(super) enum Over {
    Told(Result<Rows, PgError>),
    /// It must be executed again.
    Refused(PgError),
}

impl<'s> Sent<'s> {
    pub(super) fn new(statement: &'s Statement, columns: Arc<[Column]>) -> Self {
        Self {
            statement,
            columns,
            rows: Vec::new(),
            bytes: 0,
            is_exposed: false,
            is_over: false,
        }
    }

    /// Records that its bytes have been handed to the operating system.
    pub(super) fn is_written(&self) {
        self.statement.timing.reach(Reached::Sent);
    }

    /// Stores a row; false if that makes the result too large, which drops it.
    pub(super) fn push(&mut self, row: Row, result_bytes_max: usize) -> bool {
        if self.is_over {
            return true;
        }
        self.statement.timing.reach(Reached::Answered);
        self.bytes += row.bytes();
        self.is_over = self.bytes > result_bytes_max;
        if self.is_over {
            self.rows = Vec::new();
        } else {
            self.rows.push(row);
        }
        !self.is_over
    }

    /// Handles the end of the statement; `None` if its outcome is already known.
    pub(super) fn over(&mut self, outcome: Result<Outcome, PgError>) -> Option<Over> {
        if std::mem::replace(&mut self.is_over, true) {
            return None;
        }
        self.statement.timing.reach(Reached::Answered);
        let rows = std::mem::take(&mut self.rows);
        let over = match outcome {
            Ok(Outcome::Run(affected)) => Over::Told(Rows::new(Arc::clone(&self.columns), rows, affected)),
            Ok(Outcome::Prepared(_)) => Over::Told(Err(misplaced())),
            Err(error) => match error.fate(self.is_exposed, || only_reads(&self.statement.text)) {
                FailureOutcome::Told(error) => Over::Told(Err(error)),
                FailureOutcome::Again(error) => Over::Refused(error),
            },
        };
        self.statement.timing.reach(Reached::Decoded);
        Some(over)
    }
}
