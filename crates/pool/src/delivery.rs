//! Responses and failures of jobs, and where they are delivered.

use std::{os::fd::OwnedFd, time::Duration};

use bytes::Bytes;
use forebay_wire::{ContentKind, FrameType, Header, Pairs, ResponseView, WireError, flag};

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
    /// The fields behind the response body, of which the last chunk is still to come: a pair block as the worker wrote it, unchecked.
    Trailers(Bytes),
    /// The worker accepts this many more bytes of the request body, or of messages.
    Window(u32),
    /// A message for the client of a WebSocket, or a piece of one.
    Message(Message),
    /// The handler closes the WebSocket.
    Close {
        /// The close code (RFC 6455, 7.4).
        code: u16,
        /// The reason, meant to be text of at most 123 bytes.
        reason: Bytes,
    },
    /// More than [`PUBLISHED_BYTES_MAX`] bytes of messages to the WebSocket's rooms wait, and further ones were dropped.
    Overflow,
    /// There will be no response, or its body is incomplete.
    Failed(Failure),
}

/// Most bytes of messages published to a WebSocket's rooms that may wait until its client takes them.
pub const PUBLISHED_BYTES_MAX: usize = 1024 * 1024;

/// A message for the client of a WebSocket, or a piece of one.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its payload, or the piece of it.
    pub bytes: Bytes,
    /// Whether it is text, not binary; the same for all pieces.
    pub is_text: bool,
    /// Whether this is the last piece of the message.
    pub end: bool,
    /// Whether it came by way of a room: then it uses up no window, and may come between the pieces of another.
    pub is_published: bool,
    /// Like [`Answer::commit`], at the time of this message.
    pub commit: u64,
}

/// How a handler has accepted that the connection goes over to another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// The worker speaks the protocol itself: bytes pass in both directions.
    Bytes,
    /// The server speaks WebSocket: messages pass.
    WebSocket,
}

/// A worker's RESPONSE or UPGRADE frame.
#[derive(Debug)]
pub struct Answer {
    payload: Bytes,
    upgrade: Option<Upgrade>,
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
    /// Decodes the payload of a RESPONSE or UPGRADE, with the descriptor that came with it. Also returns the handler's run time in microseconds.
    pub(crate) fn decode(
        header: &Header,
        mut payload: Bytes,
        file: Option<OwnedFd>,
        commit: u64,
    ) -> Result<(Self, u32), WireError> {
        let flags = header.flags;
        let (view, upgrade) = match header.kind {
            FrameType::Upgrade if header.has(flag::WEBSOCKET) => {
                (ResponseView::decode_upgrade(&payload)?, Some(Upgrade::WebSocket))
            }
            FrameType::Upgrade => (ResponseView::decode_upgrade(&payload)?, Some(Upgrade::Bytes)),
            _ => (ResponseView::decode(&payload)?, None),
        };
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
                upgrade,
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

    /// Its frame: type, flags and payload. `None` if its body is a file.
    pub fn frame(&self) -> Option<(FrameType, u8, Bytes)> {
        let (kind, flags) = match self.upgrade {
            Some(Upgrade::WebSocket) => (FrameType::Upgrade, flag::WEBSOCKET),
            Some(Upgrade::Bytes) => (FrameType::Upgrade, 0),
            None => (FrameType::Response, self.flags),
        };
        self.file.is_none().then(|| (kind, flags, self.payload.clone()))
    }

    /// How the connection goes over to another protocol, if it does.
    pub const fn upgrade(&self) -> Option<Upgrade> {
        self.upgrade
    }

    /// Whether the job has left its slot: its response may last.
    pub const fn is_detached(&self) -> bool {
        self.upgrade.is_some() || (self.flags & flag::DETACHED != 0 && !self.ended())
    }

    /// The HTTP status, 200 to 599, or 101 for an upgrade.
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
        self.flags & flag::END != 0 && self.upgrade.is_none()
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
