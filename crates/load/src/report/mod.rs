//! A finished run and its reports. [`Report`] holds every figure once; each module below writes it in one form.

pub mod assert;
pub mod comparison;
mod connections;
#[cfg(test)]
mod fixture;
pub mod html;
pub mod json;
mod ranges;
pub mod saved;
mod steps;
pub mod text;
pub mod verdict;
pub mod words;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    engine::{FirstAnswer, Stretch, Timeline, UrlWindow},
    failure::Class,
    machine::{Capacity, Environment, Usage},
    plan::{Engine, Load},
    search::WarmedUp,
    stats::{self, Interval},
};

/// Seed for resampling intervals, so that a report always reads the same.
const INTERVAL_SEED: u64 = 1;

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
    /// Nanoseconds from when a request was due to the first byte of its response, for all that were answered.
    #[serde(with = "stats::encoded")]
    pub first_byte_ns: Histogram<u64>,
    /// Responses whose first byte arrived before the last.
    pub in_pieces: u64,
    /// Nanoseconds from the start of the attempt to the open connection.
    #[serde(with = "stats::encoded")]
    pub connecting_ns: Histogram<u64>,
    /// The part of `connecting_ns` that the TLS handshake took; empty without TLS.
    #[serde(with = "stats::encoded")]
    pub handshakes_ns: Histogram<u64>,
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
    /// The first response of the run.
    pub first_answer: Option<FirstAnswer>,
    /// Figures of each request, where several are measured separately.
    pub urls: Vec<UrlFigures>,
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
    /// Names of the requests, if they are measured separately.
    pub named: Vec<String>,
    /// The stages of the load, if it changed during the measured time.
    pub stages: Vec<Stage>,
}

/// A part of a run with a load of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// When it began, in seconds since the measured time began.
    pub at_seconds: f64,
    /// The load, such as `1 to 100 connections`.
    pub load: String,
}

/// Options of all formats.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The percentiles of latency that are shown, each from 0 to 100, in this order.
    pub percentiles: Vec<f64>,
    /// Whether text may be coloured. The caller knows the terminal, and whether its user wants colour at all.
    pub colour: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            percentiles: vec![50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99],
            colour: false,
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

/// Figures of one of several requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UrlFigures {
    /// Method and URL.
    pub name: String,
    /// Complete responses, whatever their status.
    pub answers: u64,
    /// Failed requests, with a response or without.
    pub failures: u64,
    /// Latencies in nanoseconds, to two digits.
    #[serde(with = "stats::encoded")]
    pub latency_ns: Histogram<u64>,
}

fn urls(names: &[String], measured: &[Option<Box<UrlWindow>>]) -> Vec<UrlFigures> {
    let nothing = UrlWindow::default();
    let of = |(at, name): (usize, &String)| {
        let found = measured.get(at).and_then(Option::as_deref).unwrap_or(&nothing);
        UrlFigures {
            name: name.clone(),
            answers: found.answers,
            failures: found.failures,
            latency_ns: found.latency.clone(),
        }
    };
    names.iter().enumerate().map(of).collect()
}

impl Report {
    /// A report on a measurement; `after` holds the responses that arrived after its end to requests that were in flight.
    pub fn new(run: Run, measured: &Stretch, after: &Stretch) -> Self {
        let (seconds, per_second) = (measured.seconds(), measured.per_second());
        let mut all = measured.clone();
        all.absorb(after);
        let mut statuses = all.total.statuses.clone();
        statuses.sort_unstable();
        let example = |class| {
            let found = all.examples.iter().find(|(known, _)| *known == class);
            found.map(|(_, text)| text.clone())
        };
        let failures = all.total.failures.iter();
        let names = run.named.clone();
        Self {
            run,
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
            first_byte_ns: all.total.first_bytes(),
            in_pieces: all.total.in_pieces,
            failures: failures
                .map(|(class, count)| Failure {
                    class,
                    count,
                    example: example(class),
                })
                .collect(),
            latency_ns: all.total.latency,
            service_ns: all.total.service,
            connecting_ns: all.total.connecting,
            handshakes_ns: all.total.handshakes,
            statuses,
            timeline: all.timeline,
            lag_max_ns: all.total.lag_max_ns,
            cpu_seconds: measured.cpu_ns as f64 / 1e9,
            warm_up: WarmedUp::default(),
            interrupted: measured.interrupted,
            first_answer: None,
            urls: urls(&names, &all.total.urls),
            environment: None,
            usage: None,
        }
    }

    /// The Server field of the first response.
    pub fn server(&self) -> Option<&str> {
        self.first_answer.as_ref()?.server.as_deref()
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
        stats::throughput(&self.timeline).map(|means| means.interval)
    }

    /// 95 % intervals of percentiles (0 to 100) of latency, in nanoseconds. `None` for those that the run cannot tell.
    pub fn latency_intervals(&self, percentiles: &[f64]) -> Vec<Option<Interval>> {
        stats::percentile_intervals(&self.timeline, &self.latency_ns, percentiles, INTERVAL_SEED)
    }

    /// CPU time of the server for each response within the measured time, in nanoseconds. `None` when the server is not known.
    pub fn server_ns_per_answer(&self) -> Option<f64> {
        let server = self.usage.as_ref()?.server?;
        let us = server.cpu_us_per_request(self.measured_answers())?;
        Some(us * 1e3)
    }

    /// Rate for which the machine's CPU time suffices. `None` when the server is not known.
    pub fn capacity(&self) -> Option<Capacity> {
        self.usage.as_ref()?.capacity(self.measured_answers())
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
}
