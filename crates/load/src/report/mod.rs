//! A finished run and its reports. [`Report`] holds every figure once; each module below writes it in one form.

pub mod assert;
pub mod comparison;
#[cfg(test)]
mod fixture;
pub mod format;
pub mod html;
pub mod json;
pub mod saved;
pub mod text;
pub mod verdict;

use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};

use crate::{
    engine::{Slice, Stretch, Timeline},
    failure::Class,
    machine::{Environment, Usage},
    plan::{Engine, Load},
    search::WarmedUp,
    stats::{self, Interval},
};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Settings of the run.
    pub run: Run,
    /// Duration of the measured time in seconds.
    pub seconds: f64,
    /// Requests written.
    pub sent: u64,
    /// Complete responses, including late ones to requests sent within the measured time, and those within it to requests sent before.
    pub answers: u64,
    /// Requests that were in flight when the measured time began: sent before it, answered within it.
    pub under_way: u64,
    /// Responses per second within the measured time.
    pub per_second: f64,
    /// Bytes of responses with their heads.
    pub bytes_in: u64,
    /// Bytes of response bodies.
    pub body_bytes_in: u64,
    /// Bytes of requests.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Connections that were open already when the measured time began.
    pub held: u64,
    /// Failed attempts to open a connection.
    pub connects_failed: u64,
    /// Nanoseconds from when a request was due to the end of its response.
    #[serde(with = "stats::encoded")]
    pub latency_ns: Histogram<u64>,
    /// Nanoseconds from when it was written, under an open load.
    #[serde(with = "stats::encoded::optional")]
    pub service_ns: Option<Histogram<u64>>,
    /// Nanoseconds from the start of the attempt to the open connection, the TLS handshake included.
    #[serde(with = "stats::encoded")]
    pub connecting_ns: Histogram<u64>,
    /// Responses by status, ascending.
    pub statuses: Vec<(u16, u64)>,
    /// Failures by class.
    pub failures: Vec<Failure>,
    /// Rates and latencies over time.
    pub timeline: Timeline,
    /// Longest delay between when a request of an open load was due and when it was sent, in nanoseconds.
    pub lag_max_ns: u64,
    /// CPU seconds of the generator within the measured time.
    pub cpu_seconds: f64,
    /// Result of the warm-up.
    pub warm_up: WarmedUp,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// Properties of the machine.
    pub environment: Option<Environment>,
    /// Resources that machine, generator and server used within the measured time.
    pub usage: Option<Usage>,
}

/// Settings of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Title of the run, if it was given one.
    pub title: Option<String>,
    /// The URLs, in the order in which connections are assigned to them.
    pub urls: Vec<String>,
    /// The method of the requests.
    pub method: String,
    /// Bytes of the body of each request.
    pub body_bytes: u64,
    /// Number of event loops.
    pub threads: usize,
    /// Kernel interface for receiving and sending.
    pub engine: Engine,
    /// Number of connections.
    pub connections: usize,
    /// Most requests in flight on a connection.
    pub pipeline: usize,
    /// Whether connections serve several requests.
    pub keep_alive: bool,
    /// The load; `None` reads as a closed one.
    pub load: Option<Load>,
    /// Seconds asked for.
    pub duration_seconds: Option<f64>,
    /// Requests asked for.
    pub requests: Option<u64>,
    /// When the measured time began, as milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The load of each stage, such as `1 to 100 connections`, if it changed during the measured time.
    pub stages: Vec<String>,
}

/// Options of all formats.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The percentiles of latency that are shown, each from 0 to 100, in this order.
    pub percentiles: Vec<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            percentiles: vec![50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99],
        }
    }
}

/// Count and first example of a class of failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Class of the failures.
    pub class: Class,
    /// Number of failures.
    pub count: u64,
    /// Text of the first one.
    pub example: Option<String>,
}

/// The value below which `percent` of all lie, but never more than the largest.
pub(crate) fn percentile<C: Counter>(histogram: &Histogram<C>, percent: f64) -> u64 {
    histogram.value_at_quantile(percent.clamp(0.0, 100.0) / 100.0)
}

impl Report {
    /// A report on a measurement; `after` holds the responses that arrived after its end to requests that were in flight.
    pub fn new(run: Run, measured: &Stretch, after: &Stretch) -> Self {
        let (seconds, per_second) = (measured.seconds(), measured.per_second());
        let mut all = measured.clone();
        all.absorb(after);
        all.total.statuses.sort_unstable();
        let failure = |(class, count)| {
            let found = all.examples.iter().find(|(known, _)| *known == class);
            Failure {
                class,
                count,
                example: found.map(|(_, text)| text.clone()),
            }
        };
        Self {
            seconds,
            sent: all.total.sent,
            answers: all.total.answers,
            under_way: all.total.under_way,
            per_second,
            bytes_in: all.total.bytes_in,
            body_bytes_in: all.total.body_bytes_in,
            bytes_out: all.total.bytes_out,
            connects: all.total.connects,
            held: all.total.held,
            connects_failed: all.total.connects_failed,
            failures: all.total.failures.iter().map(failure).collect(),
            latency_ns: all.total.latency,
            service_ns: all.total.service,
            connecting_ns: all.total.connecting,
            statuses: all.total.statuses,
            timeline: all.timeline,
            lag_max_ns: all.total.lag_max_ns,
            cpu_seconds: measured.cpu_ns as f64 / 1e9,
            warm_up: WarmedUp::default(),
            interrupted: measured.interrupted,
            environment: None,
            usage: None,
            run,
        }
    }

    /// Failures of all classes.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failure| failure.count).sum()
    }

    /// Requests that have ended: responses, and failures without a response.
    pub fn asked(&self) -> u64 {
        let unanswered = self.failures.iter().filter(|failure| !failure.class.has_answer());
        self.answers + unanswered.map(|failure| failure.count).sum::<u64>()
    }

    /// Responses per second with their 95 % interval. `None` when the run was too short to tell.
    pub fn rate_interval(&self) -> Option<Interval> {
        stats::throughput(&self.timeline)
    }

    /// CPU time of the server for each response within the measured time, in nanoseconds. `None` when the server is not known.
    pub fn server_ns_per_answer(&self) -> Option<f64> {
        let server = self.usage.as_ref()?.server?;
        let answers = self.measured_answers();
        (answers > 0).then(|| server.cpu_seconds * 1e9 / answers as f64)
    }

    /// Responses within the measured time.
    fn measured_answers(&self) -> u64 {
        (self.per_second * self.seconds).round() as u64
    }

    /// CPU time of the generator for each response within the measured time, in nanoseconds. `None` without responses.
    pub fn generator_ns_per_answer(&self) -> Option<f64> {
        let answers = self.measured_answers();
        (answers > 0).then(|| self.cpu_seconds * 1e9 / answers as f64)
    }

    /// Requests per connection. `None` without connections.
    pub fn requests_per_connection(&self) -> Option<f64> {
        let connections = self.held + self.connects;
        (connections > 0).then(|| self.sent as f64 / connections as f64)
    }

    /// The slices of the run, each with its start and its length in seconds, and whether the length is a full one: the rate of a shorter
    /// slice means little.
    fn slices(&self) -> impl Iterator<Item = (f64, f64, bool, &Slice)> {
        let slice_seconds = self.timeline.slice_ns as f64 / 1e9;
        let slices = self.timeline.slices.iter().enumerate();
        slices.map(move |(at, slice)| {
            let at_seconds = at as f64 * slice_seconds;
            let left = self.seconds - at_seconds;
            // A slice that begins at the very end has the responses that arrived while the threads were being stopped.
            let seconds = if left > 0.0 {
                left.min(slice_seconds)
            } else {
                slice_seconds
            };
            (at_seconds, seconds, left > slice_seconds * 0.999, slice)
        })
    }
}
