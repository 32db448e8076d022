//! A report for the terminal, at most [`WIDTH`] columns wide. What comes from outside (URLs, the texts of errors, names of servers)
//! reaches the terminal without control characters.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{
    Options, Report, course,
    verdict::{Kind, Verdict},
    words::{self, bytes, count, duration, percent, plain, rate, several},
};

use crate::stats;

/// Columns of the widest line, apart from URLs.
pub const WIDTH: usize = 100;
/// Columns before everything but the headings.
const INDENT: usize = 13;
/// Longest bar of the histogram.
const BAR_WIDTH: usize = 44;
/// Most characters of a URL; a longer one is cut.
const URL_WIDTH_MAX: usize = 300;
/// Most characters of a reason of the verdict.
const SENTENCE_MAX: usize = 600;
/// Most URLs that are listed.
const URLS_MAX: usize = 5;
/// Most characters of a line over time.
const SPARKS_MAX: usize = 60;

/// How a piece of text looks when colour is asked for.
#[derive(Clone, Copy)]
enum Look {
    Heading,
    Strong,
    Faint,
    Good,
    Doubtful,
    Bad,
}

impl Look {
    /// The parameters of the sequence that switches it on (ECMA-48, Select Graphic Rendition).
    const fn parameters(self) -> &'static str {
        match self {
            Self::Heading => "36",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "1;32",
            Self::Doubtful => "1;33",
            Self::Bad => "1;31",
        }
    }
}

/// The report as text, with a line end after every line.
pub fn write(report: &Report, options: &Options) -> String {
    let mut page = Page {
        report,
        options,
        out: String::new(),
    };
    page.what_was_run();
    page.requests();
    page.latency();
    page.statuses();
    page.errors();
    page.transfer();
    page.cpu();
    page.verdict();
    page.out
}

struct Page<'a> {
    report: &'a Report,
    options: &'a Options,
    out: String,
}

impl Page<'_> {
    fn paint(&self, look: Look, text: &str) -> String {
        if self.options.colour {
            format!("\u{1b}[{}m{text}\u{1b}[0m", look.parameters())
        } else {
            text.to_owned()
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// The first line of a section.
    fn section(&mut self, heading: &str, text: &str) {
        let padding = " ".repeat(INDENT.saturating_sub(heading.len()));
        let heading = self.paint(Look::Heading, heading);
        self.line(&format!("{heading}{padding}{text}"));
    }

    /// A further line of a section.
    fn more(&mut self, text: &str) {
        self.line(&format!("{:INDENT$}{text}", ""));
    }

    fn what_was_run(&mut self) {
        let run = &self.report.run;
        if let Some(title) = &run.title {
            let title = self.paint(Look::Strong, &plain(title, WIDTH));
            self.line(&title);
        }
        for url in run.urls.iter().take(URLS_MAX) {
            self.line(&format!(
                "{} {}",
                plain(&run.method, 20),
                plain(url, URL_WIDTH_MAX)
            ));
        }
        if run.urls.len() > URLS_MAX {
            self.line(&format!(
                "and {}",
                several((run.urls.len() - URLS_MAX) as u64, "more URL")
            ));
        }
        for line in wrap(&words::load(run), WIDTH) {
            self.line(&line);
        }
        let mut also = vec![several(run.threads as u64, "thread")];
        if run.started_unix_ms > 0 {
            also.push(format!("began {}", words::moment(run.started_unix_ms)));
        }
        if !run.keep_alive {
            also.push("a new connection for every request".into());
        }
        if run.body_bytes > 0 {
            also.push(format!("{} body a request", bytes(run.body_bytes as f64)));
        }
        if let Some(server) = &run.server {
            also.push(format!("server {}", plain(server, 40)));
        }
        if self.report.warm_up_requests > 0 {
            let warm_up = several(self.report.warm_up_requests, "request");
            also.push(format!("warmed up with {warm_up}, which do not count"));
        }
        for line in wrap(&also.join(", "), WIDTH) {
            self.line(&line);
        }
        if self.report.interrupted {
            let text = self.paint(Look::Doubtful, "interrupted: these are the figures up to then");
            self.line(&text);
        }
        self.line("");
    }

    fn requests(&mut self) {
        let report = self.report;
        let per_second = self.paint(Look::Strong, &rate(report.per_second));
        let interval = report.rate_interval().map_or(String::new(), |interval| {
            format!(
                " (95 % interval {} to {})",
                rate(interval.low),
                rate(interval.high)
            )
        });
        self.section("Requests", &format!("{per_second} a second{interval}"));
        let answers = several(report.answers, "answer");
        let seconds = duration(report.seconds * 1e9);
        let sent = several(report.sent, "request");
        self.more(&format!("{answers} in {seconds}; {sent} sent"));
        if report.lag_max_ns > 0 {
            let lag = duration(report.lag_max_ns as f64);
            self.more(&format!("sent at most {lag} after they were due"));
        }
        let steps = course::steps(report);
        let rates: Vec<f64> = steps
            .iter()
            .filter(|step| step.whole)
            .map(|step| step.per_second)
            .collect();
        if rates.len() > 1 {
            let (low, high) = rates.iter().fold((f64::MAX, 0.0_f64), |(low, high), &rate| {
                (low.min(rate), high.max(rate))
            });
            let slice = duration(report.timeline.slice_ns as f64);
            self.more(&sparks(&rates));
            self.more(&format!(
                "lowest {}, highest {} a second in slices of {slice}",
                rate(low),
                rate(high)
            ));
        }
        self.line("");
    }

    fn latency(&mut self) {
        let report = self.report;
        let latency = &report.latency_ns;
        let from = wrap(words::latency_from(&report.run), WIDTH - INDENT);
        self.section("Latency", &from[0]);
        for line in &from[1..] {
            self.more(line);
        }
        if latency.is_empty() {
            self.more("nothing was answered");
            self.line("");
            return;
        }
        let columns: Vec<_> = std::iter::once(latency).chain(&report.service_ns).collect();
        let names: &[_] = if columns.len() > 1 {
            &["from due", "from sent"]
        } else {
            &[""]
        };
        let names: Vec<_> = names.iter().map(|name| format!("{name:>14}")).collect();
        let intervals = report.latency_intervals(&self.options.percentiles);
        let of = if intervals.iter().any(Option::is_some) {
            "95 % interval"
        } else {
            ""
        };
        let of = if columns.len() > 1 && !of.is_empty() {
            "95 % interval from due"
        } else {
            of
        };
        let head = format!("{:9}{}   {of}", "", names.concat());
        if !head.trim().is_empty() {
            let head = self.paint(Look::Faint, head.trim_end());
            self.more(&head);
        }
        let row = |name: &str, value: &dyn Fn(&Histogram<u64>) -> f64| {
            columns.iter().fold(format!("{name:>9}"), |mut row, histogram| {
                let (number, unit) = words::duration_parts(value(histogram));
                let _ = write!(row, "{number:>11} {unit:<2}");
                row
            })
        };
        let mut rows = vec![row("least", &|histogram| histogram.min() as f64)];
        for (&percent, interval) in self.options.percentiles.iter().zip(&intervals) {
            let name = format!("{} %", words::percentile(percent));
            let mut row = row(&name, &|histogram| course::percentile(histogram, percent) as f64);
            let how_sure = match interval {
                Some(interval) => format!("   {} to {}", duration(interval.low), duration(interval.high)),
                None if stats::enough_samples(percent, latency.len()) => String::new(),
                None => "   rests on fewer than 10 slower answers".into(),
            };
            row.push_str(&self.paint(Look::Faint, &how_sure));
            rows.push(row);
        }
        rows.push(row("most", &|histogram| histogram.max() as f64));
        rows.push(row("mean", &Histogram::mean));
        rows.push(row("stddev", &Histogram::stdev));
        for row in &rows {
            self.more(row);
        }
        self.line("");
        self.histogram();
    }

    fn histogram(&mut self) {
        let rows = ranges(&self.report.latency_ns);
        let most = rows.iter().map(|row| row.count).max().unwrap_or_default();
        let all = self.report.latency_ns.len();
        for row in rows {
            let name = match row.to_ns {
                Some(to) => format!("{} to {}", short(row.from_ns), short(to)),
                None => format!("over {}", short(row.from_ns)),
            };
            let bar = bar(row.count, most);
            let share = match 100.0 * row.count as f64 / all as f64 {
                share if share < 0.005 && row.count > 0 => "<0.01".into(),
                share => format!("{share:.2}"),
            };
            self.more(&format!("{name:>19} {bar:<BAR_WIDTH$} {share:>6} %"));
        }
        self.line("");
    }

    fn statuses(&mut self) {
        let total: u64 = self.report.statuses.iter().map(|(_, count)| count).sum();
        for (at, &(status, number)) in self.report.statuses.iter().enumerate() {
            let text = format!("{status:<5} {:>15}   {}", count(number), percent(number, total));
            match at {
                0 => self.section("Statuses", &text),
                _ => self.more(&text),
            }
        }
        self.line("");
    }

    fn errors(&mut self) {
        let report = self.report;
        if report.failures.is_empty() {
            let none = self.paint(Look::Good, "none");
            self.section("Errors", &none);
            self.line("");
            return;
        }
        let (failed, asked) = (report.failed(), report.asked());
        let total = self.paint(Look::Bad, &count(failed));
        let requests = several(asked, "request");
        self.section(
            "Errors",
            &format!("{total} of {requests}, {}", percent(failed, asked)),
        );
        for failure in &report.failures {
            let start = format!("{:<16} {:>11}", failure.class.name(), count(failure.count));
            let room = WIDTH - INDENT - start.len() - 3;
            let example = failure.example.as_deref().unwrap_or_default();
            self.more(&format!("{start}   {}", plain(example, room)));
        }
        self.line("");
    }

    fn transfer(&mut self) {
        let report = self.report;
        let (bytes_in, bytes_out) = (report.bytes_in as f64, report.bytes_out as f64);
        let mut text = format!("{} in, {} out", bytes(bytes_in), bytes(bytes_out));
        if report.answers > 0 {
            let answers = report.answers as f64;
            let (each, body) = (
                bytes(bytes_in / answers),
                bytes(report.body_bytes_in as f64 / answers),
            );
            let _ = write!(text, "; {each} an answer, {body} of it the body");
        }
        self.section("Bytes", &text);
        let mut text = format!("{} opened", count(report.connects));
        if !report.connecting_ns.is_empty() {
            let half = duration(course::percentile(&report.connecting_ns, 50.0) as f64);
            let most = duration(report.connecting_ns.max() as f64);
            let _ = write!(text, "; opening took {half} (median), {most} at most");
        }
        self.section("Connections", &text);
        self.line("");
    }

    fn cpu(&mut self) {
        let report = self.report;
        if let Some(ns) = report.generator_ns_per_answer() {
            let (cpu, threads) = (duration(ns), several(report.run.threads as u64, "thread"));
            let busy = report.cpu_seconds / (report.seconds * report.run.threads.max(1) as f64) * 100.0;
            let text = format!("{cpu} of CPU a request; {busy:.0} % busy on {threads}");
            self.section("Generator", &text);
        }
        if let Some(server) = report.usage.as_ref().and_then(|usage| usage.server) {
            let cpu = report.server_ns_per_answer().map_or("no answer".into(), duration);
            let (processes, memory) = (
                several(server.processes as u64, "process"),
                bytes(server.rss_bytes as f64),
            );
            let text = format!("{cpu} of CPU a request; {processes}, {memory} resident");
            self.section("Server", &text);
        }
        if let Some(machine) = &report.environment {
            let mut facts = vec![several(machine.cores as u64, "core")];
            facts.extend(
                report
                    .usage
                    .as_ref()
                    .and_then(|usage| usage.busy_share)
                    .map(|busy| format!("{:.0} % busy", busy * 100.0)),
            );
            facts.extend(
                [&machine.cpu, &machine.kernel]
                    .into_iter()
                    .flatten()
                    .map(|text| plain(text, 60)),
            );
            for (at, line) in wrap(&facts.join(", "), WIDTH - INDENT).iter().enumerate() {
                self.section(if at == 0 { "Machine" } else { "" }, line);
            }
        }
        self.line("");
    }

    fn verdict(&mut self) {
        let verdict = Verdict::of(self.report);
        let look = match verdict.kind {
            Kind::Clean => Look::Good,
            Kind::Noisy => Look::Doubtful,
            Kind::ClientBound | Kind::Errors => Look::Bad,
        };
        let kind = self.paint(look, verdict.kind.name());
        self.section("Verdict", &kind);
        for sentence in verdict.reasons.iter().chain(&verdict.notes) {
            for (at, line) in wrap(&plain(sentence, SENTENCE_MAX), WIDTH - INDENT - 2)
                .iter()
                .enumerate()
            {
                self.more(&format!("{} {line}", if at == 0 { '-' } else { ' ' }));
            }
        }
    }
}

/// Lines of at most so many columns, broken between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// One character for each part of the run; its height is that of the lowest rate in it, from 0 to the highest of the run. A mean
/// would hide a short stall.
fn sparks(rates: &[f64]) -> String {
    let most = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let parts = rates.chunks(rates.len().div_ceil(SPARKS_MAX).max(1));
    let lowest = parts.map(|part| part.iter().copied().fold(most, f64::min));
    lowest
        .map(|rate| {
            ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][((rate / most * 8.0).round() as usize).clamp(1, 8) - 1]
        })
        .collect()
}

/// A bar as long as its part of the longest, to an eighth of a column; never empty for something.
fn bar(number: u64, most: u64) -> String {
    let eighths = (number as f64 / most.max(1) as f64 * (BAR_WIDTH * 8) as f64).round() as usize;
    let eighths = if number > 0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
    bar
}

/// Latencies from one value up to another.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    from_ns: u64,
    /// `None`: everything above.
    to_ns: Option<u64>,
    count: u64,
}

/// Most rows of the histogram, apart from the last one.
const RANGES_MAX: usize = 10;

/// The steps within a power of ten, from the finest to the coarsest.
const LADDERS: [&[u64]; 5] = [
    &[10, 12, 15, 20, 25, 30, 40, 50, 60, 80],
    &[10, 15, 20, 30, 50, 70],
    &[10, 20, 50],
    &[10, 30],
    &[10],
];

/// The distribution in a few ranges with round edges: finely up to the 99th percentile, where most answers are, and what is slower
/// in one.
fn ranges(latency: &Histogram<u64>) -> Vec<Range> {
    let (least, most) = (latency.min().max(10), course::percentile(latency, 99.0));
    let edges = LADDERS.iter().map(|ladder| edges(ladder, least, most));
    let edges = edges
        .min_by_key(|edges| edges.len().saturating_sub(RANGES_MAX + 1))
        .unwrap_or_default();
    let mut counted = 0;
    let mut ranges: Vec<Range> = edges
        .windows(2)
        .map(|pair| {
            let from_ns = pair[0];
            // All that was counted before lies below, whatever bucket the edge is in: nothing is counted twice or left out.
            let below = latency.count_between(0, pair[1].saturating_sub(1));
            let count = below - counted;
            counted = below;
            Range {
                from_ns,
                to_ns: Some(pair[1]),
                count,
            }
        })
        .collect();
    if counted < latency.len() {
        ranges.push(Range {
            from_ns: edges.last().copied().unwrap_or_default(),
            to_ns: None,
            count: latency.len() - counted,
        });
    }
    ranges
}

/// Round values, the first at or below `least`, the last above `most`.
fn edges(ladder: &[u64], least: u64, most: u64) -> Vec<u64> {
    let decades = (0..11).map(|power| 10_u64.pow(power));
    let all: Vec<u64> = decades
        .flat_map(|decade| ladder.iter().map(move |step| step * decade))
        .collect();
    let first = all.partition_point(|&edge| edge <= least).saturating_sub(1);
    let last = all.partition_point(|&edge| edge <= most).min(all.len() - 1);
    all[first..=last].to_vec()
}

/// A round duration without decimals that it does not have.
fn short(ns: u64) -> String {
    let (number, unit) = words::duration_parts(ns as f64);
    let number = match number.split_once('.') {
        Some(_) => number.trim_end_matches('0').trim_end_matches('.'),
        None => &number,
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::assert_golden;

    #[test]
    fn a_closed_load_reads_as_in_its_golden_file() {
        assert_golden("text-closed.txt", &write(&Report::example(), &Options::default()));
    }

    #[test]
    fn an_open_load_shows_waiting_and_service_side_by_side() {
        assert_golden(
            "text-open.txt",
            &write(&Report::example_open(), &Options::default()),
        );
    }

    #[test]
    fn no_line_is_too_wide_and_colour_changes_no_word() {
        for report in [Report::example(), Report::example_open()] {
            let plain = write(&report, &Options::default());
            for line in plain.lines() {
                assert!(line.chars().count() <= WIDTH, "{line:?}");
            }
            let coloured = write(
                &report,
                &Options {
                    colour: true,
                    ..Options::default()
                },
            );
            let mut parts = coloured.split("\u{1b}[");
            let first = parts.next().unwrap_or_default().to_owned();
            let rest = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
            assert_eq!(rest.fold(first, |all, part| all + part), plain);
        }
    }

    #[test]
    fn a_run_without_answers_has_a_report_too() {
        let mut report = Report::example();
        report.answers = 0;
        report.per_second = 0.0;
        report.statuses.clear();
        report.latency_ns.reset();
        report.connecting_ns.reset();
        report.timeline.slices.clear();
        let text = write(&report, &Options::default());
        assert!(text.contains("nothing was answered"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn ranges_hold_every_answer_once() {
        for report in [Report::example(), Report::example_open()] {
            let ranges = ranges(&report.latency_ns);
            assert!(ranges.len() <= RANGES_MAX + 1, "{ranges:?}");
            assert_eq!(
                ranges.iter().map(|range| range.count).sum::<u64>(),
                report.latency_ns.len()
            );
            assert!(
                ranges
                    .windows(2)
                    .all(|pair| pair[0].to_ns == Some(pair[1].from_ns))
            );
        }
        let mut extremes = crate::engine::latencies();
        assert_eq!(ranges(&extremes), []);
        extremes.saturating_record(0);
        extremes.saturating_record(u64::MAX);
        assert_eq!(ranges(&extremes).iter().map(|range| range.count).sum::<u64>(), 2);
    }
}
