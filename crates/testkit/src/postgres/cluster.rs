//! The folder of one server: its data, its socket and its log. It lies below the system's folder for temporary files, where the server's
//! user can reach it regardless of who owns the sources, and where the path of a socket is short enough.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use postgres::NoTls;

use super::{Error, folders::private_folder, programs::Programs};
use crate::{
    Process,
    port::{PORTS, free_port},
};

/// Longest time for a server to accept connections after its start, and to end.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// Polling interval.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Ports that are tried before giving up.
const PORTS_TRIED: u16 = 64;
/// Lines of a log that an error quotes.
const LINES_QUOTED: usize = 12;

/// One server, running or not.
#[derive(Debug)]
pub(super) struct Cluster {
    programs: Programs,
    folder: PathBuf,
    port: u16,
}

impl Cluster {
    /// An empty folder of its own.
    pub(super) fn empty(programs: Programs) -> Result<Self, Error> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("forebay-postgres-{}-{number}", std::process::id()));
        private_folder(&folder)?;
        let programs = programs
            .give(&folder)
            .and_then(|()| programs.within_reach(&folder));
        match programs {
            Ok(programs) => Ok(Self {
                programs,
                folder,
                port: 0,
            }),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    /// A cluster that another process has made and started.
    pub(super) fn at(programs: Programs, folder: PathBuf, port: u16) -> Self {
        Self {
            programs,
            folder,
            port,
        }
    }

    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The command that runs the server, without its port: `-p PORT`.
    pub(super) fn command(&self) -> Command {
        let mut command = self
            .programs
            .command(self.programs.path("postgres"), &self.folder);
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        if self.programs.can_count_statements() {
            command.args(["-c", "shared_preload_libraries=pg_stat_statements"]);
            command.args(["-c", "pg_stat_statements.track=all"]);
        }
        command
    }

    /// The file for the server's output.
    pub(super) fn log_file(&self) -> Result<File, Error> {
        let path = self.folder.join("log");
        let file = File::options().create(true).append(true).open(&path);
        file.map_err(Error::file("write", path))
    }

    /// The last lines of its log.
    pub(super) fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        last_lines(&log)
    }

    /// The address for users of the benchmarks' database.
    pub(super) fn url(&self) -> String {
        format!(
            "postgres://benchmarkdbuser:benchmarkdbpass@127.0.0.1:{}/hello_world?sslmode=disable",
            self.port
        )
    }

    /// A superuser connection through the socket.
    pub(super) fn admin(&self, database: &str) -> Result<postgres::Client, Error> {
        let client = postgres::Config::new()
            .host_path(&self.folder)
            .port(self.port)
            .user("postgres")
            .dbname(database)
            .application_name("forebay-testkit")
            .connect_timeout(PATIENCE)
            .connect(NoTls)?;
        Ok(client)
    }

    /// Starts the server on a free port, which `start` is given, and returns its process once it accepts connections. It keeps its port
    /// from then on.
    pub(super) fn start(
        &mut self,
        mut start: impl FnMut(&Self) -> Result<Process, Error>,
    ) -> Result<Process, Error> {
        if self.port > 0 {
            let until = Instant::now() + PATIENCE;
            loop {
                let process = start(self)?;
                match self.wait_until_it_answers(process) {
                    Ok(()) => return Ok(process),
                    // The system has given the port to another process meanwhile, for a connection of its own.
                    Err(Error::Ended { .. }) if Instant::now() < until => {}
                    Err(error) => return Err(error),
                }
            }
        }
        for _ in 0..PORTS_TRIED {
            self.port = free_port();
            let process = start(self)?;
            match self.wait_until_it_answers(process) {
                Ok(()) => return Ok(process),
                // Another process took the port first, perhaps for a moment only.
                Err(Error::Ended { log }) if log.contains("Address already in use") => {}
                Err(error) => return Err(error),
            }
        }
        self.port = 0;
        Err(Error::NoPort {
            range: PORTS,
            tried: PORTS_TRIED,
        })
    }

    fn wait_until_it_answers(&self, process: Process) -> Result<(), Error> {
        let begun = Instant::now();
        while !self.is_ready(process) {
            if !process.is_alive() {
                return Err(Error::Ended { log: self.log() });
            }
            if begun.elapsed() > PATIENCE {
                return Err(Error::Silent {
                    seconds: PATIENCE.as_secs(),
                    log: self.log(),
                });
            }
            thread::sleep(LOOK_EVERY);
        }
        self.admin("postgres")?.simple_query("select 1")?;
        Ok(())
    }

    /// Whether the server's state file says that it accepts connections (`src/include/utils/pidfile.h` of PostgreSQL 10 and newer: the
    /// process is line 1, the status line 8).
    fn is_ready(&self, process: Process) -> bool {
        let state = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = state.lines();
        lines.next() == Some(&process.pid.to_string()) && lines.nth(6).map(str::trim) == Some("ready")
    }

    /// Waits until the server's process has ended.
    pub(super) fn wait_for_end(process: Process) -> Result<(), Error> {
        let begun = Instant::now();
        while process.is_alive() {
            if begun.elapsed() > PATIENCE {
                return Err(Error::Endless {
                    pid: process.pid,
                    seconds: PATIENCE.as_secs(),
                });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// The last lines of a program's output.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES_QUOTED)..].join("\n")
}
