//! Settings of a pool.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use crate::{CallHandler, Confinement};

/// Maximum number of body bytes of one response that may be in transit from worker to client.
pub(crate) const WINDOW_BYTES: u32 = 256 * 1024;

/// All settings of one pool, named as in the `[pool.NAME]` section of the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pool's name, in errors, metrics and logs.
    pub name: String,
    /// The program that each worker runs.
    pub program: Program,
    /// Minimum number of workers; they are started before the pool is ready.
    pub workers_min: usize,
    /// Maximum number of workers: at least one, and at least [`Options::workers_min`].
    pub workers_max: usize,
    /// Number of jobs that one worker runs concurrently.
    pub concurrency: usize,
    /// Number of jobs that a worker may ask for instead when it is ready, because only it knows whether its handler blocks.
    pub concurrency_max: usize,
    /// Maximum number of event streams and upgraded connections that one worker may have open. They do not count as running.
    pub connections_max: usize,
    /// Maximum number of queued jobs.
    pub queue_max: usize,
    /// Maximum total size of queued jobs.
    pub queue_bytes_max: usize,
    /// Time limit for a worker's start.
    pub start_timeout: Duration,
    /// Time to react to a signal before the next, stronger one is sent.
    pub kill_grace: Duration,
    /// Idle time after which a worker above the minimum is stopped.
    pub idle_retire: Duration,
    /// When to replace a worker that still works.
    pub recycle: Recycle,
    /// Maximum length of a message of a worker that speaks no frames, in bytes.
    pub message_bytes_max: usize,
    /// Time limit of a worker's call to the server that belongs to no job, or to one whose response has begun.
    pub call_timeout: Duration,
    /// Confinement of the workers; `None`: they may do all that their account may.
    pub confinement: Option<Arc<Confinement>>,
    /// Answers the workers' calls. Without it, each call is answered with an error.
    pub calls: Option<Arc<dyn CallHandler>>,
    /// Whether the workers are hosts on other machines, which [`Pool::attach`](crate::Pool::attach) adds: the pool starts no process.
    pub remote: bool,
    /// Whether workers may send files as bodies by passing their descriptors.
    pub files: bool,
}

/// The protocol of a worker, and its transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Frames on an inherited socket.
    #[default]
    Framed,
    /// Frames on standard input and output.
    FramedStdio,
    /// One JSON object per line on standard input and output.
    Jsonl,
    /// Messages of WABuR on standard input and output.
    Wabur {
        /// How a controller's errors are mapped to statuses.
        statuses: Statuses,
    },
}

/// The status for errors of a WABuR controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statuses {
    /// The status that HTTP defines for the error.
    #[default]
    Truthful,
    /// 500 with the controller's whole message, as in WABuR's own runners.
    Wabur,
}

impl Protocol {
    /// Its name in the configuration and in a worker's environment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Framed | Self::FramedStdio => "framed",
            Self::Jsonl => "jsonl",
            Self::Wabur { .. } => "wabur",
        }
    }

    /// Whether a message contains the whole body, so that the body must be complete before a job is submitted.
    pub const fn takes_whole_bodies(self) -> bool {
        match self {
            Self::Framed | Self::FramedStdio => false,
            Self::Jsonl | Self::Wabur { .. } => true,
        }
    }

    /// Whether the link is on the worker's standard input and output.
    pub(crate) const fn is_on_stdio(self) -> bool {
        !matches!(self, Self::Framed)
    }
}

/// When to replace a worker that still works. Zero disables a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recycle {
    /// After this many jobs.
    pub jobs: u64,
    /// At this age.
    pub age: Duration,
    /// When its resident memory exceeds this many bytes.
    pub rss_bytes: u64,
}

/// How to start a worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The executable and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment of the process, except for the variables of the protocol.
    pub env: Vec<(OsString, OsString)>,
    /// The protocol and transport of the worker.
    pub protocol: Protocol,
    /// The working directory.
    pub cwd: PathBuf,
    /// Whether the worker can map the shared page. If not, it gets no jobs beyond those it runs.
    pub page: bool,
    /// The handler module, for workers that load one.
    pub handler: Option<PathBuf>,
    /// A start-up module, which runs once in each worker before its first job.
    pub start: Option<PathBuf>,
}

/// The limits of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time limit in the queue.
    pub queue_timeout: Duration,
    /// Time limit of the handler.
    pub run_timeout: Duration,
    /// Whether the job may be retried after its worker has died.
    pub retry: Retry,
}

/// Whether a job may run a second time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// A job whose worker dies fails with [`Failure::WorkerDied`](crate::Failure::WorkerDied).
    #[default]
    Never,
    /// The job is idempotent: if its worker dies, it is sent to another worker, once.
    Idempotent,
}
