//! Errors of releases.

use crate::StorageError;

/// Longest actor's name and longest note, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 1000;

/// Why releases cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// No release has this number.
    #[error("there is no release {number} in the global `{global}`{}", newest(*.last))]
    NoSuchRelease {
        /// The number that was asked for.
        number: u64,
        /// The global with the releases.
        global: String,
        /// The newest release's number; 0: there has been none.
        last: u64,
    },
    /// The files exceed a limit of releases.
    #[error("a release has {found} {what} (at most {max})")]
    TooLarge {
        /// The count, in files or bytes.
        found: usize,
        /// The unit: files or bytes.
        what: &'static str,
        /// The most that a release may have.
        max: usize,
    },
    /// The files have no workflow among them.
    #[error("there is no workflow among these files: a graph is a file NAME.json")]
    NoWorkflows,
    /// The limit on releases is reached.
    #[error("there are {max} releases, as many as are kept")]
    TooMany {
        /// Most releases kept at a time.
        max: usize,
    },
    /// The limit on releases for test is reached.
    #[error("{max} releases are already in test, which is the maximum")]
    TooManyForTest {
        /// Most releases for test at a time.
        max: usize,
    },
    /// The release answers requests, so it cannot be changed this way.
    #[error("release {number} cannot be discarded: it {state}")]
    InForce {
        /// Number of the release.
        number: u64,
        /// Its state, as the message says it.
        state: String,
    },
    /// A release that was once published can only be discarded explicitly.
    #[error(
        "release {number} has been published: it is what a rollback, or somebody who reads the log, looks for"
    )]
    WasPublished {
        /// Number of the release.
        number: u64,
    },
    /// A rollback found no earlier release.
    #[error("no release was published before{}", now(*.published))]
    NothingBefore {
        /// The published release, if any.
        published: Option<u64>,
    },
    /// A canary takes a share of the published release's runs, and no other release is published.
    #[error("release {number} can have no share: no other release is published")]
    NothingToShare {
        /// Number of the release.
        number: u64,
    },
    /// A name or a note is too long.
    #[error("{what} has {bytes} bytes (at most {TEXT_BYTES_MAX})")]
    TextTooLong {
        /// The name or the note, as the message calls it.
        what: &'static str,
        /// Length in bytes.
        bytes: usize,
    },
    /// Data of another kind in the place of a release's.
    #[error("{path} in the store is no part of a release: {reason}")]
    Foreign {
        /// Path of the node in the store.
        path: String,
        /// The reason, as the message says it.
        reason: String,
    },
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn newest(last: u64) -> String {
    match last {
        0 => ", which has none yet".to_owned(),
        last => format!("; the newest is {last}"),
    }
}

fn now(published: Option<u64>) -> String {
    published.map_or_else(
        || " (nor is one now)".to_owned(),
        |number| format!(" release {number}"),
    )
}
