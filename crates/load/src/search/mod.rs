//! Measurements that choose the next one themselves: the best number of connections, the highest rate that keeps a promise.

mod connections;
mod precision;
mod rate;
mod versus;
mod warm_up;

pub use self::{
    connections::{Best, Sweep, best_connections},
    precision::{Precision, Repeated, until_precise},
    rate::{Promise, RateSearch, Sustained, highest_rate},
    versus::{Comparison, Versus, compare},
    warm_up::{WarmUp, WarmedUp, warm_up},
};

use std::time::Duration;

use crate::engine::{Session, Stretch, Until};
use crate::plan::Load;

/// One load that was tried, and what came of it.
#[derive(Clone, Debug)]
pub struct Point {
    /// The load.
    pub load: Load,
    /// Whole answers a second.
    pub per_second: f64,
    /// Median latency in nanoseconds.
    pub p50_ns: u64,
    /// Its 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Failures as a part of everything that was asked for, from 0 to 1.
    pub failed: f64,
}

impl Point {
    /// What a measurement says about its load.
    pub fn of(stretch: &Stretch) -> Self {
        let total = &stretch.total;
        let asked = total.answers + total.failures.without_answer();
        Self {
            load: stretch.load,
            per_second: stretch.per_second(),
            p50_ns: total.latency.value_at_quantile(0.5),
            p99_ns: total.latency.value_at_quantile(0.99),
            failed: total.failures.total() as f64 / asked.max(1) as f64,
        }
    }
}

/// Lets a load settle, then measures it. The load stays.
fn try_load(session: &mut Session, load: Load, settle: Duration, measure: Duration) -> Stretch {
    session.measure(load, Until::passed(settle).and_on(), &mut |_| {});
    session.measure(load, Until::passed(measure).and_on(), &mut |_| {})
}

/// The same, with a pause afterwards that leaves the machine to others.
fn turn(session: &mut Session, load: Load, settle: Duration, measure: Duration) -> Stretch {
    session.measure(load, Until::passed(settle).and_on(), &mut |_| {});
    session.measure(load, Until::passed(measure), &mut |_| {})
}
