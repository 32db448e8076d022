//! Locks: keys that are set only if they do not exist, with an expiry.

use std::time::{Duration, Instant};

use super::Pool;
use crate::{ClientError, token};

/// Interval at which a lock that is taken is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(25);
/// Removes a key if it still has this value.
const REMOVE_OWN: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// A lock, requested or held.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    key: String,
    /// A random value that identifies the holder.
    token: String,
    time_ms: u64,
}

impl Lock {
    /// Creates a lock that expires after `time_ms`.
    pub(crate) fn new(key: String, time_ms: u64) -> Result<Self, ClientError> {
        let token = token::random().map_err(|reason| ClientError::Failed {
            what: format!("the lock `{key}`"),
            reason,
        })?;
        Ok(Self { key, token, time_ms })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// When it expires if it is acquired now.
    pub(crate) fn end_from_now(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.time_ms)
    }
}

impl Pool {
    /// Acquires the lock. Returns false if it was not free within `wait_ms`; without `wait_ms` it tries until its future is dropped.
    pub(crate) async fn lock(&self, lock: &Lock, wait_ms: Option<u64>) -> Result<bool, ClientError> {
        let time_ms = lock.time_ms.to_string();
        let words = ["SET", &lock.key, &lock.token, "NX", "PX", &time_ms];
        let until = wait_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        loop {
            if !self.run(&words).await?.is_null() {
                return Ok(true);
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(false);
            }
            let next = now + TRY_AGAIN;
            tokio::time::sleep_until(until.map_or(next, |until| next.min(until)).into()).await;
        }
    }

    /// Releases the lock. Returns false if it had expired.
    pub(crate) async fn unlock(&self, lock: &Lock) -> Result<bool, ClientError> {
        let words = ["EVAL", REMOVE_OWN, "1", &lock.key, &lock.token];
        let removed = self.run(&words).await?;
        Ok(removed == 1)
    }
}
