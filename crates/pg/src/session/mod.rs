//! Database operations of handlers, for scripts and workers alike: a JSON request gives a JSON result.
//!
//! | operation | result |
//! |---|---|
//! | `{"op":"statements","source":"main","statements":[["select $1",["1"]],...]}`, with `"transaction":1` in that | `[{"rows":[{...}],"count":1},{"error":{...}},...]` |
//! | `{"op":"begin","source":"main","isolation":"serializable","read_only":true}`, the last two optional | `{"transaction":1}` |
//! | `{"op":"savepoint","source":"main","transaction":1}` | `{"savepoint":1}` |
//! | `{"op":"release","source":"main","transaction":1,"savepoint":1}`, or `rollback_to`; the savepoint is gone after either | `{}` |
//! | `{"op":"commit","source":"main","transaction":1}`, or `rollback` | `{}` |
//! | `{"op":"cursor","source":"main","statement":["select ...",[]],"batch":256}`, with `"transaction":1` in that | `{"cursor":1,"rows":[...],"count":256}`; `"cursor":null` with the last rows |
//! | `{"op":"fetch","source":"main","cursor":1}` | the same |
//! | `{"op":"copy_in","source":"main","text":"copy t from stdin"}`, with `"transaction":1` in that | `{"copy":1}` |
//! | `{"op":"copy_send","source":"main","copy":1,"text":"..."}`, or `"bytes":"\\x00ff"` | `{}`, once the server can accept more |
//! | `{"op":"copy_done","source":"main","copy":1}` | `{"count":1}` |
//! | `{"op":"copy_out","source":"main","text":"copy t to stdout"}`, with `"transaction":1` in that | `{"copy":1,"binary":false}` |
//! | `{"op":"copy_read","source":"main","copy":1}` | `{"text":"..."}`, or `{"bytes":"\\x00ff"}` for binary data; `{}` after the last |
//! | `{"op":"listen","source":"main","channel":"orders"}` | `{"listen":1}`, once no notification can be missed any more |
//! | `{"op":"hear","source":"main","listen":1,"wait_ms":15000}` | `{"heard":["payload",null]}`, `null` where notifications may be missing; empty if none arrives in time |
//! | `{"op":"close","source":"main","id":1}`, for a cursor, copy or listener | `{}` |
//!
//! Parameters are text or `null`. If columns have the type `bytea`, their names are listed next to the rows as
//! `"bytea":["name"]`. Every operation may instead return `{"error":{"code":"...","message":"..."}}`, where `code` is
//! an SQLSTATE or a word of [`SqlSessionError::code`].

mod copy;
mod cursor;
mod error;
mod listen;
mod open;
mod operation;
mod transaction;
mod write;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use crate::{Ask, PgError, Rows, Source};
pub use error::SqlSessionError;
use open::Open;
pub use operation::Statement;
use operation::{Id, Operation};
pub use write::pg_error as write_pg_error;

/// The open transactions, cursors, copies and listeners of one call of a handler. Dropping it closes them all and rolls
/// the transactions back.
#[derive(Debug)]
pub struct SqlSession {
    sources: Arc<BTreeMap<String, Source>>,
    open: Open,
}

impl SqlSession {
    /// Creates a session for a handler that may use these databases.
    pub fn new(sources: Arc<BTreeMap<String, Source>>) -> Self {
        Self {
            sources,
            open: Open::default(),
        }
    }

    /// Executes an operation, until `deadline`; an error becomes its result. Must run in a thread's
    /// [`tokio::task::LocalSet`]. Operations may run concurrently; those on the same transaction wait for each other,
    /// in the order in which they were first polled. Dropping the future gives the operation up.
    pub async fn call(&self, body: &[u8], deadline: Instant) -> Vec<u8> {
        let outcome = match Operation::parse(body) {
            Ok(operation) => self.perform(operation, deadline).await,
            Err(error) => Err(error),
        };
        outcome.unwrap_or_else(|error| {
            let mut out = Vec::new();
            write::error(&error, &mut out);
            out
        })
    }

    async fn perform(&self, operation: Operation, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        match operation {
            Operation::RunStatements(it) => match it.transaction {
                Some(id) => self.run_within(id, &it.statements, deadline).await,
                None => {
                    let source = self.source(&it.source)?;
                    let outcomes = run_statements(source, &it.statements, deadline).await;
                    Ok(write::outcomes(&outcomes, source.name()))
                }
            },
            Operation::Begin(it) => self.begin(&it, deadline).await,
            Operation::MakeSavepoint(it) => self.savepoint(&it, deadline).await,
            Operation::Release(it) => self.release(&it, deadline).await,
            Operation::RollbackTo(it) => self.rollback_to(&it, deadline).await,
            Operation::Commit(it) => self.commit(&it, deadline).await,
            Operation::Rollback(it) => self.rollback(&it, deadline).await,
            Operation::OpenCursor(it) => self.open_cursor(&it, deadline).await,
            Operation::Fetch(it) => self.fetch(&it, deadline).await,
            Operation::CopyIn(it) => self.copy_in(&it, deadline).await,
            Operation::CopySend(it) => self.copy_send(it, deadline).await,
            Operation::CopyDone(it) => self.copy_done(&it, deadline).await,
            Operation::CopyOut(it) => self.copy_out(&it, deadline).await,
            Operation::CopyRead(it) => self.copy_read(&it, deadline).await,
            Operation::Listen(it) => self.listen(&it, deadline).await,
            Operation::Hear(it) => self.hear(&it).await,
            Operation::Close(it) => {
                self.open.end_listener(it.id);
                self.close_cursor(it.id, deadline).await?;
                self.close_copy(it.id, deadline).await?;
                Ok(b"{}".to_vec())
            }
        }
    }

    fn source(&self, name: &str) -> Result<&Source, SqlSessionError> {
        source(&self.sources, name)
    }
}

/// Wraps an error of a database as an error of an operation.
fn of(database: &str) -> impl Fn(PgError) -> SqlSessionError {
    move |error| SqlSessionError::Pg {
        database: database.to_owned(),
        error,
    }
}

/// `{"name":1}`
fn number(name: &str, number: Id) -> Vec<u8> {
    format!("{{\"{name}\":{number}}}").into_bytes()
}

/// The database with that name; an error if it is not among the permitted ones.
pub fn source<'s>(sources: &'s BTreeMap<String, Source>, name: &str) -> Result<&'s Source, SqlSessionError> {
    sources.get(name).ok_or_else(|| SqlSessionError::NotAllowed {
        name: name.to_owned(),
        allowed: sources.keys().cloned().collect(),
    })
}

/// Executes the operation `statements`: pipelines its statements and returns the outcome of each.
async fn run_statements(
    source: &Source,
    statements: &[Statement],
    deadline: Instant,
) -> Vec<Result<Rows, PgError>> {
    let parameters: Vec<_> = statements.iter().map(Statement::parameters).collect();
    let asks = statements.iter().zip(&parameters);
    let asks = asks.map(|(Statement { text, .. }, parameters)| (&**text, &**parameters));
    source.pipeline(&Ask::together(asks), deadline).await
}
