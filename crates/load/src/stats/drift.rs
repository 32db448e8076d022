//! Whether a run became faster or slower while it lasted.

use super::batches::independent;

/// Fewest values of which anything is said.
const VALUES_MIN: usize = 8;
/// The normal distribution's quantile for 99 % on both sides.
const Z_99: f64 = 2.575_829;

/// The trend of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The Mann-Kendall statistic: how many standard deviations the order of the values is away from one by chance. Above 0 they rise.
    pub z: f64,
    /// By how much of its median the series changed from start to end.
    pub change: f64,
}

impl Drift {
    /// Whether chance alone brings such an order in fewer than one of a hundred runs.
    pub fn is_certain(&self) -> bool {
        self.z.abs() > Z_99
    }
}

/// The trend of a series of equal steps in time: whether there is one by the test of Mann and Kendall, which assumes nothing about the
/// distribution of the values, and how large by the slope of Theil and Sen. Neighbours that depend on each other are joined first, or they
/// would look like a trend. `None` with fewer than eight values or a median of 0.
///
/// Sources: H. B. Mann, "Nonparametric tests against trend", Econometrica 13 (1945); P. K. Sen, "Estimates of the regression
/// coefficient based on Kendall's tau", Journal of the American Statistical Association 63 (1968).
pub fn drift(values: &[f64]) -> Option<Drift> {
    let values = independent(values);
    let count = values.len();
    if count < VALUES_MIN {
        return None;
    }
    let mut order = 0_i64;
    let mut slopes = Vec::with_capacity(count * (count - 1) / 2);
    for (at, early) in values.iter().enumerate() {
        for (distance, late) in (1..).zip(&values[at + 1..]) {
            order += i64::from(late > early) - i64::from(late < early);
            slopes.push((late - early) / f64::from(distance));
        }
    }
    let n = count as f64;
    let deviation = ((n * (n - 1.0) * (2.0 * n + 5.0) - ties(&values)) / 18.0).sqrt();
    // One step towards zero, because the statistic moves in steps and the normal distribution does not.
    let z = if order == 0 {
        0.0
    } else {
        (order - order.signum()) as f64 / deviation
    };
    let middle = median(values);
    let change = median(slopes) * (n - 1.0) / middle;
    change.is_finite().then_some(Drift { z, change })
}

/// Correction of the variance for groups of equal values: the sum of `t (t - 1) (2 t + 5)`.
fn ties(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let groups = sorted
        .chunk_by(|a, b| a.total_cmp(b).is_eq())
        .map(|group| group.len() as f64);
    groups.map(|t| t * (t - 1.0) * (2.0 * t + 5.0)).sum()
}

/// The middle value; NaN of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let (middle, odd) = (values.len() / 2, values.len() % 2 == 1);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if odd { upper } else { f64::midpoint(lower, upper) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Random;

    fn noisy(length: usize, seed: u64, slope: f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..length)
            .map(|at| 1000.0 + slope * at as f64 + 60.0 * random.unit())
            .collect()
    }

    #[test]
    fn the_statistic_is_the_one_of_the_textbook() {
        // S = 3 + 2 + ... of a rising series of ten is 45; its variance is 10 · 9 · 25 / 18 = 125.
        let rising: Vec<_> = (1..=10).map(f64::from).collect();
        let found = drift(&rising).unwrap();
        assert!((found.z - 44.0 / 125.0_f64.sqrt()).abs() < 1e-9, "{found:?}");
        assert!((found.change - 9.0 / 5.5).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_slows_down_is_seen_with_its_size() {
        for seed in 0..50 {
            let found = drift(&noisy(100, seed, -1.0)).unwrap();
            assert!(found.is_certain(), "seed {seed}: {found:?}");
            assert!((-0.14..-0.06).contains(&found.change), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn a_steady_run_hardly_ever_drifts() {
        let certain = (0..300)
            .filter(|seed| drift(&noisy(100, *seed, 0.0)).unwrap().is_certain())
            .count();
        assert!(certain <= 9, "{certain} of 300");
        assert_eq!(drift(&[5.0; 20]), Some(Drift { z: 0.0, change: 0.0 }));
        assert_eq!(drift(&[0.0; 20]), None);
        assert_eq!(drift(&[1.0; 7]), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        assert!(near(median(vec![3.0, 1.0, 2.0]), 2.0));
        assert!(near(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5));
        assert!(median(vec![]).is_nan());
    }
}
