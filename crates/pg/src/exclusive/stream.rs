//! Rows as they come.

use std::{sync::Arc, time::Instant};

use super::Lease;
use crate::{Column, PgError, Row, Stage, source::whole_ms};

/// The rows of one statement, on a connection of its own: what is in memory is what one read has brought, however large the result is and however slowly it is read.
///
/// When it is dropped before its end the statement is ended, and the connection used for others.
#[derive(Debug)]
pub struct RowStream {
    lease: Lease,
    columns: Arc<[Column]>,
    deadline: Instant,
}

impl RowStream {
    pub(crate) async fn open(
        mut lease: Lease,
        text: &str,
        parameters: &[Option<&[u8]>],
        deadline: Instant,
    ) -> Result<Self, PgError> {
        let columns = match lease.connection().open(text, parameters).await {
            Err(error) if error.is_stale() => {
                lease.connection().interrupt().await?;
                lease.connection().open(text, parameters).await?
            }
            opened => opened?,
        };
        Ok(Self {
            lease,
            columns,
            deadline,
        })
    }

    /// What each value of a row is.
    pub fn columns(&self) -> &Arc<[Column]> {
        &self.columns
    }

    /// Has what follows take until another time.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// The next row; none after the last. It may be dropped and asked again.
    pub async fn next(&mut self) -> Result<Option<Row>, PgError> {
        let begun = Instant::now();
        let row = tokio::time::timeout_at(self.deadline.into(), self.lease.connection().row()).await;
        let row = row.unwrap_or(Err(PgError::TimedOut {
            what: Stage::Statement,
            limit: whole_ms(self.deadline, begun),
        }))?;
        match row {
            Some(row) if row.len() != self.columns.len() => Err(PgError::Protocol {
                reason: format!("a row of {} values, not {}", row.len(), self.columns.len()),
            }),
            row => Ok(row),
        }
    }
}
