//! Why a job was not answered by its handler.

use std::time::Duration;

/// The reason that stands in place of an answer. Each job that was submitted gets an answer or one of these, exactly once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The queue holds as many jobs as it may.
    #[error("queue of pool `{pool}` is full (queue_max {queue_max})")]
    QueueFull {
        /// The pool.
        pool: String,
        /// Its limit.
        queue_max: usize,
    },
    /// The queue holds as many bytes as it may.
    #[error("queue of pool `{pool}` has no room for {bytes} bytes (queue_bytes_max {queue_bytes_max})")]
    QueueBytesFull {
        /// The pool.
        pool: String,
        /// Bytes of the refused job.
        bytes: usize,
        /// The pool's limit.
        queue_bytes_max: usize,
    },
    /// No worker was free in time.
    #[error("no worker was free within {queue_timeout:?} (queue_timeout)")]
    QueueTimeout {
        /// The limit that passed.
        queue_timeout: Duration,
    },
    /// The handler ran longer than it may.
    #[error("handler has run longer than {run_timeout:?} (run_timeout)")]
    RunTimeout {
        /// The limit that passed.
        run_timeout: Duration,
    },
    /// The request's deadline passed, waiting and running together.
    #[error("deadline of the request has passed")]
    DeadlinePassed,
    /// The worker ended while it ran the job.
    #[error("worker {worker} of pool `{pool}` ended while it ran the request")]
    WorkerDied {
        /// The pool.
        pool: String,
        /// The worker's number.
        worker: u64,
    },
    /// The handler gave its response up after it had begun.
    #[error("handler gave its response up")]
    ResponseReset,
    /// The worker's answer says nothing that could be passed on.
    #[error("worker's answer cannot be used: {what}")]
    InvalidAnswer {
        /// What is wrong with it.
        what: String,
    },
    /// The workers do not start.
    #[error("pool `{pool}` has no worker: starts fail")]
    NotStarting {
        /// The pool.
        pool: String,
    },
    /// The pool is being stopped and takes nothing new.
    #[error("pool `{pool}` is stopping")]
    Stopping {
        /// The pool.
        pool: String,
    },
}

impl Failure {
    /// Its name in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::QueueBytesFull { .. } => "queue_bytes_full",
            Self::QueueTimeout { .. } => "queue_timeout",
            Self::RunTimeout { .. } => "run_timeout",
            Self::DeadlinePassed => "deadline",
            Self::WorkerDied { .. } => "worker_died",
            Self::ResponseReset => "reset",
            Self::InvalidAnswer { .. } => "invalid_answer",
            Self::NotStarting { .. } => "not_starting",
            Self::Stopping { .. } => "stopping",
        }
    }
}
