//! The client of a request on an HTTP/2 stream.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use h2::{RecvStream, server::SendResponse};

use super::{
    super::{lookup::Sent, request_body::DISCARD_BYTES_MAX, timer::Timer},
    Peer,
};
use crate::{
    failure::Refusal,
    front::{Client, Framing, Limits, Pace},
    reply::{HeaderLines, may_be_trailer},
    target::End,
};

/// The client of one request.
pub(super) struct Http2Client {
    peer: Rc<Peer>,
    limits: Limits,
    body: RecvStream,
    /// Bytes of the body that have been received and not taken.
    rest: Bytes,
    ended: bool,
    trailers: HeaderLines,
    framing: Framing,
    /// Bytes of the body that may still come.
    left: u64,
    body_bytes_max: u64,
    timer: Timer,
    /// The unused part of `body_timeout`: only time spent waiting for the client counts.
    patience: Duration,
    since: Option<Instant>,
    /// Paces of the body and of the response.
    receiving_pace: Pace,
    sending_pace: Pace,
    pub(super) respond: SendResponse<Bytes>,
    /// How the response is being sent, once its head has been.
    pub(super) sending: Option<h2::SendStream<Bytes>>,
    pub(super) sent: Sent,
}

impl Http2Client {
    /// The client of a request whose head says how the body is delimited.
    pub(super) fn new(
        peer: Rc<Peer>,
        framing: Framing,
        body: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> Self {
        let limits = peer.limits();
        Self {
            peer,
            limits,
            ended: body.is_end_stream(),
            body,
            rest: Bytes::new(),
            trailers: HeaderLines::default(),
            framing,
            left: u64::MAX,
            body_bytes_max: u64::MAX,
            timer: Timer::new(Instant::now()),
            patience: limits.body_timeout,
            since: None,
            receiving_pace: limits.pace(),
            sending_pace: limits.pace(),
            respond,
            sending: None,
            sent: Sent::default(),
        }
    }

    /// Reads what the client still sends of its body after its response has ended, up to a bound. Clients take a stream that is reset meanwhile for
    /// a failed one, though it need not be (RFC 9113, 8.1).
    pub(super) async fn discard_body(&mut self) {
        self.left = DISCARD_BYTES_MAX as u64;
        while !self.body_ended() {
            let read = poll_fn(|cx| self.poll_body(cx, usize::MAX, None, &mut |_| ()));
            if read.await.is_err() {
                return;
            }
        }
    }

    /// Waits until the client takes more of the response; an error says that it is gone, or takes nothing for too long. `meanwhile` is called
    /// whenever it does not.
    pub(super) async fn capacity(
        &mut self,
        wanted: usize,
        mut meanwhile: impl FnMut(&mut Context<'_>),
    ) -> Result<usize, End> {
        let stall_max = self.limits.idle_timeout;
        let mut waiting = None;
        let capacity = poll_fn(|cx| {
            let Some(sending) = &mut self.sending else {
                return Poll::Ready(Err(End::Gone));
            };
            sending.reserve_capacity(wanted);
            match sending.poll_capacity(cx) {
                Poll::Ready(Some(Ok(capacity))) if capacity > 0 => return Poll::Ready(Ok(capacity)),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(End::Gone)),
                Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
            }
            meanwhile(cx);
            let (_, until, is_too_slow) = *waiting.get_or_insert_with(|| {
                let since = Instant::now();
                let left = self.sending_pace.left().filter(|left| *left < stall_max);
                (since, since + left.unwrap_or(stall_max), left.is_some())
            });
            self.timer.poll(cx, until).map(|()| {
                if is_too_slow {
                    self.peer.thread.shared.note_too_slow();
                }
                Err(End::Gone)
            })
        })
        .await?;
        let waited = waiting.map_or(Duration::ZERO, |(since, ..)| since.elapsed());
        self.sending_pace.note(capacity.min(wanted), waited);
        Ok(capacity)
    }
}

impl Client for Http2Client {
    fn limit_body(&mut self, body_bytes_max: u64) -> Result<(), Refusal> {
        (self.left, self.body_bytes_max) = (body_bytes_max, body_bytes_max);
        match self.framing {
            Framing::Length(length) if length > body_bytes_max => {
                Err(Refusal::BodyTooLarge { body_bytes_max })
            }
            _ => Ok(()),
        }
    }

    fn body_ended(&self) -> bool {
        self.ended && self.rest.is_empty()
    }

    fn trailers(&self) -> &HeaderLines {
        &self.trailers
    }

    // `100 Continue` is not sent: a client of HTTP/2 that waits for it sends its body after a while, as those of HTTP/1.1 do.
    fn permit_body(&mut self) {}

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        deadline: Option<Instant>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<(), End>> {
        loop {
            if !self.rest.is_empty() {
                let length = self.rest.len().min(room.max(1));
                take(&self.rest[..length]);
                self.rest.advance(length);
                // The client may send as much more. The stream may be over already.
                let _ = self.body.flow_control().release_capacity(length);
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                    self.patience = self.patience.saturating_sub(waited);
                    self.receiving_pace.note(bytes.len(), waited);
                    let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
                        let body_bytes_max = self.body_bytes_max;
                        return Poll::Ready(Err(Refusal::BodyTooLarge { body_bytes_max }.into()));
                    };
                    self.left = left;
                    self.rest = bytes;
                    self.ended = self.body.is_end_stream();
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(End::Gone)),
                Poll::Ready(None) => {
                    let Ok(trailers) = ready!(self.body.poll_trailers(cx)) else {
                        return Poll::Ready(Err(End::Gone));
                    };
                    for (name, value) in trailers.iter().flatten() {
                        if may_be_trailer(name.as_ref()) {
                            self.trailers.put(name.as_ref(), value.as_bytes());
                        }
                    }
                    self.ended = true;
                }
                Poll::Pending => {
                    let since = *self.since.get_or_insert_with(Instant::now);
                    let limits = self.limits;
                    let pace = self.receiving_pace.left().filter(|left| *left < self.patience);
                    let until = since + pace.unwrap_or(self.patience);
                    let deadline = deadline.filter(|deadline| *deadline < until);
                    ready!(self.timer.poll(cx, deadline.unwrap_or(until)));
                    return Poll::Ready(Err(match (deadline, pace) {
                        (Some(_), _) => Refusal::DeadlinePassed.into(),
                        (None, Some(_)) => {
                            self.peer.thread.shared.note_too_slow();
                            let min_rate = self.receiving_pace.min_rate();
                            Refusal::BodyTooSlow { min_rate }.into()
                        }
                        (None, None) => {
                            let body_timeout = limits.body_timeout;
                            Refusal::BodyTimeout { body_timeout }.into()
                        }
                    }));
                }
            }
        }
    }

    fn give_back(&mut self, body: Vec<u8>) {
        self.rest = body.into();
    }

    // HTTP/2 has no status 101 (RFC 9113, 8.6).
    fn begin_tunnel(&mut self) {}

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sending {
            Some(sending) => sending.poll_reset(cx).map(drop),
            None => self.respond.poll_reset(cx).map(drop),
        }
    }

    fn poll_limit(&mut self, cx: &mut Context<'_>, limit: Instant) -> Poll<()> {
        self.timer.poll(cx, limit)
    }

    fn waker_for_others(&self, cx: &Context<'_>) -> Waker {
        self.peer.thread.bell.waker(cx.waker())
    }

    fn is_draining(&self) -> bool {
        self.peer.thread.is_draining()
    }

    fn begin_wait(&mut self) -> bool {
        false
    }

    fn flush(&mut self) -> Pin<Box<dyn Future<Output = io::Result<()>> + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
