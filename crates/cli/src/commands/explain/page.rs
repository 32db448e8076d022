//! Samples as one page for a browser, which loads nothing: a flame graph of the phases of each route, their figures, and two requests.

use std::{fmt::Write as _, time::Duration};

use forebay_load::report::html::{escape, page};

use super::{
    phases::{
        BETWEEN, CODE, FRONT, HANDLER, PHASES, QUEUE, RouteSummary, STATEMENTS, Summary, UPSTREAM, WRITE,
    },
    report::{Report, Span},
    table::remarks,
    timeline::{about, us},
};
use crate::commands::flame_graph::{self, put_box};

const STYLE: &str = include_str!("page.css");
/// Most spans of a request that are drawn.
const DRAWN_MAX: usize = 120;

/// The page of a run.
pub(super) fn html(summary: &Summary, time: Duration) -> String {
    let mut body = format!(
        "<style>{}{STYLE}</style>\n<header>\n<h1>Where the time goes</h1>\n<p>Requests of {time:?}. {}</p>\n</header>\n<main>\n",
        flame_graph::STYLE,
        escape(&remarks(summary)).trim_end()
    );
    for route in &summary.routes {
        put(&mut body, route);
    }
    if summary.routes.is_empty() {
        body.push_str("<p>No request came.</p>\n");
    }
    body.push_str("<h2>Phases</h2>\n<dl class=\"terms\">\n");
    for phase in &PHASES {
        // Writing to a String cannot fail.
        let _ = writeln!(body, "<dt>{}</dt><dd>{}</dd>", phase.name, phase.meaning);
    }
    body.push_str(
        "</dl>\n<p class=\"note\">Each moment of a request is charged to one phase. When several go on, it is the handler's code before statements, and of statements that the server has before others.</p>\n</main>\n",
    );
    page("Where the time goes", &body)
}

fn put(body: &mut String, route: &RouteSummary) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        body,
        "<h2><code>{}</code></h2>\n<p>{} samples, {:.1} statements each: {} on average, p50 {}, p99 {}.</p>",
        escape(&route.name),
        route.samples,
        route.statements,
        us(route.total.mean),
        us(route.total.p50),
        us(route.total.p99)
    );
    body.push_str(&flame(route));
    let _ = write!(
        body,
        "<div class=\"card scroll\"><table><thead><tr><th>phase</th><th class=\"number\">share</th><th class=\"number\">mean</th><th class=\"number\">p50</th><th class=\"number\">p99</th></tr></thead>\n<tbody>\n"
    );
    for (phase, figures) in PHASES.iter().zip(&route.phases) {
        if figures.mean > 0.0 {
            let _ = writeln!(
                body,
                "<tr><th><span class=\"swatch {}\"></span>{}</th><td class=\"number\">{:.1} %</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
                class(phase.name),
                phase.name,
                figures.mean / route.total.mean * 100.0,
                us(figures.mean),
                us(figures.p50),
                us(figures.p99)
            );
        }
    }
    body.push_str("</tbody></table></div>\n");
    for (title, report) in [
        ("The median request", &route.median),
        ("A slow request, p99", &route.slow),
    ] {
        let _ = writeln!(
            body,
            "<h3>{title}: {} in {}</h3>\n{}",
            escape(&format!("{} {}", report.method, report.target)),
            us(report.total_us),
            waterfall(report)
        );
    }
}

/// The mean request as a flame graph: its phases, and their parts.
fn flame(route: &RouteSummary) -> String {
    let mean = |at: usize| route.phases[at].mean;
    let statements: f64 = STATEMENTS.map(mean).sum();
    let work = mean(CODE) + mean(HANDLER) + mean(UPSTREAM) + statements;
    let mut rows = [Row::default(), Row::default(), Row::default(), Row::default()];
    rows[0].put("all", "all", route.total.mean);
    for at in [FRONT, QUEUE] {
        rows[1].put(class(PHASES[at].name), PHASES[at].name, mean(at));
        rows[2].skip(mean(at));
        rows[3].skip(mean(at));
    }
    rows[1].put("work", "work", work);
    for at in [CODE, HANDLER, UPSTREAM] {
        rows[2].put(class(PHASES[at].name), PHASES[at].name, mean(at));
        rows[3].skip(mean(at));
    }
    rows[2].put("sql", "statements", statements);
    for at in STATEMENTS {
        let name = PHASES[at].name;
        rows[3].put(class(name), name.trim_start_matches("sql "), mean(at));
    }
    for at in [BETWEEN, WRITE] {
        rows[1].put(class(PHASES[at].name), PHASES[at].name, mean(at));
    }
    // Without statements the last row is empty.
    let rows = rows.iter().filter(|row| !row.boxes.is_empty());
    let rows: Vec<String> = rows.map(|row| row.html(route.total.mean)).collect();
    flame_graph::figure("The mean request", &rows)
}

/// A row of adjacent boxes.
#[derive(Default)]
struct Row {
    boxes: Vec<(&'static str, String, f64, f64)>,
    at: f64,
}

impl Row {
    fn put(&mut self, class: &'static str, name: &str, took: f64) {
        if took > 0.0 {
            self.boxes.push((class, name.to_owned(), self.at, took));
        }
        self.at += took;
    }

    fn skip(&mut self, took: f64) {
        self.at += took;
    }

    fn html(&self, total: f64) -> String {
        let mut html = String::new();
        for (class, name, from, took) in &self.boxes {
            let (width, percent) = (took / total, took / total * 100.0);
            let report = format!("{name}: {}, {percent:.1} %", us(*took));
            let text = format!("{name} {percent:.0} %");
            put_box(&mut html, class, from / total, width, &report, &text);
        }
        html
    }
}

/// A request's spans, one per row.
fn waterfall(report: &Report) -> String {
    let mut html = String::from("<figure class=\"waterfall\">\n");
    for span in report.spans.iter().take(DRAWN_MAX) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            html,
            "<div class=\"lane\"><span class=\"name\">{} <small>{}</small></span><span class=\"track\">{}</span><span class=\"number\">{}</span></div>",
            escape(&span.kind),
            escape(&span.detail),
            boxes(span, report.total_us),
            us(span.took_us)
        );
    }
    let more = report.spans.len().saturating_sub(DRAWN_MAX) + report.spans_left_out;
    if more > 0 {
        let _ = writeln!(html, "<p class=\"note\">and {more} more</p>");
    }
    html + "</figure>\n"
}

fn boxes(span: &Span, total: f64) -> String {
    let about = escape(&format!(
        "{}: from {}, {}",
        span.kind,
        us(span.from_us),
        about(span)
    ));
    let put = |class: &str, from: f64, took: f64| {
        format!(
            "<i class=\"{class}\" style=\"left:{:.3}%;width:{:.3}%\" title=\"{about}\"></i>",
            from / total * 100.0,
            took / total * 100.0
        )
    };
    if span.parts.is_empty() {
        let class = match span.kind.as_str() {
            "front" => "front",
            "queue" => "queue",
            "running" => "code",
            "handler" => "handler",
            "upstream" => "upstream",
            "write" => "write",
            _ => "between",
        };
        return put(class, span.from_us, span.took_us);
    }
    let mut at = span.from_us;
    let parts = span.parts.iter().map(|part| {
        let from = at;
        at += part.took_us;
        put(class(&format!("sql {}", part.name)), from, part.took_us)
    });
    parts.collect()
}

/// The CSS class of a phase.
fn class(phase: &str) -> &'static str {
    match phase {
        "front" => "front",
        "queue" => "queue",
        "code" => "code",
        "handler" => "handler",
        "upstream" => "upstream",
        "sql wait" => "wait",
        "sql send" => "send",
        "sql server" => "server",
        "sql rows" => "rows",
        "sql hand-over" => "hand-over",
        "write" => "write",
        _ => "between",
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{phases::tests::report, report::Sampled},
        *,
    };

    #[test]
    fn a_page_has_all_it_needs_and_escapes_what_comes_from_outside() {
        let mut report = report();
        report.target = "/<script>alert(1)</script>".into();
        report.route = "/\"><img src=x>".into();
        let summary = Summary::of(&Sampled {
            seen: 1,
            left_out: 0,
            samples: vec![report],
        });
        let html = html(&summary, Duration::from_secs(10));
        for outside in ["<script", "<img", "src=\"", "href=", "url(", "from <t>"] {
            assert!(!html.contains(outside), "{outside} in {html}");
        }
        assert!(html.contains("server 45 %</span>"), "{html}");
        assert!(html.contains("select 1 from &lt;t&gt;"));
        assert_eq!(html.matches("class=\"lane\"").count(), 16);
    }

    #[test]
    fn every_phase_has_a_box_of_its_own_share() {
        let mut report = report();
        let span = |kind: &str, from_us: f64, took_us: f64| Span {
            kind: kind.into(),
            from_us,
            took_us,
            ..report.spans[0].clone()
        };
        report.spans = vec![
            span("front", 0.0, 100.0),
            span("upstream", 100.0, 600.0),
            span("write", 950.0, 50.0),
        ];
        let summary = Summary::of(&Sampled {
            seen: 1,
            left_out: 0,
            samples: vec![report],
        });
        let html = html(&summary, Duration::from_secs(10));
        for share in [
            "front 10 %",
            "work 60 %",
            "upstream 60 %",
            "between 25 %",
            "write 5 %",
        ] {
            assert!(html.contains(&format!("{share}</span>")), "{share} in {html}");
        }
    }
}
