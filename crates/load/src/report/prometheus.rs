//! The report in Prometheus' text format, as `node_exporter`'s collector of text files reads it
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>). A run is over, so everything is a gauge, but for the summaries.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{Options, Report, course, verdict::Verdict, words};

/// Most characters of a label's value.
const LABEL_MAX: usize = 300;

/// The metrics. `finished_unix_ms` tells when the run was written, so that an old file can be told from a new one.
pub fn write(report: &Report, options: &Options) -> String {
    let mut page = Page {
        labels: labels(report),
        out: String::new(),
    };
    let failed: Vec<_> = report
        .failures
        .iter()
        .map(|failure| (label("class", failure.class.name()), failure.count as f64))
        .collect();
    let statuses: Vec<_> = report
        .statuses
        .iter()
        .map(|(status, count)| (label("status", &status.to_string()), *count as f64))
        .collect();
    let one = |value: f64| vec![(String::new(), value)];
    page.gauge("answers", "Whole answers.", &one(report.answers as f64));
    page.gauge("sent", "Requests written.", &one(report.sent as f64));
    page.gauge(
        "answers_per_second",
        "Answers a second within the measured time.",
        &one(report.per_second),
    );
    page.gauge("seconds", "Length of the measured time.", &one(report.seconds));
    page.gauge("failures", "What failed, by class.", &failed);
    page.gauge("answers_by_status", "Answers by status.", &statuses);
    page.gauge(
        "received_bytes",
        "Bytes of answers with their heads.",
        &one(report.bytes_in as f64),
    );
    page.gauge("sent_bytes", "Bytes of requests.", &one(report.bytes_out as f64));
    page.gauge(
        "connections_opened",
        "Connections opened.",
        &one(report.connects as f64),
    );
    page.gauge(
        "start_time_seconds",
        "When the measured time began, in seconds since 1970.",
        &one(report.run.started_unix_ms as f64 / 1e3),
    );
    page.summary(
        "latency_seconds",
        "From when a request was due to the end of its answer.",
        &report.latency_ns,
        options,
    );
    if let Some(service_ns) = &report.service_ns {
        page.summary(
            "service_seconds",
            "From when a request was sent to the end of its answer.",
            service_ns,
            options,
        );
    }
    if let Some(ns) = report.generator_ns_per_answer() {
        page.gauge(
            "generator_cpu_seconds_per_answer",
            "CPU time of the generator for an answer.",
            &one(ns / 1e9),
        );
    }
    if let Some(ns) = report.server_ns_per_answer() {
        page.gauge(
            "server_cpu_seconds_per_answer",
            "CPU time of the server for an answer.",
            &one(ns / 1e9),
        );
    }
    let verdict = Verdict::of(report).kind.name();
    page.gauge(
        "verdict",
        "1, with the verdict on the figures.",
        &[(label("verdict", verdict), 1.0)],
    );
    page.out
}

fn labels(report: &Report) -> String {
    let url = report.run.urls.first().map_or("", String::as_str);
    let mut labels = format!("{},{}", label("method", &report.run.method), label("url", url));
    if let Some(title) = &report.run.title {
        labels.push(',');
        labels += &label("title", title);
    }
    labels
}

/// A label. In its value a backslash, a quotation mark and a line end are escaped; other control characters are left out.
fn label(name: &str, value: &str) -> String {
    let value = words::plain(value, LABEL_MAX)
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    format!("{name}=\"{value}\"")
}

struct Page {
    /// Those of every metric.
    labels: String,
    out: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(
            self.out,
            "# HELP forebay_load_{name} {help}\n# TYPE forebay_load_{name} {kind}"
        );
    }

    fn value(&mut self, name: &str, more: &str, value: f64) {
        let comma = if more.is_empty() { "" } else { "," };
        let _ = writeln!(
            self.out,
            "forebay_load_{name}{{{}{comma}{more}}} {value}",
            self.labels
        );
    }

    fn gauge(&mut self, name: &str, help: &str, values: &[(String, f64)]) {
        if values.is_empty() {
            return;
        }
        self.head(name, "gauge", help);
        for (labels, value) in values {
            self.value(name, labels, *value);
        }
    }

    fn summary(&mut self, name: &str, help: &str, histogram: &Histogram<u64>, options: &Options) {
        self.head(name, "summary", help);
        let count = histogram.len() as f64;
        if !histogram.is_empty() {
            for &percent in &options.percentiles {
                let quantile = label("quantile", &words::percentile_share(percent));
                self.value(
                    name,
                    &quantile,
                    course::percentile(histogram, percent) as f64 / 1e9,
                );
            }
        }
        let sum = if histogram.is_empty() {
            0.0
        } else {
            histogram.mean() * count / 1e9
        };
        self.value(&format!("{name}_sum"), "", sum);
        self.value(&format!("{name}_count"), "", count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::assert_golden;

    #[test]
    fn metrics_are_as_in_their_golden_file() {
        assert_golden("closed.prom", &write(&Report::example(), &Options::default()));
    }

    #[test]
    fn every_line_is_one_that_prometheus_reads_whatever_the_labels_say() {
        let mut report = Report::example_open();
        report.run.title = Some("a \"b\" \\ \n c {x=\"1\"}".into());
        report.latency_ns.reset();
        for line in write(&report, &Options::default()).lines() {
            if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
                continue;
            }
            let (name, rest) = line.split_once('{').unwrap();
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{line}"
            );
            let (labels, value) = rest.rsplit_once("} ").unwrap();
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            // Quotation marks that are not escaped come in pairs.
            let bare = labels.replace("\\\\", "").replace("\\\"", "");
            assert!(bare.matches('"').count().is_multiple_of(2), "{line}");
        }
    }
}
