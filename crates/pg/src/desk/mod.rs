//! What handlers do with databases, one operation after another: JSON goes in, JSON comes out. Scripts and workers have it alike.
//!
//! | operation | outcome |
//! |---|---|
//! | `{"op":"statements","source":"main","statements":[["select $1",["1"]],...]}` | `[{"rows":[{...}],"count":1},{"error":{...}},...]` |
//!
//! Parameters are text or `null`. Every operation may come to `{"error":{"code":"...","message":"..."}}` instead: `code` is an SQLSTATE or one of the words of [`DeskError::code`] and of `PgError`.

mod error;
mod operation;
mod write;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use futures_util::future::join_all;

use crate::Source;
pub use error::DeskError;
use operation::Operation;
pub use operation::Statement;

/// What one call of a handler has open on databases. All of it ends with this: transactions are rolled back.
#[derive(Debug)]
pub struct Desk {
    sources: Arc<BTreeMap<String, Source>>,
}

impl Desk {
    /// One for a handler that may reach these databases.
    pub fn new(sources: Arc<BTreeMap<String, Source>>) -> Self {
        Self { sources }
    }

    /// Does an operation, until `deadline`; what goes wrong is its outcome. The task is one of a thread's [`tokio::task::LocalSet`]. Operations may be under way at the same time, and one that nobody waits for any more is
    /// given up when its future is dropped.
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

    async fn perform(&self, operation: Operation, deadline: Instant) -> Result<Vec<u8>, DeskError> {
        match operation {
            Operation::Statements(it) => {
                let source = source(&self.sources, &it.source)?;
                Ok(run_statements(source, &it.statements, deadline).await)
            }
        }
    }
}

/// The database of a name, if it is one of these, and else why not.
pub fn source<'s>(sources: &'s BTreeMap<String, Source>, name: &str) -> Result<&'s Source, DeskError> {
    sources.get(name).ok_or_else(|| DeskError::NotAllowed {
        name: name.to_owned(),
        allowed: sources.keys().cloned().collect(),
    })
}

/// The operation `statements`, for those who have its parts: statements that are sent without waiting for each other, and the outcome of each.
pub async fn run_statements(source: &Source, statements: &[Statement], deadline: Instant) -> Vec<u8> {
    let run = async |statement: &Statement| {
        let parameters = statement.parameters();
        source.query(&statement.text, &parameters, deadline).await
    };
    let mut out = vec![b'['];
    for (index, outcome) in join_all(statements.iter().map(run)).await.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match outcome {
            Ok(rows) => write::rows(rows, &mut out),
            Err(error) => write::pg_error(error, source.name(), &mut out),
        }
    }
    out.push(b']');
    out
}
