//! One at a time within this process, in the order of asking.
//!
//! The engine has a lock of its own for all processes, which is given to whoever happens to come first. Among the threads of one
//! process this gate sees to it that who commits again and again does not keep who makes a checkpoint from ever getting it, and that a
//! thread does not wait for itself. To flush the log takes no turn.

use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

/// The gate. Whoever is inside has a number; numbers are given out and served in order.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Given to the next who asks.
    next: u64,
    /// Who is inside, or may go in.
    serving: u64,
    inside: Option<ThreadId>,
}

impl Gate {
    /// Waits for its turn. `None` when this thread is inside already and would wait for itself.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
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

    /// Lets the next one in.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        assert!(state.inside.take().is_some(), "only who is inside can leave");
        state.serving += 1;
        if state.serving != state.next {
            self.changed.notify_all();
        }
    }
}

/// The right to write, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Inside<'e>(&'e Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
