//! Why there is no measurement.

use std::{io, path::PathBuf, time::Duration};

use forebay_runtimes::{PythonError, RuntimeError, SdkError};

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Packages of others are not there.
    #[error("{names} {are} not installed in {folder} or above it: npm install --prefix {folder} {wanted}", folder = folder.display())]
    Missing {
        /// Their names.
        names: String,
        /// `is` or `are`.
        are: &'static str,
        /// Where they were looked for.
        folder: PathBuf,
        /// Names and versions as npm takes them.
        wanted: String,
    },
    /// The runtime is not installed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Python is not installed.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// The SDK cannot be laid down.
    #[error(transparent)]
    Sdk(#[from] SdkError),
    /// A thread or a process cannot be started.
    #[error("cannot start {what}")]
    Start {
        /// Which.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The workers do not start.
    #[error("the workers do not start: {reason}")]
    Workers {
        /// What they said.
        reason: String,
    },
    /// Replies are missing.
    #[error("no reply to {missing} of {submitted} messages within {} s{errors}", deadline.as_secs_f64())]
    Silent {
        /// Messages without a reply.
        missing: u64,
        /// Messages that were submitted.
        submitted: u64,
        /// How long none came.
        deadline: Duration,
        /// What went wrong with others.
        errors: String,
    },
    /// The driver reports an error.
    #[error("{contender}: {text}")]
    Driver {
        /// Whom it drove.
        contender: String,
        /// What it said.
        text: String,
    },
}
