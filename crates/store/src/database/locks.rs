//! Locks on node names as rows of the database, which end unless their owner extends them.

use std::{
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{
    Database,
    error::failed,
    sql::{BEGIN_WRITING, bigint, bigint_array},
};
use crate::error::StoreError;

/// How long a lock lasts after it was last extended: when its owner dies, others wait that long.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// How often locks are extended.
const EXTEND_EVERY: Duration = Duration::from_secs(4);

/// The locks of one owner in the database. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct DatabaseLocks {
    database: Arc<Database>,
    /// A random number that identifies the owner.
    owner: u64,
    end: Arc<(Mutex<bool>, Condvar)>,
}

impl DatabaseLocks {
    pub(crate) fn open(database: &Arc<Database>) -> Result<Self, StoreError> {
        // Random, from the seed of the standard library's hash maps.
        let owner = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id()) >> 1;
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let (ended, weak) = (Arc::clone(&end), Arc::downgrade(database));
        thread::Builder::new()
            .name("store-locks".into())
            .spawn(move || extend(&ended, &weak, owner))
            .map_err(StoreError::file(
                "start a thread to extend locks",
                std::path::Path::new("the store"),
            ))?;
        Ok(Self {
            database: Arc::clone(database),
            owner,
            end,
        })
    }

    /// Takes all names or none: those in `exclusive` for this owner alone, and those in `shared`, which others may share.
    pub(crate) fn try_hold(&self, exclusive: &[u64], shared: &[u64]) -> Result<bool, StoreError> {
        let statements = &self.database.statements.locks;
        let owner = bigint(self.owner);
        let (exclusive, shared) = (bigint_array(exclusive), bigint_array(shared));
        let (not_shared, is_shared) = ([0], [1]);
        let (rows, mut lease) = self
            .database
            .run_anywhere(&[
                (BEGIN_WRITING, &[]),
                (&statements.gate, &[]),
                (&statements.expire, &[]),
                (
                    &statements.conflicts,
                    &[Some(&owner), Some(&exclusive), Some(&shared)],
                ),
            ])
            .map_err(failed(&self.database.address))?;
        if rows.last().is_none_or(|rows| !rows.rows.is_empty()) {
            return Ok(false);
        }
        let taken = lease.run_all(&[
            (
                &statements.hold,
                &[Some(&owner), Some(&exclusive), Some(&not_shared)],
            ),
            (&statements.hold, &[Some(&owner), Some(&shared), Some(&is_shared)]),
            ("commit", &[]),
        ]);
        taken.map(|_| true).map_err(|error| self.database.failed(&error))
    }

    /// Releases names.
    pub(crate) fn release(&self, names: &[u64]) -> Result<(), StoreError> {
        let (owner, names) = (bigint(self.owner), bigint_array(names));
        let statement = &self.database.statements.locks.release;
        self.database
            .run(&[(statement, &[Some(&owner), Some(&names)])])
            .map(drop)
    }

    pub(crate) fn release_all(&self) -> Result<(), StoreError> {
        let owner = bigint(self.owner);
        let statement = &self.database.statements.locks.release_all;
        self.database.run(&[(statement, &[Some(&owner)])]).map(drop)
    }
}

impl Drop for DatabaseLocks {
    fn drop(&mut self) {
        *self.end.0.lock() = true;
        self.end.1.notify_one();
        // If it fails, they end by themselves.
        let _ = self.release_all();
    }
}

/// Extends the owner's locks until it ends.
fn extend(end: &(Mutex<bool>, Condvar), database: &Weak<Database>, owner: u64) {
    let owner = bigint(owner);
    loop {
        let mut ended = end.0.lock();
        end.1.wait_for(&mut ended, EXTEND_EVERY);
        if *ended {
            return;
        }
        drop(ended);
        let Some(database) = database.upgrade() else {
            return;
        };
        // A failure is followed by other attempts before the locks end.
        let _ = database.run(&[(&database.statements.locks.extend, &[Some(&owner)])]);
    }
}
