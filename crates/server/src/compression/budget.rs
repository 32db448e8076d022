//! The CPU time and memory that an I/O thread may spend on compression, and the counters of compression.

use std::{
    cell::Cell,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::Coding;

/// How far [`Budget::paid_at`] may lie in the future before the budget counts as used up.
const BURST: Duration = Duration::from_secs(1);
/// Longest wait of a body that is being compressed for its next step.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Most bodies that one thread compresses at the same time, each with an encoder of its own.
const STREAMS_MAX: usize = 64;

/// Why a response that could have been compressed was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// `server.compress_cpu_max`
    Cpu,
    /// [`STREAMS_MAX`]
    Streams,
}

impl Skipped {
    pub(crate) const COUNT: usize = 2;
    /// The words for them in metrics.
    pub(crate) const NAMES: [&str; Self::COUNT] = ["cpu", "streams"];
}

/// The CPU time and memory that one I/O thread has left for compression.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// The time at which all CPU time used so far is paid for: with a share of 0.25, each millisecond of it takes four milliseconds to pay.
    paid_at: Cell<Option<Instant>>,
    streams: Cell<usize>,
}

impl Budget {
    /// Whether the budget is used up, so that no further body may be compressed now.
    pub(super) fn is_spent(&self, share: f64, now: Instant) -> bool {
        share <= 0.0 || self.wait(now).is_some()
    }

    /// The time until which the next step of a body must wait; `None`: it may run now.
    pub(super) fn wait(&self, now: Instant) -> Option<Instant> {
        let until = self.paid_at.get()?.checked_sub(BURST)?;
        (until > now).then_some(until)
    }

    /// Runs `work` and charges its CPU time to the budget. Returns its result and that time.
    pub(super) fn run<T>(&self, share: f64, work: impl FnOnce() -> T) -> (T, Duration) {
        let begun = cpu_time();
        let done = work();
        let cost = cpu_time().saturating_sub(begun);
        self.spend(cost, share, Instant::now());
        (done, cost)
    }

    fn spend(&self, cost: Duration, share: f64, now: Instant) {
        let passing = Duration::try_from_secs_f64(cost.as_secs_f64() / share).unwrap_or(WAIT_MAX);
        let from = self.paid_at.get().map_or(now, |paid_at| paid_at.max(now));
        let most = now + BURST + WAIT_MAX;
        self.paid_at
            .set(Some(from.checked_add(passing).unwrap_or(most).min(most)));
    }

    /// Acquires a permit to compress a body piece by piece, which is returned when it is dropped. `None`: [`STREAMS_MAX`] are in use.
    pub(super) fn acquire_stream(self: &Rc<Self>) -> Option<StreamPermit> {
        let taken = self.streams.get();
        (taken < STREAMS_MAX).then(|| {
            self.streams.set(taken + 1);
            StreamPermit(self.clone())
        })
    }
}

/// A permit to compress one body piece by piece.
#[derive(Debug)]
pub(super) struct StreamPermit(Rc<Budget>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Counts of all threads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    codings: [(AtomicU64, AtomicU64); Coding::COUNT],
    cpu_ns: AtomicU64,
    skipped: [AtomicU64; Skipped::COUNT],
}

/// A copy of [`Counts`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Bytes in and bytes out, in the order of [`Coding::ALL`].
    pub(crate) codings: [(u64, u64); Coding::COUNT],
    pub(crate) cpu: Duration,
    /// In the order of [`Skipped::NAMES`].
    pub(crate) skipped: [u64; Skipped::COUNT],
}

impl Counts {
    pub(super) fn count(&self, coding: Coding, taken: usize, put_out: usize, cpu: Duration) {
        let (before, after) = &self.codings[coding as usize];
        before.fetch_add(taken as u64, Relaxed);
        after.fetch_add(put_out as u64, Relaxed);
        self.cpu_ns.fetch_add(cpu.as_nanos() as u64, Relaxed);
    }

    pub(super) fn skip(&self, why: Skipped) {
        self.skipped[why as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            codings: std::array::from_fn(|at| {
                let (before, after) = &self.codings[at];
                (before.load(Relaxed), after.load(Relaxed))
            }),
            cpu: Duration::from_nanos(self.cpu_ns.load(Relaxed)),
            skipped: std::array::from_fn(|at| self.skipped[at].load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_paid_for_by_the_time_that_passes() {
        let ms = Duration::from_millis;
        let budget = Budget::default();
        let start = Instant::now();
        assert!(budget.is_spent(0.0, start) && !budget.is_spent(0.25, start));
        budget.spend(ms(250), 0.25, start);
        assert_eq!(budget.wait(start), None, "as much as a burst may cost");
        budget.spend(ms(50), 0.25, start);
        assert_eq!(budget.wait(start), Some(start + ms(200)));
        assert!(budget.is_spent(0.25, start + ms(199)) && !budget.is_spent(0.25, start + ms(200)));
        // The wait is limited, even if the share is tiny and the cost is high.
        budget.spend(ms(60_000), 1e-300, start);
        assert_eq!(budget.wait(start), Some(start + WAIT_MAX));
        // Time in which nothing is spent is not saved for later.
        let later = start + ms(3_600_000);
        budget.spend(ms(300), 0.25, later);
        assert_eq!(budget.wait(later), Some(later + ms(200)));
    }

    #[test]
    fn the_bodies_compressed_at_a_time_are_limited() {
        let budget = Rc::new(Budget::default());
        let mut permits: Vec<_> = (0..STREAMS_MAX).map(|_| budget.acquire_stream()).collect();
        assert!(permits.iter().all(Option::is_some) && budget.acquire_stream().is_none());
        permits.pop();
        let permit = budget.acquire_stream();
        assert!(permit.is_some() && budget.acquire_stream().is_none());
    }
}
