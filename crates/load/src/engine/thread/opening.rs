//! How a connection is opened: a socket connects, and TLS is agreed on.

use std::os::fd::AsFd;

use rustix::{event::epoll, io::Errno};

use super::{After, Context};
use crate::{
    engine::{
        Notice,
        connection::{Connection, Phase},
        transport::{Transport, TransportError},
    },
    failure::Class,
    target::Address,
};

impl Context {
    /// Begins an attempt to connect.
    pub(super) fn connect(&mut self, connection: &mut Connection, now: u64) -> After {
        connection.since = now;
        connection.handshake_since = None;
        connection.phase = Phase::Connecting;
        let address = &self.plan.lanes[connection.lane].address;
        let (transport, goes_on) = match Transport::connect(address, self.plan.keep_alive) {
            Ok(connecting) => connecting,
            Err(Errno::AGAIN) if matches!(address, Address::Unix(_)) => {
                let what = "the server's queue of connections is full";
                return self.connect_failed(connection, Class::Connect, what);
            }
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
            let now = self.clock.now();
            self.connected(connection, false, now)
        } else {
            After::Goes
        }
    }

    /// An attempt to connect can go on, or has ended; `hung_up`: perhaps badly.
    pub(super) fn connected(&mut self, connection: &mut Connection, hung_up: bool, now: u64) -> After {
        let transport = connection
            .transport
            .as_mut()
            .expect("a connection that is being made has a socket");
        let tls = self.plan.lanes[connection.lane].tls.as_ref();
        let progress = transport.progress(tls, hung_up);
        if connection.handshake_since.is_none() && transport.is_secured() {
            connection.handshake_since = Some(now);
        }
        match progress {
            Ok(false) => After::Goes,
            Ok(true) => {
                // What TLS computes takes a while, in which the other side may have answered.
                let now = connection.handshake_since.map_or(now, |_| self.clock.now());
                self.opened(connection, now);
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
        if let Some(since) = connection.handshake_since {
            self.window.handshakes.saturating_record(now - since);
        }
        if let Some(transport) = &connection.transport {
            self.window.resumed += u64::from(transport.is_resumed());
            if !self.negotiated_reported
                && let Some(negotiated) = transport.negotiated()
            {
                self.negotiated_reported = true;
                self.notices.tell(Notice::Negotiated(negotiated));
            }
        }
    }

    pub(super) fn connect_failed(&mut self, connection: &mut Connection, class: Class, what: &str) -> After {
        let address = &self.plan.lanes[connection.lane].address;
        let text = format!("{address}: {what}");
        self.window.fail(class);
        self.window.connects_failed += 1;
        self.example(class, || text);
        // Of a fixed number of requests it stands for one, or the run would never end where nobody listens.
        self.budget.take(1);
        connection.phase = Phase::Closed;
        self.drop_transport(connection);
        connection.unsent.clear();
        connection.failed_attempts = connection.failed_attempts.saturating_add(1);
        After::Reopen
    }
}

/// What is watched of a connection, once and for all.
pub(super) fn watched() -> epoll::EventFlags {
    epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
}
