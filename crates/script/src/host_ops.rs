//! Operations that scripts request in one step, and their results, with which another step continues.

use std::time::Duration;

use bytes::Bytes;

use crate::{Weight, calls::CallId, fetch, sql, stream::Piece};

/// Identifies a wait within its call; chosen by the script.
pub(crate) type WaitId = u32;

/// An operation that a script has requested; it continues with the result.
#[derive(Debug)]
pub(crate) struct HostOp {
    pub(crate) call: CallId,
    pub(crate) wait: WaitId,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A step of its own.
    Turn,
    /// Waits for this time to pass.
    Time(Duration),
    /// A fetch, up to the head of the response.
    Fetch(Box<fetch::Request>),
    /// The next piece of a response; identified by the wait of its fetch.
    Read(WaitId),
    /// The results of database statements.
    Sql(Box<sql::Statements>),
    /// The outcome of an operation on databases, as JSON.
    SqlSession(Vec<u8>),
    /// The outcome of an operation of a client, as JSON.
    Client(Vec<u8>),
    /// Waits for room to send a piece of the call's own answer.
    Room(Option<Piece>),
    /// Cancels this wait and everything that belongs to it.
    Cancel,
}

impl What {
    /// The cost of a call that requests this operation.
    pub(crate) fn weight(&self) -> Weight {
        match self {
            Self::Sql(statements) if statements.are_harmless() => Weight::Waits,
            Self::Turn | Self::Cancel => Weight::Waits,
            _ => Weight::Heavy,
        }
    }
}

/// The result of an operation.
#[derive(Debug)]
pub(crate) enum OpResult {
    /// Nothing but the time, or the room.
    Nothing,
    /// The head of a response.
    Head(Box<fetch::Head>),
    /// A piece of a response; `None` at its end.
    Piece(Option<Bytes>),
    /// The result of an operation on databases, or of a client, as JSON.
    Outcome(Vec<u8>),
    /// The results of statements.
    Results(sql::Results),
    /// The operation failed.
    Failed(fetch::Error),
}
