//! A report as one JSON object, for programs. Names and units stay as they are once a version has them: durations are in milliseconds
//! where the name says `_ms`, times within the run in seconds. A part that a run does not have is left out.

use hdrhistogram::{Counter, Histogram};
use serde_json::{Map, Value, json};

use super::{Options, Report, steps, steps::Step, verdict::Verdict, words};
use crate::{
    machine::Usage,
    plan::{Arrivals, Pace},
};

/// Percentiles that are always there, so that saved runs can be compared.
const ALWAYS: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// The report, with a line for each of its parts and each slice of the run.
pub fn write(report: &Report, options: &Options) -> String {
    page(&whole(report, options))
}

/// An object with a line for each field, and for each element of arrays of objects.
pub(super) fn page(object: &Map<String, Value>) -> String {
    let field = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                let lines: Vec<_> = items.iter().map(|item| format!("\n    {item}")).collect();
                format!("[{}\n  ]", lines.join(","))
            }
            value => value.to_string(),
        };
        format!("  {}: {value}", Value::from(name.as_str()))
    };
    let fields: Vec<_> = object.iter().map(field).collect();
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}

/// The fields of the report.
pub(super) fn whole(report: &Report, options: &Options) -> Map<String, Value> {
    let verdict = Verdict::of(report);
    let histogram = |histogram| latency(histogram, options);
    let counts = |pairs: Vec<(String, u64)>| {
        pairs
            .into_iter()
            .map(|(name, count)| (name, count.into()))
            .collect::<Map<_, Value>>()
    };
    let failures = report.failures.iter();
    let examples = failures
        .clone()
        .map(|failure| (failure.class.name(), &failure.example));
    let warm_up = &report.warm_up;
    let urls = report.urls.iter().map(|url| {
        json!({
            "request": url.name,
            "answers": url.answers,
            "failures": url.failures,
            "latency_ms": latency(&url.latency_ns, options),
        })
    });
    let parts = [
        ("title", report.run.title.clone().into()),
        ("verdict", verdict.kind.name().into()),
        ("verdict_reasons", verdict.reasons.into()),
        ("verdict_notes", verdict.notes.into()),
        ("run", run(report)),
        ("seconds", round(report.seconds).into()),
        ("interrupted", report.interrupted.into()),
        (
            "warm_up",
            some(
                warm_up.seconds > 0.0,
                || json!({"seconds": round(warm_up.seconds), "requests": warm_up.requests, "steady": warm_up.steady}),
            ),
        ),
        ("requests", requests(report)),
        ("latency_ms", histogram(&report.latency_ns)),
        ("latency_intervals_ms", intervals(report, options)),
        ("service_ms", report.service_ns.as_ref().map(histogram).into()),
        ("first_byte_ms", histogram(&report.first_byte_ns)),
        ("connect_ms", histogram(&report.connecting_ns)),
        (
            "tls_handshake_ms",
            some(!report.handshakes_ns.is_empty(), || {
                histogram(&report.handshakes_ns)
            }),
        ),
        (
            "errors",
            counts(
                failures
                    .map(|failure| (failure.class.name().to_owned(), failure.count))
                    .collect(),
            )
            .into(),
        ),
        (
            "error_examples",
            without_nulls(
                examples
                    .map(|(name, text)| (name.to_owned(), text.clone().into()))
                    .collect(),
            ),
        ),
        (
            "statuses",
            counts(
                report
                    .statuses
                    .iter()
                    .map(|(status, count)| (status.to_string(), *count))
                    .collect(),
            )
            .into(),
        ),
        ("urls", some(!report.urls.is_empty(), || urls.collect())),
        (
            "bytes",
            json!({"in": report.bytes_in, "body_in": report.body_bytes_in, "out": report.bytes_out}),
        ),
        (
            "connections",
            json!({
                "held": report.held,
                "opened": report.connects,
                "failed": report.connects_failed,
                "requests_each": report.requests_per_connection().map(round),
            }),
        ),
        (
            "generator",
            json!({
                "cpu_seconds": round(report.cpu_seconds),
                "cpu_us_per_request": report.generator_ns_per_answer().map(|ns| round(ns / 1e3)),
                "lag_max_ms": milliseconds(report.lag_max_ns as f64),
            }),
        ),
        ("machine", report.usage.as_ref().map(machine).into()),
        (
            "server",
            report
                .usage
                .as_ref()
                .and_then(|usage| server(report, usage))
                .into(),
        ),
        (
            "environment",
            report
                .environment
                .as_ref()
                .map(|environment| {
                    json!({
                        "version": environment.version,
                        "cpu": environment.cpu,
                        "cores": environment.cores,
                        "cpu_quota": environment.cpu_quota,
                        "governor": environment.governor,
                        "kernel": environment.kernel,
                        "memory_bytes": environment.memory_bytes,
                        "load_average": environment.load_average,
                        "open_files": environment.open_files,
                        "ports": environment.ports,
                        "backlog": environment.backlog,
                    })
                })
                .into(),
        ),
        (
            "first_answer",
            report
                .first_answer
                .as_ref()
                .map(|first| {
                    json!({
                        "status": first.status,
                        "body_bytes": first.body_bytes,
                        "sha256": first.sha256,
                    })
                })
                .into(),
        ),
        ("timeline", steps::of(report).iter().map(step).collect()),
    ];
    let parts = parts.into_iter().filter(|(_, part)| !part.is_null());
    let parts = parts.map(|(name, part)| match part {
        // Without a sample there is no latency, but still a place where programs look for it.
        Value::Object(part) if !name.ends_with("_ms") => (name.to_owned(), without_nulls(part)),
        part => (name.to_owned(), part),
    });
    parts.collect()
}

/// A part that there is only sometimes.
fn some(is_there: bool, part: impl FnOnce() -> Value) -> Value {
    if is_there { part() } else { Value::Null }
}

fn without_nulls(part: Map<String, Value>) -> Value {
    part.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

fn run(report: &Report) -> Value {
    let run = &report.run;
    let (model, per_second, arrivals) = match run.load.map_or(Pace::Closed, |load| load.pace) {
        Pace::Closed => ("closed", None, None),
        Pace::Open { per_second, arrivals } => ("open", Some(per_second), Some(arrivals)),
    };
    let arrivals = arrivals.map(|arrivals| match arrivals {
        Arrivals::Uniform => "uniform".to_owned(),
        Arrivals::Poisson => "poisson".to_owned(),
        Arrivals::Burst(size) => format!("burst:{size}"),
    });
    let started = Some(run.started_unix_ms).filter(|started| *started > 0);
    let stages = Some(&run.stages).filter(|stages| !stages.is_empty());
    json!({
        "urls": run.urls,
        "method": run.method,
        "body_bytes": run.body_bytes,
        "threads": run.threads,
        "engine": run.engine.name(),
        "connections": run.connections,
        "pipeline": run.pipeline,
        "keep_alive": run.keep_alive,
        "model": model,
        "asked_per_second": per_second,
        "arrivals": arrivals,
        "duration_seconds": run.duration_seconds,
        "requests": run.requests,
        "started": started.map(words::moment),
        "started_unix_ms": started,
        "server_software": report.server(),
        "stages": stages,
    })
}

fn requests(report: &Report) -> Value {
    let interval = report.rate_interval();
    json!({
        "total": report.answers,
        "per_second": round(report.per_second),
        "per_second_low": interval.map(|interval| round(interval.low)),
        "per_second_high": interval.map(|interval| round(interval.high)),
        "sent": report.sent,
        "under_way_before": report.under_way,
        "failed": report.failed(),
        "warm_up": report.warm_up.requests,
    })
}

fn latency<C: Counter>(histogram: &Histogram<C>, options: &Options) -> Value {
    let value = |ns: f64| (!histogram.is_empty()).then(|| milliseconds(ns));
    let mut object = json!({
        "count": histogram.len(),
        "min": value(histogram.min() as f64),
        "mean": value(histogram.mean()),
        "stddev": value(histogram.stdev()),
        "max": value(histogram.max() as f64),
    });
    for percent in percentiles(options) {
        object[name(percent)] = value(steps::percentile(histogram, percent) as f64).into();
    }
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
fn intervals(report: &Report, options: &Options) -> Value {
    let percentiles = percentiles(options);
    let intervals = report.latency_intervals(&percentiles);
    let known = percentiles.into_iter().zip(intervals);
    known
        .filter_map(|(percent, interval)| {
            let interval = interval?;
            let ends = vec![milliseconds(interval.low), milliseconds(interval.high)];
            Some((name(percent), ends))
        })
        .collect()
}

/// The name of a percentile: `p99_9`.
pub(super) fn name(percent: f64) -> String {
    format!("p{}", words::percentile(percent).replace('.', "_"))
}

/// What the whole machine used, and what its threads waited for. Shares are from 0 to 1.
fn machine(usage: &Usage) -> Value {
    json!({
        "cores": usage.cores,
        "busy_share": usage.busy_share.map(round),
        "steal_share": usage.steal_share.map(round),
        "busiest_loop_share": usage.busiest_loop().map(round),
        "longest_wait_share": usage.longest_wait().map(round),
        "involuntary_switches": usage.involuntary_switches,
        "others_cpu_seconds": usage.others_cpu_seconds.map(round),
    })
}

fn server(report: &Report, usage: &Usage) -> Option<Value> {
    let used = usage.server?;
    let capacity = report.capacity();
    Some(json!({
        "pid": used.pid,
        "processes": used.processes,
        "cpu_seconds": round(used.cpu_seconds),
        "cpu_us_per_request": report.server_ns_per_answer().map(|ns| round(ns / 1e3)),
        "rss_bytes": used.rss_bytes,
        "rss_bytes_before": used.rss_bytes_before,
        "voluntary_switches": used.voluntary_switches,
        "involuntary_switches": used.involuntary_switches,
        "capacity_per_second": capacity.map(|capacity| round(capacity.alone)),
        "capacity_with_generator_per_second": capacity.map(|capacity| round(capacity.shared)),
    }))
}

/// A slice of the run.
fn step(step: &Step) -> Value {
    let mut object = json!({
        "at_seconds": round(step.at_seconds),
        "seconds": round(step.seconds),
        "requests": step.answers,
        "per_second": round(step.per_second),
        "errors": step.failures,
        "bytes_in": step.bytes_in,
    });
    if let Some(latency) = step.latency {
        for (name, ns) in [
            ("p50_ms", latency.p50),
            ("p95_ms", latency.p95),
            ("p99_ms", latency.p99),
            ("max_ms", latency.max),
        ] {
            object[name] = milliseconds(ns as f64).into();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::assert_golden;

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
