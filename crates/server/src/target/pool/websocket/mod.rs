//! WebSockets of a pool's handlers: the server speaks the protocol (RFC 6455) with the client, and passes messages to and from the worker.

mod deflate;
mod messages;

use std::{
    future::poll_fn,
    mem,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use forebay_pool::{
    Delivery, Failure, HEADER_BYTES, MESSAGE_PIECE_MAX, Message, PUBLISHED_BYTES_MAX, Pending,
};
use tungstenite::handshake::derive_accept_key;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::messages::read_all;
use self::{
    deflate::Deflate,
    messages::{Decoder, Event, WebSocketError, put_close, put_message, put_ping, put_pong},
};
use super::{
    super::{durability::wait_for_disk, response_headers::invalid, spool::Share},
    PoolStream, PoolTarget,
};
use crate::{
    config::WebSocket as Settings,
    failure::Refusal,
    front::{Client, Head},
    reply::{HeaderLines, Reply},
    target::{BodyStream, End, NextPiece, Piece, Request},
};

/// Most bytes that are read from the client, or written to it, at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// How long a client has to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Size up to which an incomplete message is not counted against `server.buffers_max`.
const SMALL_BYTES: usize = 16 * 1024;

/// Close codes (RFC 6455, 7.4.1, and the registry).
const GOING_AWAY: u16 = 1001;
const INTERNAL_ERROR: u16 = 1011;
const SERVICE_RESTART: u16 = 1012;

/// Checks a request to go over to WebSocket, before a worker gets it. `None`: it may be accepted.
pub(super) fn refused(head: &Head) -> Result<Option<Reply<'static>>, Refusal> {
    if head.field("sec-websocket-version") != Some(b"13") {
        let mut reply = Reply::new(400);
        let mut headers = HeaderLines::default();
        headers.push_known("sec-websocket-version", "13");
        reply.headers = std::borrow::Cow::Owned(headers);
        return Ok(Some(reply));
    }
    let key = head.field("sec-websocket-key").unwrap_or_default();
    if head.method() != "GET" || STANDARD.decode(key).map_or(0, |key| key.len()) != 16 {
        let what = "a WebSocket begins with GET and a `sec-websocket-key` of 16 bytes in base64";
        return Err(Refusal::Malformed { what });
    }
    Ok(None)
}

/// Adds the fields of an accepted handshake to those of the handler, and returns what was agreed on.
fn accept(head: &Head, settings: &Settings, headers: &mut HeaderLines) -> Result<Option<Deflate>, End> {
    let listed = |name: &str| {
        let fields = head.fields().filter(move |(found, _)| *found == name.as_bytes());
        let values: Vec<_> = fields.map(|(_, value)| String::from_utf8_lossy(value)).collect();
        values.join(",")
    };
    let offered = listed("sec-websocket-protocol");
    let is_offered = |protocol: &[u8]| {
        offered
            .split(',')
            .any(|offer| offer.trim().as_bytes() == protocol)
    };
    let is_unasked =
        |(name, protocol): (&[u8], &[u8])| name == b"sec-websocket-protocol" && !is_offered(protocol);
    if headers.fields().any(is_unasked) {
        return Err(invalid(
            "it chooses a WebSocket protocol that the client has not offered",
        ));
    }
    let key = head.field("sec-websocket-key").unwrap_or_default();
    headers.push_known("upgrade", "websocket");
    headers.push_known("sec-websocket-accept", &derive_accept_key(key));
    if !settings.compress {
        return Ok(None);
    }
    let agreed = Deflate::accept(&listed("sec-websocket-extensions"));
    Ok(agreed.map(|(deflate, value)| {
        headers.push_known("sec-websocket-extensions", &value);
        deflate
    }))
}

/// A WebSocket of a handler.
#[derive(Debug)]
pub(super) struct WebSocketStream<'a> {
    pending: Pending<'a>,
    target: &'a PoolTarget,
    request_id: Box<str>,
    /// How long a message may wait for the disk.
    hold_max: Duration,
    decoder: Decoder,
    deflate: Option<Deflate>,
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
    /// When the client was last heard, and whether it has been sent a ping since then.
    heard: Instant,
    is_pinged: bool,
    /// Messages that the client may send at once, and when that was.
    allowance: f64,
    allowed_at: Instant,
    /// Whether it was given up while the client took nothing, so that the client has not been told.
    is_too_slow: bool,
    /// Until when a client that was sent a close may answer it.
    closing: Option<Instant>,
}

const TOO_SLOW: WebSocketError = WebSocketError::TooSlow {
    bytes_max: PUBLISHED_BYTES_MAX,
};

/// The bytes that one poll has gathered for the client.
#[derive(Debug, Default)]
struct Gathered {
    bytes: Vec<u8>,
    /// The last commit that must be on disk before the client gets the bytes.
    commit: u64,
    /// Whether the connection ends behind these bytes.
    end: bool,
}

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
        let settings = &target.websocket;
        let deflate = accept(request.head, settings, headers)?;
        let now = Instant::now();
        Ok(Self {
            pending,
            target,
            request_id: request.id.into(),
            hold_max,
            decoder: Decoder::new(settings.message_bytes_max as usize, deflate),
            deflate,
            granted,
            unsent: None,
            partial: Vec::new(),
            owed: 0,
            share: None,
            heard: now,
            is_pinged: false,
            allowance: f64::from(settings.messages_per_second_max),
            allowed_at: now,
            is_too_slow: false,
            closing: None,
        })
    }

    async fn next_piece(&mut self, client: &mut dyn Client) -> Result<Piece, End> {
        if self.owed > 0 && !self.pending.is_over() {
            self.pending.grant(mem::take(&mut self.owed) as u32);
        }
        if self.is_too_slow {
            let mut close = Gathered::default();
            self.begin_closing(&mut close, TOO_SLOW.code(), TOO_SLOW.to_string().as_bytes());
            return Ok(Piece::new(close.bytes, true));
        }
        let gathered = poll_fn(|cx| self.poll_gather(cx, client)).await?;
        let until = Instant::now() + self.hold_max;
        wait_for_disk(self.target.store.as_deref(), gathered.commit, until, client).await?;
        Ok(Piece::new(gathered.bytes, gathered.end))
    }

    fn poll_gather(&mut self, cx: &mut Context<'_>, client: &mut dyn Client) -> Poll<Result<Gathered, End>> {
        let mut out = Gathered::default();
        if client.is_draining() && self.closing.is_none() {
            self.close(&mut out, GOING_AWAY, b"the server is stopping");
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
            match self.poll_timers(cx, client, &mut out) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(end)) => return Poll::Ready(Err(end)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(out))
    }

    /// Takes what the worker has sent.
    fn take_deliveries(&mut self, cx: &mut Context<'_>, out: &mut Gathered) {
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
                Poll::Ready(Delivery::Answer(_) | Delivery::Chunk { .. }) => {
                    unreachable!("a WebSocket has messages")
                }
                Poll::Pending => break,
            }
        }
    }

    fn put(&mut self, message: Message, out: &mut Gathered) {
        let Message {
            bytes,
            is_text,
            end,
            is_published,
            commit,
        } = message;
        out.commit = out.commit.max(commit);
        if is_published {
            return put_message(&mut out.bytes, &bytes, is_text, self.deflate.as_ref());
        }
        self.owed += bytes.len() + HEADER_BYTES;
        if end && self.partial.is_empty() {
            return put_message(&mut out.bytes, &bytes, is_text, self.deflate.as_ref());
        }
        let message_bytes_max = self.target.websocket.message_bytes_max as usize;
        if self.partial.len() + bytes.len() > message_bytes_max {
            return self.fail(&WebSocketError::TooLong { message_bytes_max }, out);
        }
        self.partial.extend_from_slice(&bytes);
        if end {
            let whole = mem::take(&mut self.partial);
            put_message(&mut out.bytes, &whole, is_text, self.deflate.as_ref());
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
        out: &mut Gathered,
    ) -> Poll<Result<(), End>> {
        self.send_unsent();
        if self.unsent.is_some() {
            return client.poll_gone(cx).map(|()| Err(End::Gone));
        }
        let event = match self.decoder.next() {
            Ok(event) => event,
            Err(error) => {
                self.fail(&error, out);
                return Poll::Ready(Ok(()));
            }
        };
        let Some(event) = event else {
            let decoder = &mut self.decoder;
            let read = client.poll_body(cx, PIECE_BYTES, None, &mut |bytes| decoder.push(bytes));
            return read.map(|read| {
                read?;
                self.heard = Instant::now();
                self.is_pinged = false;
                self.reserve(out);
                Ok(())
            });
        };
        match event {
            Event::Ping(payload) => put_pong(&mut out.bytes, &payload),
            Event::Pong => {}
            Event::Close { code, reason } => {
                if self.closing.is_none() {
                    put_close(&mut out.bytes, code, &reason);
                    self.pending.close(code, &reason);
                }
                out.end = true;
            }
            // Once it is closed, only the answer to the close matters.
            Event::Message { .. } if self.closing.is_some() => {}
            Event::Message { bytes, is_text } if self.is_allowed() => {
                self.unsent = Some((bytes.into(), is_text));
                self.send_unsent();
            }
            Event::Message { .. } => {
                let messages_per_second_max = self.target.websocket.messages_per_second_max;
                self.fail(
                    &WebSocketError::TooMany {
                        messages_per_second_max,
                    },
                    out,
                );
            }
        }
        Poll::Ready(Ok(()))
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
    fn reserve(&mut self, out: &mut Gathered) {
        let buffered = self.decoder.buffered();
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

    /// Whether the client may send another message now.
    fn is_allowed(&mut self) -> bool {
        let rate = f64::from(self.target.websocket.messages_per_second_max);
        if rate == 0.0 {
            return true;
        }
        let now = Instant::now();
        let earned = now
            .duration_since(mem::replace(&mut self.allowed_at, now))
            .as_secs_f64()
            * rate;
        self.allowance = (self.allowance + earned).min(rate);
        let is_allowed = self.allowance >= 1.0;
        if is_allowed {
            self.allowance -= 1.0;
        }
        is_allowed
    }

    /// Sends pings to a silent client, and gives it up at last.
    fn poll_timers(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut dyn Client,
        out: &mut Gathered,
    ) -> Poll<Result<(), End>> {
        if let Some(until) = self.closing {
            return client.poll_limit(cx, until).map(|()| Err(End::Gone));
        }
        let idle_timeout = self.target.websocket.idle_timeout;
        if idle_timeout.is_zero() {
            return Poll::Pending;
        }
        if self.is_pinged {
            return client
                .poll_limit(cx, self.heard + idle_timeout)
                .map(|()| Err(End::Gone));
        }
        client.poll_limit(cx, self.heard + idle_timeout / 2).map(|()| {
            self.is_pinged = true;
            put_ping(&mut out.bytes);
            Ok(())
        })
    }

    /// Closes the WebSocket for a reason that both sides are told.
    fn close(&mut self, out: &mut Gathered, code: u16, reason: &[u8]) {
        self.pending.close(code, reason);
        self.begin_closing(out, code, reason);
    }

    /// Closes the WebSocket because of an error.
    fn fail(&mut self, error: &WebSocketError, out: &mut Gathered) {
        let reason = error.to_string();
        tracing::info!(target: "forebay::front", request = &*self.request_id, code = error.code(), "WebSocket is closed: {reason}");
        self.close(out, error.code(), reason.as_bytes());
        // Later frames of the client may not be understood any more.
        out.end = true;
    }

    /// Sends the client a close, whose answer is waited for.
    fn begin_closing(&mut self, out: &mut Gathered, code: u16, reason: &[u8]) {
        put_close(&mut out.bytes, code, reason);
        self.unsent = None;
        self.closing = Some(Instant::now() + CLOSE_TIMEOUT);
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
            self.fail(&TOO_SLOW, &mut Gathered::default());
            self.is_too_slow = true;
        }
    }
}

#[cfg(test)]
mod tests;
