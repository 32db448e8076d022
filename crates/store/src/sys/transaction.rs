//! Snapshots and write transactions, from begin to commit.

use std::{cell::RefCell, ptr, sync::Arc, time::Duration};

use signet_mdbx_sys as ffi;

use super::{environment::Environment, failure::check};
use crate::error::StoreError;

/// A snapshot or a write transaction. Dropping it rolls back.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(super) raw: *mut ffi::MDBX_txn,
    pub(super) environment: Arc<Environment>,
    pub(super) writes: bool,
    /// Handle of the whole transaction while a part of it is open, whose handle `raw` then is.
    pub(super) whole: Option<*mut ffi::MDBX_txn>,
    /// When a snapshot becomes too old, by the coarse clock.
    pub(super) until: Duration,
    /// Unused cursors, with their tables.
    pub(super) idle: RefCell<Vec<(ffi::MDBX_dbi, *mut ffi::MDBX_cursor)>>,
}

// SAFETY: the environment is opened with NOSTICKYTHREADS, so a snapshot may move between threads; it is not `Sync`. A
// write transaction must not move: `crate::Transaction` ensures that.
unsafe impl Send for Transaction {}

impl Environment {
    /// Begins a snapshot.
    pub(crate) fn read(self: &Arc<Self>) -> Result<Transaction, StoreError> {
        self.begin(ffi::MDBX_TXN_RDONLY)
    }

    /// Begins a write transaction: waits, without a time limit, until no other process or thread has one.
    pub(crate) fn write(self: &Arc<Self>) -> Result<Transaction, StoreError> {
        self.check_flushes()?;
        let inside = self.writers.enter().ok_or(StoreError::WritesAlready)?;
        let transaction = self.begin(ffi::MDBX_TXN_READWRITE)?;
        // The transaction leaves the queue when it ends.
        std::mem::forget(inside);
        Ok(transaction)
    }

    fn begin(self: &Arc<Self>, flags: ffi::MDBX_txn_flags_t) -> Result<Transaction, StoreError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the environment is open; the output pointer for the new handle is valid.
        self.check("begin a transaction", unsafe {
            ffi::mdbx_txn_begin_ex(self.raw, ptr::null_mut(), flags, &raw mut raw, ptr::null_mut())
        })?;
        Ok(Transaction {
            raw,
            until: self.snapshot_end(),
            environment: Arc::clone(self),
            writes: flags & ffi::MDBX_TXN_RDONLY == 0,
            whole: None,
            idle: RefCell::default(),
        })
    }
}

impl Transaction {
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: the handle is valid as long as `self` is.
        unsafe { ffi::mdbx_txn_id(self.raw) }
    }

    /// Bytes that the file can still take beyond those in use, up to its maximum size.
    pub(crate) fn room(&self) -> Result<u64, StoreError> {
        let info = self.info()?;
        Ok(info.txn_space_limit_hard.saturating_sub(info.txn_space_used))
    }

    /// Whether no page has changed, regardless of the operations.
    pub(crate) fn is_clean(&self) -> Result<bool, StoreError> {
        Ok(self.info()?.txn_space_dirty == 0)
    }

    pub(super) fn info(&self) -> Result<ffi::MDBX_txn_info, StoreError> {
        // SAFETY: the structure is plain numbers, for which zeros are valid.
        let mut info: ffi::MDBX_txn_info = unsafe { std::mem::zeroed() };
        // SAFETY: the transaction is open; the output pointer is valid.
        check("tell about a transaction", unsafe {
            ffi::mdbx_txn_info(self.raw, &raw mut info, false)
        })?;
        Ok(info)
    }

    /// Three numbers that the engine stores with every state, outside its tables; initially zero.
    pub(crate) fn marks(&self) -> Result<[u64; 3], StoreError> {
        let mut marks = ffi::MDBX_canary {
            x: 0,
            y: 0,
            z: 0,
            v: 0,
        };
        // SAFETY: the transaction is open; the output pointer is valid.
        check("read its marks", unsafe {
            ffi::mdbx_canary_get(self.raw, &raw mut marks)
        })?;
        Ok([marks.x, marks.y, marks.z])
    }

    pub(crate) fn set_marks(&mut self, [x, y, z]: [u64; 3]) -> Result<(), StoreError> {
        let marks = ffi::MDBX_canary { x, y, z, v: 0 };
        // SAFETY: the transaction is open for writing; the marks live for the whole call.
        check("write its marks", unsafe {
            ffi::mdbx_canary_put(self.raw, &raw const marks)
        })
    }

    /// Commits and returns the transaction's id, which identifies the new state.
    pub(crate) fn commit(mut self) -> Result<u64, StoreError> {
        assert!(
            self.whole.is_none(),
            "a part that is open is kept or dropped first"
        );
        let id = self.id();
        self.close_cursors();
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: the handle was valid; it is gone after this call, whatever the result.
        let code = unsafe { ffi::mdbx_txn_commit_ex(raw, ptr::null_mut()) };
        if self.writes {
            self.environment.writers.leave();
        }
        if code == ffi::MDBX_RESULT_TRUE {
            return Err(StoreError::Broken);
        }
        // The engine has this error for a write of which the disk has taken only a part.
        if code == rustix::io::Errno::IO.raw_os_error() && self.environment.has_full_disk() {
            return check("commit", rustix::io::Errno::NOSPC.raw_os_error()).map(|()| id);
        }
        check("commit", code).map(|()| id)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.whole.is_some() {
            self.drop_part();
        }
        self.close_cursors();
        if !self.raw.is_null() {
            // SAFETY: the handle is valid and no cursor is left.
            unsafe { ffi::mdbx_txn_abort(self.raw) };
            if self.writes {
                self.environment.writers.leave();
            }
        }
    }
}
