//! Streamed responses of SQL routes: any number of rows, sent as they arrive.

use std::{future::poll_fn, pin::pin, task::Poll, time::Instant};

use forebay_pg::{PgError, Row, RowStream, Source, json::Numbers, write_csv_names};

use crate::{
    failure::{Refusal, SqlFailure},
    front::Client,
    target::{
        body_stream::{BodyStream, NextPiece, Piece},
        pending::wait_for,
    },
};

/// Bytes collected before they are sent. Less is sent when the next row has not arrived yet.
const PART_BYTES: usize = 32 * 1024;

/// How rows are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Array,
    Ndjson,
    Csv,
}

impl Form {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Array => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

/// The rest of a streamed response. In memory are at most one part and one read from the database.
#[derive(Debug)]
pub(crate) struct SqlStream {
    rows: RowStream,
    source: Source,
    form: Form,
    deadline: Instant,
    /// Rows written so far.
    written: u64,
}

impl SqlStream {
    pub(super) fn new(rows: RowStream, source: Source, form: Form, deadline: Instant) -> Self {
        Self {
            rows,
            source,
            form,
            deadline,
            written: 0,
        }
    }

    /// Assembles the next part; true if it is the last. The future may be dropped while it waits, since it waits only before anything is
    /// written to the part.
    async fn part(&mut self) -> Result<(Vec<u8>, bool), PgError> {
        let mut out = Vec::with_capacity(PART_BYTES + PART_BYTES / 8);
        let first = self.rows.next().await?;
        if self.written == 0 {
            self.begin(&mut out);
        }
        let Some(first) = first else {
            self.end(&mut out);
            return Ok((out, true));
        };
        self.write(&first, &mut out);
        while out.len() < PART_BYTES {
            match self.come().await? {
                None => break,
                Some(Some(row)) => self.write(&row, &mut out),
                Some(None) => {
                    self.end(&mut out);
                    return Ok((out, true));
                }
            }
        }
        Ok((out, false))
    }

    /// The next row or the end, if it has arrived already.
    async fn come(&mut self) -> Result<Option<Option<Row>>, PgError> {
        let mut next = pin!(self.rows.next());
        poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(next) => Poll::Ready(next.map(Some)),
            Poll::Pending => Poll::Ready(Ok(None)),
        })
        .await
    }

    fn begin(&self, out: &mut Vec<u8>) {
        match self.form {
            Form::Array => out.push(b'['),
            Form::Ndjson => {}
            Form::Csv => write_csv_names(self.rows.columns(), out),
        }
    }

    fn write(&mut self, row: &Row, out: &mut Vec<u8>) {
        let columns = self.rows.columns();
        match self.form {
            Form::Array => {
                if self.written > 0 {
                    out.push(b',');
                }
                row.write_object(columns, Numbers::Exact, out);
            }
            Form::Ndjson => {
                row.write_object(columns, Numbers::Exact, out);
                out.push(b'\n');
            }
            Form::Csv => row.write_csv(out),
        }
        self.written += 1;
    }

    fn end(&self, out: &mut Vec<u8>) {
        if self.form == Form::Array {
            out.push(b']');
        }
    }
}

impl BodyStream for SqlStream {
    /// Sends the head along with the first rows: an invalid statement has failed before this point.
    fn has_piece(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(async {
            let deadline = self.deadline;
            let part = wait_for(self.part(), deadline, client).await?;
            let (bytes, end) =
                part.map_err(|error| Refusal::Sql(SqlFailure::new(&self.source, None, error)))?;
            Ok(Piece::new(bytes, end))
        })
    }
}
