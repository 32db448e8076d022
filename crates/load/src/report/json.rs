//! A report as one JSON object, for programs. Names and units stay as they are once a version has them: durations are in milliseconds
//! where the name says `_ms`, times within the run in seconds. A part that a run does not have is left out.

use hdrhistogram::{Counter, Histogram};
use serde_json::Value;

use super::{Options, Report, UrlFigures, course, verdict::Verdict, words};
use crate::{
    machine::{Environment, ServerUsage, Usage},
    plan::{Arrivals, Pace},
    report::course::Step,
    search::WarmedUp,
};

/// Percentiles that are always there, so that saved runs can be compared.
const ALWAYS: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// The report, with a line for each of its parts and each slice of the run.
pub fn write(report: &Report, options: &Options) -> String {
    whole(report, options).page()
}

/// The fields of the report.
pub(super) fn whole(report: &Report, options: &Options) -> Object {
    let mut whole = Object::default();
    whole.text_if("title", report.run.title.as_deref());
    let verdict = Verdict::of(report);
    whole.value("verdict", verdict.kind.name());
    whole.value("verdict_reasons", verdict.reasons);
    whole.value("verdict_notes", verdict.notes);
    whole.object("run", &run(report));
    whole.value("seconds", round(report.seconds));
    whole.value("interrupted", report.interrupted);
    if report.warm_up.seconds > 0.0 {
        whole.object("warm_up", &warm_up(&report.warm_up));
    }
    whole.object("requests", &requests(report));
    whole.object("latency_ms", &latency(&report.latency_ns, options));
    whole.object("latency_intervals_ms", &intervals(report, options));
    if let Some(service_ns) = &report.service_ns {
        whole.object("service_ms", &latency(service_ns, options));
    }
    whole.object("first_byte_ms", &latency(&report.first_byte_ns, options));
    whole.object("connect_ms", &latency(&report.connecting_ns, options));
    if !report.handshakes_ns.is_empty() {
        whole.object("tls_handshake_ms", &latency(&report.handshakes_ns, options));
    }
    whole.object("errors", &errors(report));
    whole.object("error_examples", &error_examples(report));
    whole.object("statuses", &statuses(report));
    if !report.urls.is_empty() {
        whole.lines("urls", report.urls.iter().map(|url| self::url(url, options)));
    }
    whole.object("bytes", &bytes(report));
    let mut connections = Object::default();
    connections.value("held", report.held);
    connections.value("opened", report.connects);
    connections.value("failed", report.connects_failed);
    connections.value_if("requests_each", report.requests_per_connection().map(round));
    whole.object("connections", &connections);
    whole.object("generator", &generator(report));
    if let Some(usage) = &report.usage {
        whole.object("machine", &machine(usage));
        if let Some(used) = &usage.server {
            whole.object("server", &server(report, used));
        }
    }
    if let Some(environment) = &report.environment {
        whole.object("environment", &self::environment(environment));
    }
    if let Some(first) = &report.first_answer {
        let mut object = Object::default();
        object.value("status", first.status);
        object.value("body_bytes", first.body_bytes);
        object.text_if("sha256", first.sha256.as_deref());
        whole.object("first_answer", &object);
    }
    whole.lines("timeline", course::steps(report).iter().map(step));
    whole
}

fn run(report: &Report) -> Object {
    let run = &report.run;
    let mut object = Object::default();
    object.value("urls", run.urls.clone());
    object.value("method", run.method.clone());
    object.value("body_bytes", run.body_bytes);
    object.value("threads", run.threads);
    object.value("engine", run.engine.name());
    object.value("connections", run.connections);
    object.value("pipeline", run.pipeline);
    object.value("keep_alive", run.keep_alive);
    let (model, per_second, arrivals) = match run.load.map_or(Pace::Closed, |load| load.pace) {
        Pace::Closed => ("closed", None, None),
        Pace::Open { per_second, arrivals } => ("open", Some(per_second), Some(arrivals)),
    };
    object.value("model", model);
    object.value_if("asked_per_second", per_second);
    let arrivals = arrivals.map(|arrivals| match arrivals {
        Arrivals::Uniform => "uniform".to_owned(),
        Arrivals::Poisson => "poisson".to_owned(),
        Arrivals::Burst(size) => format!("burst:{size}"),
    });
    object.value_if("arrivals", arrivals);
    object.value_if("duration_seconds", run.duration_seconds);
    object.value_if("requests", run.requests);
    if run.started_unix_ms > 0 {
        object.value("started", words::moment(run.started_unix_ms));
        object.value("started_unix_ms", run.started_unix_ms);
    }
    object.text_if("server_software", report.server());
    if !run.stages.is_empty() {
        let stages = run
            .stages
            .iter()
            .map(|stage| serde_json::json!({"at_seconds": stage.at_seconds, "load": stage.load}));
        object.value("stages", stages.collect::<Vec<Value>>());
    }
    object
}

fn requests(report: &Report) -> Object {
    let mut object = Object::default();
    object.value("total", report.answers);
    object.value("per_second", round(report.per_second));
    if let Some(interval) = report.rate_interval() {
        object.value("per_second_low", round(interval.low));
        object.value("per_second_high", round(interval.high));
    }
    object.value("sent", report.sent);
    object.value("under_way_before", report.under_way);
    object.value("failed", report.failed());
    object.value("warm_up", report.warm_up.requests);
    object
}

fn warm_up(warm_up: &WarmedUp) -> Object {
    let mut object = Object::default();
    object.value("seconds", round(warm_up.seconds));
    object.value("requests", warm_up.requests);
    object.value_if("steady", warm_up.steady);
    object
}

fn latency<C: Counter>(histogram: &Histogram<C>, options: &Options) -> Object {
    // Without a sample there is no latency, but still a place where programs look for it.
    let value = |ns: f64| (!histogram.is_empty()).then(|| milliseconds(ns));
    let mut object = Object::default();
    object.value("count", histogram.len());
    object.value("min", value(histogram.min() as f64));
    object.value("mean", value(histogram.mean()));
    object.value("stddev", value(histogram.stdev()));
    for percent in percentiles(options) {
        let ns = course::percentile(histogram, percent);
        object.value(&name(percent), value(ns as f64));
    }
    object.value("max", value(histogram.max() as f64));
    object
}

/// Those that are always there and those that were asked for, from the lowest.
fn percentiles(options: &Options) -> Vec<f64> {
    let asked = options.percentiles.iter().copied();
    let mut percentiles: Vec<f64> = ALWAYS.into_iter().chain(asked).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup_by_key(|percent| name(*percent));
    percentiles
}

/// Lower and upper end of what each percentile may be; those that the run cannot tell are left out.
fn intervals(report: &Report, options: &Options) -> Object {
    let percentiles = percentiles(options);
    let intervals = report.latency_intervals(&percentiles);
    let mut object = Object::default();
    for (percent, interval) in percentiles.into_iter().zip(intervals) {
        let ends = interval.map(|interval| vec![milliseconds(interval.low), milliseconds(interval.high)]);
        object.value_if(&name(percent), ends);
    }
    object
}

/// The name of a percentile: `p99_9`.
pub(super) fn name(percent: f64) -> String {
    format!("p{}", words::percentile(percent).replace('.', "_"))
}

fn errors(report: &Report) -> Object {
    let mut object = Object::default();
    for failure in &report.failures {
        object.value(failure.class.name(), failure.count);
    }
    object
}

fn error_examples(report: &Report) -> Object {
    let mut object = Object::default();
    for failure in &report.failures {
        object.text_if(failure.class.name(), failure.example.as_deref());
    }
    object
}

fn statuses(report: &Report) -> Object {
    let mut object = Object::default();
    for (status, count) in &report.statuses {
        object.value(&status.to_string(), *count);
    }
    object
}

fn url(url: &UrlFigures, options: &Options) -> Object {
    let mut object = Object::default();
    object.value("request", url.name.as_str());
    object.value("answers", url.answers);
    object.value("failures", url.failures);
    object.object("latency_ms", &latency(&url.latency_ns, options));
    object
}

fn bytes(report: &Report) -> Object {
    let mut object = Object::default();
    object.value("in", report.bytes_in);
    object.value("body_in", report.body_bytes_in);
    object.value("out", report.bytes_out);
    object
}

fn generator(report: &Report) -> Object {
    let mut object = Object::default();
    object.value("cpu_seconds", round(report.cpu_seconds));
    object.value_if(
        "cpu_us_per_request",
        report.generator_ns_per_answer().map(|ns| round(ns / 1e3)),
    );
    object.value("lag_max_ms", milliseconds(report.lag_max_ns as f64));
    object
}

/// What the whole machine used, and what its threads waited for. Shares are from 0 to 1.
fn machine(usage: &Usage) -> Object {
    let mut object = Object::default();
    object.value_if("cores", usage.cores);
    object.value_if("busy_share", usage.busy_share.map(round));
    object.value_if("steal_share", usage.steal_share.map(round));
    object.value_if("busiest_loop_share", usage.busiest_loop().map(round));
    object.value_if("longest_wait_share", usage.longest_wait().map(round));
    object.value("involuntary_switches", usage.involuntary_switches);
    object.value_if("others_cpu_seconds", usage.others_cpu_seconds.map(round));
    object
}

fn server(report: &Report, used: &ServerUsage) -> Object {
    let mut object = Object::default();
    object.value("pid", used.pid);
    object.value("processes", used.processes);
    object.value("cpu_seconds", round(used.cpu_seconds));
    let us_per_request = report.server_ns_per_answer().map(|ns| round(ns / 1e3));
    object.value_if("cpu_us_per_request", us_per_request);
    object.value("rss_bytes", used.rss_bytes);
    object.value("rss_bytes_before", used.rss_bytes_before);
    object.value("voluntary_switches", used.voluntary_switches);
    object.value("involuntary_switches", used.involuntary_switches);
    let capacity = report.capacity();
    object.value_if(
        "capacity_per_second",
        capacity.map(|capacity| round(capacity.alone)),
    );
    object.value_if(
        "capacity_with_generator_per_second",
        capacity.map(|capacity| round(capacity.shared)),
    );
    object
}

fn environment(environment: &Environment) -> Object {
    let mut object = Object::default();
    object.value("version", environment.version.as_str());
    object.text_if("cpu", environment.cpu.as_deref());
    object.value("cores", environment.cores);
    object.value_if("cpu_quota", environment.cpu_quota);
    object.text_if("governor", environment.governor.as_deref());
    object.text_if("kernel", environment.kernel.as_deref());
    object.value_if("memory_bytes", environment.memory_bytes);
    object.value_if("load_average", environment.load_average);
    object.value_if("open_files", environment.open_files);
    let ports = environment.ports.map(|(first, last)| vec![first, last]);
    object.value_if("ports", ports);
    object.value_if("backlog", environment.backlog);
    object
}

/// A slice of the run.
pub(super) fn step(step: &Step) -> Object {
    let mut object = Object::default();
    object.value("at_seconds", round(step.at_seconds));
    object.value("seconds", round(step.seconds));
    object.value("requests", step.answers);
    object.value("per_second", round(step.per_second));
    object.value("errors", step.failures);
    object.value("bytes_in", step.bytes_in);
    if let Some(latency) = step.latency {
        object.value("p50_ms", milliseconds(latency.p50 as f64));
        object.value("p95_ms", milliseconds(latency.p95 as f64));
        object.value("p99_ms", milliseconds(latency.p99 as f64));
        object.value("max_ms", milliseconds(latency.max as f64));
    }
    object
}

/// Milliseconds to a nanosecond.
fn milliseconds(ns: f64) -> f64 {
    round(ns / 1e6)
}

/// Six decimals: more would be noise of the arithmetic.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// A JSON object whose fields stay in the order in which they were added; a map would sort them by name.
#[derive(Debug, Default)]
pub(super) struct Object {
    fields: Vec<String>,
}

impl Object {
    fn add(&mut self, name: &str, value: &str) {
        self.fields.push(format!("{}: {value}", Value::from(name)));
    }

    pub(super) fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.add(name, &value.into().to_string());
    }

    fn value_if(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    fn text_if(&mut self, name: &str, text: Option<&str>) {
        self.value_if(name, text);
    }

    fn object(&mut self, name: &str, object: &Self) {
        self.add(name, &object.line());
    }

    /// An array with a line for each of these.
    fn lines(&mut self, name: &str, objects: impl Iterator<Item = Self>) {
        let lines: Vec<_> = objects.map(|object| format!("\n    {}", object.line())).collect();
        self.add(name, &format!("[{}\n  ]", lines.join(",")));
    }

    /// All of it on one line.
    pub(super) fn line(&self) -> String {
        format!("{{{}}}", self.fields.join(", "))
    }

    /// A line for each field.
    pub(super) fn page(&self) -> String {
        format!("{{\n  {}\n}}\n", self.fields.join(",\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{assert::Saved, fixture::assert_golden};

    fn read(report: &Report) -> Value {
        serde_json::from_str(&write(report, &Options::default())).unwrap()
    }

    #[test]
    fn runs_are_written_as_in_their_golden_files() {
        let options = Options {
            percentiles: vec![2.5, 50.0, 99.999],
            ..Options::default()
        };
        assert_golden("closed.json", &write(&Report::example(), &options));
        assert_golden("open.json", &write(&Report::example_open(), &Options::default()));
    }

    #[test]
    fn what_programs_rely_on_is_there() {
        let value = read(&Report::example());
        assert_eq!(value["requests"]["total"], 2_370_000);
        assert_eq!(value["verdict"], Verdict::of(&Report::example()).kind.name());
        assert_eq!(value["requests"]["per_second"], 237_000.0);
        assert_eq!(
            value["errors"],
            serde_json::json!({"reset": 3, "timeout": 2, "status": 12})
        );
        for name in [
            "min", "mean", "stddev", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99", "max",
        ] {
            assert!(value["latency_ms"][name].as_f64().unwrap() > 0.0, "{name}");
        }
        assert_eq!(
            value["error_examples"]["status"],
            "503; the body is `<p>busy & \"full\"</p>`"
        );
        assert!(value.get("service_ms").is_none());
        assert!(read(&Report::example_open())["service_ms"]["p99"].is_f64());
        let slices = value["timeline"].as_array().unwrap();
        assert_eq!(
            slices
                .iter()
                .map(|slice| slice["requests"].as_u64().unwrap())
                .sum::<u64>(),
            2_370_000
        );
    }

    #[test]
    fn what_is_written_can_be_compared_with_later() {
        let report = Report::example();
        let saved = Saved::read(&write(&report, &Options::default())).unwrap();
        assert!((saved.per_second - 237_000.0).abs() < 1e-6);
        assert_eq!(
            saved.interval.map(|interval| interval.low.round()),
            report.rate_interval().map(|interval| interval.low.round())
        );
        let p99 = course::percentile(&report.latency_ns, 99.0) as f64;
        assert!((saved.latency_ns["p99"] - p99).abs() < 1.0, "{saved:?}");
    }

    #[test]
    fn a_run_without_anything_is_an_object_all_the_same() {
        let mut report = Report::example();
        report.answers = 0;
        report.seconds = 0.0;
        report.per_second = 0.0;
        report.latency_ns.reset();
        report.connecting_ns.reset();
        report.timeline.slices.clear();
        report.failures.clear();
        let value = read(&report);
        assert_eq!(value["latency_ms"]["count"], 0);
        assert!(
            value["latency_ms"].get("p99").is_some_and(Value::is_null),
            "{value}"
        );
        assert_eq!(value["errors"], serde_json::json!({}));
        assert_eq!(value["timeline"], serde_json::json!([]));
    }
}
