//! What scripts wait for, between a step of theirs that asks for it and the one that goes on with it.

use std::time::Duration;

use bytes::Bytes;

use crate::{Weight, calls::CallId, fetch, sql, stream::Piece};

/// Names what a call waits for; the script chooses it.
pub(crate) type WaitId = u32;

/// Something that a script asks for, and goes on with when it has come.
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
    /// That so much time passes.
    Time(Duration),
    /// The head of an answer from elsewhere.
    Fetch(Box<fetch::Request>),
    /// The next piece of such an answer, which is named by what the fetch was waited for as.
    Read(WaitId),
    /// What statements on a database give.
    Sql(Box<sql::Statements>),
    /// The outcome of an operation on databases, as JSON.
    SqlSession(Vec<u8>),
    /// The outcome of an operation of a client, as JSON.
    Client(Vec<u8>),
    /// Room for a piece of the call's own answer.
    Room(Option<Piece>),
    /// That this is not waited for any more, nor anything that belongs to it.
    Cancel,
}

impl What {
    /// What it makes of the call that asks for it.
    pub(crate) fn weight(&self) -> Weight {
        match self {
            Self::Sql(statements) if statements.are_harmless() => Weight::Waits,
            Self::Turn | Self::Cancel => Weight::Waits,
            _ => Weight::Heavy,
        }
    }
}

/// What has come.
#[derive(Debug)]
pub(crate) enum OpResult {
    /// Nothing but the time, or the room.
    Nothing,
    /// The head of an answer.
    Head(Box<fetch::Head>),
    /// A piece of it; `None`: it has ended.
    Piece(Option<Bytes>),
    /// The outcome of an operation on databases, or of a client, as JSON.
    Outcome(Vec<u8>),
    /// What became of statements.
    Results(sql::Results),
    /// What was asked for did not come about.
    Failed(fetch::Error),
}
