//! The work on an open connection: sends requests, reads responses, ends the connection, and counts everything.

use std::os::fd::AsFd;

use rustix::{event::epoll, io::Errno};

use super::{After, Context, End, Looks, READS_MAX, opening::watched};
use crate::{
    engine::{
        Notice,
        connection::{Connection, Phase, Sent},
        transport::{Received, Transport, TransportError},
        window::Window,
    },
    expect::Seen,
    failure::Class,
    plan::Pace,
    response::{Answer, Read},
};

impl Context {
    /// Whether bodies of responses are kept.
    pub(super) fn keeps(&self) -> bool {
        self.looks == Looks::All
    }

    /// This thread's share of `connections`.
    pub(super) fn share(&self, connections: usize) -> usize {
        let threads = self.plan.threads;
        connections / threads + usize::from(self.index < connections % threads)
    }

    /// Sends as many requests as the load and the connection allow.
    pub(super) fn fill(&mut self, connection: &mut Connection, now: u64) -> After {
        if connection.phase != Phase::Open
            || connection.ending
            || !connection.unsent.is_empty()
            || connection.index >= self.active
        {
            return After::Goes;
        }
        let mut room = self.plan.pipeline - connection.in_flight.len();
        if !self.plan.keep_alive {
            room = room.min(1_usize.saturating_sub(connection.carried as usize));
        }
        let due = match (self.load.pace, &mut self.pacer) {
            (Pace::Open { .. }, Some(pacer)) => room.min(pacer.backlog.len()),
            _ => room,
        };
        let count = self.budget.take(due);
        if count > 0 {
            let after = self.send(connection, count, now);
            if after == After::Reopen {
                return after;
            }
        }
        if matches!(self.load.pace, Pace::Open { .. }) && !connection.waits && count < room {
            connection.waits = true;
            self.waiting.push_back(connection.index);
        }
        After::Goes
    }

    pub(super) fn send(&mut self, connection: &mut Connection, count: usize, now: u64) -> After {
        self.rendered.clear();
        let same = self.sources[connection.lane].same(count);
        let same = same.map(|(_, head_only)| head_only);
        for _ in 0..count {
            let due = self.next_due(now);
            let head_only = match same {
                Some(head_only) => head_only,
                None => self.sources[connection.lane].next(&mut self.rendered),
            };
            self.window.lag_max_ns = self.window.lag_max_ns.max(now.saturating_sub(due));
            connection.in_flight.push_back(Sent {
                due,
                at: now,
                head_only,
            });
        }
        let source = &self.sources[connection.lane];
        let bytes = match same.and_then(|_| source.same(count)) {
            Some((bytes, _)) => bytes,
            None => &self.rendered[..],
        };
        connection.carried += count as u64;
        self.in_flight += count;
        self.window.sent += count as u64;
        self.window.bytes_out += bytes.len() as u64;
        if same.is_some()
            && connection.ring_turn != 0
            && self.ring.as_ref().is_some_and(|ring| ring.has(connection.lane))
        {
            return self.send_by_ring(connection);
        }
        let transport = connection
            .transport
            .as_mut()
            .expect("an open connection has a socket");
        let sent = match transport.send(bytes) {
            Ok(sent) => sent,
            Err(Errno::AGAIN) => 0,
            Err(error) => return self.write_failed(connection, error),
        };
        if sent == bytes.len() {
            return After::Goes;
        }
        connection.unsent.push(&bytes[sent..]);
        self.await_room(connection)
    }

    /// When the next request should be sent.
    fn next_due(&mut self, now: u64) -> u64 {
        match (self.load.pace, &mut self.pacer) {
            (Pace::Open { .. }, Some(pacer)) => pacer.backlog.pop_front().unwrap_or(now),
            _ => now,
        }
    }

    /// Writes the bytes that the socket did not accept before.
    pub(super) fn flush(&mut self, connection: &mut Connection, now: u64) -> After {
        let transport = connection
            .transport
            .as_mut()
            .expect("an open connection has a socket");
        match transport.send(connection.unsent.rest()) {
            Ok(sent) => {
                connection.unsent.take(sent);
                if !connection.unsent.is_empty() {
                    return self.await_room(connection);
                }
                self.fill(connection, now)
            }
            Err(Errno::AGAIN) => self.await_room(connection),
            Err(error) => self.write_failed(connection, error),
        }
    }

    /// Responses that the server sent before it closed the connection may still be readable.
    pub(super) fn write_failed(&mut self, connection: &mut Connection, error: Errno) -> After {
        if matches!(error, Errno::PIPE | Errno::CONNRESET) {
            connection.ending = true;
            return After::Goes;
        }
        self.close(connection, Class::Write, &format!("cannot write: {error}"))
    }

    pub(super) fn receive(&mut self, connection: &mut Connection, end: End) -> After {
        for _ in 0..READS_MAX {
            let transport = connection
                .transport
                .as_mut()
                .expect("an open connection has a socket");
            let (received, more) = match transport.receive(&mut self.scratch) {
                Ok(Received::Bytes { count, more }) => (count, more),
                Ok(Received::End) => return self.ended(connection),
                Err(TransportError::Socket(Errno::AGAIN)) => return After::Goes,
                Err(TransportError::Socket(Errno::INTR)) => continue,
                Err(fault @ TransportError::Tls(_)) => {
                    return self.close(connection, Class::Tls, &fault.to_string());
                }
                Err(TransportError::Socket(error)) => {
                    return self.close(
                        connection,
                        Class::Reset,
                        &format!("the connection was reset: {error}"),
                    );
                }
            };
            let after = match received {
                0 => After::Goes,
                _ => self.take(connection, received),
            };
            if after == After::Reopen {
                return after;
            }
            if !more {
                // The socket is empty, and a known orderly end needs no further read.
                match end {
                    End::Unknown => return After::Goes,
                    End::Orderly => return self.ended(connection),
                    End::Broken => {}
                }
            }
        }
        self.come_again(connection)
    }

    /// Leaves the rest of a connection's input for the next turn: others have waited, and commands may have arrived.
    pub(super) fn come_again(&mut self, connection: &mut Connection) -> After {
        let transport = connection
            .transport
            .as_ref()
            .expect("an open connection has a socket");
        let data = epoll::EventData::new_u64(connection.index as u64);
        // The interest stays the same, but events that are ready are announced again.
        match epoll::modify(&self.epoll, transport.as_fd(), data, watched()) {
            Ok(()) => After::Goes,
            Err(error) => self.close(
                connection,
                Class::Resources,
                &format!("cannot watch a socket: {error}"),
            ),
        }
    }

    /// Parses the received bytes in the scratch buffer.
    pub(super) fn take(&mut self, connection: &mut Connection, received: usize) -> After {
        let mut at = 0;
        let before = connection.in_flight.len();
        while at < received {
            let Some(&sent) = connection.in_flight.front() else {
                return self.close(
                    connection,
                    Class::Unsolicited,
                    "bytes came that no request asked for",
                );
            };
            let known = &mut self.known[connection.lane];
            match connection
                .reader
                .read(&self.scratch[at..received], sent.head_only, known)
            {
                Ok(Read::Partial) => break,
                Ok(Read::Whole { used, answer }) => {
                    at += used;
                    connection.in_flight.pop_front();
                    self.count_answer(connection, sent, answer);
                }
                Err(broken) => return self.close(connection, broken.class, broken.what),
            }
        }
        let over = connection.in_flight.is_empty();
        if over && connection.ending && self.plan.keep_alive {
            return self.reopen(connection);
        }
        if connection.in_flight.len() < before {
            self.answered.push(connection.index);
        }
        After::Goes
    }

    fn count_answer(&mut self, connection: &mut Connection, sent: Sent, answer: Answer) {
        let now = self.woke;
        self.in_flight -= 1;
        let window = &mut self.window;
        window.answers += 1;
        let latency_ns = now.saturating_sub(sent.due);
        window.latency.saturating_record(latency_ns);
        if let Some(service) = &mut window.service {
            service.saturating_record(now.saturating_sub(sent.at));
        }
        window.count_status(answer.status);
        window.bytes_in += answer.wire_bytes;
        window.body_bytes_in += answer.body_bytes;
        connection.ending |= !answer.keep_alive;
        if self.looks != Looks::Status {
            self.check(connection, answer);
        } else if !self.plan.expect.accepts(answer.status) {
            window.fail(Class::Status);
            self.example(Class::Status, || {
                format!("an answer has status {}", answer.status)
            });
        }
    }

    /// Runs the checks beyond the status.
    fn check(&mut self, connection: &Connection, answer: Answer) {
        let seen = Seen {
            status: answer.status,
            body_bytes: answer.body_bytes,
            body: connection.reader.kept.as_deref().unwrap_or_default(),
        };
        if let Err((class, text)) = self.plan.expect.check(&seen) {
            self.window.fail(class);
            self.example(class, || text);
        }
    }

    /// Handles the end of the server's stream.
    pub(super) fn ended(&mut self, connection: &mut Connection) -> After {
        let whole = connection.transport.as_ref().is_some_and(Transport::ends_whole);
        if whole
            && let Some(answer) = connection.reader.end()
            && let Some(sent) = connection.in_flight.pop_front()
        {
            self.count_answer(connection, sent, answer);
        }
        if connection.in_flight.is_empty() {
            return self.reopen(connection);
        }
        if let Some(broken) = connection.reader.wrong_head() {
            return self.close(connection, broken.class, broken.what);
        }
        if connection.reader.is_inside() {
            self.close(
                connection,
                Class::Truncated,
                "the connection was closed in the middle of an answer",
            )
        } else {
            self.close(
                connection,
                Class::ClosedEarly,
                "the connection was closed before an answer began",
            )
        }
    }

    /// Closes a connection without requests in flight, to be opened again.
    pub(super) fn reopen(&mut self, connection: &mut Connection) -> After {
        connection.failed_attempts = match connection.carried {
            0 => connection.failed_attempts.saturating_add(1),
            _ => 0,
        };
        connection.phase = Phase::Closed;
        self.drop_transport(connection);
        connection.reader = crate::response::Reader::new(self.keeps());
        connection.unsent.clear();
        After::Reopen
    }

    /// Closes a connection whose requests in flight have failed.
    pub(super) fn close(&mut self, connection: &mut Connection, class: Class, what: &str) -> After {
        let lost = connection.in_flight.len();
        if lost == 0 && connection.carried > 0 && class == Class::Reset {
            // The server has ended an idle connection with a reset.
            return self.reopen(connection);
        }
        if lost as u64 == connection.carried {
            // No request was answered, as if there had been no connection.
            connection.carried = 0;
        }
        self.in_flight -= lost;
        connection.in_flight.clear();
        self.window.failures.add(class, lost.max(1) as u64);
        self.example(class, || what.to_owned());
        self.reopen(connection)
    }

    /// Reports the first failure of a class in each stretch of the run.
    pub(super) fn example(&mut self, class: Class, text: impl FnOnce() -> String) {
        let bit = 1 << class as u32;
        if self.examples_reported & bit == 0 {
            self.examples_reported |= bit;
            // Fails only while the session is being dropped.
            self.notices.tell(Notice::Example {
                epoch: self.epoch,
                class,
                text: text(),
            });
        }
    }

    pub(super) fn publish(&mut self, now: u64) {
        // Requests sent under an open load may be answered after its end.
        let still = self.window.service.is_some() && self.in_flight > 0;
        let with_service = self.load.pace != Pace::Closed || still;
        self.window.end_ns = now;
        let window = std::mem::replace(&mut self.window, Window::new(self.epoch, now, with_service));
        self.notices.measured(window);
    }

    /// Notifies the session once when nothing is in flight and nothing more will be sent.
    pub(super) fn tell_idle(&mut self) {
        let done = self.active == 0 || self.budget.is_spent();
        if done && self.in_flight == 0 && !self.idle_reported {
            self.idle_reported = true;
            let now = self.clock.now();
            self.publish(now);
            self.notices.tell(Notice::Idle(self.epoch));
        }
    }
}
