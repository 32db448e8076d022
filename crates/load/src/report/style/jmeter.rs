//! `JMeter` 5.6: the Summary Report (SummaryReport.java, Calculator.java) and the line of the summariser (Summariser.java) in
//! apache/jmeter.
//!
//! The Summary Report is a table on a screen; [`table`] writes its columns, with the numbers as the screen shows them, as aligned
//! text. [`csv`] is the file that `JMeter` saves of it, which shows more decimals. `JMeter` measures whole milliseconds, cut off below,
//! and so are average, minimum and maximum. A sample is every answer and every request or attempt to connect without one; an error is
//! whatever failed of that, by status or body too.

use std::io::{self, Write};

use super::{Extra, StyleOptions, figures::Failed};
use crate::report::{Report, words};

/// The columns.
const COLUMNS: [&str; 11] = [
    "Label",
    "# Samples",
    "Average",
    "Min",
    "Max",
    "Std. Dev.",
    "Error %",
    "Throughput",
    "Received KB/sec",
    "Sent KB/sec",
    "Avg. Bytes",
];
/// What `JMeter` calls an HTTP request that has no name.
const UNNAMED: &str = "HTTP Request";
/// Most characters of a label.
const LABEL_MAX: usize = 60;

pub(super) fn write(report: &Report, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    let label = report.run.title.as_deref().unwrap_or(UNNAMED);
    if options.has(Extra::Machine) {
        return csv(&[(label, report)], out);
    }
    summary(report, out)?;
    table(&[(label, report)], out)
}

/// What one row shows.
struct Row {
    label: String,
    samples: u64,
    errors: u64,
    seconds: f64,
    mean_ns: f64,
    deviation_ns: f64,
    min_ns: u64,
    max_ns: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Row {
    fn of(label: &str, report: &Report) -> Self {
        let failed = Failed::of(report);
        Self {
            label: words::plain(label, LABEL_MAX),
            samples: report.answers + failed.without_answer(),
            errors: failed.without_answer() + failed.status + failed.mismatch,
            seconds: report.seconds,
            mean_ns: report.latency_ns.mean(),
            deviation_ns: report.latency_ns.stdev(),
            min_ns: report.latency_ns.min(),
            max_ns: report.latency_ns.max(),
            bytes_in: report.bytes_in,
            bytes_out: report.bytes_out,
        }
    }

    /// The row over all runs. Deviations are put together by their squares, so that nothing is averaged that must not be.
    fn total(reports: &[(&str, &Report)]) -> Self {
        let rows: Vec<_> = reports
            .iter()
            .map(|(label, report)| Self::of(label, report))
            .collect();
        let latencies = |report: &Report| report.latency_ns.len() as f64;
        let all: f64 = reports.iter().map(|(_, report)| latencies(report)).sum();
        let mean_of = |value: &dyn Fn(&Row) -> f64| {
            let weighted = reports
                .iter()
                .zip(&rows)
                .map(|((_, report), row)| latencies(report) * value(row));
            weighted.sum::<f64>() / all.max(1.0)
        };
        let mean_ns = mean_of(&|row| row.mean_ns);
        let square = mean_of(&|row| row.deviation_ns.powi(2) + row.mean_ns.powi(2));
        let sum = |number: fn(&Self) -> u64| rows.iter().map(number).sum();
        Self {
            label: "TOTAL".into(),
            samples: sum(|row| row.samples),
            errors: sum(|row| row.errors),
            seconds: rows.iter().map(|row| row.seconds).sum(),
            mean_ns,
            deviation_ns: (square - mean_ns.powi(2)).max(0.0).sqrt(),
            min_ns: rows.iter().map(|row| row.min_ns).min().unwrap_or(0),
            max_ns: rows.iter().map(|row| row.max_ns).max().unwrap_or(0),
            bytes_in: sum(|row| row.bytes_in),
            bytes_out: sum(|row| row.bytes_out),
        }
    }

    fn per_second(&self, number: u64) -> f64 {
        if self.seconds > 0.0 {
            number as f64 / self.seconds
        } else {
            0.0
        }
    }

    fn error_percent(&self) -> f64 {
        100.0 * self.errors as f64 / self.samples.max(1) as f64
    }

    fn cells(&self, error: String, throughput: String) -> [String; 11] {
        let bytes = self.bytes_in as f64 / self.samples.max(1) as f64;
        [
            self.label.clone(),
            self.samples.to_string(),
            (self.mean_ns as u64 / 1_000_000).to_string(),
            (self.min_ns / 1_000_000).to_string(),
            (self.max_ns / 1_000_000).to_string(),
            format!("{:.2}", self.deviation_ns / 1e6),
            error,
            throughput,
            format!("{:.2}", self.per_second(self.bytes_in) / 1024.0),
            format!("{:.2}", self.per_second(self.bytes_out) / 1024.0),
            without_leading_zero(&format!("{bytes:.1}")),
        ]
    }

    /// As on the screen: two decimals of errors, and the rate in the unit in which it is at least 1.
    fn shown(&self) -> [String; 11] {
        let mut rate = self.per_second(self.samples);
        let mut unit = "sec";
        for longer in ["min", "hour"] {
            if rate < 1.0 {
                (rate, unit) = (rate * 60.0, longer);
            }
        }
        let rate = without_leading_zero(&format!("{rate:.1}"));
        self.cells(format!("{:.2}%", self.error_percent()), format!("{rate}/{unit}"))
    }

    /// As in the file.
    fn saved(&self) -> [String; 11] {
        let rate = without_leading_zero(&format!("{:.5}", self.per_second(self.samples)));
        self.cells(format!("{:.3}%", self.error_percent()), rate)
    }
}

/// What the pattern `#.0` of Java does to numbers below 1.
fn without_leading_zero(number: &str) -> String {
    match number.strip_prefix('0') {
        Some(rest) if rest.starts_with('.') => rest.to_owned(),
        _ => number.to_owned(),
    }
}

/// Writes the Summary Report of runs that were made one after the other, each with its label, and a row over all.
pub fn table(reports: &[(&str, &Report)], out: &mut dyn Write) -> io::Result<()> {
    let rows = reports
        .iter()
        .map(|(label, report)| Row::of(label, report).shown());
    let mut lines = vec![COLUMNS.map(String::from)];
    lines.extend(rows);
    lines.push(Row::total(reports).shown());
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 11] = std::array::from_fn(width);
    for [label, numbers @ ..] in &lines {
        write!(out, "{label:<0$}", widths[0])?;
        for (number, width) in numbers.iter().zip(&widths[1..]) {
            write!(out, "  {number:>width$}")?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes the same as the file that `JMeter` saves.
pub fn csv(reports: &[(&str, &Report)], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    let rows = reports.iter().map(|(label, report)| Row::of(label, report));
    for row in rows.chain([Row::total(reports)]) {
        let mut cells = row.saved();
        if cells[0].contains([',', '"']) {
            cells[0] = format!("\"{}\"", cells[0].replace('"', "\"\""));
        }
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

/// Writes the line with which the summariser ends a run.
pub fn summary(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let row = Row::of("", report);
    let elapsed = (row.seconds + 0.5) as u64;
    let (hours, minutes, seconds) = (elapsed / 3600, elapsed / 60 % 60, elapsed % 60);
    let [_, samples, average, min, max, ..] = row.shown();
    writeln!(
        out,
        "summary = {samples:>6} in {hours:02}:{minutes:02}:{seconds:02} = {:6.1}/s Avg: {average:>5} Min: {min:>5} Max: {max:>5} \
         Err: {:5} ({:.2}%)",
        row.per_second(row.samples),
        row.errors,
        row.error_percent(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_runs_have_a_row_each_and_one_over_all() {
        let (mut first, mut second) = (Report::example(), Report::example());
        first.latency_ns = crate::engine::latencies();
        first.latency_ns.record_n(10_500_000, 3).unwrap();
        second.latency_ns = crate::engine::latencies();
        second.latency_ns.record_n(20_500_000, 3).unwrap();
        second.seconds = 5.0;
        let mut out = Vec::new();
        csv(&[("2 threads", &first), ("4, \"x\"", &second)], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(
            lines[1].starts_with("2 threads,2370005,10,10,10,0.00,0.001%,237000.50000,"),
            "{text}"
        );
        assert!(lines[2].starts_with("\"4, \"\"x\"\"\",2370005,20,"), "{text}");
        assert!(
            lines[3].starts_with("TOTAL,4740010,15,10,20,5.00,0.001%,316000.66667,"),
            "{text}"
        );
    }

    #[test]
    fn slow_rates_are_shown_by_the_minute_or_hour() {
        let mut report = Report::example();
        report.seconds = report.answers as f64 * 90.0;
        assert_eq!(Row::of("", &report).shown()[7], "40.0/hour");
        report.seconds = report.answers as f64 * 2.0;
        assert_eq!(Row::of("", &report).shown()[7], "30.0/min");
    }
}
