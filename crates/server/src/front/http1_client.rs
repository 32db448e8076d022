//! The client of a request on an HTTP/1.1 connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::{
    Client,
    request_body::RequestBody,
    socket::{Socket, Stream},
};
use crate::{
    reply::{self, HeaderLines},
    target::End,
};

/// The client of the current request of a connection.
pub(super) struct Http1Client<'a, S> {
    pub(super) socket: &'a mut Socket<S>,
    pub(super) body: &'a mut RequestBody,
    pub(super) idle_timeout: Duration,
    /// Whether the task may have waited.
    pub(super) has_waited: bool,
}

impl<S: Stream> Client for Http1Client<'_, S> {
    fn body_ended(&self) -> bool {
        self.body.ended()
    }

    fn trailers(&self) -> &HeaderLines {
        self.body.trailers()
    }

    fn permit_body(&mut self) {
        if self.body.take_continue() {
            self.socket.output.extend_from_slice(reply::CONTINUE);
        }
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        deadline: Option<Instant>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<(), End>> {
        self.body.poll_read(self.socket, cx, room, deadline, take)
    }

    fn give_back(&mut self, body: Vec<u8>) {
        self.body.give_back(body);
    }

    fn begin_tunnel(&mut self) {
        self.body.begin_tunnel();
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_gone(cx)
    }

    fn poll_limit(&mut self, cx: &mut Context<'_>, limit: Instant) -> Poll<()> {
        self.socket.poll_limit(cx, limit)
    }

    fn waker_for_others(&self, cx: &Context<'_>) -> Waker {
        self.socket.waker_for_others(cx)
    }

    fn is_draining(&self) -> bool {
        self.socket.is_draining()
    }

    fn begin_wait(&mut self) -> bool {
        self.has_waited = true;
        self.socket.has_unwritten()
    }

    fn flush(&mut self) -> Pin<Box<dyn Future<Output = io::Result<()>> + '_>> {
        Box::pin(self.socket.flush_while(self.idle_timeout, |_| ()))
    }
}
