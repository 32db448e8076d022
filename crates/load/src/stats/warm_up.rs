//! Detects the end of a warm-up in a complete series.

use super::interval::mean;

/// Values that are joined before the search, as the "5" of MSER-5 says.
const JOINED: usize = 5;
/// Fewest joined values that must be left, also as a fraction of all: with fewer the error is small by chance.
const LEFT_MIN: usize = 4;
const LEFT_PART: usize = 6;
/// A start whose mean is this close to the rest does not count as warm-up.
const DIFFERENCE_MIN: f64 = 0.02;

/// The point where a series becomes steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    /// Values at the start that are best left out.
    pub cut: usize,
    /// Values of the series.
    pub values: usize,
    /// Mean of the values that are left out; equal to `after` when there are none.
    pub before: f64,
    /// Mean of the rest.
    pub after: f64,
}

impl WarmUp {
    /// Whether the start differs from the rest by more than 2 %. If not, it need not be left out.
    pub fn matters(&self) -> bool {
        (self.before - self.after).abs() > DIFFERENCE_MIN * self.after.abs()
    }

    /// Whether the series became steady within its first half. If not, it was still on its way, and its mean says little.
    pub fn is_steady(&self) -> bool {
        !self.matters() || self.cut * 2 <= self.values
    }
}

/// Finds the warm-up of a series of equal steps in time, such as [`super::rates`], by MSER-5: of all starts that
/// could be left out, the one after which the mean has the smallest error. `None` with fewer than forty values.
///
/// Source: K. P. White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69 (1997); White, Cobb
/// and Spratt, "A comparison of five steady-state truncation heuristics for simulation", Winter Simulation Conference 2000.
pub fn warm_up(values: &[f64]) -> Option<WarmUp> {
    let joined: Vec<_> = values.chunks_exact(JOINED).map(mean).collect();
    if joined.len() < 2 * LEFT_MIN {
        return None;
    }
    let error = |cut: usize| {
        let rest = &joined[cut..];
        let centre = mean(rest);
        rest.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    let left_min = LEFT_MIN.max(joined.len() / LEFT_PART);
    // The first of equals: a steady series is not cut.
    let cut = (0..=joined.len() - left_min).min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
    let after = mean(&joined[cut..]);
    let before = if cut == 0 { after } else { mean(&joined[..cut]) };
    Some(WarmUp {
        cut: cut * JOINED,
        values: values.len(),
        before,
        after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Random;

    fn noisy(length: usize, seed: u64, level: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..length)
            .map(|at| level(at as f64) * (0.98 + 0.04 * random.unit()))
            .collect()
    }

    #[test]
    fn a_rate_that_climbs_and_then_stays_is_cut_where_it_stays() {
        for seed in 0..50 {
            let values = noisy(300, seed, |at| 1000.0 - 700.0 * (-at / 15.0).exp());
            let found = warm_up(&values).unwrap();
            assert!((25..=110).contains(&found.cut), "seed {seed}: {found:?}");
            assert!(found.matters() && found.is_steady());
        }
    }

    #[test]
    fn a_rate_that_still_climbs_at_the_end_is_not_steady() {
        for seed in 0..50 {
            let found = warm_up(&noisy(100, seed, |at| 100.0 + 10.0 * at)).unwrap();
            assert!(!found.is_steady(), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn a_steady_rate_has_no_warm_up_that_matters() {
        for seed in 0..200 {
            let found = warm_up(&noisy(100, seed, |_| 1000.0)).unwrap();
            assert!(found.is_steady() && !found.matters(), "seed {seed}: {found:?}");
        }
        assert_eq!(warm_up(&[5.0; 100]).unwrap().cut, 0);
        assert_eq!(warm_up(&[5.0; 39]), None);
    }
}
