//! Cursors over the tables of a store in a database.

use std::cell::{Cell, RefCell};

use super::{Table, known::after, transaction::Transaction};
use crate::{
    engine::{Record, Seek},
    error::StoreError,
};

/// Records that a cursor reads at first when it moves on, and the factor by which that grows, up to the maximum.
const AHEAD: u64 = 16;
const AHEAD_FACTOR: u64 = 4;
const AHEAD_MAX: u64 = 512;

impl Transaction {
    pub(crate) fn cursor(&self, table: Table) -> Cursor<'_> {
        Cursor {
            home: self,
            table,
            at: RefCell::new(None),
            ahead: Cell::new(AHEAD),
        }
    }
}

/// A position in a table.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    home: &'t Transaction,
    table: Table,
    at: RefCell<Option<Vec<u8>>>,
    /// Records to read with the next statement.
    ahead: Cell<u64>,
}

impl<'t> Cursor<'t> {
    pub(crate) fn seek(&self, seek: Seek, key: &[u8]) -> Result<Option<Record<'t>>, StoreError> {
        let key = self.table.key(key);
        match seek {
            Seek::AtMost => self.back(&after(&key), 1),
            Seek::Below => self.back(&key, self.ahead.get()),
            Seek::AtLeast => self.ahead(&key),
        }
    }

    pub(crate) fn next(&self) -> Result<Option<Record<'t>>, StoreError> {
        let from = self
            .at
            .borrow()
            .as_deref()
            .map_or_else(|| self.table.begin(), after);
        self.ahead(&from)
    }

    pub(crate) fn previous(&self) -> Result<Option<Record<'t>>, StoreError> {
        let to = self.at.borrow().clone().unwrap_or_else(|| self.table.end());
        self.back(&to, self.ahead.get())
    }

    fn ahead(&self, from: &[u8]) -> Result<Option<Record<'t>>, StoreError> {
        let before = self.home.known.bytes();
        let found = self.home.first(from, &self.table.end(), self.ahead.get())?;
        Ok(self.found(found, before))
    }

    fn back(&self, to: &[u8], ahead: u64) -> Result<Option<Record<'t>>, StoreError> {
        let before = self.home.known.bytes();
        let found = self.home.last(&self.table.begin(), to, ahead)?;
        Ok(self.found(found, before))
    }

    /// Remembers the position, and reads more the next time if something had to be read.
    fn found(&self, found: Option<Record<'t>>, bytes_before: usize) -> Option<Record<'t>> {
        if self.home.known.bytes() > bytes_before {
            self.ahead.set((self.ahead.get() * AHEAD_FACTOR).min(AHEAD_MAX));
        }
        let (key, value) = found?;
        *self.at.borrow_mut() = Some(key.to_vec());
        Some((&key[1..], value))
    }
}
