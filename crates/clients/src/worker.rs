//! Pools of workers of this server: they answer runs as they answer the requests of clients.

use std::{fmt, future::Future, pin::Pin, time::Instant};

use serde::Deserialize;

use crate::ClientError;

/// What a worker is asked.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerRequest {
    /// In capitals, as a rule.
    pub method: String,
    /// Begins with `/`.
    pub path: String,
    /// Without the question mark; empty: there is none.
    pub query: String,
    /// Header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Empty: there is none.
    pub body: String,
}

/// What it has answered.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkerAnswer {
    /// The HTTP status, 200 to 599.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(String, String)>,
    /// All of it.
    pub body: String,
}

/// A pool, as far as runs need it.
pub trait Workers: fmt::Debug + Send + Sync {
    /// Has a worker answer by a deadline; it is not asked any more when this is dropped.
    fn answer<'a>(
        &'a self,
        request: WorkerRequest,
        deadline: Instant,
    ) -> Pin<Box<dyn Future<Output = Result<WorkerAnswer, ClientError>> + 'a>>;
}
