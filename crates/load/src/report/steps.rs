//! The timeline as figures: what each slice of it comes to. Answers that came after the measured time belong to no slice.

use hdrhistogram::{Counter, Histogram};

use super::Report;

/// What one slice of a run comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// When it begins, in seconds since the measured time began.
    pub(crate) at_seconds: f64,
    /// How long it is.
    pub(crate) seconds: f64,
    /// Whether it is as long as the others. The rate of a cut one says little.
    pub(crate) whole: bool,
    pub(crate) answers: u64,
    pub(crate) per_second: f64,
    pub(crate) failures: u64,
    pub(crate) bytes_in: u64,
    /// `None` when nothing was answered.
    pub(crate) latency: Option<Latency>,
}

/// Latencies of a slice in nanoseconds, to two digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// The slices of a run, in their order.
pub(crate) fn of(report: &Report) -> Vec<Step> {
    let slice_seconds = report.timeline.slice_ns as f64 / 1e9;
    let slices = report.timeline.slices.iter().enumerate();
    let step = |(at, slice): (usize, &crate::engine::Slice)| {
        let at_seconds = at as f64 * slice_seconds;
        let left = report.seconds - at_seconds;
        // A slice that begins at the very end has what was answered while the threads heard of it.
        let seconds = if left > 0.0 {
            left.min(slice_seconds)
        } else {
            slice_seconds
        };
        Step {
            at_seconds,
            seconds,
            whole: left > slice_seconds * 0.999,
            answers: slice.answers,
            per_second: slice.answers as f64 / seconds,
            failures: slice.failures,
            bytes_in: slice.bytes_in,
            latency: (!slice.latency.is_empty()).then(|| Latency {
                p50: percentile(&slice.latency, 50.0),
                p95: percentile(&slice.latency, 95.0),
                p99: percentile(&slice.latency, 99.0),
                max: slice.latency.max(),
            }),
        }
    };
    slices.map(step).collect()
}

/// The value below which so many percent of all lie, but never more than the largest.
pub(crate) fn percentile<C: Counter>(histogram: &Histogram<C>, percent: f64) -> u64 {
    histogram.value_at_quantile(percent.clamp(0.0, 100.0) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slice_is_measured_by_its_own_length() {
        let mut report = Report::example();
        report.seconds = 9.95;
        let steps = of(&report);
        let (last, before) = (steps[99], steps[98]);
        assert!((last.seconds - 0.05).abs() < 1e-9 && !last.whole && before.whole);
        assert!((last.per_second - last.answers as f64 / 0.05).abs() < 1.0);
    }

    #[test]
    fn a_run_without_answers_has_no_latencies() {
        let mut report = Report::example();
        report.timeline.slices.iter_mut().for_each(|slice| {
            slice.answers = 0;
            slice.latency.reset();
        });
        assert!(
            of(&report)
                .iter()
                .all(|step| step.latency.is_none() && step.per_second < 1e-9)
        );
    }
}
