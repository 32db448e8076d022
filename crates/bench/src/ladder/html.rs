//! A ladder as a page for a browser, in the style of `forebay load`.

use std::fmt::Write as _;

use forebay_load::report::{
    format::{duration, rate},
    html::{
        chart::{Drawing, Scale},
        escape, lines, page,
    },
};

use super::{
    report::{Figures, MeasuredCurve, Report, Row},
    text,
};

/// CSS classes of curves.
const CLASSES: [&str; 8] = [
    "run c1", "run c2", "run c3", "run c4", "run c5", "run c6", "run c7", "run c8",
];

/// The report as a page. `command` is the command line that made it.
pub fn write(report: &Report, command: &str) -> String {
    let title = format!("forebay bench {}", report.name);
    let mut body = format!(
        "<header>\n<h1>{title}</h1>\n<p>{}.</p>\n<p><code>{}</code></p>\n</header>\n<main>\n",
        escape(&text::environment(report)),
        escape(command)
    );
    for curve in &report.curves {
        body += &growth(curve);
    }
    body += "<h2>Requests a second</h2>\n";
    body += &bars(report);
    body += "<h2>Figures</h2>\n";
    body += &lines(&text::write(report));
    body += "<h2>Latency</h2>\n";
    for group in groups(report, |row| {
        row.figures
            .as_ref()
            .is_some_and(|figures| !figures.latency.is_empty())
    }) {
        body += &latencies(&group);
    }
    let searched = groups(report, |row| !row.curve.is_empty());
    if !searched.is_empty() {
        body += "<h2>Connections</h2>\n";
        for group in searched {
            body += &curves(&group);
        }
    }
    body += MEANINGS;
    body += "</main>\n";
    page(&title, &body)
}

const MEANINGS: &str = "<h2>What the figures are</h2>\n<dl class=\"terms card\">\n\
<dt>requests a second</dt><dd>Right responses, the mean of all slices. Entries are measured in turns, so that what disturbs the machine \
hits all of them.</dd>\n\
<dt>server, workers</dt><dd>CPU time for each request: of the server's own process, and of all processes that it has started.</dd>\n\
<dt>of base</dt><dd>Requests a second over those of the rung below, or of the rung beside a peer: the geometric mean over rounds.</dd>\n\
<dt>hop</dt><dd>CPU time for each request beyond that of the base.</dd>\n\
<dt>bars</dt><dd>Ratios that are to be reached, with their 95 % intervals. With less than four slices, the interval is from the lowest to the highest of them. Undecided: the interval \
contains the limit, and more slices are needed to tell.</dd>\n\
</dl>\n";

/// The rows that have something to draw, in groups of as many as there are colours.
fn groups(report: &Report, has: impl Fn(&Row) -> bool) -> Vec<Vec<&Row>> {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| has(row)).collect();
    rows.chunks(CLASSES.len()).map(<[&Row]>::to_vec).collect()
}

/// Horizontal bars, as long as the rates.
fn bars(report: &Report) -> String {
    let rates = || {
        report
            .rows
            .iter()
            .filter_map(|row| Some(row.figures.as_ref()?.per_second))
    };
    let most = rates().fold(0.0, f64::max);
    let mut html = String::from("<div class=\"card scroll\"><table class=\"bars\"><tbody>\n");
    for row in &report.rows {
        let Some(figures) = &row.figures else { continue };
        let class = if row.is_peer { "bar peer" } else { "bar" };
        let _ = writeln!(
            html,
            "<tr><th>{}</th><td class=\"number\">{}</td><td class=\"track\"><div class=\"{class}\" style=\"width:{:.1}%\"></div></td></tr>",
            escape(&row.name),
            rate(figures.per_second),
            figures.per_second / most * 100.0
        );
    }
    html + "</tbody></table></div>\n"
}

/// A curve as a drawing.
fn growth(curve: &MeasuredCurve) -> String {
    let points = || {
        curve.points.iter().filter_map(|point| {
            let us = point.row.figures.as_ref().and_then(Figures::cpu_us)?;
            Some((point.value as f64, us))
        })
    };
    let mut html = format!("<h2>{}</h2>\n", escape(&curve.title));
    let (least, most) = points().fold((f64::INFINITY, 1.0), |(least, most): (f64, f64), (value, _)| {
        (least.min(value), most.max(value))
    });
    let highest = points().map(|(_, us)| us).fold(0.0, f64::max);
    if highest > 0.0 {
        let title = format!("CPU time of a request by {}", curve.title);
        let mut drawing = Drawing::new(
            &title,
            &title,
            Scale::logarithmic(least, most, |value| format!("{value}")),
            Scale::linear(highest, |us| format!("{us} us")),
        );
        drawing.line(CLASSES[0], &points().collect::<Vec<_>>());
        html += &drawing.write();
    }
    html
}

/// Latencies by percentile.
fn latencies(rows: &[&Row]) -> String {
    let histograms = || rows.iter().filter_map(|row| Some(&row.figures.as_ref()?.latency));
    let samples = histograms().map(hdrhistogram::Histogram::len).max().unwrap_or(1);
    let (least, most) = histograms().fold((u64::MAX, 1), |(least, most), histogram| {
        (
            least.min(histogram.value_at_quantile(0.0)),
            most.max(histogram.max()),
        )
    });
    let title = "Latency by percentile";
    let mut drawing = Drawing::new(
        title,
        title,
        Scale::nines(samples),
        Scale::logarithmic(least as f64, most as f64, duration),
    );
    for ((row, histogram), class) in rows.iter().zip(histograms()).zip(CLASSES) {
        drawing.name(class, &row.name);
        let steps = (0..=60).map(|step| f64::from(step) / 10.0);
        let points = steps.take_while(|nines| *nines <= (histogram.len() as f64).log10());
        let points = points.map(|nines| {
            (
                nines,
                histogram.value_at_quantile(1.0 - 10_f64.powf(-nines)) as f64,
            )
        });
        drawing.line(class, &points.collect::<Vec<_>>());
    }
    drawing.write()
}

/// Rates by number of connections.
fn curves(rows: &[&Row]) -> String {
    let points = || rows.iter().flat_map(|row| &row.curve);
    let connections = points().map(|(connections, _)| *connections).max().unwrap_or(1);
    let most = points().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let title = "Requests a second by number of connections";
    let mut drawing = Drawing::new(
        title,
        title,
        Scale::logarithmic(1.0, connections as f64, |value| format!("{value}")),
        Scale::linear(most, rate),
    );
    for (row, class) in rows.iter().zip(CLASSES) {
        drawing.name(class, &row.name);
        let points: Vec<_> = row
            .curve
            .iter()
            .map(|(connections, rate)| (*connections as f64, *rate))
            .collect();
        drawing.line(class, &points);
    }
    drawing.write()
}
