//! A turn of the event loop on io_uring: open plain connections belong to the ring, and epoll's events are one of its inputs.

use std::{io, os::fd::AsFd, time::Duration};

use rustix::{event::epoll, io::Errno};

use super::{After, Context, Thread};
use crate::{
    engine::{
        connection::{Connection, Phase},
        ring::{BUFFER_BYTES, Completion, Registration, Tag},
    },
    failure::Class,
};

const _: () = assert!(super::SCRATCH_BYTES >= BUFFER_BYTES);

impl Thread {
    /// Waits for completions and handles them; true if there are commands.
    pub(super) fn take_completions(&mut self, longest: Duration) -> bool {
        let mut completions = std::mem::take(&mut self.completions);
        let ring = self.context.ring.as_mut().expect("there is a ring");
        ring.wait(longest)
            .unwrap_or_else(|error| panic!("the thread's own ring failed: {error}"));
        ring.drain(&mut completions);
        self.context.woke = self.context.clock.now();
        let mut rung = false;
        for completion in completions.drain(..) {
            match Tag::from(completion.tag) {
                Tag::Events => {
                    rung |= self.take_events(Duration::ZERO);
                    self.context.await_events();
                }
                Tag::Input(registration) => self.input(registration, completion),
                Tag::Output(registration) => self.output(registration, completion.result),
                Tag::Room(registration) => self.room(registration),
            }
        }
        self.completions = completions;
        rung
    }

    /// Whether a completion belongs to the connection's current registration.
    fn holds(&self, registration: Registration) -> bool {
        let connection = &self.connections[registration.index];
        connection.ring_turn == registration.turn && connection.phase == Phase::Open
    }

    fn input(&mut self, registration: Registration, completion: Completion) {
        if let (Some(buffer), Ok(count)) = (completion.buffer, completion.result) {
            let context = &mut self.context;
            let ring = context.ring.as_mut().expect("there is a ring");
            ring.fetch(buffer, count, &mut context.scratch);
        }
        if !self.holds(registration) {
            return;
        }
        let connection = &mut self.connections[registration.index];
        let mut after = match completion.result {
            Ok(0) => self.context.ended(connection),
            Ok(count) => self.context.take(connection, count),
            // Other connections held all the buffers. They have returned them by now.
            Err(Errno::NOBUFS) => After::Goes,
            Err(error) => self.context.close(
                connection,
                Class::Reset,
                &format!("the connection was reset: {error}"),
            ),
        };
        if after == After::Goes && !completion.more {
            after = self.context.await_input(connection);
        }
        self.after(registration.index, after);
    }

    fn output(&mut self, registration: Registration, result: Result<usize, Errno>) {
        if self.holds(registration) {
            let connection = &mut self.connections[registration.index];
            let after = match result {
                Err(error) => self.context.write_failed(connection, error),
                Ok(_) => self
                    .context
                    .close(connection, Class::Write, "a request could be sent in part only"),
            };
            self.after(registration.index, after);
        }
    }

    fn room(&mut self, registration: Registration) {
        if self.holds(registration) {
            let now = self.context.clock.now();
            let after = self.context.flush(&mut self.connections[registration.index], now);
            self.after(registration.index, after);
        }
    }

    fn after(&mut self, index: usize, after: After) {
        if after == After::Reopen {
            let now = self.context.clock.now();
            self.go_on(index, after, now);
        }
    }
}

impl Context {
    /// Arms the ring for the next events of epoll.
    pub(super) fn await_events(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.await_input(self.epoll.as_fd(), Tag::Events.into())
                .unwrap_or_else(|error| panic!("the thread's own ring failed: {error}"));
        }
    }

    /// Moves a connection that has just been opened to the ring, if its lane is served there.
    pub(super) fn give_to_ring(&mut self, connection: &mut Connection) -> After {
        if self.ring.is_none() || !self.on_ring[connection.lane] {
            return After::Goes;
        }
        let transport = connection.transport.as_mut().expect("it has just been opened");
        // Otherwise epoll would report the same events again.
        if let Err(error) = epoll::delete(&self.epoll, transport.as_fd()) {
            return self.close(
                connection,
                Class::Resources,
                &format!("cannot watch a socket: {error}"),
            );
        }
        transport.share();
        self.ring_turns = (self.ring_turns + 1) & Registration::TURN_MASK;
        // 0 is reserved for connections on epoll.
        self.ring_turns = self.ring_turns.max(1);
        connection.ring_turn = self.ring_turns;
        self.await_input(connection)
    }

    fn await_input(&mut self, connection: &mut Connection) -> After {
        let (Some(ring), Some(transport)) = (&mut self.ring, &connection.transport) else {
            return After::Goes;
        };
        let asked = ring.receive(transport.as_fd(), Tag::Input(connection.registration()).into());
        self.checked(connection, asked)
    }

    /// Sends a lane's request through the ring. It is submitted with the others of this turn, and its latency counts from now: waiting for
    /// those before it is part of it.
    pub(super) fn send_by_ring(&mut self, connection: &mut Connection) -> After {
        let (Some(ring), Some(transport)) = (&mut self.ring, &connection.transport) else {
            return After::Goes;
        };
        let tag = Tag::Output(connection.registration()).into();
        let asked = ring.send(transport.as_fd(), connection.lane, tag);
        self.checked(connection, asked)
    }

    /// Asks to be woken when the socket can take the rest of the unsent bytes.
    pub(super) fn await_room(&mut self, connection: &mut Connection) -> After {
        let (Some(ring), Some(transport)) = (&mut self.ring, &connection.transport) else {
            return After::Goes;
        };
        if connection.ring_turn == 0 {
            // Epoll reports it anyway.
            return After::Goes;
        }
        let asked = ring.await_room(transport.as_fd(), Tag::Room(connection.registration()).into());
        self.checked(connection, asked)
    }

    fn checked(&mut self, connection: &mut Connection, asked: io::Result<()>) -> After {
        match asked {
            Ok(()) => After::Goes,
            Err(error) => self.close(connection, Class::Resources, &format!("io_uring: {error}")),
        }
    }

    /// Closes the socket. Operations on it that were not submitted yet would apply to another socket that gets the same number.
    pub(super) fn drop_transport(&mut self, connection: &mut Connection) {
        if std::mem::take(&mut connection.ring_turn) != 0
            && let Some(ring) = &mut self.ring
        {
            // If this fails, so does the next wait.
            let _ = ring.submit();
        }
        connection.transport = None;
    }
}
