//! Decides whether a server that is being warmed up has stopped changing. It is asked while the load continues, so it needs few slices and
//! looks at the last of them only.

use hdrhistogram::Histogram;

use crate::engine::{Slice, Timeline};

/// Fewest slices on each side of the comparison.
const SIDE_MIN: usize = 2;
/// The sides together are this fraction of the timeline, at its end: the longer the warm-up, the slower the changes that are noticed.
const PART: usize = 2;
/// Slices at the end that may be incomplete because some threads have not reported yet.
const UNTOLD: usize = 2;
/// Largest change from one side to the other that counts as none.
const CHANGE_MAX: f64 = 0.03;
/// Differences below the resolution of the slices' histograms, in nanoseconds.
const SAME_NS: f64 = 1_000.0;

/// Whether throughput and median latency are steady: between two neighbouring parts at the end, neither has changed by more than 3 %, or by
/// more than chance explains where responses are few. It takes seven slices (0.7 s) to decide. Failures count as responses here, because a
/// server that rejects everything has nothing to warm up; one that says nothing at all is never steady.
pub fn is_steady(timeline: &Timeline) -> bool {
    // Connections are still opening in the first slice.
    let told = match timeline.slices.as_slice() {
        [_, rest @ ..] => &rest[..rest.len().saturating_sub(UNTOLD)],
        [] => &[],
    };
    let side = SIDE_MIN.max(told.len() / (2 * PART));
    let Some(start) = told.len().checked_sub(2 * side) else {
        return false;
    };
    let (before, after) = told[start..].split_at(side);
    let (before, after) = (Side::of(before), Side::of(after));
    if before.ended == 0 || after.ended == 0 {
        return false;
    }
    // Counts of independent arrivals differ by this much by chance.
    let by_chance = (1.0 / before.ended as f64 + 1.0 / after.ended as f64).sqrt();
    let allowed = CHANGE_MAX.max(by_chance);
    let (rate_before, rate_after) = (before.ended as f64, after.ended as f64);
    if (rate_after - rate_before).abs() > allowed * rate_after {
        return false;
    }
    match (before.median_ns, after.median_ns) {
        (Some(before), Some(after)) => (after - before).abs() <= (allowed * after).max(SAME_NS),
        (before, after) => before == after,
    }
}

/// Neighbouring slices taken together.
struct Side {
    /// Answers and failures.
    ended: u64,
    median_ns: Option<f64>,
}

impl Side {
    fn of(slices: &[Slice]) -> Self {
        let mut latency: Option<Histogram<u32>> = None;
        for slice in slices.iter().filter(|slice| !slice.latency.is_empty()) {
            match &mut latency {
                Some(latency) => latency
                    .add(&slice.latency)
                    .expect("all slices have the same bounds"),
                None => latency = Some(slice.latency.clone()),
            }
        }
        Self {
            ended: slices.iter().map(|slice| slice.answers + slice.failures).sum(),
            median_ns: latency.map(|latency| latency.value_at_quantile(0.5) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{request::Random, stats::tests::timeline};

    /// The slice after which a growing timeline is called steady; `None` if it never is.
    fn steady_after(slices: usize, answers: impl Fn(f64) -> f64) -> Option<usize> {
        let answers: Vec<u64> = (0..slices).map(|at| answers(at as f64) as u64).collect();
        (1..=slices).find(|&until| is_steady(&timeline(&answers[..until], 5_000_000)))
    }

    #[test]
    fn a_server_that_does_not_change_is_steady_soon() {
        assert_eq!(steady_after(50, |_| 1_000.0), Some(5));
        for seed in 0..50 {
            let random = std::cell::RefCell::new(Random::new(seed));
            let noisy = |_| 10_000.0 * (0.95 + 0.1 * random.borrow_mut().unit());
            let found = steady_after(50, noisy);
            assert!(found.is_some_and(|after| after <= 15), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn a_server_that_climbs_is_steady_when_it_has_arrived() {
        // After a second two thirds of the way are gone, after four seconds 98 in a hundred.
        let found = steady_after(50, |at| 10_000.0 - 7_000.0 * (-at / 10.0).exp()).unwrap();
        assert!((25..=48).contains(&found), "{found}");
        assert_eq!(steady_after(50, |at| 1_000.0 + 500.0 * at), None);
        assert_eq!(steady_after(50, |at| 100_000.0 * (-at / 20.0).exp()), None);
    }

    #[test]
    fn latency_must_be_steady_too() {
        let mut rising = timeline(&[1_000; 50], 5_000_000);
        for (at, slice) in rising.slices.iter_mut().enumerate() {
            slice.latency.reset();
            slice
                .latency
                .record_n(1_000_000 + 100_000 * at as u64, 1_000)
                .unwrap();
        }
        assert!(!is_steady(&rising));
        // A change below the resolution of slices is none.
        assert!(is_steady(&timeline(&[1_000; 50], 2_000)));
    }

    #[test]
    fn few_answers_vary_by_chance_and_none_say_nothing() {
        let few: Vec<u64> = (0..50).map(|at| 3 + at % 3).collect();
        assert!(is_steady(&timeline(&few, 5_000_000)));
        let mut silent = timeline(&[0; 50], 5_000_000);
        assert!(!is_steady(&silent));
        for slice in &mut silent.slices {
            slice.failures = 10;
        }
        assert!(is_steady(&silent), "nothing but failures does not warm up");
        assert!(!is_steady(&Timeline::default()));
    }
}
