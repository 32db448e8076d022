//! Histogram of durations, with power-of-two buckets.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the buckets, in microseconds: 16 us to 67 s; longer durations have a bucket of their own.
pub const BOUNDS_US: [u64; 23] = {
    let mut bounds = [16; 23];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
};

const BUCKETS: usize = BOUNDS_US.len() + 1;

/// Counts durations, from any thread.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// Snapshot of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    buckets: [u64; BUCKETS],
    sum_us: u64,
}

impl Histogram {
    /// Counts `count` equal durations.
    pub fn record(&self, duration: Duration, count: u64) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(micros)].fetch_add(count, Ordering::Relaxed);
        self.sum_us
            .fetch_add(micros.saturating_mul(count), Ordering::Relaxed);
    }

    /// Takes a snapshot of the counters.
    pub fn read(&self) -> Durations {
        Durations {
            buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

fn bucket_of(micros: u64) -> usize {
    BOUNDS_US.partition_point(|&bound| bound <= micros)
}

impl Durations {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Number of durations below each of [`BOUNDS_US`].
    pub fn below(&self) -> [u64; BOUNDS_US.len()] {
        let mut sum = 0;
        std::array::from_fn(|at| {
            sum += self.buckets[at];
            sum
        })
    }

    /// Sum of all durations.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_below_each_bound_that_they_are_shorter_than() {
        let histogram = Histogram::default();
        for micros in [0, 15, 16, 1000, 67_108_864, u64::MAX / 2] {
            histogram.record(Duration::from_micros(micros), 1);
        }
        let durations = histogram.read();
        let below = durations.below();
        assert_eq!((durations.count(), below[0], below[1]), (6, 2, 3));
        assert_eq!((BOUNDS_US[6], below[5], below[6]), (1024, 3, 4));
        assert_eq!((BOUNDS_US[22], below[22]), (67_108_864, 4));
    }
}
