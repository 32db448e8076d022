//! Why a run failed.

use std::io;

/// Why a run failed, or its result is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The trial connection was refused.
    #[error("nothing listens on {address}")]
    NothingListens {
        address: String,
        #[source]
        source: io::Error,
    },
    /// The trial connection failed in another way.
    #[error("cannot connect to {address}")]
    Unreachable {
        address: String,
        #[source]
        source: io::Error,
    },
    /// No response arrived.
    #[error("no answer came from {address}{}", example.as_ref().map_or(String::new(), |text| format!("; the first failure: {text}")))]
    NoAnswer {
        address: String,
        example: Option<String>,
    },
    /// A file could not be written.
    #[error("cannot write {file}")]
    Write {
        file: String,
        #[source]
        source: io::Error,
    },
    /// Assertions that do not hold; they have been printed by then.
    #[error("{failed} of {all} assertions did not hold")]
    Assertions { failed: usize, all: usize },
}
