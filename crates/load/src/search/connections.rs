//! Finds the best number of connections under a closed load: the smallest that reaches almost the highest throughput. More connections only
//! wait for each other.

use std::{collections::BTreeMap, fmt::Write as _, sync::atomic::Ordering, time::Duration};

use super::{Point, try_load};
use crate::{
    engine::Session,
    plan::{Load, Pace},
    request::Random,
};

/// Parameters of the sweep.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// Most connections that are tried.
    pub connections_max: usize,
    /// Settling time before each measurement.
    pub settle: Duration,
    /// Duration of each measurement.
    pub measure: Duration,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            settle: Duration::from_millis(300),
            measure: Duration::from_millis(1500),
        }
    }
}

/// Result of a sweep.
#[derive(Clone, Debug)]
pub struct Best {
    /// All points that were tried, by number of connections; repeated ones as their mean.
    pub curve: Vec<Point>,
    /// Index of the chosen point in the curve.
    pub chosen: usize,
    /// Why it was chosen.
    pub reason: String,
}

/// Throughput below this part of the best counts as falling.
const FALLING: f64 = 0.97;
/// Throughput above this part of the best counts as equal to it.
const ENOUGH: f64 = 0.99;
/// Share of failures that ends the sweep.
const FAILED_MAX: f64 = 0.001;
/// Rounds in which the best few are measured again.
const ROUNDS: usize = 2;

/// Sweeps the number of connections. `watch` sees each point as it is measured.
pub fn best_connections(session: &mut Session, sweep: Sweep, watch: &mut dyn FnMut(&Point)) -> Best {
    let mut curve = Curve::default();
    let mut random = Random::new(session.plan().seed);
    let stopper = session.stopper();
    // Returns nothing once stopped: an interrupted measurement is too short, and is used only if there is no other.
    let mut measure = |connections: usize, curve: &mut Curve| {
        let load = Load {
            connections,
            pace: Pace::Closed,
        };
        let point = Point::of(&try_load(session, load, sweep.settle, sweep.measure));
        if stopper.load(Ordering::Relaxed) && !curve.0.is_empty() {
            return None;
        }
        watch(&point);
        curve.add(point);
        Some(curve.mean(connections))
    };
    let (mut connections, mut falling, mut errors_at) = (1, 0, None);
    while connections <= sweep.connections_max && falling < 2 && errors_at.is_none() {
        let Some(point) = measure(connections, &mut curve) else {
            return curve.choose(None);
        };
        errors_at = (point.failed > FAILED_MAX).then_some(connections);
        let falls = point.per_second < FALLING * curve.best().per_second;
        falling = if falls { falling + 1 } else { 0 };
        connections *= 2;
    }
    // Bisect between the neighbours of the best until they are adjacent or an eighth apart.
    while let Some(next) = curve.gap_beside(curve.best().load.connections) {
        match measure(next, &mut curve) {
            Some(point) if point.failed <= FAILED_MAX => {}
            Some(_) => {
                errors_at.get_or_insert(next);
                break;
            }
            None => return curve.choose(errors_at),
        }
    }
    for _ in 0..ROUNDS {
        let mut again = curve.best_few();
        while !again.is_empty() {
            let connections = again.swap_remove(random.below(again.len()));
            if measure(connections, &mut curve).is_none() {
                return curve.choose(errors_at);
            }
        }
    }
    curve.choose(errors_at)
}

/// Measured points by number of connections.
#[derive(Debug, Default)]
struct Curve(BTreeMap<usize, Vec<Point>>);

impl Curve {
    fn add(&mut self, point: Point) {
        self.0.entry(point.load.connections).or_default().push(point);
    }

    /// The mean of the points at a number of connections.
    fn mean(&self, connections: usize) -> Point {
        let points = &self.0[&connections];
        let count = points.len() as f64;
        let mut middle = points[points.len() / 2].clone();
        middle.per_second = points.iter().map(|point| point.per_second).sum::<f64>() / count;
        middle.failed = points.iter().map(|point| point.failed).sum::<f64>() / count;
        middle
    }

    fn means(&self) -> Vec<Point> {
        self.0.keys().map(|&connections| self.mean(connections)).collect()
    }

    /// The points without failures, the fastest first.
    fn fastest(&self) -> Vec<Point> {
        let mut means = self.means();
        means.retain(|point| point.failed <= FAILED_MAX);
        means.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
        means
    }

    /// The point with the highest throughput among those without failures, or else the first.
    fn best(&self) -> Point {
        let first = self.fastest().into_iter().next();
        first.unwrap_or_else(|| self.means().swap_remove(0))
    }

    fn best_few(&self) -> Vec<usize> {
        let fastest = self.fastest().into_iter().take(3);
        fastest.map(|point| point.load.connections).collect()
    }

    /// A number between this one and a measured neighbour that is more than an eighth away.
    fn gap_beside(&self, best: usize) -> Option<usize> {
        let below = self.0.range(..best).next_back().map(|(&below, _)| (below, best));
        let above = self.0.range(best + 1..).next().map(|(&above, _)| (best, above));
        let least = (best / 8).max(1);
        [below, above]
            .into_iter()
            .flatten()
            .filter(|(low, high)| high - low > least)
            .max_by_key(|(low, high)| high - low)
            .map(|(low, high)| low + (high - low) / 2)
    }

    fn choose(&self, errors_at: Option<usize>) -> Best {
        let (curve, top) = (self.means(), self.best());
        let is_enough =
            |point: &Point| point.failed <= FAILED_MAX && point.per_second >= ENOUGH * top.per_second;
        let chosen = curve.iter().position(is_enough).unwrap_or(0);
        let (connections, fastest) = (curve[chosen].load.connections, top.load.connections);
        let mut reason = if connections == fastest {
            format!(
                "{connections} connections bring the highest throughput, {:.0} requests/s",
                top.per_second
            )
        } else {
            format!(
                "{connections} connections bring {:.0} requests/s, within 1 % of the highest, {:.0} at {fastest}",
                curve[chosen].per_second, top.per_second
            )
        };
        let last = &curve[curve.len() - 1];
        let last_connections = last.load.connections;
        if let Some(errors_at) = errors_at {
            // Writing to a String cannot fail.
            let _ = write!(reason, "; from {errors_at} on requests fail");
        } else if last.per_second < FALLING * top.per_second {
            let _ = write!(reason, "; {last_connections} bring only {:.0}", last.per_second);
        } else if last_connections == connections {
            reason += "; more were not tried and may bring more";
        } else {
            reason += "; more bring no more";
        }
        Best {
            curve,
            chosen,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(usize, f64, f64)]) -> Curve {
        let mut curve = Curve::default();
        for &(connections, per_second, failed) in points {
            let load = Load {
                connections,
                pace: Pace::Closed,
            };
            let point = Point {
                load,
                per_second,
                p50_ns: 100_000 * connections as u64,
                p99_ns: 0,
                failed,
            };
            curve.add(point);
        }
        curve
    }

    #[test]
    fn the_smallest_number_that_is_as_good_as_the_best_is_chosen() {
        let best = curve(&[
            (1, 10.0, 0.0),
            (2, 50.0, 0.0),
            (4, 99.5, 0.0),
            (8, 100.0, 0.0),
            (16, 80.0, 0.0),
        ])
        .choose(None);
        assert_eq!(best.curve[best.chosen].load.connections, 4);
        assert!(
            best.reason.contains("within 1 %") && best.reason.contains("16 bring only 80"),
            "{}",
            best.reason
        );
    }

    #[test]
    fn what_fails_is_never_chosen() {
        let best = curve(&[(1, 10.0, 0.0), (2, 20.0, 0.0), (4, 900.0, 0.5)]).choose(Some(4));
        assert_eq!(best.curve[best.chosen].load.connections, 2);
        assert!(
            best.reason.ends_with("from 4 on requests fail"),
            "{}",
            best.reason
        );
    }

    #[test]
    fn gaps_beside_the_best_are_halved_until_they_are_small() {
        let mut curve = curve(&[(16, 1.0, 0.0), (32, 3.0, 0.0), (64, 2.0, 0.0)]);
        let mut tried = Vec::new();
        while let Some(next) = curve.gap_beside(32) {
            tried.push(next);
            let mut point = curve.mean(16);
            point.load.connections = next;
            curve.add(point);
        }
        assert_eq!(tried, [48, 40, 24, 36, 28]);
    }
}
