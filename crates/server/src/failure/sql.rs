//! Failures of statements on databases, as clients and the log are told of them.

use std::fmt::{self, Write as _};

use forebay_pg::{Code, PgError, Source};

use super::Class;

/// What a database said, or why it said nothing. A client is told of what it has given wrong itself; what is wrong with the statement or the database goes to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlFailure {
    source: String,
    /// Whether the log is told of it.
    is_told: bool,
    /// The parameter that is wrong.
    parameter: Option<String>,
    error: PgError,
}

impl SqlFailure {
    pub(crate) fn new(source: &Source, parameter: Option<&str>, error: PgError) -> Self {
        let mut failure = Self {
            source: source.name().to_owned(),
            is_told: false,
            parameter: parameter.map(str::to_owned),
            error,
        };
        failure.is_told =
            !failure.is_clients() && failure.error.code() != Code::Full && source.is_told(&failure.error);
        failure
    }

    /// By the class of SQLSTATE (manual, appendix A).
    pub(super) fn class(&self) -> Class {
        match self.error.code() {
            Code::State(state) => match state.as_bytes() {
                // Data exceptions: a value that is no number, or too large for its type.
                [b'2', b'2', ..] => Class::BadInput,
                // Constraints.
                [b'2', b'3', ..] => Class::Conflict,
                // What functions of the database raise for their callers.
                b"P0001" => Class::Unprocessable,
                b"57014" => Class::Deadline,
                // Two transactions stood in each other's way; the server stops, starts, or has no room.
                b"40001" | b"40P01" | [b'0', b'8', ..] | [b'5', b'3' | b'7', ..] => Class::Overload,
                _ => Class::Internal,
            },
            Code::Timeout => Class::Deadline,
            Code::Full | Code::Unreachable | Code::Cancelled => Class::Overload,
            Code::Broken => Class::BadGateway,
            Code::RolledBack | Code::TooLarge | Code::Session | Code::NotSendable => Class::Internal,
        }
    }

    /// Members of the problem beside its text.
    pub(super) fn details(&self) -> String {
        let mut details = String::new();
        let mut member = |name: &str, value: &str| {
            let value = serde_json::Value::from(value);
            let _ = write!(details, ",\"{name}\":{value}");
        };
        if let PgError::Server(error) = &self.error {
            member("sqlstate", &error.code);
            if let Some(constraint) = &error.constraint {
                member("constraint", constraint);
            }
        }
        if let Some(parameter) = &self.parameter {
            member("parameter", parameter);
        }
        details
    }

    /// Whether a client has caused it.
    fn is_clients(&self) -> bool {
        matches!(
            self.class(),
            Class::BadInput | Class::Conflict | Class::Unprocessable
        )
    }

    /// Tells the log of what no client has caused, as far as it bears it.
    pub(super) fn log(&self, request_id: &str) -> bool {
        let Self { source, error, .. } = self;
        if !self.is_told {
            return false;
        }
        tracing::error!(target: "forebay::sql", source, request_id, "{error}");
        true
    }
}

impl fmt::Display for SqlFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            parameter,
            error,
            ..
        } = self;
        match (error, error.code()) {
            (PgError::Server(error), _) if self.is_clients() => match parameter {
                Some(parameter) => write!(formatter, "parameter {parameter:?}: {}", error.message),
                None => formatter.write_str(&error.message),
            },
            (_, Code::Full | Code::Timeout) => write!(formatter, "database `{source}`: {error}"),
            (_, Code::Unreachable) => write!(formatter, "database `{source}` cannot be reached"),
            (_, Code::Broken) => write!(
                formatter,
                "the connection to database `{source}` broke; whether the statement took effect is not known"
            ),
            _ => formatter.write_str("the statement fails; the log says why"),
        }
    }
}
