//! When a commit is on the disk.
//!
//! The engine commits without waiting for the disk and never lets a later state reach the disk before an earlier one, so a
//! power cut can lose the last commits but tears none. A [`Flusher`] makes commits durable: at once for those who wait, and
//! within an interval for all others, of every process that has the store open.

use std::{
    fmt, mem,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{
    changes::{End, Log, Segment},
    error::StoreError,
    sys::Environment,
};

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

/// The files of a store: the tree, and the log of its changes.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) environment: Arc<Environment>,
    pub(crate) log: Log,
    pub(crate) read_only: bool,
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The engine flushes when it is closed; the log is to be on the disk before that. What fails here is told by the log itself.
        if !self.read_only {
            let _ = self.flush();
        }
    }
}

impl Disk {
    /// As [`Disk::flush`], and most of it while others go on committing.
    fn flush_beside_others(&self) -> Result<u64, StoreError> {
        let end = End::of(&self.environment.read()?)?;
        let segment = self.log.segment(end)?;
        self.environment.flushing(|| {
            segment.as_ref().map_or(Ok(()), Segment::flush)?;
            self.environment.write_pages()
        })?;
        self.flush()
    }

    /// Makes every commit durable that was made before the call, and says which was the last of them.
    pub(crate) fn flush(&self) -> Result<u64, StoreError> {
        // A commit meanwhile would become durable without its record in the log.
        let still = self.environment.write()?;
        let segment = self.log.segment(End::of(&still)?)?;
        self.environment.flushing(|| {
            segment.as_ref().map_or(Ok(()), Segment::flush)?;
            still.flush_before()
        })?;
        Ok(still.id() - 1)
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
    /// Starts the thread. It ends with the flusher or the files. With an interval it also flushes what nobody waits for.
    pub(crate) fn start(disk: &Arc<Disk>, interval: Option<Duration>) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            asked: Condvar::new(),
            flushed: Condvar::new(),
        });
        let (thread_shared, disk) = (Arc::clone(&shared), Arc::downgrade(disk));
        thread::Builder::new()
            .name("store-flush".into())
            .spawn(move || run(&thread_shared, &disk, interval))
            .map_err(|source| StoreError::File {
                what: "start a thread to flush",
                path: "the store".into(),
                source,
            })?;
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

fn run(shared: &Shared, disk: &Weak<Disk>, interval: Option<Duration>) {
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
        let known = state.flushed;
        drop(state);
        // What other processes have committed counts as well.
        let outcome = disk.environment.info().and_then(|info| {
            if info.last_transaction > known {
                disk.flush_beside_others()
            } else {
                Ok(known)
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
