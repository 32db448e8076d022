//! The tables of the page.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::escape;
use crate::{
    report::{
        Options, Report, connections, course,
        words::{self, bytes, count, duration, percent},
    },
    stats::{self, Interval},
};

/// Rows of names and values.
fn pairs(title: &str, rows: &[(&str, String)]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|(name, value)| {
            format!(
                "<tr><th>{}</th><td class=\"text\">{}</td></tr>\n",
                escape(name),
                escape(value)
            )
        })
        .collect();
    let title = escape(title);
    format!(
        "<div class=\"card\"><h3>{title}</h3><table>\n<tbody>\n{}</tbody></table></div>\n",
        rows.concat()
    )
}

/// The percentiles.
pub(super) fn percentiles(report: &Report, options: &Options) -> String {
    let latency = &report.latency_ns;
    if latency.is_empty() {
        return String::new();
    }
    let columns = report.latencies();
    let cell = |text: &str| format!("<td class=\"number\">{text}</td>");
    let row = |name: &str, value: &dyn Fn(&Histogram<u64>) -> f64, interval: Option<Interval>| {
        let mut texts = columns
            .iter()
            .map(|(_, histogram)| escape(&duration(value(histogram))));
        let mut first = texts.next().unwrap_or_default();
        if let Some(interval) = interval {
            let (low, high) = (duration(interval.low), duration(interval.high));
            let ends = escape(&format!("{low} to {high}"));
            let _ = write!(first, "<br><span class=\"note\">{ends}</span>");
        }
        let rest: Vec<_> = texts.map(|text| cell(&text)).collect();
        let name = escape(name);
        format!("<tr><th>{name}</th>{}{}</tr>\n", cell(&first), rest.concat())
    };
    let mut rows = row("least", &|histogram| histogram.min() as f64, None);
    let intervals = report.latency_intervals(&options.percentiles);
    let (mut sure, mut unsure) = (false, false);
    for (&percent, &interval) in options.percentiles.iter().zip(&intervals) {
        let enough = stats::enough_samples(percent, latency.len());
        unsure |= !enough;
        sure |= interval.is_some();
        let mark = if enough { "" } else { " *" };
        let name = format!("{} %{mark}", words::percentile(percent));
        rows += &row(
            &name,
            &|histogram| course::percentile(histogram, percent) as f64,
            interval,
        );
    }
    rows += &row("most", &|histogram| histogram.max() as f64, None);
    rows += &row("mean", &Histogram::mean, None);
    rows += &row("standard deviation", &Histogram::stdev, None);
    let head = if columns.len() > 1 {
        head(&columns)
    } else {
        String::new()
    };
    let mut notes = String::new();
    if sure {
        notes.push_str("<p class=\"note\">Small: the 95 % interval of the figure above it.</p>\n");
    }
    if unsure {
        notes.push_str("<p class=\"note\">* rests on fewer than ten slower answers: chance.</p>\n");
    }
    format!(
        "<div class=\"card\"><h3>Percentiles of latency</h3><table>\n{head}<tbody>\n{rows}</tbody></table>\n{notes}</div>\n"
    )
}

/// Statuses, failures, bytes and connections.
pub(super) fn answers_and_errors(report: &Report) -> String {
    let total: u64 = report.statuses.iter().map(|(_, count)| count).sum();
    let statuses: Vec<_> = report
        .statuses
        .iter()
        .map(|&(status, number)| {
            let (number, part) = (count(number), percent(number, total));
            format!("<tr><th>{status}</th><td class=\"number\">{number}</td><td class=\"number\">{part}</td></tr>\n")
        })
        .collect();
    let statuses = statuses.concat();
    let statuses = if statuses.is_empty() {
        "<tr><td>no answer</td></tr>\n".into()
    } else {
        statuses
    };
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|failure| {
            let (name, number) = (failure.class.name(), count(failure.count));
            let meaning = escape(failure.class.meaning());
            let example = failure.example.as_deref().map_or(String::new(), |text| {
                format!("<br><span class=\"note\">first:</span> <code>{}</code>", escape(text))
            });
            format!("<tr><th><code>{name}</code></th><td class=\"number\">{number}</td><td class=\"text\">{meaning}{example}</td></tr>\n")
        })
        .collect();
    let failures = failures.concat();
    let failures = if failures.is_empty() {
        "<tr><td>none</td></tr>\n".into()
    } else {
        failures
    };
    format!(
        "<h2>Answers and failures</h2>\n<div class=\"sides even\">\n\
         <div class=\"card\"><h3>Answers by status</h3><table>\n<tbody>\n{statuses}</tbody></table></div>\n{}</div>\n\
         <div class=\"card failures\"><h3>Failures by class</h3><div class=\"scroll\"><table>\n<tbody>\n{failures}</tbody></table></div></div>\n",
        transfer(report)
    )
}

/// What was measured of each of several requests.
pub(super) fn urls(report: &Report) -> String {
    if report.urls.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<h2>Each request</h2>\n<div class=\"card scroll\"><table>\n<thead><tr><th>request</th><th class=\"number\">answers</th>\
         <th class=\"number\">failed</th><th class=\"number\">50 %</th><th class=\"number\">99 %</th></tr></thead>\n<tbody>\n",
    );
    for url in &report.urls {
        let took = |percent| {
            if url.latency_ns.is_empty() {
                return "none".to_owned();
            }
            duration(course::percentile(&url.latency_ns, percent) as f64)
        };
        let _ = writeln!(
            html,
            "<tr><th><code>{}</code></th><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td></tr>",
            escape(&url.name),
            count(url.answers),
            count(url.failures),
            took(50.0),
            took(99.0)
        );
    }
    html + "</tbody></table></div>\n"
}

fn transfer(report: &Report) -> String {
    let mut rows = vec![
        ("requests sent", count(report.sent)),
        ("answers", count(report.answers)),
        ("bytes received", bytes(report.bytes_in as f64)),
        ("bytes sent", bytes(report.bytes_out as f64)),
    ];
    if report.answers > 0 {
        let answers = report.answers as f64;
        let (each, body) = (
            bytes(report.bytes_in as f64 / answers),
            bytes(report.body_bytes_in as f64 / answers),
        );
        rows.push(("an answer", format!("{each}, {body} of it the body")));
    }
    if report.under_way > 0 {
        rows.push(("under way before", words::several(report.under_way, "request")));
    }
    rows.push(("connections", connections::facts(report)));
    let openings = report.telling_openings();
    if openings.is_empty() && !report.connecting_ns.is_empty() {
        let half = duration(course::percentile(&report.connecting_ns, 50.0) as f64);
        let most = duration(report.connecting_ns.max() as f64);
        rows.push(("opening one took", format!("{half} (median), {most} at most")));
    }
    pairs("Transfer and connections", &rows) + &self::openings(&openings)
}

/// How long it took to open connections.
fn openings(columns: &[(&str, &Histogram<u64>)]) -> String {
    if columns.is_empty() {
        return String::new();
    }
    let row = |name: &str, value: &dyn Fn(&Histogram<u64>) -> f64| {
        let cells = columns.iter().fold(String::new(), |cells, (_, histogram)| {
            let text = escape(&duration(value(histogram)));
            format!("{cells}<td class=\"number\">{text}</td>")
        });
        format!("<tr><th>{name}</th>{cells}</tr>\n")
    };
    let mut rows = row("least", &|histogram| histogram.min() as f64);
    for percent in [50.0, 90.0, 99.0, 99.9] {
        let name = format!("{} %", words::percentile(percent));
        rows += &row(&name, &|histogram| course::percentile(histogram, percent) as f64);
    }
    rows += &row("most", &|histogram| histogram.max() as f64);
    let head = head(columns);
    format!(
        "<div class=\"card\"><h3>Opening a connection</h3><table>\n{head}<tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// The names of columns of figures.
fn head(columns: &[(&str, &Histogram<u64>)]) -> String {
    let names = columns.iter().fold(String::new(), |names, (name, _)| {
        format!("{names}<th class=\"number\">{}</th>", escape(name))
    });
    format!("<thead><tr><th></th>{names}</tr></thead>\n")
}

/// What was run on what, so that it can be run again.
pub(super) fn run_and_machine(report: &Report) -> String {
    let run = &report.run;
    let mut rows: Vec<(&str, String)> = run.urls.iter().map(|url| ("URL", url.clone())).take(20).collect();
    rows.extend([
        ("method", run.method.clone()),
        ("load", words::load(run)),
        ("threads", count(run.threads as u64)),
        ("requests on a connection at a time", count(run.pipeline as u64)),
        (
            "connections kept open",
            if run.keep_alive {
                "yes"
            } else {
                "no, a new one for each request"
            }
            .into(),
        ),
        ("measured for", duration(report.seconds * 1e9)),
        ("warm-up", words::warm_up(&report.warm_up)),
    ]);
    if run.started_unix_ms > 0 {
        rows.push(("began", words::moment(run.started_unix_ms)));
    }
    if run.body_bytes > 0 {
        rows.push(("body of a request", bytes(run.body_bytes as f64)));
    }
    if report.lag_max_ns > 0 {
        rows.push(("sent late by at most", duration(report.lag_max_ns as f64)));
    }
    rows.extend(
        report
            .server()
            .map(|server| ("server says it is", server.to_owned())),
    );
    rows.extend(
        report
            .first_answer
            .as_ref()
            .map(|first| ("first answer", first.line())),
    );
    let mut html = format!(
        "<h2>What was run on what</h2>\n<div class=\"sides even\">\n{}",
        pairs("Run", &rows)
    );
    let mut rows: Vec<(&str, String)> = Vec::new();
    if let Some(environment) = &report.environment {
        rows.extend(environment.lines());
    }
    if let Some(usage) = &report.usage {
        let share = |share: Option<f64>| share.map(|share| format!("{:.1} %", share * 100.0));
        let used = [
            ("cores busy", share(usage.busy_share)),
            ("taken by a hypervisor", share(usage.steal_share)),
            ("busiest event loop", share(usage.busiest_loop())),
            ("event loop without a core", share(usage.longest_wait())),
            (
                "core taken from the generator",
                Some(words::several(usage.involuntary_switches, "time")),
            ),
            (
                "other processes",
                usage
                    .others_cpu_seconds
                    .map(|seconds| format!("{} of CPU", duration(seconds * 1e9))),
            ),
            (
                "server",
                usage
                    .server
                    .map(|server| words::several(server.processes as u64, "process")),
            ),
            (
                "server gave up a core",
                usage
                    .server
                    .map(|server| words::several(server.voluntary_switches, "time")),
            ),
            (
                "core taken from the server",
                usage
                    .server
                    .map(|server| words::several(server.involuntary_switches, "time")),
            ),
            (
                "CPU for answers of the server",
                report.capacity().map(|capacity| {
                    let (alone, shared) = (words::rate(capacity.alone), words::rate(capacity.shared));
                    format!("{alone} a second; {shared} with the generator")
                }),
            ),
            (
                "server memory",
                usage.server.map(|server| bytes(server.rss_bytes as f64)),
            ),
        ];
        rows.extend(used.into_iter().filter_map(|(name, value)| Some((name, value?))));
    }
    if !rows.is_empty() {
        html += &pairs("Machine of the generator", &rows);
    }
    html + "</div>\n"
}
