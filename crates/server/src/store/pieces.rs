//! What takes long to read from the store comes in pieces, each found so soon that others can have their turn before the next.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use forebay_store::{DocumentWalk, Snapshot, StoreError};
use tokio::task::yield_now;

use crate::failure::Refusal;

/// About how long a piece is looked for; what was begun then and cannot be interrupted is done to its end.
pub(crate) const PIECE_TIME: Duration = Duration::from_millis(1);

/// Nodes that are put together before the time is looked at.
const NODES_AT_A_TIME: usize = 64;

/// What is read from one state of the store.
pub(crate) trait Pieces: fmt::Debug {
    /// Writes the next piece, perhaps an empty one; false: there are no further ones.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal>;
}

/// Why no further pieces were put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// These are all.
    Whole,
    /// They are as many bytes as were wanted.
    Full,
    /// The deadline has passed.
    Late,
    /// Nobody is there any more who wants them.
    Gone,
}

/// Puts pieces together, up to about so many bytes in `out`. Before each but the first, others on the thread have their turn.
pub(crate) async fn collect(
    pieces: &mut (impl Pieces + ?Sized),
    out: &mut Vec<u8>,
    bytes: usize,
    deadline: Instant,
    mut is_gone: impl FnMut(&mut Context<'_>) -> bool,
) -> Result<Collected, Refusal> {
    loop {
        if !pieces.next(out)? {
            return Ok(Collected::Whole);
        }
        if out.len() >= bytes {
            return Ok(Collected::Full);
        }
        if Instant::now() >= deadline {
            return Ok(Collected::Late);
        }
        yield_now().await;
        if poll_fn(|cx| Poll::Ready(is_gone(cx))).await {
            return Ok(Collected::Gone);
        }
    }
}

/// A document that is put together.
#[derive(Debug)]
pub(crate) struct DocumentPieces {
    pub(crate) snapshot: Snapshot,
    pub(crate) walk: DocumentWalk,
}

impl Pieces for DocumentPieces {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let until = Instant::now() + PIECE_TIME;
        Ok(put_nodes(&mut self.walk, &self.snapshot, usize::MAX, until, out)?)
    }
}

/// Puts together what can be until then, and until `out` is about so long; false: the document is complete.
pub(crate) fn put_nodes(
    walk: &mut DocumentWalk,
    snapshot: &Snapshot,
    bytes: usize,
    until: Instant,
    out: &mut Vec<u8>,
) -> Result<bool, StoreError> {
    while walk.step(snapshot, NODES_AT_A_TIME, out)? {
        if out.len() >= bytes || Instant::now() >= until {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    /// Numbers, as many as there are, and how often others were seen to have had their turn.
    #[derive(Debug)]
    struct Numbers {
        left: u8,
        turns: Rc<Cell<u32>>,
        seen: Vec<u32>,
    }

    impl Pieces for Numbers {
        fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
            self.seen.push(self.turns.get());
            let Some(left) = self.left.checked_sub(1) else {
                return Err(Refusal::NotFound);
            };
            out.push(left);
            self.left = left;
            Ok(left > 0)
        }
    }

    fn collected(
        left: u8,
        bytes: usize,
        deadline: Instant,
        stays: u32,
    ) -> (Result<Collected, Refusal>, Vec<u8>, Vec<u32>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let turns = Rc::new(Cell::new(0));
            let others = {
                let turns = turns.clone();
                spawn_local(async move {
                    loop {
                        turns.set(turns.get() + 1);
                        yield_now().await;
                    }
                })
            };
            let mut numbers = Numbers {
                left,
                turns: turns.clone(),
                seen: Vec::new(),
            };
            let (mut out, mut asked) = (Vec::new(), 0);
            let is_gone = |_: &mut Context<'_>| {
                asked += 1;
                asked > stays
            };
            let collected = collect(&mut numbers, &mut out, bytes, deadline, is_gone).await;
            others.abort();
            (collected, out, numbers.seen)
        })
    }

    #[test]
    fn others_have_their_turn_between_two_pieces() {
        let later = Instant::now() + Duration::from_hours(1);
        let (collected, out, seen) = collected(5, usize::MAX, later, u32::MAX);
        assert_eq!(collected, Ok(Collected::Whole));
        assert_eq!(out, [4, 3, 2, 1, 0]);
        assert!(seen.is_sorted_by(|before, after| before < after), "{seen:?}");
    }

    #[test]
    fn pieces_end_when_nobody_wants_more_of_them() {
        let now = Instant::now();
        let later = now + Duration::from_hours(1);
        let end = |left, bytes, deadline, stays| {
            let (end, out, _) = collected(left, bytes, deadline, stays);
            (end, out.len())
        };
        assert_eq!(end(9, 3, later, u32::MAX), (Ok(Collected::Full), 3));
        assert_eq!(end(9, 99, now, u32::MAX), (Ok(Collected::Late), 1));
        assert_eq!(end(9, 99, later, 2), (Ok(Collected::Gone), 3));
        assert_eq!(end(1, 99, now, 0), (Ok(Collected::Whole), 1));
        assert_eq!(end(0, 99, later, u32::MAX), (Err(Refusal::NotFound), 0));
    }
}
