//! A report explained: what a reader may conclude from it, in sentences, and what each of its figures means.

use std::fmt::Write as _;

use super::{
    Report, course, terms,
    text::{WIDTH, wrap},
    verdict::{FULL, Kind, Verdict},
    words::{duration, rate, several},
};
use crate::plan::Pace;

/// The part of all answers that is as fast as the server can be.
const FASTEST_PERCENT: f64 = 1.0;
/// So many times the connections that would keep the server busy, and more, are a queue.
const QUEUE_MIN: f64 = 3.0;
/// So many times, and fewer, leave room for more.
const ROOM_MAX: f64 = 1.5;
/// Part of its latency that a request of an open load may wait before it is sent, without a word.
const UNSENT_MIN: f64 = 0.1;
/// Columns before a meaning.
const INDENT: usize = 4;

/// The explanation, with a line end after every line.
pub fn write(report: &Report) -> String {
    let mut text = String::from("\nWhat this run says\n");
    for sentence in diagnosis(report) {
        put(&mut text, "  - ", &sentence);
    }
    text.push_str("\nWhat the figures mean\n");
    for (term, meaning) in terms::of(report) {
        let _ = writeln!(text, "  {term}");
        put(&mut text, "", meaning);
    }
    text
}

fn put(text: &mut String, mark: &str, sentence: &str) {
    for (at, line) in wrap(sentence, WIDTH - INDENT).iter().enumerate() {
        let mark = if at == 0 { mark } else { "" };
        let _ = writeln!(text, "{mark:INDENT$}{line}");
    }
}

/// What can be concluded, the most important first.
pub fn diagnosis(report: &Report) -> Vec<String> {
    let verdict = Verdict::of(report);
    let mut sentences = verdict.reasons.clone();
    if report.answers == 0 || report.latency_ns.is_empty() {
        return sentences;
    }
    let generator_was_the_limit = verdict.kind == Kind::ClientBound;
    let pace = report.run.load.map_or(Pace::Closed, |load| load.pace);
    if report.run.stages.is_empty() && !generator_was_the_limit {
        match pace {
            Pace::Closed => sentences.extend(queueing(report)),
            Pace::Open { .. } | Pace::PerConnection { .. } => sentences.extend(waiting(report)),
        }
    }
    sentences.extend(cores(report));
    sentences.extend(capacity(report));
    sentences
}

/// Whether more connections would bring more answers. Those that the rate and the shortest latency need keep a server busy (the crossing
/// of its two asymptotes); further ones wait for their turn.
fn queueing(report: &Report) -> Option<String> {
    if report.run.pauses || !report.run.keep_alive || report.run.exclude_errors {
        return None;
    }
    let shortest = course::percentile(&report.latency_ns, FASTEST_PERCENT) as f64;
    let mean = report.latency_ns.mean();
    let needed = report.per_second * shortest / 1e9;
    let connections = several(report.run.connections as u64, "connection");
    let room = (report.run.connections * report.run.pipeline) as f64;
    let (fast, slow) = (duration(shortest), duration(mean));
    if room >= QUEUE_MIN * needed.max(1.0) {
        let enough = (needed / report.run.pipeline.max(1) as f64).round().max(1.0);
        return Some(format!(
            "The server is saturated at {connections}; more only adds queueing: the fastest answers take {fast}, the mean one {slow}, and the \
             difference is waiting. About {enough:.0} would keep it as busy (--find-best measures how many)."
        ));
    }
    (room <= ROOM_MAX * needed).then(|| {
        format!(
            "Requests hardly wait for each other at {connections}: the fastest answers take {fast}, the mean one {slow}. More connections would \
             bring more answers (--find-best measures how many)."
        )
    })
}

/// How long requests wait that come whether or not the server keeps up.
fn waiting(report: &Report) -> Option<String> {
    let served = report.service_ns.as_ref().filter(|service| !service.is_empty())?;
    let (whole, served) = (report.latency_ns.mean(), served.mean());
    let (whole_text, served_text) = (duration(whole), duration(served));
    Some(if whole - served > UNSENT_MIN * whole {
        format!(
            "Of the mean latency of {whole_text}, the server has a request for {served_text}; before that it waits for a free connection. Give more \
             connections (-c) to see what the server does with all of them, or ask for less."
        )
    } else {
        format!(
            "The server keeps up with the rate: requests are sent when they are due, and answered in {served_text} on average."
        )
    })
}

/// Who used the machine.
fn cores(report: &Report) -> Option<String> {
    let usage = report.usage.as_ref()?;
    let (busy, all, seconds) = (usage.busy_share?, usage.cores? as f64, usage.seconds);
    let server = usage.server?.cpu_seconds / seconds;
    let generator = usage.own_cpu_seconds? / seconds;
    let others = usage.others_cpu_seconds.unwrap_or(0.0) / seconds;
    Some(if busy > FULL {
        format!(
            "The machine is full: the server used {server:.2} of {all:.0} cores, the generator {generator:.2}, others {others:.2}. The rate is that of \
             all of them together."
        )
    } else {
        let free = all * (1.0 - busy);
        format!(
            "The server used {server:.2} of {all:.0} cores, the generator {generator:.2}; {free:.2} were free, so CPU time alone was not the limit."
        )
    })
}

fn capacity(report: &Report) -> Option<String> {
    let capacity = report.capacity()?;
    let (both, alone) = (rate(capacity.shared), rate(capacity.alone));
    let (server, generator) = (
        duration(report.server_ns_per_answer()?),
        duration(report.generator_ns_per_answer()?),
    );
    Some(format!(
        "An answer costs the server {server} of CPU and the generator {generator}: all cores together have room for {both} a second with the generator on \
         them, and for {alone} without."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::assert_golden;

    #[test]
    fn an_explanation_is_as_in_its_golden_file_and_not_too_wide() {
        for (name, report) in [
            ("explain-closed.txt", Report::example()),
            ("explain-open.txt", Report::example_open()),
        ] {
            let text = write(&report);
            assert_golden(name, &text);
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        }
    }

    #[test]
    fn more_connections_than_the_server_needs_are_a_queue_and_fewer_are_not() {
        let said = |connections, latency_ns: u64| {
            let mut report = Report::example();
            report.run.connections = connections;
            report.latency_ns.reset();
            // The fastest take 100 us, and 10 of them at a time make 100,000 a second.
            report.latency_ns.record_n(100_000, 5).unwrap();
            report.latency_ns.record_n(latency_ns, 95).unwrap();
            report.per_second = 100_000.0;
            queueing(&report).unwrap_or_default()
        };
        assert!(said(64, 640_000).contains("saturated at 64 connections; more only adds queueing"));
        assert!(said(64, 640_000).contains("About 10 would"));
        assert!(said(11, 105_000).contains("More connections would"));
        assert_eq!(said(20, 200_000), "");
    }
}
