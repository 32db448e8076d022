//! Durable jobs: requests that are stored first and run later, at least once each.
//!
//! [`Job`] is the state machine of one job: attempts, back-off, dead letters. [`Slots`] says which jobs may begin now. Both are pure: time
//! and random numbers are arguments. [`Change`] is everything that can happen to the queue, and [`Change::perform`] does it in one
//! transaction of the embedded store. What runs jobs only makes changes and reads, so another queue can take the store's place.
//!
//! [`ProgramQueues`] makes the same changes for a program that is no server, and says whose jobs are whose.
//!
//! The crate knows neither HTTP nor pools: requests and responses are [`Content`], a JSON text and bytes.
//!
//! **Invariants:** a job that was accepted is in the store, whole, until it is over and the time to keep it has passed, or it is
//! removed by hand. A job has at most one attempt at a time: an attempt begins and ends by a change that checks the state it found.

#![forbid(unsafe_code)]

mod change;
mod job;
mod program;
mod report;
mod schedule;
mod slots;
mod tree;

pub use change::{Candidate, Change, Changed, NewJob, QueueLimits};
pub use job::{BACKOFF_MAX, FAILED_KEPT, Job, JobState, Outcome, Policy};
pub use program::{CommandOf, ProgramQueues};
pub use report::{listed, report, shown};
pub use schedule::{CronExpression, Schedule, TimeZone, is_ahead};
pub use slots::Slots;
pub use tree::{GLOBAL, QueueFacts, due_ms, find, list, queues, request, response, scheduled_ms};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use forebay_store::StoreError;
use serde::{Deserialize, Serialize};

/// A request, or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Everything but the body, as JSON.
    pub head: String,
    /// The bytes of the body.
    pub body: Vec<u8>,
}

/// A change to the queue was not made.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// There is no such job, or it is no longer kept.
    #[error("there is no job `{id}`; results are kept for a time only (durable.kept)")]
    NotFound {
        /// The id that was given.
        id: String,
    },
    /// The client's key stands for another request.
    #[error(
        "the `Idempotency-Key` {key:?} belongs to another request: the same key needs the same path, query and body"
    )]
    OtherRequest {
        /// The client's key.
        key: String,
    },
    /// As many jobs of the queue are open as may be.
    #[error("{open_max} jobs of this route are waiting or running already (durable.open_max)")]
    Full {
        /// The limit that was reached.
        open_max: u64,
    },
    /// The requests of the queue's open jobs have as many bytes as they may have.
    #[error(
        "the requests of jobs of this route hold {bytes} bytes, and {more} more exceed {bytes_max} (durable.bytes_max)"
    )]
    BytesFull {
        /// Bytes of the open jobs.
        bytes: u64,
        /// Bytes of the rejected one.
        more: u64,
        /// The limit that would be exceeded.
        bytes_max: u64,
    },
    /// The broker that has the queue takes no more.
    #[error("the queue of this route is full (durable.open_max, durable.bytes_max): {reason}")]
    Refused {
        /// Error text of the broker.
        reason: String,
    },
    /// A request or a response is longer than the broker takes.
    #[error(
        "{bytes} bytes are more than a message of NATS can have ({bytes_max}, `max_payload` of its servers)"
    )]
    Long {
        /// Bytes of the message.
        bytes: usize,
        /// Most bytes of one.
        bytes_max: usize,
    },
    /// The broker that has the queue cannot do its work now.
    #[error("the queue of jobs cannot be used: {reason}")]
    Unavailable {
        /// Why the broker or its answer cannot be used.
        reason: String,
    },
    /// The job is running.
    #[error("the job is running: it can be neither cancelled nor removed")]
    Running,
    /// The job is over.
    #[error("the job is over: it is `{}`", state.name())]
    Over {
        /// `done` or `failed`.
        state: JobState,
    },
    /// Something else is stored where a job should be.
    #[error("what is stored at {path} is no job: {reason}")]
    Foreign {
        /// The node's path.
        path: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A name of 32 hexadecimal digits for these texts, for where names may not have all letters.
pub fn name_hash(texts: &[&str]) -> String {
    let text = serde_json::to_string(texts).expect("texts become JSON");
    format!("{:032x}", forebay_store::digest(text.as_bytes()))
}

impl From<forebay_store::KeyError> for JobError {
    fn from(error: forebay_store::KeyError) -> Self {
        Self::Store(error.into())
    }
}

/// Whether a queue is a route's: the names of those have a `/`, and the names of programs' queues have none.
fn is_of_route(queue: &str) -> bool {
    queue.contains('/')
}

/// [`Content`] as JSON, in the store and for programs: a body that is text stays readable.
#[derive(Deserialize, Serialize)]
struct StoredContent {
    head: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl From<Content> for StoredContent {
    fn from(Content { head, body }: Content) -> Self {
        let (text, base64) = match String::from_utf8(body) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        Self { head, text, base64 }
    }
}

impl StoredContent {
    /// `path` is where it stands, for the error.
    fn content(self, path: &str) -> Result<Content, JobError> {
        let head = self.head;
        let body = match (self.text, self.base64) {
            (Some(text), _) => text.into_bytes(),
            (None, Some(base64)) => STANDARD.decode(base64).map_err(|error| JobError::Foreign {
                path: path.to_owned(),
                reason: error.to_string(),
            })?,
            (None, None) => Vec::new(),
        };
        Ok(Content { head, body })
    }
}
