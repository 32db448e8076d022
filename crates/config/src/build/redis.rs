//! `[redis.NAME]`

use forebay_clients::RedisOptions;

use super::Builder;
use crate::fields::Fields;

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn redis(&mut self, name: &str, fields: &Fields) -> Option<RedisOptions> {
        self.check_name(name, "Redis", fields);
        let url = match fields.text("url").parse() {
            Ok(url) => url,
            Err(error) => {
                // The URL may contain a password, so the message does not repeat it.
                self.note(fields.problem("url", format!("what is written there {error}")));
                return None;
            }
        };
        let count = |key| usize::try_from(fields.integer(key)).unwrap_or(usize::MAX);
        Some(RedisOptions {
            url,
            connections_max: count("connections_max"),
            connect_timeout: fields.duration("connect_timeout"),
            command_timeout: fields.duration("command_timeout"),
            reply_bytes_max: count("reply_bytes_max"),
        })
    }
}
