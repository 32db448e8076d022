//! The body of a connection's current request, as its target reads it.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    Limits,
    body::{Decoder, Step},
    head::Head,
    pace::Pace,
    socket::{Filled, Socket, Stream},
};
use crate::{
    failure::Refusal,
    reply::{HeaderLines, may_be_trailer},
    target::End,
};

/// Bytes of a discarded body that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// Most body bytes that are read only to be discarded, so that the connection can be reused.
pub(super) const DISCARD_BYTES_MAX: usize = 256 * 1024;

/// State of reading one request's body from its connection.
#[derive(Debug)]
pub(crate) struct RequestBody {
    decoder: Decoder,
    /// The client waits for `100 Continue` before it sends the body.
    continue_due: bool,
    limits: Limits,
    /// The unused part of `body_timeout`: only time spent waiting for the client counts.
    patience: Duration,
    /// When `patience` runs out, while waiting for the client.
    until: Option<Instant>,
    /// Start of the current wait for the client.
    since: Option<Instant>,
    pace: Pace,
    /// Whether everything that comes is the body: no limit applies.
    is_tunnel: bool,
    /// The fields behind a chunked body.
    trailers: HeaderLines,
    /// The body, where it is to be read again.
    given_back: Bytes,
}

/// Adds a field behind a body, unless it is one that may not stand there.
fn put_trailer(trailers: &mut HeaderLines, line: &[u8]) -> Result<(), Refusal> {
    let colon = memchr::memchr(b':', line).ok_or(Refusal::Malformed {
        what: "a trailer field has no colon",
    })?;
    let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
    if may_be_trailer(&name) {
        let pushed = trailers.push(&name, value);
        pushed.map_err(|what| Refusal::Malformed { what })?;
    }
    Ok(())
}

impl RequestBody {
    pub(crate) fn new(head: &Head, limits: Limits) -> Self {
        let decoder = Decoder::new(head.framing);
        let continue_due = head.expects_continue && !decoder.ended();
        Self {
            decoder,
            continue_due,
            limits,
            patience: limits.body_timeout,
            until: None,
            since: None,
            pace: limits.pace(),
            is_tunnel: false,
            trailers: HeaderLines::default(),
            given_back: Bytes::new(),
        }
    }

    /// Sets how long the body may be, and refuses it if it says that it is longer.
    pub(crate) fn limit(&mut self, body_bytes_max: u64) -> Result<(), Refusal> {
        self.decoder.limit(body_bytes_max)
    }

    /// Whether the whole body has been read.
    pub(crate) fn ended(&self) -> bool {
        self.decoder.ended() && !self.is_tunnel && self.given_back.is_empty()
    }

    /// Has the body, which has been read to its end, be read again.
    pub(crate) fn give_back(&mut self, body: Vec<u8>) {
        self.given_back = body.into();
    }

    /// The fields behind the body, once it has ended.
    pub(crate) fn trailers(&self) -> &HeaderLines {
        &self.trailers
    }

    /// Reads whatever comes as the body from now on.
    pub(crate) fn begin_tunnel(&mut self) {
        self.is_tunnel = true;
    }

    /// Whether the client still waits for `100 Continue`. Until that is sent, it is unknown whether a body follows.
    pub(crate) fn is_withheld(&self) -> bool {
        self.continue_due
    }

    /// Whether the client waits for `100 Continue`, which is to be sent now.
    pub(crate) fn take_continue(&mut self) -> bool {
        std::mem::take(&mut self.continue_due)
    }

    /// Reads some bytes, at most `room`, but not beyond `deadline`. Waits for the client no longer than `body_timeout` in all.
    pub(crate) fn poll_read<S: Stream>(
        &mut self,
        socket: &mut Socket<S>,
        cx: &mut Context<'_>,
        room: usize,
        deadline: Option<Instant>,
        mut take: impl FnMut(&[u8]),
    ) -> Poll<Result<(), End>> {
        if !self.given_back.is_empty() {
            let length = self.given_back.len().min(room.max(1));
            take(&self.given_back.split_to(length));
            return Poll::Ready(Ok(()));
        }
        loop {
            let input = socket.input();
            if self.is_tunnel {
                if input.is_empty() {
                    match ready!(socket.poll_fill(cx)) {
                        Filled::Bytes => continue,
                        Filled::End | Filled::TimedOut => return Poll::Ready(Err(End::Gone)),
                    }
                }
                let length = input.len().min(room);
                take(&input[..length]);
                socket.take(length);
                return Poll::Ready(Ok(()));
            }
            match self.decoder.step(&input[..input.len().min(room.max(1))]) {
                Err(refusal) => return Poll::Ready(Err(refusal.into())),
                Ok(Step::End) => return Poll::Ready(Ok(())),
                Ok(Step::Data { bytes, used }) => {
                    take(bytes);
                    socket.take(used);
                    return Poll::Ready(Ok(()));
                }
                Ok(Step::Trailer { line, used }) => {
                    put_trailer(&mut self.trailers, line)?;
                    socket.take(used);
                }
                Ok(Step::Framing { used: 0 }) => {
                    // A framing line may be longer than `room`.
                    if input.len() > room && self.skip_framing(socket)? {
                        continue;
                    }
                    ready!(self.poll_more(socket, cx, deadline))?;
                }
                Ok(Step::Framing { used }) => {
                    socket.take(used);
                    if self.decoder.ended() {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// Decodes framing from all of the buffered input; false if even that does not complete it.
    fn skip_framing<S: Stream>(&mut self, socket: &mut Socket<S>) -> Result<bool, Refusal> {
        let used = match self.decoder.step(socket.input())? {
            Step::Framing { used } => used,
            Step::Trailer { line, used } => {
                put_trailer(&mut self.trailers, line)?;
                used
            }
            Step::Data { .. } | Step::End => unreachable!("the same bytes were framing before"),
        };
        socket.take(used);
        Ok(used > 0)
    }

    fn poll_more<S: Stream>(
        &mut self,
        socket: &mut Socket<S>,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<Result<(), End>> {
        let body_timeout = self.limits.body_timeout;
        let since = *self.since.get_or_insert_with(Instant::now);
        let until = *self.until.get_or_insert(since + self.patience);
        let slow = self
            .pace
            .left()
            .map(|left| since + left)
            .filter(|slow| *slow < until);
        let deadline = deadline.filter(|&deadline| deadline < slow.unwrap_or(until));
        match ready!(socket.poll_fill_until(cx, deadline.or(slow).unwrap_or(until))) {
            Filled::Bytes => {
                let now = Instant::now();
                (self.since, self.until) = (None, None);
                self.patience = until.saturating_duration_since(now);
                self.pace.note(socket.input().len(), now - since);
                Poll::Ready(Ok(()))
            }
            Filled::End => Poll::Ready(Err(End::Gone)),
            Filled::TimedOut if deadline.is_some() => Poll::Ready(Err(Refusal::DeadlinePassed.into())),
            Filled::TimedOut if slow.is_some() => {
                socket.note_too_slow();
                let min_rate = self.pace.min_rate();
                Poll::Ready(Err(Refusal::BodyTooSlow { min_rate }.into()))
            }
            Filled::TimedOut => Poll::Ready(Err(Refusal::BodyTimeout { body_timeout }.into())),
        }
    }

    /// Reads and discards the rest of the body, if it is short. False: the connection cannot be reused.
    pub(crate) async fn discard<S: Stream>(&mut self, socket: &mut Socket<S>) -> bool {
        self.given_back.clear();
        let mut dropped = 0;
        while !self.ended() && dropped < DISCARD_BYTES_MAX {
            let read =
                poll_fn(|cx| self.poll_read(socket, cx, PIECE_BYTES, None, |bytes| dropped += bytes.len()))
                    .await;
            if read.is_err() {
                return false;
            }
        }
        self.ended()
    }
}
