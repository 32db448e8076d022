//! An open store: its files, and what all its transactions share.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

use crate::{
    changes::{Change, ChangeWalk},
    clock,
    durability::{Disk, Durability, Flusher},
    error::StoreError,
    expiry::{self, Sweeper},
    locks::Locks,
    opening::Options,
    sys::{self, Parked},
    transaction::{Snapshot, Transaction},
    tree::Tables,
};

/// Snapshots that are kept ready.
const PARKED_MAX: usize = 16;

/// A handle on an open store; cheap to clone. The files close with the last handle, snapshot and transaction.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// What the handles of one store share.
#[derive(Debug)]
pub(crate) struct Shared {
    path: PathBuf,
    pub(crate) options: Options,
    pub(crate) disk: Arc<Disk>,
    pub(crate) tables: Tables,
    parked: Mutex<Vec<Parked>>,
    flusher: Option<Flusher>,
    sweeper: OnceLock<Sweeper>,
}

/// What is known about a store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// How far it may grow.
    pub map_max: u64,
    /// Size of a page, in bytes.
    pub page_bytes: u32,
    /// The last commit.
    pub last_commit: u64,
    /// Places for snapshots that are taken, over all processes.
    pub readers: u32,
    /// The last commit that this process knows to be on the disk.
    pub flushed_commit: u64,
    /// What the log alone has of the tree until the next checkpoint, in bytes of the tree's file.
    pub not_checkpointed_bytes: u64,
}

impl Store {
    /// The state of everything as of now. It stays as it is for as long as it can be read from, [`Options::reader_age_max`], and holds
    /// back the reuse of space while it is held.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let parked = self.shared.parked.lock().pop();
        let transaction = match parked {
            Some(parked) => parked.renew()?,
            None => self.shared.disk.environment.read()?,
        };
        Ok(Snapshot::new(Arc::clone(&self.shared), transaction))
    }

    /// Begins to write. Waits until no other thread or process writes; that wait has no bound of its own.
    pub fn begin(&self) -> Result<Transaction, StoreError> {
        Ok(Transaction::new(Arc::clone(&self.shared), self.work()?))
    }

    fn work(&self) -> Result<sys::Transaction, StoreError> {
        if self.shared.options.read_only {
            return Err(StoreError::ReadOnly);
        }
        self.shared.disk.begin()
    }

    /// Runs a transaction and commits it as the options say; rolls back when the function fails.
    pub fn transact<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = self.begin()?;
        let outcome = work(&mut transaction)?;
        transaction.commit(self.shared.options.durability)?;
        Ok(outcome)
    }

    /// Makes every commit durable that was made before the call.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.shared.disk.flush().map(|_| ())
    }

    /// Brings the tree itself to the disk. Commits are durable without that: it bounds what is to be done again after a power cut. Waits
    /// until nobody else writes. A store whose opener leads does this by itself.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.shared.disk.checkpoint().map(|_| ())
    }

    /// Why this process cannot write: what the flush said after which nothing can be written until the store is opened anew, or what the
    /// last commit said. The one who leads tries a commit each second while they fail. `None` while all is well.
    pub fn write_failure(&self) -> Option<String> {
        let disk = &self.shared.disk;
        let flush = disk.environment.flush_failure().map(str::to_owned);
        flush.or_else(|| disk.commit_failure())
    }

    /// What the commits after `since` did, oldest first, as of now. The first commit that changes something is number 1.
    pub fn changes(&self, since: u64) -> Result<ChangeWalk, StoreError> {
        let snapshot = self.snapshot()?;
        ChangeWalk::new(&self.shared.path, Some(snapshot.log_end()?), since)
    }

    /// Has a walk over changes go on with those that have come since.
    pub fn follow(&self, walk: &mut ChangeWalk) -> Result<(), StoreError> {
        walk.extend(self.snapshot()?.log_end()?)
    }

    /// Does again what another store's log holds beyond this one's last change, as far as `wanted` says yes: after a backup has been
    /// restored, up to a point in time. Says how many changes those were. The store must not be one that leads, for that removes
    /// what is due meanwhile; and what the other log has behind its last whole record is not known.
    pub fn replay(&self, other: &Path, mut wanted: impl FnMut(&Change) -> bool) -> Result<u64, StoreError> {
        let refused = |reason: &'static str| Err(StoreError::Replay { reason });
        if self.shared.options.lead {
            return refused("the store must be opened without leading it");
        }
        if other.canonicalize().is_ok_and(|other| other == self.shared.path) {
            return refused("the log must be another store's");
        }
        let since = self.snapshot()?.sequence()?;
        let Some(changes) = ChangeWalk::of_log(other, since)? else {
            return refused("there is no log of changes");
        };
        let mut count = 0;
        for change in changes {
            let change = change?;
            if !wanted(&change) {
                break;
            }
            let mut transaction = Transaction::again(Arc::clone(&self.shared), self.work()?);
            for operation in &change.operations {
                transaction.apply(operation)?;
            }
            transaction.commit(Durability::Relaxed)?;
            count += 1;
        }
        self.flush()?;
        Ok(count)
    }

    /// Waits until a commit is on the disk.
    pub fn wait_flushed(&self, commit: u64) -> Result<(), StoreError> {
        self.shared.wait_flushed(commit)
    }

    /// Has a function called when a commit is on the disk, from another thread, or at once if it is there already, with the last
    /// commit that is known to be. A commit that is yet to come is taken for the last one there is. The function must not block.
    pub fn when_flushed(&self, commit: u64, call: impl FnOnce(Result<u64, StoreError>) + Send + 'static) {
        match (&self.shared.flusher, self.shared.last_commit()) {
            (Some(flusher), Ok(last)) => flusher.when_flushed(commit.min(last), Box::new(call)),
            (None, Ok(_)) => call(self.shared.disk.flush()),
            (_, Err(error)) => call(Err(error)),
        }
    }

    /// Frees the places of snapshots whose process has died; says how many.
    pub fn clear_dead_readers(&self) -> Result<u32, StoreError> {
        self.shared.disk.environment.clear_dead_readers()
    }

    /// Removes every node whose time has come; says how many. A store whose opener leads does this by itself.
    pub fn sweep(&self) -> Result<u64, StoreError> {
        expiry::sweep(self, clock::now_ms())
    }

    /// A new owner of locks.
    pub fn locks(&self) -> Result<Locks, StoreError> {
        Locks::open(&self.shared.path)
    }

    /// Figures about the store as a whole.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let info = self.shared.disk.environment.info()?;
        Ok(Stats {
            file_bytes: info.file_bytes,
            map_max: info.map_max,
            page_bytes: info.page_bytes,
            last_commit: info.last_transaction,
            readers: info.readers,
            flushed_commit: self.shared.disk.flushed(),
            not_checkpointed_bytes: info.unsynced_bytes,
        })
    }

    /// The store's folder.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The options it was opened with.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }
}

impl Shared {
    pub(crate) fn new(
        path: PathBuf,
        options: Options,
        disk: Arc<Disk>,
        tables: Tables,
        flusher: Option<Flusher>,
    ) -> Self {
        Self {
            path,
            options,
            disk,
            tables,
            parked: Mutex::default(),
            flusher,
            sweeper: OnceLock::new(),
        }
    }

    /// From now on nodes are removed whose time has come, for as long as the store is open.
    pub(crate) fn start_to_sweep(self: &Arc<Self>) -> Result<(), StoreError> {
        let sweeper = Sweeper::start(Arc::downgrade(self))?;
        self.sweeper.set(sweeper).expect("it is started once");
        Ok(())
    }

    /// What has never been committed would never be flushed either: whoever waits waits for this at most.
    fn last_commit(&self) -> Result<u64, StoreError> {
        Ok(self.disk.environment.info()?.last_transaction)
    }

    pub(crate) fn wait_flushed(&self, commit: u64) -> Result<(), StoreError> {
        let commit = commit.min(self.last_commit()?);
        match &self.flusher {
            Some(flusher) => flusher.wait(commit),
            None => self.disk.flush().map(|_| ()),
        }
    }

    pub(crate) fn park(&self, parked: Parked) {
        let mut places = self.parked.lock();
        if places.len() < PARKED_MAX {
            places.push(parked);
        }
    }
}
