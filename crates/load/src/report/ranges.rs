//! The distribution of latencies in a few ranges with round edges, for a histogram that is read.

use hdrhistogram::Histogram;

use super::steps;

/// Latencies from one value up to another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from_ns: u64,
    /// `None`: everything above.
    pub(super) to_ns: Option<u64>,
    pub(super) count: u64,
}

/// Most rows of the histogram, apart from the last one.
const RANGES_MAX: usize = 10;

/// The steps within a power of ten, from the finest to the coarsest.
const LADDERS: [&[u64]; 5] = [
    &[10, 12, 15, 20, 25, 30, 40, 50, 60, 80],
    &[10, 15, 20, 30, 50, 70],
    &[10, 20, 50],
    &[10, 30],
    &[10],
];

/// The distribution in a few ranges with round edges: finely up to the 99th percentile, where most answers are, and what is slower
/// in one.
pub(super) fn ranges(latency: &Histogram<u64>) -> Vec<Range> {
    let (least, most) = (latency.min().max(10), steps::percentile(latency, 99.0));
    let edges = LADDERS.iter().map(|ladder| edges(ladder, least, most));
    let edges = edges
        .min_by_key(|edges| edges.len().saturating_sub(RANGES_MAX + 1))
        .unwrap_or_default();
    let mut counted = 0;
    let mut ranges: Vec<Range> = edges
        .windows(2)
        .map(|pair| {
            let from_ns = pair[0];
            // All that was counted before lies below, whatever bucket the edge is in: nothing is counted twice or left out.
            let below = latency.count_between(0, pair[1].saturating_sub(1));
            let count = below - counted;
            counted = below;
            Range {
                from_ns,
                to_ns: Some(pair[1]),
                count,
            }
        })
        .collect();
    if counted < latency.len() {
        ranges.push(Range {
            from_ns: edges.last().copied().unwrap_or_default(),
            to_ns: None,
            count: latency.len() - counted,
        });
    }
    ranges
}

/// Round values, the first at or below `least`, the last above `most`.
fn edges(ladder: &[u64], least: u64, most: u64) -> Vec<u64> {
    let decades = (0..11).map(|power| 10_u64.pow(power));
    let all: Vec<u64> = decades
        .flat_map(|decade| ladder.iter().map(move |step| step * decade))
        .collect();
    let first = all.partition_point(|&edge| edge <= least).saturating_sub(1);
    let last = all.partition_point(|&edge| edge <= most).min(all.len() - 1);
    all[first..=last].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    #[test]
    fn ranges_hold_every_answer_once() {
        for report in [Report::example(), Report::example_open()] {
            let ranges = ranges(&report.latency_ns);
            assert!(ranges.len() <= RANGES_MAX + 1, "{ranges:?}");
            assert_eq!(
                ranges.iter().map(|range| range.count).sum::<u64>(),
                report.latency_ns.len()
            );
            assert!(
                ranges
                    .windows(2)
                    .all(|pair| pair[0].to_ns == Some(pair[1].from_ns))
            );
        }
        let mut extremes = crate::engine::latencies();
        assert_eq!(ranges(&extremes), []);
        extremes.saturating_record(0);
        extremes.saturating_record(u64::MAX);
        assert_eq!(ranges(&extremes).iter().map(|range| range.count).sum::<u64>(), 2);
    }
}
