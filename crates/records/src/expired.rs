//! Expired records: the store removes them a little later, but from the moment of expiry they no longer exist.

use forebay_store::{Key, Read, StoreError};

/// Tells which records have expired at a given time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    by_ms: u64,
    /// Whether any node has expired and is not removed yet; otherwise there is nothing to check.
    any: bool,
}

impl Ended {
    /// For the given time, in milliseconds since 1970 UTC.
    pub(crate) fn by(now_ms: u64, read: &impl Read) -> Result<Self, StoreError> {
        Ok(Self {
            by_ms: now_ms,
            any: read.is_due(now_ms)?,
        })
    }

    /// Whether a record has expired.
    pub(crate) fn has(self, key: &Key, read: &impl Read) -> Result<bool, StoreError> {
        Ok(self.any && read.ends(key)?.is_some_and(|ends| ends <= self.by_ms))
    }
}
