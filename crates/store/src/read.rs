//! Reads of one state of the tree, and long ones in pieces: what a snapshot or transaction of a database has read stays in
//! memory, because it is lent, and can be forgotten where nothing is.

use std::borrow::Cow;

use crate::{
    engine,
    error::StoreError,
    expiry,
    index::{self, Catalogue, Definition, Place, Query, QueryWalk},
    key::{Key, Subscript},
    tree::{
        Defined, Reader,
        document::Document,
        read::{ChildWalk, GlobalWalk, Range, ValueWalk},
    },
};

/// Reads of one state of the tree: that of a snapshot, or of a transaction including its own changes.
pub trait Read {
    /// Low-level reader of the state.
    fn reader(&self) -> Reader<'_>;

    /// The node's own value as canonical JSON: a scalar, `{}` or `[]`. `None` when it has none.
    fn get(&self, key: &Key) -> Result<Option<&[u8]>, StoreError> {
        self.reader().get(key)
    }

    /// Whether the node has a value, and whether it has children.
    fn defined(&self, key: &Key) -> Result<Defined, StoreError> {
        self.reader().defined(key)
    }

    /// Whether the node is an array: its children are elements, or it is `[]`.
    fn is_array(&self, key: &Key) -> Result<bool, StoreError> {
        self.reader().is_array(key)
    }

    /// The first child after `after`, which need not exist; `None` starts at the beginning.
    fn next(&self, key: &Key, after: Option<&Subscript>) -> Result<Option<Subscript>, StoreError> {
        self.reader().next(key, after)
    }

    /// The last child before `before`, which need not exist; `None` starts at the end.
    fn previous(&self, key: &Key, before: Option<&Subscript>) -> Result<Option<Subscript>, StoreError> {
        self.reader().previous(key, before)
    }

    /// Subscripts of the children, in order.
    fn children(&self, key: &Key, range: Range) -> Result<ChildWalk<'_>, StoreError> {
        self.reader().children(key, range)
    }

    /// The subtree as canonical JSON; `None` when the node does not exist. The value of a node with children is left out.
    fn document(&self, key: &Key) -> Result<Option<Cow<'_, [u8]>>, StoreError> {
        self.reader().document_text(key)
    }

    /// As [`Read::document`], but fails with [`StoreError::ValueTooLong`] if the document has to be assembled and
    /// becomes longer than `bytes_max`.
    fn document_within(&self, key: &Key, bytes_max: usize) -> Result<Option<Cow<'_, [u8]>>, StoreError> {
        self.reader().document_within(key, bytes_max)
    }

    /// As [`Read::document_within`], assembled step by step by the caller, for long documents. Containers nested deeper
    /// than `depth` are empty.
    fn document_walk(
        &self,
        key: &Key,
        depth: usize,
        bytes_max: usize,
    ) -> Result<Option<Document<'_>>, StoreError> {
        self.reader().document_walk(key, depth, bytes_max)
    }

    /// All nodes with a value in the subtree, depth first.
    fn values(&self, key: &Key) -> Result<ValueWalk<'_>, StoreError> {
        self.reader().values(key)
    }

    /// Subscripts of the records that match a query, in index order.
    fn query(&self, index: &str, query: &Query) -> Result<QueryWalk<'_>, StoreError> {
        self.query_behind(index, query, Place::default())
    }

    /// As [`Read::query`], starting after a position that another walk of the same query has reached.
    fn query_behind(&self, index: &str, query: &Query, place: Place) -> Result<QueryWalk<'_>, StoreError> {
        QueryWalk::new(&self.reader(), index, query, place)
    }

    /// Definitions of all indexes.
    fn indexes(&self) -> Result<Vec<Definition>, StoreError> {
        let reader = self.reader();
        let catalogue = Catalogue::read(reader.transaction, reader.tables)?;
        Ok(catalogue
            .indexes
            .iter()
            .map(|index| index.definition.clone())
            .collect())
    }

    /// The node's own expiry time, in milliseconds since 1970 UTC.
    fn expires(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        let reader = self.reader();
        expiry::of(reader.transaction, reader.tables, key)
    }

    /// The earliest expiry time of the node and those above it, in milliseconds since 1970 UTC.
    fn ends(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        let reader = self.reader();
        expiry::of_path(reader.transaction, reader.tables, key)
    }

    /// Whether any node that expires by `by_ms` has not been removed yet.
    fn is_due(&self, by_ms: u64) -> Result<bool, StoreError> {
        let reader = self.reader();
        Ok(expiry::due(reader.transaction, reader.tables, by_ms)?.is_some())
    }

    /// Passes the subscripts of a node's children to a function, in order, until it returns false. In a database it
    /// keeps little of what is read, however many there are.
    fn each_child<E: From<StoreError>>(
        &mut self,
        key: &Key,
        mut visit: impl FnMut(&mut Self, &Subscript) -> Result<bool, E>,
    ) -> Result<(), E>
    where
        Self: Sized,
    {
        let mut range = Range::default();
        loop {
            let batch = self.reader().next_children(key, &mut range)?;
            if batch.is_empty() {
                return Ok(());
            }
            for child in &batch {
                if !visit(self, child)? {
                    return Ok(());
                }
                self.forget_read();
            }
        }
    }

    /// Number of values at a node and below it.
    fn count_values(&mut self, key: &Key) -> Result<u64, StoreError>
    where
        Self: Sized,
    {
        let mut count = 0;
        in_pieces(self, None, |reader, after: Option<Key>| {
            let mut walk = reader.values(key)?;
            if let Some(after) = &after {
                walk.go_behind(after)?;
            }
            while let Some(found) = walk.next() {
                let (node, _) = found?;
                count += 1;
                if reader.has_read_much() && walk.is_between_records() {
                    return Ok(Some(Some(node)));
                }
            }
            Ok(None)
        })
        .map(|()| count)
    }

    /// Compares every index with the records; returns the total number of entries.
    fn verify_indexes(&mut self) -> Result<u64, StoreError>
    where
        Self: Sized,
    {
        let reader = self.reader();
        let catalogue = Catalogue::read(reader.transaction, reader.tables)?;
        let mut count = 0;
        for index in &catalogue.indexes {
            count += index::verify(self, index)?;
        }
        Ok(count)
    }

    /// Whether so much of what has been read is in memory that a long read should pause until its caller has called
    /// [`Read::forget_read`]. Never in a folder, where nothing is kept.
    fn has_read_much(&self) -> bool {
        self.reader().transaction.has_read_much()
    }

    /// Frees the memory of what has been read, which a snapshot or transaction of a database keeps, if it is much. The
    /// state stays. A [`Reader`] frees nothing, because others may read through the same snapshot.
    fn forget_read(&mut self);

    /// Longest value or document that may be written, and the usual bound for [`Read::document_within`].
    fn value_bytes_max(&self) -> usize {
        self.reader().tables.value_bytes_max
    }

    /// Names of all globals that are not empty, starting with `from`.
    fn globals(&self, from: &str) -> Result<GlobalWalk<'_>, StoreError> {
        self.reader().globals(from)
    }
}

impl Read for Reader<'_> {
    fn reader(&self) -> Reader<'_> {
        *self
    }

    fn forget_read(&mut self) {}
}

/// Reads in steps until one of them has a result. Each is told whether it is the first one; between them, what was read
/// is forgotten.
pub(crate) fn in_steps<T, E>(
    read: &mut impl Read,
    mut step: impl FnMut(&Reader<'_>, bool) -> Result<Option<T>, E>,
) -> Result<T, E> {
    let mut is_first = true;
    loop {
        if let Some(result) = step(&read.reader(), is_first)? {
            return Ok(result);
        }
        is_first = false;
        read.forget_read();
    }
}

/// Runs a long read in pieces, between which it forgets what it has read. Each gets the position at which it begins
/// and returns that of the next one.
pub(crate) fn in_pieces<P, E>(
    read: &mut impl Read,
    first: P,
    mut piece: impl FnMut(&Reader<'_>, P) -> Result<Option<P>, E>,
) -> Result<(), E> {
    let mut next = Some(first);
    while let Some(from) = next {
        next = piece(&read.reader(), from)?;
        read.forget_read();
    }
    Ok(())
}

/// Passes the records of a table from a key on to a function, in pieces, until it returns false.
pub(crate) fn each_record<E: From<StoreError>>(
    read: &mut impl Read,
    table: engine::Table,
    from: &[u8],
    mut visit: impl FnMut(&Reader<'_>, engine::Record<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    in_pieces(read, from.to_vec(), |reader, from| {
        let cursor = reader.transaction.cursor(table)?;
        let mut found = cursor.seek(engine::Seek::AtLeast, &from)?;
        while let Some(record) = found {
            if !visit(reader, record)? {
                break;
            }
            if reader.has_read_much() {
                return Ok(Some(key_after(record.0)));
            }
            found = cursor.next()?;
        }
        Ok(None)
    })
}

/// The first key after this one.
pub(crate) fn key_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
