//! Responses whose bodies arrive piece by piece, from any source.

use std::task::Context;

use bytes::Bytes;

use super::End;
use crate::front::{RequestBody, Socket, Stream};

/// A piece of a response's body.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) end: bool,
    /// Whether it used up some of a worker's window; a piece that came with the head did not.
    pub(super) windowed: bool,
}

/// The rest of a response that has begun.
pub(crate) trait Streamed {
    /// The Content-Length of the response, if it has one.
    fn announced(&self) -> Option<u64>;

    /// Whether a piece is available without waiting.
    fn has_piece(&self) -> bool;

    /// The next piece of the response's body. The rest of the request's body is sent meanwhile.
    async fn next<S: Stream>(&mut self, body: &mut RequestBody, socket: &mut Socket<S>)
    -> Result<Piece, End>;

    /// Called while the client is slow to read: takes pieces that arrive meanwhile, as far as they may be buffered.
    fn poll_ahead(&mut self, _: &mut Context<'_>) {}

    /// The client has taken a piece, so as many bytes may be sent again.
    fn grant(&self, piece: &Piece);
}
