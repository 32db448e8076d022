//! wrk 4.2.0 (src/wrk.c, src/units.c in wg/wrk).
//!
//! wrk samples the rate of each thread every 100 ms; a report has the rate of all together in slices of at least that, so the line
//! `Req/Sec` shows an average thread: the rate of each slice through the number of threads. wrk enters requests that it would have
//! sent into its latencies after a run; here latencies are as measured. Socket errors are told apart as wrk does: `read` is every
//! connection that ended or broke its answer, `timeout` every request without an answer in time.

use std::io::{self, Write};

use super::{
    Extra, StyleOptions,
    figures::{Failed, Samples, percent_within_deviation, percentile, url_text},
    units::{wrk_bytes, wrk_metric, wrk_seconds, wrk_time},
};
use crate::report::{Report, Run};

/// Seconds between two samples of the rate.
const SAMPLE_SECONDS: f64 = 0.1;

pub(super) fn announce(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let extent = match (run.duration_seconds, run.requests) {
        (Some(seconds), _) => wrk_seconds(seconds),
        // wrk knows no number of requests.
        (None, Some(requests)) => format!("{requests} requests"),
        (None, None) => "endless".into(),
    };
    writeln!(out, "Running {extent} test @ {}", url_text(&run.urls))?;
    writeln!(
        out,
        "  {} threads and {} connections",
        run.threads, run.connections
    )
}

pub(super) fn write(report: &Report, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    thread_stats(report, out)?;
    if options.has(Extra::Latency) {
        out.write_all(b"  Latency Distribution\n")?;
        for percent in [50.0, 75.0, 90.0, 99.0] {
            writeln!(out, "{percent:7.0}%{}", latency(report, percent))?;
        }
    }
    totals(report, out)
}

fn latency(report: &Report, percent: f64) -> String {
    column(&wrk_time(whole_us(percentile(&report.latency_ns, percent))), 10)
}

/// wrk and wrk2 measure in whole microseconds.
pub(super) fn whole_us(ns: u64) -> f64 {
    (ns as f64 / 1e3).round()
}

pub(super) fn thread_stats(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let latency = &report.latency_ns;
    let samples = Samples::of(report, SAMPLE_SECONDS).answers;
    let threads = report.run.threads.max(1) as f64;
    writeln!(
        out,
        "  Thread Stats{:>6}{:>11}{:>8}{:>12}",
        "Avg", "Stdev", "Max", "+/- Stdev"
    )?;
    let cells = [
        latency.mean() / 1e3,
        latency.stdev() / 1e3,
        whole_us(latency.max()),
    ]
    .map(wrk_time);
    stats_line("Latency", &cells, percent_within_deviation(latency), out)?;
    let deviation = samples.sample_deviation();
    let cells = [samples.mean(), deviation, samples.max().floor()].map(|rate| wrk_metric(rate / threads));
    stats_line("Req/Sec", &cells, samples.percent_within(deviation), out)
}

fn stats_line(name: &str, cells: &[String; 3], percent_within: f64, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "    {name:<10}")?;
    for (cell, width) in cells.iter().zip([8, 10, 9]) {
        out.write_all(column(cell, width).as_bytes())?;
    }
    writeln!(out, "{percent_within:8.2}%")
}

/// A number in its column. The last digit of a number with a unit of no or one letter stands where that of one with two does.
pub(super) fn column(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let (width, pad) = (width - (2 - letters), 2 - letters);
    format!("{text:>width$.width$}{:pad$}", "")
}

pub(super) fn totals(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let failed = Failed::of(report);
    let time = wrk_time((report.seconds * 1e6).round());
    writeln!(
        out,
        "  {} requests in {time}, {}B read",
        report.answers,
        wrk_bytes(report.bytes_in as f64)
    )?;
    let read = failed.lost + failed.malformed;
    if failed.without_answer() > 0 {
        let Failed {
            connect,
            write,
            timeout,
            ..
        } = failed;
        writeln!(
            out,
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
        )?;
    }
    let bad: u64 = report
        .statuses
        .iter()
        .filter(|(status, _)| *status > 399)
        .map(|(_, count)| count)
        .sum();
    if bad > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {bad}")?;
    }
    let bytes_per_second = if report.seconds > 0.0 {
        report.bytes_in as f64 / report.seconds
    } else {
        0.0
    };
    writeln!(out, "Requests/sec: {:9.2}", report.per_second)?;
    writeln!(out, "Transfer/sec: {:>10}B", wrk_bytes(bytes_per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that the tool's document shows.
    #[test]
    fn numbers_with_and_without_units_end_in_one_column() {
        let mut out = Vec::new();
        stats_line(
            "Latency",
            &["635.91us", "0.89ms", "12.92ms"].map(String::from),
            93.69,
            &mut out,
        )
        .unwrap();
        stats_line(
            "Req/Sec",
            &["56.20k", "8.07k", "62.00k"].map(String::from),
            86.54,
            &mut out,
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "    Latency   635.91us    0.89ms  12.92ms   93.69%\n    Req/Sec    56.20k     8.07k   62.00k    86.54%\n"
        );
    }
}
