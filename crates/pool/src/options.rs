//! What a pool is told when it is made.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use crate::{Calls, Desks};

/// Body bytes of one response that may be under way from worker to client.
pub(crate) const WINDOW_BYTES: u32 = 256 * 1024;

/// Everything that shapes one pool. The names are those of the configuration's `[pool.NAME]` section.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pool's name, in errors, metrics and logs.
    pub name: String,
    /// The program that every worker is.
    pub program: Program,
    /// Fewest workers, started before the pool is ready.
    pub workers_min: usize,
    /// Most workers: at least one, and no fewer than [`Options::workers_min`].
    pub workers_max: usize,
    /// Jobs that one worker runs at a time.
    pub concurrency: usize,
    /// Most jobs that wait for a worker.
    pub queue_max: usize,
    /// Most bytes of jobs that wait for a worker.
    pub queue_bytes_max: usize,
    /// How long a worker may take from its start until it is ready.
    pub start_timeout: Duration,
    /// How long a signal may be ignored before the next, stronger one.
    pub kill_grace: Duration,
    /// How long a worker above the minimum may be idle.
    pub idle_retire: Duration,
    /// When a worker is replaced although it works.
    pub recycle: Recycle,
    /// Longest message of a worker that speaks no frames, in bytes.
    pub message_bytes_max: usize,
    /// How long a worker's call into the server may take.
    pub call_timeout: Duration,
    /// Who answers calls of workers that speak no frames; none: each is answered with an error.
    pub calls: Option<Arc<dyn Calls>>,
    /// Where the calls of workers that speak frames are answered; none: each is answered with an error.
    pub desks: Option<Arc<dyn Desks>>,
}

/// What a worker speaks, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Frames, on an inherited socket.
    #[default]
    Framed,
    /// Frames, on standard input and output.
    FramedStdio,
    /// One JSON object a line, on standard input and output.
    Jsonl,
    /// The messages of WABuR, on standard input and output.
    Wabur {
        /// What becomes of a controller's errors.
        statuses: Statuses,
    },
}

/// Which status the errors of a WABuR controller get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statuses {
    /// What HTTP has for them.
    #[default]
    Truthful,
    /// 500, with all that the controller said, as WABuR's own runners do.
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

    /// Whether a message has all of a body, so that it must be there before a job is submitted.
    pub const fn takes_whole_bodies(self) -> bool {
        match self {
            Self::Framed | Self::FramedStdio => false,
            Self::Jsonl | Self::Wabur { .. } => true,
        }
    }

    /// Whether the worker's standard output is the link.
    pub(crate) const fn is_on_stdio(self) -> bool {
        !matches!(self, Self::Framed)
    }
}

/// When a worker is replaced although it works; zero means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recycle {
    /// After so many jobs.
    pub jobs: u64,
    /// After so long.
    pub age: Duration,
    /// When its resident memory passes so many bytes.
    pub rss_bytes: u64,
}

/// How to start a worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The executable and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment of the process, except for the variables of the protocol.
    pub env: Vec<(OsString, OsString)>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Whether the worker knows how to map the shared page; without it, it gets no job beyond those it runs.
    pub page: bool,
    /// The handler module, for workers that load one.
    pub handler: Option<PathBuf>,
    /// The start-up module, run once in each worker before its first job.
    pub start: Option<PathBuf>,
}

/// The limits of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long it may wait for a worker.
    pub queue_timeout: Duration,
    /// How long its handler may run.
    pub run_timeout: Duration,
    /// Whether it may run again after the worker that ran it has died.
    pub retry: Retry,
}

/// Whether a job may run a second time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// A job whose worker dies is answered with [`Failure::WorkerDied`](crate::Failure::WorkerDied).
    #[default]
    Never,
    /// The job's effect is the same when it runs twice: it goes to another worker, once.
    Idempotent,
}
