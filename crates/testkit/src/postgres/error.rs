//! Errors of a PostgreSQL for development and tests.

use std::{io, path::PathBuf, process::ExitStatus};

/// Why there is no PostgreSQL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No programs of a server were found.
    #[error(
        "no PostgreSQL is installed: looked for initdb and postgres in {looked}. Install it (Debian: apt-get install postgresql), \
         or name the folder of its programs in FOREBAY_POSTGRES"
    )]
    NotInstalled {
        /// The places that were searched.
        looked: String,
    },
    /// The process runs as root, and the system has no user to run the server as.
    #[error("root may not run PostgreSQL, and /etc/passwd has neither a user postgres nor nobody")]
    NoUser,
    /// A file or folder cannot be used.
    #[error("cannot {what} {path}")]
    File {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// A program cannot be run.
    #[error("cannot run {path}")]
    Run {
        /// Path of the program.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// `initdb` has failed.
    #[error("initdb failed ({status}): {said}")]
    Initdb {
        /// Exit status of the program.
        status: ExitStatus,
        /// The last lines of its output.
        said: String,
    },
    /// The server ended instead of accepting connections.
    #[error("PostgreSQL ended at its start; the end of its log:\n{log}")]
    Ended {
        /// The last lines of its log.
        log: String,
    },
    /// The server does not accept connections.
    #[error("PostgreSQL did not answer within {seconds} s; the end of its log:\n{log}")]
    Silent {
        /// Time limit in seconds.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
    /// The server does not end.
    #[error("PostgreSQL (process {pid}) did not end within {seconds} s")]
    Endless {
        /// Process ID of the server.
        pid: u32,
        /// Time limit in seconds.
        seconds: u64,
    },
    /// All ports that were tried are in use.
    #[error("no free port on 127.0.0.1: tried {tried} of {range:?}")]
    NoPort {
        /// Where the ports were.
        range: std::ops::Range<u16>,
        /// Number of ports tried.
        tried: u16,
    },
    /// The server answers with an error.
    #[error("PostgreSQL refuses")]
    Refused(#[from] postgres::Error),
}

impl Error {
    /// The error of a file.
    pub(super) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
