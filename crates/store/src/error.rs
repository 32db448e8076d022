//! Everything that can fail here, each with its limit and the value found.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{json::JsonError, key::KeyError};

/// What has run out when a transaction writes more than one may.
pub(crate) const TRANSACTION_FULL: &str = "one transaction can write 1 GiB";

/// Why the store did not do what it was asked for. Nothing has been changed then, for a transaction that met an error in the
/// middle of an operation can only be rolled back; but of [`StoreError::NotFlushed`], what was committed stands.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A global's name or a subscript that cannot be.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A text that is not the JSON that can be kept.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A value longer than the store was opened for.
    #[error("value of {bytes} bytes is too long (value_bytes_max {max})")]
    ValueTooLong {
        /// Length of its canonical text.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Something other than a number where one is counted.
    #[error("cannot increment {found}: it is no number")]
    NotANumber {
        /// The beginning of the value's text.
        found: String,
    },
    /// A sum that has more digits than are kept exactly.
    #[error("cannot increment {found} by {by}: the sum has more than {max} digits")]
    NumberTooLong {
        /// The number as it stands.
        found: String,
        /// What was to be added.
        by: String,
        /// The limit.
        max: usize,
    },
    /// A subtree that was to be copied into itself, or over what holds it.
    #[error("cannot merge {from} into {to}: one holds the other")]
    Overlap {
        /// What was to be copied.
        from: String,
        /// Where to.
        to: String,
    },
    /// An index that cannot be, or a question that it cannot answer.
    #[error("index `{name}`: {reason}")]
    Index {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A record with values that another one has, in an index that allows each only once.
    #[error("index `{index}` is unique, and record {record} has the same values")]
    NotUnique {
        /// The index.
        index: String,
        /// The subscript of the record that has them.
        record: String,
    },
    /// A write to a store that was opened for reading.
    #[error("the store was opened for reading only")]
    ReadOnly,
    /// A second transaction, or a flush, of a thread that has a write transaction open and would wait for itself.
    #[error("this thread has a transaction open already")]
    WritesAlready,
    /// A transaction in which an operation failed half way.
    #[error("an operation of this transaction has failed: it can only be rolled back")]
    Broken,
    /// A commit that stands, but of which nobody knows whether it is on the disk.
    #[error("committed, but the flush to the disk failed: {reason}")]
    NotFlushed {
        /// What the flush said.
        reason: String,
    },
    /// A write, or a flush, after a flush has failed: the system does not write again what it could not write once.
    #[error(
        "nothing can be written until the store is opened anew, since a flush to the disk has failed: {reason}"
    )]
    FlushesFail {
        /// What the flush said.
        reason: String,
    },
    /// No room: on the disk, or up to `map_max`.
    #[error("the store is full: {reason}")]
    Full {
        /// What has run out.
        reason: &'static str,
    },
    /// Too many processes or threads read at the same time.
    #[error("too many readers at the same time (readers_max {max})")]
    TooManyReaders {
        /// The limit.
        max: u32,
    },
    /// More locks than one owner may have.
    #[error("too many locks at the same time (at most {max} names, those above the locked ones included)")]
    TooManyLocks {
        /// The limit.
        max: usize,
    },
    /// A snapshot that has been read from for longer than `reader_age_max`.
    #[error("this snapshot is too old to be read from (reader_age_max {max:?}); begin another")]
    SnapshotTooOld {
        /// The limit.
        max: Duration,
    },
    /// A log that cannot be done again here.
    #[error("cannot do the changes again: {reason}")]
    Replay {
        /// Why not.
        reason: &'static str,
    },
    /// Changes that the log does not hold: dropped for their age, lost in a power cut, or yet to come.
    #[error("the log of changes does not go on from {since}; read everything anew and go on from there")]
    ChangesGone {
        /// The last change that was known.
        since: u64,
        /// The first one that there is after it.
        oldest: u64,
    },
    /// Bytes that are not what was written.
    #[error("the store is damaged: {what}")]
    Damaged {
        /// Where, and what is wrong.
        what: String,
    },
    /// A store of another version of this program.
    #[error("the store in {} has format {found}; this program reads format {expected}", path.display())]
    Format {
        /// The store's folder.
        path: PathBuf,
        /// What its file says.
        found: String,
        /// What this program writes.
        expected: u32,
    },
    /// A store opened for reading only whose log has commits that its tree does not have yet, as after a power cut.
    #[error("the store in {} must be opened for writing once: its log has commits that its tree lacks", path.display())]
    Unrecovered {
        /// The store's folder.
        path: PathBuf,
    },
    /// A log of changes whose tree is missing or cut off. Nothing has been touched.
    #[error(
        "{} {found}, but the log of changes beside it has changes {first} to {last}, which it would lose. \
         Make the store anew in another folder: `forebay store restore{} --changes {} --data NEW`",
        path.join(crate::opening::FILE).display(),
        if *first == 1 { "" } else { " BACKUP" },
        path.display()
    )]
    LogWithoutTree {
        /// The store's folder.
        path: PathBuf,
        /// What there is of the tree.
        found: String,
        /// The first change in the log.
        first: u64,
        /// The last whole one.
        last: u64,
    },
    /// A log of changes that does not go on where the tree ends. Nothing has been touched.
    #[error(
        "the tree in {} ends with change {since}, and the log of changes beside it goes on with {oldest}: they do not belong together. \
         Put back the tree that belongs to the log, or make the store anew from a backup: `forebay store restore BACKUP --changes {} --data NEW`",
        path.display(),
        path.display()
    )]
    ForeignLog {
        /// The store's folder.
        path: PathBuf,
        /// The last change in the tree.
        since: u64,
        /// The next one in the log.
        oldest: u64,
    },
    /// A folder that holds no store, where one was expected.
    #[error("there is no store in {}", path.display())]
    Absent {
        /// The folder.
        path: PathBuf,
    },
    /// A store that this process has open under other options.
    #[error("the store in {} is open in this process already, with {option} {found}, not {wanted}", path.display())]
    OpenAlready {
        /// The store's folder.
        path: PathBuf,
        /// The option.
        option: &'static str,
        /// What it is.
        found: String,
        /// What it should have been this time.
        wanted: String,
    },
    /// A store that others have open, where it must be had alone.
    #[error("the store in {} is open {}", path.display(), holders_of(holders))]
    InUse {
        /// The store's folder.
        path: PathBuf,
        /// The processes that have it open, as far as they may be known; none when it is this one.
        holders: Vec<u32>,
    },
    /// A file or folder beside the tree.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Anything else that the engine says.
    #[error("the engine cannot {what}: {text} ({code})")]
    Engine {
        /// What was tried.
        what: &'static str,
        /// The engine's code; positive ones are the system's.
        code: i32,
        /// The engine's words.
        text: String,
    },
}

impl StoreError {
    /// A file that could not be made, read or written: what the system says becomes that.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            what,
            path: path.into(),
            source,
        }
    }

    /// Whether it is the caller's input that was refused. Nothing has been changed then, and the transaction can go on.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Key(_)
            | Self::Json(_)
            | Self::ValueTooLong { .. }
            | Self::NotANumber { .. }
            | Self::NumberTooLong { .. }
            | Self::Overlap { .. } => true,
            Self::Index { .. }
            | Self::NotUnique { .. }
            | Self::ReadOnly
            | Self::WritesAlready
            | Self::Broken
            | Self::NotFlushed { .. }
            | Self::FlushesFail { .. }
            | Self::Full { .. }
            | Self::TooManyReaders { .. }
            | Self::TooManyLocks { .. }
            | Self::SnapshotTooOld { .. }
            | Self::ChangesGone { .. }
            | Self::Replay { .. }
            | Self::Damaged { .. }
            | Self::Format { .. }
            | Self::Unrecovered { .. }
            | Self::LogWithoutTree { .. }
            | Self::ForeignLog { .. }
            | Self::Absent { .. }
            | Self::OpenAlready { .. }
            | Self::InUse { .. }
            | Self::File { .. }
            | Self::Engine { .. } => false,
        }
    }
}

fn holders_of(holders: &[u32]) -> String {
    if holders.is_empty() {
        return "already".into();
    }
    let pids: Vec<String> = holders.iter().map(ToString::to_string).collect();
    format!("in another process (pid {})", pids.join(", "))
}
