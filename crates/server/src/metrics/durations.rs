//! A histogram of durations with buckets that grow with the values: eight for each doubling, so that a bucket's bounds are at most an
//! eighth apart (the log-linear layout of `HdrHistogram`).

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use forebay_pool::Percentiles;

/// Longest duration the histogram resolves, in microseconds: 2^36, 19 hours. Longer ones count as this.
const MICROS_MAX: u64 = (1 << 36) - 1;
/// Number of buckets per doubling of the duration.
const STEPS: u64 = 8;
const STEPS_LOG2: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = bucket_of(MICROS_MAX) + 1;

/// The bucket of a duration in microseconds.
const fn bucket_of(micros: u64) -> usize {
    let micros = if micros > MICROS_MAX { MICROS_MAX } else { micros };
    if micros < STEPS {
        return micros as usize;
    }
    let doublings = micros.ilog2() - STEPS_LOG2;
    let step = micros >> doublings & (STEPS - 1);
    ((doublings as u64 + 1) * STEPS + step) as usize
}

/// The shortest duration of a bucket, in microseconds.
const fn first_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    (STEPS + bucket % STEPS) << doublings
}

/// Records durations on the one thread that writes them. Other threads may read at any time: each number is correct, and together they are
/// at most one recording apart.
#[derive(Debug)]
pub(super) struct Recorder {
    buckets: Box<[AtomicU64; BUCKETS]>,
    sum_us: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]),
            sum_us: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    pub(super) fn record(&self, duration: Duration) {
        let micros = duration.as_secs() * 1_000_000 + u64::from(duration.subsec_micros());
        add(&self.buckets[bucket_of(micros)], 1);
        add(&self.sum_us, micros);
    }
}

/// Adds to a counter that only this thread writes, so that no atomic addition is needed.
pub(super) fn add(number: &AtomicU64, more: u64) {
    number.store(
        number.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

/// Durations summed over several threads.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    buckets: Box<[u64; BUCKETS]>,
    /// Sum of all durations, in microseconds.
    pub(crate) sum_us: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            buckets: Box::new([0; BUCKETS]),
            sum_us: 0,
        }
    }
}

impl Durations {
    pub(super) fn add(&mut self, recorder: &Recorder) {
        for (sum, bucket) in self.buckets.iter_mut().zip(recorder.buckets.iter()) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.sum_us += recorder.sum_us.load(Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The durations that have been added since `earlier`, a former state of the same.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (bucket, before) in since.buckets.iter_mut().zip(earlier.buckets.iter()) {
            *bucket = bucket.saturating_sub(*before);
        }
        since.sum_us = self.sum_us.saturating_sub(earlier.sum_us);
        since
    }

    /// The exact number of durations shorter than `micros` microseconds, which must be a power of two and at least [`STEPS`].
    pub(crate) fn below(&self, micros: u64) -> u64 {
        debug_assert!(
            micros.is_power_of_two() && micros >= STEPS,
            "{micros} is the start of a bucket"
        );
        self.buckets[..bucket_of(micros)].iter().sum()
    }

    /// Percentiles; each is the upper bound of its bucket.
    pub(crate) fn percentiles(&self) -> Percentiles {
        let count = self.count();
        Percentiles {
            count,
            p50_us: self.at_rank(rank(count, 500)),
            p90_us: self.at_rank(rank(count, 900)),
            p99_us: self.at_rank(rank(count, 990)),
            p99_9_us: self.at_rank(rank(count, 999)),
            max_us: self.at_rank(count),
        }
    }

    /// The upper bound of the bucket that contains the duration with this rank, counted from 1.
    fn at_rank(&self, rank: u64) -> u64 {
        let mut seen = 0;
        let found = self.buckets.iter().position(|&bucket| {
            seen += bucket;
            rank > 0 && seen >= rank
        });
        found.map_or(0, |bucket| first_of(bucket + 1) - 1)
    }
}

const fn rank(count: u64, per_mille: u64) -> u64 {
    (count * per_mille).div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_gaps_and_are_narrow() {
        for bucket in 0..BUCKETS {
            let (first, next) = (first_of(bucket), first_of(bucket + 1));
            assert_eq!(bucket_of(first), bucket);
            assert_eq!(bucket_of(next - 1), bucket);
            assert!(
                (next - first) * STEPS <= first.max(STEPS),
                "bucket {bucket} is wide"
            );
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    fn durations(micros: impl Iterator<Item = u64>) -> Durations {
        let recorder = Recorder::default();
        micros.for_each(|micros| recorder.record(Duration::from_micros(micros)));
        let mut durations = Durations::default();
        durations.add(&recorder);
        durations
    }

    #[test]
    fn percentiles_are_at_most_an_eighth_above_the_truth() {
        let percentiles = durations(1..=10_000).percentiles();
        assert_eq!(percentiles.count, 10_000);
        for (found, truth) in [
            (percentiles.p50_us, 5_000),
            (percentiles.p90_us, 9_000),
            (percentiles.p99_us, 9_900),
            (percentiles.p99_9_us, 9_990),
            (percentiles.max_us, 10_000),
        ] {
            assert!((truth..truth + truth / 8).contains(&found), "{found} for {truth}");
        }
        assert_eq!(durations(std::iter::empty()).percentiles().p99_us, 0);
    }

    #[test]
    fn durations_since_an_earlier_state_are_those_that_came_after_it() {
        let (earlier, later) = (durations(1..=100), durations((1..=100).chain([5_000; 3])));
        let since = later.since(&earlier);
        assert_eq!((since.count(), since.sum_us), (3, 15_000));
        assert!((5_000..5_700).contains(&since.percentiles().p50_us));
    }

    #[test]
    fn counts_below_a_power_of_two_and_the_sum_are_exact() {
        let durations = durations(1..=10_000);
        for power in 3..13 {
            assert_eq!(durations.below(1 << power), (1 << power) - 1);
        }
        assert_eq!(durations.below(1 << 14), 10_000);
        assert_eq!(durations.sum_us, 50_005_000);
    }
}
