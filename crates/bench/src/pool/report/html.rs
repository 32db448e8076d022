//! A report as one HTML page, in the style of `forebay load`.

use std::fmt::Write as _;

use forebay_load::report::{
    format::{count, duration, rate, several},
    html::{
        chart::{Drawing, Scale},
        escape, page,
    },
};

use super::{Best, Report, Subject, text};

/// CSS classes of the contenders' curves.
const CLASSES: [&str; 8] = [
    "run c1", "run c2", "run c3", "run c4", "run c5", "run c6", "run c7", "run c8",
];

/// The report as an HTML page.
pub fn write(report: &Report) -> String {
    let mut body = format!(
        "<header>\n<h1>forebay bench pool</h1>\n<p>{}.</p>\n",
        escape(&text::what(report))
    );
    if let Some(machine) = text::machine(report) {
        let _ = writeln!(body, "<p>{}</p>", escape(&machine));
    }
    body += "</header>\n<main>\n";
    if let Some(doubt) = text::doubt(report) {
        let _ = writeln!(body, "<p class=\"verdict doubt\">{}</p>", escape(&doubt));
    }
    body += &curves(report);
    body += "<h2>Pools</h2>\n";
    body += &table(report);
    body += &errors(report);
    body += MEANINGS;
    body += "</main>\n";
    page("forebay bench pool", &body)
}

const MEANINGS: &str = "<h2>What the figures are</h2>\n<dl class=\"terms card\">\n\
<dt>messages a second</dt><dd>Replies, by the time from the first submission to the last reply; start and warm-up are not in it. The median of all runs.</dd>\n\
<dt>first / this</dt><dd>How many times as many messages a second the first pool of the table has: the geometric mean over the pairs of runs of \
the same round, with its 95 % interval.</dd>\n\
<dt>main, all</dt><dd>CPU time for each message: of the thread that dispatches, and of everything with the workers.</dd>\n\
<dt>p50 to max</dt><dd>From the submission of a message to its reply. Under a load that is kept at a number of messages, this is mostly waiting in the queue.</dd>\n\
</dl>\n";

/// The result of a sweep over worker counts, in one sentence.
pub(super) fn verdict(best: &Best) -> String {
    let enough = if best.enough == best.workers {
        String::new()
    } else {
        let are = if best.enough == 1 { "is" } else { "are" };
        format!("; {} {are} enough for nine tenths of it", best.enough)
    };
    format!(
        "best with {}: {}/s{enough}; the worst size has {:.0} % of it",
        several(best.workers as u64, "worker"),
        rate(best.rate),
        best.lowest_share * 100.0
    )
}

fn curves(report: &Report) -> String {
    let drawn: Vec<_> = report
        .suite
        .contenders
        .iter()
        .zip(CLASSES)
        .filter_map(|(contender, class)| Some((contender, class, report.best(*contender)?)))
        .collect();
    let Some(highest) = drawn.iter().map(|(_, _, best)| best.rate).reduce(f64::max) else {
        return String::new();
    };
    let most = report.suite.workers.iter().copied().max().unwrap_or(1);
    let mut drawing = Drawing::new(
        "Messages a second by number of workers",
        "Messages a second by number of workers",
        Scale::linear(most as f64, |value| format!("{value}")),
        Scale::linear(highest, rate),
    );
    let mut html = String::from("<h2>How many workers</h2>\n");
    for (contender, class, best) in &drawn {
        let points: Vec<_> = report
            .curve(**contender)
            .iter()
            .map(|(workers, rate)| (*workers as f64, *rate))
            .collect();
        drawing.name(class, &contender.name());
        drawing.line(class, &points);
        let _ = writeln!(
            html,
            "<p>{}: {}.</p>",
            escape(&contender.name()),
            escape(&verdict(best))
        );
    }
    html + &drawing.write()
}

fn table(report: &Report) -> String {
    let sized = report.suite.workers.len() > 1;
    let mut html = String::from("<div class=\"card scroll\"><table>\n<thead><tr><th>pool</th>");
    for name in [
        "messages a second",
        "first / this",
        "main, us",
        "all, us",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "errors",
    ] {
        let _ = write!(html, "<th class=\"number\">{name}</th>");
    }
    html += "</tr></thead>\n<tbody>\n";
    for subject in &report.subjects {
        let _ = write!(html, "<tr><th>{}", escape(&subject.name(sized)));
        if let Some(run) = subject.runs.last() {
            let _ = write!(
                html,
                "<br><span class=\"note\">{} {}</span>",
                escape(&run.version),
                escape(&run.settings_line())
            );
        }
        html += "</th>";
        for figure in figures(report, subject) {
            let _ = write!(html, "<td class=\"number\">{}</td>", escape(&figure));
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}

fn figures(report: &Report, subject: &Subject) -> [String; 10] {
    let us = |value: f64| format!("{value:.2}");
    let took = |us: f64| duration(us * 1e3);
    [
        text::figure(subject.rate(), rate),
        text::ratio(report, subject),
        text::figure(subject.median(|run| run.main_us), us),
        text::figure(subject.median(|run| run.all_us), us),
        text::figure(subject.median(|run| Some(run.latency.p50_us)), took),
        text::figure(subject.median(|run| Some(run.latency.p90_us)), took),
        text::figure(subject.median(|run| Some(run.latency.p99_us)), took),
        text::figure(subject.median(|run| Some(run.latency.p999_us)), took),
        text::figure(subject.median(|run| Some(run.latency.max_us)), took),
        count(subject.errors()),
    ]
}

fn errors(report: &Report) -> String {
    let mut rows = String::new();
    for subject in &report.subjects {
        let texts = subject.runs.iter().flat_map(|run| &run.error_texts);
        let lines = texts.map(|error| format!("{} x {}", count(error.count), error.text));
        let failure = subject
            .failure
            .iter()
            .map(|failure| format!("left out: {failure}"));
        for line in lines.chain(failure) {
            let _ = writeln!(
                rows,
                "<tr><th>{}</th><td class=\"text\">{}</td></tr>",
                escape(&subject.name(true)),
                escape(&line)
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!("<h2>Errors</h2>\n<div class=\"card scroll\"><table><tbody>\n{rows}</tbody></table></div>\n")
}
