//! Errors of operations on external systems.

use std::time::Duration;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The operation is malformed.
    #[error("this is no operation of a client: {reason}")]
    Operation {
        /// How it is malformed.
        reason: String,
    },
    /// The rules' `allow` list does not include the target.
    #[error("{what} may not be reached: `allow` of `[workflow]` names {} in `{key}`", names(.allowed))]
    NotAllowed {
        /// The target, such as a Redis server with its name.
        what: String,
        /// The key of `allow` that would permit it.
        key: &'static str,
        /// The names that the key lists.
        allowed: Vec<String>,
    },
    /// The configuration section does not include the target.
    #[error("{what} may not be reached: {place} names {}", names(.named))]
    NotNamed {
        /// The target, as the subject of the message.
        what: String,
        /// The section and key that would permit it.
        place: String,
        /// The names listed there.
        named: Vec<String>,
    },
    /// A time limit was exceeded.
    #[error("{what} has taken longer than {time:?} ({limit})")]
    Time {
        /// The operation, as the subject of the message.
        what: String,
        /// The limit's value.
        time: Duration,
        /// The configuration key of the limit.
        limit: &'static str,
    },
    /// A size limit was exceeded.
    #[error("{what} is longer than {bytes_max} bytes ({limit})")]
    Long {
        /// The value that is too long.
        what: String,
        /// The limit in bytes.
        bytes_max: usize,
        /// The configuration key of the limit.
        limit: &'static str,
    },
    /// The server understood the operation and refused it.
    #[error("{what} refused: {reason}")]
    Refused {
        /// The server that refused.
        what: String,
        /// The server's reason.
        reason: String,
    },
    /// The connection failed, or the response was malformed.
    #[error("{what} failed: {reason}")]
    Failed {
        /// The server or connection.
        what: String,
        /// The cause, for people.
        reason: String,
    },
}

impl ClientError {
    /// The stable code that rules see in `error.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Operation { .. } => "operation",
            Self::NotAllowed { .. } | Self::NotNamed { .. } => "not_allowed",
            Self::Time { .. } => "timeout",
            Self::Long { .. } => "too_long",
            Self::Refused { .. } => "refused",
            Self::Failed { .. } => "failed",
        }
    }
}

fn names(allowed: &[String]) -> String {
    if allowed.is_empty() {
        return "none".to_owned();
    }
    allowed.join(", ")
}
