//! When a commit is on the disk.
//!
//! A commit is durable once its record in the log of changes is on the disk: that is one write to one file, and nobody has to stop
//! for it. The tree follows at checkpoints. After a power cut it is as of the last checkpoint, for the engine never lets a later
//! state reach the disk before an earlier one, and [`crate::recovery`] does again what the log holds beyond it.
//!
//! A [`Flusher`] makes commits durable: at once for those who wait, and within an interval for all others, of every process that has
//! the store open.

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
    sys::{Environment, Transaction},
};

/// A transaction that comes to the greatest size of the file has the engine make a checkpoint of the commits before it. The log of those
/// is on the disk when so little room is left at its beginning.
const ROOM_BYTES: u64 = 64 << 20;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// For a flush of its own: on the disk before the call returns.
    Sync,
    /// For the next flush, which it shares with all that commit meanwhile: as safe as `Sync`, and cheaper when many write.
    #[default]
    Group,
    /// For nothing. A crash of the process loses nothing; a power cut at most the last `flush_interval`.
    Relaxed,
}

impl Durability {
    /// The one of both that promises more.
    pub(crate) fn stronger(self, other: Self) -> Self {
        match (self, other) {
            (Self::Sync, _) | (_, Self::Sync) => Self::Sync,
            (Self::Group, _) | (_, Self::Group) => Self::Group,
            (Self::Relaxed, Self::Relaxed) => Self::Relaxed,
        }
    }
}

/// The files of a store: the tree, and the log of its changes.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) environment: Arc<Environment>,
    pub(crate) log: Log,
    read_only: bool,
    flushed: AtomicU64,
    /// What the last commit of this process said, where it failed.
    commit_failure: Mutex<Option<String>>,
    /// Whether the tree has all that the log has. What lies behind its end may be commits until then.
    is_recovered: AtomicBool,
}

impl Drop for Disk {
    fn drop(&mut self) {
        // So that a power cut leaves nothing to be done again. What fails here can be done again.
        if !self.read_only {
            let _ = self.checkpoint();
        }
    }
}

impl Disk {
    pub(crate) fn new(environment: Arc<Environment>, log: Log, read_only: bool) -> Self {
        Self {
            environment,
            log,
            read_only,
            flushed: AtomicU64::new(0),
            commit_failure: Mutex::new(None),
            is_recovered: AtomicBool::new(false),
        }
    }

    /// Tells that the tree has all that the log has.
    pub(crate) fn set_recovered(&self) {
        self.is_recovered.store(true, Relaxed);
    }

    /// Begins to write: waits until nobody else does. So much at most is of the tree that is not on the disk by then:
    /// [`checkpoint::BYTES_MAX`].
    pub(crate) fn begin(&self) -> Result<Transaction, StoreError> {
        let work = self.environment.write()?;
        let unsynced = self.environment.info()?.unsynced_bytes;
        if unsynced > checkpoint::BYTES_MAX {
            self.checkpoint_before(&work)?;
        } else if work.room()? < ROOM_BYTES && work.id() - 1 > self.flushed() {
            self.flush_log(End::of(&work)?, work.id() - 1)?;
        }
        Ok(work)
    }

    /// Writes a transaction's record and commits it; says which commit it was. Remembers whether it failed.
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
        let end = self.log.append(before, journal, &self.environment)?;
        self.before_commit(&work, end)
            .and_then(|()| end.put(&mut work))
            .inspect_err(|_| self.log.let_go())?;
        work.commit().inspect_err(|_| self.take_back(before))
    }

    /// What the last commit of this process said, where it failed.
    pub(crate) fn commit_failure(&self) -> Option<String> {
        self.commit_failure.lock().clone()
    }

    /// Commits a change without operations, to see whether commits succeed again.
    pub(crate) fn probe(&self) -> Result<(), StoreError> {
        self.commit(self.begin()?, &mut Journal::without_operations())?;
        self.flush().map(|_| ())
    }

    /// Before a commit whose record the log has: a state of which no page is new counts for the engine as one that is on the disk.
    fn before_commit(&self, work: &Transaction, end: End) -> Result<(), StoreError> {
        if work.is_clean()? {
            self.flush_log(end, work.id() - 1)?;
        }
        Ok(())
    }

    /// The last commit that this process knows to be on the disk.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Relaxed)
    }

    /// Makes every commit durable that was made before the call, and says which was the last of them.
    pub(crate) fn flush(&self) -> Result<u64, StoreError> {
        self.environment.check_flushes()?;
        let snapshot = self.environment.read()?;
        let (last, end) = (snapshot.id(), End::of(&snapshot)?);
        drop(snapshot);
        if last <= self.flushed() {
            return Ok(self.flushed());
        }
        if !self.flush_log(end, last)? {
            // What came from a backup has no log of its own yet.
            return self.checkpoint();
        }
        Ok(last)
    }

    /// Brings the log to the disk, which ends so after that commit; `false` when there is none.
    fn flush_log(&self, end: End, last: u64) -> Result<bool, StoreError> {
        let Some(segment) = self.log.segment(end)? else {
            return Ok(false);
        };
        self.environment.flushing(|| segment.flush())?;
        self.flushed.fetch_max(last, Relaxed);
        Ok(true)
    }

    /// Takes back the record of a commit that has failed, lest it be done again after a power cut. What fails here would fail the next
    /// commit, too, and that writes over it.
    fn take_back(&self, before: End) {
        self.log.let_go();
        if let Ok(still) = self.environment.write()
            && End::of(&still).is_ok_and(|now| now == before)
        {
            let _ = self.forget_beyond(before);
        }
    }

    /// As [`Self::clear_beyond`], once the tree has all of the log. What lies behind its end is then of a process that was killed
    /// before it had committed.
    fn forget_beyond(&self, end: End) -> Result<(), StoreError> {
        if self.is_recovered.load(Relaxed) {
            self.clear_beyond(end)?;
        }
        Ok(())
    }

    /// Clears what lies behind the log's end, on the disk, too. Only who holds the write lock may do that, and has applied what is whole there.
    pub(crate) fn clear_beyond(&self, end: End) -> Result<(), StoreError> {
        if self.log.has_beyond(end)?
            && let Some(segment) = self.log.forget_beyond(end)?
        {
            self.environment.flushing(|| segment.flush())?;
        }
        Ok(())
    }

    /// Has the log end on the disk where the tree says. Only who writes may do that, and only when the tree is on the disk.
    pub(crate) fn cut_log(&self, end: End) -> Result<(), StoreError> {
        match self.log.cut(end)? {
            Some(segment) => self.environment.flushing(|| segment.flush()),
            None => Ok(()),
        }
    }

    /// Brings the tree to the disk, and the log before it. Says which was the last commit.
    pub(crate) fn checkpoint(&self) -> Result<u64, StoreError> {
        // Most of it while others go on committing.
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

    /// Brings all to the disk that was committed before a transaction that has changed nothing yet: the log first, for the tree must not
    /// come to know of a commit that the log has not. Says which was the last commit, and where the log ends with it.
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
    /// Somebody waits for a flush, or the thread is to end.
    asked: Condvar,
    /// A flush has ended.
    flushed: Condvar,
}

/// Called once with the last commit that is known to be on the disk, or why that cannot be said.
type WhenFlushed = Box<dyn FnOnce(Result<u64, StoreError>) + Send>;

#[derive(Default)]
struct State {
    /// Every commit up to this one is on the disk.
    flushed: u64,
    /// Somebody waits for this one.
    wanted: u64,
    /// Whom to call, and for which commit.
    callers: Vec<(u64, WhenFlushed)>,
    /// How many flushes have failed, and what the last one said.
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
    /// Starts the thread. It ends with the flusher or the files. With an interval it also flushes what nobody waits for, and asks for
    /// checkpoints.
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

    /// Has a function called when a commit is on the disk, at once if it is already. It must not block.
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

    /// Waits until a commit is on the disk. When a flush fails, that is told to all who wait for it.
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

/// Calls one who waits. Its panic is its own: others wait, too.
fn tell(call: WhenFlushed, outcome: Result<u64, StoreError>) {
    // The panic has been reported by then.
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
        // What other processes have committed counts as well.
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
                // Whoever still waits is told; the next round tries again for others.
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
