//! Counters and histograms of a pool.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use crate::{EndCause, Failure};

/// Longest duration that the histograms resolve: one hour.
const DURATION_US_MAX: u64 = 3_600_000_000;

/// Counters since the pool was created. Jobs are conserved: `accepted = answered + faulted + cancelled + the sum of failed + jobs in
/// flight`, where a job is in flight until its first delivery. A response that breaks off later still counts as answered. So are workers:
/// `started = the sum of ended + living workers`.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Jobs accepted by the pool.
    pub accepted: u64,
    /// Jobs answered by their handler.
    pub answered: u64,
    /// Jobs whose handler threw.
    pub faulted: u64,
    /// Jobs cancelled by their owner before the answer.
    pub cancelled: u64,
    /// Accepted jobs that failed, by [`Failure::name`].
    pub failed: BTreeMap<&'static str, u64>,
    /// Jobs refused on submission, by [`Failure::name`].
    pub refused: BTreeMap<&'static str, u64>,
    /// Frames for jobs that were over, out of order, or of another generation.
    pub stray_frames: u64,
    /// Starts of worker processes, including failed ones.
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

/// Waiting and run times of jobs.
#[derive(Clone, Debug)]
pub struct Timings {
    /// Time from arrival until the job was sent to a worker, in microseconds.
    pub wait_us: Histogram<u64>,
    /// Run time of handlers as reported by workers, in microseconds.
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
