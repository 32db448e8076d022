//! The ordered tables that a store is kept in, as the tree, indexes and expiry use them: of the embedded engine
//! ([`crate::sys`]), or of a database ([`crate::database`]).

use crate::{database, error::StoreError, sys};

pub(crate) use sys::Seek;

/// A table of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Table {
    Embedded(sys::Table),
    Database(database::Table),
}

/// A snapshot or a write transaction. Dropping it rolls back.
#[derive(Debug)]
pub(crate) enum Transaction {
    Embedded(sys::Transaction),
    Database(Box<database::Transaction>),
}

/// A position in a table.
#[derive(Debug)]
pub(crate) enum Cursor<'t> {
    Embedded(sys::Cursor<'t>),
    Database(database::Cursor<'t>),
}

/// A key and its value, in memory borrowed from the transaction.
pub(crate) type Record<'t> = (&'t [u8], &'t [u8]);

impl From<sys::Transaction> for Transaction {
    fn from(transaction: sys::Transaction) -> Self {
        Self::Embedded(transaction)
    }
}

impl From<database::Transaction> for Transaction {
    fn from(transaction: database::Transaction) -> Self {
        Self::Database(Box::new(transaction))
    }
}

impl Table {
    fn embedded(self) -> sys::Table {
        match self {
            Self::Embedded(table) => table,
            Self::Database(_) => unreachable!("{FOREIGN}"),
        }
    }

    fn database(self) -> database::Table {
        match self {
            Self::Database(table) => table,
            Self::Embedded(_) => unreachable!("{FOREIGN}"),
        }
    }
}

const FOREIGN: &str = "a table is used with transactions of its own store";

impl Transaction {
    /// Number of the commit that a snapshot shows, or that a write transaction will be.
    pub(crate) fn id(&self) -> Result<u64, StoreError> {
        match self {
            Self::Embedded(transaction) => Ok(transaction.id()),
            Self::Database(transaction) => transaction.id(),
        }
    }

    /// Three numbers that are stored with every state: where the log of changes ends.
    pub(crate) fn marks(&self) -> Result<[u64; 3], StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.marks(),
            Self::Database(transaction) => Ok([transaction.sequence()?, 0, 0]),
        }
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.get(table.embedded(), key),
            Self::Database(transaction) => transaction.get(table.database(), key),
        }
    }

    /// Whether a table has no records.
    pub(crate) fn is_empty(&self, table: Table) -> Result<bool, StoreError> {
        if let (Self::Database(transaction), Table::Database(database::Table::Due)) = (self, table) {
            return transaction.has_nothing_due();
        }
        Ok(self.cursor(table)?.seek(Seek::AtLeast, &[])?.is_none())
    }

    pub(crate) fn cursor(&self, table: Table) -> Result<Cursor<'_>, StoreError> {
        Ok(match self {
            Self::Embedded(transaction) => Cursor::Embedded(transaction.cursor(table.embedded())?),
            Self::Database(transaction) => Cursor::Database(transaction.cursor(table.database())),
        })
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[&[u8]]) -> Result<(), StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.put(table.embedded(), key, value),
            Self::Database(transaction) => {
                transaction.put(table.database(), key, value);
                Ok(())
            }
        }
    }

    /// Removes a record, if there is one.
    pub(crate) fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.delete(table.embedded(), key).map(drop),
            Self::Database(transaction) => {
                transaction.delete(table.database(), key);
                Ok(())
            }
        }
    }

    /// Removes all records in `from..to`; returns whether there were any.
    pub(crate) fn delete_range(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<bool, StoreError> {
        match self {
            Self::Embedded(transaction) => Ok(transaction.delete_range(table.embedded(), from, to)? > 0),
            Self::Database(transaction) => transaction.delete_range(table.database(), from, to),
        }
    }

    /// Takes a snapshot now, if it is to be taken when it is first read.
    pub(crate) fn take(&self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Database(transaction) => transaction.sequence().map(drop),
        }
    }

    /// Whether what has been read takes so much memory that [`Transaction::forget_read`] frees it.
    pub(crate) fn has_read_much(&self) -> bool {
        matches!(self, Self::Database(transaction) if transaction.has_read_much())
    }

    /// Frees the memory of what has been read, if it is much.
    pub(crate) fn forget_read(&mut self) {
        if let Self::Database(transaction) = self {
            transaction.forget_read();
        }
    }

    /// Makes the commit of a write transaction that is not logged the one after this change.
    pub(crate) fn set_sequence(&mut self, sequence: u64) -> Result<(), StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.set_marks([sequence, 0, 0]),
            Self::Database(transaction) => {
                transaction.sequence_to_be = Some(sequence);
                Ok(())
            }
        }
    }

    /// Tells whether the caller can repeat all that it reads.
    pub(crate) fn set_repeatable(&mut self, is_repeatable: bool) {
        if let Self::Database(transaction) = self {
            transaction.set_repeatable(is_repeatable);
        }
    }

    /// Whether the caller must repeat what it has read, as it can.
    pub(crate) fn must_repeat(&self) -> bool {
        matches!(self, Self::Database(transaction) if transaction.must_repeat())
    }

    /// Refreshes a snapshot to the latest state, before its caller repeats what it has read.
    pub(crate) fn begin_again(&mut self) {
        if let Self::Database(transaction) = self {
            transaction.begin_again();
        }
    }

    /// Ends the state that a snapshot shows, as far as that frees something, until [`Transaction::wake`].
    pub(crate) fn rest(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.rest(),
            Self::Database(transaction) => {
                transaction.rest();
                Ok(())
            }
        }
    }

    /// Refreshes a resting snapshot to the latest state.
    pub(crate) fn wake(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.wake(),
            Self::Database(transaction) => {
                transaction.wake();
                Ok(())
            }
        }
    }

    /// Begins a part of a write transaction, which can be rolled back alone. Parts do not nest.
    pub(crate) fn begin_part(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.begin_part(),
            Self::Database(transaction) => {
                transaction.begin_part();
                Ok(())
            }
        }
    }

    /// Ends a part and keeps its changes. If that fails, the whole can only be rolled back.
    pub(crate) fn keep_part(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(transaction) => transaction.keep_part(),
            Self::Database(transaction) => {
                transaction.keep_part();
                Ok(())
            }
        }
    }

    /// Rolls a part back.
    pub(crate) fn drop_part(&mut self) {
        match self {
            Self::Embedded(transaction) => transaction.drop_part(),
            Self::Database(transaction) => transaction.drop_part(),
        }
    }
}

impl<'t> Cursor<'t> {
    pub(crate) fn seek(&self, seek: Seek, key: &[u8]) -> Result<Option<Record<'t>>, StoreError> {
        match self {
            Self::Embedded(cursor) => cursor.seek(seek, key),
            Self::Database(cursor) => cursor.seek(seek, key),
        }
    }

    pub(crate) fn next(&self) -> Result<Option<Record<'t>>, StoreError> {
        match self {
            Self::Embedded(cursor) => cursor.next(),
            Self::Database(cursor) => cursor.next(),
        }
    }

    pub(crate) fn previous(&self) -> Result<Option<Record<'t>>, StoreError> {
        match self {
            Self::Embedded(cursor) => cursor.previous(),
            Self::Database(cursor) => cursor.previous(),
        }
    }
}
