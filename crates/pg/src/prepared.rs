//! Prepared statements of a connection.

use std::{collections::HashMap, sync::Arc};

use bytes::BytesMut;

use crate::{Column, PgError, protocol::write_prepare};

/// Most prepared statements per connection; the least recently used one makes room for another.
const PREPARED_MAX: usize = 256;

/// A prepared statement with its name on the server.
pub(crate) trait Named: Clone {
    fn name(&self) -> &str;
}

/// A prepared statement on a connection used exclusively by one task or thread.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) name: Arc<str>,
    pub(crate) columns: Arc<[Column]>,
}

impl Named for Prepared {
    fn name(&self) -> &str {
        &self.name
    }
}

/// The prepared statements of one connection, by text.
#[derive(Debug)]
pub(crate) struct PreparedStatements<S> {
    known: HashMap<Arc<str>, PreparedStatement<S>>,
    /// Number of names assigned plus number of uses.
    count: u64,
}

#[derive(Debug)]
struct PreparedStatement<S> {
    statement: S,
    /// Time of the last use, as a value of `count`.
    used: u64,
}

impl<S> Default for PreparedStatements<S> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            count: 0,
        }
    }
}

impl<S: Named> PreparedStatements<S> {
    /// The prepared statement with this text.
    pub(crate) fn find(&mut self, text: &str) -> Option<S> {
        self.count += 1;
        let known = self.known.get_mut(text)?;
        known.used = self.count;
        Some(known.statement.clone())
    }

    /// Writes the message that prepares a statement under a new name, which is returned. If the maximum is reached,
    /// another statement is closed and forgotten first.
    pub(crate) fn write(&mut self, text: &str, out: &mut BytesMut) -> Result<Arc<str>, PgError> {
        self.count += 1;
        let name: Arc<str> = format!("s{}", self.count).into();
        let oldest = if self.known.len() < PREPARED_MAX {
            None
        } else {
            self.known.iter().min_by_key(|(_, kept)| kept.used)
        };
        let closed = oldest.map(|(_, kept)| kept.statement.name());
        write_prepare(&name, text, closed, out)?;
        if let Some(text) = oldest.map(|(text, _)| Arc::clone(text)) {
            self.known.remove(&text);
        }
        Ok(name)
    }

    pub(crate) fn insert(&mut self, text: &str, statement: S) {
        let used = self.count;
        self.known
            .insert(text.into(), PreparedStatement { statement, used });
    }

    /// Makes the next use prepare the statement again, if `is_meant` confirms that it is the right one.
    pub(crate) fn forget(&mut self, text: &str, is_meant: impl FnOnce(&S) -> bool) {
        if self.known.get(text).is_some_and(|kept| is_meant(&kept.statement)) {
            self.known.remove(text);
        }
    }
}

impl PreparedStatements<Prepared> {
    /// Records a statement that the server has prepared.
    pub(crate) fn learn(&mut self, text: &str, name: Arc<str>, columns: Vec<Column>) -> Prepared {
        let prepared = Prepared {
            name,
            columns: columns.into(),
        };
        self.insert(text, prepared.clone());
        prepared
    }
}
