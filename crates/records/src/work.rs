//! Limits the work that a statement does on one record, which is tested in one go, without yielding to other requests.

use std::cell::Cell;

/// Work allowed on any record, in bytes.
const BYTES_MIN: usize = 32 << 20;
/// How often a longer record may be read.
const TIMES_MAX: usize = 8;

/// Remaining work. Skipping a byte of JSON counts as one; slower operations count as more.
#[derive(Debug)]
pub(crate) struct Work {
    max: usize,
    left: Cell<Option<usize>>,
}

impl Work {
    /// The limit for a record of that length.
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

    /// Takes some of it. False if not enough is left: from then on nothing is, and results are invalid.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let left = self.left.get().and_then(|left| left.checked_sub(bytes));
        self.left.set(left);
        left.is_some()
    }

    /// Whether the limit was exceeded.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.get().is_none()
    }
}
