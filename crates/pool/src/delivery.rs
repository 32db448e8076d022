//! What comes back for a job, and to whom.

use std::time::Duration;

use bytes::Bytes;
use forebay_wire::{ContentKind, Pairs, ResponseView, WireError, flag};

use crate::Failure;

/// Names the one who waits for a job: a thread's mailbox and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    pub(crate) mailbox: u32,
    pub(crate) waiter: u32,
    /// Tells the waiters apart that had the same place.
    pub(crate) nonce: u32,
}

/// One thing that comes back for a job. The first is an answer or a failure.
#[derive(Debug)]
pub enum Delivery {
    /// The handler's answer; unless [`Answer::ended`], chunks follow.
    Answer(Answer),
    /// More of the response's body.
    Chunk {
        /// Its bytes.
        bytes: Bytes,
        /// Whether the body ends here.
        end: bool,
        /// As [`Answer::commit`], when this came.
        commit: u64,
    },
    /// The worker takes so many more bytes of the request's body.
    Window(u32),
    /// No answer will come, or the body ends too early.
    Failed(Failure),
}

/// A worker's RESPONSE.
#[derive(Clone, Debug)]
pub struct Answer {
    payload: Bytes,
    status: u16,
    content: ContentKind,
    body_at: u32,
    flags: u8,
    commit: u64,
    timing: Timing,
}

/// Where the time of a job went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// It waited in the queue for a worker.
    pub waited: Duration,
    /// A worker had it, from when it was sent there until its answer was read.
    pub away: Duration,
    /// Its handler ran, by the worker's clock: a part of the time away.
    pub run: Duration,
}

impl Answer {
    /// Reads a RESPONSE payload; also says how long the handler has run, in microseconds.
    pub(crate) fn decode(payload: Bytes, flags: u8, commit: u64) -> Result<(Self, u32), WireError> {
        let view = ResponseView::decode(&payload)?;
        let (status, content, run_us) = (view.head.status, view.head.content, view.head.run_us);
        let body_at = (payload.len() - view.body.len()) as u32;
        Ok((
            Self {
                payload,
                status,
                content,
                body_at,
                flags,
                commit,
                timing: Timing::default(),
            },
            run_us,
        ))
    }

    /// The HTTP status, 200 to 599.
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The content type, unless [`Answer::headers`] has it.
    pub const fn content(&self) -> ContentKind {
        self.content
    }

    /// The header fields as the worker wrote them; nothing about them has been checked.
    pub fn headers(&self) -> Pairs<'_> {
        Pairs::new(&self.payload[forebay_wire::RESPONSE_TABLE_BYTES..self.body_at as usize])
    }

    /// The body, or its first bytes; shares the memory of the answer.
    pub fn body(&self) -> Bytes {
        self.payload.slice(self.body_at as usize..)
    }

    /// Whether the body is complete.
    pub const fn ended(&self) -> bool {
        self.flags & flag::END != 0
    }

    /// The last commit to the store that the worker had made when the answer came: it must be on the disk before anybody learns of it.
    /// 0 where there is none.
    pub const fn commit(&self) -> u64 {
        self.commit
    }

    /// Where the job's time went.
    pub const fn timing(&self) -> Timing {
        self.timing
    }

    pub(crate) const fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// Whether the handler threw.
    pub const fn faulted(&self) -> bool {
        self.flags & flag::FAULT != 0
    }
}
