//! Cursors over tables. Unused ones are kept for reuse.

use std::{marker::PhantomData, ptr};

use signet_mdbx_sys as ffi;

use super::{
    failure::{check, failure},
    memory::{bytes, empty, lent},
    table::Table,
    transaction::Transaction,
};
use crate::{engine::Record, error::StoreError};

/// Direction and bound of a seek.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek {
    AtMost,
    Below,
    AtLeast,
}

/// A position in a table.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    pub(super) raw: *mut ffi::MDBX_cursor,
    table: ffi::MDBX_dbi,
    home: &'t Transaction,
    lent: PhantomData<&'t [u8]>,
}

impl Transaction {
    pub(crate) fn cursor(&self, table: Table) -> Result<Cursor<'_>, StoreError> {
        let mut idle = self.idle.borrow_mut();
        if let Some(at) = idle.iter().rposition(|(of, _)| *of == table.0) {
            let (table, raw) = idle.swap_remove(at);
            return Ok(Cursor {
                raw,
                table,
                home: self,
                lent: PhantomData,
            });
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the transaction is open; the output pointer for the new handle is valid.
        check("open a cursor", unsafe {
            ffi::mdbx_cursor_open(self.raw, table.0, &raw mut raw)
        })?;
        Ok(Cursor {
            raw,
            table: table.0,
            home: self,
            lent: PhantomData,
        })
    }

    pub(super) fn close_cursors(&mut self) {
        for (_, cursor) in self.idle.get_mut().drain(..) {
            // SAFETY: idle cursors are valid and have no other owner.
            unsafe { ffi::mdbx_cursor_close(cursor) };
        }
    }
}

impl<'t> Cursor<'t> {
    pub(crate) fn seek(&self, seek: Seek, key: &[u8]) -> Result<Option<Record<'t>>, StoreError> {
        // No stored key is as long as this one, so all keys with this prefix sort before it.
        if let Some(begin) = key.get(..self.home.environment.key_bytes_max)
            && begin.len() < key.len()
        {
            return match seek {
                Seek::AtMost | Seek::Below => self.seek(Seek::AtMost, begin),
                Seek::AtLeast => match self.seek(Seek::AtLeast, begin)? {
                    Some((found, _)) if found == begin => self.next(),
                    found => Ok(found),
                },
            };
        }
        let operation = match seek {
            Seek::AtMost => ffi::MDBX_TO_KEY_LESSER_OR_EQUAL,
            Seek::Below => ffi::MDBX_TO_KEY_LESSER_THAN,
            Seek::AtLeast => ffi::MDBX_SET_RANGE,
        };
        self.go(lent(key), operation)
    }

    pub(crate) fn next(&self) -> Result<Option<Record<'t>>, StoreError> {
        self.step(ffi::MDBX_NEXT)
    }

    pub(crate) fn previous(&self) -> Result<Option<Record<'t>>, StoreError> {
        self.step(ffi::MDBX_PREV)
    }

    fn step(&self, operation: ffi::MDBX_cursor_op) -> Result<Option<Record<'t>>, StoreError> {
        self.go(empty(), operation)
    }

    fn go(
        &self,
        mut key: ffi::MDBX_val,
        operation: ffi::MDBX_cursor_op,
    ) -> Result<Option<Record<'t>>, StoreError> {
        self.home.check_age()?;
        let mut value = empty();
        // SAFETY: the cursor is bound to an open transaction; the key it reads lives for the whole call.
        match unsafe { ffi::mdbx_cursor_get(self.raw, &raw mut key, &raw mut value, operation) } {
            ffi::MDBX_NOTFOUND | ffi::MDBX_ENODATA => Ok(None),
            // RESULT_TRUE: a neighbour of the key was found, as a bound permits.
            ffi::MDBX_RESULT_TRUE | ffi::MDBX_SUCCESS => {
                // SAFETY: the engine's memory stays unchanged until the transaction ends or writes, and writing needs
                // `&mut` of the transaction that `'t` borrows.
                Ok(Some(unsafe { (bytes(&key), bytes(&value)) }))
            }
            code => Err(failure("move a cursor", code)),
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.home.idle.borrow_mut().push((self.table, self.raw));
    }
}
