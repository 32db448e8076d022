//! oha 1.15.0 (src/printer.rs, `src/result_data.rs`, src/histogram.rs, src/timescale.rs in hatoo/oha; sizes as its crate byte-unit 5
//! writes them).
//!
//! One unit serves all times: the largest that the slowest request exceeds, among which are ten seconds and ten minutes. An answer
//! is a success for oha, whatever its status; answers with an unexpected body are not, because oha has no such check to tell. Names
//! are looked up once before a run, so a look-up takes no time. Requests a second are answers a second; oha adds what failed.

use std::io::{self, Write};

use hdrhistogram::Histogram;

use super::figures::{BINS, Failed, bins, error_texts, percentile};
use super::units::binary_bytes;
use crate::{failure::Class, report::Report};

/// Length of the longest bar.
const BAR: f64 = 32.0;
/// Units with their nanoseconds, the largest first.
const UNITS: [(&str, f64); 8] = [
    ("hr", 3.6e12),
    ("10 min", 6e11),
    ("min", 6e10),
    ("10 sec", 1e10),
    ("sec", 1e9),
    ("ms", 1e6),
    ("us", 1e3),
    ("ns", 1.0),
];
/// What oha says of requests that a run's end cut off.
const CUT_OFF: &str = "aborted due to deadline";

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let latency = &report.latency_ns;
    let (unit, unit_ns) = unit_of(latency);
    let time = |ns: f64| format!("{:.4} {unit}", ns / unit_ns);
    // oha has no number for the least of nothing.
    let of_some = |ns: f64| if latency.is_empty() { f64::NAN } else { ns };

    writeln!(out, "Summary:\n  Success rate:\t{:.2}%", success_percent(report))?;
    writeln!(out, "  Total:\t{}", time(report.seconds * 1e9))?;
    writeln!(out, "  Slowest:\t{}", time(of_some(latency.max() as f64)))?;
    writeln!(out, "  Fastest:\t{}", time(of_some(latency.min() as f64)))?;
    writeln!(out, "  Average:\t{}", time(of_some(latency.mean())))?;
    writeln!(out, "  Requests/sec:\t{:.4}\n", report.per_second)?;
    writeln!(out, "  Total data:\t{}", binary_bytes(report.body_bytes_in))?;
    let size = report
        .body_bytes_in
        .checked_div(report.answers)
        .map_or("NaN".into(), binary_bytes);
    writeln!(out, "  Size/request:\t{size}")?;
    let per_second = if report.seconds > 0.0 {
        report.body_bytes_in as f64 / report.seconds
    } else {
        0.0
    };
    writeln!(out, "  Size/sec:\t{}\n", binary_bytes(per_second as u64))?;

    out.write_all(b"Response time histogram:\n")?;
    histogram(&bins(latency), unit, unit_ns, out)?;
    out.write_all(b"\nResponse time distribution:\n")?;
    for percent in [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99] {
        writeln!(
            out,
            "  {percent:.2}% in {}",
            time(of_some(percentile(latency, percent) as f64))
        )?;
    }

    let connecting = &report.connecting_ns;
    let times = [
        connecting.mean(),
        connecting.min() as f64,
        connecting.max() as f64,
    ]
    .map(time)
    .join(", ");
    writeln!(
        out,
        "\n\nDetails (average, fastest, slowest):\n  DNS+dialup:\t{times}"
    )?;
    writeln!(out, "  DNS-lookup:\t{}\n", [0.0; 3].map(time).join(", "))?;
    out.write_all(b"Status code distribution:\n")?;
    let mut statuses = report.statuses.clone();
    statuses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (status, count) in statuses {
        writeln!(out, "  [{status}] {count} responses")?;
    }
    errors(report, out)
}

fn unit_of(latency: &Histogram<u64>) -> (&'static str, f64) {
    let slowest = latency.max() as f64;
    let unit = UNITS.into_iter().find(|(_, ns)| slowest > *ns);
    unit.unwrap_or(UNITS[UNITS.len() - 1])
}

/// Requests that a run's end cut off are not the server's failures.
fn success_percent(report: &Report) -> f64 {
    let failed = Failed::of(report);
    let cut_off: u64 = report
        .failures
        .iter()
        .filter(|failure| failure.class == Class::Unanswered)
        .map(|failure| failure.count)
        .sum();
    let all = report.answers + failed.without_answer() + failed.dropped - cut_off;
    let good = report.answers.saturating_sub(failed.mismatch);
    if all == 0 {
        f64::NAN
    } else {
        100.0 * good as f64 / all as f64
    }
}

fn histogram(bins: &[(f64, u64); BINS], unit: &str, unit_ns: f64, out: &mut dyn Write) -> io::Result<()> {
    let most = bins.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let digits = |number: u64| number.to_string().len();
    let label_width = bins
        .iter()
        .map(|(mark, _)| digits((mark / unit_ns) as u64))
        .max()
        .unwrap_or(0)
        + 4;
    for (mark, count) in bins {
        let indent = digits(most) - digits(*count);
        let bar = "■".repeat((BAR * (*count as f64 / most.max(1) as f64)) as usize);
        writeln!(
            out,
            "  {:>label_width$.3} {unit} [{count}]{:indent$} |{bar}",
            mark / unit_ns,
            ""
        )?;
    }
    Ok(())
}

fn errors(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let texts = error_texts(report);
    if texts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nError distribution:")?;
    for (text, count) in texts {
        let text = if text == Class::Unanswered.name() {
            CUT_OFF
        } else {
            &text
        };
        writeln!(out, "  [{count}] {text}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Failure;

    #[test]
    fn requests_cut_off_at_the_end_are_shown_but_fail_nothing() {
        let mut report = Report::example();
        report.failures = vec![Failure {
            class: Class::Unanswered,
            count: 3,
            example: None,
        }];
        let mut out = Vec::new();
        write(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("Summary:\n  Success rate:\t100.00%\n"));
        assert!(text.ends_with("\nError distribution:\n  [3] aborted due to deadline\n"));
    }

    #[test]
    fn the_unit_is_the_largest_that_the_slowest_exceeds() {
        let mut latency = crate::engine::latencies();
        assert_eq!(unit_of(&latency).0, "ns");
        for (ns, unit) in [
            (900, "ns"),
            (1_500_000, "ms"),
            (1_500_000_000, "sec"),
            (15_000_000_000, "10 sec"),
        ] {
            latency.record(ns).unwrap();
            assert_eq!(unit_of(&latency).0, unit);
        }
    }
}
