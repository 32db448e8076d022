//! A ladder as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    report::{BarResult, Compared, ComparedTable, Figures, MeasuredCurve, Point, Report, Row},
    suite::Limit,
};

/// The report as one JSON object, with a line end.
pub fn write(report: &Report) -> String {
    let settings = &report.settings;
    let mut told = json!({
        "bench": report.name,
        "rungs": report.rows.iter().map(row).collect::<Vec<_>>(),
        "environment": report.environment,
        "programs": report.programs.iter().cloned().collect::<BTreeMap<_, _>>(),
        "keep_alive": settings.keep_alive,
        "rounds": settings.rounds,
        "slice_seconds": settings.slice.as_secs_f64(),
        "seconds": report.took.as_secs_f64(),
        "interrupted": report.interrupted,
    });
    if !report.tables.is_empty() {
        told["tables"] = report.tables.iter().map(table).collect();
    }
    if !report.curves.is_empty() {
        told["curves"] = report.curves.iter().map(curve).collect();
    }
    format!("{told:#}\n")
}

fn curve(curve: &MeasuredCurve) -> Value {
    let point = |point: &Point| {
        let figures = point.row.figures.as_ref();
        json!({
            "value": point.value,
            "rung": point.row.name,
            "requests_per_second": figures.map(|figures| figures.per_second),
            "cpu_us_per_request": figures.and_then(Figures::cpu_us),
            "cost_over_work": point.growth,
            "grows_faster": point.grows_faster(),
        })
    };
    json!({
        "title": curve.title,
        "why": curve.why,
        "points": curve.points.iter().map(point).collect::<Vec<_>>(),
    })
}

fn table(table: &ComparedTable) -> Value {
    let row = |row: &Compared| {
        let published = &row.published;
        json!({
            "row": published.row,
            "rung": published.rung,
            "published": {
                "per_second": published.per_second,
                "mean_ms": published.mean_ms,
                "failed": published.failed,
                "ratio_to_baseline": row.published_ratio,
            },
            "per_second": row.per_second,
            "mean_ms": row.mean_ms,
            "baseline": published.of,
            "ratio_to_baseline": row.ratio.map(|ratio| ratio.value),
            "ratio_to_baseline_interval": row.ratio.map(|ratio| (ratio.low, ratio.high)),
            "reached": row.is_reached(),
        })
    };
    json!({ "title": table.title, "rows": table.rows.iter().map(row).collect::<Vec<_>>() })
}

fn row(row: &Row) -> Value {
    let figures = row.figures.as_ref();
    json!({
        "name": row.name,
        "peer": row.is_peer,
        "base": row.base,
        "request": row.request,
        "connections": figures.map(|figures| figures.connections),
        "slices": figures.map_or(0, |figures| figures.slices),
        "requests_per_second": figures.map(|figures| figures.per_second),
        "requests_per_second_interval": figures.and_then(|figures| figures.interval),
        "p50_ms": figures.and_then(|figures| figures.p50_ms),
        "p99_ms": figures.and_then(|figures| figures.p99_ms),
        "cpu_us_per_request": figures.and_then(Figures::cpu_us),
        "server_cpu_us_per_request": figures.and_then(|figures| figures.server_us),
        "workers_cpu_us_per_request": figures.and_then(|figures| figures.workers_us),
        "ratio_to_base": row.ratio_to_base.map(|ratio| ratio.value),
        "ratio_to_base_interval": row.ratio_to_base.map(|ratio| (ratio.low, ratio.high)),
        "hop_cpu_us": row.hop_us,
        "bars": row.bars.iter().map(bar).collect::<Vec<_>>(),
        "verdict": row.verdict.name(),
        "notes": row.notes,
    })
}

fn bar(BarResult { bar, ratio }: &BarResult) -> Value {
    let (figure, limit) = match bar.limit {
        Limit::AtLeast(least) => ("at_least", least),
        Limit::CpuAtMost(most) => ("cpu_at_most", most),
    };
    json!({
        "of": bar.of,
        (figure): limit,
        "ratio": ratio.map(|ratio| ratio.value),
        "interval": ratio.map(|ratio| (ratio.low, ratio.high)),
    })
}
