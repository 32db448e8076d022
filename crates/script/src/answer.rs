//! The outcome of a call: a response or a failure.

use bytes::Bytes;
use forebay_wire::ContentKind;

use crate::stream::Stream;

/// A script's response.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status, 200 to 599.
    pub status: u16,
    /// The content type. If it is unset, it may be among the headers.
    pub content: ContentKind,
    /// Whether the handler failed. The answer then tells the client about it.
    pub is_fault: bool,
    /// Alternating names (lower case) and values, in characters up to U+00FF.
    pub headers: Vec<String>,
    /// The body, whole or streamed.
    pub body: Body,
    /// The cost of producing it.
    pub weight: Weight,
    /// The last commit to the store that this thread's scripts had made by then; 0 if there is none.
    pub commit: u64,
}

/// The cost of producing an answer. It decides whether similar requests may be answered on a thread that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Quick, in a single step, without waiting.
    Light,
    /// Quick, apart from waiting for statements that change nothing.
    Waits,
    /// Slow, or with other side effects or waits.
    Heavy,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// The complete body.
    Whole(Bytes),
    /// A body that arrives piece by piece.
    Stream(Stream),
}

/// The reason why a call has no answer of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It exceeded a time limit.
    #[error("the script ran for longer than {limit_ms} ms ({limit})")]
    Time {
        /// The name of the limit.
        limit: &'static str,
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The request's deadline passed; it includes both waiting and running.
    #[error("the request was not answered by its deadline (deadline)")]
    DeadlinePassed,
    /// It exceeded the memory limit.
    #[error("the script needs more memory than {memory_max} bytes (memory_max)")]
    Memory {
        /// The limit in bytes.
        memory_max: usize,
    },
    /// The answer is too long.
    #[error("the script's answer is longer than {output_max} bytes (output_max)")]
    Output {
        /// The limit in bytes.
        output_max: usize,
    },
    /// Too many calls are in flight.
    #[error("{in_flight_max} calls of the script are under way already (in_flight_max)")]
    Busy {
        /// The maximum number of calls in flight.
        in_flight_max: usize,
    },
    /// The requests in flight are too large in total.
    #[error("the script's calls have no room for {bytes} bytes (queue_bytes_max {queue_bytes_max})")]
    BytesFull {
        /// Size of this request.
        bytes: usize,
        /// The maximum total size of requests in flight.
        queue_bytes_max: usize,
    },
    /// Its thread was abandoned because of another call.
    #[error("another call of the script could not be stopped, and this one ended with it")]
    GivenUp,
    /// The script cannot run at all.
    #[error("the script cannot run: {reason}")]
    Broken {
        /// The reason, as in the log.
        reason: String,
    },
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}
