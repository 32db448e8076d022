//! A ladder as a table for a terminal.

use std::fmt::Write as _;

use forebay_load::report::format::{count, duration, rate, several};

use super::{
    report::{Compared, ComparedTable, Figures, MeasuredCurve, Point, Report, Row, Verdict},
    suite::Limit,
};

/// The report as text.
pub fn write(report: &Report) -> String {
    let parts = [
        environment(report) + "\n",
        tables(report),
        curves(report),
        // A curve has all figures of its entries.
        if report.curves.is_empty() {
            entries(report) + MEANINGS
        } else {
            String::new()
        },
        limits(report),
        remarks(report),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// Published tables with the figures of this run.
pub(super) fn tables(report: &Report) -> String {
    let table = |table: &ComparedTable| {
        let header = COMPARED.map(ToOwned::to_owned);
        let rows: Vec<_> = table.rows.iter().map(compared).collect();
        format!(
            "{}\n\n{}",
            table.title,
            columns(&[&[header], rows.as_slice()].concat(), &[1])
        )
    };
    report.tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// Curves as tables, each with its verdict.
pub(super) fn curves(report: &Report) -> String {
    let curve = |curve: &MeasuredCurve| {
        let mut lines = vec![
            [
                curve.title.as_str(),
                "requests/s",
                "p50",
                "p99",
                "CPU, us",
                "cost : work",
                "",
            ]
            .map(ToOwned::to_owned),
        ];
        lines.extend(curve.points.iter().map(point));
        format!("{}\n{}\n", columns(&lines, &[1]), verdict_of(curve))
    };
    report.curves.iter().map(curve).collect::<Vec<_>>().join("\n")
}

/// A point of a curve: how much there is, rate, median and 99th percentile of latency, CPU time, growth, and whether that is too much.
fn point(point: &Point) -> [String; 7] {
    let [rate, p50, p99, ..] = figures(&point.row);
    let us = point.row.figures.as_ref().and_then(Figures::cpu_us);
    [
        count(point.value),
        rate,
        p50,
        p99,
        us.map_or(String::new(), |us| format!("{us:.1}")),
        point
            .growth
            .map_or(String::new(), |growth| format!("{growth:.2}")),
        if point.grows_faster() {
            "faster".to_owned()
        } else {
            String::new()
        },
    ]
}

/// Where the cost of a curve grows faster than its work, and why the cost is as it is.
fn verdict_of(curve: &MeasuredCurve) -> String {
    let pairs = curve.points.windows(2).filter(|pair| pair[1].grows_faster());
    let places: Vec<String> = pairs
        .map(|pair| format!("from {} to {}", count(pair[0].value), count(pair[1].value)))
        .collect();
    let what = match places.len() {
        0 => "Cost grows no faster than work.".to_owned(),
        _ => format!("Cost grows faster than work {}.", places.join(", ")),
    };
    format!("{what} {}", curve.why)
}

/// All rungs and peers.
pub(super) fn entries(report: &Report) -> String {
    let mut lines: Vec<[String; 9]> = vec![HEADER.map(ToOwned::to_owned)];
    lines.extend(report.rows.iter().map(cells));
    let peers_at = report.rows.iter().position(|row| row.is_peer).map(|at| at + 1);
    let gaps: Vec<usize> = std::iter::once(1).chain(peers_at).collect();
    columns(&lines, &gaps)
}

/// The bars with their ratios; empty without any.
pub(super) fn limits(report: &Report) -> String {
    let bars = bars(report);
    if bars.is_empty() {
        return String::new();
    }
    let header = ["Bars", "ratio", "interval", "limit", ""].map(ToOwned::to_owned);
    columns(&[&[header], bars.as_slice()].concat(), &[1])
}

/// The notes, one a line.
pub(super) fn remarks(report: &Report) -> String {
    notes(report).into_iter().map(|line| line + "\n").collect()
}

/// Lines of cells in columns: the first and the last to the left, numbers between them to the right. Columns without a figure are left out. An
/// empty line comes before the lines in `gaps`.
fn columns<const N: usize>(lines: &[[String; N]], gaps: &[usize]) -> String {
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let is_filled = |column: usize| lines.iter().skip(1).any(|cells| !cells[column].is_empty());
    let filled: Vec<usize> = (0..N).filter(|column| is_filled(*column)).collect();
    let mut text = String::new();
    for (at, cells) in lines.iter().enumerate() {
        if gaps.contains(&at) {
            text.push('\n');
        }
        let mut line = String::new();
        for (column, cell) in filled.iter().map(|column| (*column, &cells[*column])) {
            // Writing to a String cannot fail.
            let _ = match column {
                0 => write!(line, "{cell:<width$}", width = widths[0]),
                last if last + 1 == N => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}", width = widths[column]),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

const MEANINGS: &str = "\n`of base`: requests a second over those of the rung below, or of the rung beside a peer. `hop`: CPU time for each request beyond it.\n";
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

const COMPARED: [&str; 9] = [
    "",
    "published/s",
    "mean",
    "failed",
    "of baseline",
    "here/s",
    "mean",
    "of baseline",
    "",
];

/// A published row beside the figures of this run.
fn compared(row: &Compared) -> [String; 9] {
    let published = &row.published;
    let ms = |value: Option<f64>| value.map_or(String::new(), |value| duration(value * 1e6));
    let ratio = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    let reached = row.is_reached();
    [
        published.row.clone(),
        rate(published.per_second),
        ms(published.mean_ms),
        published.failed.map_or(String::new(), count),
        ratio(row.published_ratio),
        row.per_second.map_or("-".to_owned(), rate),
        ms(row.mean_ms),
        ratio(row.ratio.map(|ratio| ratio.value)),
        reached
            .map_or("", |reached| if reached { "reached" } else { "not reached" })
            .to_owned(),
    ]
}

/// The machine and the amounts, in one line.
pub fn environment(report: &Report) -> String {
    let environment = &report.environment;
    let settings = &report.settings;
    let connections = match settings.connections {
        _ if !report.curves.is_empty() => "as many connections as each curve says".to_owned(),
        _ if !report.tables.is_empty() => "as many connections as each row has published".to_owned(),
        Some(number) => several(number as u64, "connection"),
        None => "the best number of connections".to_owned(),
    };
    let closed = if settings.keep_alive {
        ""
    } else {
        ", each for one request"
    };
    let programs: Vec<String> = report
        .programs
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let programs = match programs.join(", ") {
        none if none.is_empty() => none,
        some => format!("; {some}"),
    };
    let interrupted = if report.interrupted { "; interrupted" } else { "" };
    format!(
        "forebay {} on {}, {}, {}; {} of {} s each, {connections}{closed}{programs}{interrupted}",
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
fn figures(row: &Row) -> [String; 6] {
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
fn verdict(row: &Row) -> &'static str {
    match row.verdict {
        Verdict::Measured => "",
        other => other.name(),
    }
}

/// The bars that could be compared: what, ratio, interval, limit, verdict.
fn bars(report: &Report) -> Vec<[String; 5]> {
    let judged = report.rows.iter().filter(|row| row.verdict != Verdict::Measured);
    let bars = judged.flat_map(|row| row.bars.iter().map(move |bar| (row, bar)));
    bars.filter_map(|(row, result)| {
        let ratio = result.ratio?;
        let (what, limit) = match result.bar.limit {
            Limit::AtLeast(least) => ("requests/s", format!("at least {least}")),
            Limit::CpuAtMost(most) => ("CPU", format!("at most {most}")),
        };
        Some([
            format!("{what}, {} : {}", row.name, result.bar.of),
            format!("{:.2}", ratio.value),
            format!("{:.2} to {:.2}", ratio.low, ratio.high),
            limit,
            result.verdict()?.name().to_owned(),
        ])
    })
    .collect()
}

/// The notes of all rows, each with the row's name.
fn notes(report: &Report) -> Vec<String> {
    let notes = report
        .rows
        .iter()
        .flat_map(|row| row.notes.iter().map(move |note| format!("{}: {note}", row.name)));
    notes.collect()
}
