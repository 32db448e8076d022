//! Answers that are sent as their rows come, however many there are.

use std::{future::poll_fn, pin::pin, task::Poll, time::Instant};

use bytes::Bytes;
use forebay_pg::{PgError, Row, RowStream, Source, json::Numbers, write_csv_names};

use crate::{
    failure::{Refusal, SqlFailure},
    front::{RequestBody, Socket, Stream},
    target::{
        End,
        streamed::{Piece, Streamed},
        waiting::wait_for,
    },
};

/// Bytes that are put together before they are sent; what has come is sent earlier where more is to be waited for.
const PART_BYTES: usize = 32 * 1024;

/// How rows are written.
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

/// The rest of an answer. What is in memory is one part, and what one read from the server has brought.
#[derive(Debug)]
pub(crate) struct SqlStream {
    rows: RowStream,
    source: Source,
    form: Form,
    deadline: Instant,
    /// Rows that were written.
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

    /// Puts a part together; whether it is the last. It may be dropped and asked again only where nothing was written: a part has either nothing in it yet, or is given at once.
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

    /// The next row, or the end, if it has come.
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

impl Streamed for SqlStream {
    fn announced(&self) -> Option<u64> {
        None
    }

    /// What is wrong with a statement shows before its answer begins, and with that its first rows.
    fn has_piece(&self) -> bool {
        true
    }

    async fn next<S: Stream>(&mut self, _: &mut RequestBody, socket: &mut Socket<S>) -> Result<Piece, End> {
        let deadline = self.deadline;
        let part = wait_for(self.part(), deadline, socket).await?;
        let (bytes, end) = part.map_err(|error| Refusal::Sql(SqlFailure::new(&self.source, None, error)))?;
        Ok(Piece {
            bytes: Bytes::from(bytes),
            end,
            windowed: false,
        })
    }

    fn grant(&self, _: &Piece) {}
}
