//! vegeta 12 (lib/reporters.go, lib/metrics.go in tsenart/vegeta, commit cf58112, 2026): the text of `vegeta report`.
//!
//! Requests are all with and without an answer; the latter have the code 0, as with vegeta. A report has no time between the last
//! request and the last answer, so `wait` is 0 and the attack takes all of the measured time. A success is an answer with a status
//! from 200 to 399 and, if one was expected, the right body.

use std::io::{self, Write};

use super::{
    figures::{Failed, error_texts, percentile},
    units::go_duration,
};
use crate::report::Report;

/// What a line begins with: its name and what its figures are.
const LINES: [(&str, &str); 7] = [
    ("Requests", "[total, rate, throughput]"),
    ("Duration", "[total, attack, wait]"),
    ("Latencies", "[min, mean, 50, 90, 95, 99, max]"),
    ("Bytes In", "[total, mean]"),
    ("Bytes Out", "[total, mean]"),
    ("Success", "[ratio]"),
    ("Status Codes", "[code:count]"),
];
/// Width of both columns: their longest text and two spaces.
const WIDTHS: (usize, usize) = (14, 34);

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let failed = Failed::of(report);
    let unanswered = failed.without_answer();
    let requests = report.answers + unanswered;
    let successes: u64 = report
        .statuses
        .iter()
        .filter(|(status, _)| (200..400).contains(status))
        .map(|(_, count)| count)
        .sum();
    let successes = successes.saturating_sub(failed.mismatch);
    let per_second = |number: u64| {
        if report.seconds > 0.0 {
            number as f64 / report.seconds
        } else {
            0.0
        }
    };
    let per_request = |number: u64| number as f64 / requests.max(1) as f64;
    let latency = &report.latency_ns;
    let latencies = [
        latency.min(),
        latency.mean() as u64,
        percentile(latency, 50.0),
        percentile(latency, 90.0),
        percentile(latency, 95.0),
        percentile(latency, 99.0),
        latency.max(),
    ];
    let attack = duration((report.seconds * 1e9) as u64);
    let bytes_out = report.run.body_bytes * report.sent;
    let mut codes = Vec::new();
    let statuses = report.statuses.iter().copied();
    for (status, count) in std::iter::once((0, unanswered))
        .chain(statuses)
        .filter(|(_, count)| *count > 0)
    {
        codes.push(format!("{status}:{count}  "));
    }
    let figures = [
        format!(
            "{requests}, {:.2}, {:.2}",
            per_second(requests),
            per_second(successes)
        ),
        format!("{attack}, {attack}, 0s"),
        latencies.map(duration).join(", "),
        format!(
            "{}, {:.2}",
            report.body_bytes_in,
            per_request(report.body_bytes_in)
        ),
        format!("{bytes_out}, {:.2}", per_request(bytes_out)),
        format!("{:.2}%", 100.0 * per_request(successes)),
        codes.concat(),
    ];
    for ((name, what), figures) in LINES.iter().zip(figures) {
        writeln!(out, "{name:<0$}{what:<1$}{figures}", WIDTHS.0, WIDTHS.1)?;
    }
    writeln!(out, "Error Set:")?;
    for (text, _) in error_texts(report) {
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// Rounded to the unit below the largest that it has: `9.999s`, `1.235ms`.
fn duration(ns: u64) -> String {
    const STEPS: [u64; 6] = [
        3_600_000_000_000,
        60_000_000_000,
        1_000_000_000,
        1_000_000,
        1_000,
        1,
    ];
    let step = STEPS
        .windows(2)
        .find(|pair| ns >= pair[0])
        .map_or(1, |pair| pair[1]);
    go_duration((ns + step / 2) / step * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_to_the_next_smaller_unit() {
        for (ns, text) in [
            (0, "0s"),
            (999, "999ns"),
            (213_375, "213.375µs"),
            (1_234_567, "1.235ms"),
            (9_999_499_999, "9.999s"),
            (61_600_000_000, "1m2s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }
}
