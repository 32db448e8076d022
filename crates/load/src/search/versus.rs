//! Compares two servers: short turns under the same load, in an order that favours neither when the machine drifts, and the ratio of their
//! figures. Disturbances that affect both alike cancel out.

use std::time::Duration;

use super::{Point, try_load};
use crate::{
    engine::{Session, Stretch},
    plan::Load,
    stats::{Ratio, Side, interleave, ratio},
};

/// Parameters of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// The load of every turn.
    pub load: Load,
    /// Most pairs of turns.
    pub pairs_max: usize,
    /// The comparison ends early when half of the ratio's interval is narrower than this share of the ratio.
    pub precision: f64,
    /// Settling time before each measurement.
    pub settle: Duration,
    /// Duration of each measurement.
    pub measure: Duration,
    /// Seed of the order.
    pub seed: u64,
}

/// Fewest pairs before a comparison may end early.
const PAIRS_MIN: usize = 5;

/// Result of a comparison; every ratio is the second server's figure divided by the first one's.
#[derive(Clone, Debug)]
pub struct Versus {
    /// Each pair of turns, the first server's first.
    pub pairs: Vec<(Point, Point)>,
    /// Ratio of requests per second; `None` before there are two pairs.
    pub per_second: Option<Ratio>,
    /// Ratio of the median latencies.
    pub p50: Option<Ratio>,
    /// Ratio of the 99th percentiles.
    pub p99: Option<Ratio>,
    /// All measurements of the first server.
    pub first: Stretch,
    /// All measurements of the second server.
    pub second: Stretch,
    /// Whether it was stopped early from outside.
    pub interrupted: bool,
}

/// Compares two servers. `watch` sees the result so far after each pair.
pub fn compare(
    first: &mut Session,
    second: &mut Session,
    comparison: Comparison,
    watch: &mut dyn FnMut(&Versus),
) -> Versus {
    let mut found = Versus {
        pairs: Vec::new(),
        per_second: None,
        p50: None,
        p99: None,
        first: Stretch::nothing(comparison.load),
        second: Stretch::nothing(comparison.load),
        interrupted: false,
    };
    for order in interleave(comparison.pairs_max, comparison.seed) {
        let mut points = [None, None];
        for side in order {
            let (session, all) = match side {
                Side::A => (&mut *first, &mut found.first),
                Side::B => (&mut *second, &mut found.second),
            };
            let stretch = try_load(session, comparison.load, comparison.settle, comparison.measure);
            // The machine is left to the other one.
            session.pause();
            found.interrupted |= stretch.interrupted;
            points[side as usize] = Some(Point::of(&stretch));
            all.extend(&stretch);
        }
        let [Some(a), Some(b)] = points else {
            unreachable!("each side has its turn in each pair")
        };
        if found.interrupted {
            break;
        }
        found.pairs.push((a, b));
        found.update();
        watch(&found);
        let narrow = |ratio: &Ratio| ratio.relative_half_width() <= comparison.precision;
        if found.pairs.len() >= PAIRS_MIN && found.per_second.as_ref().is_some_and(narrow) {
            break;
        }
    }
    found
}

impl Versus {
    fn update(&mut self) {
        let of = |figure: &dyn Fn(&Point) -> f64| {
            let pairs: Vec<_> = self.pairs.iter().map(|(a, b)| (figure(b), figure(a))).collect();
            ratio(&pairs)
        };
        self.per_second = of(&|point| point.per_second);
        self.p50 = of(&|point| point.p50_ns as f64);
        self.p99 = of(&|point| point.p99_ns as f64);
    }
}
