//! The server's side of the page: claim words and the outbox (PROTOCOL.md section 6).

use std::{
    io,
    os::fd::OwnedFd,
    sync::atomic::{AtomicU32, Ordering},
};

use forebay_wire::{
    BELL_OFFSET, CLAIMS_OFFSET, ClaimWord, FORMAT_OFFSET, OUTBOX_BYTES, OUTBOX_HEAD_OFFSET, OUTBOX_OFFSET,
    OUTBOX_TAIL_OFFSET, PAGE_FORMAT, SLOTS_MAX,
};

use crate::sys::SharedPage;

#[derive(Debug)]
pub(crate) struct Page {
    shared: SharedPage,
}

/// The worker has moved the outbox's tail to where it cannot be.
#[derive(Debug, thiserror::Error)]
#[error("outbox tail {tail} is more than {OUTBOX_BYTES} bytes after its head {head}")]
pub(crate) struct TailOutOfRange {
    head: u32,
    tail: u32,
}

impl Page {
    pub(crate) fn new() -> io::Result<Self> {
        let shared = SharedPage::new()?;
        shared.word(FORMAT_OFFSET).store(PAGE_FORMAT, Ordering::Release);
        shared.word(BELL_OFFSET).store(1, Ordering::Release);
        Ok(Self { shared })
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        self.shared.file()
    }

    fn claim_word(&self, slot: u32) -> &AtomicU32 {
        assert!(slot < SLOTS_MAX, "slots are given out by the pool");
        self.shared.word(CLAIMS_OFFSET + 4 * slot as usize)
    }

    pub(crate) fn offer(&self, slot: u32, number: u32) {
        self.claim_word(slot)
            .store(ClaimWord::of(number).offered(), Ordering::Release);
    }

    pub(crate) fn revoke(&self, slot: u32, number: u32) -> bool {
        let word = ClaimWord::of(number);
        self.claim_word(slot)
            .compare_exchange(
                word.offered(),
                word.revoked(),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }

    pub(crate) fn is_claimed(&self, slot: u32, number: u32) -> bool {
        self.claim_word(slot).load(Ordering::Acquire) == ClaimWord::of(number).claimed()
    }

    /// Asks for the doorbell. The outbox must be looked at once more afterwards.
    pub(crate) fn arm_bell(&self) {
        self.shared.word(BELL_OFFSET).store(1, Ordering::SeqCst);
    }

    /// Whether the worker has put something that was not taken yet.
    pub(crate) fn has_answers(&self) -> bool {
        let taken = self.shared.word(OUTBOX_HEAD_OFFSET).load(Ordering::Relaxed);
        self.shared.word(OUTBOX_TAIL_OFFSET).load(Ordering::Acquire) != taken
    }

    /// Moves everything in the outbox to the end of `into`; false when there was nothing. Every byte up to the ring's end or
    /// the tail is copied, PAD frames included.
    pub(crate) fn take(&self, into: &mut Vec<u8>) -> Result<bool, TailOutOfRange> {
        let head_word = self.shared.word(OUTBOX_HEAD_OFFSET);
        let head = head_word.load(Ordering::Relaxed);
        let tail = self.shared.word(OUTBOX_TAIL_OFFSET).load(Ordering::SeqCst);
        let length = tail.wrapping_sub(head);
        if length == 0 {
            return Ok(false);
        }
        if length > OUTBOX_BYTES {
            return Err(TailOutOfRange { head, tail });
        }
        let at = head % OUTBOX_BYTES;
        let first = length.min(OUTBOX_BYTES - at);
        self.shared
            .copy_to(OUTBOX_OFFSET + at as usize, first as usize, into);
        self.shared
            .copy_to(OUTBOX_OFFSET, (length - first) as usize, into);
        head_word.store(tail, Ordering::Release);
        Ok(true)
    }
}
