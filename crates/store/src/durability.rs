//! Durability of commits.
//!
//! A commit is durable once its record in the change log is on the disk: one write to one file, during which other
//! writers continue. The tree follows at checkpoints. After a power cut it is as of the last checkpoint, because the
//! engine never lets a later state reach the disk before an earlier one, and [`crate::recovery`] replays the log beyond
//! it.
//!
//! A [`Flusher`] makes commits durable: immediately for callers that wait, and within an interval for all other commits
//! of every process that has the store open.

use std::{
    fmt, mem,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{
    changes::{End, Journal, Log, Segment},
    checkpoint::{self, Checkpoints},
    error::StoreError,
    recovery,
    sys::{Environment, Table, Transaction},
};

/// When the file nears its maximum size, the engine itself checkpoints earlier commits. If a transaction begins with
/// less room than this, the log of those commits is flushed first.
const ROOM_BYTES: u64 = 64 << 20;

/// How long a commit waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Waits for a flush of its own: on the disk before the call returns.
    Sync,
    /// Waits for the next flush, shared with all concurrent commits: as safe as `Sync`, and cheaper with many writers.
    #[default]
    Group,
    /// Does not wait. A process crash loses nothing; a power cut loses at most the last `flush_interval`.
    Relaxed,
}

impl Durability {
    /// The one that promises more.
    pub(crate) fn stronger(self, other: Self) -> Self {
        match (self, other) {
            (Self::Sync, _) | (_, Self::Sync) => Self::Sync,
            (Self::Group, _) | (_, Self::Group) => Self::Group,
            (Self::Relaxed, Self::Relaxed) => Self::Relaxed,
        }
    }
}

/// The files of a store: the tree and the change log.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) environment: Arc<Environment>,
    pub(crate) log: Log,
    /// Table of the metadata.
    pub(crate) meta: Table,
    read_only: bool,
    flushed: AtomicU64,
    /// Error of this process's last commit, if it failed.
    commit_failure: Mutex<Option<String>>,
    /// Error of a commit whose record could not be taken back: [`StoreError::InDoubt`].
    in_doubt: Mutex<Option<String>>,
    /// Whether the log has been replayed into the tree. Until then, records after its end may be commits.
    is_recovered: AtomicBool,
}

impl Drop for Disk {
    fn drop(&mut self) {
        // So that a power cut leaves nothing to replay. If this fails, the log is still there to be replayed.
        if !self.read_only {
            let _ = self.checkpoint();
        }
    }
}

impl Disk {
    pub(crate) fn new(environment: Arc<Environment>, log: Log, meta: Table, read_only: bool) -> Self {
        Self {
            environment,
            log,
            meta,
            read_only,
            flushed: AtomicU64::new(0),
            commit_failure: Mutex::new(None),
            in_doubt: Mutex::new(None),
            is_recovered: AtomicBool::new(false),
        }
    }

    /// Records that the log has been replayed into the tree.
    pub(crate) fn set_recovered(&self) {
        self.is_recovered.store(true, Relaxed);
    }

    /// Begins a write transaction, waiting until no other is open. First makes a checkpoint if more than
    /// [`checkpoint::BYTES_MAX`] of the tree are not on the disk. Fails while a commit of this process is in doubt.
    pub(crate) fn begin(&self) -> Result<Transaction, StoreError> {
        let work = self.environment.write()?;
        let mut in_doubt = self.in_doubt.lock();
        if let Some(failure) = &*in_doubt {
            self.forget_beyond(End::of(&work)?)
                .map_err(|error| StoreError::InDoubt {
                    failure: failure.clone(),
                    reason: error.to_string(),
                })?;
            *in_doubt = None;
        }
        drop(in_doubt);
        let unsynced = self.environment.info()?.unsynced_bytes;
        if unsynced > checkpoint::BYTES_MAX {
            self.checkpoint_before(&work)?;
        } else if work.room()? < ROOM_BYTES && work.id() - 1 > self.flushed() {
            self.flush_log(End::of(&work)?, work.id() - 1)?;
        }
        Ok(work)
    }

    /// Writes a transaction's log record and commits it; returns the number of the commit. Remembers a failure.
    pub(crate) fn commit(&self, work: Transaction, journal: &mut Journal) -> Result<u64, StoreError> {
        let outcome = self.log_and_commit(work, journal);
        let mut failure = self.commit_failure.lock();
        match &outcome {
            Ok(_) if failure.is_none() => {}
            Ok(_) => *failure = None,
            Err(error) => *failure = Some(error.to_string()),
        }
        drop(failure);
        outcome
    }

    fn log_and_commit(&self, mut work: Transaction, journal: &mut Journal) -> Result<u64, StoreError> {
        let before = End::of(&work)?;
        let tail = self.log.tail(before, &self.environment)?;
        let prepared = tail.append(journal).and_then(|end| {
            self.before_commit(&work, end)?;
            end.put(&mut work)
        });
        if let Err(failure) = prepared {
            let taken_back = self.forget_beyond(before);
            self.log.let_go();
            return Err(self.failed(failure, taken_back));
        }
        work.commit()
            .map_err(|failure| self.failed(failure, self.take_back(before)))
    }

    /// Error of a commit that failed, depending on whether its record was taken back.
    fn failed(&self, failure: StoreError, taken_back: Result<(), StoreError>) -> StoreError {
        let Err(error) = taken_back else { return failure };
        let failure = failure.to_string();
        *self.in_doubt.lock() = Some(failure.clone());
        StoreError::InDoubt {
            failure,
            reason: error.to_string(),
        }
    }

    /// Error of this process's last commit, if it failed.
    pub(crate) fn commit_failure(&self) -> Option<String> {
        self.commit_failure.lock().clone()
    }

    /// Commits a tree with the same content, to see whether commits succeed again. Nothing has changed, so the log gets
    /// no record, and is only checked for room.
    pub(crate) fn probe(&self) -> Result<(), StoreError> {
        let mut work = self.begin()?;
        self.log.check_room(End::of(&work)?)?;
        recovery::mark(&mut work, self.meta)?;
        work.commit()?;
        *self.commit_failure.lock() = None;
        self.flush().map(|_| ())
    }

    /// Prepares a commit whose record is in the log. The engine treats a state without new pages as already on the
    /// disk, so the log is flushed first.
    fn before_commit(&self, work: &Transaction, end: End) -> Result<(), StoreError> {
        if work.is_clean()? {
            self.flush_log(end, work.id() - 1)?;
        }
        Ok(())
    }

    /// The last commit. Bounds every wait for a flush, because a commit that does not exist would never be flushed.
    pub(crate) fn last_commit(&self) -> Result<u64, StoreError> {
        Ok(self.environment.info()?.last_transaction)
    }

    /// The last commit known to this process to be on the disk.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Relaxed)
    }

    /// Makes every commit before the call durable, and returns the last of them.
    pub(crate) fn flush(&self) -> Result<u64, StoreError> {
        self.environment.check_flushes()?;
        let snapshot = self.environment.read()?;
        let (last, end) = (snapshot.id(), End::of(&snapshot)?);
        drop(snapshot);
        if last <= self.flushed() {
            return Ok(self.flushed());
        }
        if !self.flush_log(end, last)? {
            // A store restored from a backup has no log yet.
            return self.checkpoint();
        }
        Ok(last)
    }

    /// Flushes the log, which ends at `end` after the commit `last`; `false` when there is no log.
    fn flush_log(&self, end: End, last: u64) -> Result<bool, StoreError> {
        let Some(segment) = self.log.segment(end)? else {
            return Ok(false);
        };
        self.environment.flushing(|| segment.flush())?;
        self.flushed.fetch_max(last, Relaxed);
        Ok(true)
    }

    /// Invalidates the record of a commit that the engine refused, so that it is not replayed. The write lock is free by
    /// then: the record of another commit has overwritten this one, if the end has moved.
    fn take_back(&self, before: End) -> Result<(), StoreError> {
        self.log.let_go();
        let still = self.environment.write()?;
        if End::of(&still)? == before {
            self.forget_beyond(before)?;
        }
        Ok(())
    }

    /// As [`Self::clear_beyond`], if the log has been replayed into the tree. What follows its end then belongs to a
    /// process that was killed before it committed.
    fn forget_beyond(&self, end: End) -> Result<(), StoreError> {
        if self.is_recovered.load(Relaxed) {
            self.clear_beyond(end)?;
        }
        Ok(())
    }

    /// Invalidates everything after the log's end, on the disk too. The caller must hold the write lock and have
    /// replayed the complete records there.
    pub(crate) fn clear_beyond(&self, end: End) -> Result<(), StoreError> {
        if self.log.has_beyond(end)?
            && let Some(segment) = self.log.forget_beyond(end)?
        {
            self.environment.flushing(|| segment.flush())?;
        }
        Ok(())
    }

    /// Truncates the log on the disk to the end that the tree records. The caller must hold the write lock, and the
    /// tree must be on the disk.
    pub(crate) fn cut_log(&self, end: End) -> Result<(), StoreError> {
        match self.log.cut(end)? {
            Some(segment) => self.environment.flushing(|| segment.flush()),
            None => Ok(()),
        }
    }

    /// Flushes the log and then the tree to the disk. Returns the last commit.
    pub(crate) fn checkpoint(&self) -> Result<u64, StoreError> {
        // Most of it is written while other processes keep committing.
        let segment = self.log.segment(End::of(&self.environment.read()?)?)?;
        self.environment.flushing(|| {
            segment.as_ref().map_or(Ok(()), Segment::flush)?;
            self.environment.write_pages()
        })?;
        let still = self.environment.write()?;
        let (last, end) = self.checkpoint_before(&still)?;
        self.forget_beyond(end)?;
        drop(still);
        self.log.drop_oldest(end)?;
        Ok(last)
    }

    /// Flushes everything committed before a transaction that has not changed anything yet: the log first, because the
    /// tree on the disk must never be ahead of the log. Returns the last commit, and the end of the log after it.
    pub(crate) fn checkpoint_before(&self, still: &Transaction) -> Result<(u64, End), StoreError> {
        let (last, end) = (still.id() - 1, End::of(still)?);
        let segment = self.log.segment(end)?;
        self.environment.flushing(|| {
            segment.as_ref().map_or(Ok(()), Segment::flush)?;
            still.flush_before()
        })?;
        self.flushed.fetch_max(last, Relaxed);
        Ok((last, end))
    }
}

/// Makes commits durable, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Flusher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when a caller waits for a flush, or the thread must end.
    asked: Condvar,
    /// Signalled when a flush has ended.
    flushed: Condvar,
}

/// Called once, with the last commit known to be on the disk, or with the reason why that is unknown.
type WhenFlushed = Box<dyn FnOnce(Result<u64, StoreError>) + Send>;

#[derive(Default)]
struct State {
    /// Every commit up to this one is on the disk.
    flushed: u64,
    /// The latest commit that a caller waits for.
    wanted: u64,
    /// Callbacks, each with the commit it waits for.
    callers: Vec<(u64, WhenFlushed)>,
    /// Number of failed flushes, and the error of the last one.
    failures: u64,
    failure: String,
    end: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("State")
            .field("flushed", &self.flushed)
            .field("wanted", &self.wanted)
            .field("callers", &self.callers.len())
            .finish_non_exhaustive()
    }
}

impl Flusher {
    /// Starts the thread, which ends when the flusher or the files are dropped. With an interval it also flushes
    /// commits that no caller waits for, and requests checkpoints.
    pub(crate) fn start(disk: &Arc<Disk>, interval: Option<Duration>) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            asked: Condvar::new(),
            flushed: Condvar::new(),
        });
        let checkpoints = interval.map(|_| Checkpoints::start(disk)).transpose()?;
        let (thread_shared, disk) = (Arc::clone(&shared), Arc::downgrade(disk));
        thread::Builder::new()
            .name("store-flush".into())
            .spawn(move || run(&thread_shared, &disk, interval, checkpoints))
            .map_err(StoreError::file(
                "start a thread to flush",
                Path::new("the store"),
            ))?;
        Ok(Self { shared })
    }

    /// Calls `call` once a commit is on the disk, immediately if it already is. The callback must not block.
    pub(crate) fn when_flushed(&self, commit: u64, call: WhenFlushed) {
        let mut state = self.shared.state.lock();
        let flushed = state.flushed;
        if flushed >= commit {
            drop(state);
            return call(Ok(flushed));
        }
        state.wanted = state.wanted.max(commit);
        state.callers.push((commit, call));
        self.shared.asked.notify_one();
    }

    /// Waits until a commit is on the disk. A failed flush is reported to every waiter.
    pub(crate) fn wait(&self, commit: u64) -> Result<(), StoreError> {
        let mut state = self.shared.state.lock();
        let failures = state.failures;
        if state.flushed >= commit {
            return Ok(());
        }
        state.wanted = state.wanted.max(commit);
        self.shared.asked.notify_one();
        while state.flushed < commit {
            if state.failures != failures {
                return Err(StoreError::NotFlushed {
                    reason: state.failure.clone(),
                });
            }
            self.shared.flushed.wait(&mut state);
        }
        Ok(())
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.state.lock().end = true;
        self.shared.asked.notify_one();
    }
}

/// Runs a callback. Its panic is caught, because other callers wait too.
fn tell(call: WhenFlushed, outcome: Result<u64, StoreError>) {
    // The panic hook has already reported it.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| call(outcome)));
}

fn run(shared: &Shared, disk: &Weak<Disk>, interval: Option<Duration>, mut checkpoints: Option<Checkpoints>) {
    let mut state = shared.state.lock();
    loop {
        let deadline = interval.and_then(|interval| Instant::now().checked_add(interval));
        while !state.end && state.wanted <= state.flushed {
            let Some(deadline) = deadline else {
                shared.asked.wait(&mut state);
                continue;
            };
            if shared.asked.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        let Some(disk) = disk.upgrade().filter(|_| !state.end) else {
            let callers = mem::take(&mut state.callers);
            drop(state);
            for (_, call) in callers {
                tell(
                    call,
                    Err(StoreError::NotFlushed {
                        reason: "the store was closed".into(),
                    }),
                );
            }
            return;
        };
        drop(state);
        // Commits of other processes count as well.
        let outcome = disk.environment.info().and_then(|info| {
            if let Some(checkpoints) = &mut checkpoints {
                checkpoints.ask_if_due(info.unsynced_bytes, disk.commit_failure.lock().is_some());
            }
            if info.last_transaction > disk.flushed() {
                disk.flush()
            } else {
                Ok(disk.flushed())
            }
        });
        drop(disk);
        state = shared.state.lock();
        let callers = match outcome {
            Ok(last) => {
                state.flushed = state.flushed.max(last);
                let flushed = state.flushed;
                state
                    .callers
                    .extract_if(.., |(commit, _)| *commit <= flushed)
                    .collect()
            }
            Err(error) => {
                state.failures += 1;
                state.failure = error.to_string();
                // Every current waiter gets the error; the next round tries again for later ones.
                state.wanted = state.flushed;
                mem::take(&mut state.callers)
            }
        };
        shared.flushed.notify_all();
        if !callers.is_empty() {
            let flushed = state.flushed;
            let reason = state.failure.clone();
            drop(state);
            for (commit, call) in callers {
                let failed = || StoreError::NotFlushed {
                    reason: reason.clone(),
                };
                tell(
                    call,
                    if commit <= flushed {
                        Ok(flushed)
                    } else {
                        Err(failed())
                    },
                );
            }
            state = shared.state.lock();
        }
    }
}
