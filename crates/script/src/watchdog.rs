//! Looks for threads whose script does not stop, and does without them.

use std::{
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use crate::{
    Failure,
    budget::now_ms,
    executor::{Shared, stuck},
    member::{Member, Waiter},
};

/// How often it is looked whether a thread hangs, while any runs a script.
const LOOK: Duration = Duration::from_millis(20);
/// The same while none does.
const REST: Duration = Duration::from_secs(1);

/// Looks for threads that hang. It rests while none runs a script.
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
        let is_quiet = members.iter().all(|member| member.pulse.is_resting());
        drop((members, shared));
        if is_quiet {
            // Whoever begins a step when this rests wakes it, unless it was about to rest just then.
            thread::park_timeout(REST);
        } else {
            thread::park_timeout(LOOK);
        }
    }
}

/// Does without a thread whose script does not stop.
fn give_up(shared: &Arc<Shared>, member: &Member) {
    {
        let mut state = shared.state.lock();
        if !state.leaves(member) {
            return;
        }
        state.given_up += 1;
        shared.options.counts.threads.subtract(1);
        shared.options.counts.thread_given_up();
        member.pulse.give_up();
        // Another takes its place, if anybody waits for one.
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
    for (key, waiter) in calls.open.drain() {
        let Waiter::Reply(reply) = waiter else { continue };
        let is_running = running.is_some_and(|(running, _)| running == key);
        let failure = if is_running {
            failure.clone()
        } else {
            Failure::GivenUp
        };
        // Who does not wait any more does not mind.
        let _ = reply.send(Err(failure));
    }
}
