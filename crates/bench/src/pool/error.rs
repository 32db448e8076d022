//! Errors of benchmark runs.

use std::{io, path::PathBuf, time::Duration};

use forebay_runtimes::{PythonError, RuntimeError, SdkError};

/// A measurement failed or could not be started.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Packages of other pools are not installed.
    #[error("{names} {are} not installed in {folder} or above it: npm install --prefix {folder} {wanted}", folder = folder.display())]
    Missing {
        /// The names of the missing packages.
        names: String,
        /// `is` or `are`.
        are: &'static str,
        /// The folder where the search began.
        folder: PathBuf,
        /// Names and versions in the form that npm takes.
        wanted: String,
    },
    /// The runtime is not installed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Python is not installed.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// The SDK cannot be unpacked.
    #[error(transparent)]
    Sdk(#[from] SdkError),
    /// A thread or a process cannot be started.
    #[error("cannot start {what}")]
    Start {
        /// The thread or program.
        what: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The workers failed to start.
    #[error("the workers do not start: {reason}")]
    Workers {
        /// The reason reported by the pool.
        reason: String,
    },
    /// No reply arrived within the deadline, and messages are outstanding.
    #[error("no reply to {missing} of {submitted} messages within {} s{errors}", deadline.as_secs_f64())]
    Silent {
        /// Messages without a reply.
        missing: u64,
        /// Messages that were submitted.
        submitted: u64,
        /// The longest allowed time without a reply.
        deadline: Duration,
        /// Errors of other messages, each preceded by `; `; may be empty.
        errors: String,
    },
    /// The driver reports an error.
    #[error("{contender}: {text}")]
    Driver {
        /// The name of the measured contender.
        contender: String,
        /// The driver's error message.
        text: String,
    },
}
