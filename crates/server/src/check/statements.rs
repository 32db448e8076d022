//! Lets databases prepare the statements of routes, without running any.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use forebay_pg::{Code, PgError, ServerError, Source, Sql};

use crate::config::{Config, ConfigError, Problem, SqlRoute, Target};

/// Limit for preparing one statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of checking a configuration's statements.
#[derive(Debug, Default)]
pub struct CheckedStatements {
    /// Statements that cannot run.
    pub problems: Vec<Problem>,
    /// Databases that could not be reached, with the reason.
    pub unreached: BTreeMap<String, String>,
}

/// Checks the statements of all routes. A database is skipped after the first failure to reach it.
pub async fn check_statements(config: &Config) -> CheckedStatements {
    let source = |name: &str| Source::new(name, config.sql[name].settings(), 1);
    ask(config, source).await
}

/// Like [`check_statements`], on the given connections.
pub(crate) async fn ask(config: &Config, source: impl Fn(&str) -> Source) -> CheckedStatements {
    let mut checked = CheckedStatements::default();
    let mut sources: BTreeMap<&str, Source> = BTreeMap::new();
    for route in &config.routes {
        let Target::Sql(route) = &route.target else {
            continue;
        };
        if checked.unreached.contains_key(&route.source) {
            continue;
        }
        let source = sources
            .entry(&route.source)
            .or_insert_with(|| source(&route.source));
        if let Err(error) = ask_of(route, source, &mut checked.problems).await {
            checked.unreached.insert(route.source.clone(), error.to_string());
        }
    }
    checked
}

/// Checks the statements of one route. Fails if the database cannot be reached.
async fn ask_of(route: &SqlRoute, source: &Source, problems: &mut Vec<Problem>) -> Result<(), PgError> {
    let key = match route.transaction() {
        Some(_) => "route.sql.statements",
        None => "route.sql.query",
    };
    for statement in route.statements() {
        let sql = &statement.sql;
        let deadline = Instant::now() + STATEMENT_TIMEOUT;
        let message = match source.describe(sql.text(), deadline).await {
            Ok(_) => continue,
            Err(PgError::Server(error)) if is_about_statement(&error) => told(&error, sql, &statement.query),
            Err(error) if error.code() == Code::NotSendable => error.to_string(),
            Err(error) => return Err(error),
        };
        problems.push(Problem {
            file: statement.file.clone(),
            line: statement.line,
            key: key.to_owned(),
            suggestion: None,
            message,
        });
        // Later statements may depend on what this one creates.
        break;
    }
    Ok(())
}

/// Whether the error is about the statement, not a server that is starting, stopping or overloaded (manual, appendix A).
fn is_about_statement(error: &ServerError) -> bool {
    !error.is_fatal
        && !matches!(
            error.code.as_bytes(),
            [b'0', b'8', ..] | [b'5', b'3' | b'7' | b'8', ..]
        )
}

fn told(error: &ServerError, sql: &Sql, written: &str) -> String {
    let mut message = error.to_string();
    if let Some(position) = error.position.and_then(|position| position.checked_sub(1)) {
        let byte = sql
            .text()
            .char_indices()
            .nth(position)
            .map_or(sql.text().len(), |(at, _)| at);
        let before = &written[..sql.written_at(byte)];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&letter| letter != '\n').count() + 1;
        let _ = write!(message, ", at line {line}, column {column} of the statement");
    }
    if let Some(hint) = &error.hint {
        message.push_str("; ");
        message.push_str(hint);
    }
    message
}

impl CheckedStatements {
    /// Converts the problems into a configuration error, if there are any.
    pub fn verdict(self) -> Result<(), ConfigError> {
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(ConfigError::Invalid {
            problems: self.problems,
        })
    }

    /// Logs the problems as warnings.
    pub(crate) fn warn(&self) {
        for Problem {
            file,
            line,
            key,
            message,
            ..
        } in &self.problems
        {
            tracing::warn!(target: "forebay::sql", file = %file.display(), line, key, "a statement of a route cannot be run: {message}");
        }
        for (source, reason) in &self.unreached {
            tracing::warn!(target: "forebay::sql", source, "the statements of routes are not checked: {reason}");
        }
    }
}
