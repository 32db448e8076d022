//! When requests of an open load are due.

use std::collections::VecDeque;

use crate::{
    plan::{Arrivals, Pace},
    request::Random,
};

/// Most requests of a thread that wait for a connection. What is due beyond that is dropped, and counted.
pub(crate) const BACKLOG_MAX: usize = 1 << 18;

/// A thread's share of an open load.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval_ns: f64,
    arrivals: Arrivals,
    random: Random,
    next_ns: f64,
    /// Times at which requests were due that have not been sent.
    pub(crate) backlog: VecDeque<u64>,
}

impl Pacer {
    /// `None` unless the load is an open one. Threads start one after the other within the first interval.
    pub(crate) fn new(pace: Pace, thread: usize, threads: usize, seed: u64, now: u64) -> Option<Self> {
        let Pace::Open { per_second, arrivals } = pace else {
            return None;
        };
        let interval_ns = 1e9 * threads as f64 / per_second;
        let mut random = Random::new(seed ^ (thread as u64) << 32);
        let first = match arrivals {
            Arrivals::Uniform => interval_ns * thread as f64 / threads as f64,
            Arrivals::Poisson => exponential(&mut random, interval_ns),
        };
        Some(Self {
            interval_ns,
            arrivals,
            random,
            next_ns: now as f64 + first,
            backlog: VecDeque::new(),
        })
    }

    /// When the next request is due.
    pub(crate) fn next_due(&self) -> u64 {
        self.next_ns as u64
    }

    /// Puts what is due by now into the backlog; returns how many found no room.
    pub(crate) fn advance(&mut self, now: u64) -> u64 {
        let mut dropped = 0;
        while self.next_ns <= now as f64 {
            if self.backlog.len() < BACKLOG_MAX {
                self.backlog.push_back(self.next_ns as u64);
            } else {
                dropped += 1;
            }
            self.next_ns += match self.arrivals {
                Arrivals::Uniform => self.interval_ns,
                Arrivals::Poisson => exponential(&mut self.random, self.interval_ns),
            };
        }
        dropped
    }

    /// Goes on at another rate from now on.
    pub(crate) fn resume(&mut self, after: Self, now: u64) {
        let phase = (self.next_ns - now as f64).max(0.0) / self.interval_ns;
        let backlog = std::mem::take(&mut self.backlog);
        *self = after;
        self.next_ns = now as f64 + phase.min(1.0) * self.interval_ns;
        self.backlog = backlog;
    }
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * f64::ln(1.0 - random.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(per_second: f64, arrivals: Arrivals, thread: usize, threads: usize) -> Pacer {
        Pacer::new(Pace::Open { per_second, arrivals }, thread, threads, 7, 0).unwrap()
    }

    #[test]
    fn threads_together_keep_the_rate_and_its_distances() {
        let mut due: Vec<_> = (0..4)
            .flat_map(|thread| {
                let mut pacer = pacer(1000.0, Arrivals::Uniform, thread, 4);
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
    fn random_arrivals_have_the_rate_as_their_mean() {
        let mut pacer = pacer(100_000.0, Arrivals::Poisson, 0, 1);
        pacer.advance(1_000_000_000);
        let count = pacer.backlog.len();
        assert!(
            (99_000..101_000).contains(&count),
            "{count} arrivals in a second at 100,000/s"
        );
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut pacer = pacer(1e6, Arrivals::Uniform, 0, 1);
        let dropped = pacer.advance(1_000_000_000);
        assert_eq!(pacer.backlog.len(), BACKLOG_MAX);
        assert_eq!(dropped + BACKLOG_MAX as u64, 1_000_001);
    }
}
