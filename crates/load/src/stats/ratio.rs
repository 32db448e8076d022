//! Compares two servers that are measured in turns.

use super::{Interval, interval::mean};
use crate::request::Random;

/// The server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one under examination.
    A,
    /// The one it is compared with.
    B,
}

/// Ratio of one server's figure to the other's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean of A / B over all pairs.
    pub value: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Pairs that were used. Those with a figure that is not above 0 are left out.
    pub pairs: usize,
}

impl Ratio {
    /// Whether the interval leaves out 1: the two differ, by more than this run's noise.
    pub fn differs(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// Half the width of the interval as a share of the ratio. Differences smaller than this cannot be seen with these pairs.
    pub fn relative_half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value
    }
}

/// The ratio of pairs of figures `(A, B)` that were measured next to each other, such as requests a second. What disturbs both sides of a
/// pair alike cancels out. The interval is that of the mean of the logarithms, by Student's t. `None` with fewer than two usable pairs.
///
/// Source: L. Bulej and others, "Duet benchmarking: improving measurement accuracy in the cloud", ICPE 2020.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let usable = pairs
        .iter()
        .filter(|(a, b)| *a > 0.0 && *b > 0.0 && (a / b).is_normal());
    let logarithms: Vec<_> = usable.map(|(a, b)| (a / b).ln()).collect();
    let Interval { low, high, .. } = Interval::of_mean(&logarithms)?;
    Some(Ratio {
        value: mean(&logarithms).exp(),
        low: low.exp(),
        high: high.exp(),
        pairs: logarithms.len(),
    })
}

/// The order in which pairs are measured: random blocks of ABBA or BAAB, so that neither a trend nor anything that happens every second
/// time favours a side. The last pair of an odd number stands alone. The same for a seed.
pub fn interleave(pairs: usize, seed: u64) -> Vec<[Side; 2]> {
    let mut random = Random::new(seed);
    let (ab, ba) = ([Side::A, Side::B], [Side::B, Side::A]);
    let blocks = (0..pairs.div_ceil(2)).flat_map(|_| if random.below(2) == 0 { [ab, ba] } else { [ba, ab] });
    blocks.take(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with a true ratio, noise of ±5 % on each figure, and a disturbance that halves both sides of some pairs.
    fn pairs(count: usize, truth: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        let mut pair = || {
            let machine = if random.below(4) == 0 { 500.0 } else { 1000.0 };
            let mut noisy = |level: f64| machine * level * (0.95 + 0.1 * random.unit());
            (noisy(truth), noisy(1.0))
        };
        (0..count).map(|_| pair()).collect()
    }

    #[test]
    fn the_interval_holds_the_true_ratio() {
        let holds = |seed| {
            let found = ratio(&pairs(10, 1.1, seed)).unwrap();
            found.low <= 1.1 && 1.1 <= found.high
        };
        let covered = (0..1000).filter(|seed| holds(*seed)).count();
        assert!((920..=975).contains(&covered), "{covered} of 1000");
    }

    #[test]
    fn what_hits_both_sides_does_not_hide_a_difference() {
        let seen = (0..100)
            .filter(|seed| ratio(&pairs(20, 1.1, *seed)).unwrap().differs())
            .count();
        assert!(seen >= 99, "{seen} of 100");
    }

    #[test]
    fn the_same_server_twice_does_not_differ_but_by_chance() {
        let different = (0..1000)
            .filter(|seed| ratio(&pairs(10, 1.0, *seed)).unwrap().differs())
            .count();
        assert!((25..=80).contains(&different), "{different} of 1000");
    }

    #[test]
    fn pairs_without_a_figure_are_left_out() {
        assert_eq!(ratio(&[(1.0, 1.0)]), None);
        let found = ratio(&[(1.0, 0.0), (f64::NAN, 1.0), (2.0, 1.0), (2.0, 1.0), (-1.0, 1.0)]).unwrap();
        assert_eq!(found.pairs, 2);
        assert!((found.value - 2.0).abs() < 1e-12 && found.differs());
    }

    #[test]
    fn both_sides_come_first_equally_often() {
        let order = interleave(40, 7);
        assert_eq!(order.iter().filter(|pair| pair[0] == Side::A).count(), 20);
        assert_eq!(order, interleave(40, 7));
        assert_ne!(order, interleave(40, 8));
        assert_eq!(interleave(3, 1).len(), 3);
        assert!(interleave(0, 1).is_empty());
    }
}
