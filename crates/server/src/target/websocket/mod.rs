//! The server's side of WebSockets (RFC 6455): the handshake, and what every WebSocket does with its client, whatever its messages are about.

mod deflate;
mod messages;

use std::{
    borrow::Cow,
    mem,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use tungstenite::handshake::derive_accept_key;

pub(super) use self::messages::WebSocketError;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::messages::read_all;
use self::{
    deflate::Deflate,
    messages::{Decoder, Event, put_close, put_message, put_ping, put_pong},
};
use super::{End, Piece, Request, response_headers::invalid};
use crate::{
    config::WebSocket as Settings,
    failure::Refusal,
    front::{Client, Head},
    reply::{HeaderLines, Reply},
};

/// Most bytes that are read from the client, or written to it, at a time.
pub(super) const PIECE_BYTES: usize = 64 * 1024;
/// How long a client has to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Close codes (RFC 6455, 7.4.1, and the registry).
const GOING_AWAY: u16 = 1001;
pub(super) const INTERNAL_ERROR: u16 = 1011;
pub(super) const SERVICE_RESTART: u16 = 1012;

/// Checks a request to go over to WebSocket. `None`: it may be accepted.
pub(super) fn refused_handshake(head: &Head) -> Result<Option<Reply<'static>>, Refusal> {
    if head.field("sec-websocket-version") != Some(b"13") {
        let mut reply = Reply::new(400);
        let mut headers = HeaderLines::default();
        headers.push_known("sec-websocket-version", "13");
        reply.headers = Cow::Owned(headers);
        return Ok(Some(reply));
    }
    let key = head.field("sec-websocket-key").unwrap_or_default();
    if head.method() != "GET" || STANDARD.decode(key).map_or(0, |key| key.len()) != 16 {
        let what = "a WebSocket begins with GET and a `sec-websocket-key` of 16 bytes in base64";
        return Err(Refusal::Malformed { what });
    }
    Ok(None)
}

/// Adds the fields of an accepted handshake, and returns what was agreed on.
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

/// Appends a text message, not compressed.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_message(out, text, true, None);
}

/// A message of the client, or the end of all messages.
#[derive(Debug)]
pub(super) enum Incoming {
    Message {
        bytes: Bytes,
        is_text: bool,
    },
    /// The client has closed, with this code, or has been closed with it because of an error.
    Closed {
        code: u16,
        reason: Vec<u8>,
    },
}

/// Bytes for the client.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// Whether the connection ends behind these bytes.
    pub(super) end: bool,
}

impl From<Output> for Piece {
    fn from(output: Output) -> Self {
        Self::new(output.bytes, output.end)
    }
}

/// A WebSocket as its client sees it: frames, pings, limits and the closing handshake.
#[derive(Debug)]
pub(super) struct Session {
    settings: Settings,
    request_id: Box<str>,
    decoder: Decoder,
    deflate: Option<Deflate>,
    /// When the client was last heard, and whether it has been sent a ping since then.
    heard: Instant,
    is_pinged: bool,
    /// Messages that the client may send at once, and when that was.
    allowance: f64,
    allowed_at: Instant,
    /// Until when a client that was sent a close may answer it.
    closing: Option<Instant>,
}

impl Session {
    /// Completes the handshake: adds its fields to those of the response.
    pub(super) fn accept(
        request: &Request<'_>,
        settings: &Settings,
        headers: &mut HeaderLines,
    ) -> Result<Self, End> {
        let deflate = accept(request.head, settings, headers)?;
        let now = Instant::now();
        Ok(Self {
            settings: *settings,
            request_id: request.id.into(),
            decoder: Decoder::new(settings.message_bytes_max as usize, deflate),
            deflate,
            heard: now,
            is_pinged: false,
            allowance: f64::from(settings.messages_per_second_max),
            allowed_at: now,
            closing: None,
        })
    }

    /// Whether a close has been sent.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Bytes of messages that are not complete.
    pub(super) fn buffered(&self) -> usize {
        self.decoder.buffered()
    }

    pub(super) fn put_message(&self, out: &mut Output, bytes: &[u8], is_text: bool) {
        put_message(&mut out.bytes, bytes, is_text, self.deflate.as_ref());
    }

    /// Handles the next frame of the client, or reads more bytes of it. `None`: it was nothing that the other side has to know.
    pub(super) fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut dyn Client,
        out: &mut Output,
    ) -> Poll<Result<Option<Incoming>, End>> {
        let event = match self.decoder.next() {
            Ok(event) => event,
            Err(error) => return Poll::Ready(Ok(Some(self.fail(&error, out)))),
        };
        let Some(event) = event else {
            let decoder = &mut self.decoder;
            ready!(client.poll_body(cx, PIECE_BYTES, None, &mut |bytes| decoder.push(bytes)))?;
            self.heard = Instant::now();
            self.is_pinged = false;
            return Poll::Ready(Ok(None));
        };
        Poll::Ready(Ok(match event {
            Event::Ping(payload) => {
                put_pong(&mut out.bytes, &payload);
                None
            }
            Event::Pong => None,
            Event::Close { .. } if self.is_closing() => {
                out.end = true;
                None
            }
            Event::Close { code, reason } => {
                put_close(&mut out.bytes, code, &reason);
                out.end = true;
                Some(Incoming::Closed { code, reason })
            }
            // Once it is closed, only the answer to the close matters.
            Event::Message { .. } if self.is_closing() => None,
            Event::Message { bytes, is_text } if self.is_allowed() => Some(Incoming::Message {
                bytes: bytes.into(),
                is_text,
            }),
            Event::Message { .. } => {
                let messages_per_second_max = self.settings.messages_per_second_max;
                let error = WebSocketError::TooMany {
                    messages_per_second_max,
                };
                Some(self.fail(&error, out))
            }
        }))
    }

    /// Whether the client may send another message now.
    fn is_allowed(&mut self) -> bool {
        let rate = f64::from(self.settings.messages_per_second_max);
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
    pub(super) fn poll_timers(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut dyn Client,
        out: &mut Output,
    ) -> Poll<Result<(), End>> {
        if let Some(until) = self.closing {
            return client.poll_limit(cx, until).map(|()| Err(End::Gone));
        }
        let idle_timeout = self.settings.idle_timeout;
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

    /// Closes the WebSocket if the server is stopping, and it is not closed yet.
    pub(super) fn drain(&mut self, client: &dyn Client, out: &mut Output) -> Option<Incoming> {
        if !client.is_draining() || self.is_closing() {
            return None;
        }
        let reason = b"the server is stopping";
        self.begin_closing(out, GOING_AWAY, reason);
        Some(Incoming::Closed {
            code: GOING_AWAY,
            reason: reason.into(),
        })
    }

    /// Closes the WebSocket because of an error.
    pub(super) fn fail(&mut self, error: &WebSocketError, out: &mut Output) -> Incoming {
        let (code, reason) = (error.code(), error.to_string());
        tracing::info!(target: "forebay::front", request = &*self.request_id, code, "WebSocket is closed: {reason}");
        self.begin_closing(out, code, reason.as_bytes());
        // Later frames of the client may not be understood any more.
        out.end = true;
        Incoming::Closed {
            code,
            reason: reason.into(),
        }
    }

    /// Sends the client a close, whose answer is waited for.
    pub(super) fn begin_closing(&mut self, out: &mut Output, code: u16, reason: &[u8]) {
        put_close(&mut out.bytes, code, reason);
        self.closing = Some(Instant::now() + CLOSE_TIMEOUT);
    }
}

#[cfg(test)]
mod tests;
