//! Searches over loads: the best number of connections, the highest rate that keeps a promise.

mod connections;
mod rate;
mod versus;
mod warm_up;

pub use self::{
    connections::{Best, Sweep, best_connections},
    rate::{Promise, RateSearch, Sustained, highest_rate},
    versus::{Comparison, Versus, compare},
    warm_up::{WarmUp, WarmedUp, warm_up},
};

use std::time::Duration;

use crate::engine::{Session, Stretch, Until};
use crate::plan::Load;

/// One load that was tried, and its main figures.
#[derive(Clone, Debug)]
pub struct Point {
    /// Load as it was tried.
    pub load: Load,
    /// Complete responses per second.
    pub per_second: f64,
    /// Median latency in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile of latency in nanoseconds.
    pub p99_ns: u64,
    /// Failures as a share of all requests, from 0 to 1.
    pub failed: f64,
}

impl Point {
    /// Summarises a measurement.
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

/// Lets a load settle, then measures it. The load continues afterwards.
fn try_load(session: &mut Session, load: Load, settle: Duration, measure: Duration) -> Stretch {
    session.measure(load, Until::passed(settle).and_on(), &mut |_| {});
    session.measure(load, Until::passed(measure).and_on(), &mut |_| {})
}
