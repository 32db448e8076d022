//! Bodies that are compressed piece by piece, as their client takes them.

use std::{
    fs::File,
    future::poll_fn,
    mem,
    os::unix::fs::FileExt as _,
    rc::Rc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use tokio::task::yield_now;

use super::{Coding, STEP_BYTES, budget::StreamPermit, encoder::Encoder};
use crate::{
    failure::Refusal,
    front::{Client, Thread},
    reply::HeaderLines,
    target::{BodyStream, End, NextPiece, Piece},
};

/// Compressed bytes that are worth a write of their own, as long as there is more to compress.
const OUTPUT_BYTES: usize = 16 * 1024;

/// A compressed body. The encoder is flushed before the source is waited for, so that events arrive when they are sent.
#[derive(Debug)]
pub(super) struct CompressedStream<'a> {
    source: Box<dyn BodyStream + 'a>,
    coding: Coding,
    /// `None` once the body is at its end.
    encoder: Option<Encoder>,
    /// The piece of the source that is being compressed.
    piece: Option<Piece>,
    /// Its bytes that are not compressed yet.
    rest: Bytes,
    thread: Rc<Thread>,
    _permit: StreamPermit,
    /// The share of the thread's time for compression.
    cpu_share: f64,
    has_begun: bool,
}

impl<'a> CompressedStream<'a> {
    pub(super) fn new(
        source: Box<dyn BodyStream + 'a>,
        coding: Coding,
        encoder: Encoder,
        permit: StreamPermit,
        thread: &Rc<Thread>,
        cpu_share: f64,
    ) -> Self {
        Self {
            source,
            coding,
            encoder: Some(encoder),
            piece: None,
            rest: Bytes::new(),
            thread: thread.clone(),
            _permit: permit,
            cpu_share,
            has_begun: false,
        }
    }

    async fn next_piece(&mut self, client: &mut dyn Client) -> Result<Piece, End> {
        loop {
            // However fast the client reads, other tasks get a turn before the next step.
            if mem::replace(&mut self.has_begun, true) {
                yield_now().await;
            }
            if self.rest.is_empty() {
                // The client has taken everything up to here.
                if let Some(piece) = self.piece.take() {
                    self.source.grant(&piece);
                }
                let piece = self.source.next(client).await?;
                self.rest = piece.bytes.clone();
                self.piece = Some(piece);
            }
            self.wait_for_budget(client).await?;
            if let Some(piece) = self.step()? {
                return Ok(piece);
            }
        }
    }

    /// Compresses some bytes of the current piece. `None`: there is no output yet that should be sent.
    fn step(&mut self) -> Result<Option<Piece>, End> {
        let bytes = self.rest.split_to(self.rest.len().min(STEP_BYTES));
        let is_over = self.rest.is_empty() && self.piece.as_ref().is_some_and(|piece| piece.end);
        let waits = self.rest.is_empty() && !self.source.has_piece();
        let mut encoder = self.encoder.take().expect("nothing follows the end of a body");
        let work = || {
            encoder.write(&bytes)?;
            if is_over {
                return encoder.finish().map(Some);
            }
            if waits {
                encoder.flush()?;
            }
            let is_enough = waits || encoder.output().len() >= OUTPUT_BYTES;
            let output = is_enough.then(|| mem::take(encoder.output()));
            self.encoder = Some(encoder);
            Ok::<_, std::io::Error>(output)
        };
        let (output, cost) = self.thread.compression.run(self.cpu_share, work);
        let output = output.map_err(|error| Refusal::Compression {
            cause: error.to_string(),
        })?;
        let put_out = output.as_ref().map_or(0, Vec::len);
        let counts = &self.thread.shared.compression;
        counts.count(self.coding, bytes.len(), put_out, cost);
        let output = output.filter(|output| is_over || !output.is_empty());
        Ok(output.map(|output| Piece::new(output, is_over)))
    }

    /// Waits until the thread may spend more time on compression.
    async fn wait_for_budget(&mut self, client: &mut dyn Client) -> Result<(), End> {
        while let Some(until) = self.thread.compression.wait(Instant::now()) {
            poll_fn(|cx| {
                if client.poll_gone(cx).is_ready() {
                    return Poll::Ready(Err(End::Gone));
                }
                client.poll_limit(cx, until).map(Ok)
            })
            .await?;
        }
        Ok(())
    }
}

impl BodyStream for CompressedStream<'_> {
    fn has_piece(&self) -> bool {
        self.source.has_piece()
    }

    fn ends_connection(&self) -> bool {
        self.source.ends_connection()
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(self.next_piece(client))
    }

    fn trailers(&mut self) -> Result<HeaderLines, End> {
        self.source.trailers()
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        self.source.poll_ahead(cx);
    }
}

/// A body from memory as a stream of one piece.
#[derive(Debug)]
pub(super) struct MemorySource(pub(super) Bytes);

impl BodyStream for MemorySource {
    fn has_piece(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, _: &'s mut dyn Client) -> NextPiece<'s> {
        let piece = Piece::new(mem::take(&mut self.0), true);
        Box::pin(std::future::ready(Ok(piece)))
    }
}

/// A part of a file as a stream.
#[derive(Debug)]
pub(super) struct FileSource {
    pub(super) file: File,
    pub(super) offset: u64,
    /// Bytes that are not read yet.
    pub(super) length: u64,
}

impl BodyStream for FileSource {
    fn has_piece(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, _: &'s mut dyn Client) -> NextPiece<'s> {
        let mut bytes = vec![0; self.length.min(STEP_BYTES as u64) as usize];
        // A file that was truncated meanwhile does not end as if it were whole.
        let read = self.file.read_exact_at(&mut bytes, self.offset);
        self.offset += bytes.len() as u64;
        self.length -= bytes.len() as u64;
        let piece = Piece::new(bytes, self.length == 0);
        let read = read.map(|()| piece).map_err(|_| Refusal::FileUnreadable.into());
        Box::pin(std::future::ready(read))
    }
}
