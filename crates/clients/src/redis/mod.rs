//! Redis: commands on connections that each do one at a time, and locks.
//!
//! The protocol is RESP2 (redis.io, "Redis serialization protocol"), read within the size that a reply may have, so that no reply is in memory that is longer.

mod connection;
mod lock;
mod pool;
mod reply;
mod url;

pub(crate) use lock::Lock;
pub(crate) use pool::Pool;
pub use url::{RedisUrl, UrlError};

use std::time::Duration;

/// Reads a reply, and gives what it counts for: 32 bytes for each part besides those of texts; `None` where it cannot be read.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) async fn read_reply(bytes: &mut &[u8], bytes_max: usize) -> Option<usize> {
    fn counted(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::Array(elements) => 32 + elements.iter().map(counted).sum::<usize>(),
            value => 32 + value.as_str().map_or(0, str::len),
        }
    }
    match reply::read(bytes, bytes_max).await {
        Ok(value) => Some(counted(&value)),
        Err(reply::ReplyError::Refused(reason)) => Some(reason.len()),
        Err(_) => None,
    }
}

/// A server of Redis, and what bounds its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// Where it is, and who connects.
    pub url: RedisUrl,
    /// Connections of one thread.
    pub connections_max: usize,
    /// From the beginning of a connection to its first command.
    pub connect_timeout: Duration,
    /// From a command to the end of its reply, waiting for a connection included.
    pub command_timeout: Duration,
    /// Longest reply. Each of its parts counts for 32 bytes besides.
    pub reply_bytes_max: usize,
}
