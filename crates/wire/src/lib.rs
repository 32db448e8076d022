//! The frames of the worker protocol (`protocol/PROTOCOL.md`): bytes in, borrowed views out, and back. Pure: no sockets, no
//! clocks, no allocation while decoding. Whatever the bytes are, decoding returns a value or a [`WireError`]; it never panics.

#![forbid(unsafe_code)]

mod call;
mod error;
mod frame;
mod page;
mod pairs;
mod request;
mod response;

pub use call::{CALL_NUMBER_BYTES, CallView, put_call};
pub use error::WireError;
pub use frame::{
    DETACHED_SLOT, FRAME_PAYLOAD_MAX, Frame, FrameType, HEADER_BYTES, Header, SLOTS_MAX, Split, flag,
    put_frame, split_frame,
};
pub use page::{
    BELL_OFFSET, CLAIMS_OFFSET, COMMIT_OFFSET, ClaimWord, FORMAT_OFFSET, OUTBOX_BYTES, OUTBOX_FRAME_ALIGN,
    OUTBOX_HEAD_OFFSET, OUTBOX_OFFSET, OUTBOX_TAIL_OFFSET, PAGE_BYTES, PAGE_FORMAT,
};
pub use pairs::{Pairs, put_pair};
pub use request::{
    CONNECTION_BYTES, Connection, REQUEST_TABLE_BYTES, RequestParts, RequestView, set_remaining_ms,
    without_identity,
};
pub use response::{ContentKind, RESPONSE_TABLE_BYTES, ResponseHead, ResponseView, set_run_us};

/// The version of the protocol that this crate speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// The oldest version of the protocol that this crate still understands.
pub const PROTOCOL_VERSION_MIN: u32 = 1;

/// Why a worker host ends a job without a response: the first byte of the payload of a FAILURE frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureReason {
    /// The job has not begun and never will here: another worker may run it.
    NotBegun = 1,
    /// The process that ran it has ended.
    WorkerDied = 2,
    /// It ran longer than the host allows.
    RunTimeout = 3,
    /// Its deadline has passed.
    DeadlinePassed = 4,
    /// Its response cannot be used; a text says why. Unknown reasons mean the same.
    InvalidAnswer = 5,
    /// The process that ran it has as many open connections as it may.
    TooManyConnections = 6,
}

impl FailureReason {
    /// The reason for a payload's first byte.
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::NotBegun,
            2 => Self::WorkerDied,
            3 => Self::RunTimeout,
            4 => Self::DeadlinePassed,
            6 => Self::TooManyConnections,
            _ => Self::InvalidAnswer,
        }
    }
}

/// Why a server aborts a job: the payload of an ABORT frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AbortReason {
    /// The client closed its connection.
    ClientGone = 1,
    /// The job's run time or total deadline has passed.
    DeadlinePassed = 2,
    /// The server is shutting down and no longer waits for jobs.
    ServerEnds = 3,
}
