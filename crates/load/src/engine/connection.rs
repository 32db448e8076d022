//! One connection of a thread.

use std::collections::VecDeque;

use super::transport::Transport;
use crate::{request::User, response::Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
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
}
