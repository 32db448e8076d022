//! A connection's bytes in both directions, with their time limits. Knows nothing about requests.

use std::{
    fs::File,
    future::poll_fn,
    io,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    net::{TcpStream, UnixStream},
};

use super::{pace::Pace, thread::Thread, timer::Timer};
use crate::traces::Traced;

/// Capacity that the input buffer of an idle connection keeps.
const IDLE_BUFFER_BYTES: usize = 1024;

/// Most bytes that a client may send ahead while it waits for a response.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of a file that are sent at a time: a file that has to come from a slow disk holds up the thread for so long.
const FILE_BYTES: u64 = 256 * 1024;

/// Transport of a connection: TCP, a Unix socket, or a wrapper around one.
pub(crate) trait Stream: AsyncRead + AsyncWrite + AsFd + Unpin {
    /// Whether [`Stream::poll_send_file`] is possible.
    const SENDS_FILES: bool = false;

    /// Sends a part of a file, or its first [`FILE_BYTES`], without copying them through this process; returns their number, 0 behind the
    /// file's end.
    ///
    /// # Errors
    /// The file cannot be read, the client has left, or the transport does not do this.
    fn poll_send_file(&self, _: &mut Context<'_>, _: &File, _: Range<u64>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

macro_rules! sends_files {
    ($socket:ty) => {
        impl Stream for $socket {
            const SENDS_FILES: bool = true;

            fn poll_send_file(
                &self,
                cx: &mut Context<'_>,
                file: &File,
                part: Range<u64>,
            ) -> Poll<io::Result<usize>> {
                let count = (part.end - part.start).min(FILE_BYTES) as usize;
                loop {
                    ready!(self.poll_write_ready(cx))?;
                    let sent = self.try_io(Interest::WRITABLE, || {
                        Ok(rustix::fs::sendfile(self, file, Some(&mut part.start.clone()), count)?)
                    });
                    if !matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                        return Poll::Ready(sent);
                    }
                }
            }
        }
    };
}

sends_files!(TcpStream);
sends_files!(UnixStream);

/// First bytes of every response.
const ANSWER_START: &[u8] = b"HTTP/1.1 ";

/// The two directions of one connection.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    stream: S,
    thread: Rc<Thread>,
    /// Bytes to be written: heads, and short bodies.
    pub(super) output: Vec<u8>,
    /// Traced requests whose responses are not written yet; usually none.
    unwritten: Vec<Traced>,
    input: Vec<u8>,
    taken: usize,
    ended: bool,
    /// Whether a part of the current request's response has been sent.
    answer_begun: bool,
    /// How many bytes of [`ANSWER_START`] have been sent ahead of the current response.
    sent_ahead: usize,
    /// Set for a client that has closed its sending side: becomes ready when it stops receiving too.
    half_closed: Option<AsyncFd<OwnedFd>>,
    timer: Timer,
    /// Pace of the response that is being written.
    pace: Pace,
}

/// How a wait for input ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Bytes,
    /// The client has closed its sending side or disconnected.
    End,
    TimedOut,
}

impl<S: Stream> Socket<S> {
    pub(crate) fn new(stream: S, thread: Rc<Thread>, now: Instant) -> Self {
        Self {
            stream,
            thread,
            output: Vec::new(),
            unwritten: Vec::new(),
            input: Vec::new(),
            taken: 0,
            ended: false,
            answer_begun: false,
            sent_ahead: 0,
            half_closed: None,
            timer: Timer::new(now),
            pace: Pace::new(0, Duration::ZERO),
        }
    }

    /// The input that was not taken, and the stream.
    pub(super) fn into_parts(mut self) -> (Vec<u8>, S) {
        self.input.drain(..self.taken);
        (self.input, self.stream)
    }

    /// A waker with which other threads wake this connection's task.
    pub(crate) fn waker_for_others(&self, cx: &Context<'_>) -> Waker {
        self.thread.bell.waker(cx.waker())
    }

    /// Input received and not yet consumed.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    /// Consumes bytes from the start of the input.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
        }
    }

    /// Releases memory before a long wait.
    pub(crate) fn shrink(&mut self) {
        if self.input.is_empty() {
            self.input.shrink_to(IDLE_BUFFER_BYTES);
        }
        self.output.shrink_to(IDLE_BUFFER_BYTES);
    }

    /// Whether there is output that is not written yet.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.output.is_empty() || !self.unwritten.is_empty()
    }

    /// Adds a traced request, whose response is part of the output.
    pub(super) fn trace_written(&mut self, traced: Traced) {
        self.unwritten.push(traced);
    }

    /// Writes the output, and calls `meanwhile` whenever the client is slow to read.
    pub(super) async fn flush_while(
        &mut self,
        stall_max: Duration,
        meanwhile: impl FnMut(&mut Context<'_>),
    ) -> io::Result<()> {
        let mut written = Ok(());
        if !self.output.is_empty() {
            let mut output = std::mem::take(&mut self.output);
            written = self.write_all_while(&mut &output[..], stall_max, meanwhile).await;
            output.clear();
            self.output = output;
        }
        if !self.unwritten.is_empty() {
            let now = Instant::now();
            self.unwritten
                .drain(..)
                .for_each(|mut traced| traced.written(now));
        }
        written
    }

    /// Reads once, through the thread's buffer.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Filled> {
        if self.ended {
            return Poll::Ready(Filled::End);
        }
        let mut scratch = self.thread.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch[..]);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
        let bytes = buffer.filled();
        if read.is_err() || bytes.is_empty() {
            self.ended = true;
            return Poll::Ready(Filled::End);
        }
        if self.taken > 0 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        self.input.extend_from_slice(bytes);
        Poll::Ready(Filled::Bytes)
    }

    /// Polls for more input until `deadline`.
    pub(crate) fn poll_fill_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<Filled> {
        if let Poll::Ready(filled) = self.poll_fill(cx) {
            return Poll::Ready(filled);
        }
        self.timer.poll(cx, deadline).map(|()| Filled::TimedOut)
    }

    /// Waits for more input until `deadline`.
    pub(crate) async fn fill(&mut self, deadline: Instant) -> Filled {
        poll_fn(|cx| self.poll_fill_until(cx, deadline)).await
    }

    /// Like [`Socket::fill`], but also times out when the server drains.
    pub(crate) async fn fill_idle(&mut self, deadline: Instant) -> Filled {
        poll_fn(|cx| match self.poll_fill_until(cx, deadline) {
            Poll::Pending if self.thread.is_draining() => Poll::Ready(Filled::TimedOut),
            polled => polled,
        })
        .await
    }

    /// Whether the server is closing all its connections.
    pub(crate) fn is_draining(&self) -> bool {
        self.thread.is_draining()
    }

    /// Resets the per-request state at the start of a request.
    pub(crate) fn begin_request(&mut self) {
        self.answer_begun = false;
    }

    /// Polls whether the client has disconnected. Input received meanwhile is kept up to [`AHEAD_BYTES_MAX`]; beyond that nothing is read,
    /// and a disconnect is noticed only when the response is written.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.input().len() < AHEAD_BYTES_MAX {
            match self.poll_fill(cx) {
                Poll::Ready(Filled::Bytes) => {}
                Poll::Ready(_) => return self.poll_reset(cx),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Pending
    }

    /// Polls whether a client that sends nothing more has disconnected. TCP reveals that only when something is sent: a client that is gone
    /// resets the connection, one that has only closed its sending side accepts the bytes. So it is sent the bytes that every response
    /// starts with. A client that closes its sending side in the middle of a response is taken to have left.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.answer_begun && self.half_closed.is_none() {
            return Poll::Ready(());
        }
        while !self.answer_begun && self.sent_ahead < ANSWER_START.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &ANSWER_START[self.sent_ahead..]) {
                Poll::Ready(Ok(sent)) if sent > 0 => self.sent_ahead += sent,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        let half_closed = match &self.half_closed {
            Some(half_closed) => half_closed,
            None => match watch_writing(&self.stream) {
                Ok(watched) => self.half_closed.insert(watched),
                // The disconnect will be noticed when the response is written.
                Err(_) => return Poll::Pending,
            },
        };
        while let Ok(mut guard) = ready!(half_closed.poll_write_ready(cx)) {
            if guard.ready().is_write_closed() {
                return Poll::Ready(());
            }
            guard.clear_ready();
        }
        Poll::Ready(())
    }

    /// Ready once `limit` has passed.
    pub(crate) fn poll_limit(&mut self, cx: &mut Context<'_>, limit: Instant) -> Poll<()> {
        self.timer.poll(cx, limit)
    }

    /// Sends a part of a file, after everything in the output, and says to `sent` how much of it went. Fails if the client reads nothing for
    /// `stall_max`, or the file is shorter.
    pub(super) async fn write_file(
        &mut self,
        file: &File,
        part: Range<u64>,
        stall_max: Duration,
        mut sent: impl FnMut(u64),
    ) -> io::Result<()> {
        self.flush_while(stall_max, |_| ()).await?;
        let mut at = part.start;
        while at < part.end {
            let polling =
                |stream: Pin<&mut S>, cx: &mut Context<'_>| stream.poll_send_file(cx, file, at..part.end);
            let written = self.write_once(stall_max, &mut |_| (), polling).await? as u64;
            if written == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += written;
            sent(written);
        }
        Ok(())
    }

    /// Writes everything; after an error, `bytes` holds what was not written. Fails if the client reads nothing for `stall_max`.
    pub(crate) async fn write_all(&mut self, bytes: &mut &[u8], stall_max: Duration) -> io::Result<()> {
        self.write_all_while(bytes, stall_max, |_| ()).await
    }

    /// Like [`Socket::write_all`], and calls `meanwhile` whenever the client is slow to read.
    pub(crate) async fn write_all_while(
        &mut self,
        bytes: &mut &[u8],
        stall_max: Duration,
        mut meanwhile: impl FnMut(&mut Context<'_>),
    ) -> io::Result<()> {
        if self.sent_ahead > 0 {
            debug_assert!(
                bytes.starts_with(ANSWER_START),
                "an answer starts with its version"
            );
            *bytes = &bytes[self.sent_ahead..];
            self.sent_ahead = 0;
        }
        let mut is_flushed = bytes.is_empty();
        while !is_flushed {
            let polling = |stream: Pin<&mut S>, cx: &mut Context<'_>| {
                // Encrypted bytes may still wait in the TLS session.
                if bytes.is_empty() {
                    stream.poll_flush(cx).map_ok(|()| 0)
                } else {
                    stream.poll_write(cx, bytes)
                }
            };
            let written = self.write_once(stall_max, &mut meanwhile, polling).await?;
            is_flushed = bytes.is_empty();
            if written == 0 && !is_flushed {
                return Err(io::ErrorKind::WriteZero.into());
            }
            *bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Waits for one write, as long as the client may take for it.
    async fn write_once(
        &mut self,
        stall_max: Duration,
        meanwhile: &mut impl FnMut(&mut Context<'_>),
        mut poll_write: impl FnMut(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> io::Result<usize> {
        let mut waiting = None;
        let written = poll_fn(|cx| {
            if let Poll::Ready(written) = poll_write(Pin::new(&mut self.stream), cx) {
                return Poll::Ready(written);
            }
            meanwhile(cx);
            let (_, until, is_too_slow) = *waiting.get_or_insert_with(|| {
                let since = Instant::now();
                let left = self.pace.left().filter(|left| *left < stall_max);
                (since, since + left.unwrap_or(stall_max), left.is_some())
            });
            self.timer.poll(cx, until).map(|()| {
                if is_too_slow {
                    self.thread.shared.note_too_slow();
                }
                Err(io::ErrorKind::TimedOut.into())
            })
        })
        .await?;
        let waited = waiting.map_or(Duration::ZERO, |(since, ..)| since.elapsed());
        self.pace.note(written, waited);
        Ok(written)
    }

    /// Counts a client that is disconnected for being slower than `min_rate`.
    pub(crate) fn note_too_slow(&self) {
        self.thread.shared.note_too_slow();
    }

    /// Starts a response, which the client has to read at this pace.
    pub(crate) fn begin_answer(&mut self, pace: Pace) {
        self.answer_begun = true;
        self.pace = pace;
    }

    /// Closes the sending side, then keeps reading for a short while: closing a socket with unread input would reset the connection, and
    /// the client would lose the response (RFC 9112, 9.6).
    pub(crate) async fn close(&mut self, linger: Duration) {
        let until = Instant::now() + linger;
        let shut = poll_fn(|cx| match Pin::new(&mut self.stream).poll_shutdown(cx) {
            // With TLS there is something to be written first, which the client may not take.
            Poll::Pending => self.timer.poll(cx, until).map(|()| false),
            Poll::Ready(shut) => Poll::Ready(shut.is_ok()),
        });
        if !shut.await {
            return;
        }
        while self.fill(until).await == Filled::Bytes {
            let length = self.input().len();
            self.take(length);
        }
    }
}

/// Watches whether the peer has stopped receiving. Uses a duplicated descriptor, because the stream itself caches that it is writable.
fn watch_writing(stream: &impl AsFd) -> io::Result<AsyncFd<OwnedFd>> {
    forebay_pool::watch(stream.as_fd().try_clone_to_owned()?, Interest::WRITABLE)
}
