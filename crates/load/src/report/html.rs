//! A report as one page for a browser: no script, no other file, nothing loaded from anywhere. It is read on a phone, in the dark and on
//! paper too. Whatever comes from outside (URLs, names, the texts of errors) is escaped, and the page forbids scripts altogether.

pub mod chart;

use self::chart::{Drawing, Scale};
use super::{
    Options, Report,
    format::{duration, plain, several, short_duration},
    percentile, text,
};

/// Most characters that are shown of a text from outside.
const TEXT_MAX: usize = 2_000;
const STYLE: &str = include_str!("html/page.css");
/// Points of the curve of percentiles.
const POINTS: u32 = 120;

/// The page of one run or several: for each its text, and the distribution of its latency. `found` is the result of a search, or empty.
pub fn write(reports: &[Report], found: &str, options: &Options) -> String {
    let title = match reports {
        [] => "forebay load".to_owned(),
        [report] => name(report),
        _ => several(reports.len() as u64, "run"),
    };
    let mut body = format!("<main>\n<h1>{}</h1>\n", escape(&title));
    if !found.is_empty() {
        body += &lines(found);
    }
    for report in reports {
        body += &lines(&text::write(report, options));
        body += &latency(report);
    }
    page(&title, &(body + "</main>\n"))
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

/// Lines of text, unchanged.
pub fn lines(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().lines().map(escape).collect();
    format!("<pre class=\"card scroll\">{}</pre>\n", lines.join("\n"))
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

/// Name of the run: its title, or its first URL.
fn name(report: &Report) -> String {
    let url = report.run.urls.first().map_or("load", String::as_str);
    report.run.title.clone().unwrap_or_else(|| url.to_owned())
}

/// The distribution of latency.
fn latency(report: &Report) -> String {
    let latency = &report.latency_ns;
    if latency.is_empty() {
        return String::new();
    }
    let curves =
        || std::iter::once(("one", latency)).chain(report.service_ns.as_ref().map(|one| ("two", one)));
    let least = curves().map(|(_, histogram)| histogram.min()).min();
    let says = format!(
        "Latency by percentile: 50 % {}, 99 % {}, longest {}",
        duration(percentile(latency, 50.0) as f64),
        duration(percentile(latency, 99.0) as f64),
        duration(latency.max() as f64)
    );
    let x = Scale::nines(latency.len());
    let end = x.high();
    let y = Scale::logarithmic(
        least.unwrap_or_default() as f64,
        latency.max() as f64,
        short_duration,
    );
    let mut drawing = Drawing::new("So many percent of answers took at most", &says, x, y);
    let nines = |part: u32| end * f64::from(part) / f64::from(POINTS);
    let percent = |nines: f64| 100.0 * (1.0 - 10_f64.powf(-nines));
    for (class, histogram) in curves() {
        let points = (0..=POINTS).map(nines);
        let points = points.map(|nines| (nines, percentile(histogram, percent(nines)) as f64));
        drawing.line(class, &points.collect::<Vec<_>>());
    }
    if report.service_ns.is_some() {
        drawing.name("one", "from when due");
        drawing.name("two", "from when sent");
    }
    drawing.write()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{failure::Class, report::Failure};

    fn of(report: &Report) -> String {
        write(std::slice::from_ref(report), "", &Options::default())
    }

    /// The elements that are open at the end, after checking that each end tag closes the innermost one.
    fn open_elements(html: &str) -> Vec<String> {
        let mut open: Vec<String> = Vec::new();
        let body = html.split_once("</head>").unwrap().1;
        for tag in body.split('<').skip(1) {
            let tag = tag.split_once('>').expect("every tag ends").0;
            let name = tag.split([' ', '/']).find(|part| !part.is_empty());
            let name = name.unwrap_or_default();
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
        report.failures = vec![Failure {
            class: Class::Mismatch,
            count: 5,
            example: Some(evil.repeat(500)),
        }];
        let environment = report.environment.as_mut().unwrap();
        environment.cpu = Some(evil.into());
        environment.kernel = Some(evil.into());
        report
    }

    #[test]
    fn a_page_has_the_text_and_the_curve_of_each_run() {
        let runs = [
            Report::example(),
            Report::example_open(),
            hostile(),
            Report::empty(),
        ];
        let page = write(&runs, "best: <2>", &Options::default());
        assert!(page.contains("4 runs") && page.contains("best: &lt;2&gt;"));
        let text = text::write(&runs[1], &Options::default());
        assert!(page.contains(&lines(&text)), "the text as it is");
        assert_eq!(
            page.matches("<figure>").count(),
            3,
            "one for each run with answers"
        );
        assert!(page.contains("from when due") && of(&runs[0]).contains("<h1>local route</h1>"));
    }

    #[test]
    fn what_comes_from_outside_stays_text_and_nothing_is_loaded() {
        for report in [
            Report::example(),
            Report::example_open(),
            hostile(),
            Report::empty(),
        ] {
            let page = of(&report);
            assert!(page.ends_with("</body>\n</html>\n") && page.len() < 100_000);
            assert_eq!(
                open_elements(page.trim_end().trim_end_matches("</html>")),
                [""; 0]
            );
            for forbidden in [
                "<script", "<img", "\u{0}", "\u{1b}", "href=", "url(", "@import", "<link", "NaN", "inf ",
            ] {
                assert!(!page.contains(forbidden), "{forbidden:?}");
            }
        }
        assert!(of(&hostile()).contains("&lt;script&gt;alert(1)"));
    }
}
