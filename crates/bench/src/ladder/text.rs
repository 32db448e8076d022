//! A ladder as a table for a terminal.

use std::fmt::Write as _;

use forebay_load::report::format::{duration, rate, several};

use super::{
    report::{Report, Row, Verdict},
    suite::Limit,
};

/// The report as text.
pub fn write(report: &Report) -> String {
    let mut text = format!("{}\n\n", environment(report));
    let mut lines: Vec<[String; 9]> = vec![HEADER.map(ToOwned::to_owned)];
    lines.extend(report.rows.iter().map(cells));
    let width = |column: usize| {
        lines
            .iter()
            .map(|cells| cells[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
    let peers_at = report.rows.iter().position(|row| row.is_peer).map(|at| at + 1);
    for (at, cells) in lines.iter().enumerate() {
        if at == 1 || Some(at) == peers_at {
            text.push('\n');
        }
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = match column {
                0 => write!(line, "{cell:<width$}", width = widths[0]),
                8 => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}", width = widths[column]),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text += "\n`of base`: requests a second over those of the rung below, or of the rung beside a peer. `hop`: CPU time for each request beyond it.\n";
    let bars = bars(report);
    if !bars.is_empty() {
        let width = |column: usize| {
            bars.iter()
                .map(|cells| cells[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..5).map(width).collect();
        text += "\nBars\n";
        for [verdict, what, ratio, interval, limit] in &bars {
            let _ = writeln!(
                text,
                "  {verdict:<v$}  {what:<w$}  {ratio:>r$}  {interval:>i$}  {limit}",
                v = widths[0],
                w = widths[1],
                r = widths[2],
                i = widths[3],
            );
        }
    }
    let notes = notes(report);
    if !notes.is_empty() {
        text.push('\n');
    }
    for line in notes {
        let _ = writeln!(text, "{line}");
    }
    text
}

const HEADER: [&str; 9] = [
    "",
    "requests/s",
    "p50",
    "p99",
    "server, us",
    "workers, us",
    "of base",
    "hop, us",
    "",
];

/// The machine and the amounts, in one line.
pub(super) fn environment(report: &Report) -> String {
    let environment = &report.environment;
    let settings = &report.settings;
    let connections = settings.connections.map_or_else(
        || "the best number of connections".to_owned(),
        |number| several(number as u64, "connection"),
    );
    let closed = if settings.keep_alive {
        ""
    } else {
        ", each for one request"
    };
    let interrupted = if report.interrupted { "; interrupted" } else { "" };
    format!(
        "forebay {} on {}, {}, {}; {} of {} s each, {connections}{closed}{interrupted}",
        environment.version,
        environment.cpu.as_deref().unwrap_or("an unknown processor"),
        several(environment.cores as u64, "core"),
        environment.kernel.as_deref().unwrap_or("an unknown kernel"),
        several(settings.rounds as u64, "slice"),
        settings.slice.as_secs_f64(),
    )
}

fn cells(row: &Row) -> [String; 9] {
    let [rate, p50, p99, server, workers, hop] = figures(row);
    let ratio = row.ratio_to_base.map(|ratio| format!("{:.2}", ratio.value));
    [
        row.name.clone(),
        rate,
        p50,
        p99,
        server,
        workers,
        ratio.unwrap_or_default(),
        hop,
        verdict(row).to_owned(),
    ]
}

/// A row's rate, median and 99th percentile of latency, CPU time of server and of workers, and hop; empty where there is none.
pub(super) fn figures(row: &Row) -> [String; 6] {
    let figures = row.figures.as_ref();
    let us = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
    let ms = |value: Option<f64>| value.map_or(String::new(), |value| duration(value * 1e6));
    let workers_us = figures.and_then(|figures| figures.workers_us);
    [
        figures.map_or("-".to_owned(), |figures| rate(figures.per_second)),
        ms(figures.and_then(|figures| figures.p50_ms)),
        ms(figures.and_then(|figures| figures.p99_ms)),
        us(figures.and_then(|figures| figures.server_us)),
        us(workers_us.filter(|us| *us >= 0.05)),
        row.hop_us.map_or(String::new(), |hop| format!("{hop:+.1}")),
    ]
}

/// A row's verdict; nothing for a row without bars.
pub(super) fn verdict(row: &Row) -> &'static str {
    match row.verdict {
        Verdict::Measured => "",
        other => other.name(),
    }
}

/// The bars that could be compared: verdict, what, ratio, interval, limit.
pub(super) fn bars(report: &Report) -> Vec<[String; 5]> {
    let judged = report.rows.iter().filter(|row| row.verdict != Verdict::Measured);
    let bars = judged.flat_map(|row| row.bars.iter().map(move |bar| (row, bar)));
    bars.filter_map(|(row, result)| {
        let ratio = result.ratio?;
        let (what, limit) = match result.bar.limit {
            Limit::AtLeast(least) => ("requests/s", format!("at least {least}")),
            Limit::CpuAtMost(most) => ("CPU", format!("at most {most}")),
        };
        Some([
            result.verdict()?.name().to_owned(),
            format!("{what}, {} : {}", row.name, result.bar.of),
            format!("{:.2}", ratio.value),
            format!("{:.2} to {:.2}", ratio.low, ratio.high),
            limit,
        ])
    })
    .collect()
}

/// The notes of all rows, each with the row's name.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let notes = report
        .rows
        .iter()
        .flat_map(|row| row.notes.iter().map(move |note| format!("{}: {note}", row.name)));
    notes.collect()
}
