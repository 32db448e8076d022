//! How long the running script may go on: asked by the engine every some thousand steps, so a step that takes long by itself cannot be
//! stopped from here. Whoever must not wait for such a step lets it run on a thread that can be given up.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// What others see of a thread that runs scripts.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Milliseconds on the process's clock at which the running step must be over; 0: no script runs.
    due_ms: AtomicU64,
    given_up: AtomicBool,
}

impl Pulse {
    /// Whether a script still runs that should have been stopped before.
    pub(crate) fn is_overdue(&self, now_ms: u64) -> bool {
        let due = self.due_ms.load(Ordering::Acquire);
        due != 0 && now_ms > due
    }

    /// Whether no script runs.
    pub(crate) fn is_resting(&self) -> bool {
        self.due_ms.load(Ordering::Acquire) == 0
    }

    /// Nobody waits for this thread any more: its script is stopped when it can be.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}

/// How time is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// As it passes: others of the same thread wait.
    Passing,
    /// As the thread uses the processor.
    Processor,
}

/// The time of one engine.
#[derive(Debug)]
pub(crate) struct Budget {
    clock: Clock,
    pulse: Arc<Pulse>,
    /// When the running script is over its time at the earliest; `None`: none runs.
    until: Cell<Option<Instant>>,
    /// The thread's time at which it is.
    until_processor: Cell<Duration>,
    overrun: Cell<bool>,
}

/// A script that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    began: Instant,
    since: Duration,
}

impl Budget {
    pub(crate) fn new(clock: Clock, pulse: Arc<Pulse>) -> Self {
        Self {
            clock,
            pulse,
            until: Cell::new(None),
            until_processor: Cell::new(Duration::ZERO),
            overrun: Cell::new(false),
        }
    }

    /// A script begins to run, for so long at most; when twice that and `grace` have passed, it is overdue.
    pub(crate) fn begin(&self, time_max: Duration, grace: Duration) -> Turn {
        self.overrun.set(false);
        let began = Instant::now();
        self.until.set(Some(began + time_max));
        if self.clock == Clock::Passing {
            return Turn {
                began,
                since: Duration::ZERO,
            };
        }
        let since = processor_time();
        self.until_processor.set(since + time_max);
        let due = now_ms().saturating_add((2 * time_max + grace).as_millis() as u64);
        self.pulse.due_ms.store(due, Ordering::Release);
        Turn { began, since }
    }

    /// It has come to its end; says how long that took, by the clock that is charged.
    pub(crate) fn end(&self, turn: Turn) -> Duration {
        self.until.set(None);
        if self.clock == Clock::Passing {
            return turn.began.elapsed();
        }
        self.pulse.due_ms.store(0, Ordering::Release);
        processor_time().saturating_sub(turn.since)
    }

    /// Whether the last script was stopped.
    pub(crate) fn was_overrun(&self) -> bool {
        self.overrun.get()
    }

    /// Whether the running script is to be stopped.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = self.pulse.is_given_up() || self.until.get().is_some_and(|until| self.is_past(until));
        if is_over {
            self.overrun.set(true);
        }
        is_over
    }

    fn is_past(&self, until: Instant) -> bool {
        let now = Instant::now();
        if now < until {
            return false;
        }
        if self.clock == Clock::Passing {
            return true;
        }
        // Not before so much has passed again can the rest be used up.
        let left = self.until_processor.get().saturating_sub(processor_time());
        self.until.set(Some(now + left));
        left.is_zero()
    }
}

/// The time for which the processor has worked for this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Milliseconds on a clock that only goes forward, at least 1.
pub(crate) fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec.cast_unsigned() * 1000 + time.tv_nsec.cast_unsigned() / 1_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(clock: Clock) -> Budget {
        Budget::new(clock, Arc::default())
    }

    #[test]
    fn time_in_which_the_thread_rests_is_not_charged_where_the_processor_counts() {
        let budget = budget(Clock::Processor);
        let turn = budget.begin(Duration::from_millis(5), Duration::ZERO);
        let started = Instant::now();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        // Nobody sends: it rests.
        let _ = receiver.recv_timeout(Duration::from_millis(10));
        drop(sender);
        assert!(started.elapsed() >= Duration::from_millis(10) && !budget.is_over());
        while !budget.is_over() {}
        assert!(budget.was_overrun());
        assert!(budget.end(turn) >= Duration::from_millis(5));
    }

    #[test]
    fn a_thread_that_was_given_up_stops_whatever_it_runs() {
        let pulse = Arc::new(Pulse::default());
        let budget = Budget::new(Clock::Processor, pulse.clone());
        budget.begin(Duration::from_secs(1000), Duration::ZERO);
        assert!(!budget.is_over() && !pulse.is_overdue(now_ms()) && pulse.is_overdue(now_ms() + 2_000_001));
        pulse.give_up();
        assert!(budget.is_over());
    }

    #[test]
    fn outside_of_scripts_nothing_is_overdue() {
        let pulse = Arc::new(Pulse::default());
        let budget = Budget::new(Clock::Processor, pulse.clone());
        let turn = budget.begin(Duration::ZERO, Duration::ZERO);
        budget.end(turn);
        assert!(!budget.is_over() && !pulse.is_overdue(u64::MAX));
    }
}
