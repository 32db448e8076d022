//! When connections are opened for the first time, at a rate.

/// A thread's share of the rate.
#[derive(Debug)]
pub(super) struct Ramp {
    interval_ns: f64,
    /// How much later than the first thread this one begins.
    offset_ns: f64,
    /// When the next connection is due, in nanoseconds; `None` before the first.
    next: Option<f64>,
}

impl Ramp {
    pub(super) fn new(per_second: f64, thread: usize, threads: usize) -> Self {
        Self {
            interval_ns: 1e9 * threads as f64 / per_second,
            offset_ns: 1e9 * thread as f64 / per_second,
            next: None,
        }
    }

    /// When the next connection may be opened, not before now.
    pub(super) fn next(&mut self, now: u64) -> u64 {
        let now_ns = now as f64;
        let at = self.next.unwrap_or(now_ns + self.offset_ns).max(now_ns);
        self.next = Some(at + self.interval_ns);
        at as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_together_open_at_equal_distances() {
        let mut opened: Vec<u64> = (0..4)
            .flat_map(|thread| {
                let mut ramp = Ramp::new(100.0, thread, 4);
                (0..25).map(move |_| ramp.next(1_000)).collect::<Vec<_>>()
            })
            .collect();
        opened.sort_unstable();
        assert_eq!((opened.len(), opened[0]), (100, 1_000));
        assert!(
            opened.windows(2).all(|pair| pair[1] - pair[0] == 10_000_000),
            "{opened:?}"
        );
    }

    #[test]
    fn connections_that_are_wanted_later_keep_to_the_rate_from_then_on() {
        let mut ramp = Ramp::new(1_000.0, 0, 1);
        assert_eq!([ramp.next(0), ramp.next(0)], [0, 1_000_000]);
        assert_eq!(
            [ramp.next(5_000_000), ramp.next(5_000_000)],
            [5_000_000, 6_000_000]
        );
    }
}
