//! Ends connections and requests that exceed their time limits.

use std::time::Duration;

use super::{After, Context};
use crate::{
    engine::connection::{Connection, Phase},
    failure::Class,
    plan::Plan,
};

/// How long a connection that has carried its only request waits for the server to close it, from when it began to be opened.
const CLOSE_WAIT_NS: u64 = 1_000_000_000;

/// Time limits of connections and requests, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    connect: u64,
    whole: u64,
}

impl Timeouts {
    pub(super) fn new(plan: &Plan) -> Self {
        let ns = |limit: Duration| limit.as_nanos() as u64;
        Self {
            connect: ns(plan.connect_timeout),
            whole: ns(plan.timeout),
        }
    }

    /// How often connections are checked: a twentieth of the shortest limit, between 1 and 100 ms.
    pub(super) fn sweep_every_ns(&self) -> u64 {
        (self.connect.min(self.whole) / 20).clamp(1_000_000, 100_000_000)
    }
}

impl Context {
    /// Ends a connection that takes too long to open, or to respond to its oldest request: responses come in the order of requests, so no
    /// other is late before it.
    pub(super) fn enforce_timeouts(&mut self, connection: &mut Connection, now: u64) -> After {
        match (connection.phase, connection.in_flight.front()) {
            (Phase::Connecting, _) => {
                if now.saturating_sub(connection.since) < self.timeouts.connect {
                    return After::Goes;
                }
                let transport = connection.transport.as_ref();
                let awaits = transport.map_or("the connection was not open in time", |transport| {
                    transport.awaits()
                });
                self.connect_failed(connection, Class::ConnectTimeout, awaits)
            }
            (Phase::Open, None) => {
                // The server was to close the connection and does not.
                let served = !self.plan.keep_alive && connection.carried > 0;
                if served && now.saturating_sub(connection.since) >= CLOSE_WAIT_NS {
                    return self.reopen(connection);
                }
                After::Goes
            }
            (Phase::Open, Some(oldest)) if now.saturating_sub(oldest.at) >= self.timeouts.whole => {
                for sent in &connection.in_flight {
                    self.window
                        .latency
                        .saturating_record(now.saturating_sub(sent.due));
                }
                self.close(connection, Class::Timeout, "no whole answer within the time-out")
            }
            (Phase::Closed, _) | (Phase::Open, Some(_)) => After::Goes,
        }
    }
}
