//! Records that have ended by themselves: the store removes them a little later, but from that moment on they are not there.

use forebay_store::{Key, Read, StoreError};

/// What has ended by a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    by_ms: u64,
    /// Whether there is anything to look for, which there is only until the store has removed it.
    any: bool,
}

impl Ended {
    /// By that time, in milliseconds since 1970 UTC.
    pub(crate) fn by(now_ms: u64, read: &impl Read) -> Result<Self, StoreError> {
        Ok(Self {
            by_ms: now_ms,
            any: read.is_due(now_ms)?,
        })
    }

    /// Whether a record has ended.
    pub(crate) fn has(self, key: &Key, read: &impl Read) -> Result<bool, StoreError> {
        Ok(self.any && read.ends(key)?.is_some_and(|ends| ends <= self.by_ms))
    }
}
