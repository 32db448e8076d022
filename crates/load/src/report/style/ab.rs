//! `ApacheBench` 2.3 of httpd 2.4 (support/ab.c in apache/httpd), and the files of its options `-e` and `-g`.
//!
//! The first line says who writes; ab names its authors and its licence there. ab times every request in steps:
//!
//! - *Connect* is 0 for a request on a connection that is open. A report has the times of all attempts, not which request followed
//!   which, so the slowest connects are put to the slowest answers. Averages do not depend on that; the other figures of *Total* are
//!   the largest possible.
//! - *Processing* is the latency.
//! - *Waiting* ends with the first byte of an answer. The file of `-g` repeats *Processing* there: which first byte belonged to which
//!   answer is not kept.
//!
//! *Document Length* is the average length of a body, where ab takes the first one's. *Length* counts answers whose body was not as
//! expected, *Receive* those that broke off or did not come in time, *Exceptions* what was no HTTP. *Keep-Alive requests* are all
//! answers but those after which a connection had to be made anew.

mod tables;

use std::io::{self, Write};

pub use self::tables::Attributes;
use super::{
    Extra, StyleOptions, TEXT_MAX,
    figures::{Failed, url},
};
use crate::report::{Report, Run, words};

/// Requests from which on ab tells its progress.
const HEARTBEAT_FROM: u64 = 150;
/// Most characters of a line of a request or an answer.
const LINE_MAX: usize = 1_000;
/// The percentages in the table.
const PERCENTAGES: [u64; 8] = [50, 66, 75, 80, 90, 95, 98, 99];
/// Most rows of a file for gnuplot. Of more requests, equally many are left out between two.
const GNUPLOT_ROWS_MAX: u64 = 1_000_000;

pub(super) fn announce(run: &Run, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    if options.has(Extra::Machine) {
        return tables::announce(out);
    }
    let host = url(&run.urls).map(|url| url.host).unwrap_or_default();
    writeln!(
        out,
        "This is forebay load in the style of ApacheBench, Version 2.3\n"
    )?;
    write!(out, "Benchmarking {host} (be patient)")?;
    out.write_all(if tells_progress(run) { b"\n" } else { b"..." })?;
    if options.verbosity >= 2 && !options.request.is_empty() {
        writeln!(out, "INFO: {} header == \n---", run.method)?;
        message(&options.request, out)?;
        out.write_all(b"\n---\n")?;
    }
    Ok(())
}

/// The lines of a message, which cannot steer a terminal, as they go over the wire.
fn message(text: &str, out: &mut dyn Write) -> io::Result<()> {
    for line in text.lines() {
        write!(out, "{}\r\n", words::plain(line, LINE_MAX))?;
    }
    Ok(())
}

/// What `-v` tells of answers. Of each ab tells its own; here the first one stands for those that were right, and each status that was
/// not is told with how often it came.
fn answers(report: &Report, verbosity: u32, out: &mut dyn Write) -> io::Result<()> {
    if let Some(first) = report.first_answer.as_ref().filter(|_| verbosity >= 2) {
        writeln!(out, "LOG: header received:")?;
        message(&first.head, out)?;
        out.write_all(b"\r\n\n")?;
        if verbosity >= 3 {
            writeln!(out, "LOG: Response code = {}", first.status)?;
        }
    }
    for (status, number) in &report.statuses {
        if verbosity >= 2 && !(200..300).contains(status) {
            writeln!(out, "WARNING: Response code not 2xx ({status}), {number} times")?;
        }
    }
    Ok(())
}

fn tells_progress(run: &Run) -> bool {
    run.requests.is_none_or(|requests| requests > HEARTBEAT_FROM)
}

pub(super) fn write(
    report: &Report,
    options: &StyleOptions,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> io::Result<()> {
    let run = &report.run;
    if !options.has(Extra::Machine) {
        answers(report, options.verbosity, stdout)?;
    }
    if tells_progress(run) {
        if let Some(requests) = run.requests {
            let step = (requests / 10).max(100);
            for done in (1..=report.answers / step).take(10) {
                writeln!(stderr, "Completed {} requests", done * step)?;
            }
        }
        writeln!(stderr, "Finished {} requests", report.answers)?;
    } else if !options.has(Extra::Machine) {
        stdout.write_all(b"..done\n")?;
    }
    if options.has(Extra::Machine) {
        return tables::write(report, options, stdout);
    }
    let url = url(&run.urls);
    let host = url.as_ref().map_or("", |url| &url.host);
    let path = url.as_ref().map_or("/", |url| &url.path_and_query);
    let server = words::plain(report.server().unwrap_or_default(), TEXT_MAX);
    writeln!(stdout, "\n\nServer Software:        {server}")?;
    writeln!(stdout, "Server Hostname:        {host}")?;
    writeln!(
        stdout,
        "Server Port:            {}\n",
        url.as_ref().map_or(0, |url| url.port)
    )?;
    writeln!(stdout, "Document Path:          {path}")?;
    if options.has(Extra::AnyLength) {
        writeln!(stdout, "Document Length:        Variable\n")?;
    } else {
        let length = (report.body_bytes_in as f64 / report.answers.max(1) as f64).round();
        writeln!(stdout, "Document Length:        {length} bytes\n")?;
    }
    totals(report, stdout)?;
    let times = Times::of(report);
    if times.count == 0 {
        return Ok(());
    }
    let waiting = Times::waiting(report);
    connection_times(&times, &waiting, !options.has(Extra::NoDeviations), stdout)?;
    if !options.has(Extra::NoPercentages) && times.count > 1 {
        writeln!(
            stdout,
            "\nPercentage of the requests served within a certain time (ms)"
        )?;
        for percent in PERCENTAGES {
            let ms = whole_ms(times.at(times.count * percent / 100).total());
            writeln!(stdout, "  {percent}%  {ms:5}")?;
        }
        writeln!(
            stdout,
            " 100%  {:5} (longest request)",
            whole_ms(times.at(times.count - 1).total())
        )?;
    }
    Ok(())
}

/// What ab counts as failed.
fn bad(failed: &Failed) -> u64 {
    failed.connect + failed.lost + failed.timeout + failed.mismatch + failed.malformed
}

fn other_statuses(report: &Report) -> u64 {
    let others = report.statuses.iter().filter(|(status, _)| status / 100 != 2);
    others.map(|(_, count)| count).sum()
}

/// Answers but those after which a connection had to be made anew.
fn on_open_connections(report: &Report) -> u64 {
    let made_anew = report.connects.saturating_sub(report.run.connections as u64);
    report.answers.saturating_sub(made_anew)
}

fn totals(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let (run, failed) = (&report.run, Failed::of(report));
    let (receive, bad) = (failed.lost + failed.timeout, bad(&failed));
    writeln!(out, "Concurrency Level:      {}", run.connections)?;
    writeln!(out, "Time taken for tests:   {:.3} seconds", report.seconds)?;
    writeln!(out, "Complete requests:      {}", report.answers)?;
    writeln!(out, "Failed requests:        {bad}")?;
    if bad > 0 {
        let Failed {
            connect,
            mismatch,
            malformed,
            ..
        } = failed;
        writeln!(
            out,
            "   (Connect: {connect}, Receive: {receive}, Length: {mismatch}, Exceptions: {malformed})"
        )?;
    }
    if failed.write > 0 {
        writeln!(out, "Write errors:           {}", failed.write)?;
    }
    let others = other_statuses(report);
    if others > 0 {
        writeln!(out, "Non-2xx responses:      {others}")?;
    }
    if run.keep_alive {
        writeln!(out, "Keep-Alive requests:    {}", on_open_connections(report))?;
    }
    writeln!(out, "Total transferred:      {} bytes", report.bytes_in)?;
    let has_body = run.body_bytes > 0;
    if has_body {
        writeln!(out, "Total body sent:        {}", report.bytes_out)?;
    }
    writeln!(out, "HTML transferred:       {} bytes", report.body_bytes_in)?;
    if report.seconds > 0.0 && report.per_second > 0.0 {
        let kilobytes = |bytes: u64| bytes as f64 / 1024.0 / report.seconds;
        writeln!(
            out,
            "Requests per second:    {:.2} [#/sec] (mean)",
            report.per_second
        )?;
        let ms = 1e3 / report.per_second;
        writeln!(
            out,
            "Time per request:       {:.3} [ms] (mean)",
            ms * run.connections as f64
        )?;
        writeln!(
            out,
            "Time per request:       {ms:.3} [ms] (mean, across all concurrent requests)"
        )?;
        writeln!(
            out,
            "Transfer rate:          {:.2} [Kbytes/sec] received",
            kilobytes(report.bytes_in)
        )?;
        if has_body {
            writeln!(
                out,
                "                        {:.2} kb/s sent",
                kilobytes(report.bytes_out)
            )?;
            writeln!(
                out,
                "                        {:.2} kb/s total",
                kilobytes(report.bytes_in + report.bytes_out)
            )?;
        }
    }
    Ok(())
}

/// Equal requests.
#[derive(Clone, Copy, Debug)]
struct Step {
    connect_ns: u64,
    processing_ns: u64,
    count: u64,
}

impl Step {
    fn total(&self) -> u64 {
        self.connect_ns + self.processing_ns
    }
}

/// All requests from the fastest to the slowest.
struct Times {
    steps: Vec<Step>,
    count: u64,
}

impl Times {
    fn of(report: &Report) -> Self {
        let (latency, connecting) = (&report.latency_ns, &report.connecting_ns);
        let on_open_connections = latency.len().saturating_sub(connecting.len());
        let mut connects =
            std::iter::once((0, on_open_connections)).chain(connecting.iter_recorded().map(|recorded| {
                (
                    connecting.median_equivalent(recorded.value_iterated_to()),
                    recorded.count_at_value(),
                )
            }));
        let (mut connect_ns, mut connects_left) = (0, 0);
        let mut steps = Vec::new();
        for recorded in latency.iter_recorded() {
            let processing_ns = latency.median_equivalent(recorded.value_iterated_to());
            let mut left = recorded.count_at_value();
            while left > 0 {
                while connects_left == 0 {
                    (connect_ns, connects_left) = connects.next().unwrap_or((0, u64::MAX));
                }
                let count = left.min(connects_left);
                steps.push(Step {
                    connect_ns,
                    processing_ns,
                    count,
                });
                left -= count;
                connects_left -= count;
            }
        }
        Self {
            steps,
            count: latency.len(),
        }
    }

    /// Up to the first byte of each answer.
    fn waiting(report: &Report) -> Self {
        let first = &report.first_byte_ns;
        let steps = first.iter_recorded().map(|recorded| Step {
            connect_ns: 0,
            processing_ns: first.median_equivalent(recorded.value_iterated_to()),
            count: recorded.count_at_value(),
        });
        Self {
            steps: steps.collect(),
            count: first.len(),
        }
    }

    /// The request with this number, the last one if there are fewer.
    fn at(&self, number: u64) -> Step {
        let mut before = 0;
        let found = self.steps.iter().find(|step| {
            before += step.count;
            before > number
        });
        let nothing = Step {
            connect_ns: 0,
            processing_ns: 0,
            count: 0,
        };
        found.or(self.steps.last()).copied().unwrap_or(nothing)
    }

    fn line(&self, ns: fn(&Step) -> u64) -> Line {
        let weighted = |value: &dyn Fn(f64) -> f64| {
            self.steps
                .iter()
                .map(|step| value(ns(step) as f64) * step.count as f64)
                .sum::<f64>()
        };
        let mean = weighted(&|ns| ns) / self.count.max(1) as f64;
        let squares = weighted(&|ns| (ns - mean).powi(2));
        let times = self.steps.iter().map(ns);
        Line {
            min: whole_ms(times.clone().min().unwrap_or(0)),
            mean: whole_ms(mean as u64),
            deviation: (squares / self.count.saturating_sub(1).max(1) as f64).sqrt() / 1e6,
            median: whole_ms(ns(&self.at(self.count / 2))),
            max: whole_ms(times.max().unwrap_or(0)),
        }
    }
}

/// A line of the table of times, in milliseconds.
struct Line {
    min: u64,
    mean: u64,
    deviation: f64,
    median: u64,
    max: u64,
}

/// To the nearest millisecond.
fn whole_ms(ns: u64) -> u64 {
    (ns + 500_000) / 1_000_000
}

fn connection_times(times: &Times, waiting: &Times, deviations: bool, out: &mut dyn Write) -> io::Result<()> {
    let processing = |step: &Step| step.processing_ns;
    let lines = [
        (
            "Connect:",
            "the initial connection time",
            times.line(|step| step.connect_ns),
        ),
        ("Processing:", "the processing time", times.line(processing)),
        ("Waiting:", "the waiting time", waiting.line(processing)),
        ("Total:", "the total time", times.line(Step::total)),
    ];
    writeln!(out, "\nConnection Times (ms)")?;
    if !deviations {
        writeln!(out, "              min   avg   max")?;
        for (name, _, Line { min, mean, max, .. }) in &lines {
            writeln!(out, "{name:<12}{min:5} {mean:5}{max:5}")?;
        }
        return Ok(());
    }
    writeln!(out, "              min  mean[+/-sd] median   max")?;
    for (name, _, line) in &lines {
        let Line {
            min,
            mean,
            deviation,
            median,
            max,
        } = line;
        writeln!(
            out,
            "{name:<12}{min:5} {mean:4} {deviation:5.1} {median:6} {max:7}"
        )?;
    }
    for (_, what, line) in &lines {
        let apart = line.mean.abs_diff(line.median) as f64;
        if apart > 2.0 * line.deviation {
            writeln!(
                out,
                "ERROR: The median and mean for {what} are more than twice the standard"
            )?;
            writeln!(out, "       deviation apart. These results are NOT reliable.")?;
        } else if apart > line.deviation {
            writeln!(
                out,
                "WARNING: The median and mean for {what} are not within a normal deviation"
            )?;
            writeln!(out, "        These results are probably not that reliable.")?;
        }
    }
    Ok(())
}

/// Writes the file of `-e`: the time within which each percentage of the requests was served.
pub fn percentages_csv(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let times = Times::of(report);
    writeln!(out, "Percentage served,Time in ms")?;
    for percent in 0..=100 {
        let number = (0.5 + times.count as f64 * f64::from(percent) / 100.0) as u64;
        let number = if percent == 0 {
            0
        } else {
            number.min(times.count.saturating_sub(1))
        };
        writeln!(out, "{percent},{:.3}", times.at(number).total() as f64 / 1e6)?;
    }
    Ok(())
}

/// Writes the file of `-g`: a row for each request, from the fastest to the slowest, of at most 1,000,000.
///
/// The start of a request is known to a slice of the timeline, and its time to two digits. Times of day are those of UTC.
pub fn gnuplot_tsv(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for (at, slice) in report.timeline.slices.iter().enumerate() {
        let ended_ms = (at as u64 * report.timeline.slice_ns) / 1_000_000;
        for recorded in slice.latency.iter_recorded() {
            let ns = slice.latency.median_equivalent(recorded.value_iterated_to());
            let start_ms = report.run.started_unix_ms + ended_ms.saturating_sub(ns / 1_000_000);
            rows.push((ns, start_ms / 1_000, u64::from(recorded.count_at_value())));
        }
    }
    rows.sort_unstable();
    let all: u64 = rows.iter().map(|(_, _, count)| count).sum();
    let every = all.div_ceil(GNUPLOT_ROWS_MAX).max(1);
    writeln!(out, "starttime\tseconds\tctime\tdtime\tttime\twait")?;
    let times = Times::of(report);
    let mut connects = times.steps.iter();
    let (mut connect_ns, mut connects_until) = (0, 0);
    let mut number: u64 = 0;
    for (processing_ns, start, count) in rows {
        let moment = words::moment_c(start);
        let next = number.div_ceil(every) * every;
        for row in (next..number + count).step_by(every as usize) {
            while row >= connects_until
                && let Some(step) = connects.next()
            {
                (connect_ns, connects_until) = (step.connect_ns, connects_until + step.count);
            }
            let total = whole_ms(connect_ns + processing_ns);
            let (connect, processing) = (whole_ms(connect_ns), whole_ms(processing_ns));
            writeln!(
                out,
                "{moment}\t{start}\t{connect}\t{processing}\t{total}\t{processing}"
            )?;
        }
        number += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_v_says_how_much_is_told_of_requests_and_answers() {
        let mut report = Report::example();
        report.statuses = vec![(200, 5), (404, 2)];
        let told = |verbosity| {
            let options = StyleOptions {
                announced: true,
                verbosity,
                request: "GET / HTTP/1.0\r\nHost: h\r\n\r\n".to_owned(),
                ..StyleOptions::default()
            };
            let announced = text(|out| announce(&report.run, &options, out));
            announced + &text(|out| write(&report, &options, out, &mut io::sink()))
        };
        let request = "INFO: GET header == \n---\nGET / HTTP/1.0\r\nHost: h\r\n\r\n\n---\n";
        let header = "LOG: header received:\nHTTP/1.1 200 OK\r\nserver: nginx/1.24.0\r\nx: ";
        let code = "LOG: Response code = 200\n";
        let warning = "WARNING: Response code not 2xx (404), 2 times\n";
        for (verbosity, shown) in [(1, [false; 4]), (2, [true, true, false, true]), (4, [true; 4])] {
            let told = told(verbosity);
            let found = [request, header, code, warning].map(|part| told.contains(part));
            assert_eq!(found, shown, "{verbosity}: {told}");
            assert!(!told.contains('\x1b'), "{told}");
        }
    }

    fn text(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn few_requests_are_told_without_progress_and_a_body_with_what_was_sent() {
        let mut report = Report::example();
        report.run.urls = vec!["http://localhost:8080/local".into()];
        report.run.requests = Some(100);
        report.run.body_bytes = 458;
        report.run.keep_alive = false;
        let options = StyleOptions {
            extras: vec![Extra::NoDeviations, Extra::NoPercentages, Extra::AnyLength],
            ..StyleOptions::default()
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        super::super::write(
            super::super::Style::Ab,
            &report,
            &options,
            &mut stdout,
            &mut stderr,
        )
        .unwrap();
        let text = String::from_utf8(stdout).unwrap();
        assert!(stderr.is_empty());
        for part in [
            "\nBenchmarking localhost (be patient).....done\n\n\nServer Software:        nginx/1.24.0\n",
            "\nDocument Length:        Variable\n",
            "\nTotal body sent:        184860390\n",
            " kb/s sent\n",
            "\n              min   avg   max\nConnect:        0     0    0\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(!text.contains("Keep-Alive") && !text.contains("Percentage"));
    }

    #[test]
    fn the_average_of_the_total_is_that_of_its_parts() {
        let mut report = Report::example();
        report.latency_ns = crate::engine::latencies();
        (1..=100).for_each(|ms| report.latency_ns.record(ms * 1_000_000).unwrap());
        report.connecting_ns = crate::engine::latencies();
        report.connecting_ns.record_n(30_000_000, 20).unwrap();
        let times = Times::of(&report);
        let (connect, total) = (times.line(|step| step.connect_ns), times.line(Step::total));
        assert_eq!(
            (connect.min, connect.mean, connect.median, connect.max),
            (0, 6, 0, 30)
        );
        assert_eq!((total.min, total.mean, total.max), (1, 57, 130));
        assert_eq!(times.steps.iter().map(|step| step.count).sum::<u64>(), 100);
    }

    /// Whole milliseconds of short times are easily far apart; ab says so.
    #[test]
    fn a_mean_far_from_the_median_is_pointed_out() {
        let written = |fast_ns, fast, slow_ns, slow| {
            let step = |processing_ns, count| Step {
                connect_ns: 0,
                processing_ns,
                count,
            };
            let times = Times {
                steps: vec![step(fast_ns, fast), step(slow_ns, slow)],
                count: fast + slow,
            };
            text(|out| connection_times(&times, &times, true, out))
        };
        let text = written(450_000, 90, 2_450_000, 10);
        assert!(text.contains("\nTotal:          0    1   0.6      0       2\nWARNING: The median and mean for the processing"), "{text}");
        let text = written(499_000, 51, 520_000, 49);
        assert!(
            text.contains(
                "\nERROR: The median and mean for the total time are more than twice the standard\n"
            ),
            "{text}"
        );
        let text = written(1_000_000, 51, 9_000_000, 49);
        assert!(!text.contains("median and mean"), "{text}");
    }

    #[test]
    fn the_files_have_every_percentage_and_at_most_so_many_requests() {
        let report = Report::example();
        let csv = text(|out| percentages_csv(&report, out));
        assert_eq!(csv.lines().count(), 102);
        assert!(csv.starts_with("Percentage served,Time in ms\n0,0.1"), "{csv}");
        let tsv = text(|out| gnuplot_tsv(&report, out));
        let lines: Vec<_> = tsv.lines().collect();
        assert_eq!(lines[0], "starttime\tseconds\tctime\tdtime\tttime\twait");
        assert_eq!(lines.len() as u64 - 1, report.answers.div_ceil(3));
        assert_eq!(lines[1], "Thu Oct  9 08:53:20 2025\t1760000000\t0\t0\t0\t0");
        let totals: Vec<u64> = lines[1..]
            .iter()
            .map(|line| line.split('\t').nth(4).unwrap().parse().unwrap())
            .collect();
        assert!(totals.is_sorted());
    }
}
