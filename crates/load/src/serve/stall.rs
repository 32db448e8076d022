//! When the whole server stands still.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// The stalls that are due, for all workers alike.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Spares the workers of a server that never stalls the lock.
    any: AtomicBool,
    schedule: Mutex<Schedule>,
}

/// In nanoseconds since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Schedule {
    from: u64,
    /// 0: once.
    every: u64,
    length: u64,
}

impl Stalls {
    /// Stands still for so long from a moment on, again and again at this distance unless that is 0; in nanoseconds. Ends what was
    /// scheduled before.
    pub(super) fn schedule(&self, from: u64, every: u64, length: u64) {
        let schedule = Schedule { from, every, length };
        *self
            .schedule
            .lock()
            .expect("no worker panics with the schedule locked") = schedule;
        self.any.store(length > 0, Ordering::Release);
    }

    /// When the stall that goes on now ends.
    pub(super) fn end_at(&self, now_ns: impl FnOnce() -> u64) -> Option<u64> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let schedule = *self
            .schedule
            .lock()
            .expect("no worker panics with the schedule locked");
        schedule.end_at(now_ns())
    }
}

impl Schedule {
    fn end_at(&self, now_ns: u64) -> Option<u64> {
        let since = now_ns.checked_sub(self.from)?;
        let into = since.checked_rem(self.every).unwrap_or(since);
        (into < self.length).then(|| now_ns - into + self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_come_once_or_again_and_again() {
        let stalls = Stalls::default();
        assert_eq!(stalls.end_at(|| 5), None);
        stalls.schedule(100, 0, 20);
        let ends = |times: [u64; 5]| times.map(|now| stalls.end_at(|| now));
        assert_eq!(
            ends([99, 100, 119, 120, 1119]),
            [None, Some(120), Some(120), None, None]
        );
        stalls.schedule(100, 1000, 20);
        assert_eq!(
            ends([99, 100, 120, 1100, 1119]),
            [None, Some(120), None, Some(1120), Some(1120)]
        );
        stalls.schedule(0, 0, 0);
        assert_eq!(ends([0, 1, 100, 1100, 1119]), [None; 5]);
    }
}
