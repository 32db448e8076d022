//! Admits the writers of this process one at a time, in the order of arrival.
//!
//! The engine's own lock covers all processes, but is unfair. Among the threads of one process this queue ensures that a
//! thread committing in a loop does not starve the one that makes checkpoints, and that a thread does not deadlock with
//! itself. Flushing the log does not need it.

use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

/// A ticket lock: numbers are handed out and served in order.
#[derive(Debug, Default)]
pub(crate) struct WriterQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number for the next thread that enters.
    next: u64,
    /// Number of the thread that is inside, or may enter.
    serving: u64,
    inside: Option<ThreadId>,
}

impl WriterQueue {
    /// Waits for its turn. `None` if this thread is already inside and would wait for itself.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let me = thread::current().id();
        let mut state = self.state.lock();
        if state.inside == Some(me) {
            return None;
        }
        let number = state.next;
        state.next += 1;
        while state.serving != number {
            self.changed.wait(&mut state);
        }
        state.inside = Some(me);
        Some(Inside(self))
    }

    /// Admits the next thread.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        assert!(state.inside.take().is_some(), "only who is inside can leave");
        state.serving += 1;
        if state.serving != state.next {
            self.changed.notify_all();
        }
    }
}

/// The right to write; leaves the queue when dropped.
#[derive(Debug)]
pub(crate) struct Inside<'e>(&'e WriterQueue);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
