//! Errors of database statements, as shown to clients and written to the log.

use std::fmt::{self, Write as _};

use forebay_pg::{Code, PgError, Source};

/// An error from a database or its connection. Clients see errors they caused; errors of the statement or the database go to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlFailure {
    source: String,
    /// Whether to log it: false for errors caused by clients and for repeats beyond the rate limit.
    is_told: bool,
    /// The name of the invalid parameter.
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

    /// The status by the class of the SQLSTATE (manual, appendix A).
    pub(super) fn status(&self) -> u16 {
        match self.error.code() {
            Code::State(state) => match state.as_bytes() {
                // Data exceptions: the value is not a number, or is too large for its type.
                [b'2', b'2', ..] => 400,
                // Constraint violations.
                [b'2', b'3', ..] => 409,
                // Raised by database functions for their callers.
                b"P0001" => 422,
                b"57014" => 504,
                // Transaction conflicts, and a server that is starting, stopping or overloaded.
                b"40001" | b"40P01" | [b'0', b'8', ..] | [b'5', b'3' | b'7', ..] => 503,
                _ => 500,
            },
            Code::Timeout => 504,
            Code::Full | Code::Unreachable | Code::Cancelled => 503,
            Code::Broken => 502,
            Code::RolledBack | Code::TooLarge | Code::Session | Code::NotSendable => 500,
        }
    }

    /// Members of the problem's JSON object besides its text.
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

    /// Whether the client caused it.
    fn is_clients(&self) -> bool {
        matches!(self.status(), 400 | 409 | 422)
    }

    /// Logs the failure, unless a client caused it or the rate limit is reached. Returns whether it was logged.
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
            (_, Code::Full | Code::Timeout | Code::Cancelled) => {
                write!(formatter, "database `{source}`: {error}")
            }
            (PgError::Server(_), _) if error.is_conflict() => {
                write!(
                    formatter,
                    "transactions in database `{source}` stood in each other's way"
                )
            }
            (PgError::Server(_), _) if self.status() == 504 => {
                write!(formatter, "database `{source}` has cancelled the statement")
            }
            (PgError::Server(_), _) if self.status() == 503 => {
                write!(formatter, "database `{source}` takes no statements at the moment")
            }
            (_, Code::Unreachable) => write!(formatter, "database `{source}` cannot be reached"),
            (_, Code::Broken) => write!(
                formatter,
                "the connection to database `{source}` broke; whether the statement took effect is not known"
            ),
            _ => formatter.write_str("the statement fails; the log says why"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_pg::{ServerError, Stage, session::write_pg_error};
    use serde_json::Value;

    use super::*;
    use crate::{failure::Refusal, reply::Body};

    /// The SDKs' response when a handler lets an error escape.
    const HANDLER_FAILED: &str = "the handler failed";

    /// The error described by a test vector.
    fn error_of(told: &Value) -> PgError {
        let text = |name: &str| told[name].as_str().map(str::to_owned);
        let (code, message) = (text("code").unwrap(), text("message").unwrap());
        let timed_out = |what, seconds| PgError::TimedOut {
            what,
            limit: Duration::from_secs(seconds),
        };
        let reason = || message.rsplit(": ").next().unwrap().to_owned();
        match &*code {
            "full" if message.contains("in_flight_max") => PgError::Full { in_flight_max: 4096 },
            "full" => timed_out(Stage::Acquire, 2),
            "timeout" => timed_out(Stage::Statement, 5),
            "unreachable" if message.contains("took") => timed_out(Stage::Connect, 5),
            "unreachable" => PgError::Connect {
                address: "db.example:5432".into(),
                reason: reason(),
            },
            "broken" => PgError::Broken { reason: reason() },
            "cancelled" => PgError::Hit,
            "rolled_back" => PgError::RolledBack,
            "too_large" => PgError::TooLarge {
                result_bytes_max: 16 << 20,
            },
            "session" => PgError::Session { keyword: "begin" },
            "not_sendable" => PgError::Unsendable { reason: reason() },
            _ => PgError::Server(Box::new(ServerError {
                message,
                detail: text("detail"),
                hint: text("hint"),
                constraint: text("constraint"),
                position: text("position").map(|position| position.parse().unwrap()),
                code,
                ..ServerError::default()
            })),
        }
    }

    #[test]
    fn a_route_and_a_handler_that_lets_an_error_through_tell_clients_the_same() {
        let vectors = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../protocol/vectors/sql/problems.json"
        );
        let vectors: Vec<Value> = serde_json::from_slice(&std::fs::read(vectors).unwrap()).unwrap();
        assert!(vectors.len() > 20);
        for vector in vectors {
            let error = error_of(&vector["error"]);
            let mut told = Vec::new();
            write_pg_error(&error, "main", &mut told);
            let told: Value = serde_json::from_slice(&told).unwrap();
            assert_eq!(told["error"], vector["error"]);
            let failure = SqlFailure {
                source: "main".into(),
                is_told: false,
                parameter: None,
                error,
            };
            let reply = Refusal::Sql(failure).reply("r");
            let Body::Bytes(body) = reply.body else {
                panic!("a problem is in memory")
            };
            let mut problem: Value = serde_json::from_slice(&body).unwrap();
            for name in ["type", "title", "request_id"] {
                problem.as_object_mut().unwrap().remove(name);
            }
            if vector["problem"]["detail"] == HANDLER_FAILED {
                problem["detail"] = HANDLER_FAILED.into();
            }
            assert_eq!(problem, vector["problem"]);
        }
    }
}
