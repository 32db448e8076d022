//! Opens connections: connects a socket and performs the TLS handshake.

use std::os::fd::AsFd;

use rustix::event::epoll;

use super::{After, Context};
use crate::{
    engine::{
        connection::{Connection, Phase},
        transport::{Transport, TransportError},
    },
    failure::Class,
};

impl Context {
    /// Begins an attempt to connect.
    pub(super) fn connect(&mut self, connection: &mut Connection, now: u64) -> After {
        connection.since = now;
        connection.phase = Phase::Connecting;
        let address = &self.plan.lanes[connection.lane].address;
        let (transport, goes_on) = match Transport::connect(address, self.plan.keep_alive) {
            Ok(connecting) => connecting,
            Err(error) => {
                let fault = TransportError::from(error);
                return self.connect_failed(connection, fault.class_of_connect(), &fault.to_string());
            }
        };
        let data = epoll::EventData::new_u64(connection.index as u64);
        if let Err(error) = epoll::add(&self.epoll, transport.as_fd(), data, watched()) {
            return self.connect_failed(
                connection,
                Class::Resources,
                &format!("cannot watch a socket: {error}"),
            );
        }
        connection.transport = Some(transport);
        if goes_on {
            self.connected(connection, false)
        } else {
            After::Goes
        }
    }

    /// Continues an attempt to connect, or ends it; `hung_up`: it may have failed.
    pub(super) fn connected(&mut self, connection: &mut Connection, hung_up: bool) -> After {
        let transport = connection
            .transport
            .as_mut()
            .expect("a connection that is being made has a socket");
        let tls = self.plan.lanes[connection.lane].tls.as_ref();
        match transport.progress(tls, hung_up) {
            Ok(false) => After::Goes,
            Ok(true) => {
                // The computations of TLS take a while, during which the server may have responded.
                self.opened(connection, self.clock.now());
                self.give_to_ring(connection)
            }
            Err(fault) => self.connect_failed(connection, fault.class_of_connect(), &fault.to_string()),
        }
    }

    pub(super) fn opened(&mut self, connection: &mut Connection, now: u64) {
        connection.phase = Phase::Open;
        connection.carried = 0;
        connection.ending = false;
        self.window.connects += 1;
        self.window.connecting.saturating_record(now - connection.since);
    }

    pub(super) fn connect_failed(&mut self, connection: &mut Connection, class: Class, what: &str) -> After {
        let address = &self.plan.lanes[connection.lane].address;
        let text = format!("{address}: {what}");
        self.window.fail(class);
        self.window.connects_failed += 1;
        self.example(class, || text);
        // A failed attempt uses up one of a fixed number of requests; otherwise a run against a closed port would never end.
        self.budget.take(1);
        connection.phase = Phase::Closed;
        self.drop_transport(connection);
        connection.unsent.clear();
        connection.failed_attempts = connection.failed_attempts.saturating_add(1);
        After::Reopen
    }
}

/// Events that epoll reports for a connection during its whole life.
pub(super) fn watched() -> epoll::EventFlags {
    epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
}
