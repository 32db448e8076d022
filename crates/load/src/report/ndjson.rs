//! How a run went, with one JSON object a line for each slice of it, as the `timeline` of the [`super::json`] form has them: all of them
//! afterwards, or each while the run goes on.

use hdrhistogram::Histogram;

use super::{
    Report,
    course::{self, Latency, Step},
    json,
};
use crate::engine::{Slice, Stretch, Timeline, slice_latencies};

/// How long after its end a slice is taken for complete. Threads tell what they have measured ten times a second; what one of them
/// tells later yet is in the next line.
const COMPLETE_NS: u64 = 300_000_000;

/// The lines, in the order of time.
pub fn write(report: &Report) -> String {
    let steps = course::steps(report);
    steps.iter().map(|step| json::step(step).line() + "\n").collect()
}

/// Lines as slices end. Whatever a thread tells late, and however slices are united in a long run, all lines together have every answer
/// of the timeline once.
#[derive(Clone, Debug)]
pub struct Live {
    /// Up to when lines were written.
    until_ns: u64,
    /// What they had.
    written: Slice,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            until_ns: 0,
            written: nothing(),
        }
    }
}

impl Live {
    /// Lines for what has ended since the last call.
    pub fn look(&mut self, stretch: &Stretch) -> String {
        let timeline = &stretch.timeline;
        let told_ns = stretch.total.end_ns.saturating_sub(timeline.start_ns);
        self.lines(timeline, told_ns.saturating_sub(COMPLETE_NS), u64::MAX)
    }

    /// Lines for the rest of a run.
    pub fn rest(&mut self, report: &Report) -> String {
        self.lines(&report.timeline, u64::MAX, (report.seconds * 1e9) as u64)
    }

    fn lines(&mut self, timeline: &Timeline, up_to_ns: u64, end_ns: u64) -> String {
        let mut text = String::new();
        let next_end = (self.until_ns / timeline.slice_ns + 1) * timeline.slice_ns;
        if next_end > up_to_ns {
            return text;
        }
        let mut all = nothing();
        for (at, slice) in timeline.slices.iter().enumerate() {
            all.merge(slice);
            let (begin, end) = (at as u64 * timeline.slice_ns, (at as u64 + 1) * timeline.slice_ns);
            if end <= self.until_ns {
                continue;
            }
            if end > up_to_ns {
                break;
            }
            let from = begin.max(self.until_ns);
            // The last slice may be cut short; one that begins at the very end has what was heard of late.
            let to = if end_ns > from { end.min(end_ns) } else { end };
            text += &json::step(&self.step(&all, from, to, end)).line();
            text.push('\n');
            self.until_ns = end;
            self.written = all.clone();
        }
        text
    }

    fn step(&self, all: &Slice, from_ns: u64, to_ns: u64, end_ns: u64) -> Step {
        let mut latency: Histogram<u32> = all.latency.clone();
        // What was written once stays in the timeline.
        let fits = latency.subtract(&self.written.latency).is_ok();
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        let answers = all.answers - self.written.answers;
        Step {
            at_seconds: from_ns as f64 / 1e9,
            seconds,
            whole: to_ns == end_ns,
            answers,
            per_second: answers as f64 / seconds,
            failures: all.failures - self.written.failures,
            bytes_in: all.bytes_in - self.written.bytes_in,
            latency: (fits && !latency.is_empty()).then(|| Latency {
                p50: course::percentile(&latency, 50.0),
                p95: course::percentile(&latency, 95.0),
                p99: course::percentile(&latency, 99.0),
                max: latency.max(),
            }),
        }
    }
}

fn nothing() -> Slice {
    Slice {
        answers: 0,
        failures: 0,
        bytes_in: 0,
        latency: slice_latencies(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(lines: &str) -> Vec<serde_json::Value> {
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn every_line_is_the_slice_that_the_whole_report_has() {
        let report = Report::example();
        let whole: serde_json::Value =
            serde_json::from_str(&json::write(&report, &super::super::Options::default())).unwrap();
        assert_eq!(
            whole["timeline"],
            serde_json::Value::from(values(&write(&report)))
        );
    }

    #[test]
    fn lines_that_are_written_as_slices_end_are_the_same_in_the_end() {
        let mut report = Report::example();
        report.seconds = 9.95;
        let mut live = Live::default();
        let mut written = String::new();
        for slices in [0, 1, 1, 7, 60, 99] {
            let mut timeline = report.timeline.clone();
            timeline.slices.truncate(slices);
            written += &live.lines(&timeline, slices as u64 * timeline.slice_ns, u64::MAX);
        }
        assert_eq!(written.lines().count(), 99);
        written += &live.rest(&report);
        assert_eq!(values(&written), values(&write(&report)));
        assert_eq!(live.rest(&report), "");
    }

    #[test]
    fn what_is_told_late_and_what_is_united_is_in_the_lines_once() {
        let report = Report::example();
        let mut live = Live::default();
        let mut early = report.timeline.clone();
        early.slices.truncate(51);
        early.slices[10] = nothing();
        let mut written = live.lines(&early, 51 * early.slice_ns, u64::MAX);
        let mut long = report.clone();
        for runs in 1..5 {
            long.timeline.append(runs * 10_000_000_000, &report.timeline);
        }
        long.seconds = 50.0;
        assert!(long.timeline.slice_ns > early.slice_ns);
        written += &live.rest(&long);
        let sum = |name: &str| {
            values(&written)
                .iter()
                .map(|line| line[name].as_u64().unwrap())
                .sum::<u64>()
        };
        assert_eq!(sum("requests"), 5 * report.answers);
        let seconds: f64 = values(&written)
            .iter()
            .map(|line| line["seconds"].as_f64().unwrap())
            .sum();
        assert!((seconds - 50.0).abs() < 1e-6, "{seconds}");
    }
}
