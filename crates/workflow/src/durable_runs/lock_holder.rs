//! The lock in the store by which a server shows that it lives, and taking over the runs of those that do not.

use std::{
    sync::{Arc, Weak, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::DurableRuns;
use crate::{Evaluator, FailureKind, NodeLocks, StorageError};

/// How often the lock is checked, and runs of other servers are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The thread that holds this server's lock.
pub(super) struct LockHolder {
    end: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl LockHolder {
    pub(super) fn start<E: Evaluator>(runs: &Arc<DurableRuns<E>>) -> Result<Self, StorageError> {
        let mut locks = runs.records.locks()?;
        locks.try_lock(&runs.records.own_lock())?;
        let (end, ended) = mpsc::channel();
        let runs = Arc::downgrade(runs);
        let thread = thread::Builder::new()
            .name("workflow-runs".into())
            .spawn(move || hold(&runs, locks, &ended))
            .map_err(|error| StorageError::new(FailureKind::Internal.code(), error))?;
        Ok(Self { end, thread })
    }

    /// Ends the thread; returns once the lock is released.
    pub(super) fn end(self) {
        drop(self.end);
        // A panic has been reported, and has released the lock.
        let _ = self.thread.join();
    }
}

/// Holds the lock until the other end of the channel is dropped.
fn hold<E: Evaluator>(
    runs: &Weak<DurableRuns<E>>,
    mut locks: Box<dyn NodeLocks>,
    ended: &mpsc::Receiver<()>,
) {
    let mut is_failing = false;
    loop {
        let Some(runs) = runs.upgrade() else { return };
        let looked = runs.look(&mut *locks);
        if let Err(error) = &looked
            && !is_failing
        {
            tracing::error!(target: "forebay::workflow", "the durable runs of other servers cannot be looked at: {error}");
        }
        is_failing = looked.is_err();
        drop(runs);
        if ended.recv_timeout(LOOK_EVERY) != Err(mpsc::RecvTimeoutError::Timeout) {
            return;
        }
    }
}

impl<E: Evaluator> DurableRuns<E> {
    fn look(self: &Arc<Self>, locks: &mut dyn NodeLocks) -> Result<(), StorageError> {
        let own = self.records.own_lock();
        if *self.has_lock.borrow() {
            if !locks.holds(&own)? {
                // Another server may have taken the runs over meanwhile.
                tracing::warn!(target: "forebay::workflow", "the lock of this server's durable runs is lost: they are left to other servers");
                self.has_lock.send_replace(false);
                return Ok(());
            }
        } else {
            if !locks.try_lock(&own)? {
                return Ok(());
            }
            let left = self.records.own()?;
            self.has_lock.send_replace(true);
            self.adopt(left);
        }
        if *self.is_ending.borrow() {
            return Ok(());
        }
        let mut room = self.open_max.saturating_sub(self.open());
        for server in self.records.other_servers()? {
            if room == 0 {
                break;
            }
            if !locks.try_lock(&self.records.lock_of(&server))? {
                continue;
            }
            let taken = self.records.take_over(&server, room);
            locks.unlock(&self.records.lock_of(&server))?;
            let taken = taken?;
            if !taken.is_empty() {
                tracing::info!(target: "forebay::workflow", runs = taken.len(), "runs that another server has left are run");
            }
            room -= taken.len();
            self.adopt(taken);
        }
        Ok(())
    }
}
