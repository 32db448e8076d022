//! Errors of commands on a store that are not the store's own.

use std::{io, path::PathBuf};

use forebay_store::index::FieldError;

/// Why a command on a store failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreFailure {
    /// Nothing is at a path.
    #[error("there is no node {path}")]
    Absent { path: String },
    /// The node has children but no value.
    #[error("node {path} has no value of its own, only children")]
    NoValue { path: String },
    /// A field of an index that cannot be parsed.
    #[error("{text:?} is no field such as `lastName`, `address.city` or `tags.*`")]
    Field {
        text: String,
        #[source]
        source: FieldError,
    },
    /// `verify` has found damage.
    #[error("the store is damaged: {count} {}", if *count == 1 { "problem" } else { "problems" })]
    Damaged { count: u64 },
    /// The process that reads the store for `verify` did not finish.
    #[error("the store is damaged: it cannot be read to its end")]
    Unreadable,
    /// The target folder of a copy is not empty.
    #[error("the folder {} is not empty", folder.display())]
    NotEmpty { folder: PathBuf },
    /// There is no log in the folder of `--changes`.
    #[error("there is no log of changes in {}", folder.display())]
    NoLog { folder: PathBuf },
    /// The number of `--until` is before the backup.
    #[error("the backup is as of change {backup}, after --until {until}")]
    BeforeBackup { backup: u64, until: u64 },
    /// The time of `--until` is before the backup.
    #[error("the backup is as of change {backup}, which was made after --until")]
    LaterBackup { backup: u64 },
    /// The number of `--until` is beyond the end of the log.
    #[error("the log of changes ends with change {last}, before --until {until}")]
    LogEnds { last: u64, until: u64 },
    /// A file cannot be opened, written or inspected.
    #[error("cannot {what} {}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A line of a script failed in the shell.
    #[error("line {line} of the input has failed")]
    Script {
        line: u64,
        #[source]
        source: anyhow::Error,
    },
}
