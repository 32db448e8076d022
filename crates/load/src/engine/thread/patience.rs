//! What has waited too long is given up.

use std::time::Duration;

use super::{After, Context};
use crate::{
    engine::connection::{Connection, Phase, SHUT},
    failure::Class,
    plan::Plan,
};

/// How long a connection that has carried its only request waits for the other side to close it, from when it began to be opened.
const CLOSE_WAIT_NS: u64 = 1_000_000_000;

/// How long everything may take, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    connect: u64,
    whole: u64,
    /// Shorter waits for parts of an answer, if there are some.
    parts: Option<Parts>,
}

#[derive(Clone, Copy, Debug)]
struct Parts {
    first_byte: u64,
    idle: u64,
}

impl Patience {
    pub(super) fn new(plan: &Plan) -> Self {
        let ns = |limit: Duration| limit.as_nanos() as u64;
        let none = (plan.first_byte_timeout, plan.idle_timeout) == (None, None);
        Self {
            connect: ns(plan.connect_timeout),
            whole: ns(plan.timeout),
            parts: (!none).then(|| Parts {
                first_byte: plan.first_byte_timeout.map_or(u64::MAX, ns),
                idle: plan.idle_timeout.map_or(u64::MAX, ns),
            }),
        }
    }

    /// How often connections are to be looked at: a twentieth of the shortest wait, but neither without pause nor hardly ever.
    pub(super) fn looks_every_ns(&self) -> u64 {
        let parts = self
            .parts
            .map_or(u64::MAX, |parts| parts.first_byte.min(parts.idle));
        let shortest = self.connect.min(self.whole).min(parts);
        (shortest / 20).clamp(1_000_000, 100_000_000)
    }

    /// Why a request in flight has waited too long, if it has.
    fn late(&self, connection: &Connection, place: usize, now: u64) -> Option<Class> {
        let written = connection.in_flight.get(place)?.at;
        if now.saturating_sub(written) >= self.whole {
            return Some(Class::Timeout);
        }
        let parts = self.parts?;
        match connection.progress(place) {
            None => (now.saturating_sub(written) >= parts.first_byte).then_some(Class::FirstByteTimeout),
            Some((_, heard)) => (now.saturating_sub(heard) >= parts.idle).then_some(Class::IdleTimeout),
        }
    }

    /// The first of the requests in flight, from a place on, that has waited too long.
    pub(super) fn first_late(
        &self,
        connection: &Connection,
        from: usize,
        now: u64,
    ) -> Option<(usize, Class)> {
        // Without other limits than that for the whole the oldest is late before all others; with HTTP/1 answers come in its order.
        let any = connection.h2.is_some() && self.parts.is_some();
        let until = if any { connection.in_flight.len() } else { from + 1 };
        (from..until).find_map(|place| Some((place, self.late(connection, place, now)?)))
    }
}

/// What an example says about a request that was given up.
pub(super) const fn late(class: Class) -> &'static str {
    match class {
        Class::FirstByteTimeout => "nothing of an answer within the time-out for its first byte",
        Class::IdleTimeout => "an answer stopped in the middle for longer than the time-out for silence",
        _ => "no whole answer within the time-out",
    }
}

impl Context {
    /// Looks at a connection, as is done from time to time, and ends what lasts too long.
    pub(super) fn lose_patience(&mut self, connection: &mut Connection, now: u64) -> After {
        match connection.phase {
            Phase::Closed => After::Goes,
            Phase::Resolving | Phase::Connecting | Phase::Greeting => {
                if now.saturating_sub(connection.since) < self.patience.connect {
                    return After::Goes;
                }
                let awaits = connection.awaits();
                self.connect_failed(connection, Class::ConnectTimeout, awaits)
            }
            Phase::Open if connection.in_flight.is_empty() => {
                // The other side was to close, and does not.
                let served = !self.plan.keep_alive && connection.carried > 0;
                if served && now.saturating_sub(connection.since) >= CLOSE_WAIT_NS {
                    return self.reopen(connection);
                }
                let shut = connection.h2.as_ref().and_then(|h2| h2.shut_since());
                let wanted = connection.index < self.active && !self.budget.is_spent();
                if wanted && shut.is_some_and(|since| now.saturating_sub(since) >= self.patience.whole) {
                    // It stands for a request that could not be sent, or a fixed number of them would never be reached.
                    self.budget.take(1);
                    connection.asked += 1;
                    return self.close(connection, Class::Timeout, SHUT);
                }
                After::Goes
            }
            Phase::Open => match self.patience.first_late(connection, 0, now) {
                // One answer is late, the connection is alive.
                Some((place, _))
                    if connection.h2.is_some() && connection.heard > connection.in_flight[place].at =>
                {
                    self.cancel_late(connection, now)
                }
                Some((_, class)) => {
                    for place in 0..connection.in_flight.len() {
                        self.count_late(connection, place, now);
                    }
                    self.close(connection, class, late(class))
                }
                None => After::Goes,
            },
        }
    }

    /// Counts the time that a request was waited for in vain.
    pub(super) fn count_late(&mut self, connection: &Connection, place: usize, now: u64) {
        if self.plan.notes.exclude_errors {
            return;
        }
        let due = connection.in_flight[place].due;
        let begun = connection
            .progress(place)
            .map(|(begun, _)| begun.saturating_sub(due));
        self.window.record_split(now.saturating_sub(due), begun);
    }
}
