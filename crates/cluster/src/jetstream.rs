//! The streams of JetStream that have durable jobs, and their messages.
//!
//! ```text
//! forebay-CLUSTER-jobs-ROUTE       work queue of a route, one message for each job that is not over
//!   forebay-jobs.CLUSTER.ROUTE.ID    the job as it was accepted, and its request
//! KV_forebay-CLUSTER-jobs          key-value bucket
//!   job.ID                           the job once it has begun, and its response; without a job: it was removed
//!   request.ID                       the request of a job that has failed
//!   key.HASH                         which job a client's key stands for
//!   schedule.ROUTE                   until when the times of a schedule have had their jobs
//! ```
//!
//! A message has the job in a header field, as JSON, so that jobs can be listed without their requests and responses, and the request or the
//! response as its payload.

use std::{
    collections::{HashMap, HashSet},
    error::Error as _,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_nats::{
    Client, HeaderMap,
    header::NATS_MESSAGE_TTL,
    jetstream::{
        self, Context, ErrorCode,
        consumer::{AckPolicy, PullConsumer, pull},
        context::{
            ContextBuilder, CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind, PublishError,
            PublishErrorKind,
        },
        message::{PublishMessage, StreamMessage},
        stream::{Config, DiscardPolicy, LastRawMessageErrorKind, RawMessageError, RetentionPolicy, Stream},
    },
};
use bytes::Bytes;
use forebay_jobs::{Content, Job, JobError, QueueLimits, name_hash};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::watch, time::Instant};

use crate::connection::State;

/// A message that is not acknowledged for so long is given to another process.
pub(crate) const LEASE: Duration = Duration::from_secs(15);
/// Time for one request to JetStream.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The header field with the job.
const JOB: &str = "Forebay-Job";

/// A job in a message.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub(crate) job: Job,
    /// The sequence number of the message in the work queue that stands for it.
    pub(crate) sequence: u64,
}

/// A value in the bucket.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) revision: u64,
    /// `None`: it was removed, or the record is no job.
    pub(crate) entry: Option<Entry>,
    pub(crate) payload: Bytes,
    /// For how long it is kept from when it was written; `None`: until it is removed.
    pub(crate) ttl: Option<Duration>,
}

/// The work queue of a route.
#[derive(Clone, Debug)]
pub(crate) struct WorkQueue {
    pub(crate) route: String,
    pub(crate) limits: QueueLimits,
    pub(crate) stream: Stream<()>,
    pub(crate) consumer: PullConsumer,
    /// All its subjects, but for the id.
    pub(crate) subject: String,
}

/// Access to the streams of a cluster.
#[derive(Debug)]
pub(crate) struct JetStream {
    pub(crate) cluster: String,
    pub(crate) replicas: usize,
    pub(crate) client: Arc<OnceLock<Client>>,
    pub(crate) connection: watch::Receiver<State>,
    pub(crate) runtime: Handle,
    pub(crate) context: OnceLock<Context>,
    pub(crate) bucket: Mutex<Option<Stream<()>>>,
    pub(crate) queues: Mutex<HashMap<String, Arc<WorkQueue>>>,
    /// Names of the streams that this process has used. One of them that is gone has taken its jobs with it.
    pub(crate) used: Mutex<HashSet<String>>,
}

impl JetStream {
    /// An error of JetStream. The streams are looked up again before their next use: they may have been removed.
    pub(crate) fn unavailable(&self, error: impl std::fmt::Display) -> JobError {
        self.bucket.lock().take();
        self.queues.lock().clear();
        let absence = self.connection.borrow().absence.clone();
        JobError::Unavailable {
            reason: absence.unwrap_or_else(|| format!("JetStream: {error}")),
        }
    }

    pub(crate) fn context(&self) -> Result<&Context, JobError> {
        let absence = self.connection.borrow().absence.clone();
        if let Some(reason) = absence {
            return Err(JobError::Unavailable { reason });
        }
        let Some(client) = self.client.get() else {
            return Err(JobError::Unavailable {
                reason: "NATS is being connected".to_owned(),
            });
        };
        Ok(self.context.get_or_init(|| {
            let _runtime = self.runtime.enter();
            ContextBuilder::new().timeout(TIMEOUT).build(client.clone())
        }))
    }

    /// A stream with this configuration, which is made or changed if need be.
    async fn stream(&self, config: Config) -> Result<Stream<()>, JobError> {
        let context = self.context()?;
        let (name, replicas) = (config.name.clone(), config.num_replicas);
        let is_right = |has: &Config| {
            let limits = |config: &Config| (config.max_messages, config.max_bytes, config.num_replicas);
            limits(has) == limits(&config) && has.allow_message_ttl == config.allow_message_ttl
        };
        let is_absent = |kind| matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND);
        let making = async {
            // Reading a stream asks only the servers that hold it, and creating one asks the leader of all streams.
            let found = context.get_stream(&name).await;
            match &found {
                Ok(stream) if is_right(&stream.cached_info().config) => return Ok(true),
                Err(error) if is_absent(error.kind()) && self.used.lock().remove(&name) => tracing::error!(
                    target: "forebay::cluster",
                    "stream `{name}` is gone from NATS, and the durable jobs in it are lost: it is made anew"
                ),
                _ => {}
            }
            let info = context.create_or_update_stream(config.clone()).await?;
            Ok(info.config.allow_message_ttl == config.allow_message_ttl)
        };
        let made = tokio::time::timeout(TIMEOUT, making).await;
        let made = made.unwrap_or_else(|_| Err(CreateStreamError::new(CreateStreamErrorKind::TimedOut)));
        let is_made = made.map_err(|error| match error.kind() {
            CreateStreamErrorKind::JetStreamUnavailable => self.unavailable(
                "no server has it (`nats-server --jetstream`), or this user may not use `$JS.API.>`",
            ),
            _ => self.unavailable(format!(
                "stream `{name}` with {replicas} replicas (cluster.job_replicas): {error}"
            )),
        })?;
        if !is_made {
            let version = context.client().server_info().version;
            return Err(self.unavailable(format!(
                "NATS {version} cannot expire messages one by one: durable jobs need 2.11 or newer"
            )));
        }
        self.used.lock().insert(name.clone());
        let stream = context.get_stream_no_info(&name).await;
        stream.map_err(|error| self.unavailable(error))
    }

    /// The bucket, which is made if there is none.
    pub(crate) async fn bucket(&self) -> Result<Stream<()>, JobError> {
        if let Some(bucket) = &*self.bucket.lock() {
            return Ok(bucket.clone());
        }
        let bucket = self
            .stream(Config {
                name: format!("KV_forebay-{}-jobs", self.cluster),
                description: Some("Durable jobs of Forebay".to_owned()),
                subjects: vec![self.subject(">")],
                max_messages: -1,
                max_bytes: -1,
                max_messages_per_subject: 1,
                discard: DiscardPolicy::New,
                allow_rollup: true,
                deny_delete: true,
                allow_message_ttl: true,
                num_replicas: self.replicas,
                ..Config::default()
            })
            .await?;
        *self.bucket.lock() = Some(bucket.clone());
        Ok(bucket)
    }

    pub(crate) fn subject(&self, key: &str) -> String {
        format!("$KV.forebay-{}-jobs.{key}", self.cluster)
    }

    /// The work queue of a route, which is made if there is none, or gets these limits.
    pub(crate) async fn queue(&self, route: &str, limits: QueueLimits) -> Result<Arc<WorkQueue>, JobError> {
        if let Some(queue) = self.queues.lock().get(route)
            && queue.limits == limits
        {
            return Ok(Arc::clone(queue));
        }
        let hash = name_hash(&[route]);
        let subject = format!("forebay-jobs.{}.{hash}", self.cluster);
        let bounded = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        let stream = self
            .stream(Config {
                name: format!("forebay-{}-jobs-{hash}", self.cluster),
                description: Some(format!("Durable jobs of route {route}")),
                subjects: vec![format!("{subject}.*")],
                retention: RetentionPolicy::WorkQueue,
                discard: DiscardPolicy::New,
                max_messages: bounded(limits.open_max),
                max_bytes: bounded(limits.bytes_max),
                num_replicas: self.replicas,
                ..Config::default()
            })
            .await?;
        let config = pull::Config {
            durable_name: Some("forebay".to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: LEASE,
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer("forebay", config).await;
        let consumer = consumer.map_err(|error| self.unavailable(error))?;
        let queue = Arc::new(WorkQueue {
            route: route.to_owned(),
            limits,
            stream,
            consumer,
            subject,
        });
        self.queues.lock().insert(route.to_owned(), Arc::clone(&queue));
        Ok(queue)
    }

    /// Publishes a message, if the last one of its subject has this number (0: there is none), and returns its own; `None`: another process was faster.
    pub(crate) async fn put(
        &self,
        subject: String,
        entry: Option<&Entry>,
        payload: Bytes,
        expected: Option<u64>,
        ttl: Option<Duration>,
    ) -> Result<Option<u64>, JobError> {
        let context = self.context()?;
        let bytes = payload.len();
        let mut message = PublishMessage::build().payload(payload);
        if let Some(entry) = entry {
            message = message.header(JOB, serde_json::to_string(entry).expect("a job becomes JSON"));
        }
        if let Some(expected) = expected {
            message = message.expected_last_subject_sequence(expected);
        }
        if let Some(ttl) = ttl {
            message = message.ttl(ttl.max(Duration::from_secs(1)));
        }
        let mut backoff = Backoff::new();
        let published = loop {
            let published = match context.send_publish(subject.clone(), message.clone()).await {
                Ok(published) => published.await,
                Err(error) => Err(error),
            };
            match &published {
                Err(error) if of_server(error).is_some_and(is_temporary) && backoff.wait().await => {}
                _ => break published,
            }
        };
        match published {
            Ok(published) => Ok(Some(published.sequence)),
            Err(error) => match error.kind() {
                PublishErrorKind::WrongLastSequence => Ok(None),
                PublishErrorKind::MaxPayloadExceeded => Err(JobError::Long {
                    bytes,
                    bytes_max: context.client().server_info().max_payload,
                }),
                PublishErrorKind::StreamNotFound => {
                    Err(self.unavailable("the stream of the jobs was removed"))
                }
                PublishErrorKind::TimedOut => Err(self.unavailable(format!(
                    "the servers have not stored the job within {TIMEOUT:?}: too few of them may be there"
                ))),
                _ => {
                    let is_full = |code| {
                        matches!(
                            code,
                            ErrorCode::STREAM_STORE_FAILED
                                | ErrorCode::STORAGE_RESOURCES_EXCEEDED
                                | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
                        )
                    };
                    match of_server(&error) {
                        // Another message of the subject is being stored, or has been.
                        Some(error)
                            if error.error_code() == ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT =>
                        {
                            Ok(None)
                        }
                        Some(error) if is_full(error.error_code()) => Err(JobError::Refused {
                            reason: error.to_string(),
                        }),
                        _ => Err(self.unavailable(error)),
                    }
                }
            },
        }
    }

    /// A value of the bucket.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Record>, JobError> {
        let found = self.last(&self.bucket().await?, &self.subject(key)).await?;
        Ok(found.map(|message| Record {
            revision: message.sequence,
            entry: entry_of(&message.headers),
            payload: message.payload,
            ttl: message.headers.get(NATS_MESSAGE_TTL).and_then(|seconds| {
                let seconds = seconds.as_str().parse().ok()?;
                Some(Duration::from_secs(seconds))
            }),
        }))
    }

    /// The last message of a subject.
    pub(crate) async fn last(
        &self,
        stream: &Stream<()>,
        subject: &str,
    ) -> Result<Option<StreamMessage>, JobError> {
        let mut backoff = Backoff::new();
        loop {
            let found = stream.get_last_raw_message_by_subject(subject).await;
            if !is_refused_for_now(&found) || !backoff.wait().await {
                return self.found(found);
            }
        }
    }

    /// The first message of a work queue from this number on.
    pub(crate) async fn next(
        &self,
        queue: &WorkQueue,
        sequence: u64,
    ) -> Result<Option<StreamMessage>, JobError> {
        let all = format!("{}.*", queue.subject);
        let mut backoff = Backoff::new();
        loop {
            let builder = queue.stream.raw_message_builder().sequence(sequence);
            let found = builder.next_by_subject(all.clone()).send().await;
            if !is_refused_for_now(&found) || !backoff.wait().await {
                return self.found(found);
            }
        }
    }

    fn found(
        &self,
        found: Result<StreamMessage, RawMessageError>,
    ) -> Result<Option<StreamMessage>, JobError> {
        match found {
            Ok(message) => Ok(Some(message)),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(self.unavailable(error)),
        }
    }

    /// Removes all messages of a subject.
    pub(crate) async fn purge(&self, stream: &Stream<()>, subject: String) -> Result<(), JobError> {
        match stream.purge().filter(subject).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.unavailable(error)),
        }
    }
}

/// Waits between attempts at what JetStream refuses for the moment, [`TIMEOUT`] in all. Nothing of a request that is refused so has been done.
struct Backoff {
    until: Instant,
    pause: Duration,
}

impl Backoff {
    fn new() -> Self {
        Self {
            until: Instant::now() + TIMEOUT,
            pause: Duration::from_millis(20),
        }
    }

    /// Waits a little, each time longer; `false` once no time is left.
    async fn wait(&mut self) -> bool {
        let next = Instant::now() + self.pause;
        if next >= self.until {
            return false;
        }
        tokio::time::sleep_until(next).await;
        self.pause = (2 * self.pause).min(Duration::from_millis(320));
        true
    }
}

/// The error with which a server has answered, if one has.
fn of_server(error: &PublishError) -> Option<&jetstream::Error> {
    error.source()?.downcast_ref()
}

/// Whether the servers are choosing a leader.
fn is_temporary(error: &jetstream::Error) -> bool {
    error.error_code() == ErrorCode::CLUSTER_NOT_AVAILABLE
}

fn is_refused_for_now<T>(read: &Result<T, RawMessageError>) -> bool {
    let Err(error) = read else { return false };
    matches!(error.kind(), LastRawMessageErrorKind::JetStream(error) if is_temporary(&error))
}

/// The job in the header of a message.
pub(crate) fn entry_of(headers: &HeaderMap) -> Option<Entry> {
    serde_json::from_str(headers.get(JOB)?.as_str()).ok()
}

/// A request or a response as a payload: the length of its head, the head, and the body.
pub(crate) fn payload_of(content: &Content) -> Bytes {
    let length = u32::try_from(content.head.len()).expect("a message is shorter");
    [&length.to_be_bytes(), content.head.as_bytes(), &content.body]
        .concat()
        .into()
}

/// The inverse of [`payload_of`].
pub(crate) fn content_of(payload: &[u8]) -> Option<Content> {
    let (length, rest) = payload.split_first_chunk()?;
    let (head, body) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(Content {
        head: String::from_utf8(head.to_vec()).ok()?,
        body: body.to_vec(),
    })
}
