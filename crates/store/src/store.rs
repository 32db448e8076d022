//! An open store: its files and what all its transactions share.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

use crate::{
    changes::{Change, ChangeWalk},
    clock,
    database::{Database, DatabaseWalk},
    durability::{Disk, Durability, Flusher},
    engine,
    error::StoreError,
    expiry::{self, Sweeper},
    locks::Locks,
    opening::Options,
    sys::Parked,
    transaction::{Snapshot, Transaction},
    tree::{Reader, Tables},
};

/// How often a function of [`Store::transact`] is run.
const RUNS_MAX: u32 = 3;
/// Most idle snapshots kept for reuse.
const PARKED_MAX: usize = 16;

/// A handle on an open store; cheap to clone. The files close with the last handle, snapshot and transaction.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// State shared by the handles of one store.
#[derive(Debug)]
pub(crate) struct Shared {
    path: PathBuf,
    pub(crate) options: Options,
    pub(crate) home: Home,
    pub(crate) tables: Tables,
    parked: Mutex<Vec<Parked>>,
    sweeper: OnceLock<Sweeper>,
}

/// Where a store is kept.
#[derive(Debug)]
pub(crate) enum Home {
    /// In the files of a folder.
    Folder {
        disk: Arc<Disk>,
        flusher: Option<Flusher>,
    },
    Database(Arc<Database>),
}

/// Figures about a store as a whole. Those of pages and readers are 0 in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Size limit of the file, in bytes.
    pub map_max: u64,
    /// Size of a page, in bytes.
    pub page_bytes: u32,
    /// Number of the last commit.
    pub last_commit: u64,
    /// Reader slots in use, in all processes.
    pub readers: u32,
    /// Last commit known to this process to be on the disk.
    pub flushed_commit: u64,
    /// Bytes of the tree's file that are not on the disk yet, and until the next checkpoint are only in the log.
    pub not_checkpointed_bytes: u64,
}

impl Store {
    /// A consistent view of the current state. It does not change and can be read for [`Options::reader_age_max`];
    /// while it is held, space cannot be reused.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let snapshot = self.later_snapshot()?;
        snapshot.take()?;
        Ok(snapshot)
    }

    /// Runs reads of one state, the latest. In a database they may be [repeated](Snapshot::run), and a single one is a
    /// single statement there.
    pub fn read<T, E: From<StoreError>>(
        &self,
        question: impl FnMut(&Reader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.later_snapshot()?.run(question)
    }

    /// A snapshot that, in a database, is taken only when it is first read.
    pub(crate) fn later_snapshot(&self) -> Result<Snapshot, StoreError> {
        let parked = self.shared.parked.lock().pop();
        let transaction = match (parked, &self.shared.home) {
            (Some(parked), _) => parked.renew()?.into(),
            (None, Home::Folder { disk, .. }) => disk.environment.read()?.into(),
            (None, Home::Database(database)) => database.snapshot().into(),
        };
        Ok(Snapshot::new(Arc::clone(&self.shared), transaction))
    }

    /// Begins a write transaction. Waits until no other thread or process writes: for a folder without a time limit, for a
    /// database half a minute at most.
    pub fn begin(&self) -> Result<Transaction, StoreError> {
        Ok(Transaction::new(Arc::clone(&self.shared), self.work()?))
    }

    pub(crate) fn work(&self) -> Result<engine::Transaction, StoreError> {
        if self.shared.options.read_only {
            return Err(StoreError::ReadOnly);
        }
        Ok(match &self.shared.home {
            Home::Folder { disk, .. } => disk.begin()?.into(),
            Home::Database(database) => database.write()?.into(),
        })
    }

    /// Runs a function in a transaction and commits it with the store's durability; rolls back if the function fails. It is
    /// run again if a database refuses the commit for no fault of the function, such as a conflict.
    pub fn transact<T, E: From<StoreError>>(
        &self,
        mut work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut runs = 1;
        loop {
            let mut transaction = self.begin()?;
            let outcome = work(&mut transaction)?;
            match transaction.commit(self.shared.options.durability) {
                Err(StoreError::Database { error, .. }) if error.is_passing() && runs < RUNS_MAX => runs += 1,
                committed => return Ok(committed.map(|_| outcome)?),
            }
        }
    }

    /// Makes every commit before the call durable.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.shared.disk().map_or(Ok(()), |disk| disk.flush().map(drop))
    }

    /// Flushes the tree itself to the disk. Commits are durable without that; it bounds what must be replayed after a
    /// power cut. Waits until no other transaction writes. A leading process does this on its own.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.shared
            .disk()
            .map_or(Ok(()), |disk| disk.checkpoint().map(drop))
    }

    /// Why this process cannot write: the error of a failed flush, after which the store must be reopened, or the error
    /// of the last commit. A leading process tries again every few seconds while commits fail. `None` while writes
    /// work.
    pub fn write_failure(&self) -> Option<String> {
        match &self.shared.home {
            Home::Folder { disk, .. } => {
                let flush = disk.environment.flush_failure().map(str::to_owned);
                flush.or_else(|| disk.commit_failure())
            }
            Home::Database(database) => database.commit_failure(),
        }
    }

    /// Changes of the commits after `since`, oldest first, up to now. The first commit that changes something is number
    /// 1.
    pub fn changes(&self, since: u64) -> Result<ChangeWalk, StoreError> {
        let end = self.later_snapshot()?.log_end()?;
        match &self.shared.home {
            Home::Folder { .. } => ChangeWalk::new(&self.shared.path, end, since),
            Home::Database(database) => {
                DatabaseWalk::new(database, end.sequence, since).map(ChangeWalk::from)
            }
        }
    }

    /// Extends a walk over changes to those made since.
    pub fn follow(&self, walk: &mut ChangeWalk) -> Result<(), StoreError> {
        walk.extend(self.later_snapshot()?.log_end()?)
    }

    /// Replays the changes of another store's log after this store's last one, until `wanted` returns false: restores a
    /// backup up to a point in time. Returns the number of changes replayed. The store must not be open with `lead`,
    /// because a leading process removes expired nodes meanwhile. Changes after the last complete record of the other
    /// log are unknown.
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

    /// Calls a function, from another thread, once a commit is on the disk, or at once if it already is; its argument
    /// is the last commit known to be on the disk. A commit number in the future stands for the last commit. The
    /// function must not block.
    pub fn when_flushed(&self, commit: u64, call: impl FnOnce(Result<u64, StoreError>) + Send + 'static) {
        let Home::Folder { disk, flusher } = &self.shared.home else {
            // Every commit of a database that has been confirmed is.
            return call(Ok(commit));
        };
        match (flusher, disk.last_commit()) {
            (Some(flusher), Ok(last)) => flusher.when_flushed(commit.min(last), Box::new(call)),
            (None, Ok(_)) => call(disk.flush()),
            (_, Err(error)) => call(Err(error)),
        }
    }

    /// Frees the reader slots of processes that have died; returns how many.
    pub fn clear_dead_readers(&self) -> Result<u32, StoreError> {
        self.shared
            .disk()
            .map_or(Ok(0), |disk| disk.environment.clear_dead_readers())
    }

    /// Removes every expired node; returns how many. A leading process does this on its own.
    pub fn sweep(&self) -> Result<u64, StoreError> {
        expiry::sweep(self, clock::now_ms())
    }

    /// Creates an owner of locks.
    pub fn locks(&self) -> Result<Locks, StoreError> {
        match &self.shared.home {
            Home::Folder { .. } => Locks::open(&self.shared.path),
            Home::Database(database) => Locks::in_database(database),
        }
    }

    /// Current figures about the store.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let disk = match &self.shared.home {
            Home::Folder { disk, .. } => disk,
            Home::Database(database) => {
                return Ok(Stats {
                    file_bytes: 0,
                    map_max: 0,
                    page_bytes: 0,
                    last_commit: database.last_seen(),
                    readers: 0,
                    flushed_commit: database.last_seen(),
                    not_checkpointed_bytes: 0,
                });
            }
        };
        let info = disk.environment.info()?;
        Ok(Stats {
            file_bytes: info.file_bytes,
            map_max: info.map_max,
            page_bytes: info.page_bytes,
            last_commit: info.last_transaction,
            readers: info.readers,
            flushed_commit: disk.flushed(),
            not_checkpointed_bytes: info.unsynced_bytes,
        })
    }

    /// Longest value or document that may be written.
    pub fn value_bytes_max(&self) -> usize {
        self.shared.tables.value_bytes_max
    }

    /// Whether it is in a database, so that reading waits for the network.
    pub fn is_remote(&self) -> bool {
        matches!(self.shared.home, Home::Database(_))
    }

    /// The store's folder, or the URL of its database without the password.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The options with which it was opened.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }
}

impl Shared {
    pub(crate) fn new(path: PathBuf, options: Options, home: Home, tables: Tables) -> Self {
        Self {
            path,
            options,
            home,
            tables,
            parked: Mutex::default(),
            sweeper: OnceLock::new(),
        }
    }

    /// Starts removing expired nodes, for as long as the store is open.
    pub(crate) fn start_to_sweep(self: &Arc<Self>) -> Result<(), StoreError> {
        let sweeper = Sweeper::start(Arc::downgrade(self))?;
        self.sweeper.set(sweeper).expect("it is started once");
        Ok(())
    }

    /// The files, unless it is in a database.
    pub(crate) fn disk(&self) -> Option<&Arc<Disk>> {
        match &self.home {
            Home::Folder { disk, .. } => Some(disk),
            Home::Database(_) => None,
        }
    }

    pub(crate) fn wait_flushed(&self, commit: u64) -> Result<(), StoreError> {
        match &self.home {
            Home::Folder {
                disk,
                flusher: Some(flusher),
            } => flusher.wait(commit.min(disk.last_commit()?)),
            Home::Folder { disk, flusher: None } => disk.flush().map(drop),
            Home::Database(_) => Ok(()),
        }
    }

    pub(crate) fn park(&self, parked: Parked) {
        let mut places = self.parked.lock();
        if places.len() < PARKED_MAX {
            places.push(parked);
        }
    }
}
