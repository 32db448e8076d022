//! What can be asked for, as `sdk/node/src/rules/data/` writes it.

use serde::Deserialize;

use crate::{WorkerRequest, kafka, mail};

/// An operation.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Operation {
    /// One command of Redis.
    Redis { source: String, command: Vec<String> },
    /// Takes a lock in a Redis, the first without a name: the token to give it back with, or null where others had it for `wait_ms`; without that it is waited for.
    Lock {
        source: Option<String>,
        key: String,
        /// After this it ends by itself.
        time_ms: u64,
        wait_ms: Option<u64>,
    },
    /// Gives a lock back: false where it had ended by itself.
    Unlock { token: String },
    /// The address with which an object in S3 is asked for: of the first bucket, without a name.
    S3 {
        source: Option<String>,
        method: String,
        object: String,
    },
    /// Sends a message by a server of mail: by the first, without a name.
    Mail {
        source: Option<String>,
        message: mail::Draft,
    },
    /// Publishes records to a topic.
    Kafka {
        source: String,
        topic: String,
        records: Vec<kafka::Draft>,
    },
    /// Has a worker of a pool answer.
    Pool { pool: String, request: WorkerRequest },
    /// Runs a program to its end.
    Process {
        program: String,
        args: Vec<String>,
        stdin: String,
        time_ms: u64,
    },
}
