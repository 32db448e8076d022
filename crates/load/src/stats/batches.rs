//! Batch means: the confidence interval of a rate although the slices of a run depend on each other.

use super::{Interval, interval::mean, rates};
use crate::engine::Timeline;

/// Autocorrelation between neighbours above which batches are made twice as long.
const CORRELATION_MAX: f64 = 0.2;
/// Fewest batches that are made of a run.
const BATCHES_MIN: usize = 10;
/// Fewest slices for any result.
const VALUES_MIN: usize = 5;

/// The mean of a series of equal steps in time. Batches are made twice as long until neighbours hardly depend on each other, but not
/// so long that fewer than ten are left. What dependence is left stretches the interval by `sqrt((1 + r) / (1 - r))`, as for a first
/// order autoregressive process. `None` with fewer than five values.
///
/// Source: A. M. Law, "Simulation Modeling and Analysis", sections 4.4 and 9.5.3.
fn batch_means(values: &[f64]) -> Option<Interval> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let means = independent(values);
    let left = autocorrelation(&means).clamp(0.0, 0.95);
    let stretch = ((1.0 + left) / (1.0 - left)).sqrt();
    Interval::of_mean_with(&means, stretch)
}

/// Responses per second of a run with their interval. `None` with fewer than five complete slices.
pub fn throughput(timeline: &Timeline) -> Option<Interval> {
    batch_means(&rates(timeline))
}

/// Means of batches that are as short as they can be without depending much on each other. Values at the start that fill no batch
/// are left out.
pub(super) fn independent(values: &[f64]) -> Vec<f64> {
    let mut length = 1;
    let mut means = values.to_vec();
    while autocorrelation(&means) > CORRELATION_MAX && values.len() / (2 * length) >= BATCHES_MIN {
        length *= 2;
        means = values[values.len() % length..]
            .chunks_exact(length)
            .map(mean)
            .collect();
    }
    means
}

/// Correlation of each value with its successor; 0 when nothing varies.
fn autocorrelation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let all: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let neighbours: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    // Sums of squares of equal values may be off zero by rounding.
    if all > mean.abs() * f64::EPSILON {
        neighbours / all
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Random;

    /// A first order autoregressive series around 100: `x' = r x + noise`, the noise even within ±1.
    fn series(length: usize, r: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut x = 0.0;
        let mut next = || {
            x = r * x + 2.0 * random.unit() - 1.0;
            100.0 + x
        };
        (0..50).for_each(|_| _ = next());
        (0..length).map(|_| next()).collect()
    }

    /// How often the interval of such a series holds the true mean.
    fn coverage(length: usize, r: f64) -> f64 {
        let holds = |seed| {
            let interval = batch_means(&series(length, r, seed)).unwrap();
            interval.low <= 100.0 && 100.0 <= interval.high
        };
        (0..500).filter(|seed| holds(*seed)).count() as f64 / 500.0
    }

    #[test]
    fn independent_slices_stay_as_they_are_and_the_interval_holds_the_mean() {
        assert_eq!(independent(&series(100, 0.0, 5)).len(), 100);
        let covered = coverage(100, 0.0);
        assert!(covered > 0.92, "{covered}");
    }

    #[test]
    fn slices_that_depend_on_each_other_are_joined_and_the_interval_still_holds_the_mean() {
        assert!(independent(&series(300, 0.8, 5)).len() <= 75);
        let covered = coverage(300, 0.8);
        assert!(covered > 0.88, "{covered}");
        // Without batches the interval of such a series holds the mean about half the time.
        let naive = (0..500).filter(|seed| {
            let interval = Interval::of_mean(&series(300, 0.8, *seed)).unwrap();
            interval.low <= 100.0 && 100.0 <= interval.high
        });
        assert!(naive.count() < 350);
    }

    #[test]
    fn equal_slices_have_an_interval_of_no_width() {
        let interval = batch_means(&[0.1; 50]).unwrap();
        assert!(interval.high - interval.low < 1e-9, "{interval:?}");
        assert_eq!(batch_means(&[1.0; 4]), None);
        assert_eq!(batch_means(&[]), None);
    }
}
