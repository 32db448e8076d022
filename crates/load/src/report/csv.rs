//! Tables with commas (RFC 4180, with single line feeds). Every field is a number, so that nothing needs quotes.

use std::fmt::Write as _;

use super::{Options, Report, course, words};

/// Both tables: how latency is distributed, an empty line, how the run went.
pub fn write(report: &Report, options: &Options) -> String {
    format!("{}\n{}", percentiles(report, options), timeline(report))
}

/// A line for each percentile, in milliseconds; under an open load also the time from sending.
pub fn percentiles(report: &Report, options: &Options) -> String {
    let mut text = String::from("percentile,latency_ms");
    if report.service_ns.is_some() {
        text.push_str(",service_ms");
    }
    text.push('\n');
    for percent in std::iter::once(0.0)
        .chain(options.percentiles.iter().copied())
        .chain([100.0])
    {
        text.push_str(&words::percentile(percent));
        for histogram in std::iter::once(&report.latency_ns).chain(&report.service_ns) {
            let ns = match percent {
                _ if histogram.is_empty() => {
                    text.push(',');
                    continue;
                }
                percent if percent <= 0.0 => histogram.min(),
                percent => course::percentile(histogram, percent),
            };
            let _ = write!(text, ",{}", milliseconds(ns));
        }
        text.push('\n');
    }
    text
}

/// A line for each slice of the run. Latencies of a slice without answers are empty.
pub fn timeline(report: &Report) -> String {
    let mut text =
        String::from("at_seconds,seconds,requests,per_second,errors,bytes_in,p50_ms,p95_ms,p99_ms,max_ms\n");
    for step in course::steps(report) {
        let (requests, errors, bytes_in) = (step.answers, step.failures, step.bytes_in);
        let (at, seconds, per_second) = (step.at_seconds, step.seconds, step.per_second);
        let _ = write!(
            text,
            "{at:.3},{seconds:.3},{requests},{per_second:.1},{errors},{bytes_in}"
        );
        match step.latency {
            Some(latency) => {
                for ns in [latency.p50, latency.p95, latency.p99, latency.max] {
                    let _ = write!(text, ",{}", milliseconds(ns));
                }
            }
            None => text.push_str(",,,,"),
        }
        text.push('\n');
    }
    text
}

/// Milliseconds to the nanosecond.
fn milliseconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::assert_golden;

    #[test]
    fn tables_are_as_in_their_golden_files() {
        assert_golden("closed.csv", &write(&Report::example(), &Options::default()));
        assert_golden(
            "open-percentiles.csv",
            &percentiles(&Report::example_open(), &Options::default()),
        );
    }

    #[test]
    fn every_line_has_as_many_fields_as_its_head() {
        let mut empty = Report::example_open();
        empty.latency_ns.reset();
        empty.timeline.slices[3].latency.reset();
        for report in [Report::example(), Report::example_open(), empty] {
            for table in [percentiles(&report, &Options::default()), timeline(&report)] {
                let commas = |line: &str| line.matches(',').count();
                let head = table.lines().next().map(commas);
                assert!(table.lines().all(|line| Some(commas(line)) == head), "{table}");
            }
        }
    }
}
