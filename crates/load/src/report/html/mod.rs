//! A report as one page for a browser: no script, no other file, nothing loaded from anywhere. It is read on a phone, in the dark and on
//! paper too. Whatever comes from outside (URLs, names, the texts of errors) is escaped, and the page forbids scripts altogether.

pub mod chart;
mod figures;
mod several;

use std::fmt::Write as _;

use crate::machine::Environment;

use super::{
    Options, Report, steps,
    verdict::{Kind, Verdict},
    words::{self, bytes, count, duration, percent, plain, rate},
};

/// Most characters that are shown of a text from outside.
const TEXT_MAX: usize = 2_000;
const STYLE: &str = include_str!("page.css");

/// The page of a run.
pub fn write(report: &Report, options: &Options) -> String {
    page(
        &name(report),
        &format!(
            "{}{}",
            whole(report, options),
            footer(std::slice::from_ref(report))
        ),
    )
}

/// The page of several runs: what was found by them, if something was looked for, their curves in one drawing, their figures in one table,
/// and each of them in full below.
pub fn write_all(reports: &[Report], found: &str, options: &Options) -> String {
    let [report] = reports else {
        let mut body = several::overview(reports, found);
        for (at, report) in reports.iter().enumerate() {
            let title = escape(&several::name(at, report));
            let _ = write!(
                body,
                "<details class=\"run\">\n<summary>{title}</summary>\n{}</details>\n",
                whole(report, options)
            );
        }
        body += &footer(reports);
        return page(&several::title(reports), &body);
    };
    write(report, options)
}

/// A document with this title and body.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// A run in full.
fn whole(report: &Report, options: &Options) -> String {
    let text = super::text::write(
        report,
        &Options {
            colour: false,
            ..options.clone()
        },
    );
    let environment = report.environment.iter().flat_map(Environment::lines);
    let environment: Vec<_> = environment
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    [
        header(report),
        "<main>
"
        .into(),
        verdict(report),
        tiles(report),
        figures::latency(report),
        figures::over_time(report),
        "<h2>All figures</h2>
"
        .into(),
        lines(&text),
        format!(
            "<p class=\"note\">{}</p>
</main>
",
            escape(&environment.join("; "))
        ),
    ]
    .concat()
}

/// Lines as they stand.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().lines().map(escape).collect();
    format!(
        "<pre class=\"card scroll\">{}</pre>
",
        lines.join(
            "
"
        )
    )
}

/// Text as it may stand in an element or an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in plain(text, TEXT_MAX).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

/// What the run is called: its title, or its first URL.
fn name(report: &Report) -> String {
    let url = report.run.urls.first().map_or("load", String::as_str);
    report.run.title.clone().unwrap_or_else(|| url.to_owned())
}

fn header(report: &Report) -> String {
    let run = &report.run;
    let mut html = format!("<header>\n<h1>{}</h1>\n", escape(&name(report)));
    if let Some(url) = run.urls.first() {
        let more = match run.urls.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", words::several(more as u64, "more URL")),
        };
        let _ = writeln!(
            html,
            "<p><code>{} {}</code>{more}</p>",
            escape(&run.method),
            escape(url)
        );
    }
    let load = words::load(run);
    let seconds = duration(report.seconds * 1e9);
    let started = match run.started_unix_ms {
        0 => String::new(),
        started => format!(" from {}", words::moment(started)),
    };
    let _ = writeln!(html, "<p>{}; {seconds}{started}.</p>", escape(&load));
    if report.interrupted {
        html += "<p><strong>The run was interrupted: these are the figures up to then.</strong></p>\n";
    }
    html + "</header>\n"
}

/// Whether the figures can be trusted, and why.
fn verdict(report: &Report) -> String {
    let verdict = Verdict::of(report);
    let class = match verdict.kind {
        Kind::Clean => "good",
        Kind::Noisy => "doubt",
        Kind::ClientBound | Kind::Errors => "bad",
    };
    let sentences = verdict.reasons.iter().chain(&verdict.notes);
    let sentences: Vec<_> = sentences
        .map(|sentence| format!("<li>{}</li>\n", escape(sentence)))
        .collect();
    let (kind, sentences) = (escape(verdict.kind.name()), sentences.concat());
    format!("<div class=\"verdict {class}\"><strong>Verdict: {kind}</strong>\n<ul>\n{sentences}</ul></div>\n")
}

/// The figures to see first.
fn tiles(report: &Report) -> String {
    let mut tiles = vec![tile(
        "Requests a second",
        &rate(report.per_second),
        &interval(report),
    )];
    if !report.latency_ns.is_empty() {
        let at = |percent| duration(steps::percentile(&report.latency_ns, percent) as f64);
        tiles.push(tile("Half took at most", &at(50.0), "latency, 50 %"));
        tiles.push(tile("99 of 100 took at most", &at(99.0), "latency, 99 %"));
    }
    let failed = count(report.failed());
    let of = format!(
        "{} of {}",
        percent(report.failed(), report.asked()),
        count(report.asked())
    );
    tiles.push(tile("Failed", &failed, &of));
    if let Some(ns) = report.server_ns_per_answer() {
        tiles.push(tile("Server CPU a request", &duration(ns), "all its processes"));
    }
    if let Some(ns) = report.generator_ns_per_answer() {
        let of_threads = report.cpu_seconds / (report.seconds * report.run.threads.max(1) as f64) * 100.0;
        tiles.push(tile(
            "Generator CPU a request",
            &duration(ns),
            &format!("{of_threads:.0} % busy"),
        ));
    }
    format!("<dl class=\"tiles\">\n{}</dl>\n", tiles.concat())
}

fn tile(name: &str, figure: &str, more: &str) -> String {
    format!(
        "<div><dt>{}</dt><dd class=\"figure\">{}</dd><dd class=\"more\">{}</dd></div>\n",
        escape(name),
        escape(figure),
        escape(more)
    )
}

fn interval(report: &Report) -> String {
    report
        .rate_interval()
        .map_or("too short for an interval".into(), |interval| {
            format!("95 % interval {} to {}", rate(interval.low), rate(interval.high))
        })
}

fn footer(reports: &[Report]) -> String {
    let environment = reports.iter().find_map(|report| report.environment.as_ref());
    let version = environment.map_or("", |environment| &environment.version);
    let sum = |of: fn(&Report) -> u64| bytes(reports.iter().map(|report| of(report) as f64).sum());
    let (sent, received) = (sum(|report| report.bytes_out), sum(|report| report.bytes_in));
    format!(
        "<footer>forebay load {}: {sent} sent, {received} received.</footer>\n",
        escape(version)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failure::Class,
        report::{Failure, Stage, fixture::assert_golden},
    };

    /// The elements that are open at the end, after checking that each end tag closes the innermost one.
    fn open_elements(html: &str) -> Vec<String> {
        let mut open: Vec<String> = Vec::new();
        let body = html.split_once("</head>").unwrap().1;
        for tag in body.split('<').skip(1) {
            let tag = tag.split_once('>').expect("every tag ends").0;
            let name = tag
                .split([' ', '/'])
                .find(|part| !part.is_empty())
                .unwrap_or_default();
            if tag.starts_with('/') {
                assert_eq!(
                    open.pop().as_deref(),
                    Some(name),
                    "</{name}> closes something else"
                );
            } else if !tag.ends_with('/') && !matches!(name, "meta" | "br" | "!doctype") {
                open.push(name.to_owned());
            }
        }
        open
    }

    fn hostile() -> Report {
        let evil = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>\u{0}\u{1b}[31m";
        let mut report = Report::example();
        report.run.title = Some(evil.into());
        report.run.urls = vec![format!("http://h/{evil}"), evil.into()];
        report.run.method = evil.into();
        report.first_answer.as_mut().unwrap().server = Some(evil.into());
        report.urls[0].name = evil.into();
        report.failures = vec![Failure {
            class: Class::Mismatch,
            count: 5,
            example: Some(evil.repeat(500)),
        }];
        let environment = report.environment.as_mut().unwrap();
        environment.cpu = Some(evil.into());
        environment.version = evil.into();
        environment.governor = Some(evil.into());
        environment.kernel = Some(evil.into());
        report
    }

    fn empty() -> Report {
        let mut report = Report::example();
        report.seconds = 0.0;
        report.answers = 0;
        report.sent = 0;
        report.per_second = 0.0;
        report.latency_ns.reset();
        report.connecting_ns.reset();
        report.first_byte_ns.reset();
        report.statuses.clear();
        report.failures.clear();
        report.run.urls.clear();
        report.timeline.slices.clear();
        report.environment = None;
        report.usage = None;
        report
    }

    #[test]
    fn pages_are_as_in_their_golden_files() {
        assert_golden("closed.html", &write(&Report::example(), &Options::default()));
        assert_golden("open.html", &write(&Report::example_open(), &Options::default()));
    }

    #[test]
    fn stages_are_marked_where_they_begin() {
        let mut report = Report::example();
        let stage = |at_seconds, load: &str| Stage {
            at_seconds,
            load: load.into(),
        };
        report.run.stages = vec![stage(0.0, "1 to 64 connections"), stage(4.0, "64 <connections>")];
        let page = write(&report, &Options::default());
        assert!(page.contains("0 s: 1 to 64 connections; 4 s: 64 &lt;connections&gt;."));
        assert_eq!(page.matches("<path class=\"mark\" d=\"M400 0V1000\">").count(), 3);
        assert!(page.contains(
            "load in stages, on at most 64 connections: 1 to 64 connections, then 64 &lt;connections&gt;"
        ));
    }

    #[test]
    fn several_runs_are_all_in_the_page() {
        let runs = [Report::example(), Report::example_open(), hostile(), empty()];
        let page = write_all(&runs, "best: <2>", &Options::default());
        assert_eq!(
            open_elements(page.trim_end().trim_end_matches("</html>")),
            [""; 0]
        );
        assert_eq!(page.matches("<details").count(), 4);
        for shown in [
            "4 runs",
            "1: local route",
            "class=\"line run c1\"",
            "class=\"line run c3\"",
        ] {
            assert!(page.contains(shown), "{shown}");
        }
        assert!(!page.contains("NaN") && !page.contains("<script"));
        let many = vec![Report::example(); 40];
        assert!(write_all(&many, "", &Options::default()).contains("40 runs"));
        assert_eq!(
            write_all(&runs[..1], "", &Options::default()),
            write(&runs[0], &Options::default())
        );
    }

    #[test]
    fn what_comes_from_outside_stays_text() {
        let page = write(&hostile(), &Options::default());
        for forbidden in ["<script", "<img", "\u{0}", "\u{1b}"] {
            assert!(!page.contains(forbidden), "{forbidden:?}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)"));
        assert!(page.len() < 400_000, "{} bytes", page.len());
    }

    /// Answers that come in pieces, over TLS.
    fn slow() -> Report {
        let mut report = Report::example();
        report.first_byte_ns.reset();
        report.first_byte_ns.saturating_record_n(100_000, report.answers);
        report.in_pieces = report.answers;
        report.handshakes_ns = report.connecting_ns.clone();
        report
    }

    #[test]
    fn first_bytes_and_openings_have_their_columns() {
        let page = write(&slow(), &Options::default());
        for column in ["whole", "first byte", "opening", "TLS handshake"] {
            assert!(page.contains(&format!("{column:>14}")), "{column}");
        }
    }

    #[test]
    fn every_element_is_closed_and_nothing_is_loaded() {
        for report in [
            Report::example(),
            Report::example_open(),
            slow(),
            hostile(),
            empty(),
        ] {
            let page = write(&report, &Options::default());
            assert!(page.ends_with("</body>\n</html>\n"));
            assert_eq!(
                open_elements(page.trim_end().trim_end_matches("</html>")),
                [""; 0]
            );
            for loads in ["src=", "href=", "url(", "@import", "<link"] {
                assert!(
                    !page.contains(loads) || loads == "src=" && page.contains("src=x onerror"),
                    "{loads}"
                );
            }
            assert!(
                !page.contains("NaN") && !page.contains("inf "),
                "a figure that is none"
            );
        }
    }
}
