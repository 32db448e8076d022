//! Repeats measurements until the mean throughput is known precisely enough.

use std::time::Duration;

use crate::{
    engine::{Session, Stretch, Until},
    plan::Load,
    stats::Interval,
};

/// Precision to reach, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Precision {
    /// Load of every run.
    pub load: Load,
    /// Half-width of the 95 % interval as a share of the mean.
    pub relative: f64,
    /// Duration of each run; each gives one value of the mean.
    pub run: Duration,
    /// Most runs.
    pub runs_max: usize,
}

/// Fewest runs: with fewer the interval means little.
const RUNS_MIN: usize = 5;

/// Results of the runs so far.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// Responses per second of each run.
    pub per_second: Vec<f64>,
    /// Their mean with its 95 % interval; `None` before there are two.
    pub interval: Option<Interval>,
    /// Whether the interval is as narrow as asked for.
    pub reached: bool,
    /// All runs together.
    pub all: Stretch,
}

/// Repeats runs under one load. `watch` sees the results after each.
pub fn until_precise(
    session: &mut Session,
    precision: Precision,
    watch: &mut dyn FnMut(&Repeated),
) -> Repeated {
    let mut found = Repeated {
        per_second: Vec::new(),
        interval: None,
        reached: false,
        all: Stretch::nothing(precision.load),
    };
    while found.per_second.len() < precision.runs_max && !found.reached {
        let until = Until::passed(precision.run).and_on();
        let stretch = session.measure(precision.load, until, &mut |_| {});
        let interrupted = stretch.interrupted;
        found.all.extend(&stretch);
        if interrupted {
            break;
        }
        found.per_second.push(stretch.per_second());
        found.interval = Interval::of_mean(&found.per_second);
        let narrow = |interval: &Interval| interval.relative_half_width() <= precision.relative;
        found.reached = found.per_second.len() >= RUNS_MIN && found.interval.as_ref().is_some_and(narrow);
        watch(&found);
    }
    found
}
