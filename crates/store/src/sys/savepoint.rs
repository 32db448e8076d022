//! Savepoints: a part of a write transaction that can be rolled back alone.

use std::ptr;

use signet_mdbx_sys as ffi;

use super::{failure::check, transaction::Transaction};
use crate::error::StoreError;

impl Transaction {
    /// Begins a part of a write transaction, which can be rolled back alone. Parts do not nest.
    pub(crate) fn begin_part(&mut self) -> Result<(), StoreError> {
        assert!(self.writes && self.whole.is_none(), "only a whole has parts");
        self.close_cursors();
        let mut part = ptr::null_mut();
        // SAFETY: the transaction is open for writing and has no open cursor; the output pointer for the new handle is
        // valid.
        check("begin a part of a transaction", unsafe {
            ffi::mdbx_txn_begin_ex(
                self.environment.raw,
                self.raw,
                ffi::MDBX_TXN_READWRITE,
                &raw mut part,
                ptr::null_mut(),
            )
        })?;
        self.whole = Some(std::mem::replace(&mut self.raw, part));
        Ok(())
    }

    /// Ends a part and keeps its changes. If that fails, the whole can only be rolled back.
    pub(crate) fn keep_part(&mut self) -> Result<(), StoreError> {
        let part = self.leave_part();
        // SAFETY: the handle was valid; it is gone after this call, whatever the result.
        match unsafe { ffi::mdbx_txn_commit_ex(part, ptr::null_mut()) } {
            ffi::MDBX_RESULT_TRUE => Err(StoreError::Broken),
            code => check("keep a part of a transaction", code),
        }
    }

    /// Rolls a part back.
    pub(crate) fn drop_part(&mut self) {
        let part = self.leave_part();
        // SAFETY: the handle is valid and no cursor is left.
        unsafe { ffi::mdbx_txn_abort(part) };
    }

    /// Switches back to the whole transaction and returns the handle of the part to end.
    fn leave_part(&mut self) -> *mut ffi::MDBX_txn {
        self.close_cursors();
        let whole = self.whole.take().expect("a part was begun");
        std::mem::replace(&mut self.raw, whole)
    }
}
