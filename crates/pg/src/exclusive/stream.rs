//! Rows as they come.

use std::{sync::Arc, time::Instant};

use super::Lease;
use crate::{Column, PgError, Row, Source, Stage, counts::Counting, source::within};

/// The rows of one statement, on a connection of its own: what is in memory is what one read has brought, however large the result is and however slowly it is read.
///
/// When it is dropped before its end the statement is ended, and the connection used for others.
#[derive(Debug)]
pub struct RowStream {
    lease: Lease,
    columns: Arc<[Column]>,
    deadline: Instant,
    counting: Option<Counting<'static, Source>>,
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
            counting: None,
        })
    }

    /// Has it counted, until its end.
    pub(crate) fn counted(mut self, counting: Counting<'static, Source>) -> Self {
        self.counting = Some(counting);
        self
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
        let next = self.take().await;
        match (&next, &mut self.counting) {
            (Ok(Some(_)), Some(counting)) => counting.gives(1),
            (Ok(None), counting) => {
                if let Some(mut counting) = counting.take() {
                    counting.done();
                }
            }
            (Err(error), counting) => {
                if let Some(mut counting) = counting.take() {
                    counting.fail(error);
                }
            }
            (Ok(Some(_)), None) => {}
        }
        next
    }

    async fn take(&mut self) -> Result<Option<Row>, PgError> {
        if let Some(row) = self.lease.connection().come() {
            return self.checked(row).map(Some);
        }
        let row = within(self.deadline, Stage::Statement, self.lease.connection().row()).await?;
        row.map(|row| self.checked(row)).transpose()
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
