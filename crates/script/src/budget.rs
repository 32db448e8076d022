//! Time limits of the running script. The engine checks them every few thousand operations, so a single operation that takes long cannot be
//! stopped from here. Such operations must run on a thread that can be abandoned.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_store::facade::WaitPolicy;
use rustix::time::{ClockId, clock_gettime};

/// Grace period after twice the CPU time that a step may use, before its thread is abandoned: the machine may be busy with other work. No
/// step is overdue sooner than this after any change of its limits.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// The state of a script thread that other threads can see.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// When the running step is overdue, in milliseconds of the process's clock; 0 if no script runs.
    due_ms: AtomicU64,
    /// Whether the step waits for other users of the store; it is then overdue once its call has reached its time limit.
    waits: AtomicBool,
    given_up: AtomicBool,
}

impl Pulse {
    /// Whether a script still runs that should have been stopped before.
    pub(crate) fn is_overdue(&self, now_ms: u64) -> bool {
        let due = self.due_ms.load(Ordering::Acquire);
        due != 0 && now_ms > due
    }

    /// When the running step is overdue, on the process's clock.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        Some(self.due_ms.load(Ordering::Acquire)).filter(|&due| due != 0)
    }

    /// Whether the running step waits for other users of the store.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// Abandons this thread: its script is stopped as soon as possible.
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
    /// Wall time: others of the same thread wait.
    Passing,
    /// CPU time of the thread.
    Processor,
}

/// The time budget of one engine.
#[derive(Debug)]
pub(crate) struct Budget {
    clock: Cell<Clock>,
    pulse: Arc<Pulse>,
    /// The earliest time at which the running script exceeds its limit; `None` if none runs.
    until: Cell<Option<Instant>>,
    /// The thread's CPU time at which the script exceeds its limit.
    until_processor: Cell<Duration>,
    /// When the running script's call reaches its time limit.
    until_call: Cell<Option<Instant>>,
    /// Whether a script is stopped when its call reaches its time limit, however little CPU time it has used.
    ends_with_call: bool,
    overrun: Cell<bool>,
    /// Whether the call had exceeded its time limit when it finished waiting for other users of the store.
    late: Cell<bool>,
    /// When the running rule reaches the timeout of its node; `None` if it has none.
    until_rule: Cell<Option<Instant>>,
    rule_late: Cell<bool>,
    /// Whether any rule of this step was stopped because of its timeout.
    any_rule_late: Cell<bool>,
}

/// A step of a script that is running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    began: Instant,
    since: Duration,
}

impl Budget {
    pub(crate) fn new(clock: Clock, pulse: Arc<Pulse>) -> Self {
        Self {
            clock: Cell::new(clock),
            pulse,
            until: Cell::new(None),
            until_processor: Cell::new(Duration::ZERO),
            until_call: Cell::default(),
            ends_with_call: false,
            overrun: Cell::new(false),
            late: Cell::new(false),
            until_rule: Cell::default(),
            rule_late: Cell::new(false),
            any_rule_late: Cell::new(false),
        }
    }

    /// Makes scripts stop when their calls reach their time limit.
    pub(crate) fn ending_with_calls(self) -> Self {
        Self {
            ends_with_call: true,
            ..self
        }
    }

    /// Starts a step with this time limit; it is overdue when twice that and [`GRACE`] have passed. Until `until_call` it may wait for
    /// other users of the store, which does not count.
    pub(crate) fn begin(&self, time_max: Duration, until_call: Option<Instant>) -> Turn {
        self.overrun.set(false);
        self.late.set(false);
        self.until_rule.set(None);
        self.rule_late.set(false);
        self.any_rule_late.set(false);
        self.until_call.set(until_call);
        let began = Instant::now();
        let until = self.until_call.get().filter(|_| self.ends_with_call);
        self.until.set(Some(
            until.map_or(began + time_max, |until| until.min(began + time_max)),
        ));
        if self.clock.get() == Clock::Passing {
            return Turn {
                began,
                since: Duration::ZERO,
            };
        }
        let since = processor_time();
        self.until_processor.set(since + time_max);
        let left = until.map_or(2 * time_max, |until| {
            until.saturating_duration_since(began).min(2 * time_max)
        });
        self.due_in(left + GRACE);
        Turn { began, since }
    }

    /// Changes how time is charged from now on.
    pub(crate) fn charge_by(&self, clock: Clock) {
        self.clock.set(clock);
    }

    /// Sets the deadline of the rule that runs from here on in this step; `None` for code that belongs to no such rule.
    pub(crate) fn limit_rule(&self, until: Option<Instant>) {
        self.until_rule.set(until);
    }

    /// Whether a rule of this step was stopped because of its timeout. The step continues without it.
    pub(crate) fn rule_was_late(&self) -> bool {
        self.rule_late.get()
    }

    /// Whether any rule of this step was stopped because of its timeout, those included after which code of others went on.
    pub(crate) fn a_rule_was_late(&self) -> bool {
        self.any_rule_late.get()
    }

    /// Lets code of others go on in this step after a rule was stopped.
    pub(crate) fn leave_late_rule(&self) {
        self.rule_late.set(false);
        self.until_rule.set(None);
    }

    fn due_in(&self, time: Duration) {
        let due = now_ms().saturating_add(time.as_millis() as u64);
        self.pulse.due_ms.store(due, Ordering::Release);
    }

    /// Ends a step. Returns its duration by the clock that is charged.
    pub(crate) fn end(&self, turn: Turn) -> Duration {
        self.until.set(None);
        if self.clock.get() == Clock::Passing {
            return turn.began.elapsed();
        }
        self.pulse.due_ms.store(0, Ordering::Release);
        processor_time().saturating_sub(turn.since)
    }

    /// Whether the last script was stopped.
    pub(crate) fn was_overrun(&self) -> bool {
        self.overrun.get()
    }

    /// Whether the last script's call had exceeded its time limit when it finished waiting for other users of the store.
    pub(crate) fn was_late(&self) -> bool {
        self.late.get()
    }

    /// Whether the running script must stop.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = self.pulse.is_given_up()
            || self.late.get()
            || self.until.get().is_some_and(|until| self.is_past(until));
        if is_over {
            self.overrun.set(true);
            return true;
        }
        let is_late = self.until_rule.get().is_some_and(|until| until <= Instant::now());
        if is_late {
            self.rule_late.set(true);
            self.any_rule_late.set(true);
        }
        is_late
    }

    fn is_past(&self, until: Instant) -> bool {
        let now = Instant::now();
        if now < until {
            return false;
        }
        if self.clock.get() == Clock::Passing {
            return true;
        }
        let until_call = self.until_call.get().filter(|_| self.ends_with_call);
        if until_call.is_some_and(|until| until <= now) {
            self.late.set(true);
            return true;
        }
        // The remaining CPU time cannot be used up before this much wall time has passed.
        let left = self.until_processor.get().saturating_sub(processor_time());
        self.until
            .set(Some(until_call.map_or(now + left, |until| until.min(now + left))));
        left.is_zero()
    }
}

impl WaitPolicy for Budget {
    fn begins(&self) {
        if let Some(until) = self.until_call.get() {
            self.pulse.waits.store(true, Ordering::Release);
            // A waiting script checks its deadline itself; it is overdue only if it does not.
            self.due_in(until.saturating_duration_since(Instant::now()) + GRACE);
        }
    }

    fn ends(&self) {
        if self.until_call.get().is_some() {
            let left = self.until_processor.get().saturating_sub(processor_time());
            self.due_in(2 * left + GRACE);
            self.pulse.waits.store(false, Ordering::Release);
        }
    }

    fn has_ended(&self) -> bool {
        let is_late = self.until_call.get().is_some_and(|until| Instant::now() >= until);
        if is_late || self.pulse.is_given_up() {
            self.late.set(true);
            self.overrun.set(true);
        }
        self.late.get()
    }
}

/// CPU time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Milliseconds of the monotonic clock, at least 1.
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
        let turn = budget.begin(Duration::from_millis(5), None);
        let started = Instant::now();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        // Nothing is ever sent: the thread is idle.
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
        budget.begin(Duration::from_secs(1000), None);
        assert!(!budget.is_over() && !pulse.is_overdue(now_ms()) && pulse.is_overdue(now_ms() + 2_000_501));
        pulse.give_up();
        assert!(budget.is_over());
    }

    #[test]
    fn outside_of_scripts_nothing_is_overdue() {
        let pulse = Arc::new(Pulse::default());
        let budget = Budget::new(Clock::Processor, pulse.clone());
        let turn = budget.begin(Duration::ZERO, None);
        budget.end(turn);
        assert!(!budget.is_over() && !pulse.is_overdue(u64::MAX));
    }
}
