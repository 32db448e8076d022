//! `sql` of routes, and how many threads run statements.

use std::{collections::BTreeMap, path::PathBuf};

use forebay_pg::Isolation;

use super::{Config, Pool, Script, Workflow};

/// Statements on a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlRoute {
    /// A key of [`Config::sql`].
    pub source: String,
    /// At least one, in order.
    pub statements: Vec<SqlStatement>,
    /// They are one transaction. `None`: there is one statement, by itself.
    pub transaction: Option<Isolation>,
    /// Names of parameters that are null where a request leaves them out.
    pub optional: Vec<String>,
    /// What of the last one's result is the answer.
    pub result: SqlResult,
}

/// One statement.
#[derive(Debug, Clone)]
pub struct SqlStatement {
    /// As it is written.
    pub query: String,
    /// With numbers in the place of names.
    pub sql: forebay_pg::Sql,
    /// The file in which it stands.
    pub file: PathBuf,
    /// Where it begins there.
    pub line: usize,
}

impl PartialEq for SqlStatement {
    /// Where it stands makes no other statement of it.
    fn eq(&self, other: &Self) -> bool {
        self.query == other.query
    }
}

impl Eq for SqlStatement {}

/// `sql.result` of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlResult {
    /// An array of all rows.
    Rows,
    /// The first row; 404 without one.
    Row,
    /// Its first value.
    Value,
    /// All rows, each as JSON in a line of its own, as they come.
    Ndjson,
    /// All rows as RFC 4180 has them, behind a line with the columns' names, as they come.
    Csv,
}

impl SqlResult {
    /// As the configuration says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Row => "row",
            Self::Value => "value",
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
        }
    }
}

impl Config {
    /// Threads that run statements on a database: those of routes, those of scripts and rules that may reach it, and the one that does what handlers in pools ask, unless they connect themselves.
    pub fn sql_threads(&self, database: &str) -> usize {
        let is_direct = self.sql_direct.contains(database);
        threads(
            database,
            is_direct,
            self.server.threads,
            &self.scripts,
            self.workflow.as_ref(),
            &self.pools,
        )
    }
}

pub(crate) fn threads(
    database: &str,
    is_direct: bool,
    io_threads: usize,
    scripts: &BTreeMap<String, Script>,
    workflow: Option<&Workflow>,
    pools: &BTreeMap<String, Pool>,
) -> usize {
    let is_allowed = |allowed: &[String]| allowed.iter().any(|allowed| allowed == database);
    let scripts = scripts.values().filter(|script| is_allowed(&script.allow.sql));
    let rules = workflow.filter(|workflow| is_allowed(&workflow.allow.sql));
    let has_pool = !is_direct && pools.values().any(|pool| is_allowed(&pool.sql));
    io_threads
        + scripts.map(|script| script.executors).sum::<usize>()
        + rules.map_or(0, |workflow| workflow.executors)
        + usize::from(has_pool)
}
