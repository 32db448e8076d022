//! Locks on node names across all processes, released when their owner ends.
//!
//! Locks are advisory, as in M: they exclude other locks, not access to data. Locking a node conflicts with locks on
//! the nodes above and below it. Locks are reentrant.
//!
//! Each name stands for one byte of a file that is never written (its offset is a hash of the name), and each owner has
//! the file open by itself. To lock a node is to lock its byte for writing and those of the nodes above it for reading,
//! with locks that belong to the open file (`F_OFD_SETLK`): when the owner's process dies, however it dies, the
//! operating system releases them. Two names with the same hash, one pair in 2^63, exclude each other needlessly. In a
//! database, each byte is a row that ends by itself unless its owner extends it ([`crate::database`]). An owner that
//! could not extend its rows in time counts all of its locks as lapsed, a second before others can take them.

mod sys;

use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    database::{Database, DatabaseLocks},
    error::StoreError,
    folder::FILE_MODE,
    key::Key,
};

pub(crate) use sys::{Hold, try_hold};

const FILE: &str = "store.locks";
/// First and longest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);
/// Most names that one owner holds at a time, including the nodes above the locked ones.
const NAMES_MAX: usize = 65_536;

/// The locks of one owner. Dropping it releases them all.
#[derive(Debug)]
pub struct Locks {
    records: LockRecords,
    held: HashMap<u64, HeldLock>,
}

/// How often a name is held, for the locked node itself and for nodes below it.
#[derive(Clone, Copy, Debug, Default)]
struct HeldLock {
    locked: u32,
    above: u32,
}

impl HeldLock {
    fn hold(self) -> Option<Hold> {
        match (self.locked, self.above) {
            (0, 0) => None,
            (0, _) => Some(Hold::Shared),
            _ => Some(Hold::Exclusive),
        }
    }
}

impl Locks {
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            records: LockRecords::File(open_file(&folder.join(FILE))?),
            held: HashMap::new(),
        })
    }

    pub(crate) fn in_database(database: &Arc<Database>) -> Result<Self, StoreError> {
        Ok(Self {
            records: LockRecords::Database(DatabaseLocks::open(database)?),
            held: HashMap::new(),
        })
    }

    /// Locks a node. `Ok(false)` if others still held it after `patience`; `None` waits forever.
    ///
    /// In a database, the owner's locks lapse when it has not reached the database for 14 seconds: nothing is held then,
    /// and the next call locks anew.
    pub fn lock(&mut self, key: &Key, patience: Option<Duration>) -> Result<bool, StoreError> {
        let wanted = bytes_of(key);
        // A deadline beyond the range of the clock means forever.
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut pause = match &self.records {
            LockRecords::File(_) => PAUSE_MIN,
            // Each attempt is a transaction.
            LockRecords::Database(_) => PAUSE_MAX,
        };
        while !self.try_all(&wanted)? {
            let left = deadline.map_or(PAUSE_MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Ok(false);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
        Ok(true)
    }

    /// Whether this owner has locked the node itself and the lock has not lapsed. Does not ask the database, in which a
    /// lock that is held lasts for at least another second, unless somebody else removes its row.
    pub fn holds(&mut self, key: &Key) -> bool {
        self.forget_lapsed();
        let names = bytes_of(key);
        let own = names.last().expect("a path has at least its global");
        self.held.get(own).is_some_and(|held| held.locked > 0)
    }

    /// Releases one `lock`; `false` if there was none, or if it has lapsed and others may have held it since. After an
    /// error it is released too, but in a database others may have to wait until it ends by itself.
    pub fn unlock(&mut self, key: &Key) -> Result<bool, StoreError> {
        if !self.holds(key) {
            return Ok(false);
        }
        let changes = self.changes(&bytes_of(key), |count| *count -= 1);
        // A row that cannot be released is not extended, so that it ends by itself.
        self.count(&changes);
        self.records.apply(&changes)
    }

    /// Releases all locks. After an error it can be called again; in a database the locks also end by themselves.
    pub fn unlock_all(&mut self) -> Result<(), StoreError> {
        match &self.records {
            LockRecords::Database(locks) => {
                self.held.clear();
                locks.release_all()
            }
            LockRecords::File(_) => {
                let all = self.held.iter().map(|(&name, &before)| LockChange {
                    name,
                    before,
                    after: HeldLock::default(),
                });
                self.records.apply(&all.collect::<Vec<_>>())?;
                self.held.clear();
                Ok(())
            }
        }
    }

    /// Takes all names or none, so that an owner never holds some while it waits for others.
    fn try_all(&mut self, wanted: &[u64]) -> Result<bool, StoreError> {
        self.forget_lapsed();
        if self.held.len() + wanted.len() > NAMES_MAX {
            return Err(StoreError::TooManyLocks { max: NAMES_MAX });
        }
        let changes = self.changes(wanted, |count| *count += 1);
        let taken = self.records.apply(&changes)?;
        if taken {
            self.count(&changes);
        }
        Ok(taken)
    }

    /// Forgets all locks if one of them has lapsed: all of an owner's are extended together.
    fn forget_lapsed(&mut self) {
        if let LockRecords::Database(locks) = &self.records
            && locks.forget_lapsed()
        {
            self.held.clear();
        }
    }

    /// Changes of how often a node, which is last, and those above it are held.
    fn changes(&self, names: &[u64], change: impl Fn(&mut u32)) -> Vec<LockChange> {
        let changes = names.iter().enumerate().map(|(index, name)| {
            let before = self.held.get(name).copied().unwrap_or_default();
            let mut after = before;
            change(if index + 1 == names.len() {
                &mut after.locked
            } else {
                &mut after.above
            });
            let name = *name;
            LockChange { name, before, after }
        });
        changes.collect()
    }

    fn count(&mut self, changes: &[LockChange]) {
        for LockChange { name, after, .. } in changes {
            match after.hold() {
                Some(_) => self.held.insert(*name, *after),
                None => self.held.remove(name),
            };
        }
    }
}

/// A change of how often a name is held.
#[derive(Clone, Copy, Debug)]
struct LockChange {
    name: u64,
    before: HeldLock,
    after: HeldLock,
}

/// Where locks are kept.
#[derive(Debug)]
enum LockRecords {
    File(File),
    Database(DatabaseLocks),
}

impl LockRecords {
    /// Makes all changes or none; `false` if others hold one of the names.
    fn apply(&self, changes: &[LockChange]) -> Result<bool, StoreError> {
        let changes: Vec<&LockChange> = changes
            .iter()
            .filter(|change| change.before.hold() != change.after.hold())
            .collect();
        let file = match self {
            Self::File(file) => file,
            Self::Database(locks) => {
                let names = |hold| {
                    let those = changes.iter().filter(|change| change.after.hold() == hold);
                    those.map(|change| change.name).collect::<Vec<u64>>()
                };
                let (exclusive, shared) = (names(Some(Hold::Exclusive)), names(Some(Hold::Shared)));
                let gone = names(None);
                if !gone.is_empty() {
                    locks.release(&gone)?;
                }
                return if exclusive.is_empty() && shared.is_empty() {
                    Ok(true)
                } else {
                    locks.try_hold(&exclusive, &shared)
                };
            }
        };
        let set = |name, hold| {
            try_hold(file, name, hold).map_err(|source| StoreError::File {
                what: "lock a byte of",
                path: FILE.into(),
                source,
            })
        };
        for (index, change) in changes.iter().enumerate() {
            let taken = set(change.name, change.after.hold());
            if !matches!(taken, Ok(true)) {
                for change in &changes[..index] {
                    set(change.name, change.before.hold())?;
                }
                return taken;
            }
        }
        Ok(true)
    }
}

/// Opens or creates the file whose bytes are locked. Nothing is ever written to it.
pub(crate) fn open_file(path: &Path) -> Result<File, StoreError> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
        .map_err(StoreError::file("open", path))
}

/// The bytes of a node and of the nodes above it, its own last.
fn bytes_of(key: &Key) -> Vec<u64> {
    let mut bytes = Vec::new();
    let mut hash = Fnv::new();
    let mut done = 0;
    let mut end = key.as_bytes().len() - key.subscripts().rest.len();
    let mut subscripts = key.subscripts();
    loop {
        hash.add(&key.as_bytes()[done..end]);
        bytes.push(hash.0 >> 1);
        done = end;
        match subscripts.next() {
            Some(subscript) => end += subscript.len(),
            None => return bytes,
        }
    }
}

/// 64-bit FNV-1a (Fowler, Noll, Vo): the same in every process and version.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}
