//! Flushes to the disk, and remembers a failed one, of the tree or of the log. From then on no flush can be trusted:
//! the operating system does not retry what it failed to write once, and reports success.

use std::os::fd::BorrowedFd;

use signet_mdbx_sys as ffi;

use super::{
    environment::Environment,
    failure::{check, failure},
    transaction::Transaction,
};
use crate::error::StoreError;

/// A disk with less room than this takes no write of the engine whole.
const FULL_BYTES: u64 = 1 << 20;

impl Environment {
    /// Runs a flush unless an earlier one has failed, and remembers a failure.
    pub(crate) fn flushing<T>(&self, flush: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.check_flushes()?;
        flush().inspect_err(|error| {
            // The first failure is the one that counts.
            let _ = self.flush_failed.set(error.to_string());
        })
    }

    /// Fails if an earlier flush has failed.
    pub(crate) fn check_flushes(&self) -> Result<(), StoreError> {
        match self.flush_failed.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::FlushesFail {
                reason: reason.clone(),
            }),
        }
    }

    /// Error of the first failed flush.
    pub(crate) fn flush_failure(&self) -> Option<&str> {
        self.flush_failed.get().map(String::as_str)
    }

    /// Writes pages to the disk that no flush has written yet, while others keep writing.
    pub(crate) fn write_pages(&self) -> Result<(), StoreError> {
        rustix::fs::fdatasync(self.file()?).map_err(|error| failure("flush", error.raw_os_error()))
    }

    /// Whether the file's disk has less room than [`FULL_BYTES`].
    pub(super) fn has_full_disk(&self) -> bool {
        let disk = self.file().map(rustix::fs::fstatvfs);
        matches!(disk, Ok(Ok(disk)) if disk.f_bavail * disk.f_frsize < FULL_BYTES)
    }

    fn file(&self) -> Result<BorrowedFd<'_>, StoreError> {
        let mut file = 0;
        // SAFETY: the environment is open; the output pointer is valid.
        self.check("tell its file", unsafe {
            ffi::mdbx_env_get_fd(self.raw, &raw mut file)
        })?;
        // SAFETY: the engine keeps the file open for as long as the environment exists.
        Ok(unsafe { BorrowedFd::borrow_raw(file) })
    }
}

impl Transaction {
    /// Makes every commit before this write transaction durable. No commit can happen meanwhile.
    pub(crate) fn flush_before(&self) -> Result<(), StoreError> {
        assert!(self.writes, "a snapshot keeps nobody from committing");
        // SAFETY: the environment is open, and its write transaction belongs to this thread.
        match unsafe { ffi::mdbx_env_sync_ex(self.environment.raw, true, false) } {
            // RESULT_TRUE means that there was nothing to do.
            ffi::MDBX_RESULT_TRUE => Ok(()),
            code => check("flush", code),
        }
    }
}
