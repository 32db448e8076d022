//! Errors of the store, each with its limit and the value found.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{database::DatabaseError, json::JsonError, key::KeyError};

/// [`StoreError::Full`]'s reason when a transaction writes more than it may.
pub(crate) const TRANSACTION_FULL: &str = "one transaction can write 1 GiB";

/// Why an operation of the store failed. Nothing has been changed then: a transaction in which an operation failed
/// halfway can only be rolled back. The exceptions are [`StoreError::NotFlushed`], whose commit stands, and
/// [`StoreError::InDoubt`], whose commit the next process that opens the store may apply.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An invalid name of a global, or an invalid subscript.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Text that is not acceptable JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A value longer than [`Options::value_bytes_max`](crate::Options::value_bytes_max).
    #[error("value of {bytes} bytes is too long (value_bytes_max {max})")]
    ValueTooLong {
        /// Length of its canonical text.
        bytes: usize,
        /// The limit, [`Options::value_bytes_max`](crate::Options::value_bytes_max).
        max: usize,
    },
    /// An increment of a value that is not a number.
    #[error("cannot increment {found}: it is no number")]
    NotANumber {
        /// Beginning of the value's text.
        found: String,
    },
    /// A sum with more digits than are stored exactly.
    #[error("cannot increment {found} by {by}: the sum has more than {max} digits")]
    NumberTooLong {
        /// The number as stored.
        found: String,
        /// The number that was to be added.
        by: String,
        /// Most digits of a sum.
        max: usize,
    },
    /// A subtree that was to be copied into itself, or over a node that contains it.
    #[error("cannot merge {from} into {to}: one holds the other")]
    Overlap {
        /// Path of the source.
        from: String,
        /// Path of the target.
        to: String,
    },
    /// An invalid index, or a query that it cannot answer.
    #[error("index `{name}`: {reason}")]
    Index {
        /// Name of the index.
        name: String,
        /// Why it is invalid.
        reason: String,
    },
    /// A record with the same values as another one, in a unique index.
    #[error("index `{index}` is unique, and record {record} has the same values")]
    NotUnique {
        /// Name of the index.
        index: String,
        /// Subscript of the record that already has them.
        record: String,
    },
    /// A write to a store opened read-only.
    #[error("the store was opened for reading only")]
    ReadOnly,
    /// A second write transaction, or a flush, on a thread that already has a write transaction open and would
    /// deadlock.
    #[error("this thread has a transaction open already")]
    WritesAlready,
    /// A transaction in which an operation failed halfway.
    #[error("an operation of this transaction has failed: it can only be rolled back")]
    Broken,
    /// A commit that stands, but may not be on the disk.
    #[error("committed, but the flush to the disk failed: {reason}")]
    NotFlushed {
        /// Error of the flush.
        reason: String,
    },
    /// A write or flush after a failed flush: the operating system does not retry writes that failed once.
    #[error(
        "nothing can be written until the store is opened anew, since a flush to the disk has failed: {reason}"
    )]
    FlushesFail {
        /// Error of the first failed flush.
        reason: String,
    },
    /// A commit that failed, and whose record could not be removed from the log either; and every write after it, until
    /// the record is removed. Each write tries that, and so does a leading process every second.
    #[error(
        "a commit has failed ({failure}), and its record cannot be removed from the log of changes ({reason}): nothing can be written until it is, and a process that opens the store before that applies it"
    )]
    InDoubt {
        /// Error of the commit.
        failure: String,
        /// Why the record is still there.
        reason: String,
    },
    /// No room: on the disk, or up to `map_max`.
    #[error("the store is full: {reason}")]
    Full {
        /// The resource that has run out.
        reason: &'static str,
    },
    /// Too many concurrent readers in all processes.
    #[error("too many readers at the same time (readers_max {max})")]
    TooManyReaders {
        /// The limit, [`Options::readers_max`](crate::Options::readers_max).
        max: u32,
    },
    /// More locks than one owner may hold.
    #[error("too many locks at the same time (at most {max} names, those above the locked ones included)")]
    TooManyLocks {
        /// Most names that one owner may lock, including the nodes above them.
        max: usize,
    },
    /// A snapshot that has been read from for longer than `reader_age_max`.
    #[error("this snapshot is too old to be read from (reader_age_max {max:?}); begin another")]
    SnapshotTooOld {
        /// The limit, [`Options::reader_age_max`](crate::Options::reader_age_max).
        max: Duration,
    },
    /// A log that cannot be replayed here.
    #[error("cannot do the changes again: {reason}")]
    Replay {
        /// Why it cannot.
        reason: &'static str,
    },
    /// Changes missing from the log: dropped for their age, lost in a power cut, or not made yet.
    #[error("the log of changes does not go on from {since}; read everything anew and go on from there")]
    ChangesGone {
        /// The last change the caller has seen.
        since: u64,
        /// The first available change after it.
        oldest: u64,
    },
    /// Stored bytes that differ from what was written.
    #[error("the store is damaged: {what}")]
    Damaged {
        /// Location and kind of the damage.
        what: String,
    },
    /// A store in another version of the file format.
    #[error("the store in {} has format {found}; this program reads format {expected}", path.display())]
    Format {
        /// The store's folder.
        path: PathBuf,
        /// Format version found in the file.
        found: String,
        /// Format version that this program reads and writes.
        expected: u32,
    },
    /// A store opened read-only whose log has commits that its tree lacks, as after a power cut.
    #[error("the store in {} must be opened for writing once: its log has commits that its tree lacks", path.display())]
    Unrecovered {
        /// The store's folder.
        path: PathBuf,
    },
    /// A change log whose tree is missing or truncated. Nothing has been changed.
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
        /// State of the tree's file, as a predicate: `is missing`, or its size.
        found: String,
        /// First change in the log.
        first: u64,
        /// Last complete change in the log.
        last: u64,
    },
    /// A change log that does not continue where the tree ends. Nothing has been changed.
    #[error(
        "the tree in {} ends with change {since}, and the log of changes beside it goes on with {oldest}: they do not belong together. \
         Put back the tree that belongs to the log, or make the store anew from a backup: `forebay store restore BACKUP --changes {} --data NEW`",
        path.display(),
        path.display()
    )]
    ForeignLog {
        /// The store's folder.
        path: PathBuf,
        /// Last change in the tree.
        since: u64,
        /// Next change in the log.
        oldest: u64,
    },
    /// A folder without a store, where one was expected.
    #[error("there is no store in {}", path.display())]
    Absent {
        /// Path that was to be opened.
        path: PathBuf,
    },
    /// A store that this process already has open with other options.
    #[error("the store in {} is open in this process already, with {option} {found}, not {wanted}", path.display())]
    OpenAlready {
        /// The store's folder.
        path: PathBuf,
        /// Name of the first option that differs.
        option: &'static str,
        /// Value it was opened with.
        found: String,
        /// Value requested this time.
        wanted: String,
    },
    /// A store that is open, where exclusive access is required.
    #[error("the store in {} is open {}", path.display(), holders_of(holders))]
    InUse {
        /// The store's folder.
        path: PathBuf,
        /// Process ids that have it open, as far as this user may see them; empty when it is this process.
        holders: Vec<u32>,
    },
    /// A failed operation on a file or folder next to the tree.
    #[error("cannot {what} {}", path.display())]
    File {
        /// Attempted operation, as a verb.
        what: &'static str,
        /// File or folder it was attempted on.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// An error of the store's database.
    #[error("the store's database{}{server}: {error}", if server.is_empty() { "" } else { " " })]
    Database {
        /// Its URL, without the password.
        server: String,
        /// What went wrong.
        error: DatabaseError,
    },
    /// A commit came between two reads that must be of one state; they can be repeated.
    #[error("the store has changed between two reads that belong together; read again")]
    Moved,
    /// What only a store in a folder has.
    #[error(
        "the store is in a database, which has no {what}: use `forebay store copy`, or the database's own means"
    )]
    InDatabase {
        /// What was asked for.
        what: &'static str,
    },
    /// A copy of a store that cannot be made, or is none.
    #[error("cannot copy the store: {reason}")]
    Copy {
        /// What is wrong with the place to copy to, as a sentence about it.
        reason: String,
    },
    /// Any other error of the engine.
    #[error("the engine cannot {what}: {text} ({code})")]
    Engine {
        /// Attempted operation, as a verb.
        what: &'static str,
        /// The engine's error code; positive codes are `errno` values.
        code: i32,
        /// The engine's message.
        text: String,
    },
}

impl StoreError {
    /// Maps an I/O error on `path` to [`StoreError::File`].
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            what,
            path: path.into(),
            source,
        }
    }

    /// Whether the caller's input was rejected. Nothing has been changed then, and the transaction can continue.
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
            | Self::InDoubt { .. }
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
            | Self::Database { .. }
            | Self::Moved
            | Self::InDatabase { .. }
            | Self::Copy { .. }
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
