//! What a statement may look at of one record: it is held against a record in one go, during which nobody else has a turn.

use std::cell::Cell;

/// What may always be looked at of a record, in bytes.
const BYTES_MIN: usize = 32 << 20;
/// How often a longer one may be looked at.
const TIMES_MAX: usize = 8;

/// What is left of it. A byte of JSON that is passed over counts as one; what takes longer counts as more.
#[derive(Debug)]
pub(crate) struct Work {
    max: usize,
    left: Cell<Option<usize>>,
}

impl Work {
    /// For a record of that length.
    pub(crate) fn on(bytes: usize) -> Self {
        let max = BYTES_MIN.max(bytes.saturating_mul(TIMES_MAX));
        Self {
            max,
            left: Cell::new(Some(max)),
        }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Takes some of it. False when not so much is left: then there is nothing left from then on, and whatever is found does not count.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let left = self.left.get().and_then(|left| left.checked_sub(bytes));
        self.left.set(left);
        left.is_some()
    }

    /// Whether more was wanted than there was.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.get().is_none()
    }
}
