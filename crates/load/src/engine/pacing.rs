//! When requests of an open load are due.

use std::collections::VecDeque;

use crate::{
    plan::{Arrivals, Pace, Plan},
    request::Random,
};

/// Most requests of a thread that wait for a connection. Requests due beyond that are dropped, and counted.
pub(crate) const BACKLOG_MAX: usize = 1 << 18;

/// A thread's share of an open load.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval_ns: f64,
    /// The generator of random arrivals; `None`: they are at equal intervals.
    random: Option<Random>,
    next_ns: f64,
    /// Times at which requests were due that have not been sent.
    pub(crate) backlog: VecDeque<u64>,
}

impl Pacer {
    /// `None` unless the load is an open one. Threads start one after the other within the first interval.
    pub(crate) fn new(pace: Pace, thread: usize, plan: &Plan, now: u64) -> Option<Self> {
        let Pace::Open { per_second, arrivals } = pace else {
            return None;
        };
        let (threads, now) = (plan.threads, now as f64);
        let interval_ns = 1e9 * threads as f64 / per_second;
        let mut random = Random::new(plan.seed ^ (thread as u64) << 32);
        let (first, random) = match arrivals {
            Arrivals::Uniform => (interval_ns * thread as f64 / threads as f64, None),
            Arrivals::Poisson => (exponential(&mut random, interval_ns), Some(random)),
        };
        Some(Self {
            interval_ns,
            random,
            next_ns: now + first,
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
            self.next_ns += match &mut self.random {
                Some(random) => exponential(random, self.interval_ns),
                None => self.interval_ns,
            };
        }
        dropped
    }

    /// Continues at another rate from now on. Random arrivals keep their generator: a new one would repeat the same arrivals.
    pub(crate) fn resume(&mut self, after: Self, now: u64) {
        let phase = (self.next_ns - now as f64).max(0.0) / self.interval_ns;
        self.interval_ns = after.interval_ns;
        let random = self.random.is_some() && after.random.is_some();
        if !random {
            self.random = after.random;
        }
        let phase = if random { phase } else { phase.min(1.0) };
        self.next_ns = now as f64 + phase * self.interval_ns;
    }
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * f64::ln(1.0 - random.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(per_second: f64, arrivals: Arrivals, thread: usize, threads: usize) -> Pacer {
        let plan = Plan {
            threads,
            seed: 7,
            ..Plan::new(Vec::new())
        };
        Pacer::new(Pace::Open { per_second, arrivals }, thread, &plan, 0).unwrap()
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
    fn random_arrivals_are_others_after_a_pause_than_before() {
        let mut going = pacer(1000.0, Arrivals::Poisson, 0, 1);
        going.advance(1_000_000_000);
        let before: Vec<u64> = going.backlog.drain(..).collect();
        going.resume(pacer(1000.0, Arrivals::Poisson, 0, 1), 1_000_000_000);
        going.advance(2_000_000_000);
        let gaps = |due: &[u64]| due.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
        let after: Vec<u64> = going.backlog.into();
        assert_ne!(gaps(&before)[..50], gaps(&after)[..50]);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut pacer = pacer(1e6, Arrivals::Uniform, 0, 1);
        let dropped = pacer.advance(1_000_000_000);
        assert_eq!(pacer.backlog.len(), BACKLOG_MAX);
        assert_eq!(dropped + BACKLOG_MAX as u64, 1_000_001);
    }
}
