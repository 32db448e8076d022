//! One attempt to do a job: its stored request becomes a job of the route's pool, and the worker's response the attempt's outcome.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_jobs::{Content, Job, Outcome};
use forebay_pool::{Connection, Failure, FilePart, NoAnswer, RequestParts, Whole, latin1};
use serde::{Deserialize, Serialize};

use super::JobRoute;
use crate::target::{SERVERS_OWN, on_disk};

/// Longest body of a response that is kept.
pub(crate) const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Header fields by which handlers see that a request is a job. No client can send them.
const JOB_FIELD: &[u8] = b"forebay-job";
const ATTEMPT_FIELD: &[u8] = b"forebay-attempt";

/// A request without its body. Texts that may be no UTF-8 are Latin-1: each character stands for a byte.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) pattern: String,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) peer: String,
    pub(crate) id: String,
    pub(crate) identity: String,
}

/// A response without its body. Header values are Latin-1.
#[derive(Debug, Deserialize, Serialize)]
struct ResponseHead {
    status: u16,
    headers: Vec<(String, String)>,
}

/// The bytes of a text of Latin-1.
fn bytes_of(text: &str) -> Vec<u8> {
    text.chars().map(|character| character as u8).collect()
}

impl JobRoute {
    /// Makes the attempt.
    pub(super) async fn run(&self, job: &Job, request: Content) -> Outcome {
        let head: RequestHead = match serde_json::from_str(&request.head) {
            Ok(head) => head,
            Err(error) => {
                return Outcome::failure(format!("the stored request cannot be read: {error}"), true);
            }
        };
        let mut body = Bytes::from(request.body);
        let first = body.split_to(body.len().min(self.first_bytes_max));
        let now = Instant::now();
        let pool_job = forebay_pool::Job {
            payload: encode(job, &head, &first),
            whole: body.is_empty(),
            since: now,
            deadline: now + self.limits.queue_timeout + self.limits.run_timeout,
            limits: self.limits,
            may_upgrade: false,
            connection: Connection::default(),
            trace: None,
            client: None,
        };
        match self.pool.ask(pool_job, body, RESPONSE_BYTES_MAX).await {
            Ok(whole) => match on_disk(self.store.as_deref(), whole.commit).await {
                Ok(()) => ended(whole).await,
                Err(refusal) => failed(refusal.to_string()),
            },
            Err(NoAnswer::Long { bytes_max }) => long(bytes_max),
            Err(NoAnswer::Failed(failure)) => match failure {
                Failure::QueueFull { .. }
                | Failure::QueueBytesFull { .. }
                | Failure::QueueTimeout { .. }
                | Failure::NotStarting { .. }
                | Failure::NoHost { .. }
                | Failure::Stopping { .. } => Outcome::NotBegun,
                Failure::RunTimeout { run_timeout } => failed(format!(
                    "the handler has run longer than {run_timeout:?} (durable.timeout)"
                )),
                Failure::DeadlinePassed
                | Failure::WorkerDied { .. }
                | Failure::ResponseReset
                | Failure::TooManyConnections { .. }
                | Failure::TooManyRooms { .. }
                | Failure::InvalidAnswer { .. } => failed(failure.to_string()),
            },
        }
    }
}

/// A failure that another attempt may mend.
fn failed(error: String) -> Outcome {
    Outcome::failure(error, false)
}

fn long(bytes_max: usize) -> Outcome {
    let error =
        format!("the body of the response has more than {bytes_max} bytes, which is most that is kept");
    Outcome::failure(error, true)
}

/// The payload of a REQUEST frame.
fn encode(job: &Job, head: &RequestHead, body: &[u8]) -> Vec<u8> {
    let pairs = |pairs: &[(String, String)]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (bytes_of(name), bytes_of(value)))
            .collect()
    };
    let headers = pairs(&head.headers);
    let attempt = job.attempts.to_string();
    let of_job = [
        (JOB_FIELD, job.id.as_bytes()),
        (ATTEMPT_FIELD, attempt.as_bytes()),
    ];
    let mut payload = Vec::new();
    RequestParts {
        remaining_ms: 0,
        method: head.method.as_bytes(),
        path: &bytes_of(&head.path),
        query: &bytes_of(&head.query),
        route: head.pattern.as_bytes(),
        params: head
            .params
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        headers: headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .chain(of_job),
        peer: head.peer.as_bytes(),
        id: head.id.as_bytes(),
        identity: head.identity.as_bytes(),
        body,
    }
    .put(&mut payload);
    payload
}

/// The outcome that a response stands for.
async fn ended(mut whole: Whole) -> Outcome {
    let body = match whole.answer.take_file() {
        None => whole.body.into(),
        Some(part) if part.length > RESPONSE_BYTES_MAX as u64 => return long(RESPONSE_BYTES_MAX),
        Some(part) => match tokio::task::spawn_blocking(move || read(part)).await {
            Ok(Ok(body)) => body,
            _ => return failed("the file that is the body of the response cannot be read".to_owned()),
        },
    };
    let status = whole.answer.status();
    let mut headers = Vec::new();
    if let Some(media_type) = whole.answer.content().media_type() {
        headers.push(("content-type".to_owned(), media_type.to_owned()));
    }
    for pair in whole.answer.headers() {
        let Ok((name, value)) = pair else {
            return failed("the header block of the response is cut off".to_owned());
        };
        if !SERVERS_OWN.contains(&name) && name != b"content-length" {
            headers.push((latin1(name), latin1(value)));
        }
    }
    let seconds = headers.iter().find(|(name, _)| name == "retry-after");
    let retry_after = seconds.and_then(|(_, seconds)| Some(Duration::from_secs(seconds.parse().ok()?)));
    let head = ResponseHead { status, headers };
    let head = serde_json::to_string(&head).expect("texts become JSON");
    let response = Content { head, body };
    if status < 400 {
        return Outcome::Done(response);
    }
    Outcome::Failed {
        error: format!("the handler has answered with status {status}"),
        response: Some(response),
        is_final: status < 500,
        retry_after,
    }
}

fn read(part: FilePart) -> std::io::Result<Vec<u8>> {
    let mut body = vec![0; part.length as usize];
    File::from(part.file).read_exact_at(&mut body, part.offset)?;
    Ok(body)
}
