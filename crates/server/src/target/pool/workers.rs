//! Calls from rules and nodes of workflows to pools, inside the server, as if an HTTP request had arrived.

use std::{future::Future, pin::Pin, sync::Arc, time::Instant};

use bytes::Bytes;
use forebay_clients::{ClientError, WorkerAnswer, WorkerRequest, Workers};
use forebay_pool::{Connection, Failure, Job, Limits, NoAnswer, Pool, RequestParts, Whole, latin1};

use super::{first_bytes_max, is_hop, retry_of};
use crate::{store::OpenStore, target::durability::on_disk};

/// Most bytes of a request's path, query and header fields together.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A pool, with limits for calls by runs.
#[derive(Debug)]
pub(crate) struct PoolWorkers {
    pub(crate) pool: Pool,
    /// The pool's own job limits.
    pub(crate) limits: Limits,
    /// Longest request body if the pool's protocol takes whole bodies.
    pub(crate) message_bytes_max: usize,
    /// Longest response body (`fetch_bytes_max`).
    pub(crate) bytes_max: usize,
    /// The store, if handlers can write to it.
    pub(crate) store: Option<Arc<OpenStore>>,
}

impl Workers for PoolWorkers {
    fn answer<'a>(
        &'a self,
        request: WorkerRequest,
        deadline: Instant,
    ) -> Pin<Box<dyn Future<Output = Result<WorkerAnswer, ClientError>> + 'a>> {
        Box::pin(async move {
            let job = self.job(&request, deadline)?;
            let first = request.body.len().min(self.first_bytes_max());
            let rest = Bytes::copy_from_slice(&request.body.as_bytes()[first..]);
            let asked = self.pool.ask(job, rest, self.bytes_max).await;
            let whole = asked.map_err(|error| self.told(&error))?;
            on_disk(self.store.as_deref(), whole.commit)
                .await
                .map_err(|refusal| self.failed(refusal.to_string()))?;
            self.answered(&whole)
        })
    }
}

impl PoolWorkers {
    fn first_bytes_max(&self) -> usize {
        first_bytes_max(&self.pool, self.message_bytes_max)
    }

    fn job(&self, request: &WorkerRequest, deadline: Instant) -> Result<Job, ClientError> {
        let what = |part: &str| format!("{part} of a request to pool `{}`", self.pool.name());
        let body = request.body.as_bytes();
        let length = body.len().to_string();
        let length = (!body.is_empty()).then_some((&b"content-length"[..], length.as_bytes()));
        let fields = request.headers.iter();
        let fields = fields
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .filter(|(name, _)| !is_hop(name) && *name != b"content-length")
            .chain(length);
        let head: usize = fields
            .clone()
            .map(|(name, value)| name.len() + value.len() + 8)
            .sum();
        if head + request.method.len() + request.path.len() + request.query.len() > HEAD_BYTES_MAX {
            return Err(ClientError::Long {
                what: what("the head"),
                bytes_max: HEAD_BYTES_MAX,
                limit: "path, query and header fields",
            });
        }
        let first_max = self.first_bytes_max();
        if self.pool.protocol().takes_whole_bodies() {
            if body.len() > first_max {
                return Err(ClientError::Long {
                    what: what("the body"),
                    bytes_max: first_max,
                    limit: "message_bytes_max",
                });
            }
            self.pool.check_body(body).map_err(|what| self.failed(what))?;
        }
        let first = &body[..body.len().min(first_max)];
        let id = request.headers.iter().find(|(name, _)| name == "x-request-id");
        let mut payload = Vec::with_capacity(head + first.len() + 256);
        RequestParts {
            remaining_ms: 0,
            method: request.method.as_bytes(),
            path: request.path.as_bytes(),
            query: request.query.as_bytes(),
            route: request.path.as_bytes(),
            params: [].into_iter(),
            headers: fields,
            peer: b"",
            id: id.map_or(b"", |(_, id)| id.as_bytes()),
            identity: b"",
            body: first,
        }
        .put(&mut payload);
        let mut limits = self.limits;
        limits.retry = retry_of(limits.retry, &request.method);
        Ok(Job {
            payload,
            whole: first.len() == body.len(),
            since: Instant::now(),
            deadline,
            limits,
            may_upgrade: false,
            connection: Connection::default(),
            trace: forebay_trace::current(),
            client: None,
        })
    }

    fn answered(&self, whole: &Whole) -> Result<WorkerAnswer, ClientError> {
        let mut headers = Vec::new();
        if let Some(kind) = whole.answer.content().media_type() {
            headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        for pair in whole.answer.headers() {
            let (name, value) = pair.map_err(|_| self.failed("its header block is cut off".to_owned()))?;
            // HTTP fields are Latin-1, as in JavaScript.
            headers.push((latin1(name), latin1(value)));
        }
        let body = std::str::from_utf8(&whole.body)
            .map_err(|_| self.failed("the body of its answer is no text in UTF-8".to_owned()))?;
        Ok(WorkerAnswer {
            status: whole.answer.status(),
            headers,
            body: body.to_owned(),
        })
    }

    fn told(&self, error: &NoAnswer) -> ClientError {
        let what = format!("pool `{}`", self.pool.name());
        let reason = error.to_string();
        match error {
            NoAnswer::Long { bytes_max } => ClientError::Long {
                what: format!("the answer of {what}"),
                bytes_max: *bytes_max,
                limit: "fetch_bytes_max",
            },
            NoAnswer::Failed(
                Failure::QueueFull { .. }
                | Failure::QueueBytesFull { .. }
                | Failure::QueueTimeout { .. }
                | Failure::Stopping { .. },
            ) => ClientError::Refused { what, reason },
            NoAnswer::Failed(_) => ClientError::Failed { what, reason },
        }
    }

    fn failed(&self, reason: String) -> ClientError {
        ClientError::Failed {
            what: format!("pool `{}`", self.pool.name()),
            reason,
        }
    }
}
