//! One request as text: its spans, each with a bar, and the phases that they add up to.

use std::fmt::Write as _;

use super::{
    phases::{PHASES, charge},
    report::{Report, Span},
};

/// Columns of a bar that is as long as the request.
const BAR: usize = 40;
/// Spans that are shown.
const SHOWN_MAX: usize = 60;
/// Characters of a detail that are shown.
const DETAIL_MAX: usize = 48;

/// The timeline of a request.
pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    // A String takes everything.
    let _ = writeln!(
        text,
        "{} {}: {} with {} bytes after {}; route {}, request {}\n",
        report.method,
        report.target,
        report.status,
        report.bytes,
        us(report.total_us),
        report.route,
        report.request_id
    );
    let _ = writeln!(text, "{:>10}  {:>10}", "FROM", "TOOK");
    for span in report.spans.iter().take(SHOWN_MAX) {
        let _ = writeln!(
            text,
            "{:>10}  {:>10}  {}  {:<9}  {}",
            us(span.from_us),
            us(span.took_us),
            bar(span, report.total_us),
            span.kind,
            about(span)
        );
    }
    let more = report.spans.len().saturating_sub(SHOWN_MAX) + report.spans_left_out;
    if more > 0 {
        let _ = writeln!(text, "and {more} more; --json has them, up to 2048 of a request");
    }
    text.push('\n');
    for (phase, charged) in PHASES.iter().zip(charge(report)) {
        if charged > 0.0 {
            let _ = writeln!(
                text,
                "{:>10}  {:>4.1} %  {:<13}  {}",
                us(charged),
                charged / report.total_us * 100.0,
                phase.name,
                phase.meaning
            );
        }
    }
    text
}

/// What a span is about, and what it is made of.
pub(super) fn about(span: &Span) -> String {
    let detail: Vec<&str> = span.detail.split_whitespace().collect();
    let detail = detail.join(" ");
    let mut about: String = detail.chars().take(DETAIL_MAX).collect();
    if about.len() < detail.len() {
        about.push('…');
    }
    // One that goes on piece by piece has the same parts again and again.
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for part in &span.parts {
        match sums.iter_mut().find(|(name, _)| *name == part.name) {
            Some((_, sum)) => *sum += part.took_us,
            None => sums.push((&part.name, part.took_us)),
        }
    }
    let parts: Vec<String> = sums
        .into_iter()
        .map(|(name, sum)| format!("{name} {}", us(sum)))
        .collect();
    if parts.is_empty() {
        about
    } else {
        format!("{about}  ({})", parts.join(", "))
    }
}

/// Where a span lies in its request.
fn bar(span: &Span, total_us: f64) -> String {
    let column = |us: f64| ((us / total_us.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) * BAR as f64) as usize;
    let from = column(span.from_us).min(BAR - 1);
    // The shortest can be seen, too.
    let until = column(span.from_us + span.took_us).clamp(from + 1, BAR);
    format!(
        "{}{}{}",
        "·".repeat(from),
        "█".repeat(until - from),
        "·".repeat(BAR - until)
    )
}

/// A time for readers.
pub(super) fn us(us: f64) -> String {
    if us < 100.0 {
        format!("{us:.1} us")
    } else if us < 10_000.0 {
        format!("{us:.0} us")
    } else {
        format!("{:.1} ms", us / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::phases::tests::report, *};

    #[test]
    fn a_request_is_shown_span_by_span_with_bars_to_scale() {
        let text = text(&report());
        let expected = "\
GET /queries2?queries=2: 200 with 64 bytes after 1000 us; route /queries2, request 1f

      FROM        TOOK
    0.0 us     10.0 us  █·······································  front      the front
   20.0 us     30.0 us  ·██·····································  queue      the queue
";
        let (head, rest) = text.split_at(expected.find("   20.0 us").unwrap());
        assert_eq!(head, &expected[..head.len()]);
        assert!(rest.contains("█"), "{rest}");
        assert!(
            text.contains(
                "statement  select 1 from <t>  (wait 10.0 us, send 40.0 us, server 250 us, hand-over 20.0 us)"
            ),
            "{text}"
        );
        assert!(text.contains("    450 us  45.0 %  sql server"), "{text}");
    }

    #[test]
    fn a_long_request_is_cut_and_says_so() {
        let mut report = report();
        report.spans = vec![report.spans[0].clone(); SHOWN_MAX + 5];
        report.spans_left_out = 2;
        let text = text(&report);
        assert!(text.contains("\nand 7 more; "), "{text}");
    }
}
