//! WebSockets of a pool's handlers: passes messages between the client and the worker.

use std::{
    future::poll_fn,
    mem,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_pool::{
    Delivery, Failure, HEADER_BYTES, MESSAGE_PIECE_MAX, Message, PUBLISHED_BYTES_MAX, Pending,
};

use super::{PoolStream, PoolTarget};
use crate::{
    failure::Refusal,
    front::Client,
    reply::HeaderLines,
    target::{
        BodyStream, End, NextPiece, Piece, Request,
        durability::wait_for_disk,
        spool::Share,
        websocket::{
            INTERNAL_ERROR, Incoming, Output, PIECE_BYTES, SERVICE_RESTART, Session, WebSocketError,
        },
    },
};

/// Size up to which an incomplete message is not counted against `server.buffers_max`.
const SMALL_BYTES: usize = 16 * 1024;

/// A WebSocket of a handler.
#[derive(Debug)]
pub(super) struct WebSocketStream<'a> {
    pending: Pending<'a>,
    target: &'a PoolTarget,
    session: Session,
    request_id: Box<str>,
    /// How long a message may wait for the disk.
    hold_max: Duration,
    /// Bytes that the worker is ready to take.
    granted: usize,
    /// The rest of a client's message that the worker has no room for.
    unsent: Option<(Bytes, bool)>,
    /// The beginning of a worker's message in several pieces.
    partial: Vec<u8>,
    /// Bytes to grant the worker once the client has taken what was written.
    owed: usize,
    /// Memory reserved for an incomplete message of the client.
    share: Option<Share>,
    /// The last commit that must be on disk before the client gets what has been gathered.
    commit: u64,
    /// The close of a WebSocket that was given up while the client took nothing, and so has not been told.
    late_close: Option<Output>,
}

const TOO_SLOW: WebSocketError = WebSocketError::TooSlow {
    bytes_max: PUBLISHED_BYTES_MAX,
};

impl<'a> WebSocketStream<'a> {
    /// Completes the handshake that a worker has accepted.
    pub(super) fn new(
        accepted: PoolStream<'a>,
        request: &Request<'_>,
        headers: &mut HeaderLines,
    ) -> Result<Self, End> {
        let PoolStream {
            pending,
            target,
            hold_max,
            granted,
            ..
        } = accepted;
        Ok(Self {
            pending,
            target,
            session: Session::accept(request, &target.websocket, headers)?,
            request_id: request.id.into(),
            hold_max,
            granted,
            unsent: None,
            partial: Vec::new(),
            owed: 0,
            share: None,
            commit: 0,
            late_close: None,
        })
    }

    async fn next_piece(&mut self, client: &mut dyn Client) -> Result<Piece, End> {
        if self.owed > 0 && !self.pending.is_over() {
            self.pending.grant(mem::take(&mut self.owed) as u32);
        }
        if let Some(close) = self.late_close.take() {
            return Ok(close.into());
        }
        let output = poll_fn(|cx| self.poll_gather(cx, client)).await?;
        let until = Instant::now() + self.hold_max;
        let commit = mem::take(&mut self.commit);
        wait_for_disk(self.target.store.as_deref(), commit, until, client).await?;
        Ok(output.into())
    }

    fn poll_gather(&mut self, cx: &mut Context<'_>, client: &mut dyn Client) -> Poll<Result<Output, End>> {
        let mut out = Output::default();
        if let Some(closed) = self.session.drain(client, &mut out) {
            self.pass_on(closed);
        }
        self.take_deliveries(cx, &mut out);
        while !out.end && out.bytes.len() < PIECE_BYTES {
            match self.poll_client(cx, client, &mut out) {
                Poll::Ready(Ok(())) => self.take_deliveries(cx, &mut out),
                Poll::Ready(Err(end)) => return Poll::Ready(Err(end)),
                Poll::Pending => break,
            }
        }
        if out.bytes.is_empty() && !out.end {
            ready!(self.session.poll_timers(cx, client, &mut out))?;
        }
        Poll::Ready(Ok(out))
    }

    /// Takes what the worker has sent.
    fn take_deliveries(&mut self, cx: &mut Context<'_>, out: &mut Output) {
        while out.bytes.len() < PIECE_BYTES && !self.pending.is_over() {
            match self.pending.poll_next(cx) {
                Poll::Ready(Delivery::Window(bytes)) => self.granted += bytes as usize,
                Poll::Ready(Delivery::Message(message)) => self.put(message, out),
                Poll::Ready(Delivery::Close { code, reason }) => self.begin_closing(out, code, &reason),
                Poll::Ready(Delivery::Overflow) => self.fail(&TOO_SLOW, out),
                Poll::Ready(Delivery::Failed(failure)) => {
                    let code = match failure {
                        Failure::WorkerDied { .. } | Failure::Stopping { .. } => SERVICE_RESTART,
                        _ => INTERNAL_ERROR,
                    };
                    Refusal::from(failure).log_cut_off(&self.request_id);
                    self.begin_closing(out, code, b"");
                }
                Poll::Ready(Delivery::Answer(_) | Delivery::Chunk { .. } | Delivery::Trailers(_)) => {
                    unreachable!("a WebSocket has messages")
                }
                Poll::Pending => break,
            }
        }
    }

    fn put(&mut self, message: Message, out: &mut Output) {
        let Message {
            bytes,
            is_text,
            end,
            is_published,
            commit,
        } = message;
        self.commit = self.commit.max(commit);
        if is_published {
            return self.session.put_message(out, &bytes, is_text);
        }
        self.owed += bytes.len() + HEADER_BYTES;
        if end && self.partial.is_empty() {
            return self.session.put_message(out, &bytes, is_text);
        }
        let message_bytes_max = self.target.websocket.message_bytes_max as usize;
        if self.partial.len() + bytes.len() > message_bytes_max {
            return self.fail(&WebSocketError::TooLong { message_bytes_max }, out);
        }
        self.partial.extend_from_slice(&bytes);
        if end {
            let whole = mem::take(&mut self.partial);
            self.session.put_message(out, &whole, is_text);
        } else {
            // The client gets nothing yet, so its pace does not matter.
            self.pending.grant(mem::take(&mut self.owed) as u32);
        }
    }

    /// Takes what the client has sent, as far as the worker has room for it.
    fn poll_client(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut dyn Client,
        out: &mut Output,
    ) -> Poll<Result<(), End>> {
        self.send_unsent();
        if self.unsent.is_some() {
            return client.poll_gone(cx).map(|()| Err(End::Gone));
        }
        match ready!(self.session.poll_incoming(cx, client, out))? {
            Some(incoming) => self.pass_on(incoming),
            None => self.reserve(out),
        }
        Poll::Ready(Ok(()))
    }

    /// Tells the worker what the client has sent, or that the WebSocket is closed.
    fn pass_on(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Message { bytes, is_text } => {
                self.unsent = Some((bytes, is_text));
                self.send_unsent();
            }
            Incoming::Closed { code, reason } => {
                self.unsent = None;
                self.pending.close(code, &reason);
            }
        }
    }

    /// Sends the worker as much of the client's message as it has room for.
    fn send_unsent(&mut self) {
        while let Some((bytes, is_text)) = &mut self.unsent {
            if self.pending.is_over() {
                self.unsent = None;
                return;
            }
            let room = self.granted.saturating_sub(HEADER_BYTES).min(MESSAGE_PIECE_MAX);
            if self.granted < HEADER_BYTES || (room == 0 && !bytes.is_empty()) {
                return;
            }
            let piece = bytes.split_to(room.min(bytes.len()));
            let (is_text, end) = (*is_text, bytes.is_empty());
            self.granted -= piece.len() + HEADER_BYTES;
            self.pending.send_message(&piece, is_text, end);
            if end {
                self.unsent = None;
            }
        }
    }

    /// Reserves memory for the message that the client is sending.
    fn reserve(&mut self, out: &mut Output) {
        let buffered = self.session.buffered();
        if buffered <= SMALL_BYTES {
            self.share = None;
            return;
        }
        if self.share.is_none() {
            let (kept, bounds) = (&self.target.kept, &self.target.bounds);
            self.share = Share::for_body(kept, bounds, self.target.websocket.message_bytes_max);
            if self.share.is_none() {
                self.fail(&WebSocketError::NoMemory, out);
            }
        }
    }

    /// Closes the WebSocket because of an error, which both sides are told.
    fn fail(&mut self, error: &WebSocketError, out: &mut Output) {
        let closed = self.session.fail(error, out);
        self.pass_on(closed);
    }

    /// Sends the client a close.
    fn begin_closing(&mut self, out: &mut Output, code: u16, reason: &[u8]) {
        self.unsent = None;
        self.session.begin_closing(out, code, reason);
    }
}

impl BodyStream for WebSocketStream<'_> {
    fn has_piece(&self) -> bool {
        false
    }

    fn ends_connection(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(self.next_piece(client))
    }

    /// A client that takes nothing may do so for a while: the worker need not wait for that.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if !self.pending.is_over() && self.pending.poll_overflow(cx).is_ready() {
            let mut close = Output::default();
            self.fail(&TOO_SLOW, &mut close);
            self.late_close = Some(close);
        }
    }
}
