//! What may be reached, and what bounds it.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{ClientError, RedisOptions};

/// What may be reached; nothing that is not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Servers of Redis by their names, in the order in which they are allowed.
    pub redis: Vec<String>,
    /// All servers of Redis that there are.
    pub redis_servers: BTreeMap<String, RedisOptions>,
    /// Programs that may be run, by their absolute paths.
    pub programs: Vec<PathBuf>,
    /// Bytes that a program may write, to standard output and to standard error, each.
    pub output_bytes_max: usize,
}

impl Options {
    /// A server of Redis that may be reached: of this name, or the first.
    pub(crate) fn redis(&self, name: Option<&str>) -> Result<(&str, &RedisOptions), ClientError> {
        let found = match name {
            Some(name) => self.redis.iter().find(|allowed| *allowed == name),
            None => self.redis.first(),
        };
        let found = found.and_then(|name| Some((name.as_str(), self.redis_servers.get(name)?)));
        found.ok_or_else(|| ClientError::NotAllowed {
            what: name.map_or_else(|| "a Redis".to_owned(), |name| format!("Redis `{name}`")),
            key: "redis",
            allowed: self.redis.clone(),
        })
    }
}
