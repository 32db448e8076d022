//! What the server has counted. Each worker counts on its own; [`Stats`] is their sum.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::engine::latencies;

/// Most paths that are counted on their own; what others get is counted as [`OTHER_PATHS`].
pub(super) const PATHS_MAX: usize = 64;
/// Longest name of a path that is counted on its own.
pub(super) const PATH_BYTES_MAX: usize = 256;
/// The name of all further paths.
pub const OTHER_PATHS: &str = "(other)";

/// Requests for one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Read to their end.
    pub received: u64,
    /// Whose answer was handed to the system to its last byte. A fault counts where it is a whole answer as the server sees it.
    pub answered: u64,
}

/// What a server has counted since it started or since `/reset`. Requests for `/stats` and `/reset` are left out.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections closed over something that was not a request.
    pub malformed: u64,
    /// All requests together.
    pub total: PathCounts,
    /// Requests by path and query.
    pub paths: BTreeMap<String, PathCounts>,
    /// Nanoseconds from when a request was read to its end until its answer was handed to the system.
    pub service_ns: Histogram<u64>,
    /// The same until its answer, or the last part of it, was about to be handed over: no client can have it sooner, and one may have it
    /// before the system says that it has taken it.
    pub ready_ns: Histogram<u64>,
    /// How often the server stood still.
    pub stalls: u64,
    /// For how long altogether, in nanoseconds.
    pub stalled_ns: u64,
}

impl Stats {
    pub(super) fn new() -> Self {
        Self {
            accepted: 0,
            open: 0,
            malformed: 0,
            total: PathCounts::default(),
            paths: BTreeMap::new(),
            service_ns: latencies(),
            ready_ns: latencies(),
            stalls: 0,
            stalled_ns: 0,
        }
    }

    /// The counts of a path, with its query as it was typed.
    pub fn path(&self, path: &str) -> PathCounts {
        self.paths.get(path).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, tally: &Tally) {
        self.accepted += tally.accepted;
        self.open += tally.open;
        self.malformed += tally.malformed;
        for (name, counts) in &tally.paths {
            let sum = self.paths.entry(name.clone()).or_default();
            for sum in [sum, &mut self.total] {
                sum.received += counts.received;
                sum.answered += counts.answered;
            }
        }
        for (sum, part) in [
            (&mut self.service_ns, &tally.service_ns),
            (&mut self.ready_ns, &tally.ready_ns),
        ] {
            sum.add(part).expect("all histograms have the same bounds");
        }
        // All workers stand still together, but one without work may not notice.
        self.stalls = self.stalls.max(tally.stalls);
        self.stalled_ns = self.stalled_ns.max(tally.stalled_ns);
    }

    /// As `/stats` shows it.
    pub fn to_json(&self) -> serde_json::Value {
        let counts = |counts: &PathCounts| serde_json::json!({"received": counts.received, "answered": counts.answered});
        let ms = |ns: u64| ns as f64 / 1e6;
        let at = |quantile| ms(self.service_ns.value_at_quantile(quantile));
        serde_json::json!({
            "connections": {"accepted": self.accepted, "open": self.open, "malformed": self.malformed},
            "requests": counts(&self.total),
            "paths": self.paths.iter().map(|(name, path)| (name.clone(), counts(path))).collect::<serde_json::Map<_, _>>(),
            "service_ms": {
                "count": self.service_ns.len(),
                "mean": self.service_ns.mean() / 1e6,
                "p50": at(0.5),
                "p90": at(0.9),
                "p95": at(0.95),
                "p99": at(0.99),
                "p99_9": at(0.999),
                "max": ms(self.service_ns.max()),
            },
            "stalls": {"count": self.stalls, "total_ms": ms(self.stalled_ns)},
        })
    }
}

/// What one worker has counted.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) accepted: u64,
    pub(super) open: u64,
    pub(super) malformed: u64,
    pub(super) paths: Vec<(String, PathCounts)>,
    pub(super) service_ns: Histogram<u64>,
    pub(super) ready_ns: Histogram<u64>,
    pub(super) stalls: u64,
    pub(super) stalled_ns: u64,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            accepted: 0,
            open: 0,
            malformed: 0,
            paths: vec![(OTHER_PATHS.to_owned(), PathCounts::default())],
            service_ns: latencies(),
            ready_ns: latencies(),
            stalls: 0,
            stalled_ns: 0,
        }
    }

    /// The place where a path is counted.
    pub(super) fn place(&mut self, path: &str) -> usize {
        if let Some(at) = self.paths.iter().position(|(known, _)| known == path) {
            return at;
        }
        if self.paths.len() > PATHS_MAX || path.len() > PATH_BYTES_MAX {
            return 0;
        }
        self.paths.push((path.to_owned(), PathCounts::default()));
        self.paths.len() - 1
    }

    /// Forgets what was counted. Places stay, and so do open connections.
    pub(super) fn reset(&mut self) {
        let (paths, open) = (std::mem::take(&mut self.paths), self.open);
        *self = Self::new();
        self.paths = paths;
        self.paths
            .iter_mut()
            .for_each(|(_, counts)| *counts = PathCounts::default());
        self.open = open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_paths_there_are_the_sum_is_right() {
        let mut tally = Tally::new();
        for number in 0..1000 {
            let at = tally.place(&format!("/{}", number % 500));
            tally.paths[at].1.received += 1;
        }
        let mut stats = Stats::new();
        stats.add(&tally);
        assert_eq!(stats.paths.len(), PATHS_MAX + 1);
        assert_eq!(stats.path("/7").received, 2);
        assert_eq!(stats.path(OTHER_PATHS).received, 1000 - 2 * PATHS_MAX as u64);
        assert_eq!(stats.total.received, 1000);
        tally.reset();
        assert_eq!(tally.place("/7"), 8, "a place stays the same");
        assert_eq!(tally.paths[8].1, PathCounts::default());
    }
}
