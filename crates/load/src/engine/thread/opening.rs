//! How a connection comes about: its name is resolved where that is wanted, a socket connects, and what lies above it is agreed on.

use std::os::fd::AsFd;

use rustix::{event::epoll, io::Errno};

use super::{After, Context};
use crate::{
    engine::{
        Notice,
        connection::{Connection, Phase},
        resolver::{Found, Question},
        transport::{Fault, Transport},
    },
    failure::Class,
    request::Follower,
    target::Address,
};

impl Context {
    /// A connection that is closed, with whoever sends on it.
    pub(super) fn connection(&self, index: usize, lane: usize) -> Connection {
        let tls = self.plan.lanes[lane].link.tls.is_some();
        let follow = self.plan.follow;
        Connection {
            user: self.sources[lane].user(index),
            follower: (follow > 0).then(|| Box::new(Follower::new(follow, tls))),
            ..Connection::new(index, lane, self.keeps_on(index))
        }
    }

    /// Begins an attempt to connect.
    pub(super) fn connect(&mut self, connection: &mut Connection, now: u64) -> After {
        connection.since = now;
        connection.handshake_since = None;
        if let (Some(resolver), Some(names)) = (&self.resolver, &self.plan.lanes[connection.lane].link.names)
        {
            connection.phase = Phase::Resolving;
            resolver.ask(Question {
                names: names.clone(),
                inbox: self.inbox.clone(),
                index: connection.index,
                since: now,
            });
            return After::Goes;
        }
        let plan = self.plan.clone();
        self.connect_to(connection, &plan.lanes[connection.lane].address)
    }

    /// An attempt to connect goes on, now that the server's name has been resolved.
    pub(super) fn resolved(&mut self, connection: &mut Connection, found: Found) -> After {
        // It may have been given up meanwhile.
        if connection.phase != Phase::Resolving || connection.since != found.since {
            return After::Goes;
        }
        let known = &self.plan.lanes[connection.lane].address;
        match found.address.map(Address::Tcp) {
            Ok(address) if known.is_local() && !address.is_local() => {
                let what = format!("its name now leads to {address}, which is not this machine");
                self.connect_failed(connection, Class::Connect, &what)
            }
            Ok(address) => self.connect_to(connection, &address),
            Err(what) => {
                let what = format!("its name could not be resolved: {what}");
                self.connect_failed(connection, Class::Connect, &what)
            }
        }
    }

    fn connect_to(&mut self, connection: &mut Connection, address: &Address) -> After {
        connection.phase = Phase::Connecting;
        // Connections take lanes in turn, and those of a lane its local addresses.
        let turn = (connection.index * self.plan.threads + self.index) / self.plan.lanes.len();
        let (transport, goes_on) = match Transport::connect(
            address,
            &self.plan.lanes[connection.lane].link.bind,
            self.plan.keep_alive,
            turn,
        ) {
            Ok(connecting) => connecting,
            Err(Errno::AGAIN) if matches!(address, Address::Unix(_)) => {
                let what = "the server's queue of connections is full";
                return self.connect_failed(connection, Class::Connect, what);
            }
            Err(error) => {
                let fault = Fault::from(error);
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
        let link = &self.plan.lanes[connection.lane].link;
        let progress = transport.progress(link, hung_up);
        if connection.handshake_since.is_none() && transport.is_secured() {
            connection.handshake_since = Some(now);
        }
        match progress {
            Ok(false) => After::Goes,
            Ok(true) if link.http2 => self.greet(connection),
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
            if !self.negotiated_told
                && let Some(negotiated) = transport.negotiated()
            {
                self.negotiated_told = true;
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
        connection.asked += 1;
        connection.phase = Phase::Closed;
        self.drop_transport(connection);
        connection.h2 = None;
        connection.unsent.clear();
        connection.failed_attempts = connection.failed_attempts.saturating_add(1);
        After::Reopen
    }
}

/// What is watched of a connection, once and for all.
pub(super) fn watched() -> epoll::EventFlags {
    epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
}
