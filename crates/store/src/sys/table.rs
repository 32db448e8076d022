//! Tables and access to single records.

use std::{ffi::CStr, ptr};

use signet_mdbx_sys as ffi;

use super::{
    cursor::Seek,
    failure::check,
    memory::{bytes, empty, lent},
    transaction::Transaction,
};
use crate::error::StoreError;

/// Longest value that the engine always accepts.
const VALUE_BYTES_MAX: usize = 0x7FF0_0000;

/// A table of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table(pub(super) ffi::MDBX_dbi);

impl Transaction {
    /// Opens a table; `None` if it does not exist and `create` is false.
    pub(crate) fn table(&self, name: &CStr, create: bool) -> Result<Option<Table>, StoreError> {
        let flags = if create {
            ffi::MDBX_CREATE
        } else {
            ffi::MDBX_DB_DEFAULTS
        };
        let mut table = 0;
        // SAFETY: the transaction is open, the name ends with NUL, and the output pointer is valid.
        match unsafe { ffi::mdbx_dbi_open(self.raw, name.as_ptr(), flags, &raw mut table) } {
            ffi::MDBX_NOTFOUND => Ok(None),
            code => check("open a table", code).map(|()| Some(Table(table))),
        }
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.check_age()?;
        if key.len() > self.environment.key_bytes_max {
            return Ok(None);
        }
        let mut value = empty();
        // SAFETY: the transaction is open; key and output pointer are valid for the whole call.
        match unsafe { ffi::mdbx_get(self.raw, table.0, &lent(key), &raw mut value) } {
            ffi::MDBX_NOTFOUND => Ok(None),
            code => {
                check("read", code)?;
                // SAFETY: the engine's memory stays unchanged until the transaction ends or writes, and writing needs
                // `&mut`.
                Ok(Some(unsafe { bytes(&value) }))
            }
        }
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[&[u8]]) -> Result<(), StoreError> {
        let length = value.iter().map(|part| part.len()).sum();
        assert!(
            key.len() <= self.environment.key_bytes_max && length <= VALUE_BYTES_MAX && self.writes,
            "lengths are checked before they get here"
        );
        let mut place = ffi::MDBX_val {
            iov_base: ptr::null_mut(),
            iov_len: length,
        };
        // A writer has usually just looked up the key, so a cursor is already on the right page.
        let cursor = self.cursor(table)?;
        // SAFETY: the transaction is open for writing, nothing borrowed from it is in use, and the lengths are within
        // the engine's limits.
        check("write", unsafe {
            ffi::mdbx_cursor_put(cursor.raw, &lent(key), &raw mut place, ffi::MDBX_RESERVE)
        })?;
        let mut at = place.iov_base.cast::<u8>();
        for part in value {
            // SAFETY: RESERVE provides `length` bytes, which is the sum of the parts.
            unsafe {
                ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
        }
        Ok(())
    }

    /// Removes a record; `false` if there was none.
    pub(crate) fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        // SAFETY: the transaction is open; the key lives for the whole call.
        match unsafe { ffi::mdbx_del(self.raw, table.0, &lent(key), ptr::null()) } {
            ffi::MDBX_NOTFOUND => Ok(false),
            code => check("delete", code).map(|()| true),
        }
    }

    /// Removes all records in `from..to`; returns how many.
    pub(crate) fn delete_range(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<u64, StoreError> {
        let mut deleted = 0;
        let cursor = self.cursor(table)?;
        let mut found = cursor.seek(Seek::AtLeast, from)?;
        while let Some((key, _)) = found {
            if key >= to {
                break;
            }
            // SAFETY: the cursor is on a record, and nothing borrowed from the engine is used after this.
            check("delete", unsafe {
                ffi::mdbx_cursor_del(cursor.raw, ffi::MDBX_UPSERT)
            })?;
            deleted += 1;
            // After a deletion "next" is the record that has moved into its place.
            found = cursor.next()?;
        }
        Ok(deleted)
    }
}
