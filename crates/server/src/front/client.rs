//! The client of one request as its target sees it, whatever the protocol: the rest of the request's body, and whether it still waits.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use crate::{failure::Refusal, reply::HeaderLines, target::End};

/// The client of one request.
pub(crate) trait Client {
    /// Sets how long the body may be, and refuses it if it says that it is longer.
    fn limit_body(&mut self, body_bytes_max: u64) -> Result<(), Refusal>;

    /// Whether the whole body has been read.
    fn body_ended(&self) -> bool;

    /// The fields behind the body, once it has ended, without those that may not stand there.
    fn trailers(&self) -> &HeaderLines;

    /// Permits the client to send the body, if it waits for that (`Expect: 100-continue`).
    fn permit_body(&mut self);

    /// Reads some bytes of the body, at most `room`, but not beyond `deadline`. Enforces the limits of the body itself.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        deadline: Option<Instant>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<(), End>>;

    /// Has the body, which has been read to its end, be read again.
    fn give_back(&mut self, body: Vec<u8>);

    /// From now on, whatever the client sends is read as its body, without an end. Only for a request of HTTP/1.1 that has none, and that is
    /// answered with status 101.
    fn begin_tunnel(&mut self);

    /// Polls whether the client has disconnected.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready once `limit` has passed.
    fn poll_limit(&mut self, cx: &mut Context<'_>, limit: Instant) -> Poll<()>;

    /// A waker with which other threads wake this request's task.
    fn waker_for_others(&self, cx: &Context<'_>) -> Waker;

    /// Whether the server is closing all its connections.
    fn is_draining(&self) -> bool;

    /// Notes that the task may wait from now on. Returns whether there is anything to be written before that.
    fn begin_wait(&mut self) -> bool;

    /// Writes what is due to the client: responses before this one.
    fn flush(&mut self) -> Pin<Box<dyn Future<Output = io::Result<()>> + '_>>;
}

impl dyn Client + '_ {
    /// To be called before waiting for anything: nothing is kept back from the client meanwhile.
    pub(crate) async fn before_waiting(&mut self) -> Result<(), End> {
        if self.begin_wait() {
            self.flush().await.map_err(|_| End::Gone)?;
        }
        Ok(())
    }

    /// Reads the body until its end or at least `enough` bytes, but not beyond `deadline`.
    pub(crate) async fn read_body(&mut self, enough: usize, deadline: Instant) -> Result<Vec<u8>, End> {
        self.permit_body();
        self.before_waiting().await?;
        let mut body = Vec::new();
        while !self.body_ended() && body.len() < enough {
            let room = enough - body.len();
            let deadline = Some(deadline);
            poll_fn(|cx| self.poll_body(cx, room, deadline, &mut |bytes| body.extend_from_slice(bytes)))
                .await?;
        }
        Ok(body)
    }
}
