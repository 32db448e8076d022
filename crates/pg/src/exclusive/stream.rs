//! Results streamed row by row.

use std::{sync::Arc, time::Instant};

use super::Lease;
use crate::{Column, PgError, Row, Stage, source::within, timing::Timing, watch::Flow};

/// The rows of one statement, on a connection of its own. Memory holds only what one read has received, however large
/// the result and however slow its reader.
///
/// Dropping it early ends the statement and frees the connection for others.
#[derive(Debug)]
pub struct RowStream {
    lease: Lease,
    columns: Arc<[Column]>,
    deadline: Instant,
    /// Observes the statement until its end.
    flow: Option<Flow>,
}

impl RowStream {
    pub(crate) async fn open(
        mut lease: Lease,
        text: &str,
        parameters: &[Option<&[u8]>],
        deadline: Instant,
        timing: &Timing,
    ) -> Result<Self, PgError> {
        let columns = match lease.connection().open(text, parameters, timing).await {
            Err(error) if error.is_stale() => {
                lease.connection().interrupt().await?;
                lease.connection().open(text, parameters, timing).await?
            }
            opened => opened?,
        };
        Ok(Self {
            lease,
            columns,
            deadline,
            flow: None,
        })
    }

    /// Attaches the counters and trace that observe it until its end.
    pub(crate) fn watched(mut self, flow: Option<Flow>) -> Self {
        self.flow = flow;
        self
    }

    /// Columns of the result.
    pub fn columns(&self) -> &Arc<[Column]> {
        &self.columns
    }

    /// Changes the deadline for what follows.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Waits for the next row; `None` after the last. The future may be dropped and requested again.
    pub async fn next(&mut self) -> Result<Option<Row>, PgError> {
        let next = self.take().await;
        match (&next, &mut self.flow) {
            (Ok(Some(_)), Some(flow)) => flow.count(1),
            (Ok(None) | Err(_), flow) => drop(flow.take().map(|flow| flow.end(&next))),
            (Ok(Some(_)), None) => {}
        }
        next
    }

    async fn take(&mut self) -> Result<Option<Row>, PgError> {
        if let Some(row) = self.lease.connection().come() {
            return self.checked(row).map(Some);
        }
        if let Some(flow) = &mut self.flow {
            flow.asked();
        }
        let row = within(self.deadline, Stage::Statement, self.lease.connection().row()).await;
        if let Some(flow) = &mut self.flow {
            flow.was("server");
        }
        row?.map(|row| self.checked(row)).transpose()
    }

    fn checked(&self, row: Row) -> Result<Row, PgError> {
        if row.len() == self.columns.len() {
            return Ok(row);
        }
        Err(PgError::Protocol {
            reason: format!("a row of {} values, not {}", row.len(), self.columns.len()),
        })
    }
}
