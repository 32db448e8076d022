//! A ladder as a table for a terminal.

use std::fmt::Write as _;

use forebay_load::report::format::{duration, rate, several};

use super::{
    report::{BarResult, Report, Row},
    suite::Limit,
};

/// The report as text.
pub fn write(report: &Report) -> String {
    let mut text = format!("{}\n\n", environment(report));
    let mut lines: Vec<[String; 8]> = vec![HEADER.map(ToOwned::to_owned)];
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
                7 => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}", width = widths[column]),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text += "\n`of base`: requests a second over those of the rung below, or of the rung beside a peer. `hop`: CPU time beyond it.\n";
    for line in notes(report) {
        let _ = writeln!(text, "{line}");
    }
    text
}

const HEADER: [&str; 8] = [
    "",
    "requests/s",
    "p50",
    "p99",
    "server, us",
    "workers, us",
    "of base",
    "hop, verdict",
];

/// The machine and the amounts, in one line.
pub(super) fn environment(report: &Report) -> String {
    let environment = &report.environment;
    let settings = &report.settings;
    let connections = settings.connections.map_or_else(
        || "the best number of connections".to_owned(),
        |number| several(number as u64, "connection"),
    );
    let interrupted = if report.interrupted { "; interrupted" } else { "" };
    format!(
        "forebay {} on {}, {}, {}; {} of {} s each, {connections}{interrupted}",
        environment.version,
        environment.cpu.as_deref().unwrap_or("an unknown processor"),
        several(environment.cores as u64, "core"),
        environment.kernel.as_deref().unwrap_or("an unknown kernel"),
        several(settings.rounds as u64, "slice"),
        settings.slice.as_secs_f64(),
    )
}

fn cells(row: &Row) -> [String; 8] {
    let figures = row.figures.as_ref();
    let us = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
    let ms = |value: Option<f64>| value.map_or(String::new(), |value| duration(value * 1e6));
    let hop = row.hop_us.map(|hop| format!("{hop:+.1} us"));
    [
        row.name.clone(),
        figures.map_or("-".to_owned(), |figures| rate(figures.per_second)),
        ms(figures.and_then(|figures| figures.p50_ms)),
        ms(figures.and_then(|figures| figures.p99_ms)),
        us(figures.and_then(|figures| figures.server_us)),
        us(figures
            .and_then(|figures| figures.workers_us)
            .filter(|us| *us >= 0.05)),
        row.ratio_to_base
            .map_or(String::new(), |ratio| format!("{:.2}", ratio.value)),
        [hop.unwrap_or_default(), verdict(row)]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("  "),
    ]
}

/// A row's verdict with the ratios behind it; nothing for a row without bars.
pub(super) fn verdict(row: &Row) -> String {
    use super::report::Verdict::{Busy, Holds, Measured, Misses, Undecided};
    let bars = row.bars.iter().filter_map(|BarResult { bar, ratio }| {
        let ratio = ratio.as_ref()?.value;
        Some(match bar.limit {
            Limit::AtLeast(least) => format!("{ratio:.2} of {} (at least {least})", bar.of),
            Limit::CpuAtMost(most) => format!("{ratio:.2} of the CPU of {} (at most {most})", bar.of),
        })
    });
    let bars = bars.collect::<Vec<_>>().join(", ");
    match row.verdict {
        Measured => String::new(),
        Holds | Misses | Undecided | Busy => {
            let bars = if bars.is_empty() {
                bars
            } else {
                format!(": {bars}")
            };
            format!("{}{bars}", row.verdict.name())
        }
        other => other.name().to_owned(),
    }
}

/// What is to be said of single rows.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let notes = report
        .rows
        .iter()
        .flat_map(|row| row.notes.iter().map(move |note| format!("{}: {note}", row.name)));
    notes.collect()
}
