//! HTTP/2 connections (RFC 9113), by the crate `h2`: one task for a connection and all its streams.

mod answer;
mod client;
mod stream;

use std::{
    cell::Cell,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use h2::server::{Builder, Connection};
use tokio::io::{AsyncRead, AsyncWrite};

use self::{
    answer::answer,
    stream::{Progress, Watched},
};
use super::{Limits, connection::Remote, thread::Thread, timer::Timer};

/// Requests of a connection that are answered at a time; a client that opens more has them refused.
const STREAMS_MAX: u32 = 128;
/// Bytes that a client may send ahead on one stream, and on all of them.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Bytes of a response that wait in a connection for the client to take them, for each stream.
const SEND_BUFFER_MAX: usize = 64 * 1024;
/// Streams that a client has reset before they were accepted, until the connection ends (CVE-2023-44487).
const PENDING_RESETS_MAX: usize = 20;
/// How long a connection that is told to end stays open once the client takes nothing more.
const LINGER: Duration = Duration::from_millis(500);

/// The other side of a connection.
pub(super) struct Peer {
    thread: Rc<Thread>,
    remote: Rc<Remote>,
}

/// Serves a connection until one side ends it. `read` are its first bytes, if they have been read already.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    read: Vec<u8>,
    stream: S,
    thread: Rc<Thread>,
    remote: Rc<Remote>,
) {
    let limits = thread.limits();
    let header_bytes_max = u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER_MAX)
        .max_header_list_size(header_bytes_max)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX);
    let stream = Watched::new(read, stream);
    let progress = stream.progress();
    let handshake = builder.handshake::<_, Bytes>(stream);
    let Ok(Ok(connection)) = tokio::time::timeout(limits.header_timeout, handshake).await else {
        return;
    };
    let peer = Rc::new(Peer {
        thread: Rc::clone(&thread),
        remote,
    });
    let mut serving = Serving {
        connection,
        running: FuturesUnordered::new(),
        start: |request, respond| answer(Rc::clone(&peer), request, respond),
        timer: Timer::new(Instant::now()),
        idle_since: None,
        is_ending: false,
        progress,
    };
    poll_fn(|cx| serving.poll(cx, &thread)).await;
}

/// A connection and the requests that are answered on it.
struct Serving<S: AsyncRead + AsyncWrite + Unpin, F, A> {
    connection: Connection<Watched<S>, Bytes>,
    running: FuturesUnordered<Pin<Box<A>>>,
    start: F,
    timer: Timer,
    /// Since when it has no request.
    idle_since: Option<Instant>,
    /// Whether the client has been told that no more requests are accepted.
    is_ending: bool,
    progress: Rc<Cell<Progress>>,
}

impl<S, F, A> Serving<S, F, A>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: FnMut(http::Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> A,
    A: Future<Output = ()>,
{
    /// Ready once the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>, thread: &Thread) -> Poll<()> {
        loop {
            self.poll_running(cx);
            if thread.is_draining() && !self.is_ending {
                self.end();
                // Requests that only their client ends look again whether the server drains.
                self.running = std::mem::take(&mut self.running).into_iter().collect();
                continue;
            }
            // Accepting also writes. All requests that have arrived are accepted before the first is answered, so that their responses are
            // written together.
            let before = self.running.len();
            loop {
                match self.connection.poll_accept(cx) {
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        self.running.push(Box::pin((self.start)(request, respond)));
                    }
                    Poll::Ready(Some(Err(_)) | None) => {
                        // The requests that are still running have lost their client, and end here.
                        self.poll_running(cx);
                        return Poll::Ready(());
                    }
                    Poll::Pending => break,
                }
            }
            if self.running.len() > before {
                continue;
            }
            if !self.running.is_empty() {
                self.idle_since = None;
                return Poll::Pending;
            }
            let since = *self.idle_since.get_or_insert_with(Instant::now);
            let Progress { at, is_blocked } = self.progress.get();
            let patience = if self.is_ending && !is_blocked {
                LINGER
            } else {
                thread.limits().idle_timeout
            };
            if self.timer.poll(cx, since.max(at) + patience).is_pending() {
                return Poll::Pending;
            }
            if self.is_ending {
                return Poll::Ready(());
            }
            self.end();
        }
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}
    }

    fn end(&mut self) {
        self.is_ending = true;
        self.idle_since = None;
        self.connection.graceful_shutdown();
    }
}

impl Peer {
    /// The limits in force now.
    fn limits(&self) -> Limits {
        self.thread.limits()
    }
}
