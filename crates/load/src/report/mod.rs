//! A finished run as its reader gets it. [`Report`] holds every figure once; each module below writes it in one form.

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

/// Seed of the runs that are drawn for intervals, so that a report always reads the same.
const INTERVAL_SEED: u64 = 1;

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was run, as it was asked for.
    pub run: Run,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Requests written.
    pub sent: u64,
    /// Whole answers, those included that came after the measured time to requests sent within it, and those that came within it to
    /// requests sent before.
    pub answers: u64,
    /// Requests that were under way when the measured time began: sent before it, answered within it.
    pub under_way: u64,
    /// Answers within the measured time, a second.
    pub per_second: f64,
    /// Bytes of answers with their heads.
    pub bytes_in: u64,
    /// Bytes of answers' bodies.
    pub body_bytes_in: u64,
    /// Bytes of requests.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Connections that were open already when the measured time began.
    pub held: u64,
    /// Attempts to open a connection that came to nothing.
    pub connects_failed: u64,
    /// Nanoseconds from when a request was due to the end of its answer.
    #[serde(with = "stats::encoded")]
    pub latency_ns: Histogram<u64>,
    /// Nanoseconds from when it was written, under an open load.
    #[serde(with = "stats::encoded::optional")]
    pub service_ns: Option<Histogram<u64>>,
    /// Nanoseconds from when a request was due to the first byte of its answer, of all that were answered.
    #[serde(with = "stats::encoded")]
    pub first_byte_ns: Histogram<u64>,
    /// Answers whose first byte came before the last.
    pub in_pieces: u64,
    /// Nanoseconds from the attempt to the open connection.
    #[serde(with = "stats::encoded")]
    pub connecting_ns: Histogram<u64>,
    /// The part of that which the TLS handshake took; empty without TLS.
    #[serde(with = "stats::encoded")]
    pub handshakes_ns: Histogram<u64>,
    /// Answers by status, in the order of statuses.
    pub statuses: Vec<(u16, u64)>,
    /// What failed, by class.
    pub failures: Vec<Failure>,
    /// How it went over time.
    pub timeline: Timeline,
    /// How far a request of an open load was sent behind its time at the worst, in nanoseconds.
    pub lag_max_ns: u64,
    /// CPU seconds of the generator within the measured time.
    pub cpu_seconds: f64,
    /// What was sent before the measured time.
    pub warm_up: WarmedUp,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// The first answer of all.
    pub first_answer: Option<FirstAnswer>,
    /// What was measured of each request, where several are told apart.
    pub urls: Vec<UrlFigures>,
    /// What it was measured on.
    pub environment: Option<Environment>,
    /// What machine, generator and server used within the measured time.
    pub usage: Option<Usage>,
}

/// What was run, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// A name for the run.
    pub title: Option<String>,
    /// The URLs, in the order in which connections take them.
    pub urls: Vec<String>,
    /// The method of the requests.
    pub method: String,
    /// Bytes of the body of each request.
    pub body_bytes: u64,
    /// Event loops.
    pub threads: usize,
    /// How the kernel was asked to receive and send.
    pub engine: Engine,
    /// Connections.
    pub connections: usize,
    /// Requests under way on a connection at most.
    pub pipeline: usize,
    /// Whether connections serve several requests.
    pub keep_alive: bool,
    /// The load.
    pub load: Option<Load>,
    /// Seconds asked for.
    pub duration_seconds: Option<f64>,
    /// Requests asked for.
    pub requests: Option<u64>,
    /// When the measured time began, as milliseconds since 1970.
    pub started_unix_ms: u64,
    /// What different requests are called, if they are told apart.
    pub named: Vec<String>,
    /// The stages of its load, if it changed while it was measured.
    pub stages: Vec<Stage>,
}

/// A part of a run with a load of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// When it began, in seconds since the measured time began.
    pub at_seconds: f64,
    /// Its load, such as `1 to 100 connections`.
    pub load: String,
}

/// How a report is written.
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

/// How often something failed, and how it looked the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What failed.
    pub class: Class,
    /// How often.
    pub count: u64,
    /// The first one.
    pub example: Option<String>,
}

/// What was measured of one of several requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UrlFigures {
    /// Its method and URL.
    pub name: String,
    /// Whole answers, whatever they say.
    pub answers: u64,
    /// What failed, with an answer or without.
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
    /// A report on what was measured; `after` is what came in after the end to requests that were under way.
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

    /// What the server calls itself in its first answer.
    pub fn server(&self) -> Option<&str> {
        self.first_answer.as_ref()?.server.as_deref()
    }

    /// Failures of all classes.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failure| failure.count).sum()
    }

    /// Everything that was asked for and has come to an end: answers, and what failed without one.
    pub fn asked(&self) -> u64 {
        let unanswered = self.failures.iter().filter(|failure| !failure.class.has_answer());
        self.answers + unanswered.map(|failure| failure.count).sum::<u64>()
    }

    /// Answers a second with their 95 % interval. `None` when the run was too short to tell.
    pub fn rate_interval(&self) -> Option<Interval> {
        stats::throughput(&self.timeline).map(|means| means.interval)
    }

    /// 95 % intervals of percentiles (0 to 100) of latency, in nanoseconds. `None` for those that the run cannot tell.
    pub fn latency_intervals(&self, percentiles: &[f64]) -> Vec<Option<Interval>> {
        stats::percentile_intervals(&self.timeline, &self.latency_ns, percentiles, INTERVAL_SEED)
    }

    /// CPU time of the server for each answer within the measured time, in nanoseconds. `None` when the server is not known.
    pub fn server_ns_per_answer(&self) -> Option<f64> {
        let server = self.usage.as_ref()?.server?;
        let us = server.cpu_us_per_request(self.measured_answers())?;
        Some(us * 1e3)
    }

    /// What the CPU time of an answer leaves room for. `None` when the server is not known.
    pub fn capacity(&self) -> Option<Capacity> {
        self.usage.as_ref()?.capacity(self.measured_answers())
    }

    /// Answers within the measured time.
    fn measured_answers(&self) -> u64 {
        (self.per_second * self.seconds).round() as u64
    }

    /// CPU time of the generator for each answer within the measured time, in nanoseconds. `None` without answers.
    pub fn generator_ns_per_answer(&self) -> Option<f64> {
        let answers = self.measured_answers();
        (answers > 0).then(|| self.cpu_seconds * 1e9 / answers as f64)
    }
}
