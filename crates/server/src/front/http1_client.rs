//! The client of a request on an HTTP/1.1 connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use super::{Client, connection::Exchange, request_body::RequestBody, socket::Stream};
use crate::{
    failure::Refusal,
    reply::{self, HeaderLines},
    target::End,
};

/// The client of the current request of a connection.
pub(super) struct Http1Client<'a, S> {
    pub(super) exchange: &'a mut Exchange<S>,
    pub(super) body: RequestBody,
    /// Whether the task may have waited.
    pub(super) has_waited: bool,
}

impl<S: Stream> Client for Http1Client<'_, S> {
    fn limit_body(&mut self, body_bytes_max: u64) -> Result<(), Refusal> {
        self.body.limit(body_bytes_max)
    }

    fn body_ended(&self) -> bool {
        self.body.ended()
    }

    fn trailers(&self) -> &HeaderLines {
        self.body.trailers()
    }

    fn permit_body(&mut self) {
        if self.body.take_continue() {
            self.exchange.socket.output.extend_from_slice(reply::CONTINUE);
        }
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        deadline: Option<Instant>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<(), End>> {
        let socket = &mut self.exchange.socket;
        self.body.poll_read(socket, cx, room, deadline, take)
    }

    fn give_back(&mut self, body: Vec<u8>) {
        self.body.give_back(body);
    }

    fn begin_tunnel(&mut self) {
        self.body.begin_tunnel();
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.exchange.socket.poll_gone(cx)
    }

    fn poll_limit(&mut self, cx: &mut Context<'_>, limit: Instant) -> Poll<()> {
        self.exchange.socket.poll_limit(cx, limit)
    }

    fn waker_for_others(&self, cx: &Context<'_>) -> Waker {
        self.exchange.socket.waker_for_others(cx)
    }

    fn is_draining(&self) -> bool {
        self.exchange.socket.is_draining()
    }

    fn begin_wait(&mut self) -> bool {
        self.has_waited = true;
        self.exchange.socket.has_unwritten()
    }

    fn flush(&mut self) -> Pin<Box<dyn Future<Output = io::Result<()>> + '_>> {
        Box::pin(self.exchange.flush())
    }
}
