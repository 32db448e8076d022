//! Bytes that are copied in and out.

use std::time::Instant;

use bytes::Bytes;

use super::Lease;
use crate::{PgError, Stage, protocol::Direction, source::within, statement::session_keyword};

/// Rows that are sent as bytes, as a statement `copy … from stdin` reads them, on a connection of its own. When it is dropped before it is finished nothing has been copied.
#[derive(Debug)]
pub struct CopyIn {
    lease: Lease,
    deadline: Instant,
}

impl CopyIn {
    pub(crate) async fn open(mut lease: Lease, text: &str, deadline: Instant) -> Result<Self, PgError> {
        let direction = lease.connection().copy(text).await?;
        check_in(direction)?;
        Ok(Self { lease, deadline })
    }

    /// Has what follows take until another time.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Sends bytes, which need not be whole rows, at the pace of the server. It is an error when the server has refused what came before.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        let send = self.lease.connection().copy_bytes(bytes);
        within(self.deadline, Stage::Statement, send).await
    }

    /// There are no more; gives the number of rows that were copied.
    pub async fn finish(mut self) -> Result<u64, PgError> {
        let done = self.lease.connection().copy_done();
        within(self.deadline, Stage::Statement, done).await
    }
}

/// Rows as bytes, as a statement `copy … to stdout` writes them, on a connection of its own. When it is dropped before its end the statement is ended.
#[derive(Debug)]
pub struct CopyOut {
    lease: Lease,
    deadline: Instant,
    is_binary: bool,
}

impl CopyOut {
    pub(crate) async fn open(mut lease: Lease, text: &str, deadline: Instant) -> Result<Self, PgError> {
        let direction = lease.connection().copy(text).await?;
        Ok(Self {
            is_binary: check_out(direction)?,
            lease,
            deadline,
        })
    }

    /// Whether what comes is no text.
    pub fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Has what follows take until another time.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// The next bytes, which are a row as a rule; none after the last. It may be dropped and asked again.
    pub async fn next(&mut self) -> Result<Option<Bytes>, PgError> {
        within(self.deadline, Stage::Statement, self.lease.connection().copied()).await
    }

    /// The same, if some are there already.
    pub fn next_already(&mut self) -> Option<Bytes> {
        self.lease.connection().copied_already()
    }
}

/// Whether a text is a statement that copies, as far as its first word tells.
pub(crate) fn check_copies(text: &str) -> Result<(), PgError> {
    if session_keyword(text) == Some("copy") {
        return Ok(());
    }
    Err(PgError::Unsendable {
        reason: "it is no `copy`".into(),
    })
}

pub(super) fn check_in(direction: Direction) -> Result<(), PgError> {
    match direction {
        Direction::In => Ok(()),
        Direction::Out { .. } => Err(PgError::Unsendable {
            reason: "it copies to `stdout`, not from `stdin`".into(),
        }),
    }
}

/// Whether what comes is no text.
pub(super) fn check_out(direction: Direction) -> Result<bool, PgError> {
    match direction {
        Direction::Out { is_binary } => Ok(is_binary),
        Direction::In => Err(PgError::Unsendable {
            reason: "it copies from `stdin`, not to `stdout`".into(),
        }),
    }
}
