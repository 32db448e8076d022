//! Two finished runs with fixed figures that agree with each other, for the tests of everything that writes reports. Only exact arithmetic
//! is used, so that every machine gets the same text.

use super::{Failure, Report, Run};
use crate::{
    engine::{Slice, Stretch, Timeline, latencies, slice_latencies},
    failure::Class,
    machine::{Environment, ServerUsage, Usage},
    plan::{Load, Pace},
    search::WarmedUp,
};

/// Points at which the distribution of latencies is taken.
const POINTS: u64 = 23_700;
/// Slices of the timeline: 10 seconds by 100 milliseconds.
const SLICES: u64 = 100;
const TIMEOUT_NS: u64 = 2_000_000_000;
/// Time that the slowest hundredth of the open load's requests waited.
const WAITED_NS: u64 = 40_000_000;

/// The latency below which the part `q` of all lies: 213 us for a half, 1.04 ms for 99 %, 270 us on average.
fn latency_ns(q: f64) -> u64 {
    (150_000.0 + 90_000.0 * q / (1.0 - q).sqrt()) as u64
}

/// The middle of the part with this number.
fn middle(at: u64, of: u64) -> f64 {
    (at as f64 + 0.5) / of as f64
}

/// Slice number `at`.
fn slice(at: u64) -> Slice {
    let change = (at / 2 * 37) % 41 * 15;
    let answers = if at.is_multiple_of(2) {
        POINTS + change
    } else {
        POINTS - change
    };
    let mut latency = slice_latencies();
    latency.saturating_record_n(latency_ns(0.5), answers as u32);
    Slice {
        answers,
        failures: 0,
        latency,
    }
}

fn environment() -> Environment {
    Environment {
        version: "0.1.0".into(),
        cpu: Some("Example (R) CPU <E-2> @ 3.00GHz".into()),
        cores: 4,
        kernel: Some("Linux 6.12.0".into()),
        load_average: Some(0.25),
    }
}

/// Of 40 seconds of CPU time on 4 cores the server used 14.22, the generator 8.7 and the rest of the machine 0.4.
fn usage() -> Usage {
    Usage {
        seconds: 10.0,
        cores: Some(4),
        busy_share: Some(0.583),
        steal_share: Some(0.001),
        server: Some(ServerUsage {
            pid: 4_242,
            processes: 5,
            cpu_seconds: 14.22,
            own_cpu_seconds: 14.22,
            rss_bytes: 18_350_080,
        }),
    }
}

impl Report {
    /// A closed load of 64 connections for 10 seconds: 2,370,000 answers, and a few failures.
    pub(crate) fn example() -> Self {
        let answers = 100 * POINTS;
        let (timeouts, resets, refusals) = (2, 3, 12);
        let mut latency_ns_of_all = latencies();
        for point in 0..POINTS {
            latency_ns_of_all.saturating_record_n(latency_ns(middle(point, POINTS)), 100);
        }
        latency_ns_of_all.saturating_record_n(TIMEOUT_NS, timeouts);
        let mut connecting_ns = slice_latencies();
        (0..67).for_each(|at| connecting_ns.saturating_record(60_000 + at * 4_000));
        let sent = answers + timeouts + resets;
        let failure = |class, count, example: &str| Failure {
            class,
            count,
            example: Some(example.to_owned()),
        };
        Self {
            run: Run {
                title: Some("local route".into()),
                urls: vec!["http://localhost:8080/local?a=1&b=<2>".into()],
                method: "GET".into(),
                threads: 2,
                connections: 64,
                pipeline: 1,
                keep_alive: true,
                load: Some(Load {
                    connections: 64,
                    pace: Pace::Closed,
                }),
                duration_seconds: Some(10.0),
                started_unix_ms: 1_760_000_000_000,
                ..Run::default()
            },
            seconds: 10.0,
            sent,
            answers,
            per_second: 237_000.0,
            bytes_in: answers * 149,
            body_bytes_in: answers * 12,
            bytes_out: sent * 78,
            connects: 67,
            latency_ns: latency_ns_of_all,
            connecting_ns,
            statuses: vec![(200, answers - refusals), (503, refusals)],
            failures: vec![
                failure(
                    Class::Reset,
                    resets,
                    "connection 17: the other side reset it with 1 answer due",
                ),
                failure(
                    Class::Timeout,
                    timeouts,
                    "connection 4: no whole answer within 2 s",
                ),
                failure(
                    Class::Status,
                    refusals,
                    "503; the body is `<p>busy & \"full\"</p>`",
                ),
            ],
            timeline: Timeline {
                start_ns: 500_000_000,
                slice_ns: 100_000_000,
                slices: (0..SLICES).map(slice).collect(),
            },
            cpu_seconds: 8.7,
            warm_up: WarmedUp {
                seconds: 0.901,
                requests: 212_004,
                steady: Some(true),
            },
            environment: Some(environment()),
            usage: Some(usage()),
            ..Self::empty()
        }
    }

    /// The same load as an open one: 240,000 requests a second at random over 128 connections, of which some waited and some were
    /// dropped.
    pub(crate) fn example_open() -> Self {
        let mut report = Self::example();
        report.run.title = None;
        report.run.connections = 128;
        report.run.load = Some(Load {
            connections: 128,
            pace: Pace::Open {
                per_second: 240_000.0,
            },
        });
        let mut due = latencies();
        for point in 0..POINTS {
            let waited = if point % 100 == 99 { WAITED_NS } else { 0 };
            due.saturating_record_n(latency_ns(middle(point, POINTS)) + waited, 100);
        }
        due.saturating_record_n(TIMEOUT_NS, 2);
        report.service_ns = Some(std::mem::replace(&mut report.latency_ns, due));
        report.lag_max_ns = 41_250_000;
        report.environment = None;
        report.usage = None;
        report.failures.push(Failure {
            class: Class::Dropped,
            count: 29_995,
            example: Some("more than 65536 requests were due and not sent".into()),
        });
        report
    }

    /// A run in which nothing was sent.
    pub(crate) fn empty() -> Self {
        let run = Run {
            threads: 1,
            ..Run::default()
        };
        let nothing = Stretch::nothing(Load::PAUSED);
        Self::new(run, &nothing, &nothing)
    }
}

/// Compares a text with the file of that name under `tests/golden`. With `FOREBAY_REFRESH` set it writes the file instead, and the changes
/// are reviewed as a diff.
pub(crate) fn assert_golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("FOREBAY_REFRESH").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(text, expected, "{}", path.display());
}
