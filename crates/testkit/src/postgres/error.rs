//! What can go wrong with a PostgreSQL for development and tests.

use std::{io, path::PathBuf, process::ExitStatus};

/// Why there is no PostgreSQL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server's programs.
    #[error(
        "no PostgreSQL is installed: looked for initdb and postgres in {looked}. Install it (Debian: apt-get install postgresql), \
         or name the folder of its programs in FOREBAY_POSTGRES"
    )]
    NotInstalled {
        /// Where they were looked for.
        looked: String,
    },
    /// Root, and nobody whom the server could run as.
    #[error("root may not run PostgreSQL, and /etc/passwd has neither a user postgres nor nobody")]
    NoUser,
    /// A file or folder.
    #[error("cannot {what} {path}")]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program that cannot be run.
    #[error("cannot run {path}")]
    Run {
        /// Which program.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// `initdb` has failed.
    #[error("initdb failed ({status}): {said}")]
    Initdb {
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        said: String,
    },
    /// The server has ended instead of answering.
    #[error("PostgreSQL ended at its start; the end of its log:\n{log}")]
    Ended {
        /// The end of its log.
        log: String,
    },
    /// The server does not answer.
    #[error("PostgreSQL did not answer within {seconds} s; the end of its log:\n{log}")]
    Silent {
        /// How long it was given.
        seconds: u64,
        /// The end of its log.
        log: String,
    },
    /// The server does not end.
    #[error("PostgreSQL (process {pid}) did not end within {seconds} s")]
    Endless {
        /// Its process.
        pid: u32,
        /// How long it was given.
        seconds: u64,
    },
    /// All ports that were tried are in use.
    #[error("no free port on 127.0.0.1: tried {tried} from {first} on")]
    NoPort {
        /// The first of them.
        first: u16,
        /// How many.
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
