//! Several runs in one page: how their latencies are distributed and how their rates went, in one drawing each, and their main figures in
//! one table.

use std::fmt::Write as _;

use super::{
    chart::{Drawing, Scale},
    escape,
    figures::{CURVE_POINTS, middle, percent},
};
use crate::report::{
    Report, steps,
    verdict::Verdict,
    words::{self, count, duration, rate, short_duration},
};

/// Colours of runs.
const COLOURS: usize = 8;
/// Most runs that are drawn; the table has all.
const DRAWN_MAX: usize = 2 * COLOURS;
/// Most characters of a name in a legend.
const NAME_MAX: usize = 60;
/// Classes of the lines: a colour for each run, twice.
#[rustfmt::skip]
const CLASSES: [&str; DRAWN_MAX] = [
    "run c1", "run c2", "run c3", "run c4", "run c5", "run c6", "run c7", "run c8",
    "run broken c1", "run broken c2", "run broken c3", "run broken c4",
    "run broken c5", "run broken c6", "run broken c7", "run broken c8",
];

/// Title of the page.
pub(super) fn title(reports: &[Report]) -> String {
    words::several(reports.len() as u64, "run")
}

/// Name of a run among others.
pub(super) fn name(at: usize, report: &Report) -> String {
    let name = words::plain(&super::name(report), NAME_MAX);
    let connections = words::several(report.run.connections as u64, "connection");
    format!("{}: {name}, {connections}", at + 1)
}

/// The first part of the page.
pub(super) fn overview(reports: &[Report], found: &str) -> String {
    let mut html = format!("<header>\n<h1>{}</h1>\n</header>\n", escape(&title(reports)));
    if !found.is_empty() {
        html += &super::lines(found);
    }
    html += &table(reports);
    html += "<h2>How long answers took</h2>\n<div class=\"wide\">\n";
    html += &latencies(reports);
    html += "</div>\n<h2>How the runs went</h2>\n";
    html += &rates(reports);
    if reports.len() > DRAWN_MAX {
        let _ = writeln!(
            html,
            "<p class=\"note\">The first {DRAWN_MAX} runs are drawn.</p>"
        );
    }
    html += "<h2>Each run</h2>\n";
    html
}

fn drawn(reports: &[Report]) -> impl Iterator<Item = (usize, &'static str, &Report)> {
    let runs = reports.iter().enumerate().zip(CLASSES);
    runs.map(|((at, report), class)| (at, class, report))
}

fn table(reports: &[Report]) -> String {
    let mut html = String::from(
        "<div class=\"card scroll\"><table>\n<thead><tr><th>run</th><th class=\"number\">a second</th><th class=\"number\">50 %</th>\
         <th class=\"number\">99 %</th><th class=\"number\">failed</th><th>verdict</th></tr></thead>\n<tbody>\n",
    );
    for (at, report) in reports.iter().enumerate() {
        let took = |percent| {
            if report.latency_ns.is_empty() {
                return "none".to_owned();
            }
            duration(steps::percentile(&report.latency_ns, percent) as f64)
        };
        let interval = report.rate_interval().map_or(String::new(), |interval| {
            let (low, high) = (rate(interval.low), rate(interval.high));
            format!(
                "<br><span class=\"note\">{}</span>",
                escape(&format!("{low} to {high}"))
            )
        });
        let _ = writeln!(
            html,
            "<tr><th>{}</th><td class=\"number\">{}{interval}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td>{}</td></tr>",
            escape(&name(at, report)),
            rate(report.per_second),
            took(50.0),
            took(99.0),
            count(report.failed()),
            escape(Verdict::of(report).kind.name()),
        );
    }
    html + "</tbody></table></div>\n"
}

fn latencies(reports: &[Report]) -> String {
    let known = || drawn(reports).filter(|(_, _, report)| !report.latency_ns.is_empty());
    let ends = known().map(|(_, _, report)| (report.latency_ns.min(), report.latency_ns.max()));
    let Some((least, most)) = ends.reduce(|(least, most), (min, max)| (least.min(min), most.max(max))) else {
        return "<p class=\"card\">Nothing was answered.</p>\n".to_owned();
    };
    let samples = known().map(|(_, _, report)| report.latency_ns.len()).max();
    let x = Scale::nines(samples.unwrap_or_default());
    let y = Scale::logarithmic(least as f64, most as f64, short_duration);
    let says = format!("Latency by percentile of {}", title(reports));
    let mut drawing = Drawing::new("So many percent of answers took at most", &says, x, y);
    for (at, class, report) in known() {
        let latency = &report.latency_ns;
        let end = Scale::nines(latency.len()).high();
        let point = |part: u32| {
            let nines = end * f64::from(part) / f64::from(CURVE_POINTS);
            Some((nines, steps::percentile(latency, percent(nines)) as f64))
        };
        drawing.line(class, &(0..=CURVE_POINTS).map(point).collect::<Vec<_>>());
        drawing.name(class, &name(at, report));
    }
    drawing.write()
}

fn rates(reports: &[Report]) -> String {
    let drivers: Vec<_> = drawn(reports)
        .map(|(at, class, report)| {
            let steps = steps::of(report).into_iter().filter(|step| step.whole);
            (at, class, steps.collect::<Vec<_>>())
        })
        .filter(|(_, _, steps)| steps.len() > 1)
        .collect();
    let all = || drivers.iter().flat_map(|(_, _, steps)| steps);
    if all().next().is_none() {
        return "<p class=\"card\">The runs were too short to show their course.</p>\n".to_owned();
    }
    let most = all().map(|step| step.per_second).fold(0.0, f64::max);
    let end = all()
        .map(|step| step.at_seconds + step.seconds)
        .fold(0.0, f64::max);
    let says = format!("Requests a second over time, up to {}", rate(most));
    let x = Scale::exact(end, |seconds| format!("{} s", rate(seconds)));
    let mut drawing = Drawing::new("Requests a second", &says, x, Scale::linear(most, rate));
    for (at, class, steps) in &drivers {
        let points = steps.iter().map(|step| Some((middle(step), step.per_second)));
        drawing.line(class, &points.collect::<Vec<_>>());
        drawing.name(class, &name(*at, &reports[*at]));
    }
    drawing.write()
}
