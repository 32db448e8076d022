//! Cursors of handlers: results read in parts.

use std::{sync::Arc, time::Instant};

use tokio::sync::Mutex as Turns;

use super::{
    SqlSession, SqlSessionError, of,
    open::{Cursor, Declared, Streaming, turn},
    operation::{Fetch, Id, OpenCursor},
    transaction::shifted,
    write,
};
use crate::Rows;

/// Most rows per part.
const BATCH_MAX: usize = 10_000;
/// A part ends once its rows have this many bytes, even if more were requested.
const BATCH_BYTES: usize = 1 << 20;

impl SqlSession {
    /// `{"cursor":1,"rows":[...],"count":256}`; the cursor is `null` if these are all the rows.
    pub(super) async fn open_cursor(
        &self,
        it: &OpenCursor,
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let source = self.source(&it.source)?;
        if !(1..=BATCH_MAX).contains(&it.batch) {
            return Err(SqlSessionError::Malformed {
                reason: format!("`batch` is 1 to {BATCH_MAX}, not {}", it.batch),
            });
        }
        self.open.check_room()?;
        if let Some(id) = it.transaction {
            return self.declare(id, it, deadline).await;
        }
        let until = deadline.min(Instant::now() + source.settings().statement_timeout);
        let rows = source
            .stream(&it.statement.text, &it.statement.parameters(), until)
            .await;
        let mut streaming = Streaming {
            source: it.source.clone(),
            rows: rows.map_err(of(&it.source))?,
            batch: it.batch,
        };
        let part = streaming.part(deadline).await?;
        let id = (!part.is_last).then(|| {
            self.open
                .add_cursor(Cursor::Alone(Arc::new(Turns::new(streaming))))
        });
        Ok(part.written(id))
    }

    /// Opens a cursor in a transaction, which can execute other statements between its parts.
    async fn declare(&self, id: Id, it: &OpenCursor, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let mut turn = self.open.transaction(id, deadline).await?;
        turn.cursors += 1;
        let number = turn.cursors;
        let before = format!("declare c{number} no scroll cursor for ");
        let text = format!("{before}{}", it.statement.text);
        let source = turn.source.clone();
        let declared = turn
            .ready(id, deadline)?
            .query_own(&text, &it.statement.parameters())
            .await;
        declared.map_err(|error| of(&source)(shifted(error, before.len())))?;
        drop(turn);
        let declared = Arc::new(Declared {
            transaction: id,
            number,
            batch: it.batch,
        });
        let part = self.part_within(&declared, deadline).await?;
        let id = (!part.is_last).then(|| self.open.add_cursor(Cursor::Within(declared)));
        Ok(part.written(id))
    }

    /// Same result as opening the cursor.
    pub(super) async fn fetch(&self, it: &Fetch, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let part = match self.open.cursor(it.cursor)? {
            Cursor::Alone(streaming) => {
                let mut streaming = turn(Some(streaming), it.cursor, deadline).await?;
                streaming.part(deadline).await
            }
            Cursor::Within(declared) => self.part_within(&declared, deadline).await,
        };
        let is_over = part.as_ref().map_or(true, |part| part.is_last);
        if is_over {
            self.open.end_cursor(it.cursor);
        }
        Ok(part?.written((!is_over).then_some(it.cursor)))
    }

    async fn part_within(&self, declared: &Declared, deadline: Instant) -> Result<Part, SqlSessionError> {
        let Declared {
            transaction,
            number,
            batch,
        } = *declared;
        let mut turn = self.open.transaction(transaction, deadline).await?;
        let source = turn.source.clone();
        let transaction = turn.ready(transaction, deadline)?;
        let rows = transaction
            .query_own(&format!("fetch {batch} from c{number}"), &[])
            .await;
        let rows = rows.map_err(of(&source))?;
        let is_last = rows.rows.len() < batch;
        if is_last {
            let closed = transaction.query_own(&format!("close c{number}"), &[]).await;
            closed.map_err(of(&source))?;
        }
        Ok(Part::of(&rows, is_last))
    }

    /// Closes a cursor early; not an error if it has already ended.
    pub(super) async fn close_cursor(&self, id: Id, deadline: Instant) -> Result<(), SqlSessionError> {
        if let Some(Cursor::Within(declared)) = self.open.end_cursor(id)
            && let Ok(mut turn) = self.open.transaction(declared.transaction, deadline).await
        {
            let text = format!("close c{}", declared.number);
            let transaction = turn.ready(declared.transaction, deadline)?;
            // In a failed transaction the cursor is already gone; the failure is reported to the next operation.
            drop(transaction.query_own(&text, &[]).await);
        }
        Ok(())
    }
}

/// Some rows of a result.
struct Part {
    rows: Vec<u8>,
    is_last: bool,
}

impl Part {
    fn of(rows: &Rows, is_last: bool) -> Self {
        let mut out = Vec::new();
        write::members(rows, &mut out);
        Self { rows: out, is_last }
    }

    /// Writes the result; `id` names the cursor for further parts.
    fn written(self, id: Option<Id>) -> Vec<u8> {
        let id = id.map_or("null".to_owned(), |id| id.to_string());
        let mut out = format!("{{\"cursor\":{id},").into_bytes();
        out.extend_from_slice(&self.rows);
        out.push(b'}');
        out
    }
}

impl Streaming {
    async fn part(&mut self, deadline: Instant) -> Result<Part, SqlSessionError> {
        self.rows.set_deadline(deadline);
        let mut part = Rows {
            columns: Arc::clone(self.rows.columns()),
            rows: Vec::new(),
            affected: 0,
        };
        let mut bytes = 0;
        let is_last = loop {
            if part.rows.len() == self.batch || bytes >= BATCH_BYTES {
                break false;
            }
            match self.rows.next().await.map_err(of(&self.source))? {
                Some(row) => {
                    bytes += row.bytes();
                    part.rows.push(row);
                }
                None => break true,
            }
        };
        part.affected = part.rows.len() as u64;
        Ok(Part::of(&part, is_last))
    }
}
