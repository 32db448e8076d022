//! Outcomes in the forms that build servers read.

use std::fmt::Write as _;

use super::Outcome;
use crate::report::{Report, verdict::Verdict, words};

/// Most characters of a text from outside.
const TEXT_MAX: usize = 300;

/// The outcomes as one test suite of `JUnit` XML, a test for each assertion. The form is that of the XML formatter of Apache Ant, which GitLab,
/// Jenkins and others read.
pub fn junit(report: &Report, outcomes: &[Outcome]) -> String {
    let broken = outcomes.iter().filter(|outcome| !outcome.held).count();
    let (name, number) = (
        xml(report.run.title.as_deref().unwrap_or("forebay load")),
        outcomes.len(),
    );
    let class = xml(report.run.urls.first().map_or("", String::as_str));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!("tests=\"{number}\" failures=\"{broken}\"");
    let suite = format!(
        "name=\"{name}\" {counts} errors=\"0\" skipped=\"0\" time=\"{:.3}\"",
        report.seconds
    );
    let _ = writeln!(out, "<testsuites {counts}>\n  <testsuite {suite}>");
    for outcome in outcomes {
        let (test, found) = (xml(&outcome.assertion), xml(&outcome.found));
        let _ = write!(
            out,
            "    <testcase name=\"{test}\" classname=\"{class}\" time=\"0\""
        );
        let end = if outcome.held {
            format!("<system-out>{found}</system-out>")
        } else {
            format!("<failure type=\"assertion\" message=\"{found}\">{test}: {found}</failure>")
        };
        let _ = writeln!(out, ">\n      {end}\n    </testcase>");
    }
    out += "  </testsuite>\n</testsuites>\n";
    out
}

/// The run, its verdict and the outcomes as Markdown, for the page of a GitHub job (the file that `GITHUB_STEP_SUMMARY` names).
pub fn summary(report: &Report, verdict: &Verdict, outcomes: &[Outcome]) -> String {
    let title = report.run.title.as_deref().unwrap_or("forebay load");
    let mut out = format!("### {}\n\n", markdown(title));
    if let Some(url) = report.run.urls.first() {
        let _ = writeln!(out, "{} {}  ", markdown(&report.run.method), markdown(url));
    }
    let _ = writeln!(out, "{}\n", words::load(&report.run));
    let latency = |percentile: f64| words::duration(report.latency_ns.value_at_quantile(percentile) as f64);
    out += "| Requests a second | p50 | p99 | max | Failed |\n|---:|---:|---:|---:|---:|\n";
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {} |\n",
        words::rate(report.per_second),
        latency(0.5),
        latency(0.99),
        latency(1.0),
        words::percent(report.failed(), report.asked()),
    );
    let _ = writeln!(out, "**{}**\n", verdict.kind.name());
    for sentence in verdict.reasons.iter().chain(&verdict.notes) {
        let _ = writeln!(out, "- {}", markdown(sentence));
    }
    if !outcomes.is_empty() {
        out += "\n| Assertion | Found | |\n|---|---|---|\n";
    }
    for outcome in outcomes {
        let held = if outcome.held { "held" } else { "**broken**" };
        let _ = writeln!(
            out,
            "| `{}` | {} | {held} |",
            outcome.assertion.replace(['`', '|'], " "),
            markdown(&outcome.found)
        );
    }
    out
}

/// Text within an attribute or an element; what XML 1.0 has no form for is left out.
fn xml(text: &str) -> String {
    let plain = words::plain(text, TEXT_MAX);
    let mut out = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\u{fffe}' | '\u{ffff}' => {}
            other => out.push(other),
        }
    }
    out
}

/// Text in one line of Markdown that looks as it is written.
fn markdown(text: &str) -> String {
    let mut out = String::new();
    for character in words::plain(text, TEXT_MAX).chars() {
        match character {
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => out.extend(['\\', character]),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        assert::{Measured, judge, parse},
        fixture::assert_golden,
    };

    fn outcomes(report: &Report) -> Vec<Outcome> {
        judge(
            &parse("p50<1ms,p99<1ms,errors<0.1%").unwrap(),
            &Measured::new(report, None),
        )
    }

    #[test]
    fn outcomes_are_written_as_junit() {
        let report = Report::example();
        assert_golden("assert.junit.xml", &junit(&report, &outcomes(&report)));
    }

    #[test]
    fn outcomes_are_written_as_a_summary() {
        let report = Report::example();
        let verdict = Verdict::of(&report);
        assert_golden(
            "assert.summary.md",
            &summary(&report, &verdict, &outcomes(&report)),
        );
    }

    #[test]
    fn text_from_outside_stays_text() {
        assert_eq!(xml("a<b>&\"\u{1}\u{ffff}"), "a&lt;b&gt;&amp;&quot; ");
        assert_eq!(markdown("a|b\n<script>*"), "a\\|b &lt;script>\\*");
        let mut report = Report::example();
        report.run.title = Some("]]><x a=\"".into());
        assert!(junit(&report, &[]).contains("name=\"]]&gt;&lt;x a=&quot;\""));
    }
}
