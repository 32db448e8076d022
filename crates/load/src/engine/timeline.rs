//! A run over time, in a bounded number of slices however long it is.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::window::{WINDOW_NS, Window, slice_latencies};

/// Most slices. Beyond that, each pair is merged into one.
pub(crate) const SLICES_MAX: usize = 300;

/// A part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Complete responses.
    pub answers: u64,
    /// Failures of all classes.
    pub failures: u64,
    /// Latencies in nanoseconds, to two digits.
    #[serde(with = "crate::stats::encoded")]
    pub latency: Histogram<u32>,
}

impl Slice {
    fn empty() -> Self {
        Self {
            answers: 0,
            failures: 0,
            latency: slice_latencies(),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.answers = self.answers.saturating_add(other.answers);
        self.failures = self.failures.saturating_add(other.failures);
        self.latency
            .add(&other.latency)
            .expect("all histograms have the same bounds");
    }
}

/// Slices of equal length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// When the first begins, in nanoseconds since the session began.
    pub start_ns: u64,
    /// Length of each.
    pub slice_ns: u64,
    /// In their order; the last may be shorter.
    pub slices: Vec<Slice>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            start_ns: 0,
            slice_ns: WINDOW_NS,
            slices: Vec::new(),
        }
    }
}

impl Timeline {
    /// Adds a thread's window to the slices that it overlaps. A window that crosses a border is divided in proportion to time: threads look
    /// at the clock only between two batches of responses, so their windows are a little longer than slices and would soon skip one.
    pub(crate) fn add(&mut self, window: &Window) {
        if self.slices.is_empty() {
            self.start_ns = window.start_ns;
        }
        let from = window.start_ns.saturating_sub(self.start_ns);
        let until = window.end_ns.saturating_sub(self.start_ns).max(from + 1);
        while ((until - 1) / self.slice_ns) as usize >= SLICES_MAX {
            self.coarsen();
        }
        let (first, last) = (
            (from / self.slice_ns) as usize,
            ((until - 1) / self.slice_ns) as usize,
        );
        if self.slices.len() <= last {
            self.slices.resize_with(last + 1, Slice::empty);
        }
        let failures = window.failures.total();
        for at in first..=last {
            let (begin, end) = (at as u64 * self.slice_ns, (at as u64 + 1) * self.slice_ns);
            // The share up to `moment`, cumulative, so that the parts add up to the whole.
            let up_to = |moment: u64, all: u64| {
                let passed = moment.clamp(from, until) - from;
                (u128::from(all) * u128::from(passed) / u128::from(until - from)) as u64
            };
            let part = |all| up_to(end, all) - up_to(begin, all);
            let slice = &mut self.slices[at];
            slice.answers += part(window.answers);
            slice.failures += part(failures);
        }
        let middle = (from + (until - 1 - from) / 2) / self.slice_ns;
        let slice = &mut self.slices[middle as usize];
        for recorded in window.latency.iter_recorded() {
            let count = u32::try_from(recorded.count_at_value()).unwrap_or(u32::MAX);
            slice
                .latency
                .saturating_record_n(recorded.value_iterated_to(), count);
        }
    }

    /// Whether [`Timeline::add`] can have produced these slices.
    pub(crate) fn is_possible(&self) -> bool {
        let windows = self.slice_ns / WINDOW_NS;
        self.slice_ns.is_multiple_of(WINDOW_NS)
            && windows.is_power_of_two()
            && self.slices.len() <= SLICES_MAX
    }

    fn coarsen(&mut self) {
        let mut slices = std::mem::take(&mut self.slices).into_iter();
        while let Some(mut slice) = slices.next() {
            if let Some(next) = slices.next() {
                slice.merge(&next);
            }
            self.slices.push(slice);
        }
        self.slice_ns *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_are_a_little_long_leave_no_slice_out() {
        let mut timeline = Timeline::default();
        let mut now = 7;
        for _ in 0..290 {
            let mut window = Window::new(1, now, false);
            now += WINDOW_NS + 700_000;
            window.end_ns = now;
            window.answers = 100_700;
            timeline.add(&window);
        }
        let (_, whole) = timeline.slices.split_last().unwrap();
        assert!(
            whole.iter().all(|slice| slice.answers.abs_diff(100_000) <= 2),
            "{whole:?}"
        );
        assert_eq!(
            timeline.slices.iter().map(|slice| slice.answers).sum::<u64>(),
            290 * 100_700
        );
    }

    #[test]
    fn a_long_run_needs_no_more_slices_and_loses_nothing() {
        let mut timeline = Timeline::default();
        for at in 0..10_000_u64 {
            let mut window = Window::new(1, at * WINDOW_NS, false);
            window.answers = at;
            window.latency.record(1_000_000 + at).unwrap();
            timeline.add(&window);
        }
        assert!(timeline.slices.len() <= SLICES_MAX);
        assert_eq!(
            timeline.slices.iter().map(|slice| slice.answers).sum::<u64>(),
            9_999 * 5_000
        );
        assert_eq!(
            timeline
                .slices
                .iter()
                .map(|slice| slice.latency.len())
                .sum::<u64>(),
            10_000
        );
        assert_eq!(timeline.slice_ns, 64 * WINDOW_NS);
    }
}
