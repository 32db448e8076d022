//! The connections of this process to the database.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_pg::{BlockingConnection, PgError, Rows, ServerUrl, Settings};
use parking_lot::{Condvar, Mutex};

use super::error::{DatabaseError, is_read_only};

/// Most connections of one process.
pub(super) const CONNECTIONS_MAX: usize = 16;
/// Longest wait for one of them to become free.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);
/// Longest time to open one, for each server of the URL.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a transaction may stay open without a statement before the database ends it. A program that hangs keeps
/// others from writing for so long.
const IDLE_MAX: &str = "set idle_in_transaction_session_timeout = '120s'";
/// Has the database confirm no commit that a crash could take back, whatever is usual there.
const DURABLE: &str = "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'";
/// Longest time a statement takes.
pub(super) const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// A connection idle for longer than this is probed before its next use, for up to [`PROBE_MAX`].
const UNASKED_MAX: Duration = Duration::from_millis(500);
const PROBE_MAX: Duration = Duration::from_secs(1);
/// Longest time to roll a transaction back; a connection that takes longer is closed, which has the same effect.
const ROLLBACK_MAX: Duration = Duration::from_secs(1);
/// Most bytes of one result: one value of 64 MiB, and a page of small ones.
const RESULT_BYTES_MAX: usize = 96 << 20;

/// The connections, and the servers to which they can be opened.
#[derive(Debug)]
pub(super) struct Connections {
    settings: Vec<Settings>,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<(BlockingConnection, Instant)>,
    open: usize,
    /// The server to try first: the one of the last connection.
    server: usize,
}

/// A connection in use. Returned when dropped, without its transaction.
#[derive(Debug)]
pub(super) struct Lease {
    connections: Arc<Connections>,
    connection: Option<BlockingConnection>,
    /// Whether it was used before: it may then be dead, or lead to a server that has become a standby, without anybody having noticed.
    pub(super) is_reused: bool,
    /// Whether the server has become read-only.
    is_read_only: bool,
}

impl Connections {
    pub(super) fn new(servers: Vec<ServerUrl>) -> Self {
        let settings = servers.into_iter().map(|server| Settings {
            server,
            driver: forebay_pg::Driver::Blocking,
            connections_max: CONNECTIONS_MAX,
            connections_min: 0,
            connection_age_max: Duration::MAX,
            idle_timeout: Duration::MAX,
            leak_warning: Duration::MAX,
            in_flight_max: CONNECTIONS_MAX,
            result_bytes_max: RESULT_BYTES_MAX,
            acquire_timeout: ACQUIRE_MAX,
            connect_timeout: CONNECT_MAX,
            slow_query: None,
            statement_timeout: STATEMENT_MAX,
        });
        Self {
            settings: settings.collect(),
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// A free connection, or a new one.
    pub(super) fn take(self: &Arc<Self>) -> Result<Lease, DatabaseError> {
        let until = Instant::now() + ACQUIRE_MAX;
        let mut state = self.state.lock();
        loop {
            if let Some((mut connection, since)) = state.idle.pop() {
                let is_good = |connection: &mut BlockingConnection| {
                    connection.is_usable() && (since.elapsed() < UNASKED_MAX || answers(connection))
                };
                // Probing waits for the network.
                parking_lot::MutexGuard::unlock_fair(state);
                if is_good(&mut connection) {
                    return Ok(self.lease(connection, true));
                }
                drop(connection);
                state = self.state.lock();
                state.open -= 1;
                continue;
            }
            if state.open < CONNECTIONS_MAX {
                state.open += 1;
                let first = state.server;
                drop(state);
                return match self.connect(first) {
                    Ok(connection) => Ok(self.lease(connection, false)),
                    Err(error) => {
                        self.state.lock().open -= 1;
                        self.freed.notify_one();
                        Err(error)
                    }
                };
            }
            if self.freed.wait_until(&mut state, until).timed_out() {
                return Err(DatabaseError::Full {
                    reason: format!(
                        "all {CONNECTIONS_MAX} of this process have been in use for {ACQUIRE_MAX:?}"
                    ),
                });
            }
        }
    }

    /// A new connection that does not count, to the first server that can be written.
    pub(super) fn connect(&self, first: usize) -> Result<BlockingConnection, DatabaseError> {
        let count = self.settings.len();
        let mut failure = None;
        for server in (first..count).chain(0..first) {
            match self.connect_to(&self.settings[server]) {
                Ok(Some(connection)) => {
                    self.state.lock().server = server;
                    return Ok(connection);
                }
                Ok(None) => failure = failure.or(Some(DatabaseError::ReadOnly)),
                Err(error) => failure = Some(DatabaseError::of(&error)),
            }
        }
        Err(failure.expect("a URL has a host"))
    }

    /// `None` if there are other servers and this one is read-only.
    fn connect_to(&self, settings: &Settings) -> Result<Option<BlockingConnection>, PgError> {
        let mut connection = BlockingConnection::connect(settings)?;
        let until = Instant::now() + CONNECT_MAX;
        // Not every database knows these settings.
        connection.run(&[(IDLE_MAX, &[]), (DURABLE, &[])], until);
        if self.settings.len() > 1 {
            let shown = connection
                .run(&[("show transaction_read_only", &[])], until)
                .remove(0)?;
            if shown.rows.first().and_then(|row| row.text(0)) == Some(b"on") {
                return Ok(None);
            }
        }
        Ok(Some(connection))
    }

    /// Number of the server of the last connection.
    pub(super) fn server(&self) -> usize {
        self.state.lock().server
    }

    fn lease(self: &Arc<Self>, connection: BlockingConnection, is_reused: bool) -> Lease {
        Lease {
            connections: Arc::clone(self),
            connection: Some(connection),
            is_reused,
            is_read_only: false,
        }
    }
}

fn answers(connection: &mut BlockingConnection) -> bool {
    let until = Instant::now() + PROBE_MAX;
    connection.run(&[("", &[])], until).iter().all(Result::is_ok)
}

impl Lease {
    /// Runs statements; the error is that of the first one that failed. What the server warns of afterwards is about these.
    pub(super) fn run_all(&mut self, statements: &[(&str, &[Option<&[u8]>])]) -> Result<Vec<Rows>, PgError> {
        self.take_warned();
        let outcomes = self.run(statements, Instant::now() + STATEMENT_MAX);
        let rows: Result<Vec<Rows>, PgError> = outcomes.into_iter().collect();
        self.is_read_only |= rows.as_ref().is_err_and(is_read_only);
        rows
    }
}

impl Deref for Lease {
    type Target = BlockingConnection;

    fn deref(&self) -> &BlockingConnection {
        self.connection.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut BlockingConnection {
        self.connection.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut connection = self.connection.take().expect("it is dropped once");
        if connection.is_in_transaction() {
            connection.run(&[("rollback", &[])], Instant::now() + ROLLBACK_MAX);
        }
        let mut state = self.connections.state.lock();
        if connection.is_usable() && !connection.is_in_transaction() && !self.is_read_only {
            state.idle.push((connection, Instant::now()));
        } else {
            state.open -= 1;
        }
        drop(state);
        self.connections.freed.notify_one();
    }
}
