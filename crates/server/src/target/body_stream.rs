//! Response bodies that arrive piece by piece, from any source.

use std::{fmt, pin::Pin, task::Context};

use bytes::Bytes;
use tokio::task::{JoinHandle, yield_now};

use super::End;
use crate::{failure::Refusal, front::Client, reply::HeaderLines, store::Pieces};

/// A piece of a response's body.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) end: bool,
    /// Whether it used up some of a worker's window; a piece that came with the head did not.
    pub(super) windowed: bool,
}

impl Piece {
    /// A piece that uses up no window.
    pub(crate) fn new(bytes: impl Into<Bytes>, end: bool) -> Self {
        Self {
            bytes: bytes.into(),
            end,
            windowed: false,
        }
    }
}

/// The next piece, once it is there.
pub(crate) type NextPiece<'s> = Pin<Box<dyn Future<Output = Result<Piece, End>> + 's>>;

/// The rest of a response that has begun.
pub(crate) trait BodyStream: fmt::Debug {
    /// The Content-Length of the response, if it has one.
    fn announced(&self) -> Option<u64> {
        None
    }

    /// Whether a piece is available without waiting: then the head goes out with it.
    fn has_piece(&self) -> bool;

    /// Whether the end of the connection marks the end of the response, as that of an endless one.
    fn ends_connection(&self) -> bool {
        false
    }

    /// The next piece of the response's body. The rest of the request's body is read meanwhile.
    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s>;

    /// The fields behind the body, once its last piece has been returned. They are sent only where the body's length is not announced.
    fn trailers(&mut self) -> Result<HeaderLines, End> {
        Ok(HeaderLines::default())
    }

    /// Called while the client is slow to read: takes pieces that arrive meanwhile, as far as they may be buffered.
    fn poll_ahead(&mut self, _: &mut Context<'_>) {}

    /// The client has taken a piece, so as many bytes may be sent again.
    fn grant(&self, _: &Piece) {}
}

/// A body that is read from the store as the client consumes it.
#[derive(Debug)]
pub(super) struct StoreBody {
    /// `None` while another thread reads from them, and after a panic there.
    pieces: Option<Box<dyn Pieces>>,
    /// The next piece, while a thread that may wait reads it.
    reading: Option<JoinHandle<RemotePiece>>,
    /// Whether the store is in a database.
    is_remote: bool,
    has_begun: bool,
}

/// The remaining pieces, the next one, and whether there are more.
type RemotePiece = (Box<dyn Pieces>, Result<(Vec<u8>, bool), Refusal>);

impl StoreBody {
    pub(super) fn new(pieces: impl Pieces + 'static, is_remote: bool) -> Self {
        Self {
            pieces: Some(Box::new(pieces)),
            reading: None,
            is_remote,
            has_begun: false,
        }
    }

    async fn next_remote(&mut self) -> Result<Piece, End> {
        if self.reading.is_none() {
            let mut pieces = self.pieces.take().ok_or(Refusal::Stopping)?;
            self.reading = Some(tokio::task::spawn_blocking(move || {
                let mut piece = Vec::new();
                let more = pieces.next(&mut piece);
                (pieces, more.map(|more| (piece, more)))
            }));
        }
        let reading = self.reading.as_mut().expect("it has just been begun");
        let (pieces, piece) = reading.await.map_err(|_| Refusal::Stopping)?;
        self.reading = None;
        self.pieces = Some(pieces);
        let (piece, more) = piece?;
        Ok(Piece::new(piece, !more))
    }
}

impl Drop for StoreBody {
    /// To end a transaction of a database may wait for the network.
    fn drop(&mut self) {
        let pieces = self.pieces.take().filter(|_| self.is_remote);
        if let (Some(pieces), Ok(runtime)) = (pieces, tokio::runtime::Handle::try_current()) {
            runtime.spawn_blocking(move || drop(pieces));
        }
    }
}

impl BodyStream for StoreBody {
    fn has_piece(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, _: &'s mut dyn Client) -> NextPiece<'s> {
        if self.is_remote {
            return Box::pin(self.next_remote());
        }
        Box::pin(async {
            // However fast the client reads, other tasks get a turn before the next piece.
            if std::mem::replace(&mut self.has_begun, true) {
                yield_now().await;
            }
            let mut piece = Vec::new();
            let pieces = self
                .pieces
                .as_mut()
                .expect("only threads that may wait take them");
            let more = pieces.next(&mut piece)?;
            Ok(Piece::new(piece, !more))
        })
    }
}
