//! Snapshots: their maximum age, and their reuse, which is cheaper than beginning a new one.

use std::time::Duration;

use signet_mdbx_sys as ffi;

use super::{environment::Environment, failure::check, transaction::Transaction};
use crate::error::StoreError;

impl Environment {
    /// When a snapshot that begins now becomes too old to be read.
    pub(super) fn snapshot_end(&self) -> Duration {
        coarse_now().saturating_add(self.reader_age_max)
    }
}

impl Transaction {
    /// Stops readers of one state after the maximum age, because no page of it can be reused until they end.
    pub(super) fn check_age(&self) -> Result<(), StoreError> {
        if !self.writes && coarse_now() > self.until {
            return Err(StoreError::SnapshotTooOld {
                max: self.environment.reader_age_max,
            });
        }
        Ok(())
    }

    /// Ends a snapshot but keeps its resources for the next one.
    pub(crate) fn park(self) -> Result<Parked, StoreError> {
        assert!(!self.writes, "only snapshots are parked");
        // SAFETY: the handle is a valid snapshot.
        check("end a snapshot", unsafe { ffi::mdbx_txn_reset(self.raw) })?;
        Ok(Parked(self))
    }

    /// Lets others reuse the space that this snapshot pins, if they need it, until [`Transaction::wake`].
    pub(crate) fn rest(&self) -> Result<(), StoreError> {
        // SAFETY: the handle is a valid snapshot; nothing borrowed from it outlives the caller's use of it.
        check("let a snapshot rest", unsafe {
            ffi::mdbx_txn_park(self.raw, false)
        })
    }

    /// Refreshes a resting snapshot to the latest state. This is cheap if nothing has been written since.
    pub(crate) fn wake(&mut self) -> Result<(), StoreError> {
        // SAFETY: the handle is a valid, resting snapshot.
        match unsafe { ffi::mdbx_txn_unpark(self.raw, false) } {
            ffi::MDBX_SUCCESS => {
                if self.info()?.txn_reader_lag == 0 {
                    self.until = self.environment.snapshot_end();
                    return Ok(());
                }
                // SAFETY: the handle is a valid snapshot.
                check("end a snapshot", unsafe { ffi::mdbx_txn_reset(self.raw) })?;
            }
            ffi::MDBX_OUSTED => {}
            code => check("wake a snapshot", code)?,
        }
        self.begin_again()
    }

    fn begin_again(&mut self) -> Result<(), StoreError> {
        self.until = self.environment.snapshot_end();
        // SAFETY: the handle was reset and not used since.
        check("begin a snapshot", unsafe { ffi::mdbx_txn_renew(self.raw) })?;
        for (table, cursor) in self.idle.get_mut() {
            // SAFETY: the cursor belongs to this transaction's previous use, and nothing else uses it.
            check("move a cursor", unsafe {
                ffi::mdbx_cursor_bind(self.raw, *cursor, *table)
            })?;
        }
        Ok(())
    }
}

/// A snapshot that has ended and can be renewed.
#[derive(Debug)]
pub(crate) struct Parked(Transaction);

impl Parked {
    pub(crate) fn renew(self) -> Result<Transaction, StoreError> {
        let mut transaction = self.0;
        transaction.begin_again()?;
        Ok(transaction)
    }
}

/// A very cheap clock with a resolution of a few milliseconds.
fn coarse_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(
        now.tv_sec.cast_unsigned(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}
