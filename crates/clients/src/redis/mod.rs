//! Redis commands and locks, over connections with one command in flight each.
//!
//! The protocol is RESP2 (redis.io, "Redis serialization protocol"). Replies are decoded within a size limit, so that none is ever in memory in excess of it.

mod connection;
mod lock;
mod pool;
mod reply;
mod url;

pub(crate) use lock::Lock;
pub(crate) use pool::Pool;
pub use url::{RedisUrl, UrlError};

use std::time::Duration;

/// Decodes a reply and returns the bytes it counts for: its texts, and 32 bytes for each part; `None` if it is malformed.
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

/// A Redis server, its credentials and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// Address and credentials.
    pub url: RedisUrl,
    /// Connections per thread.
    pub connections_max: usize,
    /// Time limit for connecting and authenticating.
    pub connect_timeout: Duration,
    /// Time limit for a command, including the wait for a free connection.
    pub command_timeout: Duration,
    /// Longest reply in bytes; each of its parts counts for 32 more.
    pub reply_bytes_max: usize,
}
