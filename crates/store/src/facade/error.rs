//! Errors of a session, each with a stable code that programs compare.

use crate::StoreError;

/// Why a session did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session was closed.
    #[error("the store is closed")]
    Closed,
    /// A session that cannot be closed inside a transaction or snapshot.
    #[error("the store cannot be closed inside a transaction or a snapshot")]
    Busy,
    /// A commit or rollback without a matching begin.
    #[error("no transaction is open")]
    NoTransaction,
    /// The end of a snapshot without a matching begin.
    #[error("no snapshot is open")]
    NoSnapshot,
    /// A commit of a transaction with a nested one that was rolled back.
    #[error("a nested transaction has failed, so the outer one cannot be committed")]
    Aborted,
    /// Held transactions had to be committed before this operation, and that failed. [`Session::settle`] reports it to
    /// those who made them.
    ///
    /// [`Session::settle`]: super::Session::settle
    #[error("a commit shared with earlier requests failed: {reason}")]
    NotSettled {
        /// Error of the commit.
        reason: String,
    },
    /// A write inside a snapshot.
    #[error("nothing can be written inside a snapshot")]
    InSnapshot,
    /// A wait that its [`WaitPolicy`] ended; nothing was written or locked.
    ///
    /// [`WaitPolicy`]: super::Patience
    #[error("timed out waiting for other writers to the store")]
    GivenUp,
    /// Text that is not UTF-8.
    #[error("the text is not well-formed Unicode (a lone surrogate, or bytes that are not UTF-8)")]
    NotText,
    /// Malformed arguments, such as none of our bindings pass.
    #[error("the arguments of this call cannot be read")]
    Malformed,
}

impl SessionError {
    /// Stable error code for programs, independent of the message.
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

/// The same code for an error of the store.
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
        StoreError::InDoubt { .. } => "in_doubt",
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
        StoreError::Database { error, .. } => error.code(),
        StoreError::Moved => "moved",
        StoreError::InDatabase { .. } => "in_database",
        StoreError::Copy { .. } => "copy",
        StoreError::Engine { .. } => "engine",
    }
}
