//! hey 0.1.4 (requester/print.go, requester/report.go in rakyll/hey, commit 8985827, 2021).
//!
//! hey times the steps of every request. The look-up of names and the write of a request show 0, for they take no time that Forebay
//! could tell. `resp wait` ends with the first byte; `resp read` shows 0, for which first byte belonged to which answer is not kept.
//! `DNS+dialup` is over the connections that were made, where hey's average also counts requests that made none. The bytes are those
//! of the bodies that came; hey adds up the lengths that answers announce.

use std::io::{self, Write};

use hdrhistogram::Histogram;

use super::figures::{bins, error_texts, percentile};
use crate::report::Report;

/// Length of the longest bar.
const BAR: u64 = 40;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let latency = &report.latency_ns;
    let seconds = |ns: f64| format!("{:.4} secs", ns / 1e9);
    writeln!(out, "\nSummary:\n  Total:\t{}", seconds(report.seconds * 1e9))?;
    writeln!(out, "  Slowest:\t{}", seconds(latency.max() as f64))?;
    writeln!(out, "  Fastest:\t{}", seconds(latency.min() as f64))?;
    writeln!(out, "  Average:\t{}", seconds(latency.mean()))?;
    writeln!(out, "  Requests/sec:\t{:.4}\n  ", report.per_second)?;
    if report.body_bytes_in > 0 {
        writeln!(out, "  Total data:\t{} bytes", report.body_bytes_in)?;
        let size = report.body_bytes_in.checked_div(report.answers).unwrap_or(0);
        writeln!(out, "  Size/request:\t{size} bytes")?;
    }

    out.write_all(b"\nResponse time histogram:\n")?;
    if !latency.is_empty() {
        let bins = bins(latency);
        let most = bins.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        for (mark, count) in bins {
            let bar = "■".repeat(((count * BAR + most / 2) / most) as usize);
            writeln!(out, "  {:4.3} [{count}]\t|{bar}", mark / 1e9)?;
        }
    }
    out.write_all(b"\n\nLatency distribution:\n")?;
    if !latency.is_empty() {
        for percent in [10, 25, 50, 75, 90, 95, 99] {
            writeln!(
                out,
                "  {percent}% in {}",
                seconds(percentile(latency, f64::from(percent)) as f64)
            )?;
        }
    }

    out.write_all(b"\nDetails (average, fastest, slowest):\n")?;
    let step = |histogram: &Histogram<u64>| {
        [histogram.mean(), histogram.min() as f64, histogram.max() as f64]
            .map(seconds)
            .join(", ")
    };
    let nothing = [0.0; 3].map(seconds).join(", ");
    writeln!(out, "  DNS+dialup:\t{}", step(&report.connecting_ns))?;
    writeln!(out, "  DNS-lookup:\t{nothing}\n  req write:\t{nothing}")?;
    writeln!(
        out,
        "  resp wait:\t{}\n  resp read:\t{nothing}",
        step(&report.first_byte_ns)
    )?;
    out.write_all(b"\nStatus code distribution:\n")?;
    for (status, count) in &report.statuses {
        writeln!(out, "  [{status}]\t{count} responses")?;
    }
    out.write_all(b"\n")?;
    let mut errors = error_texts(report);
    errors.sort();
    if errors.is_empty() {
        return out.write_all(b"\n\n");
    }
    out.write_all(b"Error distribution:\n")?;
    for (text, count) in errors {
        writeln!(out, "  [{count}]\t{text}")?;
    }
    out.write_all(b"\n")
}
