//! What makes a command on a store fail besides the store itself.

use std::{io, path::PathBuf};

use forebay_store::index::FieldError;

/// Why a command on a store did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreFailure {
    /// Nothing is at a path.
    #[error("there is no node {path}")]
    Absent { path: String },
    /// A node has children only.
    #[error("node {path} has no value of its own, only children")]
    NoValue { path: String },
    /// A field of an index that cannot be read.
    #[error("{text:?} is no field such as `lastName`, `address.city` or `tags.*`")]
    Field {
        text: String,
        #[source]
        source: FieldError,
    },
    /// `verify` has found something.
    #[error("the store is damaged: {count} {}", if *count == 1 { "problem" } else { "problems" })]
    Damaged { count: u64 },
    /// Whoever read it for `verify` did not get to the end.
    #[error("the store is damaged: it cannot be read to its end")]
    Unreadable,
    /// A copy would be laid over something.
    #[error("the folder {} is not empty", folder.display())]
    NotEmpty { folder: PathBuf },
    /// `--changes` leads to no log.
    #[error("there is no log of changes in {}", folder.display())]
    NoLog { folder: PathBuf },
    /// `--until` is a number before the backup.
    #[error("the backup is as of change {backup}, after --until {until}")]
    BeforeBackup { backup: u64, until: u64 },
    /// `--until` is a moment before the backup.
    #[error("the backup is as of change {backup}, which was made after --until")]
    LaterBackup { backup: u64 },
    /// `--until` is a number that the log does not come to.
    #[error("the log of changes ends with change {last}, before --until {until}")]
    LogEnds { last: u64, until: u64 },
    /// A file that cannot be opened, written or looked into.
    #[error("cannot {what} {}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A line of a script that is typed into the shell.
    #[error("line {line} of the input has failed")]
    Script {
        line: u64,
        #[source]
        source: anyhow::Error,
    },
}
