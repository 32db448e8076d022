//! Errors of statements and connections.

use std::{fmt, io, time::Duration};

use crate::settings::ServerUrl;

/// An error reported by the server (manual, 53.8).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ServerError {
    /// SQLSTATE: five characters, whose first two are the class (manual, appendix A).
    pub code: String,
    /// Primary message, one line.
    pub message: String,
    /// Secondary message with more details.
    pub detail: Option<String>,
    /// Suggestion what to do about the problem.
    pub hint: Option<String>,
    /// Position in the statement, in characters from 1.
    pub position: Option<usize>,
    /// Name of the violated constraint.
    pub constraint: Option<String>,
    /// Number of the parameter that could not be read, from 1.
    pub parameter: Option<usize>,
    /// Function in the server's source code that reported the error.
    pub routine: Option<String>,
    /// Whether the connection ends with it.
    pub is_fatal: bool,
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (SQLSTATE {})", self.message, self.code)
    }
}

/// Why a statement has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PgError {
    /// The server rejected it.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// The connection broke during the statement; whether it took effect is unknown.
    #[error("the connection broke: {reason}")]
    Broken {
        /// How the connection broke.
        reason: String,
    },
    /// There is no connection, and none could be opened.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Host and port.
        address: String,
        /// Why connecting failed.
        reason: String,
    },
    /// The server violated the protocol.
    #[error("the server sent what is not the protocol: {reason}")]
    Protocol {
        /// Description of the violation.
        reason: String,
    },
    /// The server requests an unsupported authentication method.
    #[error(
        "the server asks for authentication by {method}; trust, password, md5 and scram-sha-256 are known"
    )]
    Authentication {
        /// Name or number of the method.
        method: String,
    },
    /// The connection cannot be encrypted, or not with this server.
    #[error("TLS: {reason}")]
    Tls {
        /// Why TLS failed.
        reason: String,
    },
    /// The statement cannot be encoded as a message.
    #[error("the statement cannot be sent: {reason}")]
    Unsendable {
        /// Why it cannot be encoded.
        reason: String,
    },
    /// A statement that affects its whole connection, which others share.
    #[error("`{keyword}` affects the whole connection, which statements share; use a transaction")]
    Session {
        /// First word of the statement.
        keyword: &'static str,
    },
    /// The statement was cancelled along with another one on its connection, and was not run again because it may
    /// change something. It has had no effect.
    #[error("the statement was cancelled together with another one on its connection; it has had no effect")]
    Hit,
    /// A statement of the transaction had failed, so it could not be committed.
    #[error("the transaction is rolled back, because a statement in it has failed")]
    RolledBack,
    /// A result that must be held in memory is too large.
    #[error("the result is larger than {result_bytes_max} bytes (result_bytes_max)")]
    TooLarge {
        /// The limit, [`Settings::result_bytes_max`](crate::Settings::result_bytes_max).
        result_bytes_max: usize,
    },
    /// Too many statements are running or waiting.
    #[error("source is full (in_flight_max {in_flight_max})")]
    Full {
        /// The limit, [`Settings::in_flight_max`](crate::Settings::in_flight_max).
        in_flight_max: usize,
    },
    /// Too many listeners.
    #[error("{listeners_max} listen already (listeners_max)")]
    TooManyListeners {
        /// Most listeners of a source.
        listeners_max: usize,
    },
    /// It took too long.
    #[error("{what} took longer than {limit:?}")]
    TimedOut {
        /// The stage that timed out.
        what: Stage,
        /// The time limit that applied.
        limit: Duration,
    },
}

/// A stage with its own time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for a connection. Nothing has been sent.
    Acquire,
    /// Opening a new connection. Nothing has been sent.
    Connect,
    /// The statement, from its beginning.
    Statement,
    /// The transaction, from its beginning.
    Transaction,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Acquire => "waiting for a connection",
            Self::Connect => "connecting",
            Self::Statement => "the statement",
            Self::Transaction => "the transaction",
        })
    }
}

/// Error code for programs: the SQLSTATE if the server reported one, otherwise a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code<'e> {
    /// SQLSTATE: five characters, whose first two are the class (manual, appendix A).
    State(&'e str),
    /// Too much is in progress; nothing was sent.
    Full,
    /// It took too long, and was cancelled.
    Timeout,
    /// There is no connection to the server; nothing was sent.
    Unreachable,
    /// The connection broke meanwhile; whether it took effect is unknown.
    Broken,
    /// It was cancelled along with another one on its connection, without effect.
    Cancelled,
    /// A statement of the transaction had failed; nothing has taken effect.
    RolledBack,
    /// The result exceeds its memory limit.
    TooLarge,
    /// It affects the whole connection, which others share; nothing was sent.
    Session,
    /// It cannot be encoded as a message; nothing was sent.
    NotSendable,
}

impl<'e> Code<'e> {
    /// The code as text, as programs see it.
    pub fn as_str(self) -> &'e str {
        match self {
            Self::State(state) => state,
            Self::Full => "full",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Cancelled => "cancelled",
            Self::RolledBack => "rolled_back",
            Self::TooLarge => "too_large",
            Self::Session => "session",
            Self::NotSendable => "not_sendable",
        }
    }
}

impl From<io::Error> for PgError {
    fn from(error: io::Error) -> Self {
        Self::Broken {
            reason: error.to_string(),
        }
    }
}

/// SQLSTATE of a cancelled statement.
const CANCELLED: &str = "57014";
/// SQLSTATE of an unknown prepared statement.
const UNPREPARED: &str = "26000";
/// SQLSTATE of an unsupported feature, and the server's function that reports it when the result type of a cached plan
/// has changed.
const STALE: (&str, &str) = ("0A000", "RevalidateCachedQuery");

/// How to handle a failed statement.
#[derive(Debug)]
pub(crate) enum FailureOutcome {
    /// Report this error to the caller.
    Told(PgError),
    /// Run it again, because its plan is out of date or it was cancelled in place of another one; report this error if
    /// that is not possible.
    Again(PgError),
}

impl PgError {
    /// Classification of the error, on which all others are based.
    pub fn code(&self) -> Code<'_> {
        match self {
            Self::Server(error) => Code::State(&error.code),
            Self::Full { .. }
            | Self::TooManyListeners { .. }
            | Self::TimedOut {
                what: Stage::Acquire, ..
            } => Code::Full,
            Self::TimedOut {
                what: Stage::Statement | Stage::Transaction,
                ..
            } => Code::Timeout,
            Self::TimedOut {
                what: Stage::Connect, ..
            }
            | Self::Connect { .. }
            | Self::Authentication { .. }
            | Self::Tls { .. } => Code::Unreachable,
            Self::Broken { .. } | Self::Protocol { .. } => Code::Broken,
            Self::Hit => Code::Cancelled,
            Self::RolledBack => Code::RolledBack,
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Session { .. } => Code::Session,
            Self::Unsendable { .. } => Code::NotSendable,
        }
    }

    /// Whether it conflicted with another transaction: it has had no effect, and may succeed when run again (manual,
    /// 13.5).
    pub fn is_conflict(&self) -> bool {
        matches!(self.code(), Code::State("40001" | "40P01"))
    }

    /// Whether the server cancelled the statement.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Server(error) if error.code == CANCELLED)
    }

    /// How to handle this error of a statement. `is_exposed`: another statement was to be cancelled while this one was
    /// on the connection; `is_repeatable`: running it twice is harmless.
    pub(crate) fn fate(self, is_exposed: bool, is_repeatable: impl FnOnce() -> bool) -> FailureOutcome {
        if is_exposed && self.is_cancelled() {
            if is_repeatable() {
                FailureOutcome::Again(self)
            } else {
                FailureOutcome::Told(Self::Hit)
            }
        } else if self.is_stale() {
            FailureOutcome::Again(self)
        } else {
            FailureOutcome::Told(self)
        }
    }

    /// Whether the statement must be prepared again: the server has forgotten it, or its result has other columns now.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Server(error) if error.code == UNPREPARED
            || (error.code == STALE.0 && error.routine.as_deref() == Some(STALE.1)))
    }

    /// The error of a connection that could not be opened.
    pub(crate) fn at_start(self, server: &ServerUrl) -> Self {
        let reason = match self {
            Self::Server(error) => error.to_string(),
            Self::Broken { reason } => reason,
            error => return error,
        };
        Self::Connect {
            address: server.to_string(),
            reason,
        }
    }
}
