//! How long an answer is held back.

use crate::request::Random;

/// Longest delay: a minute.
pub(super) const DELAY_MAX_NS: u64 = 60_000_000_000;

/// The standard normal distribution's 99th percentile.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// Delays whose logarithm is normally distributed, as service times of real servers roughly are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Distribution {
    mu: f64,
    sigma: f64,
}

impl Distribution {
    /// The one with these percentiles, in nanoseconds.
    pub(super) fn new(p50_ns: f64, p99_ns: f64) -> Self {
        Self {
            mu: p50_ns.ln(),
            sigma: (p99_ns / p50_ns).ln() / NORMAL_P99,
        }
    }

    /// A delay in nanoseconds, at most [`DELAY_MAX_NS`].
    pub(super) fn sample(&self, random: &mut Random) -> u64 {
        let delay = (self.mu + self.sigma * normal(random)).exp();
        (delay as u64).min(DELAY_MAX_NS)
    }
}

/// Normally distributed numbers (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_percentiles_asked_for() {
        let distribution = Distribution::new(5e6, 50e6);
        let mut random = Random::new(3);
        let mut delays: Vec<_> = (0..200_000).map(|_| distribution.sample(&mut random)).collect();
        delays.sort_unstable();
        let near = |share: f64, expected: f64| {
            let found = delays[(delays.len() as f64 * share) as usize] as f64;
            assert!(
                (found / expected - 1.0).abs() < 0.03,
                "{share}: {found} is not near {expected}"
            );
        };
        near(0.5, 5e6);
        near(0.99, 50e6);
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        let distribution = Distribution::new(1e6, 2e6);
        let delays = |seed| {
            let mut random = Random::new(seed);
            (0..50)
                .map(|_| distribution.sample(&mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(delays(9), delays(9));
        assert_ne!(delays(9), delays(10));
    }
}
