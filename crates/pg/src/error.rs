//! What goes wrong between here and a server.

use std::{fmt, io, time::Duration};

use crate::settings::ServerUrl;

/// An error that the server has told (manual, 53.8).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ServerError {
    /// SQLSTATE: five characters, whose first two are the class (manual, appendix A).
    pub code: String,
    /// In one line.
    pub message: String,
    /// More of it, and what to do.
    pub detail: Option<String>,
    /// What may be done about it.
    pub hint: Option<String>,
    /// Where in the statement, in characters from 1.
    pub position: Option<usize>,
    /// The constraint that was violated.
    pub constraint: Option<String>,
    /// The number of the parameter that could not be read, from 1.
    pub parameter: Option<usize>,
    /// The routine of the server's sources that tells it.
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
    /// The server refused it.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// The connection broke while the statement was on it; whether it took effect is not known.
    #[error("the connection broke: {reason}")]
    Broken {
        /// Why.
        reason: String,
    },
    /// There is no connection, and none could be made.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Host and port.
        address: String,
        /// Why.
        reason: String,
    },
    /// What the server sent is not the protocol.
    #[error("the server sent what is not the protocol: {reason}")]
    Protocol {
        /// What.
        reason: String,
    },
    /// The way of logging in that the server asks for is not known here.
    #[error(
        "the server asks for authentication by {method}; trust, password, md5 and scram-sha-256 are known"
    )]
    Authentication {
        /// Which.
        method: String,
    },
    /// The connection cannot be encrypted, or not with this server.
    #[error("TLS: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
    /// The statement cannot be written as a message.
    #[error("the statement cannot be sent: {reason}")]
    Unsendable {
        /// Why.
        reason: String,
    },
    /// A statement about its whole connection, which others use too.
    #[error("`{keyword}` affects the whole connection, which statements share; use a transaction")]
    Session {
        /// How it begins.
        keyword: &'static str,
    },
    /// The statement was cancelled together with another one on its connection, and was not run again because it may change something. It has had no effect.
    #[error("the statement was cancelled together with another one on its connection; it has had no effect")]
    Hit,
    /// A statement of the transaction had failed, so that it could not be committed.
    #[error("the transaction is rolled back, because a statement in it has failed")]
    RolledBack,
    /// A result that is to be in memory as a whole and is too large for that.
    #[error("the result is larger than {result_bytes_max} bytes (result_bytes_max)")]
    TooLarge {
        /// How large it may be.
        result_bytes_max: usize,
    },
    /// As many statements as may are under way or wait.
    #[error("source is full (in_flight_max {in_flight_max})")]
    Full {
        /// How many that is.
        in_flight_max: usize,
    },
    /// As many listen as may.
    #[error("{listeners_max} listen already (listeners_max)")]
    TooManyListeners {
        /// How many that is.
        listeners_max: usize,
    },
    /// It took too long.
    #[error("{what} took longer than {limit:?}")]
    TimedOut {
        /// What.
        what: Stage,
        /// How long it may.
        limit: Duration,
    },
}

/// What has a time limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Until there is a connection for it. Nothing has been sent.
    Acquire,
    /// Until a new connection can be used. Nothing has been sent.
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

/// What kind of failure it is, for programs: SQLSTATE where the server has said it, else one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code<'e> {
    /// SQLSTATE: five characters, whose first two are the class (manual, appendix A).
    State(&'e str),
    /// As much is under way as may be; nothing was sent.
    Full,
    /// It took too long, and was cancelled.
    Timeout,
    /// There is no connection to the server; nothing was sent.
    Unreachable,
    /// The connection broke meanwhile; whether it took effect is not known.
    Broken,
    /// It was cancelled with another one on its connection, without effect.
    Cancelled,
    /// A statement of the transaction had failed; nothing of it has taken effect.
    RolledBack,
    /// The result does not fit into what it may have of the memory.
    TooLarge,
    /// It is about the whole connection, which others use too; nothing was sent.
    Session,
    /// It cannot be written as a message; nothing was sent.
    NotSendable,
}

impl<'e> Code<'e> {
    /// As programs are given it.
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

/// SQLSTATE of a statement that was cancelled.
const CANCELLED: &str = "57014";
/// SQLSTATE of a name that no prepared statement has.
const UNPREPARED: &str = "26000";
/// SQLSTATE of what the server does not do, and the routine that says so of a plan whose result would be another one by now.
const STALE: (&str, &str) = ("0A000", "RevalidateCachedQuery");

/// What becomes of a statement that has failed.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Who waits for it is told this.
    Told(PgError),
    /// Its plan is out of date, or it was cancelled in the place of another one: it is to be run once more, and this is told where that cannot be.
    Again(PgError),
}

impl PgError {
    /// What kind of failure it is: the one classification that others are made of.
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

    /// Whether another transaction stood in its way: it has had no effect, and may have one when it is run again (manual, 13.5).
    pub fn is_conflict(&self) -> bool {
        matches!(self.code(), Code::State("40001" | "40P01"))
    }

    /// Whether the server has cancelled the statement.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Server(error) if error.code == CANCELLED)
    }

    /// What becomes of a statement that has come to this; `is_exposed`: another one was to be cancelled while it was on the connection, `is_repeatable`: to run it twice changes nothing.
    pub(crate) fn fate(self, is_exposed: bool, is_repeatable: impl FnOnce() -> bool) -> Fate {
        if is_exposed && self.is_cancelled() {
            if is_repeatable() {
                Fate::Again(self)
            } else {
                Fate::Told(Self::Hit)
            }
        } else if self.is_stale() {
            Fate::Again(self)
        } else {
            Fate::Told(self)
        }
    }

    /// Whether the statement has to be prepared anew.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Server(error) if error.code == UNPREPARED
            || (error.code == STALE.0 && error.routine.as_deref() == Some(STALE.1)))
    }

    /// The same for a connection that does not come to be.
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
