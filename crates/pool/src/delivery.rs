//! Responses and failures of jobs, and where they are delivered.

use std::{os::fd::OwnedFd, time::Duration};

use bytes::Bytes;
use forebay_wire::{ContentKind, Pairs, ResponseView, WireError, flag};

use crate::Failure;

/// Bytes that say which part of a file is the body: offset and length.
const FILE_PART_BYTES: usize = 16;

/// Address of a waiting task: a thread's mailbox and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    pub(crate) mailbox: u32,
    pub(crate) waiter: u32,
    /// Distinguishes tasks that have used the same index.
    pub(crate) nonce: u32,
}

/// One event of a job. The first is an answer or a failure.
#[derive(Debug)]
pub enum Delivery {
    /// The handler's response. Unless [`Answer::ended`], chunks follow.
    Answer(Answer),
    /// More of the response body.
    Chunk {
        /// The next bytes of the body.
        bytes: Bytes,
        /// Whether this is the last chunk.
        end: bool,
        /// Like [`Answer::commit`], at the time of this chunk.
        commit: u64,
    },
    /// The worker accepts this many more bytes of the request body.
    Window(u32),
    /// There will be no response, or its body is incomplete.
    Failed(Failure),
}

/// A worker's RESPONSE frame.
#[derive(Debug)]
pub struct Answer {
    payload: Bytes,
    status: u16,
    content: ContentKind,
    body_at: u32,
    flags: u8,
    commit: u64,
    timing: Timing,
    file: Option<FilePart>,
}

/// The part of a worker's file that is the body of a response. Neither the descriptor nor the part has been checked.
#[derive(Debug)]
pub struct FilePart {
    /// The file, of which the worker may have descriptors too.
    pub file: OwnedFd,
    /// Where the part begins, in bytes.
    pub offset: u64,
    /// Bytes of the part.
    pub length: u64,
}

/// A RESPONSE frame, not decoded.
#[derive(Debug)]
pub(crate) struct ResponseFrame {
    pub(crate) flags: u8,
    pub(crate) payload: Bytes,
    /// The descriptor that came with it.
    pub(crate) file: Option<OwnedFd>,
}

impl ResponseFrame {
    pub(crate) fn new(flags: u8, payload: impl Into<Bytes>) -> Self {
        Self {
            flags,
            payload: payload.into(),
            file: None,
        }
    }
}

/// How the time of a job was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Time in the queue.
    pub waited: Duration,
    /// Time from sending the job to a worker until its response was read.
    pub away: Duration,
    /// Run time of the handler by the worker's clock; a part of `away`.
    pub run: Duration,
}

impl Answer {
    /// Decodes a RESPONSE. Also returns the handler's run time in microseconds.
    pub(crate) fn decode(frame: ResponseFrame, commit: u64) -> Result<(Self, u32), WireError> {
        let ResponseFrame {
            flags,
            mut payload,
            file,
        } = frame;
        let view = ResponseView::decode(&payload)?;
        let (status, content, run_us) = (view.head.status, view.head.content, view.head.run_us);
        let body_at = (payload.len() - view.body.len()) as u32;
        let file = match file {
            None => None,
            Some(file) => {
                let part = <[u8; FILE_PART_BYTES]>::try_from(view.body).map_err(|_| WireError::FilePart)?;
                if flags & flag::END == 0 {
                    return Err(WireError::FilePart);
                }
                payload.truncate(body_at as usize);
                let part = u128::from_le_bytes(part);
                Some(FilePart {
                    file,
                    offset: part as u64,
                    length: (part >> 64) as u64,
                })
            }
        };
        Ok((
            Self {
                payload,
                status,
                content,
                body_at,
                flags,
                commit,
                timing: Timing::default(),
                file,
            },
            run_us,
        ))
    }

    /// The HTTP status, 200 to 599.
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The content type, unless it is in [`Answer::headers`].
    pub const fn content(&self) -> ContentKind {
        self.content
    }

    /// The header fields as the worker wrote them, unchecked.
    pub fn headers(&self) -> Pairs<'_> {
        Pairs::new(&self.payload[forebay_wire::RESPONSE_TABLE_BYTES..self.body_at as usize])
    }

    /// The body or its first bytes. Shares the memory of the frame.
    pub fn body(&self) -> Bytes {
        self.payload.slice(self.body_at as usize..)
    }

    /// The file whose part is the body, in the place of [`Answer::body`]; `None` if there is none, or it was taken.
    pub fn take_file(&mut self) -> Option<FilePart> {
        self.file.take()
    }

    /// Whether the body is complete.
    pub const fn ended(&self) -> bool {
        self.flags & flag::END != 0
    }

    /// The last commit to the store that the worker had made when the response arrived. It must be durable before the response is sent. 0
    /// if there is none.
    pub const fn commit(&self) -> u64 {
        self.commit
    }

    /// How the time of the job was spent.
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
