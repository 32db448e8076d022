//! What one transaction has read from the database. Its state does not change meanwhile, so nothing is read twice.

use std::{
    cell::RefCell,
    collections::{BTreeMap, btree_map},
    fmt,
    ops::Bound,
};

use elsa::FrozenVec;
use forebay_pg::Row;

pub(super) use crate::read::key_after as after;

/// Records that have been read, and the ranges of keys in which there are no others.
#[derive(Default)]
pub(super) struct Known {
    /// In the order of reading. It only grows, so that records can be lent for as long as the transaction lives.
    records: FrozenVec<Box<Stored>>,
    index: RefCell<Index>,
}

#[derive(Debug, Default)]
struct Index {
    /// Position in `records` of each key.
    keys: BTreeMap<Box<[u8]>, usize>,
    /// Ranges `from..to`, which neither overlap nor touch, by their beginnings.
    ranges: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

/// A record: a row of two values, key and value, the first of which is in this column.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) row: Row,
    pub(super) column: usize,
}

/// Result of a search.
pub(super) enum Lookup<'k> {
    Found(&'k Stored),
    /// There is none.
    Nothing,
    /// Unknown from this key on, or before it.
    Unknown(Vec<u8>),
}

impl fmt::Debug for Known {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.index.borrow();
        out.debug_struct("Known")
            .field("records", &index.keys.len())
            .field("bytes", &index.bytes)
            .finish_non_exhaustive()
    }
}

impl Stored {
    /// Whether its value was too long to be read along with others.
    pub(super) fn is_long(&self) -> bool {
        self.row.text(self.column + 1).is_none()
    }

    pub(super) fn key(&self) -> &[u8] {
        self.row.text(self.column).unwrap_or_default()
    }

    pub(super) fn value(&self) -> &[u8] {
        self.row.text(self.column + 1).unwrap_or_default()
    }
}

impl Known {
    /// Bytes of the records.
    pub(super) fn bytes(&self) -> usize {
        self.index.borrow().bytes
    }

    /// Adds all records in `from..to`.
    pub(super) fn add(&self, from: &[u8], to: &[u8], records: impl IntoIterator<Item = Stored>) {
        let mut index = self.index.borrow_mut();
        for stored in records {
            if index.keys.contains_key(stored.key()) {
                continue;
            }
            index.bytes += stored.key().len() + stored.value().len();
            index.keys.insert(stored.key().into(), self.records.len());
            self.records.push(Box::new(stored));
        }
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from.to_vec(), to.to_vec());
        while let Some((begin, end)) = index
            .last_range(Bound::Included(&to))
            .filter(|(_, end)| *end >= from)
        {
            index.ranges.remove(&begin);
            from = from.min(begin);
            to = to.max(end);
        }
        index.ranges.insert(from, to);
    }

    /// The record with a key.
    pub(super) fn get(&self, key: &[u8]) -> Lookup<'_> {
        match self.ahead(key, &after(key)) {
            Lookup::Found(stored) if stored.key() != key => Lookup::Nothing,
            found => found,
        }
    }

    /// The first record in `from..to`.
    pub(super) fn ahead(&self, from: &[u8], to: &[u8]) -> Lookup<'_> {
        let index = self.index.borrow();
        let Some((_, end)) = index
            .last_range(Bound::Included(from))
            .filter(|(_, end)| &**end > from)
        else {
            return Lookup::Unknown(from.to_vec());
        };
        let until = to.min(&end);
        let first = index.position(from, until, Iterator::next);
        match first.and_then(|at| self.records.get(at)) {
            Some(stored) => Lookup::Found(stored),
            None if &*end >= to => Lookup::Nothing,
            None => Lookup::Unknown(end),
        }
    }

    /// The last record in `from..to`.
    pub(super) fn back(&self, from: &[u8], to: &[u8]) -> Lookup<'_> {
        let index = self.index.borrow();
        let Some((begin, _)) = index
            .last_range(Bound::Excluded(to))
            .filter(|(_, end)| &**end >= to)
        else {
            return Lookup::Unknown(to.to_vec());
        };
        let last = index.position(from.max(&begin), to, DoubleEndedIterator::next_back);
        match last.and_then(|at| self.records.get(at)) {
            Some(stored) => Lookup::Found(stored),
            None if &*begin <= from => Lookup::Nothing,
            None => Lookup::Unknown(begin),
        }
    }

    /// The keys of all records in `from..to`; `None` if they are not all known.
    pub(super) fn keys(&self, from: &[u8], to: &[u8]) -> Option<Vec<Vec<u8>>> {
        let index = self.index.borrow();
        let (_, end) = index.last_range(Bound::Included(from))?;
        let within = (Bound::Included(from), Bound::Excluded(to));
        let keys = || index.keys.range::<[u8], _>(within).map(|(key, _)| key.to_vec());
        (&*end >= to).then(|| keys().collect())
    }

    /// Forgets everything, before another state is read.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Index {
    /// The last range that begins within this bound.
    fn last_range(&self, until: Bound<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut ranges = self.ranges.range::<[u8], _>((Bound::Unbounded, until));
        ranges.next_back().map(|(from, to)| (from.clone(), to.clone()))
    }

    fn position<'i>(
        &'i self,
        from: &[u8],
        to: &[u8],
        which: impl FnOnce(&mut btree_map::Range<'i, Box<[u8]>, usize>) -> Option<(&'i Box<[u8]>, &'i usize)>,
    ) -> Option<usize> {
        if from >= to {
            return None;
        }
        let within = (Bound::Included(from), Bound::Excluded(to));
        which(&mut self.keys.range::<[u8], _>(within)).map(|(_, at)| *at)
    }
}
