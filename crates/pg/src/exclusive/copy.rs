//! Streams of COPY data, in and out.

use std::time::Instant;

use bytes::Bytes;

use super::{Connection, Lease};
use crate::{
    PgError, Stage, protocol::Direction, source::within, statement::session_keyword, timing::Timing,
    watch::Flow,
};

/// Sends rows as bytes in the format of a `copy … from stdin` statement, on a connection of its own. If it is dropped
/// before it is finished, nothing has been copied.
#[derive(Debug)]
pub struct CopyIn {
    lease: Lease,
    deadline: Instant,
    flow: Option<Flow>,
}

impl CopyIn {
    pub(crate) async fn open(
        mut lease: Lease,
        text: &str,
        deadline: Instant,
        timing: &Timing,
    ) -> Result<Self, PgError> {
        let direction = lease.connection().copy(text, timing).await?;
        check_in(direction)?;
        Ok(Self {
            lease,
            deadline,
            flow: None,
        })
    }

    /// Attaches the counters and trace that observe it until its end.
    pub(crate) fn watched(mut self, flow: Option<Flow>) -> Self {
        self.flow = flow;
        self
    }

    /// Changes the deadline for what follows.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Sends bytes, which need not be whole rows, at the pace of the server. An error if the server has rejected
    /// earlier data.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        asked(&mut self.flow);
        let send = self.lease.connection().copy_bytes(bytes);
        let sent = within(self.deadline, Stage::Statement, send).await;
        moved(&mut self.flow, "send", &sent);
        sent
    }

    /// Ends the data; returns the number of rows copied.
    pub async fn finish(mut self) -> Result<u64, PgError> {
        asked(&mut self.flow);
        let done = self.lease.connection().copy_done();
        let done = within(self.deadline, Stage::Statement, done).await;
        ended(&mut self.flow, &done);
        done
    }
}

/// Receives rows as bytes in the format of a `copy … to stdout` statement, on a connection of its own. Dropping it
/// early ends the statement.
#[derive(Debug)]
pub struct CopyOut {
    lease: Lease,
    deadline: Instant,
    is_binary: bool,
    flow: Option<Flow>,
}

impl CopyOut {
    pub(crate) async fn open(
        mut lease: Lease,
        text: &str,
        deadline: Instant,
        timing: &Timing,
    ) -> Result<Self, PgError> {
        let direction = lease.connection().copy(text, timing).await?;
        Ok(Self {
            is_binary: check_out(direction)?,
            lease,
            deadline,
            flow: None,
        })
    }

    /// Attaches the counters and trace that observe it until its end.
    pub(crate) fn watched(mut self, flow: Option<Flow>) -> Self {
        self.flow = flow;
        self
    }

    /// Whether the data is binary.
    pub fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Changes the deadline for what follows.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Waits for the next bytes, usually one row; `None` after the last. The future may be dropped and requested again.
    pub async fn next(&mut self) -> Result<Option<Bytes>, PgError> {
        let until = (self.deadline, Stage::Statement);
        take(self.lease.connection(), until, &mut self.flow).await
    }

    /// The next bytes, if they have already arrived.
    pub fn next_already(&mut self) -> Option<Bytes> {
        self.lease.connection().copied_already()
    }
}

/// Waits for the next copied-out bytes, up to a deadline.
pub(super) async fn take(
    connection: &mut Connection,
    (deadline, stage): (Instant, Stage),
    flow: &mut Option<Flow>,
) -> Result<Option<Bytes>, PgError> {
    if let Some(piece) = connection.copied_already() {
        return Ok(Some(piece));
    }
    asked(flow);
    let next = within(deadline, stage, connection.copied()).await;
    if let Ok(Some(_)) = next {
        moved(flow, "server", &next);
    } else {
        ended(flow, &next.clone().map(|_| connection.affected()));
    }
    next
}

/// Records that the reader or writer continues.
pub(super) fn asked(flow: &mut Option<Flow>) {
    if let Some(flow) = flow {
        flow.asked();
    }
}

/// Records that the time until now was spent on this part of the statement.
pub(super) fn moved<O>(flow: &mut Option<Flow>, part: &'static str, outcome: &Result<O, PgError>) {
    if let Some(flow) = flow {
        flow.was(part);
    }
    if outcome.is_err()
        && let Some(flow) = flow.take()
    {
        flow.end(outcome);
    }
}

/// Records the end of the statement and its number of rows.
pub(super) fn ended(flow: &mut Option<Flow>, outcome: &Result<u64, PgError>) {
    if let Some(mut flow) = flow.take() {
        flow.was("server");
        flow.count(*outcome.as_ref().unwrap_or(&0));
        flow.end(outcome);
    }
}

/// Fails unless the first word of the statement is `copy`.
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

/// Whether the data is binary; an error if the statement copies in.
pub(super) fn check_out(direction: Direction) -> Result<bool, PgError> {
    match direction {
        Direction::Out { is_binary } => Ok(is_binary),
        Direction::In => Err(PgError::Unsendable {
            reason: "it copies from `stdin`, not to `stdout`".into(),
        }),
    }
}
