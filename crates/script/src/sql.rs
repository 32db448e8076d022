//! Operations of scripts on databases, as far as they are allowed.

use std::time::Instant;

use forebay_pg::{
    Source,
    desk::{self, Statement},
};

use crate::options::Options;

/// Statements that a script waits for together, as it gives them: they are most of what scripts ask of databases.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) source: Source,
    pub(crate) statements: Vec<Statement>,
}

/// The database of a name, if a script may reach it, and else why not.
pub(crate) fn source<'o>(name: &str, options: &'o Options) -> Result<&'o Source, String> {
    desk::source(&options.allow.sql, name).map_err(|error| format!("script `{}`: {error}", options.name))
}

impl Statements {
    /// Runs them until `deadline`; gives the outcome of each as JSON: `[{"rows":[...],"count":1},{"error":{...}}]`.
    pub(crate) async fn run(self, deadline: Instant) -> Vec<u8> {
        desk::run_statements(&self.source, &self.statements, deadline).await
    }
}
