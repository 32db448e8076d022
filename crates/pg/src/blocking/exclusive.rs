//! A connection for one thread at a time, which nobody else uses between its statements.

use std::time::Instant;

use super::{Connection, Statement, StatementLimits, Usage};
use crate::{Ask, PgError, Rows, Settings, Stage, protocol::Transaction};

/// A connection whose thread waits for its statements, and may keep transactions open. Parameters and results are
/// binary. Closed when dropped, which rolls back an open transaction.
#[derive(Debug)]
pub struct BlockingConnection(Connection);

impl BlockingConnection {
    /// Connects and logs in, within the settings' connect timeout. Of the limits only this, the statement timeout and
    /// the size of a result apply.
    pub fn connect(settings: &Settings) -> Result<Self, PgError> {
        Connection::connect(settings, Usage::Exclusive).map(Self)
    }

    /// Runs statements one after another, without waiting for an answer between those that are prepared; returns the
    /// outcome of each. Inside a transaction a failed one makes the server reject those after it. Those that take longer
    /// than `until` are cancelled.
    pub fn run(
        &mut self,
        statements: &[(&str, &[Option<&[u8]>])],
        until: Instant,
    ) -> Vec<Result<Rows, PgError>> {
        let begun = Instant::now();
        let statements: Vec<Statement> = statements
            .iter()
            .map(|(text, parameters)| Statement::from(&Ask::new(text, parameters)))
            .collect();
        let mut outcomes: Vec<Option<Result<Rows, PgError>>> = statements.iter().map(|_| None).collect();
        let mut done = 0;
        while done < statements.len() && !self.0.is_broken() {
            done += self.0.run(
                &statements[done..],
                &StatementLimits::until(until),
                &mut |number, outcome| outcomes[done + number] = Some(outcome),
            );
        }
        let mut last = PgError::Broken {
            reason: "an earlier statement has failed".into(),
        };
        let mut ended = |outcome: Option<Result<Rows, PgError>>| {
            let outcome = outcome.unwrap_or_else(|| Err(last.clone()));
            outcome.map_err(|error| {
                last = match error {
                    PgError::TimedOut { .. } => PgError::TimedOut {
                        what: Stage::Statement,
                        limit: until.saturating_duration_since(begun),
                    },
                    error => error,
                };
                last.clone()
            })
        };
        outcomes.into_iter().map(&mut ended).collect()
    }

    /// Whether it can be used for another statement: not broken, and not closed by the server while it was idle.
    pub fn is_usable(&self) -> bool {
        !self.0.is_broken() && self.0.is_alive()
    }

    /// Whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.0.transaction() != Transaction::None
    }

    /// Whether the server has warned since the last call.
    pub fn take_warned(&mut self) -> bool {
        self.0.take_warned()
    }

    /// Waits until the server sends something without having been asked, such as a notification; false if it does not
    /// before `until`. True at once if a notification has arrived with the answers to statements since the last call.
    pub fn hear(&mut self, until: Instant) -> Result<bool, PgError> {
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(false);
        }
        self.0.hear(wait)
    }
}
