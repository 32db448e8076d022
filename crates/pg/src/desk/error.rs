//! Why an operation has no outcome of its own.

use std::time::Duration;

use crate::PgError;

/// What is wrong with an operation, or went wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// It cannot be read.
    #[error("an operation on databases cannot be read: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
    /// There is none of this name.
    #[error("there is no operation `{op}` on databases; there are {known}")]
    UnknownOperation {
        /// The name.
        op: String,
        /// Those that there are.
        known: String,
    },
    /// The handler may not reach this database.
    #[error("database `{name}` may not be reached: {}", allowed_text(.allowed))]
    NotAllowed {
        /// The database.
        name: String,
        /// Those that may be.
        allowed: Vec<String>,
    },
    /// As much is open as may be.
    #[error("{open_max} transactions, cursors, copies and listeners are open already (open_max)")]
    TooManyOpen {
        /// How many that is.
        open_max: usize,
    },
    /// What is to be used has ended, or was never open.
    #[error("nothing is open as {id}: it has ended, or failed")]
    NotOpen {
        /// The number that it is said to have.
        id: u32,
    },
    /// It was waited for until its deadline.
    #[error("what is open as {id} was in use by others for {limit:?}")]
    InUse {
        /// The number that it has.
        id: u32,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The transaction has no such savepoint.
    #[error("the transaction has no savepoint {savepoint}")]
    NoSavepoint {
        /// Its number.
        savepoint: u32,
    },
    /// What the database said, or why it said nothing.
    #[error("{error}")]
    Pg {
        /// The database's name.
        database: String,
        /// That.
        error: PgError,
    },
}

/// What `allow` says.
pub(super) fn allowed_text(allowed: &[String]) -> String {
    if allowed.is_empty() {
        "its `allow` names none in `sql`".to_owned()
    } else {
        format!("its `allow` names {}", allowed.join(", "))
    }
}

impl DeskError {
    /// What kind of error it is, in a word; of what the database said the SQLSTATE.
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
