//! What brings the tree to the disk, and what remembers that this has failed, or that the log could not be brought there. From then on
//! no flush can be trusted: the system does not write again what it could not write once, and says that all is well.

use std::os::fd::BorrowedFd;

use signet_mdbx_sys as ffi;

use super::{
    environment::Environment,
    failure::{check, failure},
    transaction::Transaction,
};
use crate::error::StoreError;

impl Environment {
    /// Does what makes commits durable, unless that has failed before.
    pub(crate) fn flushing<T>(&self, flush: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.check_flushes()?;
        flush().inspect_err(|error| {
            // Who came first has said it already.
            let _ = self.flush_failed.set(error.to_string());
        })
    }

    /// Whether flushes can still be trusted.
    pub(crate) fn check_flushes(&self) -> Result<(), StoreError> {
        match self.flush_failed.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::FlushesFail {
                reason: reason.clone(),
            }),
        }
    }

    /// What the first flush that failed has said.
    pub(crate) fn flush_failure(&self) -> Option<&str> {
        self.flush_failed.get().map(String::as_str)
    }

    /// Writes the pages to the disk that no flush has written yet, while others go on writing.
    pub(crate) fn write_pages(&self) -> Result<(), StoreError> {
        let mut file = 0;
        // SAFETY: the environment is open, and so is the place for the answer.
        self.check("tell its file", unsafe {
            ffi::mdbx_env_get_fd(self.raw, &raw mut file)
        })?;
        // SAFETY: the engine keeps the file open for as long as the environment is.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        rustix::fs::fdatasync(file).map_err(|error| failure("flush", error.raw_os_error()))
    }
}

impl Transaction {
    /// Makes every commit before this write transaction durable. Nobody commits meanwhile.
    pub(crate) fn flush_before(&self) -> Result<(), StoreError> {
        assert!(self.writes, "a snapshot keeps nobody from committing");
        // SAFETY: the environment is open, and its write transaction is this thread's.
        match unsafe { ffi::mdbx_env_sync_ex(self.environment.raw, true, false) } {
            // "Nothing to do" is told as RESULT_TRUE.
            ffi::MDBX_RESULT_TRUE => Ok(()),
            code => check("flush", code),
        }
    }
}
