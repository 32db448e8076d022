//! autocannon 8.0.0 (lib/printResult.js, lib/progressTracker.js, lib/aggregateResult.js in mcollina/autocannon; the order and
//! rounding of statistics from the npm package hdr-histogram-percentiles-obj 3.0.0). Tables go to standard error without colours, as
//! autocannon writes them into a pipe; with `-j` there is only the JSON, on standard output.
//!
//! Requests and bytes a second come from the timeline, whose slices are gathered to one second; a long run has longer slices, and
//! then its samples are longer and still counted by the second. autocannon keeps latencies as whole milliseconds cut off below;
//! percentiles are shown so too, unless [`Extra::Hundredths`] is asked for, while average, deviation and maximum are those of
//! the exact latencies. There are no resets, because Forebay does not begin a pipeline anew.

use std::io::{self, Write};

use super::{
    Extra, StyleOptions,
    figures::{Failed, Samples, Series, percentile, status_classes, url_text},
    table,
    units::{grouped, pretty_bytes},
};
use crate::report::{Report, Run, words};

/// The percentiles of the long table and the JSON.
const PERCENTILES: [f64; 15] = [
    0.001, 0.01, 0.1, 1.0, 2.5, 10.0, 25.0, 50.0, 75.0, 90.0, 97.5, 99.0, 99.9, 99.99, 99.999,
];

pub(super) fn announce(run: &Run, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    if options.has(Extra::Machine) {
        return Ok(());
    }
    let extent = match (run.requests, run.duration_seconds) {
        (Some(requests), _) => format!("{requests} requests"),
        (None, Some(seconds)) => format!("{seconds}s"),
        // autocannon knows no endless test; `-f` repeats one.
        (None, None) => "endless".into(),
    };
    writeln!(out, "Running {extent} test @ {}", url_text(&run.urls))?;
    write!(out, "{} connections", run.connections)?;
    if run.pipeline > 1 {
        write!(out, " with {} pipelining factor", run.pipeline)?;
    }
    if run.threads > 1 {
        write!(out, "\n{} workers", run.threads)?;
    }
    out.write_all(b"\n\n")
}

pub(super) fn write(
    report: &Report,
    options: &StyleOptions,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> io::Result<()> {
    let result = Figures::of(report, options);
    if options.has(Extra::Machine) {
        return writeln!(stdout, "{}", json(&result));
    }
    tables(&result, options, stderr)
}

/// What both forms show.
struct Figures<'a> {
    report: &'a Report,
    failed: Failed,
    errors: u64,
    non_2xx: u64,
    classes: [u64; 5],
    samples: Samples,
    sample_ms: u64,
    /// Whether percentiles of latency have decimals.
    hundredths: bool,
}

impl<'a> Figures<'a> {
    fn of(report: &'a Report, options: &StyleOptions) -> Self {
        let failed = Failed::of(report);
        let (classes, _) = status_classes(report);
        let samples = Samples::of(report, options.sample_ms.map_or(1.0, |ms| ms as f64 / 1e3));
        Self {
            report,
            failed,
            errors: failed.without_answer() + failed.dropped,
            non_2xx: classes.iter().sum::<u64>() - classes[1],
            classes,
            sample_ms: (samples.seconds * 1e3).round() as u64,
            samples,
            hundredths: options.has(Extra::Hundredths),
        }
    }

    fn latency_percentile(&self, percent: f64) -> f64 {
        let ms = percentile(&self.report.latency_ns, percent) as f64 / 1e6;
        if self.hundredths { cut(ms) } else { ms.floor() }
    }

    fn seconds(&self) -> f64 {
        (self.report.seconds * 100.0).round() / 100.0
    }
}

/// Down to hundredths, as autocannon does with extremes.
fn cut(number: f64) -> f64 {
    (number * 100.0).floor() / 100.0
}

/// Up to hundredths, as autocannon does with averages and deviations.
fn raise(number: f64) -> f64 {
    (number * 100.0).ceil() / 100.0
}

fn tables(result: &Figures<'_>, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    let report = result.report;
    let latency = [2.5, 50.0, 97.5, 99.0].map(|percent| result.latency_percentile(percent));
    let spread = [
        raise(report.latency_ns.mean() / 1e6),
        raise(report.latency_ns.stdev() / 1e6),
    ];
    let longest = [cut(report.latency_ns.max() as f64 / 1e6)];
    let ms = latency
        .into_iter()
        .chain(spread)
        .chain(longest)
        .map(|ms| format!("{ms} ms"));
    let head = ["Stat", "2.5%", "50%", "97.5%", "99%", "Avg", "Stdev", "Max"];
    let rows = [
        head.map(String::from).to_vec(),
        std::iter::once("Latency".into()).chain(ms).collect(),
    ];
    write!(out, "\n{}", table::draw(&rows))?;

    let head = ["Stat", "1%", "2.5%", "50%", "97.5%", "Avg", "Stdev", "Min"];
    let row = |name: &str, series: &Series, text: fn(f64) -> String| {
        let percentiles = [1.0, 2.5, 50.0, 97.5].map(|percent| series.percentile(percent).round());
        let others = [
            raise(series.mean()),
            raise(series.deviation()),
            series.min().round(),
        ];
        let cells = percentiles.into_iter().chain(others).map(text);
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    let rows = [
        head.map(String::from).to_vec(),
        row("Req/Sec", &result.samples.answers, grouped),
        row("Bytes/Sec", &result.samples.bytes, pretty_bytes),
    ];
    out.write_all(table::draw(&rows).as_bytes())?;
    if options.has(Extra::Statuses) {
        let head = vec!["Code".into(), "Count".into()];
        let codes = report
            .statuses
            .iter()
            .map(|(status, count)| vec![status.to_string(), count.to_string()]);
        let rows: Vec<_> = std::iter::once(head).chain(codes).collect();
        out.write_all(table::draw(&rows).as_bytes())?;
    }
    let every = if result.sample_ms == 1_000 {
        "once per second".into()
    } else {
        format!("every {} seconds", result.sample_ms as f64 / 1e3)
    };
    writeln!(
        out,
        "\nReq/Bytes counts sampled {every}.\n# of samples: {}\n",
        result.samples.answers.len()
    )?;
    if options.has(Extra::Latency) {
        let head = vec!["Percentile".into(), "Latency (ms)".into()];
        let row = |percent: f64| {
            vec![
                percent.to_string(),
                result.latency_percentile(percent).to_string(),
            ]
        };
        let rows: Vec<_> = std::iter::once(head).chain(PERCENTILES.map(row)).collect();
        writeln!(out, "{}", table::draw(&rows))?;
    }
    totals(result, out)
}

fn totals(result: &Figures<'_>, out: &mut dyn Write) -> io::Result<()> {
    let report = result.report;
    if result.non_2xx > 0 {
        writeln!(
            out,
            "{} 2xx responses, {} non 2xx responses",
            result.classes[1], result.non_2xx
        )?;
    }
    let read = pretty_bytes(report.bytes_in as f64);
    writeln!(
        out,
        "{} requests in {}s, {read} read",
        thousands(report.sent),
        result.seconds()
    )?;
    if result.errors > 0 {
        let timeouts = thousands(result.failed.timeout);
        writeln!(out, "{} errors ({timeouts} timeouts)", thousands(result.errors))?;
    }
    if result.failed.mismatch > 0 {
        writeln!(
            out,
            "{} requests with mismatched body",
            thousands(result.failed.mismatch)
        )?;
    }
    Ok(())
}

/// From 1,000 on in whole thousands: `251k`.
fn thousands(number: u64) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        format!("{}k", (number + 500) / 1_000)
    }
}

/// One object in autocannon's own order of keys. What autocannon leaves out when it was not given is left out.
fn json(result: &Figures<'_>) -> String {
    let (report, run) = (result.report, &result.report.run);
    let mut object = Object::default();
    if let Some(title) = &run.title {
        object.text("title", title);
    }
    object.text("url", &run.urls.join(","));
    object.number("connections", run.connections as f64);
    object.number("sampleInt", result.sample_ms as f64);
    object.number("pipelining", run.pipeline as f64);
    object.number("workers", if run.threads > 1 { run.threads as f64 } else { 0.0 });
    object.number("duration", result.seconds());
    object.number("samples", result.samples.answers.len() as f64);
    object.text("start", &words::moment_iso(run.started_unix_ms));
    object.text(
        "finish",
        &words::moment_iso(run.started_unix_ms + (report.seconds * 1e3) as u64),
    );
    object.number("errors", result.errors as f64);
    object.number("timeouts", result.failed.timeout as f64);
    object.number("mismatches", result.failed.mismatch as f64);
    object.number("non2xx", result.non_2xx as f64);
    object.number("resets", 0.0);
    for (at, count) in result.classes.iter().enumerate() {
        object.number(&format!("{}xx", at + 1), *count as f64);
    }
    let mut codes = Object::default();
    for (status, count) in &report.statuses {
        let mut code = Object::default();
        code.number("count", *count as f64);
        codes.object(&status.to_string(), code);
    }
    object.object("statusCodeStats", codes);

    let latency = &report.latency_ns;
    let (low, high) = if result.hundredths {
        (cut(latency.min() as f64 / 1e6), cut(latency.max() as f64 / 1e6))
    } else {
        (
            (latency.min() as f64 / 1e6).floor(),
            (latency.max() as f64 / 1e6).floor(),
        )
    };
    let mut latencies = Object::statistics(latency.mean() / 1e6, latency.stdev() / 1e6, low, high, None);
    latencies.percentiles(|percent| result.latency_percentile(percent));
    latencies.number("totalCount", latency.len() as f64);
    object.object("latency", latencies);
    let mut requests = Object::series(&result.samples.answers, report.answers);
    requests.number("sent", report.sent as f64);
    object.object("requests", requests);
    object.object(
        "throughput",
        Object::series(&result.samples.bytes, report.bytes_in),
    );
    object.end()
}

/// A JSON object that keeps the order in which its members came.
#[derive(Default)]
struct Object(Vec<String>);

impl Object {
    fn member(&mut self, key: &str, value: &str) {
        self.0.push(format!("\"{key}\":{value}"));
    }

    fn number(&mut self, key: &str, number: f64) {
        self.member(key, &number.to_string());
    }

    fn text(&mut self, key: &str, text: &str) {
        self.member(key, &serde_json::Value::from(text).to_string());
    }

    fn object(&mut self, key: &str, object: Self) {
        self.member(key, &object.end());
    }

    fn end(self) -> String {
        format!("{{{}}}", self.0.join(","))
    }

    fn statistics(mean: f64, deviation: f64, min: f64, max: f64, total: Option<u64>) -> Self {
        let mut object = Self::default();
        object.number("average", raise(mean));
        object.number("mean", raise(mean));
        object.number("stddev", raise(deviation));
        object.number("min", min);
        object.number("max", max);
        if let Some(total) = total {
            object.number("total", total as f64);
        }
        object
    }

    fn series(series: &Series, total: u64) -> Self {
        let (min, max) = (series.min().round(), series.max().round());
        let mut object = Self::statistics(series.mean(), series.deviation(), min, max, Some(total));
        object.percentiles(|percent| series.percentile(percent).round());
        object
    }

    fn percentiles(&mut self, value: impl Fn(f64) -> f64) {
        for percent in PERCENTILES {
            let key = format!("p{percent}").replace('.', "_");
            self.number(&key, value(percent));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    #[test]
    fn the_json_is_json_and_has_what_autocannons_readers_look_for() {
        let report = Report::example();
        let options = StyleOptions {
            extras: vec![Extra::Machine, Extra::Hundredths],
            announced: true,
            sample_ms: Some(500),
            ..StyleOptions::default()
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        write(&report, &options, &mut stdout, &mut stderr).unwrap();
        let json: Map<String, Value> = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(json["requests"]["total"], report.answers);
        assert_eq!((&json["sampleInt"], &json["samples"]), (&500.into(), &20.into()));
        assert_eq!(json["latency"]["p97_5"], 0.7);
        assert_eq!(json["statusCodeStats"]["503"]["count"], 12);
        assert_eq!(
            (&json["errors"], &json["timeouts"], &json["5xx"]),
            (&5.into(), &2.into(), &12.into())
        );
    }

    #[test]
    fn mismatches_pipelining_and_a_number_of_requests_are_told() {
        let mut report = Report::example();
        report.run.requests = Some(5_000);
        report.run.pipeline = 4;
        report.failures[0].class = crate::failure::Class::Mismatch;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        super::super::write(
            super::super::Style::Autocannon,
            &report,
            &StyleOptions::default(),
            &mut stdout,
            &mut stderr,
        )
        .unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert!(text.starts_with("Running 5000 requests test @ http://localhost:8080/local?a=1&b=<2>\n"));
        assert!(text.contains("\n64 connections with 4 pipelining factor\n2 workers\n"));
        assert!(text.ends_with("\n2 errors (2 timeouts)\n3 requests with mismatched body\n"));
        assert!(stdout.is_empty());
    }
}
