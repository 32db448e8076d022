//! Reasons why a job was not answered by its handler.

use std::time::Duration;

/// A failed job. Every submitted job gets exactly one response or one failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The queue has reached its maximum number of jobs.
    #[error("queue of pool `{pool}` is full (queue_max {queue_max})")]
    QueueFull {
        /// The name of the pool.
        pool: String,
        /// Maximum number of queued jobs.
        queue_max: usize,
    },
    /// The queue has reached its maximum size in bytes.
    #[error("queue of pool `{pool}` has no room for {bytes} bytes (queue_bytes_max {queue_bytes_max})")]
    QueueBytesFull {
        /// The name of the pool.
        pool: String,
        /// Size of the refused job.
        bytes: usize,
        /// Maximum total size of queued jobs.
        queue_bytes_max: usize,
    },
    /// No worker became free in time.
    #[error("no worker was free within {queue_timeout:?} (queue_timeout)")]
    QueueTimeout {
        /// The time limit that was exceeded.
        queue_timeout: Duration,
    },
    /// The handler exceeded its run time.
    #[error("handler has run longer than {run_timeout:?} (run_timeout)")]
    RunTimeout {
        /// The time limit that was exceeded.
        run_timeout: Duration,
    },
    /// The request's deadline passed; it includes both waiting and running.
    #[error("deadline of the request has passed")]
    DeadlinePassed,
    /// The worker ended while it ran the job.
    #[error("worker {worker} of pool `{pool}` ended while it ran the request")]
    WorkerDied {
        /// The name of the pool.
        pool: String,
        /// The number of the worker.
        worker: u64,
    },
    /// The handler abandoned its response after it had begun.
    #[error("handler gave its response up")]
    ResponseReset,
    /// The worker has as many open connections as it may.
    #[error("a worker of pool `{pool}` has {connections_max} open streams and WebSockets (connections_max)")]
    TooManyConnections {
        /// The name of the pool.
        pool: String,
        /// The limit that was reached.
        connections_max: usize,
    },
    /// The WebSocket was put into too many rooms.
    #[error("a WebSocket may be in {rooms_max} rooms, and was put into another")]
    TooManyRooms {
        /// The limit that was reached.
        rooms_max: usize,
    },
    /// The worker's response is invalid.
    #[error("worker's answer cannot be used: {what}")]
    InvalidAnswer {
        /// The reason why it is invalid.
        what: String,
    },
    /// The pool's workers fail to start.
    #[error("pool `{pool}` has no worker: starts fail")]
    NotStarting {
        /// The name of the pool.
        pool: String,
    },
    /// The pool's workers are on other machines, and none of those can be reached.
    #[error("pool `{pool}` has no worker host: {why}")]
    NoHost {
        /// The name of the pool.
        pool: String,
        /// The reason.
        why: String,
    },
    /// The pool is stopping and accepts no new jobs.
    #[error("pool `{pool}` is stopping")]
    Stopping {
        /// The name of the pool.
        pool: String,
    },
}

impl Failure {
    /// The name of this failure in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::QueueBytesFull { .. } => "queue_bytes_full",
            Self::QueueTimeout { .. } => "queue_timeout",
            Self::RunTimeout { .. } => "run_timeout",
            Self::DeadlinePassed => "deadline",
            Self::WorkerDied { .. } => "worker_died",
            Self::ResponseReset => "reset",
            Self::TooManyConnections { .. } => "too_many_connections",
            Self::TooManyRooms { .. } => "too_many_rooms",
            Self::InvalidAnswer { .. } => "invalid_answer",
            Self::NotStarting { .. } => "not_starting",
            Self::NoHost { .. } => "no_host",
            Self::Stopping { .. } => "stopping",
        }
    }
}
