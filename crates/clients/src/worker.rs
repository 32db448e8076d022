//! Requests to the server's own worker pools.

use std::{fmt, future::Future, pin::Pin, time::Instant};

use serde::Deserialize;

use crate::ClientError;

/// A request to a worker.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerRequest {
    /// The HTTP method, usually in capitals.
    pub method: String,
    /// The path, which begins with `/`.
    pub path: String,
    /// The query without its question mark; empty if there is none.
    pub query: String,
    /// Header fields, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: String,
}

/// The response of a worker.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkerAnswer {
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: String,
}

/// A worker pool, as runs see it.
pub trait Workers: fmt::Debug + Send + Sync {
    /// Sends a request with a deadline. Dropping the future cancels the request.
    fn answer<'a>(
        &'a self,
        request: WorkerRequest,
        deadline: Instant,
    ) -> Pin<Box<dyn Future<Output = Result<WorkerAnswer, ClientError>> + 'a>>;
}
