//! The stream below a connection: it gives first what has been read before, and knows how writing goes on.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Instant,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How writing goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// When the client last took something.
    pub(super) at: Instant,
    /// Whether it takes no more for now.
    pub(super) is_blocked: bool,
}

/// A stream of which some bytes have been read already.
#[derive(Debug)]
pub(super) struct Watched<S> {
    read: Vec<u8>,
    stream: S,
    progress: Rc<Cell<Progress>>,
}

impl<S> Watched<S> {
    pub(super) fn new(read: Vec<u8>, stream: S) -> Self {
        let progress = Progress {
            at: Instant::now(),
            is_blocked: false,
        };
        Self {
            read,
            stream,
            progress: Rc::new(Cell::new(progress)),
        }
    }

    /// How writing goes on, from now on.
    pub(super) fn progress(&self) -> Rc<Cell<Progress>> {
        Rc::clone(&self.progress)
    }

    fn note<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.progress.set(match written {
            Poll::Pending => Progress {
                is_blocked: true,
                ..self.progress.get()
            },
            Poll::Ready(_) => Progress {
                at: Instant::now(),
                is_blocked: false,
            },
        });
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..length]);
        self.read.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
