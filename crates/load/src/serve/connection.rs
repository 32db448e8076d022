//! One connection of the server: what it brought, what it is waiting for, and what it has yet to take.

use std::{collections::VecDeque, os::fd::OwnedFd, rc::Rc};

use rustix::{
    io::Errno,
    net::{SendFlags, Shutdown, sockopt},
};

use super::{
    answer::{self, PIECE_BYTES},
    request::{Asked, Body},
};

/// Answers that wait to be taken; further requests are read when there is room again.
const OUT_BYTES_MAX: usize = 256 * 1024;
/// A slow answer is written so often at most.
const SLOW_STEP_NS: u64 = 10_000_000;
/// How long a connection that is closed by the server may go on sending.
pub(super) const DRAIN_NS: u64 = 1_000_000_000;

/// What a connection is waiting for before anything else may happen on it.
#[derive(Clone, Debug)]
pub(super) enum Wait {
    Nothing,
    /// An answer is held back.
    Answer(Rc<Asked>),
    /// The rest of a slow one.
    Slow,
    /// For good.
    Forever,
    /// For the other side to close: what it still sends is thrown away, and no answer lost for it.
    Drain,
}

/// An answer that is made as the connection takes it.
#[derive(Debug)]
pub(super) enum Stream {
    Bytes {
        left: u64,
    },
    Chunks {
        left: u64,
    },
    Slow {
        bytes: Vec<u8>,
        at: usize,
        per_s: f64,
        began: u64,
    },
}

/// What follows when all answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Stays,
    Closes,
    /// The other side gets a reset.
    Resets,
}

/// An answer that was put out, until it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Where its last byte is among all that were put out.
    end: u64,
    pub(super) place: Option<usize>,
    /// When its request had been read.
    pub(super) since: u64,
}

/// How far a write came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    All,
    Some,
    /// The other side is gone.
    Failed,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    /// Read, but not understood yet.
    pub(super) input: Vec<u8>,
    /// Whether there are requests in it that could not be looked at yet.
    pub(super) more: bool,
    /// A request whose body is on its way.
    pub(super) body: Option<(Rc<Asked>, Body)>,
    pub(super) wait: Wait,
    pub(super) stream: Option<(Stream, Due)>,
    pub(super) ending: Ending,
    pub(super) readable: bool,
    /// When the last request had been read.
    pub(super) since: u64,
    pub(super) due: VecDeque<Due>,
    out: Vec<u8>,
    out_at: usize,
    /// Bytes written so far.
    written: u64,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            input: Vec::new(),
            more: false,
            body: None,
            wait: Wait::Nothing,
            stream: None,
            ending: Ending::Stays,
            readable: false,
            since: 0,
            due: VecDeque::new(),
            out: Vec::new(),
            out_at: 0,
            written: 0,
        }
    }

    /// Whether the next request may be looked at.
    pub(super) fn takes_requests(&self) -> bool {
        matches!(self.wait, Wait::Nothing)
            && self.stream.is_none()
            && self.ending == Ending::Stays
            && self.out.len() < OUT_BYTES_MAX
    }

    /// Puts an answer out.
    pub(super) fn answer(&mut self, place: Option<usize>, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.out);
        let due = Due {
            end: self.put_out(),
            place,
            since: self.since,
        };
        self.due.push_back(due);
    }

    /// Puts out what is no answer.
    pub(super) fn utter(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.out);
    }

    /// Begins an answer that is made bit by bit.
    pub(super) fn begin_stream(&mut self, stream: Stream, place: Option<usize>) {
        let due = Due {
            end: 0,
            place,
            since: self.since,
        };
        self.stream = Some((stream, due));
    }

    fn put_out(&self) -> u64 {
        self.written + (self.out.len() - self.out_at) as u64
    }

    /// Puts out the next piece of a stream, if there is one and all before it is written. What is returned is when to come again.
    pub(super) fn go_on(&mut self, now: u64) -> Option<u64> {
        let (stream, _) = self.stream.as_mut()?;
        let mut again = None;
        let over = match stream {
            Stream::Bytes { left } => {
                let piece = (*left).min(PIECE_BYTES as u64);
                answer::lines(&mut self.out, piece as usize);
                *left -= piece;
                *left == 0
            }
            Stream::Chunks { left } => {
                let piece = (*left).min(PIECE_BYTES as u64 / 8);
                if piece > 0 {
                    answer::chunk(&mut self.out, piece as usize);
                }
                *left -= piece;
                if *left == 0 {
                    self.out.extend_from_slice(b"0\r\n\r\n");
                }
                *left == 0
            }
            Stream::Slow {
                bytes,
                at,
                per_s,
                began,
            } => {
                let allowed = now.saturating_sub(*began) as f64 * *per_s / 1e9;
                let end = (allowed as usize).clamp(*at, bytes.len());
                self.out.extend_from_slice(&bytes[*at..end]);
                *at = end;
                let step = ((1e9 / *per_s) as u64).max(SLOW_STEP_NS);
                again = (end < bytes.len()).then_some(now + step);
                end == bytes.len()
            }
        };
        if over && let Some((_, due)) = self.stream.take() {
            self.due.push_back(Due {
                end: self.put_out(),
                ..due
            });
        }
        again
    }

    pub(super) fn has_out(&self) -> bool {
        self.out_at < self.out.len()
    }

    /// Writes what was put out.
    pub(super) fn flush(&mut self) -> Written {
        while self.has_out() {
            match rustix::net::send(&self.socket, &self.out[self.out_at..], SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.out_at += sent;
                    self.written += sent as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Written::Some,
                Err(_) => return Written::Failed,
            }
        }
        self.out.clear();
        self.out_at = 0;
        Written::All
    }

    /// The next answer that was written to its end.
    pub(super) fn next_written(&mut self) -> Option<Due> {
        let is_written = self.due.front().is_some_and(|due| due.end <= self.written);
        if is_written { self.due.pop_front() } else { None }
    }

    /// Says that nothing more is sent.
    pub(super) fn shut_down(&self) {
        // One that is gone already needs no shutting down.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Lets the other side have a reset when the socket is closed.
    pub(super) fn reset_on_close(&self) {
        let _ = sockopt::set_socket_linger(&self.socket, Some(std::time::Duration::ZERO));
    }
}
