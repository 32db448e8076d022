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

use forebay_store::facade::WaitPolicy;
use rustix::time::{ClockId, clock_gettime};

/// How much longer than twice the time of the processor that it may use a step lasts until nobody waits for it: the machine may be busy with
/// others. No step is overdue sooner than this after anything has changed about it.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// What others see of a thread that runs scripts.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Milliseconds on the process's clock at which the running step must be over; 0: no script runs.
    due_ms: AtomicU64,
    /// Whether the step waits for others who use the store; it is due when its call has lasted as long as it may.
    waits: AtomicBool,
    given_up: AtomicBool,
}

impl Pulse {
    /// Whether a script still runs that should have been stopped before.
    pub(crate) fn is_overdue(&self, now_ms: u64) -> bool {
        let due = self.due_ms.load(Ordering::Acquire);
        due != 0 && now_ms > due
    }

    /// When the step that runs is due, on the process's clock.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        Some(self.due_ms.load(Ordering::Acquire)).filter(|&due| due != 0)
    }

    /// Whether the step that runs waits for others who use the store.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Acquire)
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
    clock: Cell<Clock>,
    pulse: Arc<Pulse>,
    /// When the running script is over its time at the earliest; `None`: none runs.
    until: Cell<Option<Instant>>,
    /// The thread's time at which it is.
    until_processor: Cell<Duration>,
    /// When the running script's call has lasted as long as it may.
    until_call: Cell<Option<Instant>>,
    /// Whether a script stops when its call has lasted so long, however little of the processor it has used.
    ends_with_call: bool,
    overrun: Cell<bool>,
    /// Whether the call had lasted too long when it was done waiting for others who use the store.
    late: Cell<bool>,
    /// When the rule that runs has lasted as long as its node says; `None`: as long as its call.
    until_rule: Cell<Option<Instant>>,
    rule_late: Cell<bool>,
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
        }
    }

    /// The same for scripts that stop when their calls have lasted as long as they may.
    pub(crate) fn ending_with_calls(self) -> Self {
        Self {
            ends_with_call: true,
            ..self
        }
    }

    /// A script begins to run, for so long at most; when twice that and [`GRACE`] have passed, it is overdue. Until `until_call` it may wait
    /// for others who use the store, which is not part of that time.
    pub(crate) fn begin(&self, time_max: Duration, until_call: Option<Instant>) -> Turn {
        self.overrun.set(false);
        self.late.set(false);
        self.until_rule.set(None);
        self.rule_late.set(false);
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

    /// From now on time is charged so.
    pub(crate) fn charge_by(&self, clock: Clock) {
        self.clock.set(clock);
    }

    /// What runs from here on in this step is a rule's that may run until then, or is not any such rule's.
    pub(crate) fn limit_rule(&self, until: Option<Instant>) {
        self.until_rule.set(until);
    }

    /// Whether a rule of this step was stopped because it had run as long as it may. The step goes on without it.
    pub(crate) fn rule_was_late(&self) -> bool {
        self.rule_late.get()
    }

    fn due_in(&self, time: Duration) {
        let due = now_ms().saturating_add(time.as_millis() as u64);
        self.pulse.due_ms.store(due, Ordering::Release);
    }

    /// It has come to its end; says how long that took, by the clock that is charged.
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

    /// Whether the last script's call had lasted too long when it was done waiting for others who use the store.
    pub(crate) fn was_late(&self) -> bool {
        self.late.get()
    }

    /// Whether the running script is to be stopped.
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
        // Not before so much has passed again can the rest be used up.
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
            // Who waits sees by itself that the time is over; it is overdue only when it does not.
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
        let turn = budget.begin(Duration::from_millis(5), None);
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
