//! What a connection that one task has to itself has prepared.

use std::{collections::HashMap, sync::Arc};

use crate::Column;

/// Statements that a connection keeps prepared; the one not used for longest makes room for another.
pub(crate) const PREPARED_MAX: usize = 256;

/// A statement that the server has prepared.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) name: Arc<str>,
    pub(crate) columns: Arc<[Column]>,
    /// When it was used last.
    used: u64,
}

/// The statements of one connection, by their texts.
#[derive(Debug, Default)]
pub(crate) struct PreparedBook {
    known: HashMap<Arc<str>, Prepared>,
    /// Names that were given, and uses.
    count: u64,
}

impl PreparedBook {
    /// The one with this text.
    pub(crate) fn find(&mut self, text: &str) -> Option<Prepared> {
        self.count += 1;
        let known = self.known.get_mut(text)?;
        known.used = self.count;
        Some(known.clone())
    }

    /// A name that no statement has had, and the one to be closed to make room: it is known no more.
    pub(crate) fn make_room(&mut self) -> (Arc<str>, Option<Arc<str>>) {
        self.count += 1;
        let name = format!("s{}", self.count).into();
        if self.known.len() < PREPARED_MAX {
            return (name, None);
        }
        let oldest = self
            .known
            .iter()
            .min_by_key(|(_, prepared)| prepared.used)
            .map(|(text, _)| Arc::clone(text));
        let closed = oldest.and_then(|text| self.known.remove(&text));
        (name, closed.map(|prepared| prepared.name))
    }

    pub(crate) fn insert(&mut self, text: &str, name: Arc<str>, columns: Arc<[Column]>) -> Prepared {
        let prepared = Prepared {
            name,
            columns,
            used: self.count,
        };
        self.known.insert(text.into(), prepared.clone());
        prepared
    }

    /// Has it prepared anew when it is used next.
    pub(crate) fn forget(&mut self, text: &str) {
        self.known.remove(text);
    }
}
