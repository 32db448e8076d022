//! Why a run is refused, or why it failed.

use std::{error::Error, time::Duration};

use crate::StorageError;

/// Why a run is refused, or why it failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkflowFailure {
    /// No workflow has this name.
    #[error("there is no workflow `{name}`")]
    NoSuchWorkflow {
        /// The name that was asked for.
        name: String,
    },
    /// The workflow's files have errors.
    #[error(
        "workflow `{name}` cannot be run: its files have errors; the log has them, under the id of the request"
    )]
    Faulty {
        /// The workflow's name.
        name: String,
        /// The errors, one a line, for the log.
        reason: String,
    },
    /// No rule has this name.
    #[error("there is no rule `{name}`")]
    NoSuchRule {
        /// The name that was asked for.
        name: String,
    },
    /// There are releases, and none is published.
    #[error(
        "no release of the workflows is published in the global `{global}`: create one with `forebay workflow import` and publish it with `forebay workflow publish`"
    )]
    NothingPublished {
        /// The global with the releases.
        global: String,
    },
    /// The release cannot be asked for.
    #[error(
        "requests cannot use release {number}: it is neither published nor in test (`forebay workflow state {number} test`)"
    )]
    NoSuchRelease {
        /// The release's number.
        number: u64,
    },
    /// The arguments are no JSON object.
    #[error("the body is not a JSON object of arguments: {what}")]
    Arguments {
        /// The error of the parser, or the value that was found.
        what: String,
    },
    /// The arguments do not match their schema.
    #[error("the arguments do not match their schema: {what}")]
    OtherArguments {
        /// The place in the arguments, and the part of the schema.
        what: String,
    },
    /// The result does not match its schema.
    #[error("the result does not match its schema: {what}")]
    Result {
        /// The place in the result, and the part of the schema.
        what: String,
    },
    /// The request for the run is wrong in another way.
    #[error("{what}")]
    Request {
        /// The field, and the values that it may have.
        what: String,
    },
    /// A node failed.
    #[error("node `{node}` failed: {reason}")]
    Failed {
        /// Id of the node.
        node: String,
        /// The error, without its stack trace.
        reason: String,
        /// Members of the response with the trace, if the client asked for it: `,"trace":[...],"logs":[...]`.
        trace: String,
    },
    /// The response cannot be made from the result.
    #[error("{what}")]
    Template {
        /// The placeholder without a value, and failures of the runs.
        what: String,
    },
    /// The client did not say who it is.
    #[error("workflows are run for clients alone: send an id and its secret, or a bearer token")]
    NoCredentials,
    /// The client is not who it says.
    #[error("there is no client with this id and secret, or this token")]
    WrongCredentials,
    /// The client may not run this workflow.
    #[error("this client may not run `{name}` (workflow.clients)")]
    NotAllowed {
        /// Name of the workflow.
        name: String,
    },
    /// The client has begun too many runs.
    #[error("this client exceeds {runs_per_second} runs per second (runs_per_second)")]
    Quota {
        /// Runs that it may begin in a second.
        runs_per_second: u32,
    },
    /// The client has too many runs in flight.
    #[error("this client already has {runs_max} runs (runs_max)")]
    ClientBusy {
        /// Runs that it may have.
        runs_max: usize,
    },
    /// There is no durable run with this id.
    #[error("there is no run `{id}`: results are deleted after a while (workflow.runs.kept)")]
    NoSuchRun {
        /// The id in the request.
        id: String,
    },
    /// The key belongs to a run of something else.
    #[error("key `{id}` was already used with another workflow or other arguments")]
    OtherRun {
        /// The value of `Idempotency-Key`.
        id: String,
    },
    /// Too many durable runs are open.
    #[error("too many durable runs are open (workflow.runs: open_max {open_max})")]
    TooManyRuns {
        /// The most that may be.
        open_max: usize,
    },
    /// Data of another kind in the place of a durable run.
    #[error("{path} in the store is no run: {reason}")]
    ForeignRun {
        /// Its path in the storage.
        path: String,
        /// The error of reading it.
        reason: String,
    },
    /// A durable run ended with an error.
    #[error("{what}")]
    Ended {
        /// Code of the error, as stored.
        status: u16,
        /// The message of the error, as stored.
        what: String,
        /// As in `Failed`.
        trace: String,
    },
    /// Too many runs of the workflow wait already.
    #[error("the queue of workflow `{name}` is full (workflow.scenes: queue_max {queue_max})")]
    SceneBusy {
        /// Name of the workflow.
        name: String,
        /// The most that may wait.
        queue_max: usize,
    },
    /// Too many runs are in flight.
    #[error("{accept_queue_max} runs are in flight already (workflow.accept_queue_max)")]
    Busy {
        /// The most that may be.
        accept_queue_max: usize,
    },
    /// The runs in flight are too large in total.
    #[error("the runs in flight have no room for {bytes} more bytes (workflow.queue_bytes_max)")]
    BytesFull {
        /// Size of this one.
        bytes: usize,
    },
    /// The run exceeded its limit of memory.
    #[error("the run needs more memory than {memory_max} bytes (workflow.memory_max)")]
    Memory {
        /// The limit in bytes.
        memory_max: usize,
    },
    /// The result is too long.
    #[error("the result is longer than {output_max} bytes (workflow.output_max)")]
    ResultLength {
        /// The limit in bytes.
        output_max: usize,
    },
    /// The run took too long.
    #[error("the run did not end within {timeout:?} (workflow.timeout)")]
    Timeout {
        /// Its time limit.
        timeout: Duration,
    },
    /// A traced run was stopped before its end.
    #[error("{failure}")]
    Stopped {
        /// The limit that was reached, or the failure.
        failure: Box<WorkflowFailure>,
        /// The trace until then, as in `Failed`.
        trace: String,
    },
    /// The deadline passed, waiting included.
    #[error("the request was not answered by its deadline (deadline)")]
    DeadlinePassed,
    /// A rule exceeded a time limit.
    #[error("the script ran for longer than {limit_ms} ms ({limit})")]
    Time {
        /// Name of the limit.
        limit: &'static str,
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// Its thread was abandoned because of another run.
    #[error("another call of the script could not be stopped, and this one ended with it")]
    GivenUp,
    /// The rules cannot be evaluated at all.
    #[error("the script failed; the log says why")]
    Broken {
        /// The reason, for the log.
        reason: String,
    },
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// The server has lost its lock of the durable runs, so that other servers may have taken this one over.
    #[error(
        "this server could not reach the store of durable runs for a while, and leaves its runs to other servers; ask for this one again"
    )]
    LeftToOthers,
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// There is no such workflow, rule, release or run.
    NotFound,
    /// The request cannot be understood.
    BadInput,
    /// The client is unknown.
    Unauthorized,
    /// The client may not do this.
    Forbidden,
    /// The client exceeded its own limit.
    TooMany,
    /// The request is well-formed but asks for something impossible.
    Unprocessable,
    /// There is no room for the run now.
    Overload,
    /// The run was not over in time.
    Deadline,
    /// The workflow, or what runs it, is at fault.
    Internal,
}

impl FailureKind {
    /// Its code: outcomes of durable runs are stored with it. The codes are those of HTTP.
    pub fn code(self) -> u16 {
        match self {
            Self::BadInput => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Unprocessable => 422,
            Self::TooMany => 429,
            Self::Internal => 500,
            Self::Overload => 503,
            Self::Deadline => 504,
        }
    }
}

impl WorkflowFailure {
    /// A request that is wrong; `what` names the field and the values that it may have.
    pub fn request(what: impl Into<String>) -> Self {
        Self::Request { what: what.into() }
    }

    /// Names a run's own time limit in the place of the deadline that has passed; other failures stay as they are.
    #[must_use]
    pub fn with_limit(self, timeout: Duration) -> Self {
        if self.kind() != FailureKind::Deadline {
            return self;
        }
        let failure = Self::Timeout { timeout };
        match self {
            Self::Stopped { trace, .. } => Self::Stopped {
                failure: Box::new(failure),
                trace,
            },
            _ => failure,
        }
    }

    /// The trace of a run that was stopped or failed, as members of an object.
    pub fn trace(&self) -> &str {
        match self {
            Self::Stopped { trace, .. } | Self::Failed { trace, .. } | Self::Ended { trace, .. } => trace,
            _ => "",
        }
    }

    /// Logs the failure if it tells clients less than it says. Returns whether it was logged.
    pub fn log(&self, request_id: &str) -> bool {
        match self {
            Self::Broken { reason } => {
                tracing::error!(target: "forebay::script", request_id, "the script cannot run: {reason}");
                true
            }
            Self::Faulty { name, reason } => {
                tracing::error!(target: "forebay::workflow", request_id, "workflow `{name}` cannot be run: {reason}");
                true
            }
            Self::Storage(error) if error.code() == FailureKind::Internal.code() => {
                let cause = with_causes(error);
                tracing::error!(target: "forebay::store", cause, request_id, "the store fails");
                true
            }
            _ => false,
        }
    }

    /// The code of this failure, see [`FailureKind::code`].
    pub fn code(&self) -> u16 {
        match self {
            Self::Storage(error) => error.code(),
            Self::Stopped { failure, .. } => failure.code(),
            failure => failure.kind().code(),
        }
    }

    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Stopped { failure, .. } => failure.kind(),
            Self::NoSuchWorkflow { .. }
            | Self::NoSuchRule { .. }
            | Self::NothingPublished { .. }
            | Self::NoSuchRelease { .. }
            | Self::NoSuchRun { .. } => FailureKind::NotFound,
            Self::Arguments { .. } | Self::Request { .. } => FailureKind::BadInput,
            Self::NoCredentials | Self::WrongCredentials => FailureKind::Unauthorized,
            Self::NotAllowed { .. } => FailureKind::Forbidden,
            Self::Quota { .. } | Self::ClientBusy { .. } => FailureKind::TooMany,
            Self::OtherRun { .. } | Self::OtherArguments { .. } => FailureKind::Unprocessable,
            Self::SceneBusy { .. }
            | Self::TooManyRuns { .. }
            | Self::Busy { .. }
            | Self::BytesFull { .. }
            | Self::LeftToOthers
            | Self::Stopping => FailureKind::Overload,
            Self::Timeout { .. } | Self::DeadlinePassed | Self::Time { .. } => FailureKind::Deadline,
            Self::Faulty { .. }
            | Self::Failed { .. }
            | Self::Template { .. }
            | Self::Memory { .. }
            | Self::ResultLength { .. }
            | Self::Result { .. }
            | Self::GivenUp
            | Self::Broken { .. }
            | Self::ForeignRun { .. } => FailureKind::Internal,
            Self::Ended { status, .. } => match status {
                400 => FailureKind::BadInput,
                401 => FailureKind::Unauthorized,
                403 => FailureKind::Forbidden,
                404 => FailureKind::NotFound,
                422 => FailureKind::Unprocessable,
                504 => FailureKind::Deadline,
                _ => FailureKind::Internal,
            },
            Self::Storage(error) => match error.code() {
                503 => FailureKind::Overload,
                504 => FailureKind::Deadline,
                _ => FailureKind::Internal,
            },
        }
    }
}

/// An error's text followed by its causes.
pub fn with_causes(error: &dyn Error) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
