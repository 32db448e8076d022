//! bombardier 2.0 (templates.go, format.go, `internal/test_info.go` in codesenberg/bombardier, commit 2d495ac, 2025), with its client's
//! bar left out.
//!
//! bombardier samples the rate every 10 ms, here it is sampled every 100 ms, or as long as the timeline's slices are. The deviation of
//! latencies is over all of them; bombardier's own leaves out how often each occurred. Throughput is of both directions.

use std::io::{self, Write};

use super::{
    Extra, StyleOptions,
    figures::{Failed, Samples, error_texts, percentile, status_classes, url_text},
    units::{bombardier_bytes, bombardier_time, go_duration},
};
use crate::report::{Report, Run};

/// Seconds between two samples of the rate.
const SAMPLE_SECONDS: f64 = 0.1;

pub(super) fn announce(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let extent = match (run.requests, run.duration_seconds) {
        (Some(requests), _) => format!("with {requests} request(s)"),
        (None, Some(seconds)) => format!("for {}", go_duration((seconds * 1e9) as u64)),
        (None, None) => "without end".into(),
    };
    writeln!(
        out,
        "Bombarding {} {extent} using {} connection(s)",
        url_text(&run.urls),
        run.connections
    )
}

pub(super) fn write(report: &Report, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Done!")?;
    writeln!(
        out,
        "{:>10} {:>10} {:>10} {:>10}",
        "Statistics", "Avg", "Stdev", "Max"
    )?;
    let rate = Samples::of(report, SAMPLE_SECONDS).answers;
    if rate.len() > 0 {
        let (mean, deviation, max) = (rate.mean(), rate.sample_deviation(), rate.max());
        writeln!(
            out,
            "  {:<10} {mean:10.2} {deviation:10.2} {max:10.2}",
            "Reqs/sec"
        )?;
    } else {
        writeln!(
            out,
            "  There wasn't enough data to compute statistics for requests."
        )?;
    }
    let latency = &report.latency_ns;
    if latency.is_empty() {
        writeln!(
            out,
            "  There wasn't enough data to compute statistics for latencies."
        )?;
    } else {
        let times =
            [latency.mean(), latency.stdev(), latency.max() as f64].map(|ns| bombardier_time(ns / 1e3));
        writeln!(
            out,
            "  {:<10} {:>10} {:>10} {:>10}",
            "Latency", times[0], times[1], times[2]
        )?;
        if options.has(Extra::Latency) {
            writeln!(out, "  Latency Distribution")?;
            for percent in [50.0, 75.0, 90.0, 95.0, 99.0] {
                let us = (percentile(latency, percent) / 1_000) as f64;
                writeln!(out, "     {percent:2.0}% {:>10}", bombardier_time(us))?;
            }
        }
    }
    let ([c1, c2, c3, c4, c5], others) = status_classes(report);
    // A request without an answer has the code 0 there.
    let others = others + Failed::of(report).without_answer();
    writeln!(
        out,
        "  HTTP codes:\n    1xx - {c1}, 2xx - {c2}, 3xx - {c3}, 4xx - {c4}, 5xx - {c5}\n    others - {others}"
    )?;
    let errors = error_texts(report);
    if !errors.is_empty() {
        writeln!(out, "  Errors:")?;
    }
    for (text, count) in errors {
        writeln!(out, "    {text:>10} - {count}")?;
    }
    let bytes = (report.bytes_in + report.bytes_out) as f64;
    let bytes_per_second = if report.seconds > 0.0 {
        bytes / report.seconds
    } else {
        0.0
    };
    writeln!(
        out,
        "  {:<10} {:>10}/s",
        "Throughput:",
        bombardier_bytes(bytes_per_second)
    )
}
