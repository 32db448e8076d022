//! Checks the databases of a configuration for settings that do not fit ours.

mod diagnosis;

use std::time::{Duration, Instant};

use forebay_pg::{PgError, Source, json::Numbers};
use serde::{Deserialize, Serialize};

pub use self::diagnosis::{Finding, Level};
use crate::config::Config;

/// Number of round trips measured; the median is used.
const ROUND_TRIPS: usize = 21;
/// Limit for all queries to one database.
const PATIENCE: Duration = Duration::from_secs(30);
/// All settings that are queried, in one row.
const QUESTION: &str = "select current_setting('server_version') as version, current_setting('server_version_num')::int as version_num, \
    current_setting('max_connections')::int as max_connections, \
    current_setting('superuser_reserved_connections')::int as superuser_reserved, \
    coalesce(current_setting('reserved_connections', true), '0')::int as reserved, \
    pg_size_bytes(current_setting('shared_buffers')) as shared_buffers, \
    current_setting('synchronous_commit') as synchronous_commit, current_setting('wal_level') as wal_level, \
    current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes, current_setting('ssl') as ssl, \
    current_setting('statement_timeout') as statement_timeout, \
    coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_encrypted, \
    (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as connections, \
    exists (select from pg_extension where extname = 'pg_stat_statements') as has_statistics";

/// The result for one database.
#[derive(Debug, Serialize)]
pub struct Survey {
    /// The NAME of `[sql.NAME]`.
    pub name: String,
    /// The address without the password.
    pub server: String,
    /// The database's settings; `None` if it cannot be reached.
    pub facts: Option<Facts>,
    /// Conclusions from the settings.
    pub findings: Vec<Finding>,
}

/// Settings as the database reports them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "they are PostgreSQL's own names")]
pub struct Facts {
    pub version: String,
    pub version_num: u32,
    pub max_connections: u32,
    pub superuser_reserved: u32,
    pub reserved: u32,
    pub shared_buffers: u64,
    pub synchronous_commit: String,
    pub wal_level: String,
    pub fsync: String,
    pub full_page_writes: String,
    pub ssl: String,
    pub statement_timeout: String,
    pub is_encrypted: bool,
    pub connections: u32,
    pub has_statistics: bool,
    /// Median of several round trips, in microseconds.
    pub round_trip_us: u64,
}

/// Our own settings, against which those of the database are checked.
#[derive(Clone, Debug)]
pub(crate) struct Ours {
    pub(crate) connections_max: usize,
    /// Threads of one server that run statements on it.
    pub(crate) threads: usize,
    /// Number of servers with this configuration.
    pub(crate) servers: usize,
    pub(crate) is_pipelined: bool,
    pub(crate) is_local: bool,
}

/// Checks every database of a configuration used by `servers` servers. Must run within a [`tokio::task::LocalSet`].
pub async fn survey(config: &Config, servers: usize) -> Vec<Survey> {
    let mut surveys = Vec::new();
    for (name, database) in &config.sql {
        let settings = database.settings();
        let server = settings.server.to_string();
        let ours = Ours {
            connections_max: settings.connections_max,
            threads: config.sql_threads(name),
            servers,
            is_pipelined: settings.driver == forebay_pg::Driver::Pipelined,
            is_local: is_local(&server),
        };
        let source = Source::new(name, settings, 1);
        let (facts, findings) = match ask(&source).await {
            Ok(facts) => {
                let findings = diagnosis::judge(&facts, &ours);
                (Some(facts), findings)
            }
            Err(error) => (None, vec![diagnosis::unreachable(&error)]),
        };
        surveys.push(Survey {
            name: name.clone(),
            server,
            facts,
            findings,
        });
    }
    surveys
}

fn is_local(server: &str) -> bool {
    ["@localhost:", "@127.", "@[::1]:"]
        .iter()
        .any(|host| server.contains(host))
}

async fn ask(source: &Source) -> Result<Facts, PgError> {
    let deadline = Instant::now() + PATIENCE;
    let rows = source.query(QUESTION, &[], deadline).await?;
    let mut json = Vec::new();
    if let Some(row) = rows.rows.first() {
        rows.write_row(row, Numbers::Exact, &mut json);
    }
    let mut facts: Facts = serde_json::from_slice(&json).map_err(|error| PgError::Protocol {
        reason: format!("its settings are not what PostgreSQL's are: {error}"),
    })?;
    let mut trips = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        source.query("select 1", &[], deadline).await?;
        trips.push(begun.elapsed());
    }
    trips.sort();
    facts.round_trip_us = u64::try_from(trips[ROUND_TRIPS / 2].as_micros()).unwrap_or(u64::MAX);
    Ok(facts)
}
