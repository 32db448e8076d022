//! When requests of an open load are due.

use std::collections::VecDeque;

use crate::plan::Pace;

/// Most requests of a thread that wait for a connection. Requests due beyond that are dropped, and counted.
pub(crate) const BACKLOG_MAX: usize = 1 << 18;

/// A thread's share of an open load.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval_ns: f64,
    next_ns: f64,
    /// Times at which requests were due that have not been sent.
    pub(crate) backlog: VecDeque<u64>,
}

impl Pacer {
    /// `None` unless the load is an open one. Threads start one after the other within the first interval.
    pub(crate) fn new(pace: Pace, thread: usize, threads: usize, now: u64) -> Option<Self> {
        let Pace::Open { per_second } = pace else {
            return None;
        };
        let interval_ns = 1e9 * threads as f64 / per_second;
        Some(Self {
            interval_ns,
            next_ns: now as f64 + interval_ns * thread as f64 / threads as f64,
            backlog: VecDeque::new(),
        })
    }

    /// When the next request is due.
    pub(crate) fn next_due(&self) -> u64 {
        self.next_ns as u64
    }

    /// Adds the requests that are due by now to the backlog; returns how many did not fit.
    pub(crate) fn advance(&mut self, now: u64) -> u64 {
        let mut dropped = 0;
        while self.next_ns <= now as f64 {
            if self.backlog.len() < BACKLOG_MAX {
                self.backlog.push_back(self.next_ns as u64);
            } else {
                dropped += 1;
            }
            self.next_ns += self.interval_ns;
        }
        dropped
    }

    /// Continues at the rate of another from now on.
    pub(crate) fn resume(&mut self, after: &Self, now: u64) {
        let phase = (self.next_ns - now as f64).max(0.0) / self.interval_ns;
        self.interval_ns = after.interval_ns;
        self.next_ns = now as f64 + phase.min(1.0) * self.interval_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(per_second: f64, thread: usize, threads: usize) -> Pacer {
        Pacer::new(Pace::Open { per_second }, thread, threads, 0).unwrap()
    }

    #[test]
    fn threads_together_keep_the_rate_and_its_distances() {
        let mut due: Vec<_> = (0..4)
            .flat_map(|thread| {
                let mut pacer = pacer(1000.0, thread, 4);
                assert_eq!(pacer.advance(1_000_000_000), 0);
                pacer.backlog
            })
            .collect();
        due.sort_unstable();
        assert!(
            due.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000),
            "{due:?}"
        );
        assert_eq!(due.len(), 1001);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut pacer = pacer(1e6, 0, 1);
        let dropped = pacer.advance(1_000_000_000);
        assert_eq!(pacer.backlog.len(), BACKLOG_MAX);
        assert_eq!(dropped + BACKLOG_MAX as u64, 1_000_001);
    }

    #[test]
    fn another_rate_begins_at_once() {
        let mut going = pacer(1.0, 0, 1);
        going.advance(100_000_000);
        going.resume(&pacer(1000.0, 0, 1), 100_000_000);
        going.advance(200_000_000);
        assert_eq!(going.backlog.len(), 101);
    }
}
