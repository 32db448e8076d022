//! What a connection has prepared.

use std::{collections::HashMap, sync::Arc};

use bytes::BytesMut;

use crate::{Column, PgError, protocol::write_prepare};

/// Statements that a connection keeps prepared; the one not used for longest makes room for another.
const PREPARED_MAX: usize = 256;

/// What is known of a statement under the name that the server has for it.
pub(crate) trait Named: Clone {
    fn name(&self) -> &str;
}

/// A statement that the server has prepared, on a connection that one task or thread has to itself.
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

/// The statements of one connection, by their texts.
#[derive(Debug)]
pub(crate) struct PreparedBook<S> {
    known: HashMap<Arc<str>, Kept<S>>,
    /// Names that were given, and uses.
    count: u64,
}

#[derive(Debug)]
struct Kept<S> {
    statement: S,
    /// When it was used last, as a number that grows with each use.
    used: u64,
}

impl<S> Default for PreparedBook<S> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            count: 0,
        }
    }
}

impl<S: Named> PreparedBook<S> {
    /// The one with this text.
    pub(crate) fn find(&mut self, text: &str) -> Option<S> {
        self.count += 1;
        let known = self.known.get_mut(text)?;
        known.used = self.count;
        Some(known.statement.clone())
    }

    /// Writes that a statement is to be prepared, under a name that none has had, which is given. Where there are as many as may be another one is closed before, and known no more.
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
        self.known.insert(text.into(), Kept { statement, used });
    }

    /// Has one prepared anew when it is used next, if it is the one that is meant.
    pub(crate) fn forget(&mut self, text: &str, is_meant: impl FnOnce(&S) -> bool) {
        if self.known.get(text).is_some_and(|kept| is_meant(&kept.statement)) {
            self.known.remove(text);
        }
    }
}

impl PreparedBook<Prepared> {
    /// The server has prepared one.
    pub(crate) fn learn(&mut self, text: &str, name: Arc<str>, columns: Vec<Column>) -> Prepared {
        let prepared = Prepared {
            name,
            columns: columns.into(),
        };
        self.insert(text, prepared.clone());
        prepared
    }
}
