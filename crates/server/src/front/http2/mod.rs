//! HTTP/2 connections (RFC 9113), by the crate `h2`: one task for a connection and all its streams.

mod answer;
mod client;

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use h2::server::{Builder, Connection};
use tokio::io::{AsyncRead, AsyncWrite};

use self::answer::answer;
use super::{Limits, connection::Transport, thread::Thread, timer::Timer};

/// Requests of a connection that are answered at a time; a client that opens more gets REFUSED_STREAM.
const STREAMS_MAX: u32 = 128;
/// Bytes that a client may send ahead on one stream, and on all of them.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Bytes of responses that wait in a connection for the client to take them, for each stream.
const SEND_BUFFER_MAX: usize = 256 * 1024;
/// Streams that a client has reset before they were accepted, and those that were reset for its errors, until the connection ends
/// (CVE-2023-44487).
const PENDING_RESETS_MAX: usize = 20;
const ERROR_RESETS_MAX: usize = 128;

/// What all requests of a connection share.
pub(super) struct Shared {
    thread: Rc<Thread>,
    peer: Rc<str>,
    transport: Transport,
    limits: Limits,
}

/// Serves a connection until one side ends it.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    thread: Rc<Thread>,
    peer: Rc<str>,
    transport: Transport,
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
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(Some(ERROR_RESETS_MAX));
    let handshake = builder.handshake::<_, Bytes>(stream);
    let Ok(Ok(connection)) = tokio::time::timeout(limits.header_timeout, handshake).await else {
        return;
    };
    let shared = Rc::new(Shared {
        thread,
        peer,
        transport,
        limits,
    });
    let mut serving = Serving {
        connection,
        running: FuturesUnordered::new(),
        start: |request, respond| answer(Rc::clone(&shared), request, respond),
        idle: Timer::new(Instant::now()),
        idle_until: None,
        is_ending: false,
        end_until: None,
    };
    poll_fn(|cx| serving.poll(cx, &shared)).await;
}

/// How long a client has to take what is left, after the connection is told to end.
const END_MAX: Duration = Duration::from_secs(30);

/// A connection and the requests that are answered on it.
struct Serving<S: AsyncRead + AsyncWrite + Unpin, F, A> {
    connection: Connection<S, Bytes>,
    running: FuturesUnordered<A>,
    start: F,
    idle: Timer,
    /// When the connection is closed for having no request.
    idle_until: Option<Instant>,
    /// Whether the client has been told that no more requests are accepted.
    is_ending: bool,
    end_until: Option<Instant>,
}

impl<S, F, A> Serving<S, F, A>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: FnMut(http::Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> A,
    A: Future<Output = ()>,
{
    /// Ready once the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<()> {
        loop {
            while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}
            if shared.thread.is_draining() && !self.is_ending {
                self.end();
            }
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.running.push((self.start)(request, respond));
                    self.idle_until = None;
                    continue;
                }
                // What is still running has lost its client.
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            if let Some(until) = self.end_until.filter(|_| self.running.is_empty()) {
                return self.idle.poll(cx, until);
            }
            if self.running.is_empty() {
                let until = *self
                    .idle_until
                    .get_or_insert_with(|| Instant::now() + shared.limits.idle_timeout);
                if self.idle.poll(cx, until).is_ready() {
                    self.end();
                    continue;
                }
            }
            return Poll::Pending;
        }
    }

    fn end(&mut self) {
        self.is_ending = true;
        self.end_until = Some(Instant::now() + END_MAX);
        self.connection.graceful_shutdown();
    }
}
