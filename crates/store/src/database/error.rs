//! Errors of a store in a database, by what can be done about them.

use std::time::Duration;

use forebay_pg::{Code, PgError, Stage};

use super::connections::STATEMENT_MAX;
use crate::error::StoreError;

/// Why a database did not do what the store asked for.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// An address that is not valid.
    #[error("the URL {reason}")]
    Address {
        /// What is wrong with it.
        reason: String,
    },
    /// There is no connection. Nothing has been changed.
    #[error("it cannot be reached: {reason}")]
    Unreachable {
        /// Why connecting failed, or how the connection broke.
        reason: String,
    },
    /// It took too long, and has been cancelled. Nothing has been changed.
    #[error("it did not answer within {limit:?}{}", if *is_write_lock { ", because another program was writing for that long" } else { "" })]
    Late {
        /// The time limit.
        limit: Duration,
        /// Whether other writers were waited for.
        is_write_lock: bool,
    },
    /// It accepts no writes, as a standby does.
    #[error(
        "it is read-only; name all servers in the URL, so that the one that can be written is found: postgres://user@a:5432,b:5432/database"
    )]
    ReadOnly,
    /// No connection is free, in this process or in the database. Nothing has been changed.
    #[error("no connection is free: {reason}")]
    Full {
        /// Whose limit was reached.
        reason: String,
    },
    /// The connection broke during a commit, or the database gave up waiting for a standby, and it could not be found out whether the commit
    /// stands.
    #[error("whether a commit stands could not be found out: {reason}")]
    CommitUnknown {
        /// Why it could not be found out.
        reason: String,
    },
    /// The transaction conflicts with another one. Nothing has been changed; it can be run again.
    #[error("the transaction conflicts with another one and can be run again: {reason}")]
    Conflict {
        /// Message of the database.
        reason: String,
    },
    /// Any other error. Nothing has been changed.
    #[error("{reason}")]
    Other {
        /// Message of the database, or of the driver.
        reason: String,
    },
}

impl DatabaseError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address { .. } => "database_address",
            Self::Unreachable { .. } => "database_unreachable",
            Self::Late { .. } => "database_late",
            Self::ReadOnly => "database_read_only",
            Self::Full { .. } => "database_full",
            Self::CommitUnknown { .. } => "commit_unknown",
            Self::Conflict { .. } => "conflict",
            Self::Other { .. } => "database",
        }
    }

    /// Whether a transaction that failed so can be run again with a chance to succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Unreachable { .. })
    }

    /// Classifies an error of the driver (SQLSTATE: manual, appendix A).
    pub(super) fn of(error: &PgError) -> Self {
        let reason = error.to_string();
        match error.code() {
            Code::State("40001" | "40P01") => Self::Conflict { reason },
            Code::State("25006") => Self::ReadOnly,
            Code::State("53300") => Self::Full { reason },
            Code::State("57014") => Self::Late {
                limit: STATEMENT_MAX,
                is_write_lock: false,
            },
            Code::Timeout => match error {
                PgError::TimedOut { limit, .. } => Self::Late {
                    limit: *limit,
                    is_write_lock: false,
                },
                _ => Self::Other { reason },
            },
            // It is prepared anew when the transaction is run again.
            _ if error.is_stale() => Self::Conflict { reason },
            // 25P03: the transaction was idle for too long.
            Code::State(state)
                if matches!(state, "25P03" | UNSURE)
                    || state.starts_with("57P")
                    || state.starts_with("08") =>
            {
                Self::Unreachable { reason }
            }
            Code::Unreachable | Code::Broken => Self::Unreachable { reason },
            Code::State(_)
            | Code::Full
            | Code::Cancelled
            | Code::RolledBack
            | Code::TooLarge
            | Code::Session
            | Code::NotSendable => Self::Other { reason },
        }
    }
}

/// The database does not know whether it has executed a statement: `statement_completion_unknown`.
const UNSURE: &str = "40003";

/// Whether the connection ended during a statement, or the database lost sight of it, so that its effect is unknown.
pub(super) fn is_broken(error: &PgError) -> bool {
    match error {
        PgError::Server(error) => error.is_fatal || error.code == UNSURE,
        PgError::Broken { .. } | PgError::Protocol { .. } => true,
        PgError::TimedOut { what, .. } => *what == Stage::Statement,
        _ => false,
    }
}

/// Whether the server accepts no writes, as a standby does.
pub(super) fn is_read_only(error: &PgError) -> bool {
    matches!(error.code(), Code::State("25006"))
}

/// The store's error for one of its database.
pub(super) fn failed(server: &str) -> impl FnOnce(DatabaseError) -> StoreError {
    move |error| StoreError::Database {
        server: server.to_owned(),
        error,
    }
}
