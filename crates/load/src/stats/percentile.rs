//! Percentiles: which of them a run can tell, and how certain they are.

use hdrhistogram::Histogram;

use super::{Interval, whole};
use crate::{
    engine::{Slice, Timeline},
    request::Random,
};

/// Samples that must lie beyond a percentile for it to mean anything.
const BEYOND_MIN: f64 = 10.0;
/// Number of resampled runs.
const RESAMPLES: usize = 500;
/// Fewest slices to resample from.
const SLICES_MIN: usize = 10;

/// Whether so many samples can tell a percentile (0 to 100): at least ten must lie beyond it on its shorter side, or the figure is that
/// of a few requests. 100 and 0 are the ends, and need one sample.
pub fn enough_samples(percentile: f64, samples: u64) -> bool {
    samples >= samples_needed(percentile)
}

/// Samples that are needed to tell a percentile (0 to 100).
pub fn samples_needed(percentile: f64) -> u64 {
    let beyond = percentile.min(100.0 - percentile) / 100.0;
    // A share such as 0.1 % has no exact binary form; its last bits must not ask for one sample more.
    if beyond <= 0.0 {
        1
    } else {
        (BEYOND_MIN / beyond - 1e-6).ceil() as u64
    }
}

/// 95 % intervals of percentiles (0 to 100) of latency, in nanoseconds. The figures themselves are those of `latency`, the whole run's
/// histogram; the intervals come from runs resampled from the slices of the real one, a block of neighbours at a time, so that a stall that
/// lasted over several slices stays one stall. `None` for a percentile that the samples cannot tell, and for all of them with fewer than
/// ten slices. The same for a seed.
///
/// Sources: H. R. Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of Statistics 17 (1989);
/// D. Politis and J. Romano, "A circular block-resampling procedure for stationary data" (1992).
pub fn percentile_intervals(
    timeline: &Timeline,
    latency: &Histogram<u64>,
    percentiles: &[f64],
    seed: u64,
) -> Vec<Option<Interval>> {
    let slices = whole(timeline);
    if slices.len() < SLICES_MIN || latency.is_empty() {
        return vec![None; percentiles.len()];
    }
    let blocks = Blocks::new(slices);
    let mut random = Random::new(seed);
    let mut counts = vec![0; blocks.values.len()];
    let mut drawn = vec![Vec::with_capacity(RESAMPLES); percentiles.len()];
    for _ in 0..RESAMPLES {
        blocks.draw(&mut random, &mut counts);
        for (drawn, percentile) in drawn.iter_mut().zip(percentiles) {
            drawn.extend(blocks.at_percentile(&counts, *percentile));
        }
    }
    let interval = |(percentile, mut drawn): (&f64, Vec<u64>)| {
        if drawn.is_empty() || !enough_samples(*percentile, latency.len()) {
            return None;
        }
        drawn.sort_unstable();
        let at = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize] as f64;
        let value = latency.value_at_quantile(percentile / 100.0) as f64;
        // The slices know a latency to two digits only; the interval must not leave out its own figure for that.
        Some(Interval {
            value,
            low: at(0.025).min(value),
            high: at(0.975).max(value),
        })
    };
    percentiles.iter().zip(drawn).map(interval).collect()
}

/// Histograms of slices in a form in which blocks of neighbours add up fast.
struct Blocks {
    /// Latencies that occurred, ascending.
    values: Vec<u64>,
    /// For each slice from which a block may start, how often each latency occurred in the block.
    sums: Vec<u64>,
    slices: usize,
    length: usize,
}

impl Blocks {
    fn new(slices: &[Slice]) -> Self {
        let all = slices.iter().flat_map(|slice| slice.latency.iter_recorded());
        let mut values: Vec<_> = all.map(|recorded| recorded.value_iterated_to()).collect();
        values.sort_unstable();
        values.dedup();
        // The length for which the interval's error shrinks fastest grows with the cube root (Hall, Horowitz and Jing, 1995).
        let (count, length) = (slices.len(), (slices.len() as f64).cbrt().ceil() as usize);
        let mut sums = vec![0; count * values.len()];
        for (at, slice) in slices.iter().enumerate() {
            for recorded in slice.latency.iter_recorded() {
                let Ok(value) = values.binary_search(&recorded.value_iterated_to()) else {
                    continue;
                };
                // The slice is in the blocks that start at it and at those before it, around the end.
                for back in 0..length {
                    let start = (at + count - back) % count;
                    sums[start * values.len() + value] += u64::from(recorded.count_at_value());
                }
            }
        }
        Self {
            values,
            sums,
            slices: count,
            length,
        }
    }

    /// Draws as many slices as the run has, in blocks.
    fn draw(&self, random: &mut Random, counts: &mut [u64]) {
        counts.fill(0);
        for _ in 0..self.slices.div_ceil(self.length) {
            let start = random.below(self.slices) * self.values.len();
            let block = &self.sums[start..start + self.values.len()];
            counts
                .iter_mut()
                .zip(block)
                .for_each(|(count, more)| *count += more);
        }
    }

    fn at_percentile(&self, counts: &[u64], percentile: f64) -> Option<u64> {
        let total: u64 = counts.iter().sum();
        let rank = ((percentile / 100.0 * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let below = |count: &u64| {
            seen += count;
            seen >= rank
        };
        counts.iter().position(below).map(|at| self.values[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::latencies, stats::tests::timeline};

    /// Slices with latencies evenly between one and two milliseconds, and the histogram of all.
    fn run(slices: usize, seed: u64, slow_from: usize) -> (Timeline, Histogram<u64>) {
        let mut random = Random::new(seed);
        let mut timeline = timeline(&vec![0; slices], 5_000);
        let mut all = latencies();
        for (at, slice) in timeline.slices.iter_mut().enumerate() {
            slice.latency.clear();
            for _ in 0..200 {
                let slow = if at >= slow_from { 10 } else { 1 };
                let latency = slow * (1_000_000 + random.below(1_000_000) as u64);
                slice.latency.record(latency).unwrap();
                all.record(latency).unwrap();
            }
        }
        (timeline, all)
    }

    #[test]
    fn ten_samples_must_lie_beyond_a_percentile() {
        for (percentile, needed) in [
            (50.0, 20),
            (99.0, 1000),
            (99.9, 10_000),
            (99.99, 100_000),
            (2.5, 400),
            (100.0, 1),
            (0.0, 1),
        ] {
            assert_eq!(samples_needed(percentile), needed, "p{percentile}");
            assert!(enough_samples(percentile, needed) && !enough_samples(percentile, needed - 1));
        }
    }

    #[test]
    fn the_interval_holds_the_true_percentile() {
        let held = |seed| {
            let (timeline, all) = run(60, seed, usize::MAX);
            let intervals = percentile_intervals(&timeline, &all, &[50.0, 99.0], seed);
            let held = |interval: Option<Interval>, truth: f64| {
                let Interval { low, high, .. } = interval.unwrap();
                assert!(low <= high && high - low < 0.1 * truth);
                low <= truth * 1.005 && truth * 0.995 <= high
            };
            held(intervals[0], 1_500_000.0) && held(intervals[1], 1_990_000.0)
        };
        let covered = (0..40).filter(|seed| held(*seed)).count();
        assert!(covered >= 34, "{covered} of 40");
    }

    #[test]
    fn a_stall_over_several_slices_makes_the_tail_unsure() {
        let (timeline, all) = run(100, 1, 99);
        let intervals = percentile_intervals(&timeline, &all, &[50.0, 99.0], 1);
        assert!(intervals[0].unwrap().relative_half_width() < 0.05);
        // Two whole slices of a hundred are slow: the 99th percentile may lie on either side.
        let tail = intervals[1].unwrap();
        assert!(tail.low < 2_100_000.0 && tail.high > 10_000_000.0, "{tail:?}");
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        let (short, all) = run(9, 1, usize::MAX);
        assert_eq!(percentile_intervals(&short, &all, &[50.0], 1), [None]);
        let (timeline, all) = run(20, 1, usize::MAX);
        let intervals = percentile_intervals(&timeline, &all, &[50.0, 99.99], 1);
        assert!(intervals[0].is_some() && intervals[1].is_none());
        assert_eq!(percentile_intervals(&timeline, &latencies(), &[50.0], 1), [None]);
    }

    #[test]
    fn a_seed_gives_the_same_intervals() {
        let (timeline, all) = run(30, 1, 25);
        let at = |seed| percentile_intervals(&timeline, &all, &[90.0], seed);
        assert_eq!(at(4), at(4));
    }
}
