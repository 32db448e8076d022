//! A report for the terminal, at most [`WIDTH`] columns wide. What comes from outside (URLs, the texts of errors, names of servers)
//! reaches the terminal without control characters.

mod draw;

use std::fmt::Write as _;

use hdrhistogram::Histogram;

pub(super) use self::draw::wrap;
use self::draw::{bar, sparks};
use super::{
    Options, Report, UrlFigures, connections,
    ranges::ranges,
    steps,
    verdict::{Kind, Verdict},
    words::{self, bytes, count, duration, percent, plain, rate, several, short_duration},
};

use crate::{plan::Engine, stats};

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
/// Most rows of the table of requests.
const URL_ROWS_MAX: usize = 20;
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
    page.urls();
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
        let mut also = vec![match run.engine {
            Engine::IoUring => format!("{}, io_uring", several(run.threads as u64, "thread")),
            Engine::Auto | Engine::Epoll => several(run.threads as u64, "thread"),
        }];
        if run.started_unix_ms > 0 {
            also.push(format!("began {}", words::moment(run.started_unix_ms)));
        }
        if !run.keep_alive {
            also.push("a new connection for every request".into());
        }
        if run.body_bytes > 0 {
            also.push(format!("{} body a request", bytes(run.body_bytes as f64)));
        }
        if let Some(server) = self.report.server() {
            also.push(format!("server {}", plain(server, 40)));
        }
        if self.report.warm_up.seconds > 0.0 {
            let warm_up = words::warm_up(&self.report.warm_up);
            also.push(format!("warm-up {warm_up}, which do not count"));
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
        if report.under_way > 0 {
            let before = several(report.under_way, "request");
            self.more(&format!("{before} sent before were under way at the start"));
        }
        if report.lag_max_ns > 0 {
            let lag = duration(report.lag_max_ns as f64);
            self.more(&format!("sent at most {lag} after they were due"));
        }
        let steps = steps::of(report);
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
        let columns = report.latencies();
        let names = columns.iter().map(|(name, _)| format!("{name:>14}"));
        let names: Vec<_> = names.collect();
        let intervals = report.latency_intervals(&self.options.percentiles);
        let of = if intervals.iter().any(Option::is_some) {
            "95 % interval"
        } else {
            ""
        };
        let of = if columns.len() > 1 && !of.is_empty() {
            format!("{of} {}", columns[0].0)
        } else {
            of.to_owned()
        };
        let head = format!("{:9}{}   {of}", "", names.concat());
        if !head.trim().is_empty() {
            let head = self.paint(Look::Faint, head.trim_end());
            self.more(&head);
        }
        let row = |name: &str, value: &dyn Fn(&Histogram<u64>) -> f64| row(&columns, name, value);
        let mut rows = vec![row("least", &|histogram| histogram.min() as f64)];
        for (&percent, interval) in self.options.percentiles.iter().zip(&intervals) {
            let name = format!("{} %", words::percentile(percent));
            let mut row = row(&name, &|histogram| steps::percentile(histogram, percent) as f64);
            let how_sure = match interval {
                Some(interval) => format!("   {} to {}", duration(interval.low), duration(interval.high)),
                None if stats::enough_samples(percent, latency.len()) => String::new(),
                None if columns.len() > 2 => "   rests on fewer than 10 slower".into(),
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
                Some(to) => format!(
                    "{} to {}",
                    short_duration(row.from_ns as f64),
                    short_duration(to as f64)
                ),
                None => format!("over {}", short_duration(row.from_ns as f64)),
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

    fn urls(&mut self) {
        let report = self.report;
        let said = common_prefix(&report.urls);
        for (at, url) in report.urls.iter().enumerate() {
            if at == 0 {
                let head = format!("{:>14}{:>10}{:>14}{:>14}", "answers", "failed", "50 %", "99 %");
                let head = self.paint(Look::Faint, &head);
                self.section("Each request", &head);
            }
            if at == URL_ROWS_MAX {
                let more = several((report.urls.len() - at) as u64, "more request");
                self.more(&format!("and {more}; --json has all"));
                break;
            }
            let took = |percent| {
                if url.latency_ns.is_empty() {
                    return "none".to_owned();
                }
                duration(steps::percentile(&url.latency_ns, percent) as f64)
            };
            let figures = format!(
                "{:>14}{:>10}{:>14}{:>14}",
                count(url.answers),
                count(url.failures),
                took(50.0),
                took(99.0)
            );
            let name = plain(&url.name[said..], WIDTH - INDENT - figures.len() - 3);
            self.more(&format!("{figures}   {name}"));
        }
        if !report.urls.is_empty() {
            self.line("");
        }
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
        self.section("Connections", &connections::facts(report));
        self.openings();
        self.line("");
    }

    /// How long it took to open connections.
    fn openings(&mut self) {
        let report = self.report;
        let all = &report.connecting_ns;
        let columns = report.detailed_openings();
        if all.is_empty() {
            return;
        }
        if columns.is_empty() {
            let half = duration(steps::percentile(all, 50.0) as f64);
            let most = duration(all.max() as f64);
            self.more(&format!("opening took {half} (median), {most} at most"));
            return;
        }
        let names: Vec<_> = columns.iter().map(|(name, _)| format!("{name:>14}")).collect();
        let head = format!("{:9}{}", "", names.concat());
        let head = self.paint(Look::Faint, &head);
        self.more(&head);
        self.more(&row(&columns, "least", &|histogram| histogram.min() as f64));
        for percent in [50.0, 90.0, 99.0] {
            let name = format!("{percent} %");
            let value = |histogram: &Histogram<u64>| steps::percentile(histogram, percent) as f64;
            self.more(&row(&columns, &name, &value));
        }
        self.more(&row(&columns, "most", &|histogram| histogram.max() as f64));
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
            if let Some(capacity) = report.capacity() {
                let (alone, shared) = (rate(capacity.alone), rate(capacity.shared));
                self.more(&format!(
                    "CPU for {alone} answers a second on all cores, {shared} with the generator on them"
                ));
            }
            let (waits, taken) = (
                count(server.voluntary_switches),
                count(server.involuntary_switches),
            );
            self.more(&format!(
                "its threads gave up a core {waits} times, and one was taken from them {taken} times"
            ));
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
        if let Some(first) = &report.first_answer {
            self.section("First answer", &first.line());
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

/// A figure of each of several distributions, below their names.
fn row(columns: &[(&str, &Histogram<u64>)], name: &str, value: &dyn Fn(&Histogram<u64>) -> f64) -> String {
    columns
        .iter()
        .fold(format!("{name:>9}"), |mut row, (_, histogram)| {
            let (number, unit) = words::duration_parts(value(histogram));
            let _ = write!(row, "{number:>11} {unit:<2}");
            row
        })
}

/// Bytes that all names begin with, up to where their paths begin: method and server are told above the table.
fn common_prefix(urls: &[UrlFigures]) -> usize {
    let server = |url: &UrlFigures| {
        let slashes = url.name.match_indices('/').map(|(at, _)| at);
        url.name[..slashes.take(3).nth(2).unwrap_or(0)].to_owned()
    };
    let Some(first) = urls.first().map(server) else {
        return 0;
    };
    if urls.iter().all(|url| server(url) == first) {
        first.len()
    } else {
        0
    }
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

    /// Answers that come in pieces, over TLS, after a warm-up.
    fn slow() -> Report {
        let mut report = Report::example_open();
        report.first_byte_ns.reset();
        report.first_byte_ns.saturating_record_n(100_000, report.answers);
        report.in_pieces = report.answers;
        report.handshakes_ns = report.connecting_ns.clone();
        (report.held, report.connects_failed, report.under_way) = (128, 7, 99);
        report
    }

    #[test]
    fn first_bytes_openings_and_what_was_there_before_are_shown() {
        let text = write(&slow(), &Options::default());
        for part in [
            "  2,370,000 answers in 10.00 s; 2,370,005 requests sent\n             99 requests sent before were under way at the start\n",
            "                            from due     from sent    first byte   95 % interval from due\n",
            "                  50 %      214.7 us      213.8 us      100.0 us   214.0 us to 216.1 us\n",
            "\nConnections  128 held from before, 67 opened, 7 failed; 12,154 requests on each\n                             opening TLS handshake\n",
            "\n                  50 %      192.5 us      192.5 us\n",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    #[test]
    fn no_line_is_too_wide_and_colour_changes_no_word() {
        for report in [Report::example(), Report::example_open(), slow()] {
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
}
