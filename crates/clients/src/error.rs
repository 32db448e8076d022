//! What stands in the way of an operation.

use std::time::Duration;

/// Why an operation has come to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The operation itself cannot be read.
    #[error("this is no operation of a client: {reason}")]
    Operation {
        /// Why not.
        reason: String,
    },
    /// `allow` does not name it.
    #[error("{what} may not be reached: `allow` of `[workflow]` names {} in `{key}`", names(.allowed))]
    NotAllowed {
        /// What.
        what: String,
        /// The key that would name it.
        key: &'static str,
        /// What it names.
        allowed: Vec<String>,
    },
    /// The section of the configuration does not name it.
    #[error("{what} may not be reached: {place} names {}", names(.named))]
    NotNamed {
        /// What.
        what: String,
        /// The key that would name it, and where it is.
        place: String,
        /// What it names.
        named: Vec<String>,
    },
    /// A limit of time.
    #[error("{what} has taken longer than {time:?} ({limit})")]
    Time {
        /// What.
        what: String,
        /// How long it may take.
        time: Duration,
        /// What says so.
        limit: &'static str,
    },
    /// A limit of size.
    #[error("{what} is longer than {bytes_max} bytes ({limit})")]
    Long {
        /// What.
        what: String,
        /// How long it may be.
        bytes_max: usize,
        /// What says so.
        limit: &'static str,
    },
    /// The other side has understood, and refused.
    #[error("{what} refused: {reason}")]
    Refused {
        /// What.
        what: String,
        /// What it says.
        reason: String,
    },
    /// The way there, or what came from there.
    #[error("{what} failed: {reason}")]
    Failed {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}

impl ClientError {
    /// As programs tell it from others.
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
