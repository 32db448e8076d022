//! What a call comes to.

use bytes::Bytes;
use forebay_wire::ContentKind;

use crate::stream::Stream;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// 200 to 599.
    pub status: u16,
    /// The content type; where it is unset, the headers say it, if anything does.
    pub content: ContentKind,
    /// Whether the handler failed: the answer is what the client shall see of that.
    pub is_fault: bool,
    /// Names in lower case and values by turns, of characters up to U+00FF.
    pub headers: Vec<String>,
    /// What is sent.
    pub body: Body,
    /// What it took to make it.
    pub weight: Weight,
    /// The last commit to the store that this thread's scripts had made by then; 0: none.
    pub commit: u64,
}

/// What it takes to make an answer: it tells whether one like it could be made on a thread that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It is soon made, in one go, from what is at hand.
    Light,
    /// The same but for statements that change nothing, which it waits for.
    Waits,
    /// It takes long, or asks for something else.
    Heavy,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// Piece by piece.
    Stream(Stream),
}

/// Why a call has no answer of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It ran longer than it may.
    #[error("the script ran for longer than {limit_ms} ms ({limit})")]
    Time {
        /// The limit's name.
        limit: &'static str,
        /// What it is.
        limit_ms: u64,
    },
    /// The request's deadline passed, waiting and running together.
    #[error("the request was not answered by its deadline (deadline)")]
    DeadlinePassed,
    /// It took more memory than it may.
    #[error("the script needs more memory than {memory_max} bytes (memory_max)")]
    Memory {
        /// The limit.
        memory_max: usize,
    },
    /// What it answers is longer than it may be.
    #[error("the script's answer is longer than {output_max} bytes (output_max)")]
    Output {
        /// The limit.
        output_max: usize,
    },
    /// No room for another call.
    #[error("{in_flight_max} calls of the script are under way already (in_flight_max)")]
    Busy {
        /// The limit.
        in_flight_max: usize,
    },
    /// No room for a request of this length.
    #[error("the script's calls have no room for {bytes} bytes (queue_bytes_max {queue_bytes_max})")]
    BytesFull {
        /// Bytes of the request.
        bytes: usize,
        /// The limit.
        queue_bytes_max: usize,
    },
    /// The thread that ran it was given up because of another call.
    #[error("another call of the script could not be stopped, and this one ended with it")]
    GivenUp,
    /// The script cannot be run at all.
    #[error("the script cannot run: {reason}")]
    Broken {
        /// What the log says in full.
        reason: String,
    },
    /// The server ends.
    #[error("the server is stopping")]
    Stopping,
}
