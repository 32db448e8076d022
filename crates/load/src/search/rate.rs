//! Finds the highest rate of an open load at which a promise is kept. Rates rise until it is broken, then the search narrows the limit down
//! and confirms the result by a longer run.

use std::{sync::atomic::Ordering, time::Duration};

use super::{Point, try_load};
use crate::{
    engine::{Session, Until},
    plan::{Load, Pace},
};

/// Conditions that must hold at a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// Quantiles of the latency, from 0 to 1, and the limit of each in nanoseconds.
    pub latencies: Vec<(f64, u64)>,
    /// The share of requests that may fail, from 0 to 1.
    pub failed_max: f64,
}

/// Parameters of the search.
#[derive(Clone, Copy, Debug)]
pub struct RateSearch {
    /// Connections that the load may use.
    pub connections: usize,
    /// The first rate that is tried.
    pub first_per_second: f64,
    /// Settling time before each measurement.
    pub settle: Duration,
    /// Shortest duration of each measurement; it grows until the promise's quantiles have enough samples.
    pub measure: Duration,
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct Sustained {
    /// The highest rate at which the promise was kept and confirmed; `None` when even the first was too high.
    pub per_second: Option<f64>,
    /// The confirming measurement.
    pub confirmed: Option<Point>,
    /// Every rate tried, in order, and why the promise was broken there.
    pub tried: Vec<(Point, Option<String>)>,
}

/// Share of a rate that must have been achieved.
const ACHIEVED: f64 = 0.99;
/// The search ends when the limit is known to this share.
const PRECISION: f64 = 0.02;
/// Samples beyond a quantile that a measurement needs.
const SAMPLES: f64 = 10.0;
/// Most rates that are tried.
const TRIES_MAX: usize = 40;
/// Longest single measurement.
const MEASURE_MAX: Duration = Duration::from_mins(1);

/// Searches for the highest rate. `watch` sees each point as it is measured.
pub fn highest_rate(
    session: &mut Session,
    search: RateSearch,
    promise: &Promise,
    watch: &mut dyn FnMut(&Point, Option<&str>),
) -> Sustained {
    let stopper = session.stopper();
    let mut tried = Vec::new();
    let mut try_rate = |per_second: f64, times: u32, tried: &mut Vec<(Point, Option<String>)>| {
        let load = Load {
            connections: search.connections,
            pace: Pace::Open { per_second },
        };
        let measure = promise.time_at(per_second).max(search.measure).min(MEASURE_MAX) * times;
        let stretch = try_load(session, load, search.settle, measure);
        // The backlog must not count as load of the next rate.
        session.measure(Load::PAUSED, Until::passed(search.settle), &mut |_| {});
        let point = Point::of(&stretch);
        // The last request may be due beyond the end.
        let carried_min = ACHIEVED - 1.0 / (per_second * measure.as_secs_f64());
        let broken = promise.broken(&stretch.total.latency, &point, per_second, carried_min);
        watch(&point, broken.as_deref());
        let kept = broken.is_none();
        tried.push((point, broken));
        kept
    };
    let (mut kept, mut broken) = (None, None);
    let mut rate = search.first_per_second;
    while tried.len() < TRIES_MAX && !stopper.load(Ordering::Relaxed) {
        if try_rate(rate, 1, &mut tried) {
            kept = Some(rate);
        } else {
            broken = Some(rate);
        }
        rate = match (kept, broken) {
            (Some(kept), None) => kept * 2.0,
            (None, Some(broken)) if broken > 1.0 => broken / 4.0,
            (Some(kept), Some(broken)) if broken / kept > 1.0 + PRECISION => f64::sqrt(kept * broken),
            (Some(highest), _) => {
                if try_rate(highest, 3, &mut tried) {
                    break;
                }
                // A rate that cannot be confirmed was kept by luck.
                broken = Some(highest);
                kept = None;
                highest * (1.0 - PRECISION)
            }
            (None, _) => break,
        };
    }
    let stopped = stopper.load(Ordering::Relaxed);
    if stopped {
        // It was measured for less than its duration, if at all.
        tried.pop();
    }
    let confirmed = tried
        .last()
        .filter(|_| !stopped)
        .filter(|(_, broken)| broken.is_none())
        .map(|(point, _)| point.clone());
    Sustained {
        per_second: kept.filter(|_| confirmed.is_some()),
        confirmed,
        tried,
    }
}

impl Promise {
    /// Time in which the rarest quantile gets its samples.
    fn time_at(&self, per_second: f64) -> Duration {
        // However long the measurement, the maximum rests on one sample.
        let below_max = self.latencies.iter().filter(|(quantile, _)| *quantile < 1.0);
        let rarest = below_max.map(|(quantile, _)| 1.0 - quantile).fold(1.0, f64::min);
        Duration::try_from_secs_f64(SAMPLES / (rarest.max(1e-6) * per_second)).unwrap_or(MEASURE_MAX)
    }

    /// Why the promise is broken, in words; `None` if it is kept.
    fn broken(
        &self,
        latency: &hdrhistogram::Histogram<u64>,
        point: &Point,
        per_second: f64,
        carried_min: f64,
    ) -> Option<String> {
        if point.per_second < carried_min * per_second {
            return Some(format!(
                "only {:.0} of {per_second:.0} requests/s were carried",
                point.per_second
            ));
        }
        if point.failed > self.failed_max {
            return Some(format!("{:.3} % of the requests failed", point.failed * 100.0));
        }
        self.latencies.iter().find_map(|&(quantile, max_ns)| {
            let found = latency.value_at_quantile(quantile);
            (found > max_ns).then(|| {
                format!(
                    "p{} is {:.3} ms, {:.3} ms were promised",
                    quantile * 100.0,
                    found as f64 / 1e6,
                    max_ns as f64 / 1e6
                )
            })
        })
    }
}
