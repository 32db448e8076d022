//! Answers whose bodies come piece by piece, from wherever.

use std::task::Context;

use bytes::Bytes;

use super::End;
use crate::front::{RequestBody, Socket, Stream};

/// A piece of an answer's body.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) end: bool,
    /// Whether it used up some of a worker's window; what came with the answer's head did not.
    pub(super) windowed: bool,
}

/// The rest of an answer that has begun.
pub(crate) trait Streamed {
    /// The answer's length as its headers have it.
    fn announced(&self) -> Option<u64>;

    /// Whether a piece is there without waiting.
    fn has_piece(&self) -> bool;

    /// The next piece of the answer's body. What is left of the request's goes the other way meanwhile.
    async fn next<S: Stream>(&mut self, body: &mut RequestBody, socket: &mut Socket<S>)
    -> Result<Piece, End>;

    /// The client is waited for: takes what comes meanwhile, as far as that may be kept.
    fn poll_ahead(&mut self, _: &mut Context<'_>) {}

    /// The client has taken a piece: as much may come again.
    fn grant(&self, piece: &Piece);
}
