//! The operations of rules, as `sdk/node/src/rules/data/` encodes them.

use serde::Deserialize;

use crate::{WorkerRequest, kafka, mail};

/// An operation on an external system.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Operation {
    /// One Redis command.
    Redis { source: String, command: Vec<String> },
    /// Acquires a lock in Redis (the first server if `name` is missing). Returns the token that releases it, or null if it was not free within `wait_ms`; without `wait_ms` it waits until the run ends.
    Lock {
        source: Option<String>,
        key: String,
        /// Expiry of the lock.
        time_ms: u64,
        wait_ms: Option<u64>,
    },
    /// Releases a lock. Returns false if it had expired.
    Unlock { token: String },
    /// Signs a URL of an object in S3 (in the first bucket if `name` is missing).
    S3 {
        source: Option<String>,
        method: String,
        object: String,
    },
    /// Sends a message (through the first mail server if `name` is missing).
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
    /// Sends a request to a worker pool.
    Pool { pool: String, request: WorkerRequest },
    /// Runs a program and waits until it exits.
    Process {
        program: String,
        args: Vec<String>,
        stdin: String,
        time_ms: u64,
    },
}
