//! Locks on node names as rows of the database, which end unless their owner extends them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::{
    Database,
    error::failed,
    sql::{BEGIN_WRITING, bigint, bigint_array, number},
};
use crate::error::StoreError;

/// How long a lock lasts after it was last extended: when its owner dies, others wait that long.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// How long its owner counts on it: less, because its clock is not the database's, and what it does under the lock takes
/// time.
const HELD_FOR: Duration = LEASE.saturating_sub(Duration::from_secs(1));
/// How often locks are extended.
const EXTEND_EVERY: Duration = Duration::from_secs(4);

/// The locks of one owner in the database. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct DatabaseLocks {
    database: Arc<Database>,
    /// A random number that identifies the owner.
    owner: u64,
    leases: Arc<(Mutex<Leases>, Condvar)>,
}

/// The locks of an owner, which a thread extends until the owner ends. Rows that the owner does not know of, because an
/// answer was lost, are not extended.
#[derive(Debug)]
struct Leases {
    has_ended: bool,
    /// Each name, and when it lapses unless it is extended before.
    held: HashMap<u64, Instant>,
}

impl DatabaseLocks {
    pub(crate) fn open(database: &Arc<Database>) -> Result<Self, StoreError> {
        // Random, from the seed of the standard library's hash maps.
        let owner = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id()) >> 1;
        let leases = Leases {
            has_ended: false,
            held: HashMap::new(),
        };
        let leases = Arc::new((Mutex::new(leases), Condvar::new()));
        let (extended, weak) = (Arc::clone(&leases), Arc::downgrade(database));
        thread::Builder::new()
            .name("store-locks".into())
            .spawn(move || extend(&extended, &weak, owner))
            .map_err(StoreError::file(
                "start a thread to extend locks",
                std::path::Path::new("the store"),
            ))?;
        Ok(Self {
            database: Arc::clone(database),
            owner,
            leases,
        })
    }

    /// Takes all names or none: those in `exclusive` for this owner alone, and those in `shared`, which others may share.
    pub(crate) fn try_hold(&self, exclusive: &[u64], shared: &[u64]) -> Result<bool, StoreError> {
        let statements = &self.database.statements.locks;
        let owner = bigint(self.owner);
        let names = [exclusive, shared].concat();
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
        let lapse = Instant::now() + HELD_FOR;
        let taken = lease.run_all(&[
            (
                &statements.hold,
                &[Some(&owner), Some(&exclusive), Some(&not_shared)],
            ),
            (&statements.hold, &[Some(&owner), Some(&shared), Some(&is_shared)]),
            ("commit", &[]),
        ]);
        taken.map_err(|error| self.database.failed(&error))?;
        let taken = names.into_iter().map(|name| (name, lapse));
        self.leases.0.lock().held.extend(taken);
        Ok(true)
    }

    /// Forgets everything that is held if some of it has lapsed; returns whether that is so.
    pub(crate) fn forget_lapsed(&self) -> bool {
        let mut leases = self.leases.0.lock();
        let now = Instant::now();
        let has_lapsed = leases.held.values().any(|lapse| *lapse <= now);
        if has_lapsed {
            leases.held.clear();
        }
        has_lapsed
    }

    /// Releases names. If it fails, they end by themselves.
    pub(crate) fn release(&self, names: &[u64]) -> Result<(), StoreError> {
        self.leases.0.lock().held.retain(|name, _| !names.contains(name));
        let (owner, names) = (bigint(self.owner), bigint_array(names));
        let statement = &self.database.statements.locks.release;
        self.database
            .run(&[(statement, &[Some(&owner), Some(&names)])])
            .map(drop)
    }

    /// Releases everything. If it fails, it ends by itself.
    pub(crate) fn release_all(&self) -> Result<(), StoreError> {
        self.leases.0.lock().held.clear();
        let owner = bigint(self.owner);
        let statement = &self.database.statements.locks.release_all;
        self.database.run(&[(statement, &[Some(&owner)])]).map(drop)
    }
}

impl Drop for DatabaseLocks {
    fn drop(&mut self) {
        self.leases.0.lock().has_ended = true;
        self.leases.1.notify_one();
        let _ = self.release_all();
    }
}

/// Extends the owner's locks until it ends.
fn extend((leases, changed): &(Mutex<Leases>, Condvar), database: &Weak<Database>, owner: u64) {
    let owner = bigint(owner);
    loop {
        let mut now = leases.lock();
        changed.wait_while_for(&mut now, |leases| !leases.has_ended, EXTEND_EVERY);
        if now.has_ended {
            return;
        }
        let held = now.held.clone();
        drop(now);
        let Some(database) = database.upgrade() else {
            return;
        };
        if held.is_empty() {
            continue;
        }
        let names = bigint_array(&held.keys().copied().collect::<Vec<u64>>());
        let begun = Instant::now();
        let statement = &database.statements.locks.extend;
        // A failure is followed by other attempts before the locks end.
        let Ok(rows) = database.run(&[(statement, &[Some(&owner), Some(&names)])]) else {
            continue;
        };
        let rows = rows.iter().flat_map(|rows| &rows.rows);
        let extended: HashSet<u64> = rows.map(|row| number(row.text(0))).collect();
        let mut now = leases.lock();
        for (name, before) in held {
            match now.held.get_mut(&name) {
                Some(lapse) if extended.contains(&name) => *lapse = (*lapse).max(begun + HELD_FOR),
                // Its row has ended.
                Some(lapse) if *lapse == before => *lapse = begun,
                // It was released meanwhile, or also taken again.
                _ => {}
            }
        }
    }
}
