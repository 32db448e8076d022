//! One connection of a thread.

use std::collections::VecDeque;

use super::{ring::Registration, transport::Transport};
use crate::response::Reader;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    /// The socket, or what lies above it, is being opened.
    Connecting,
    Open,
}

/// A request whose answer is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// When it should have been sent.
    pub(super) due: u64,
    /// When it was.
    pub(super) at: u64,
    pub(super) head_only: bool,
}

/// Bytes that a socket accepts piece by piece. Sent bytes stay in place until everything is sent: moving the rest of a large body forward
/// after each piece would cost more than sending it.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    taken: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Marks `count` more bytes as sent.
    pub(super) fn take(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.bytes.len() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    /// Index among the connections of its thread.
    pub(super) index: usize,
    pub(super) lane: usize,
    pub(super) phase: Phase,
    pub(super) transport: Option<Transport>,
    /// When the attempt to connect began.
    pub(super) since: u64,
    pub(super) reader: Reader,
    pub(super) in_flight: VecDeque<Sent>,
    /// Bytes that the socket has not accepted yet.
    pub(super) unsent: Unsent,
    /// Requests sent since it was opened.
    pub(super) carried: u64,
    /// The server has announced that it closes the connection after the responses that are due.
    pub(super) ending: bool,
    /// Earliest time of the next attempt to connect: the end of the pause after failed attempts, for which a timer is set.
    pub(super) not_before: u64,
    /// Failed attempts since the last response: no connection, or one that brought no response.
    pub(super) failed_attempts: u32,
    /// Whether it is in the queue of idle connections.
    pub(super) waits: bool,
    /// Number of this connection's registration with the ring; 0 while epoll watches it.
    pub(super) ring_turn: u32,
}

impl Connection {
    pub(super) fn new(index: usize, lane: usize, keeps: bool) -> Self {
        Self {
            index,
            lane,
            phase: Phase::Closed,
            transport: None,
            since: 0,
            reader: Reader::new(keeps),
            in_flight: VecDeque::new(),
            unsent: Unsent::default(),
            carried: 0,
            ending: false,
            not_before: 0,
            failed_attempts: 0,
            waits: false,
            ring_turn: 0,
        }
    }

    /// Identifies this connection in the ring's completions.
    pub(super) fn registration(&self) -> Registration {
        Registration {
            index: self.index,
            turn: self.ring_turn,
        }
    }

    /// Whether bytes that were to be sent still wait for the socket.
    pub(super) fn holds_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.transport.as_ref().is_some_and(Transport::holds_unsent)
    }

    /// Whether received bytes have not been parsed yet.
    pub(super) fn holds_received(&self) -> bool {
        self.transport.as_ref().is_some_and(Transport::holds_received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_socket_takes_bit_by_bit_is_the_whole_and_in_order() {
        let mut unsent = Unsent::default();
        unsent.push(b"one, two, ");
        unsent.take(5);
        unsent.push(b"three");
        assert_eq!(unsent.rest(), b"two, three");
        unsent.take(10);
        assert!(unsent.is_empty() && unsent.rest().is_empty());
        unsent.push(b"four");
        assert_eq!(unsent.rest(), b"four");
    }
}
