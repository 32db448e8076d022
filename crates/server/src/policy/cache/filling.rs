//! A body that is stored as it passes, if it ends whole and is not too long.

use std::{mem, sync::Arc, task::Context, time::Instant};

use super::{
    Ask,
    entries::{Entries, Stored},
};
use crate::{
    front::{Client, Head},
    reply::HeaderLines,
    target::{BodyStream, End, NextPiece, Piece},
};

#[derive(Debug)]
pub(super) struct Filling<'a> {
    source: Box<dyn BodyStream + 'a>,
    /// `None` once it is clear that the response will not be stored.
    kept: Option<Collected>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Collected {
    ask: Ask,
    head: Head,
    stored: Option<Stored>,
    body: Vec<u8>,
    entries: Arc<Entries>,
}

impl Drop for Collected {
    fn drop(&mut self) {
        self.entries.release(self.body.len());
    }
}

impl<'a> Filling<'a> {
    pub(super) fn new(
        source: Box<dyn BodyStream + 'a>,
        entries: &Arc<Entries>,
        ask: Ask,
        head: Head,
        stored: Stored,
        bytes_max: u64,
    ) -> Self {
        Self {
            source,
            kept: Some(Collected {
                ask,
                head,
                stored: Some(stored),
                body: Vec::new(),
                entries: Arc::clone(entries),
            }),
            bytes_max,
        }
    }

    fn keep(&mut self, piece: &Piece) {
        let Some(kept) = &mut self.kept else { return };
        let is_too_long = (kept.body.len() + piece.bytes.len()) as u64 > self.bytes_max;
        if is_too_long || !kept.entries.reserve(piece.bytes.len()) {
            if let Some(leader) = &kept.ask.leader {
                kept.entries.note_unstorable(leader, Instant::now());
            }
            self.kept = None;
            return;
        }
        kept.body.extend_from_slice(&piece.bytes);
        if piece.end
            && let Some(mut kept) = self.kept.take()
        {
            kept.store();
        }
    }
}

impl Collected {
    fn store(&mut self) {
        let body = mem::take(&mut self.body);
        self.entries.release(body.len());
        if let Some(stored) = self.stored.take() {
            let stored = stored.with_body(body.into());
            self.entries
                .store(&self.ask.asked, &self.head, self.ask.epoch, stored);
        }
    }
}

impl BodyStream for Filling<'_> {
    fn announced(&self) -> Option<u64> {
        self.source.announced()
    }

    fn has_piece(&self) -> bool {
        self.source.has_piece()
    }

    fn ends_connection(&self) -> bool {
        self.source.ends_connection()
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(async {
            let piece = self.source.next(client).await?;
            self.keep(&piece);
            Ok(piece)
        })
    }

    fn trailers(&mut self) -> Result<HeaderLines, End> {
        self.source.trailers()
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        // This client is slow. The others do not wait for it.
        if let Some(kept) = &mut self.kept {
            drop(mem::take(&mut kept.ask.leader));
        }
        self.source.poll_ahead(cx);
    }

    fn grant(&self, piece: &Piece) {
        self.source.grant(piece);
    }
}
