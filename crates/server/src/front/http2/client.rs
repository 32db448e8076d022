//! The client of a request on an HTTP/2 stream.

use std::{
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use h2::{RecvStream, server::SendResponse};

use super::{super::timer::Timer, Shared};
use crate::{failure::Refusal, front::Client, front::Framing, target::End};

/// The client of one request.
pub(super) struct Http2Client {
    shared: Rc<Shared>,
    body: RecvStream,
    /// What has come of the body and was not taken yet.
    rest: Bytes,
    ended: bool,
    /// Bytes of the body that may still come.
    left: u64,
    body_bytes_max: u64,
    timer: Timer,
    /// The unused part of `body_timeout`: only time spent waiting for the client counts.
    patience: Duration,
    since: Option<Instant>,
    pub(super) respond: SendResponse<Bytes>,
    /// How the response is being sent, once its head has been.
    pub(super) sending: Option<h2::SendStream<Bytes>>,
}

impl Http2Client {
    pub(super) fn new(shared: Rc<Shared>, body: RecvStream, respond: SendResponse<Bytes>) -> Self {
        Self {
            ended: body.is_end_stream(),
            body,
            rest: Bytes::new(),
            left: shared.limits.body_bytes_max,
            body_bytes_max: shared.limits.body_bytes_max,
            timer: Timer::new(Instant::now()),
            patience: shared.limits.body_timeout,
            since: None,
            respond,
            sending: None,
            shared,
        }
    }

    /// Sets how long the body may be, and refuses it if it says that it is longer.
    pub(super) fn limit_body(&mut self, framing: Framing, body_bytes_max: u64) -> Result<(), Refusal> {
        (self.left, self.body_bytes_max) = (body_bytes_max, body_bytes_max);
        match framing {
            Framing::Length(length) if length > body_bytes_max => {
                Err(Refusal::BodyTooLarge { body_bytes_max })
            }
            _ => Ok(()),
        }
    }

    /// Waits until the client takes more of the response; an error says that it is gone, or takes nothing for too long. `meanwhile` is called
    /// whenever it does not.
    pub(super) async fn capacity(
        &mut self,
        wanted: usize,
        mut meanwhile: impl FnMut(&mut Context<'_>),
    ) -> Result<usize, End> {
        let stall_max = self.shared.limits.idle_timeout;
        let mut until = None;
        std::future::poll_fn(|cx| {
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
            let until = *until.get_or_insert_with(|| Instant::now() + stall_max);
            self.timer.poll(cx, until).map(|()| Err(End::Gone))
        })
        .await
    }
}

impl Client for Http2Client {
    fn body_ended(&self) -> bool {
        self.ended && self.rest.is_empty()
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
                    self.since = None;
                    let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
                        let body_bytes_max = self.body_bytes_max;
                        return Poll::Ready(Err(Refusal::BodyTooLarge { body_bytes_max }.into()));
                    };
                    self.left = left;
                    self.rest = bytes;
                    self.ended = self.body.is_end_stream();
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(End::Gone)),
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => {
                    let since = *self.since.get_or_insert_with(Instant::now);
                    let until = since + self.patience;
                    let limit = deadline.filter(|deadline| *deadline < until);
                    ready!(self.timer.poll(cx, limit.unwrap_or(until)));
                    let body_timeout = self.shared.limits.body_timeout;
                    return Poll::Ready(Err(match limit {
                        Some(_) => Refusal::DeadlinePassed.into(),
                        None => Refusal::BodyTimeout { body_timeout }.into(),
                    }));
                }
            }
        }
    }

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
        self.shared.thread.bell.waker(cx.waker())
    }

    fn is_draining(&self) -> bool {
        self.shared.thread.is_draining()
    }

    fn begin_wait(&mut self) -> bool {
        false
    }

    fn flush(&mut self) -> Pin<Box<dyn Future<Output = io::Result<()>> + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
