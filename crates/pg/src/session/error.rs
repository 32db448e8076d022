//! Errors of operations.

use std::time::Duration;

use crate::PgError;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlSessionError {
    /// Malformed operation.
    #[error("an operation on databases cannot be read: {reason}")]
    Malformed {
        /// Description of the error.
        reason: String,
    },
    /// There is no operation of this name.
    #[error("there is no operation `{op}` on databases; there are {known}")]
    UnknownOperation {
        /// Name of the requested operation.
        op: String,
        /// Names of all operations.
        known: String,
    },
    /// The handler may not use this database.
    #[error("database `{name}` may not be reached: {}", allowed_text(.allowed))]
    NotAllowed {
        /// Name of the requested database.
        name: String,
        /// Names of the databases it may use.
        allowed: Vec<String>,
    },
    /// Too many objects are open.
    #[error("{open_max} transactions, cursors, copies and listeners are open already (open_max)")]
    TooManyOpen {
        /// The limit on open objects.
        open_max: usize,
    },
    /// The object has ended, or was never open.
    #[error("nothing is open as {id}: it has ended, or failed")]
    NotOpen {
        /// Its id in the request.
        id: u32,
    },
    /// The object was still in use when the deadline passed.
    #[error("what is open as {id} was in use by others for {limit:?}")]
    InUse {
        /// Its id in the request.
        id: u32,
        /// How long the operation waited for it.
        limit: Duration,
    },
    /// The transaction has no such savepoint.
    #[error("the transaction has no savepoint {savepoint}")]
    NoSavepoint {
        /// Id of the savepoint.
        savepoint: u32,
    },
    /// An error of the database, or of the connection to it.
    #[error("{error}")]
    Pg {
        /// Name of the database.
        database: String,
        /// Error of the statement or connection.
        error: PgError,
    },
}

/// Lists the databases in `allow`, for an error message.
pub(super) fn allowed_text(allowed: &[String]) -> String {
    if allowed.is_empty() {
        "its `allow` names none in `sql`".to_owned()
    } else {
        format!("its `allow` names {}", allowed.join(", "))
    }
}

impl SqlSessionError {
    /// Error code for programs; for errors of the database, the SQLSTATE.
    pub fn code(&self) -> &str {
        match self {
            Self::Malformed { .. } => "malformed",
            Self::UnknownOperation { .. } => "unknown_operation",
            Self::NotAllowed { .. } => "not_allowed",
            Self::TooManyOpen { .. } => "too_many_open",
            Self::NotOpen { .. } => "not_open",
            Self::InUse { .. } => "timeout",
            Self::NoSavepoint { .. } => "no_savepoint",
            Self::Pg { error, .. } => error.code().as_str(),
        }
    }
}
