//! A real PostgreSQL for development and tests, from the programs that are installed: with the settings and the data of the TechEmpower
//! benchmarks, reached on a free port of this machine and by a socket in a folder of its own, never run by root. Tests have [`Postgres`],
//! which ends with them; `make postgres` has [`resident`], which stays.

mod cluster;
mod error;
mod folders;
mod guard;
mod programs;
pub mod resident;
mod template;

use std::{
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Instant,
};

use self::{
    cluster::{Cluster, LOOK_EVERY, PATIENCE},
    guard::Guard,
    programs::Programs,
};
use crate::Process;

pub use self::error::Error;

/// A PostgreSQL of a test. When this is dropped or the test process ends, in whatever way, the server ends and its files are removed.
#[derive(Debug)]
pub struct Postgres {
    cluster: Cluster,
    guard: Guard,
}

impl Postgres {
    /// Starts a server and waits until it accepts connections. Panics with the reason if it does not.
    pub fn start() -> Self {
        Programs::find()
            .and_then(|programs| Self::of(&programs))
            .unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// As [`Postgres::start`], with the newest version of PostgreSQL, which npm provides (`make deps`), whatever is installed.
    pub fn start_newest() -> Self {
        Programs::newest()
            .and_then(|programs| Self::of(&programs))
            .unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// One server for all tests of this process, started on first use. Tests that stop it, or end the connections of others, start one of
    /// their own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn of(programs: &Programs) -> Result<Self, Error> {
        let mut cluster = template::instance(programs)?;
        let mut guard = Guard::over(&cluster)?;
        cluster.start(|cluster| guard.start(cluster.port()))?;
        Ok(Self { cluster, guard })
    }

    /// `postgres://USER:PASSWORD@127.0.0.1:PORT/hello_world?sslmode=disable`, for a user who owns that database. It stays the same when the
    /// server is started again.
    pub fn url(&self) -> String {
        self.cluster.url()
    }

    /// The folder of the socket, which requires no password.
    pub fn socket_folder(&self) -> &Path {
        self.cluster.folder()
    }

    /// The port, of TCP and in the socket's name.
    pub fn port(&self) -> u16 {
        self.cluster.port()
    }

    /// The last lines of the server's log.
    pub fn log(&self) -> String {
        self.cluster.log()
    }

    /// A superuser connection to `hello_world`, for checks.
    pub fn admin(&self) -> postgres::Client {
        self.cluster
            .admin("hello_world")
            .unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Ends all connections and the server, and waits until it has ended. Its data stays.
    pub fn stop(&mut self) {
        self.guard
            .stop()
            .unwrap_or_else(|error| panic!("{}", chain(&error)));
    }

    /// Kills the server as a crash would. Its data stays, and is recovered by the next start.
    pub fn kill(&mut self) {
        self.guard
            .kill()
            .unwrap_or_else(|error| panic!("{}", chain(&error)));
    }

    /// Starts it again on the same port, and waits until it accepts connections.
    pub fn start_again(&mut self) {
        let guard = &mut self.guard;
        self.cluster
            .start(|cluster| guard.start(cluster.port()))
            .unwrap_or_else(|error| panic!("{}", chain(&error)));
    }

    /// Ends the process behind each connection except those of [`Postgres::admin`], waits until all of these are gone, and returns their
    /// number.
    pub fn kill_backends(&self) -> usize {
        let mut admin = self.admin();
        // The list comes first: otherwise the order of conditions would be free, and each would be applied to every backend.
        let killed = admin.query(
            "with others as materialized (select pid from pg_stat_activity where backend_type = 'client backend' \
             and usename <> current_user) select pid from others where pg_terminate_backend(pid)",
            &[],
        );
        let killed: Vec<i32> = killed
            .expect("an administrator may end connections")
            .iter()
            .map(|row| row.get(0))
            .collect();
        let begun = Instant::now();
        while admin
            .query_one(
                "select count(*) from pg_stat_activity where pid = any ($1)",
                &[&killed],
            )
            .expect("the server still answers")
            .get::<_, i64>(0)
            > 0
        {
            assert!(
                begun.elapsed() < PATIENCE,
                "waited {PATIENCE:?} for connections to end"
            );
            thread::sleep(LOOK_EVERY);
        }
        killed.len()
    }
}

/// A schema for a store of a test, in the shared server. It is removed when this is dropped.
#[derive(Debug)]
pub struct Schema {
    name: String,
}

impl Schema {
    /// Reserves a name; whoever opens the URL makes the schema.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self {
            name: format!("store_{}", COUNT.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// The URL of the store.
    pub fn url(&self) -> String {
        format!("{}&schema={}", Postgres::shared().url(), self.name)
    }

    /// Statements in which `SCHEMA` is replaced by the schema's name.
    pub fn filled(&self, statements: &str) -> String {
        statements.replace("SCHEMA", &self.name)
    }

    /// Runs statements as a superuser; `SCHEMA` in them is the schema's name.
    pub fn run(&self, statements: &str) {
        let statements = self.filled(statements);
        let run = Postgres::shared().admin().batch_execute(&statements);
        run.unwrap_or_else(|error| panic!("{statements}: {error}"));
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let dropped = format!("drop schema if exists {} cascade", self.name);
        // A store that is still open may have a lock; the server ends with the process anyway.
        let _ = Postgres::shared()
            .admin()
            .batch_execute(&format!("set lock_timeout = '2s'; {dropped}"));
    }
}

/// An error with its causes, as tests and programs print it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut layers = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        layers.push(error.to_string());
        cause = error.source();
    }
    layers.join(": ")
}
