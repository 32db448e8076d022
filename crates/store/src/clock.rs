//! The wall clock that dates changes and expires nodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 UTC.
pub fn now_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
