//! Statistics of measurements: how sure a figure is, whether a run drifted, and how two servers compare. Figures go in,
//! figures come out; nothing here reads a clock, a file or a random source of its own.
//!
//! The unit of all of it is the slice of a run, never the single request. Requests that follow each other share queues, caches and
//! scheduler decisions, so a thousand of them say far less than a thousand independent ones would, and an interval computed from single
//! requests is much too narrow.

mod batches;
pub mod encoded;
mod interval;
mod ratio;
mod steady;
mod student;

pub use self::{
    batches::throughput,
    interval::{Interval, coefficient_of_variation, mean, standard_deviation},
    ratio::{Ratio, Side, interleave, ratio},
    steady::is_steady,
    student::student_t,
};

use crate::engine::Timeline;

/// Parts into which a run is cut to see how much its rate varies.
const PARTS: usize = 20;

/// The complete slices of a timeline. Connections are still opening in the first one, and the last one may be cut short.
fn whole(timeline: &Timeline) -> &[crate::engine::Slice] {
    match timeline.slices.as_slice() {
        [_, whole @ .., _] => whole,
        _ => &[],
    }
}

/// Responses per second in each complete slice.
pub fn rates(timeline: &Timeline) -> Vec<f64> {
    let seconds = timeline.slice_ns as f64 / 1e9;
    whole(timeline)
        .iter()
        .map(|slice| slice.answers as f64 / seconds)
        .collect()
}

/// How much the rate of a run varied: the coefficient of variation over twenty equal parts of it (fewer when there are fewer slices),
/// without the part that chance alone adds when there are few responses. A process of independent arrivals varies by one over the root of
/// the number of arrivals however quiet the machine is. `None` below five slices, or without responses.
pub fn variation(timeline: &Timeline) -> Option<f64> {
    let rates = rates(timeline);
    let (part, seconds) = (rates.len().div_ceil(PARTS), timeline.slice_ns as f64 / 1e9);
    if rates.len() < 5 {
        return None;
    }
    let parts: Vec<_> = rates.chunks_exact(part).map(mean).collect();
    let by_chance = 1.0 / (mean(&parts) * seconds * part as f64);
    let squared = coefficient_of_variation(&parts)?.powi(2) - by_chance;
    Some(squared.max(0.0).sqrt())
}

/// By how much of its mean the rate of a run changed from its first third to its last, if that is certain: their 95 % intervals lie apart.
/// Neighbours that depend on each other are joined before, or they would look like a change. `None` otherwise.
pub fn drift(rates: &[f64]) -> Option<f64> {
    let means = batches::independent(rates);
    let third = means.len() / 3;
    let (first, last) = (
        Interval::of_mean(&means[..third])?,
        Interval::of_mean(&means[means.len() - third..])?,
    );
    let change = (last.value - first.value) / mean(&means);
    (!first.overlaps(&last) && change.is_finite()).then_some(change)
}

/// Samples that must lie beyond a percentile for it to mean anything.
const BEYOND_MIN: f64 = 10.0;

/// Whether so many samples can tell a percentile (0 to 100): at least ten must lie beyond it on its shorter side, or the figure is that
/// of a few requests. 100 and 0 are the ends, and need one sample.
pub fn enough_samples(percentile: f64, samples: u64) -> bool {
    samples >= samples_needed(percentile)
}

/// Samples that are needed to tell a percentile (0 to 100).
pub fn samples_needed(percentile: f64) -> u64 {
    let beyond = percentile.min(100.0 - percentile) / 100.0;
    // A share such as 0.1 % has no exact binary form; its last bits must not ask for one sample more.
    if beyond <= 0.0 {
        1
    } else {
        (BEYOND_MIN / beyond - 1e-6).ceil() as u64
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::Slice;

    /// A timeline whose slices have so many answers, all of them with one latency, after a first and before a last slice that are
    /// not whole.
    pub(crate) fn timeline(answers: &[u64], latency_ns: u64) -> Timeline {
        let mut all = vec![1];
        all.extend_from_slice(answers);
        all.push(1);
        let slices = all.iter().map(|&answers| {
            let mut latency = hdrhistogram::Histogram::new_with_bounds(1_000, 1_000_000_000, 2).unwrap();
            latency.record_n(latency_ns, answers as u32).unwrap();
            Slice {
                answers,
                failures: 0,
                latency,
            }
        });
        Timeline {
            start_ns: 0,
            slice_ns: 100_000_000,
            slices: slices.collect(),
        }
    }

    #[test]
    fn the_first_and_the_last_slice_are_not_counted() {
        assert_eq!(rates(&timeline(&[100, 200], 5_000)), [1000.0, 2000.0]);
        assert_eq!(rates(&timeline(&[], 5_000)), [0.0; 0]);
        assert_eq!(rates(&Timeline::default()), [0.0; 0]);
    }

    #[test]
    fn variation_leaves_out_what_chance_explains() {
        // Twenty parts of five slices; their rates alternate by ten per cent.
        let rough: Vec<_> = (0..100)
            .map(|at| if at / 5 % 2 == 0 { 9_000 } else { 11_000 })
            .collect();
        let found = variation(&timeline(&rough, 5_000)).unwrap();
        assert!((found - 0.1026).abs() < 0.001, "{found}");
        // The same share of variation is less than chance brings at four answers a slice.
        let few: Vec<_> = (0..100).map(|at| if at / 5 % 2 == 0 { 4 } else { 5 }).collect();
        assert_eq!(variation(&timeline(&few, 5_000)), Some(0.0));
        assert_eq!(variation(&timeline(&[5; 4], 5_000)), None);
        assert_eq!(variation(&timeline(&[0; 10], 5_000)), None);
    }

    #[test]
    fn a_run_that_slows_down_is_seen_and_a_steady_one_hardly_ever() {
        let run = |seed, slope: f64| {
            let mut random = crate::request::Random::new(seed);
            let rate = |at| 1000.0 + slope * f64::from(at) + 60.0 * random.unit();
            drift(&(0..100).map(rate).collect::<Vec<_>>())
        };
        for seed in 0..50 {
            let change = run(seed, -1.0).unwrap();
            assert!((-0.09..-0.04).contains(&change), "seed {seed}: {change}");
        }
        let certain = (0..300).filter(|seed| run(*seed, 0.0).is_some()).count();
        assert!(certain <= 9, "{certain} of 300");
        assert_eq!(
            (drift(&[5.0; 20]), drift(&[0.0; 20]), drift(&[1.0; 4])),
            (None, None, None)
        );
    }

    #[test]
    fn ten_samples_must_lie_beyond_a_percentile() {
        for (percentile, needed) in [
            (50.0, 20),
            (99.0, 1000),
            (99.9, 10_000),
            (99.99, 100_000),
            (2.5, 400),
            (100.0, 1),
            (0.0, 1),
        ] {
            assert_eq!(samples_needed(percentile), needed, "p{percentile}");
            assert!(enough_samples(percentile, needed) && !enough_samples(percentile, needed - 1));
        }
    }
}
