//! The queue of writes to a worker: frames, and the answers to its calls, whose pieces take turns.

use std::collections::VecDeque;

use forebay_wire::{Header, flag, put_call};

use crate::calls::Refusal;

/// Maximum total size of call answers that wait until one worker reads them.
pub(super) const RETURN_BYTES_MAX: usize = 256 << 20;
/// Maximum size of one piece of such an answer: small enough that other frames of the link get their turn.
const RETURN_PIECE_MAX: usize = 64 * 1024;
/// More pieces are appended as long as the write buffer is shorter than this.
pub(super) const RETURNS_AHEAD_BYTES: usize = 256 * 1024;

/// A worker makes calls but does not read the answers.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "worker does not read the answers to its calls: more than {message_bytes_max} bytes of them wait (message_bytes_max)"
)]
pub(crate) struct Unread {
    pub(super) message_bytes_max: usize,
}

/// Whether a link still accepts output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LinkState {
    #[default]
    Open,
    /// Nothing may be appended; what is buffered is still written.
    Ending,
    /// Nothing is written any more.
    Closed,
}

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) frames: Vec<u8>,
    /// The buffer that is not in use, kept for its memory.
    pub(super) spare: Vec<u8>,
    /// Call answers that are not completely in the frame buffer. Their pieces take turns.
    returns: VecDeque<Return>,
    /// Total size of these answers.
    pub(super) return_bytes: usize,
    /// A thread is writing; it also writes what others append meanwhile.
    pub(super) writing: bool,
    /// The socket is full; the reader resumes writing when it is writable again.
    pub(super) full: bool,
    pub(super) state: LinkState,
    pub(super) unread: Option<Unread>,
}

/// A call answer that is being sent.
#[derive(Debug)]
struct Return {
    header: Header,
    number: u32,
    body: Vec<u8>,
    /// Number of its bytes that are in the frame buffer already.
    sent: usize,
}

impl Outgoing {
    /// Appends pieces of call answers while the frame buffer is short.
    pub(super) fn add_returns(&mut self) {
        while self.frames.len() < RETURNS_AHEAD_BYTES
            && let Some(mut due) = self.returns.pop_front()
        {
            let rest = &due.body[due.sent..];
            let piece = &rest[..rest.len().min(RETURN_PIECE_MAX)];
            let mut header = due.header;
            if piece.len() == rest.len() {
                header.flags |= flag::END;
            }
            put_call(&mut self.frames, &header, due.number, piece);
            due.sent += piece.len();
            if header.has(flag::END) {
                self.return_bytes -= due.body.len();
            } else {
                self.returns.push_back(due);
            }
        }
    }

    /// Discards everything that is buffered: the worker no longer reads.
    pub(super) fn close(&mut self) {
        self.state = LinkState::Closed;
        self.frames = Vec::new();
        self.returns = VecDeque::new();
        self.return_bytes = 0;
    }

    /// Queues the answer to a call that arrived as a frame. It is sent in pieces, between which other frames get their turn.
    pub(super) fn put_return(&mut self, header: Header, number: u32, body: Vec<u8>) -> Result<(), Refusal> {
        // An error always fits: there is at most one for each call.
        if self.return_bytes + body.len() > RETURN_BYTES_MAX && !header.has(flag::FAULT) {
            return Err(Refusal::ResultTooLarge {
                bytes: body.len(),
                max: RETURN_BYTES_MAX,
            });
        }
        if self.state != LinkState::Closed {
            self.return_bytes += body.len();
            self.returns.push_back(Return {
                header,
                number,
                body,
                sent: 0,
            });
        }
        Ok(())
    }
}
