//! A report as one JSON object, for programs.

use serde_json::{Map, Value, json};

use super::{Report, Subject};
use crate::pool::Load;

/// The report as indented JSON.
pub fn write(report: &Report) -> String {
    let plan = &report.suite.plan;
    let (outstanding, delay_ms, adaptive) = match plan.load {
        Load::Saturating { outstanding } => (Some(outstanding), None, false),
        Load::Blocks { delay, adaptive } => (None, Some(delay.as_millis() as u64), adaptive),
    };
    let best: Map<String, Value> = report
        .suite
        .contenders
        .iter()
        .filter_map(|contender| {
            let best = report.best(*contender)?;
            let value = json!({
                "workers": best.workers,
                "rate": best.rate,
                "enough_workers": best.enough,
                "lowest_share": best.lowest_share,
            });
            Some((contender.name(), value))
        })
        .collect();
    let page = json!({
        "forebay": env!("CARGO_PKG_VERSION"),
        "bench": "pool",
        "machine": report.environment,
        "seconds": report.seconds,
        "plan": {
            "messages": plan.messages,
            "warmup": plan.warmup,
            "block": plan.block,
            "outstanding": outstanding,
            "delay_ms": delay_ms,
            "adaptive": adaptive,
            "payload": plan.payload,
            "handler": plan.handler,
            "in_flight": plan.in_flight,
            "workers": report.suite.workers,
            "repeats": report.suite.repeats,
        },
        "pools": report.subjects.iter().map(|subject| pool(report, subject)).collect::<Vec<_>>(),
        "best": best,
    });
    let text = serde_json::to_string_pretty(&page).expect("a report is plain data");
    text + "\n"
}

fn pool(report: &Report, subject: &Subject) -> Value {
    let ratio = report
        .ratio(subject)
        .filter(|_| subject.contender != report.suite.contenders[0] && !subject.contender.is_nobody())
        .map(|ratio| json!({ "value": ratio.value, "low": ratio.low, "high": ratio.high, "pairs": ratio.pairs }));
    json!({
        "name": subject.contender.name(),
        "workers": subject.workers,
        "median": {
            "rate": subject.rate(),
            "main_us": subject.median(|run| run.main_us),
            "all_us": subject.median(|run| run.all_us),
            "p50_us": subject.median(|run| Some(run.latency.p50_us)),
            "p90_us": subject.median(|run| Some(run.latency.p90_us)),
            "p99_us": subject.median(|run| Some(run.latency.p99_us)),
            "p999_us": subject.median(|run| Some(run.latency.p999_us)),
            "max_us": subject.median(|run| Some(run.latency.max_us)),
        },
        "first_by_this": ratio,
        "errors": subject.errors(),
        "failure": subject.failure,
        "runs": subject.runs,
    })
}
