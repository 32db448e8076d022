//! `sql` of routes, and the number of threads that run statements.

use std::{collections::BTreeMap, path::PathBuf};

use forebay_pg::Isolation;

use super::{Config, Pool, Script, Workflow};

/// Statements run by a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlRoute {
    /// A key of [`Config::sql`].
    pub source: String,
    /// At least one, in order.
    pub statements: Vec<SqlStatement>,
    /// The isolation level of the transaction around them; `None`: a single statement without one.
    pub transaction: Option<Isolation>,
    /// Parameters that are null if a request does not have them.
    pub optional: Vec<String>,
    /// The part of the last statement's result that is the response.
    pub result: SqlResult,
}

/// One statement.
#[derive(Debug, Clone)]
pub struct SqlStatement {
    /// The statement as written.
    pub query: String,
    /// The statement with numbered parameters in place of names.
    pub sql: forebay_pg::Sql,
    /// The file that contains it.
    pub file: PathBuf,
    /// The line where it begins.
    pub line: usize,
}

impl PartialEq for SqlStatement {
    /// Ignores the position in the file.
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
    /// The first column of the first row.
    Value,
    /// All rows as they arrive, one JSON value per line.
    Ndjson,
    /// All rows as they arrive, in the CSV format of RFC 4180 after a line of column names.
    Csv,
}

impl SqlResult {
    /// The word used in the configuration.
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
    /// Number of threads that run statements on a database: I/O threads for routes, the executors of scripts and rules that may use it, and
    /// one thread for handlers in pools, unless these connect themselves.
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
