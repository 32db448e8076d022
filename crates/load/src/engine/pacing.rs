//! When requests of an open load are due.

use std::collections::VecDeque;

use crate::{
    plan::{Arrivals, Pace, Plan},
    request::Random,
};

/// Most requests of a thread that wait for a connection. What is due beyond that is dropped, and counted.
pub(crate) const BACKLOG_MAX: usize = 1 << 18;

/// A thread's share of an open load.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval_ns: f64,
    spread: Spread,
    next_ns: f64,
    /// Times at which requests were due that have not been sent.
    pub(crate) backlog: VecDeque<u64>,
}

/// When a thread's next requests are due after the last.
#[derive(Debug)]
enum Spread {
    Uniform,
    Poisson(Random),
    /// So many at a time.
    Burst(usize),
}

impl Pacer {
    /// `None` unless the load is an open one. Threads start one after the other within the first interval, but for bursts.
    pub(crate) fn new(pace: Pace, thread: usize, plan: &Plan, now: u64) -> Option<Self> {
        let Pace::Open { per_second, arrivals } = pace else {
            return None;
        };
        let (threads, now) = (plan.threads, now as f64);
        let interval_ns = 1e9 * threads as f64 / per_second;
        let mut random = Random::new(plan.seed ^ (thread as u64) << 32);
        let mut pacer = Self {
            interval_ns,
            spread: Spread::Uniform,
            next_ns: now,
            backlog: VecDeque::new(),
        };
        match arrivals {
            Arrivals::Uniform => pacer.next_ns += interval_ns * thread as f64 / threads as f64,
            Arrivals::Poisson => {
                pacer.next_ns += exponential(&mut random, interval_ns);
                pacer.spread = Spread::Poisson(random);
            }
            Arrivals::Burst(size) => {
                let size = size as usize;
                pacer.interval_ns = 1e9 * size as f64 / per_second;
                pacer.spread = Spread::Burst(size / threads + usize::from(thread < size % threads));
            }
        }
        Some(pacer)
    }

    /// When the next request is due.
    pub(crate) fn next_due(&self) -> u64 {
        self.next_ns as u64
    }

    /// Puts what is due by now into the backlog; returns how many found no room.
    pub(crate) fn advance(&mut self, now: u64) -> u64 {
        let mut dropped = 0;
        while self.next_ns <= now as f64 {
            let count = match self.spread {
                Spread::Burst(size) => size,
                _ => 1,
            };
            let taken = count.min(BACKLOG_MAX - self.backlog.len());
            let due = self.next_ns as u64;
            self.backlog.extend(std::iter::repeat_n(due, taken));
            dropped += (count - taken) as u64;
            match &mut self.spread {
                Spread::Uniform | Spread::Burst(_) => self.next_ns += self.interval_ns,
                Spread::Poisson(random) => self.next_ns += exponential(random, self.interval_ns),
            }
        }
        dropped
    }

    /// Goes on at another rate from now on. Random arrivals go on, too: begun anew they would be those of before.
    pub(crate) fn resume(&mut self, after: Self, now: u64) {
        let phase = (self.next_ns - now as f64).max(0.0) / self.interval_ns;
        self.interval_ns = after.interval_ns;
        match (&mut self.spread, after.spread) {
            (Spread::Poisson(_), Spread::Poisson(_)) => self.next_ns = now as f64 + phase * self.interval_ns,
            (spread, next) => {
                *spread = next;
                self.next_ns = now as f64 + phase.min(1.0) * self.interval_ns;
            }
        }
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
    fn bursts_are_as_far_apart_as_the_rate_allows() {
        let mut due = Vec::new();
        for thread in 0..4 {
            let mut pacer = pacer(1000.0, Arrivals::Burst(10), thread, 4);
            pacer.advance(29_999_999);
            due.extend(pacer.backlog);
        }
        due.sort_unstable();
        let expected = [0, 10_000_000, 20_000_000].map(|at| [at; 10]).concat();
        assert_eq!(due, expected);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut pacer = pacer(1e6, Arrivals::Uniform, 0, 1);
        let dropped = pacer.advance(1_000_000_000);
        assert_eq!(pacer.backlog.len(), BACKLOG_MAX);
        assert_eq!(dropped + BACKLOG_MAX as u64, 1_000_001);
    }
}
