//! What a pool counts.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use crate::{EndCause, Failure};

/// The longest duration that the histograms tell apart: one hour.
const DURATION_US_MAX: u64 = 3_600_000_000;

/// Counts since the pool was made. Jobs are conserved: `accepted = answered + faulted + cancelled + the sum of failed + jobs under way`,
/// where a job is under way until its first delivery. A response that breaks off later stays answered. So are workers:
/// `started = the sum of ended + workers that live`.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Jobs taken.
    pub accepted: u64,
    /// Jobs answered by their handler.
    pub answered: u64,
    /// Jobs whose handler threw.
    pub faulted: u64,
    /// Jobs whose owner left before the answer.
    pub cancelled: u64,
    /// Accepted jobs that failed, by [`Failure::name`].
    pub failed: BTreeMap<&'static str, u64>,
    /// Jobs refused at once, by [`Failure::name`].
    pub refused: BTreeMap<&'static str, u64>,
    /// Frames for jobs that were over, out of order, or of another generation.
    pub stray_frames: u64,
    /// Starts of worker processes, those that failed too.
    pub started: u64,
    /// Workers that became ready.
    pub ready: u64,
    /// Workers that ended, by cause.
    pub ended: BTreeMap<EndCause, u64>,
}

impl Counters {
    pub(crate) fn refused(&mut self, failure: &Failure) {
        *self.refused.entry(failure.name()).or_default() += 1;
    }

    pub(crate) fn failed(&mut self, failure: &Failure) {
        *self.failed.entry(failure.name()).or_default() += 1;
    }

    pub(crate) fn ended(&mut self, cause: EndCause) {
        *self.ended.entry(cause).or_default() += 1;
    }
}

/// How long jobs waited and ran.
#[derive(Clone, Debug)]
pub struct Timings {
    /// Microseconds from arrival until the job was sent to a worker.
    pub wait_us: Histogram<u64>,
    /// Microseconds that handlers ran, as workers report them.
    pub run_us: Histogram<u64>,
}

impl Default for Timings {
    fn default() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, DURATION_US_MAX, 2).expect("the bounds are constants");
        Self {
            wait_us: histogram(),
            run_us: histogram(),
        }
    }
}

impl Timings {
    pub(crate) fn waited(&mut self, duration: Duration) {
        self.wait_us.saturating_record(micros(duration));
    }

    pub(crate) fn ran(&mut self, duration: Duration) {
        self.run_us.saturating_record(micros(duration));
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
