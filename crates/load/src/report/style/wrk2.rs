//! wrk2 4.0.0 (src/wrk.c and `src/hdr_histogram.c` in giltene/wrk2, commit 44a94c1). The spectrum is the classic table of
//! `HdrHistogram` with five steps in each half of the distance to 100 %, in milliseconds.
//!
//! wrk2 throws away its first ten seconds to calibrate, and says so in a line for each thread when a run lasts longer; Forebay
//! calibrates nothing, so there is no such line. The recorded latency counts from when a request was due, the uncorrected one from
//! when it was sent.

use std::io::{self, Write};

use hdrhistogram::Histogram;

use super::{
    Extra, StyleOptions,
    figures::percentile,
    units::wrk_time,
    wrk::{column, thread_stats, totals, whole_us},
};
use crate::report::Report;

/// The longest latency that wrk2 tells apart, in microseconds: a day.
const MAX_US: u64 = 24 * 60 * 60 * 1_000_000;
/// Decimal digits of a latency.
const DIGITS: u8 = 3;
/// What three digits need: each power of two is kept in half as many equal parts.
const SUB_BUCKETS: u32 = 2048;
/// Lines for each half of the distance to 100 %.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;
const RULE: &str = "----------------------------------------------------------";

pub(super) fn write(report: &Report, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    thread_stats(report, out)?;
    if options.has(Extra::Latency) {
        distribution("Recorded Latency", &report.latency_ns, out)?;
    }
    if options.has(Extra::Uncorrected) {
        let service = report.service_ns.as_ref().unwrap_or(&report.latency_ns);
        out.write_all(b"\n")?;
        distribution(
            "Uncorrected Latency (measured without taking delayed starts into account)",
            service,
            out,
        )?;
    }
    totals(report, out)
}

fn distribution(name: &str, latency_ns: &Histogram<u64>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  Latency Distribution (HdrHistogram - {name})")?;
    let latency_us = in_microseconds(latency_ns);
    for percent in [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0] {
        let value = percentile(&latency_us, percent) as f64;
        writeln!(out, "{percent:7.3}%{}", column(&wrk_time(value), 10))?;
    }
    out.write_all(b"\n  Detailed Percentile spectrum:\n")?;
    spectrum(&latency_us, out)?;
    writeln!(out, "{RULE}")
}

fn in_microseconds(latency_ns: &Histogram<u64>) -> Histogram<u64> {
    let mut latency_us = Histogram::new_with_bounds(1, MAX_US, DIGITS).expect("the bounds are valid");
    for recorded in latency_ns.iter_recorded() {
        let us = whole_us(latency_ns.median_equivalent(recorded.value_iterated_to())) as u64;
        latency_us.saturating_record_n(us, recorded.count_at_value());
    }
    latency_us
}

fn spectrum(latency_us: &Histogram<u64>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>12} {:>12} {:>12} {:>12}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let total = latency_us.len();
    let mut line = |us: u64, percent: f64, count: u64| {
        let (value, quantile) = (us as f64 / 1e3, percent / 100.0);
        writeln!(
            out,
            "{value:12.3} {quantile:12.6} {count:12} {:12.2}",
            1.0 / (1.0 - quantile)
        )
    };
    let (mut count, mut next_percent) = (0, 0.0);
    for recorded in latency_us.iter_recorded() {
        count += recorded.count_at_value();
        let us = latency_us.highest_equivalent(recorded.value_iterated_to());
        let reached = 100.0 * count as f64 / total as f64;
        while next_percent <= reached {
            line(us, next_percent, count)?;
            let halvings = (100.0 / (100.0 - next_percent)).log2().trunc() + 1.0;
            next_percent += 100.0 / (TICKS_PER_HALF_DISTANCE * halvings.exp2());
            if count == total {
                // One line for where the last value begins, and one for where all end.
                line(us, 100.0, count)?;
                break;
            }
        }
    }
    let (mean, deviation) = (latency_us.mean() / 1e3, latency_us.stdev() / 1e3);
    let max = latency_us.lowest_equivalent(latency_us.max()) as f64 / 1e3;
    writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
    writeln!(out, "#[Max     = {max:12.3}, Total count    = {total:12}]")?;
    writeln!(
        out,
        "#[Buckets = {:12}, SubBuckets     = {SUB_BUCKETS:12}]",
        latency_us.buckets()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spectrum_halves_the_distance_to_all() {
        let mut latency_us = Histogram::new_with_bounds(1, MAX_US, DIGITS).unwrap();
        (1..=1_000).for_each(|us| latency_us.record(us).unwrap());
        let mut out = Vec::new();
        spectrum(&latency_us, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "       Value   Percentile   TotalCount 1/(1-Percentile)\n\n",
            "       0.001     0.000000            1         1.00\n",
            "       0.100     0.100000          100         1.11\n",
            "       0.550     0.550000          550         2.22\n",
            "       1.000     1.000000         1000          inf\n",
            "#[Max     =        1.000, Total count    =         1000]\n",
            "#[Buckets =           27, SubBuckets     =         2048]\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn an_empty_spectrum_has_no_lines() {
        let mut out = Vec::new();
        spectrum(&in_microseconds(&crate::engine::latencies()), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 5);
    }
}
