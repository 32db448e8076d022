//! A report for the terminal. Text from outside (errors, worker names) is stripped of control characters.

use std::fmt::Write as _;

use forebay_load::report::format::{bytes, count, duration, plain, rate, several};

use super::{Report, Subject};
use crate::pool::{Load, Plan, Times};

/// Characters shown of an error's text.
const TEXT_MAX: usize = 300;
/// Most workers listed one by one.
const WORKERS_MAX: usize = 24;
/// The share of the machine that other processes may use during a run without casting doubt on it.
const OTHERS_MAX: f64 = 0.05;
/// Width of the longest bar of a curve, in characters.
const BAR_WIDTH: usize = 40;

/// The report as text; every line ends with a newline.
pub fn write(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", what(report));
    if let Some(machine) = machine(report) {
        let _ = writeln!(out, "{machine}");
    }
    out.push('\n');
    table(report, &mut out);
    if let Some(doubt) = doubt(report) {
        let _ = writeln!(out, "\n{doubt}");
    }
    for subject in report.subjects.iter().filter(|each| !each.contender.is_nobody()) {
        details(report, subject, &mut out);
    }
    curves(report, &mut out);
    out
}

/// The measured load, in a sentence.
fn what(report: &Report) -> String {
    let Plan {
        messages,
        block,
        load,
        payload,
        in_flight,
        ..
    } = &report.suite.plan;
    let load = match load {
        Load::Saturating { outstanding } => {
            format!("at most {} without a reply", count(*outstanding as u64))
        }
        Load::Blocks { delay, adaptive } => format!(
            "in blocks of {} with {} between them{}",
            count(*block as u64),
            duration(delay.as_nanos() as f64),
            if *adaptive { " at first" } else { "" }
        ),
    };
    let payload = match payload {
        0 => String::new(),
        bytes => format!(" with {} of text", several(*bytes as u64, "byte")),
    };
    let in_flight = in_flight.map_or(String::new(), |number| {
        format!(", {number} at a time in a worker")
    });
    let workers: Vec<String> = report.suite.workers.iter().map(usize::to_string).collect();
    format!(
        "{}{payload}, {load}{in_flight}; {} {}; {}",
        several(*messages, "message"),
        workers.join(", "),
        if workers == ["1"] { "worker" } else { "workers" },
        several(report.suite.repeats as u64, "run"),
    )
}

fn machine(report: &Report) -> Option<String> {
    let environment = &report.environment;
    let parts = [
        environment.cpu.clone(),
        Some(several(environment.cores as u64, "core")),
        environment.kernel.clone(),
        environment
            .load_average
            .map(|load| format!("load average before {load:.2}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| plain(&parts.join(", "), TEXT_MAX))
}

/// A warning that the figures are unreliable, if other processes used too much of the machine.
fn doubt(report: &Report) -> Option<String> {
    let shares: Vec<f64> = report.shares_of_others();
    let disturbed = shares.iter().filter(|share| **share > OTHERS_MAX).count();
    let most = shares.iter().copied().fold(0.0, f64::max);
    (disturbed > 0).then(|| {
        format!(
            "The machine was not quiet: others used more than {:.0} % of it in {disturbed} of {}, {:.0} % at most. Quote no figure.",
            OTHERS_MAX * 100.0,
            several(shares.len() as u64, "run"),
            most * 100.0
        )
    })
}

/// A figure as shown in tables; `-` if there is none.
fn figure(value: Option<f64>, name: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), name)
}

/// How many times as fast the first contender is; empty for itself.
pub(super) fn ratio(report: &Report, subject: &Subject) -> String {
    if subject.contender == report.suite.contenders[0] || subject.contender.is_nobody() {
        return String::new();
    }
    if let Some(ratio) = report.ratio(subject) {
        return format!("{:.2} ({:.2} to {:.2})", ratio.value, ratio.low, ratio.high);
    }
    // A single measurement has no confidence interval.
    let own = report.first(subject.workers).and_then(Subject::rate);
    figure(own.zip(subject.rate()).map(|(own, other)| own / other), |value| {
        format!("{value:.2}")
    })
}

fn table(report: &Report, out: &mut String) {
    let sized = report.suite.workers.len() > 1;
    let head = [
        "",
        "messages/s",
        "first / this",
        "main us",
        "all us",
        "p50",
        "p99",
        "p99.9",
        "max",
        "errors",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for subject in &report.subjects {
        let us = |value: f64| format!("{value:.2}");
        let took = |us: f64| duration(us * 1e3);
        let latency = |of: fn(&Times) -> f64| figure(subject.median(|run| Some(of(&run.latency))), took);
        rows.push([
            subject.name(sized),
            figure(subject.rate(), rate),
            ratio(report, subject),
            figure(subject.median(|run| run.main_us), us),
            figure(subject.median(|run| run.all_us), us),
            latency(|times| times.p50_us),
            latency(|times| times.p99_us),
            latency(|times| times.p999_us),
            latency(|times| times.max_us),
            count(subject.errors()),
        ]);
    }
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in rows {
        let mut line = String::new();
        for (column, (text, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 {
                let _ = write!(line, "{text:<width$}");
            } else {
                let _ = write!(line, "  {text:>width$}");
            }
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Settings, handler times, workers and errors of one pool.
fn details(report: &Report, subject: &Subject, out: &mut String) {
    let sized = report.suite.workers.len() > 1;
    let mut lines = Vec::new();
    if let Some(run) = subject.runs.last() {
        if !run.settings.is_empty() && !sized {
            lines.push(format!("version {}, {}", run.version, run.settings_line()));
        }
        for (what, times) in [("messages waited for", run.wait), ("handlers ran for", run.run)] {
            let took = |us: f64| duration(us * 1e3);
            lines.extend(times.map(|times| {
                let [p50, p99, max] = [times.p50_us, times.p99_us, times.max_us].map(took);
                format!("{what} {p50} (p50), {p99} (p99), {max} at most")
            }));
        }
        if let (Some(before), Some(after)) = (run.rss_before_bytes, run.rss_bytes) {
            let (before, after) = (bytes(before as f64), bytes(after as f64));
            lines.push(format!(
                "memory of the dispatcher: {before} after warm-up, {after} at the end"
            ));
        }
        if !sized {
            let shares: Vec<String> = run
                .workers
                .iter()
                .take(WORKERS_MAX)
                .map(|each| format!("{}: {}", each.worker, count(each.messages)))
                .collect();
            lines.push(format!("messages by worker, last run: {}", shares.join(", ")));
        }
    }
    for run in &subject.runs {
        for error in &run.error_texts {
            lines.push(format!("{} x {}", count(error.count), error.text));
        }
    }
    lines.extend(
        subject
            .failure
            .as_ref()
            .map(|failure| format!("left out: {failure}")),
    );
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", subject.name(sized));
    for line in lines {
        let _ = writeln!(out, "  {}", plain(&line, TEXT_MAX * 2));
    }
}

fn curves(report: &Report, out: &mut String) {
    for contender in &report.suite.contenders {
        let Some(best) = report.best(*contender) else {
            continue;
        };
        let _ = writeln!(out, "\n{} by number of workers", contender.name());
        for (workers, each) in report.curve(*contender) {
            let bar = "#".repeat((each / best.rate * BAR_WIDTH as f64).round() as usize);
            let share = each / best.rate * 100.0;
            let _ = writeln!(
                out,
                "  {workers:>4}  {bar:<BAR_WIDTH$}  {:>9}/s  {share:>3.0} %",
                rate(each)
            );
        }
        let _ = writeln!(out, "  {}", super::html::verdict(&best));
    }
}
