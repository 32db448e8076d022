//! One connection of a thread.

use std::collections::VecDeque;

use super::{ring::Seat, transport::Transport};
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
    /// Which of the lane's requests it is.
    pub(super) which: u32,
    pub(super) head_only: bool,
}

/// Bytes that a socket takes bit by bit. What was taken stays in place until all is: moving the rest of a large body forward for each
/// bit would cost more than sending it.
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

    /// The socket has taken so many of the rest.
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
    /// Its place among the connections of its thread.
    pub(super) index: usize,
    pub(super) lane: usize,
    pub(super) phase: Phase,
    pub(super) transport: Option<Transport>,
    /// When the attempt to connect began.
    pub(super) since: u64,
    pub(super) reader: Reader,
    /// When the TLS handshake began.
    pub(super) handshake_since: Option<u64>,
    /// When the first bytes came of an answer that has not ended.
    pub(super) begun: Option<u64>,
    pub(super) in_flight: VecDeque<Sent>,
    /// What the socket did not take yet.
    pub(super) unsent: Unsent,
    /// Requests sent since it was opened.
    pub(super) carried: u64,
    /// The other side has said that it closes after the answers that are due.
    pub(super) ending: bool,
    /// It is not opened before: a pause after failed attempts, with a timer set for its end.
    pub(super) not_before: u64,
    /// Attempts that came to nothing since a request was answered: no connection, or one without an answer.
    pub(super) failed_attempts: u32,
    /// Whether it is on the list of those that wait for a request.
    pub(super) waits: bool,
    /// Which connection of the ring it is; 0 if epoll watches it.
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
            handshake_since: None,
            begun: None,
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

    /// What the ring knows it by.
    pub(super) fn seat(&self) -> Seat {
        Seat {
            index: self.index,
            turn: self.ring_turn,
        }
    }

    /// Whether something that was to be sent still waits for the socket.
    pub(super) fn holds_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.transport.as_ref().is_some_and(Transport::holds_unsent)
    }

    /// Whether something that was received has not been looked at.
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
