//! Statistics of measurements: how sure a figure is, when warm-up ended, whether a run drifted, and how two servers compare. Figures go in,
//! figures come out; nothing here reads a clock, a file or a random source of its own.
//!
//! The unit of all of it is the slice of a run, never the single request. Requests that follow each other share queues, caches and
//! scheduler decisions, so a thousand of them say far less than a thousand independent ones would, and an interval computed from single
//! requests is much too narrow.

mod batches;
mod drift;
pub(crate) mod encoded;
mod interval;
mod percentile;
mod ratio;
mod steady;
mod student;
mod warm_up;

pub use self::{
    batches::{BatchMeans, batch_means, throughput},
    drift::{Drift, drift},
    interval::{Interval, coefficient_of_variation, mean, standard_deviation},
    percentile::{enough_samples, percentile_intervals, samples_needed},
    ratio::{Ratio, Side, interleave, ratio},
    steady::is_steady,
    student::student_t,
    warm_up::{WarmUp, warm_up},
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
    variation_from(timeline, 0)
}

/// As [`variation`], without the first `cut` complete slices, as when they were warm-up.
pub fn variation_from(timeline: &Timeline, cut: usize) -> Option<f64> {
    let rates = rates(timeline).split_off(cut.min(whole(timeline).len()));
    let (part, seconds) = (rates.len().div_ceil(PARTS), timeline.slice_ns as f64 / 1e9);
    if rates.len() < 5 {
        return None;
    }
    let parts: Vec<_> = rates.chunks_exact(part).map(mean).collect();
    let by_chance = 1.0 / (mean(&parts) * seconds * part as f64);
    let squared = coefficient_of_variation(&parts)?.powi(2) - by_chance;
    Some(squared.max(0.0).sqrt())
}

/// Whether a run has lasted long enough that its rate is known to a part of it (0.01 for ±1 %), as a rule for ending it. It is asked
/// repeatedly during a run, so it says yes only with ten batches that hardly depend on each other: a few that agree by chance do not end
/// it.
pub fn is_known(timeline: &Timeline, part: f64) -> bool {
    throughput(timeline).is_some_and(|means| means.is_firm() && means.interval.relative_half_width() <= part)
}

/// Little's law for a closed load: as many requests are in flight as there is room for. Returns by how much of the room they fall short (or
/// exceed it): `|room - rate × latency| / room`. A large value means that figures contradict each other: connections were lost, or
/// latencies are not what they claim. Source: J. D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9 (1961).
pub fn littles_law(room: f64, per_second: f64, mean_latency_seconds: f64) -> f64 {
    (room - per_second * mean_latency_seconds).abs() / room
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
                bytes_in: 0,
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
    fn a_rate_is_known_when_its_interval_is_narrow_and_firm() {
        let noise = |at: u64| (at * 7919) % 401;
        let run = |slices: u64| {
            timeline(
                &(0..slices).map(|at| 9_800 + noise(at)).collect::<Vec<_>>(),
                5_000,
            )
        };
        assert!(
            !is_known(&run(9), 0.05),
            "nine slices are too few whatever they say"
        );
        assert!(!is_known(&run(15), 0.005) && is_known(&run(15), 0.05));
        assert!(is_known(&run(200), 0.005));
        let climbing: Vec<_> = (0..30).map(|at| 9_000 + 10 * at).collect();
        assert!(!is_known(&timeline(&climbing, 5_000), 0.05));
    }

    #[test]
    fn littles_law_holds_where_all_room_is_used() {
        // 50 connections that each wait 10 ms make 5000 requests a second.
        assert!(littles_law(50.0, 5000.0, 0.010) < 1e-9);
        // Latencies cut to whole milliseconds: 0.4 ms shown as 0.02 ms.
        assert!((littles_law(10.0, 25_131.0, 0.000_02) - 0.95).abs() < 0.001);
    }
}
