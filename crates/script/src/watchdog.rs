//! Finds threads whose script does not stop, and abandons them.

use std::{
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use crate::{
    Failure,
    budget::{GRACE, now_ms},
    executor::{Shared, stuck},
    member::{ExecutorThread, OpenCall, Waiter},
};

/// Longest interval between checks. A step that begins right after a check is seen again before it can be overdue, so steps need not
/// announce that they begin.
const REST: Duration = GRACE;

/// Finds threads that hang.
pub(crate) fn watch(shared: &Weak<Shared>) {
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let members = {
            let state = shared.state.lock();
            if state.ends {
                return;
            }
            state.members.clone()
        };
        let now = now_ms();
        for member in &members {
            if member.pulse.is_overdue(now) {
                give_up(&shared, member);
            }
        }
        let living = members.iter().filter(|member| !member.pulse.is_given_up());
        let due = living.filter_map(|member| member.pulse.due_ms()).min();
        let rest = until_next_look(now, due);
        drop((members, shared));
        thread::park_timeout(rest);
    }
}

/// The time until the next check: it must come as soon as a running step is overdue.
fn until_next_look(now_ms: u64, due_ms: Option<u64>) -> Duration {
    due_ms.map_or(REST, |due| {
        REST.min(Duration::from_millis(due.saturating_sub(now_ms) + 1))
    })
}

/// Does without a thread whose script does not stop.
fn give_up(shared: &Arc<Shared>, member: &ExecutorThread) {
    {
        let mut state = shared.state.lock();
        if !state.leaves(member) {
            return;
        }
        state.given_up += 1;
        shared.options.counts.threads.subtract(1);
        shared.threads.send_replace(state.members.len());
        shared.options.counts.thread_given_up();
        member.pulse.give_up();
        // Another thread replaces it if there are queued jobs.
        if !state.queue.is_empty()
            && let Err(failure) = shared.call_thread(&mut state)
        {
            tracing::error!(target: "forebay::script", script = shared.options.name, "{failure}");
        }
        if state.members.is_empty() {
            state.refuse_all(&stuck());
        }
    }
    let limits = &shared.options.limits;
    let mut calls = member.calls.lock();
    let running = calls.running.take();
    let late = running.filter(|_| member.pulse.is_waiting());
    let failure = late.map_or(
        Failure::Time {
            limit: "cpu_max",
            limit_ms: limits.cpu_max.as_millis() as u64,
        },
        |(_, until)| until.failure(limits.time_max),
    );
    tracing::error!(
        target: "forebay::script",
        script = shared.options.name,
        calls = calls.open.len(),
        "a call cannot be stopped, and its thread is given up: {failure}"
    );
    for (key, call) in calls.open.drain() {
        let OpenCall { waiter, in_flight } = call;
        drop(in_flight);
        let Waiter::Reply(reply) = waiter else { continue };
        let is_running = running.is_some_and(|(running, _)| running == key);
        let failure = if is_running {
            failure.clone()
        } else {
            Failure::GivenUp
        };
        // The client may have left.
        let _ = reply.send(Err(failure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Clock, Pulse};

    #[test]
    fn no_step_is_overdue_for_longer_than_it_takes_to_look() {
        let pulse = Arc::new(Pulse::default());
        let budget = Budget::new(Clock::Processor, pulse.clone());
        // It has checked, and the step begins as soon as it sleeps.
        let looked = now_ms();
        let mut next = looked + until_next_look(looked, pulse.due_ms()).as_millis() as u64;
        budget.begin(Duration::ZERO, None);
        let due = pulse.due_ms().expect("a step runs");
        assert!(next <= due, "looked at {looked}, next at {next}, due at {due}");
        while next <= due {
            assert!(!pulse.is_overdue(next));
            next += until_next_look(next, Some(due)).as_millis() as u64;
        }
        assert_eq!(next, due + 1);
        assert!(pulse.is_overdue(next));
    }
}
