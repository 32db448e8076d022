//! go-wrk (stats.go in adjust/go-wrk, commit 63e11dd, 2020).
//!
//! Its calls are those with an answer and those without. Times are in milliseconds of which go-wrk cuts the slowest to a whole one.

use std::io::{self, Write};

use super::{
    Extra, StyleOptions,
    figures::{Failed, percentile, status_classes, url_text},
};
use crate::report::Report;

pub(super) fn write(report: &Report, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    let failed = Failed::of(report);
    let errors = failed.without_answer();
    let calls = report.answers + errors;
    let latency = &report.latency_ns;
    let ms = |ns: u64| ns as f64 / 1e6;
    let per_call = |number: u64| number as f64 / calls.max(1) as f64;
    let per_second = |number: u64| {
        if report.seconds > 0.0 {
            number as f64 / report.seconds
        } else {
            0.0
        }
    };

    writeln!(
        out,
        "==========================BENCHMARK=========================="
    )?;
    writeln!(out, "URL:\t\t\t\t{}\n", url_text(&report.run.urls))?;
    writeln!(out, "Used Connections:\t\t{}", report.run.connections)?;
    writeln!(out, "Used Threads:\t\t\t{}", report.run.threads)?;
    writeln!(out, "Total number of calls:\t\t{calls}\n")?;
    writeln!(
        out,
        "===========================TIMINGS==========================="
    )?;
    writeln!(out, "Total time passed:\t\t{:.2}s", report.seconds)?;
    writeln!(out, "Avg time per request:\t\t{:.2}ms", latency.mean() / 1e6)?;
    writeln!(out, "Requests per second:\t\t{:.2}", report.per_second)?;
    writeln!(
        out,
        "Median time per request:\t{:.2}ms",
        ms(percentile(latency, 50.0))
    )?;
    writeln!(
        out,
        "99th percentile time:\t\t{:.2}ms",
        ms(percentile(latency, 99.0))
    )?;
    writeln!(
        out,
        "Slowest time for request:\t{:.2}ms\n",
        ms(latency.max()).floor()
    )?;
    writeln!(
        out,
        "=============================DATA============================="
    )?;
    writeln!(out, "Total response body sizes:\t\t{}", report.body_bytes_in)?;
    writeln!(
        out,
        "Avg response body per request:\t\t{:.2} Byte",
        per_call(report.body_bytes_in)
    )?;
    let rate = per_second(report.body_bytes_in);
    writeln!(
        out,
        "Transfer rate per second:\t\t{rate:.2} Byte/s ({:.2} MByte/s)",
        rate / 1e6
    )?;
    writeln!(
        out,
        "==========================RESPONSES=========================="
    )?;
    let (classes, _) = status_classes(report);
    for class in 2..=5 {
        let count = classes[class - 1];
        writeln!(
            out,
            "{class}0X Responses:\t\t{count}\t({:.2}%)",
            100.0 * per_call(count)
        )?;
    }
    if options.has(Extra::Matches) {
        let matches = report.answers.saturating_sub(failed.mismatch);
        writeln!(
            out,
            "matchResponses:\t\t{matches}\t({:.2}%)",
            100.0 * per_call(matches)
        )?;
    }
    writeln!(out, "Errors:\t\t\t{errors}\t({:.2}%)", 100.0 * per_call(errors))
}
