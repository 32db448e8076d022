//! What a session can fail with, and the one word for each that programs compare.

use crate::StoreError;

/// Why a session did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// What the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session that was closed.
    #[error("the store is closed")]
    Closed,
    /// A session that cannot be closed now.
    #[error("the store cannot be closed inside a transaction or a snapshot")]
    Busy,
    /// A commit or a rollback without a beginning.
    #[error("no transaction is open")]
    NoTransaction,
    /// The end of a snapshot without a beginning.
    #[error("no snapshot is open")]
    NoSnapshot,
    /// A transaction, an inner part of which was rolled back.
    #[error("a nested transaction has failed, so the outer one cannot be committed")]
    Aborted,
    /// An operation before which others were to be committed, which failed; those who made them are told by [`Session::settle`].
    ///
    /// [`Session::settle`]: super::Session::settle
    #[error("a commit shared with earlier requests failed: {reason}")]
    NotSettled {
        /// What the commit said.
        reason: String,
    },
    /// A write where only one state is looked at.
    #[error("nothing can be written inside a snapshot")]
    InSnapshot,
    /// A wait whose [`Patience`] was over; nothing was written or locked.
    ///
    /// [`Patience`]: super::Patience
    #[error("timed out waiting for other writers to the store")]
    GivenUp,
    /// Text that is not UTF-8.
    #[error("the text is not well-formed Unicode (a lone surrogate, or bytes that are not UTF-8)")]
    NotText,
    /// Bytes that no program of ours hands over.
    #[error("the arguments of this call cannot be read")]
    Malformed,
}

impl SessionError {
    /// The word by which programs tell errors apart. It stays the same when texts change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => code_of(error),
            Self::Closed => "closed",
            Self::Busy => "busy",
            Self::NoTransaction => "no_transaction",
            Self::NoSnapshot => "no_snapshot",
            Self::Aborted => "aborted",
            Self::NotSettled { .. } => "not_settled",
            Self::InSnapshot => "in_snapshot",
            Self::GivenUp => "given_up",
            Self::NotText => "not_text",
            Self::Malformed => "malformed",
        }
    }
}

/// The same word for what the store says.
pub fn code_of(error: &StoreError) -> &'static str {
    match error {
        StoreError::Key(_) => "key",
        StoreError::Json(_) => "json",
        StoreError::ValueTooLong { .. } => "value_too_long",
        StoreError::NotANumber { .. } => "not_a_number",
        StoreError::NumberTooLong { .. } => "number_too_long",
        StoreError::Overlap { .. } => "overlap",
        StoreError::ReadOnly => "read_only",
        StoreError::Broken => "broken",
        StoreError::NotFlushed { .. } => "not_flushed",
        StoreError::FlushesFail { .. } => "flushes_fail",
        StoreError::Full { .. } => "full",
        StoreError::TooManyReaders { .. } => "too_many_readers",
        StoreError::Index { .. } => "index",
        StoreError::NotUnique { .. } => "not_unique",
        StoreError::WritesAlready => "writes_already",
        StoreError::TooManyLocks { .. } => "too_many_locks",
        StoreError::Replay { .. } => "replay",
        StoreError::ChangesGone { .. } => "changes_gone",
        StoreError::SnapshotTooOld { .. } => "snapshot_too_old",
        StoreError::Damaged { .. } => "damaged",
        StoreError::Format { .. } => "format",
        StoreError::Unrecovered { .. } => "unrecovered",
        StoreError::LogWithoutTree { .. } => "log_without_tree",
        StoreError::ForeignLog { .. } => "foreign_log",
        StoreError::Absent { .. } => "absent",
        StoreError::OpenAlready { .. } => "open_already",
        StoreError::InUse { .. } => "in_use",
        StoreError::File { .. } => "file",
        StoreError::Engine { .. } => "engine",
    }
}
