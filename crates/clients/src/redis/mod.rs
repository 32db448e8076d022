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
