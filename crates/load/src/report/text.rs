//! A report for the terminal, at most [`WIDTH`] columns wide. Text from outside (URLs, the texts of errors) reaches the terminal without
//! control characters.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{
    Options, Report,
    format::{self, bytes, count, duration, percent, plain, rate, several},
    percentile,
    verdict::Verdict,
};
use crate::{plan::Engine, stats};

/// Widest line in columns, except for URLs.
pub const WIDTH: usize = 100;
/// Indentation of everything except headings.
const INDENT: usize = 13;
/// Most characters of a URL; a longer one is cut.
const URL_WIDTH_MAX: usize = 300;
/// Most characters of a reason of the verdict.
const SENTENCE_MAX: usize = 600;
/// Most URLs that are listed.
const URLS_MAX: usize = 5;

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
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// The first line of a section.
    fn section(&mut self, heading: &str, text: &str) {
        self.line(&format!("{heading:INDENT$}{text}"));
    }

    /// A further line of a section.
    fn more(&mut self, text: &str) {
        self.section("", text);
    }

    fn what_was_run(&mut self) {
        let run = &self.report.run;
        if let Some(title) = &run.title {
            self.line(&plain(title, WIDTH));
        }
        for url in run.urls.iter().take(URLS_MAX) {
            let (method, url) = (plain(&run.method, 20), plain(url, URL_WIDTH_MAX));
            self.line(&format!("{method} {url}"));
        }
        if run.urls.len() > URLS_MAX {
            let more = several((run.urls.len() - URLS_MAX) as u64, "more URL");
            self.line(&format!("and {more}"));
        }
        let mut also = vec![several(run.threads as u64, "thread")];
        if run.engine == Engine::IoUring {
            also.push("io_uring".into());
        }
        if run.started_unix_ms > 0 {
            also.push(format!("began {}", format::moment(run.started_unix_ms)));
        }
        if !run.keep_alive {
            also.push("a new connection for every request".into());
        }
        if run.body_bytes > 0 {
            also.push(format!("{} body a request", bytes(run.body_bytes as f64)));
        }
        if self.report.warm_up.seconds > 0.0 {
            let warm_up = format::warm_up(&self.report.warm_up);
            also.push(format!("warm-up {warm_up}, which do not count"));
        }
        for line in [format::load(run), also.join(", ")]
            .iter()
            .flat_map(|text| wrap(text, WIDTH))
        {
            self.line(&line);
        }
        if self.report.interrupted {
            self.line("interrupted: these are the figures up to then");
        }
        self.line("");
    }

    fn requests(&mut self) {
        let report = self.report;
        let interval = report.rate_interval().map_or(String::new(), |interval| {
            let (low, high) = (rate(interval.low), rate(interval.high));
            format!(" (95 % interval {low} to {high})")
        });
        let per_second = rate(report.per_second);
        self.section("Requests", &format!("{per_second} a second{interval}"));
        let (answers, sent) = (several(report.answers, "answer"), several(report.sent, "request"));
        let seconds = duration(report.seconds * 1e9);
        self.more(&format!("{answers} in {seconds}; {sent} sent"));
        if report.under_way > 0 {
            let before = several(report.under_way, "request");
            self.more(&format!("{before} sent before were under way at the start"));
        }
        if report.lag_max_ns > 0 {
            let lag = duration(report.lag_max_ns as f64);
            self.more(&format!("sent at most {lag} after they were due"));
        }
        let rates = report.slices().filter(|(_, _, whole, _)| *whole);
        let rates: Vec<f64> = rates
            .map(|(_, seconds, _, slice)| slice.answers as f64 / seconds)
            .collect();
        if rates.len() > 1 {
            let low = rates.iter().copied().fold(f64::MAX, f64::min);
            let high = rates.iter().copied().fold(0.0, f64::max);
            let slice = duration(report.timeline.slice_ns as f64);
            let (low, high) = (rate(low), rate(high));
            self.more(&format!(
                "lowest {low}, highest {high} a second in slices of {slice}"
            ));
        }
        self.line("");
    }

    fn latency(&mut self) {
        let report = self.report;
        let latency = &report.latency_ns;
        for (at, line) in wrap(format::latency_from(&report.run), WIDTH - INDENT)
            .iter()
            .enumerate()
        {
            self.section(if at == 0 { "Latency" } else { "" }, line);
        }
        if latency.is_empty() {
            self.more("nothing was answered");
            self.line("");
            return;
        }
        let columns: Vec<&Histogram<u64>> = std::iter::once(latency)
            .chain(report.service_ns.as_ref())
            .collect();
        if columns.len() > 1 {
            self.more(&format!("{:9}{:>14}{:>14}", "", "from due", "from sent"));
        }
        let row = |name: &str, value: &dyn Fn(&Histogram<u64>) -> f64| {
            columns.iter().fold(format!("{name:>9}"), |mut row, histogram| {
                let (number, unit) = format::duration_parts(value(histogram));
                let _ = write!(row, "{number:>11} {unit:<2}");
                row
            })
        };
        let mut rows = vec![row("least", &|histogram| histogram.min() as f64)];
        for &percent in &self.options.percentiles {
            let name = format!("{} %", format::percentile(percent));
            let mut row = row(&name, &|histogram| percentile(histogram, percent) as f64);
            if !stats::enough_samples(percent, latency.len()) {
                row += "   rests on fewer than 10 slower answers";
            }
            rows.push(row);
        }
        rows.push(row("most", &|histogram| histogram.max() as f64));
        rows.push(row("mean", &Histogram::mean));
        rows.push(row("stddev", &Histogram::stdev));
        for row in &rows {
            self.more(row);
        }
        self.line("");
    }

    fn statuses(&mut self) {
        let total: u64 = self.report.statuses.iter().map(|(_, count)| count).sum();
        for (at, &(status, number)) in self.report.statuses.iter().enumerate() {
            let text = format!("{status:<5} {:>15}   {}", count(number), percent(number, total));
            self.section(if at == 0 { "Statuses" } else { "" }, &text);
        }
        self.line("");
    }

    fn errors(&mut self) {
        let report = self.report;
        if report.failures.is_empty() {
            self.section("Errors", "none");
            self.line("");
            return;
        }
        let (failed, asked) = (report.failed(), report.asked());
        let (total, requests) = (count(failed), several(asked, "request"));
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
            let (each, body) = (bytes_in / answers, report.body_bytes_in as f64 / answers);
            let _ = write!(
                text,
                "; {} an answer, {} of it the body",
                bytes(each),
                bytes(body)
            );
        }
        self.section("Bytes", &text);
        let mut facts = vec![format!("{} opened", count(report.connects))];
        if report.held > 0 {
            facts.insert(0, format!("{} held from before", count(report.held)));
        }
        if report.connects_failed > 0 {
            facts.push(format!("{} failed", count(report.connects_failed)));
        }
        let mut text = facts.join(", ");
        if let Some(requests) = report.requests_per_connection() {
            let _ = write!(text, "; {} requests on each", rate(requests));
        }
        self.section("Connections", &text);
        let opening = &report.connecting_ns;
        if !opening.is_empty() {
            let half = duration(percentile(opening, 50.0) as f64);
            let most = duration(opening.max() as f64);
            self.more(&format!("opening took {half} (median), {most} at most"));
        }
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
        let usage = report.usage.as_ref();
        if let Some(server) = usage.and_then(|usage| usage.server) {
            let cpu = report.server_ns_per_answer().map_or("no answer".into(), duration);
            let processes = several(server.processes as u64, "process");
            let memory = bytes(server.rss_bytes as f64);
            let text = format!("{cpu} of CPU a request; {processes}, {memory} resident");
            self.section("Server", &text);
        }
        if let Some(machine) = &report.environment {
            let mut facts = vec![several(machine.cores as u64, "core")];
            let busy = usage.and_then(|usage| usage.busy_share);
            facts.extend(busy.map(|busy| format!("{:.0} % busy", busy * 100.0)));
            let names = [&machine.cpu, &machine.kernel].into_iter().flatten();
            facts.extend(names.map(|text| plain(text, 60)));
            for (at, line) in wrap(&facts.join(", "), WIDTH - INDENT).iter().enumerate() {
                self.section(if at == 0 { "Machine" } else { "" }, line);
            }
        }
        self.line("");
    }

    fn verdict(&mut self) {
        let verdict = Verdict::of(self.report);
        self.section("Verdict", verdict.kind.name());
        for sentence in verdict.reasons.iter().chain(&verdict.notes) {
            let lines = wrap(&plain(sentence, SENTENCE_MAX), WIDTH - INDENT - 2);
            for (at, line) in lines.iter().enumerate() {
                self.more(&format!("{} {line}", if at == 0 { '-' } else { ' ' }));
            }
        }
    }
}

/// Splits text into lines of at most `width` columns, between words.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::assert_golden;

    #[test]
    fn reports_read_as_in_their_golden_files() {
        assert_golden("text-closed.txt", &write(&Report::example(), &Options::default()));
        assert_golden(
            "text-open.txt",
            &write(&Report::example_open(), &Options::default()),
        );
    }

    #[test]
    fn no_line_is_too_wide_and_what_was_there_before_is_shown() {
        let mut before = Report::example_open();
        (before.held, before.connects_failed, before.under_way) = (128, 7, 99);
        let text = write(&before, &Options::default());
        for part in [
            "99 requests sent before were under way at the start\n",
            "\nConnections  128 held from before, 67 opened, 7 failed; 12,154 requests on each\n",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        for report in [Report::example(), before] {
            let text = write(&report, &Options::default());
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line:?}");
            }
        }
    }

    #[test]
    fn a_run_without_answers_has_a_report_too() {
        let text = write(&Report::empty(), &Options::default());
        assert!(text.contains("nothing was answered"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
