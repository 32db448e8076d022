//! One connection of a thread.

use std::collections::VecDeque;

use super::transport::Transport;
use crate::{h2, request::User, response::Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    /// The socket, or what lies above it, is being opened.
    Connecting,
    /// HTTP/2: the server has not said yet how it wants to be spoken to.
    Greeting,
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
    /// HTTP/2, if that is spoken. Its streams are the requests in flight, in the same order.
    pub(super) h2: Option<Box<h2::Client>>,
    /// When anything came last, with HTTP/2.
    pub(super) heard: u64,
    pub(super) in_flight: VecDeque<Sent>,
    /// What the socket did not take yet.
    pub(super) unsent: Vec<u8>,
    /// Requests sent since it was opened.
    pub(super) carried: u64,
    /// The other side has said that it closes after the answers that are due.
    pub(super) ending: bool,
    /// Attempts that came to nothing since a request was answered: no connection, or one without an answer.
    pub(super) failed_attempts: u32,
    /// When its next request is due, with a rate for each connection.
    pub(super) next_due: u64,
    /// Whether it is on the list of those that wait for a request.
    pub(super) waits: bool,
    /// Who sends on it, when requests depend on answers.
    pub(super) user: Option<Box<User>>,
}

impl Connection {
    pub(super) fn new(index: usize, lane: usize, keeps: bool, user: Option<Box<User>>) -> Self {
        Self {
            index,
            lane,
            phase: Phase::Closed,
            transport: None,
            since: 0,
            reader: Reader::new(keeps),
            h2: None,
            heard: 0,
            in_flight: VecDeque::new(),
            unsent: Vec::new(),
            carried: 0,
            ending: false,
            failed_attempts: 0,
            next_due: 0,
            waits: false,
            user,
        }
    }

    /// What was sent on it will not be answered.
    pub(super) fn lose(&mut self) {
        if let Some(user) = &mut self.user {
            user.lost();
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

    /// What it waits for while it is being made.
    pub(super) fn awaits(&self) -> &'static str {
        match (self.phase, &self.transport) {
            (Phase::Connecting, Some(transport)) => transport.awaits(),
            _ => "HTTP/2's settings did not come in time",
        }
    }
}
