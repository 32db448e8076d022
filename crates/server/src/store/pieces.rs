//! Long reads from the store, cut into slices short enough that other requests get their turn in between.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use forebay_store::{DocumentWalk, Read as _, Snapshot, StoreError};
use tokio::task::yield_now;

use crate::failure::Refusal;

/// Target duration of a slice. A step that cannot be interrupted runs to its end.
pub(crate) const PIECE_TIME: Duration = Duration::from_millis(1);

/// Nodes assembled between two looks at the clock.
const NODES_AT_A_TIME: usize = 64;

/// A long read over one snapshot of the store.
pub(crate) trait Pieces: fmt::Debug + Send {
    /// Appends the next slice, which may be empty. Returns false after the last one.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal>;
}

/// Why collecting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// All slices were read.
    Whole,
    /// The requested number of bytes was reached.
    Full,
    /// The deadline has passed.
    Late,
    /// The client no longer waits.
    Gone,
}

/// Collects slices until `out` holds about `bytes` bytes. Yields to other tasks of the thread before each slice but the first.
pub(crate) async fn collect(
    pieces: &mut (impl Pieces + ?Sized),
    out: &mut Vec<u8>,
    bytes: usize,
    deadline: Instant,
    mut is_gone: impl FnMut(&mut Context<'_>) -> bool,
) -> Result<Collected, Refusal> {
    loop {
        if let Some(end) = collect_one(pieces, out, bytes, deadline)? {
            return Ok(end);
        }
        yield_now().await;
        if poll_fn(|cx| Poll::Ready(is_gone(cx))).await {
            return Ok(Collected::Gone);
        }
    }
}

/// The same on a thread that may wait, until `deadline`.
pub(crate) fn collect_here(
    pieces: &mut (impl Pieces + ?Sized),
    out: &mut Vec<u8>,
    bytes: usize,
    deadline: Instant,
) -> Result<Collected, Refusal> {
    loop {
        if let Some(end) = collect_one(pieces, out, bytes, deadline)? {
            return Ok(end);
        }
    }
}

/// Collects one slice; `None` if there are more to collect.
fn collect_one(
    pieces: &mut (impl Pieces + ?Sized),
    out: &mut Vec<u8>,
    bytes: usize,
    deadline: Instant,
) -> Result<Option<Collected>, Refusal> {
    Ok(if !pieces.next(out)? {
        Some(Collected::Whole)
    } else if out.len() >= bytes {
        Some(Collected::Full)
    } else {
        (Instant::now() >= deadline).then_some(Collected::Late)
    })
}

/// Reads a document in slices.
#[derive(Debug)]
pub(crate) struct DocumentPieces {
    pub(crate) snapshot: Snapshot,
    pub(crate) walk: DocumentWalk,
}

impl Pieces for DocumentPieces {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.snapshot.forget_read();
        let until = Instant::now() + PIECE_TIME;
        Ok(put_nodes(&mut self.walk, &self.snapshot, usize::MAX, until, out)?)
    }
}

/// Assembles nodes until `until`, or until `out` holds about `bytes` bytes. Returns false once the document is complete.
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
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    /// Yields as many numbers as there are, and records how often other tasks were seen to run in between.
    #[derive(Debug)]
    struct Numbers {
        left: u8,
        turns: Arc<AtomicU32>,
        seen: Vec<u32>,
    }

    impl Pieces for Numbers {
        fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
            self.seen.push(self.turns.load(Relaxed));
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
            let turns = Arc::new(AtomicU32::new(0));
            let others = {
                let turns = turns.clone();
                spawn_local(async move {
                    loop {
                        turns.fetch_add(1, Relaxed);
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
