//! A store in a database that speaks PostgreSQL's protocol: its ordered tables are one table of `bytea`, in a schema of
//! its own. `docs/decisions/0041-store-on-postgresql.md` says why it is made like this.

mod commit;
mod connections;
mod cursor;
mod error;
mod known;
mod locks;
mod log;
mod overlay;
mod sql;
mod transaction;
mod watcher;

use std::{
    fmt,
    path::Path,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_pg::{PgError, Row, Rows, ServerUrl};
use parking_lot::Mutex;

use crate::{error::StoreError, opening::Options, sys::WriterQueue};
use connections::{CONNECTIONS_MAX, Connections, Lease, STATEMENT_MAX};
use error::{failed, is_broken, is_read_only};
use sql::{BEGIN_WRITING, IN_ORDER, Statements, number};
use transaction::Head;

pub(crate) use cursor::Cursor;
pub use error::DatabaseError;
pub(crate) use locks::DatabaseLocks;
pub(crate) use log::DatabaseWalk;
pub(crate) use transaction::Transaction;
use watcher::Watcher;

/// Version of the tables and of the records in them.
const FORMAT: u64 = 1;
/// The schema, unless the URL has another one as `schema`.
const SCHEMA: &str = "forebay";
/// Longest name of a schema, as PostgreSQL limits it.
const SCHEMA_BYTES_MAX: usize = 63;
/// How often the tables are created anew because another process was doing the same.
const CREATE_MAX: usize = 10;
/// Pause after a conflict.
const CONFLICT_PAUSE: Duration = Duration::from_millis(2);
/// Largest [`Options::value_bytes_max`] of a store in a database.
pub(crate) const VALUE_BYTES_LIMIT: usize = 64 << 20;

/// A table of the store: a range of keys in the table of the database, by the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Table {
    Nodes = 1,
    Meta = 2,
    Index = 3,
    Expiry = 4,
    Due = 5,
}

impl Table {
    fn key(self, key: &[u8]) -> Vec<u8> {
        [&[self as u8], key].concat()
    }

    fn begin(self) -> Vec<u8> {
        vec![self as u8]
    }

    fn end(self) -> Vec<u8> {
        vec![self as u8 + 1]
    }

    /// Beginning of the table that a key is in.
    fn begin_of(key: &[u8]) -> Vec<u8> {
        key[..1].to_vec()
    }

    fn end_of(key: &[u8]) -> Vec<u8> {
        vec![key[0] + 1]
    }
}

/// The URL of a store in a database: `postgres://user:password@host:5432/database`, or several hosts with commas
/// between them, one of which can be written. The parameter `schema` names the schema of the tables, `forebay` without
/// it; the others are those of [`ServerUrl`].
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    text: String,
    servers: Vec<ServerUrl>,
    schema: String,
}

/// Metadata: each record with the column of its key in the row.
type Meta = Arc<[(Row, usize)]>;

/// An open database.
#[derive(Debug)]
pub(crate) struct Database {
    connections: Arc<Connections>,
    statements: Statements,
    /// The URL without the password.
    pub(crate) address: String,
    reader_age_max: Duration,
    reader_bytes_max: usize,
    /// Lets the threads of this process write in the order of arrival.
    writers: WriterQueue,
    /// The metadata as of the commit that last changed it.
    meta: Mutex<Option<(u64, Meta)>>,
    /// The last commit that this process knows of.
    seen: AtomicU64,
    /// Error of this process's last commit, if it failed.
    commit_failure: Mutex<Option<String>>,
    /// Whether the database has notifications.
    announces: AtomicBool,
    watcher: Mutex<Option<Watcher>>,
}

impl DatabaseUrl {
    /// The URL that the location of a store is, unless it is a folder.
    pub(crate) fn of(location: &Path) -> Option<Result<Self, StoreError>> {
        let text = location.to_str().filter(|text| is_url(text))?;
        Some(text.parse().map_err(failed("")))
    }

    /// The URL including the password, for others that open the store.
    pub fn with_password(&self) -> &str {
        &self.text
    }
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseError;

    fn from_str(text: &str) -> Result<Self, DatabaseError> {
        let wrong = |reason: String| DatabaseError::Address { reason };
        let (servers, mut others) =
            ServerUrl::several(text, &["schema"]).map_err(|error| wrong(error.to_string()))?;
        let schema = others
            .pop()
            .map_or_else(|| SCHEMA.to_owned(), |(_, schema)| schema);
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= SCHEMA_BYTES_MAX
                && name
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        };
        if !is_name(&schema) {
            return Err(wrong(format!(
                "has schema={schema:?}; a schema's name has 1 to {SCHEMA_BYTES_MAX} of a to z, 0 to 9 and _"
            )));
        }
        let text = text.to_owned();
        Ok(Self {
            text,
            servers,
            schema,
        })
    }
}

/// Whether the location of a store is the URL of a database, and not a folder.
pub fn is_url(location: &str) -> bool {
    location.starts_with("postgres://") || location.starts_with("postgresql://")
}

impl fmt::Debug for DatabaseUrl {
    /// Without the password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for DatabaseUrl {
    /// Without the password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.servers[0].to_string();
        let (before, after) = first.split_once('@').expect("a URL has a user");
        let (_, after) = after.split_once('/').expect("a URL has a database");
        write!(formatter, "{before}@")?;
        for (number, server) in self.servers.iter().enumerate() {
            write!(
                formatter,
                "{}{}",
                if number > 0 { "," } else { "" },
                server.host_and_port()
            )?;
        }
        write!(formatter, "/{after}")?;
        if self.schema != SCHEMA {
            write!(formatter, "&schema={}", self.schema)?;
        }
        Ok(())
    }
}

impl Database {
    /// Connects, and creates the tables if the options allow it.
    pub(crate) fn open(address: &DatabaseUrl, options: &Options) -> Result<Arc<Self>, StoreError> {
        let connections = Connections::new(address.servers.clone());
        let database = Self {
            connections: Arc::new(connections),
            statements: Statements::new(&address.schema, locks::LEASE.as_secs(), options.reader_age_max),
            address: address.to_string(),
            reader_age_max: options.reader_age_max,
            reader_bytes_max: options.reader_bytes_max,
            writers: WriterQueue::default(),
            meta: Mutex::default(),
            seen: AtomicU64::new(0),
            commit_failure: Mutex::default(),
            announces: AtomicBool::new(false),
            watcher: Mutex::default(),
        };
        database.prepare(options)?;
        let database = Arc::new(database);
        if options.lead && !options.read_only {
            *database.watcher.lock() = Some(Watcher::start(&database, options.changes_bytes_max)?);
        }
        Ok(database)
    }

    fn prepare(&self, options: &Options) -> Result<(), StoreError> {
        for _ in 0..CREATE_MAX {
            let mut lease = self.connections.take().map_err(failed(&self.address))?;
            match lease.run_all(&[(&self.statements.head, &[])]) {
                Ok(rows) => {
                    let row = rows.first().and_then(|rows| rows.rows.first());
                    let found = row
                        .and_then(|row| row.text(3))
                        .map_or(0, |format| format.try_into().map_or(0, u32::from_be_bytes));
                    if u64::from(found) == FORMAT {
                        self.see(row.map_or(0, |row| number(row.text(0))));
                        let probe: &[Option<&[u8]>] = &[Some(commit::CHANNEL.as_bytes()), Some(b"")];
                        let announced = lease.run_all(&[(commit::ANNOUNCE, probe)]);
                        self.announces.store(announced.is_ok(), Relaxed);
                        return Ok(());
                    }
                    return Err(StoreError::Format {
                        path: self.address.clone().into(),
                        found: found.to_string(),
                        expected: FORMAT as u32,
                    });
                }
                Err(error) if !is_missing(&error) => return Err(self.failed(&error)),
                Err(_) if !options.create || options.read_only => {
                    return Err(StoreError::Absent {
                        path: self.address.clone().into(),
                    });
                }
                Err(_) => {}
            }
            // Without it, reading is only slower.
            let _ = lease.run_all(&[(IN_ORDER, &[])]);
            // Another process that creates the same may make some of these fail; the next round shows what there is.
            let created = self.statements.create.iter().map(|text| {
                let made = lease.run_all(&[(text, &[])]);
                made.err().filter(|error| !is_raced(error))
            });
            if let Some(error) = created.flatten().next() {
                return Err(self.failed(&error));
            }
        }
        Err(StoreError::Absent {
            path: self.address.clone().into(),
        })
    }

    /// A snapshot, which is taken when it is first read.
    pub(crate) fn snapshot(self: &Arc<Self>) -> Transaction {
        Transaction::snapshot(self)
    }

    /// Begins a write transaction: waits until no other program writes, at most as long as a statement may take.
    pub(crate) fn write(self: &Arc<Self>) -> Result<Transaction, StoreError> {
        let inside = self.writers.enter().ok_or(StoreError::WritesAlready)?;
        let begin = [(BEGIN_WRITING, &[][..]), (self.statements.lock.as_str(), &[][..])];
        let (rows, lease) = self.run_anywhere(&begin).map_err(|error| {
            let error = match error {
                DatabaseError::Late { limit, .. } => DatabaseError::Late {
                    limit,
                    is_write_lock: true,
                },
                error => error,
            };
            failed(&self.address)(error)
        })?;
        let row = rows.last().and_then(|rows| rows.rows.first());
        let head = Head::of(row.ok_or_else(|| StoreError::Damaged {
            what: format!("the table of the state of {} has no row", self.address),
        })?);
        self.see(head.sequence);
        // The transaction leaves the queue when it ends.
        std::mem::forget(inside);
        Ok(Transaction::writing(self, lease, head))
    }

    /// Runs the first statements of a transaction, or one by itself: again if they conflict with others, and if the
    /// connection has broken while it was idle, on another one.
    fn run_anywhere(
        &self,
        statements: &[(&str, &[Option<&[u8]>])],
    ) -> Result<(Vec<Rows>, Lease), DatabaseError> {
        let mut replaced = 0;
        let until = Instant::now() + STATEMENT_MAX;
        loop {
            let mut lease = self.connections.take()?;
            match lease.run_all(statements) {
                Ok(rows) => return Ok((rows, lease)),
                Err(error)
                    if lease.is_reused && replaced < CONNECTIONS_MAX && may_succeed_elsewhere(&error) =>
                {
                    replaced += 1;
                }
                Err(error) if is_conflict(&error) && Instant::now() < until => {
                    drop(lease);
                    thread::sleep(CONFLICT_PAUSE);
                }
                Err(error) => return Err(DatabaseError::of(&error)),
            }
        }
    }

    fn failed(&self, error: &PgError) -> StoreError {
        failed(&self.address)(DatabaseError::of(error))
    }

    fn snapshot_end(&self) -> Instant {
        Instant::now() + self.reader_age_max
    }

    /// The metadata, if it was last changed by this commit.
    fn meta(&self, commit: u64) -> Option<Meta> {
        let meta = self.meta.lock();
        let (known, records) = meta.as_ref()?;
        (*known == commit).then(|| Arc::clone(records))
    }

    fn set_meta(&self, commit: u64, records: Vec<(Row, usize)>) {
        *self.meta.lock() = Some((commit, records.into()));
    }

    /// Remembers a commit that exists.
    fn see(&self, commit: u64) {
        self.seen.fetch_max(commit, Relaxed);
    }

    /// Whether commits are announced by notifications.
    fn announces(&self) -> bool {
        self.announces.load(Relaxed)
    }

    /// The last commit that this process knows of: any process's, if this one leads, a moment ago.
    pub(crate) fn last_seen(&self) -> u64 {
        self.seen.load(Relaxed)
    }

    /// Error of this process's last commit, if it failed.
    pub(crate) fn commit_failure(&self) -> Option<String> {
        self.commit_failure.lock().clone()
    }

    /// Tries to write if the last commit has failed: what has been mended is to be noticed without a commit.
    fn probe(self: &Arc<Self>) {
        if self.commit_failure().is_some() && self.write().is_ok() {
            *self.commit_failure.lock() = None;
        }
    }

    /// Runs statements, each by itself.
    fn run(&self, statements: &[(&str, &[Option<&[u8]>])]) -> Result<Vec<Rows>, StoreError> {
        let run = self.run_anywhere(statements);
        run.map(|(rows, _)| rows).map_err(failed(&self.address))
    }
}

/// Whether a table or schema does not exist.
fn is_missing(error: &PgError) -> bool {
    matches!(error.code(), forebay_pg::Code::State("42P01" | "3F000"))
}

/// Whether another process has just created the same.
fn is_raced(error: &PgError) -> bool {
    matches!(
        error.code(),
        forebay_pg::Code::State(
            "23505" | "42P07" | "42P06" | "42710" | "40001" | "XX000" | "42P01" | "3F000"
        )
    )
}

/// Whether the first statements of a transaction may succeed on another connection, or once they are prepared anew.
fn may_succeed_elsewhere(error: &PgError) -> bool {
    (is_broken(error) && !is_late(error)) || is_read_only(error) || error.is_stale()
}

fn is_conflict(error: &PgError) -> bool {
    matches!(DatabaseError::of(error), DatabaseError::Conflict { .. })
}

fn is_late(error: &PgError) -> bool {
    matches!(error, PgError::TimedOut { .. })
}
