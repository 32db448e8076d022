//! A report as one JSON object, for programs. Names and units are stable across versions: durations are in milliseconds where the name says
//! `_ms`, times within the run in seconds. Parts that a run does not have are left out.

use hdrhistogram::{Counter, Histogram};
use serde_json::{Map, Value, json};

use super::{Options, Report, format, percentile, verdict::Verdict};
use crate::plan::Pace;

/// Percentiles that are always included, whichever a run prints.
const ALWAYS: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Renders the report.
pub fn write(report: &Report, options: &Options) -> String {
    format!("{:#}\n", whole(report, options))
}

/// The report as an object.
pub(super) fn whole(report: &Report, options: &Options) -> Value {
    let verdict = Verdict::of(report);
    let usage = report.usage.as_ref();
    let failures = || report.failures.iter();
    let counts: Map<_, _> = failures()
        .map(|failure| (failure.class.name().to_owned(), failure.count.into()))
        .collect();
    let examples: Map<_, _> = failures()
        .filter_map(|failure| Some((failure.class.name().to_owned(), failure.example.clone()?.into())))
        .collect();
    let statuses: Map<_, _> = report
        .statuses
        .iter()
        .map(|(status, count)| (status.to_string(), (*count).into()))
        .collect();
    let warm_up = report.warm_up;
    let whole = json!({
        "title": report.run.title,
        "verdict": verdict.kind.name(),
        "verdict_reasons": verdict.reasons,
        "verdict_notes": verdict.notes,
        "run": run(report),
        "seconds": round(report.seconds),
        "interrupted": report.interrupted,
        "warm_up": (warm_up.seconds > 0.0).then(|| json!({
            "seconds": round(warm_up.seconds), "requests": warm_up.requests, "steady": warm_up.steady,
        })),
        "requests": requests(report),
        "latency_ms": latency(&report.latency_ns, options),
        "service_ms": report.service_ns.as_ref().map(|service| latency(service, options)),
        "connect_ms": latency(&report.connecting_ns, options),
        "errors": counts,
        "error_examples": examples,
        "statuses": statuses,
        "bytes": {"in": report.bytes_in, "body_in": report.body_bytes_in, "out": report.bytes_out},
        "connections": {
            "held": report.held,
            "opened": report.connects,
            "failed": report.connects_failed,
            "requests_each": report.requests_per_connection().map(round),
        },
        "generator": {
            "cpu_seconds": round(report.cpu_seconds),
            "cpu_us_per_request": report.generator_ns_per_answer().map(|ns| round(ns / 1e3)),
            "lag_max_ms": milliseconds(report.lag_max_ns as f64),
        },
        "machine": usage.map(|usage| json!({
            "cores": usage.cores,
            "busy_share": usage.busy_share.map(round),
            "steal_share": usage.steal_share.map(round),
        })),
        "server": usage.and_then(|usage| usage.server).map(|server| json!({
            "pid": server.pid,
            "processes": server.processes,
            "cpu_seconds": round(server.cpu_seconds),
            "cpu_us_per_request": report.server_ns_per_answer().map(|ns| round(ns / 1e3)),
            "rss_bytes": server.rss_bytes,
        })),
        "environment": report.environment,
        "timeline": timeline(report),
    });
    // Without a sample there is no latency, but the object stays, because programs look for it.
    without_nulls(whole, |name| !name.ends_with("_ms"))
}

/// Leaves out the null members of an object, and of those members that `within` accepts.
fn without_nulls(value: Value, within: fn(&str) -> bool) -> Value {
    let Value::Object(members) = value else {
        return value;
    };
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    let inside = |(name, value): (String, Value)| {
        let value = if within(&name) {
            without_nulls(value, |_| false)
        } else {
            value
        };
        (name, value)
    };
    members.map(inside).collect()
}

fn run(report: &Report) -> Value {
    let run = &report.run;
    let (model, per_second) = match run.load.map_or(Pace::Closed, |load| load.pace) {
        Pace::Closed => ("closed", None),
        Pace::Open { per_second } => ("open", Some(per_second)),
    };
    let started = Some(run.started_unix_ms).filter(|started| *started > 0);
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
        "duration_seconds": run.duration_seconds,
        "requests": run.requests,
        "started": started.map(format::moment),
        "started_unix_ms": started,
        "stages": Some(&run.stages).filter(|stages| !stages.is_empty()),
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
    for percent in ALWAYS.iter().chain(&options.percentiles) {
        // As in `p99_9`.
        let name = format!("p{}", format::percentile(*percent).replace('.', "_"));
        object[name] = value(percentile(histogram, *percent) as f64).into();
    }
    object
}

fn timeline(report: &Report) -> Vec<Value> {
    let step = |(at_seconds, seconds, _, slice): (f64, f64, bool, &crate::engine::Slice)| {
        let mut object = json!({
            "at_seconds": round(at_seconds),
            "seconds": round(seconds),
            "requests": slice.answers,
            "per_second": round(slice.answers as f64 / seconds),
            "errors": slice.failures,
        });
        if !slice.latency.is_empty() {
            for (name, percent) in [("p50_ms", 50.0), ("p95_ms", 95.0), ("p99_ms", 99.0)] {
                object[name] = milliseconds(percentile(&slice.latency, percent) as f64).into();
            }
            object["max_ms"] = milliseconds(slice.latency.max() as f64).into();
        }
        object
    };
    report.slices().map(step).collect()
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

    fn read(report: &Report) -> Value {
        serde_json::from_str(&write(report, &Options::default())).unwrap()
    }

    #[test]
    fn what_programs_rely_on_is_there() {
        let value = read(&Report::example());
        assert_eq!(value["requests"]["total"], 2_370_000);
        assert_eq!(value["verdict"], Verdict::of(&Report::example()).kind.name());
        assert_eq!(value["requests"]["per_second"], 237_000.0);
        assert_eq!(value["errors"], json!({"reset": 3, "timeout": 2, "status": 12}));
        for name in [
            "min", "mean", "stddev", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99", "max",
        ] {
            assert!(value["latency_ms"][name].as_f64().unwrap() > 0.0, "{name}");
        }
        let example = &value["error_examples"]["status"];
        assert_eq!(example, "503; the body is `<p>busy & \"full\"</p>`");
        assert_eq!(value["server"]["cpu_us_per_request"], 6.0);
        assert!(value.get("service_ms").is_none() && value["run"].get("asked_per_second").is_none());
        let open = read(&Report::example_open());
        assert!(open["service_ms"]["p99"].is_f64() && open["run"]["model"] == "open");
        let slices = value["timeline"].as_array().unwrap();
        let requests = slices.iter().map(|slice| slice["requests"].as_u64().unwrap());
        assert_eq!(requests.sum::<u64>(), 2_370_000);
    }

    #[test]
    fn the_last_slice_is_measured_by_its_own_length() {
        let mut report = Report::example();
        report.seconds = 9.95;
        let value = read(&report);
        let last = &value["timeline"][99];
        assert_eq!(last["seconds"], 0.05);
        let answers = last["requests"].as_f64().unwrap();
        assert!((last["per_second"].as_f64().unwrap() - answers / 0.05).abs() < 1.0);
    }

    #[test]
    fn a_run_without_anything_is_an_object_all_the_same() {
        let value = read(&Report::empty());
        assert_eq!(value["latency_ms"]["count"], 0);
        let p99 = value["latency_ms"].get("p99");
        assert!(p99.is_some_and(Value::is_null), "{value}");
        assert_eq!((&value["errors"], &value["timeline"]), (&json!({}), &json!([])));
    }
}
