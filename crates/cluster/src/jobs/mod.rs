//! Durable jobs in JetStream, for all processes of a cluster.
//!
//! A job that is not over has one message in the work queue of its route, which JetStream gives to one process at a time. That process notes
//! in the bucket what becomes of the job, each time on condition that the record is unchanged since. The message is acknowledged when the job
//! is over, is returned with a delay until the job is due, and goes to another process [`LEASE`](crate::jetstream::LEASE) after the last sign of life.
//!
//! **Invariants:** a job that was accepted has its message until it is over. An attempt begins and ends by a conditional write, so of two
//! processes that have the message only one runs it; a process that cannot renew its lease gives its attempts up before others get them.

mod attempts;
mod reads;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_nats::jetstream::Message;
use bytes::Bytes;
use forebay_jobs::{
    Candidate, Change, Changed, Job, JobError, JobState, NewJob, QueueFacts, QueueLimits, is_ahead, name_hash,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use self::attempts::{read_figures, renew};
use crate::jetstream::{Entry, JetStream, Record, WorkQueue, payload_of};

/// How long a removed job is remembered after it was due, so that its message is dropped.
const REMOVED_KEPT: Duration = Duration::from_hours(1);
/// Conditional writes that are tried again because another process was faster.
const TRIES: usize = 8;
/// The durable jobs of a cluster.
#[derive(Debug)]
pub struct ClusterJobs {
    jetstream: JetStream,
    /// The durable routes in force.
    routes: Mutex<Vec<Candidate>>,
    /// The attempts of this process, by the job's id.
    held: Mutex<HashMap<String, Arc<RunningAttempt>>>,
    /// How many jobs of each queue this process has seen done, and how many failed.
    ended: Mutex<HashMap<String, (u64, u64)>>,
    figures: Mutex<Vec<QueueFacts>>,
}

/// An attempt of this process.
#[derive(Debug)]
struct RunningAttempt {
    message: Message,
    job: Job,
    sequence: u64,
    /// Of the job's record.
    revision: u64,
    /// When the lease was last known to be renewed.
    renewed: Mutex<Instant>,
}

/// The job that belongs to an `Idempotency-Key`.
#[derive(Debug, Deserialize, Serialize)]
struct KeyRecord {
    id: String,
    digest: String,
}

impl ClusterJobs {
    pub(crate) fn start(jetstream: JetStream) -> Arc<Self> {
        let runtime = jetstream.runtime.clone();
        let jobs = Arc::new(Self {
            jetstream,
            routes: Mutex::default(),
            held: Mutex::default(),
            ended: Mutex::default(),
            figures: Mutex::default(),
        });
        runtime.spawn(renew(Arc::downgrade(&jobs)));
        runtime.spawn(read_figures(Arc::downgrade(&jobs)));
        jobs
    }

    /// Puts these routes in force: jobs are looked for in their queues.
    pub fn serve(&self, routes: Vec<Candidate>) {
        *self.routes.lock() = routes;
    }

    /// The work queues of the routes in force.
    async fn work_queues(&self) -> Result<Vec<Arc<WorkQueue>>, JobError> {
        let routes = self.routes.lock().clone();
        let mut queues = Vec::new();
        for route in routes {
            queues.push(self.jetstream.queue(&route.queue, route.limits).await?);
        }
        Ok(queues)
    }

    async fn queue_of(&self, job: &Job) -> Result<Arc<WorkQueue>, JobError> {
        let mut queues = self.work_queues().await?.into_iter();
        let queue = queues.find(|queue| queue.route == job.queue);
        queue.ok_or_else(|| JobError::Unavailable {
            reason: format!("the job's route `{}` is not configured", job.queue),
        })
    }

    /// Makes a change; `now_ms` is the time in milliseconds since 1970 UTC.
    pub async fn change(&self, change: Change, now_ms: u64) -> Result<Changed, JobError> {
        match change {
            Change::Accept { new, limits } => self.accept(*new, limits, now_ms).await,
            Change::Begin {
                candidates,
                room,
                owner,
            } => self.begin(candidates, room, &owner, now_ms).await,
            Change::Conclude {
                id,
                attempt,
                outcome,
                policy,
                jitter,
                ..
            } => {
                self.conclude(&id, attempt, outcome, &policy, now_ms, jitter)
                    .await
            }
            Change::Remove { id, even_if_over } => self.remove(&id, even_if_over, now_ms).await,
            Change::Retry { id } => self.retry(&id, now_ms).await,
            Change::Scheduled { queue, until_ms } => self.put_scheduled(&queue, until_ms).await,
            // JetStream gives the messages of processes that have ended to others.
            Change::Recover { .. } => Ok(Changed::Recovered(Vec::new())),
        }
    }

    async fn accept(&self, mut new: NewJob, limits: QueueLimits, now_ms: u64) -> Result<Changed, JobError> {
        // Without it no job can begin.
        self.jetstream.bucket().await?;
        let queue = self.jetstream.queue(&new.queue, limits).await?;
        if let Some(key) = new.key.clone() {
            let name = key_name(&new.queue, new.subject.as_deref(), &key);
            let record = self.take_key(&name, &new).await?;
            if record.digest != new.digest {
                return Err(JobError::OtherRequest { key });
            }
            if record.id != new.id
                && let Some(job) = self.find(&record.id).await?
            {
                return Ok(Changed::Accepted(Box::new(job)));
            }
            new.id = record.id;
        }
        let job = Job::new(&new, now_ms);
        let entry = Entry { job, sequence: 0 };
        let subject = queue.subject_of(&new.id);
        let payload = payload_of(&new.request);
        let put = self.jetstream.put(subject, Some(&entry), payload, Some(0), None);
        // Another request with this key may have stored the same job just now.
        if put.await?.is_none() && self.find(&new.id).await?.is_none() {
            return Err(self.contended(&new.id));
        }
        Ok(Changed::Accepted(Box::new(entry.job)))
    }

    /// Has a client's key stand for this job, unless it stands for another one.
    async fn take_key(&self, name: &str, new: &NewJob) -> Result<KeyRecord, JobError> {
        let own = KeyRecord {
            id: new.id.clone(),
            digest: new.digest.clone(),
        };
        for _ in 0..TRIES {
            let known = self.known_key(name).await?;
            let revision = known.as_ref().map_or(0, |(revision, _)| *revision);
            if let Some((_, known)) = known {
                // No message may be under the id yet, but one under that of a removed job is dropped.
                let is_own = known.digest == own.digest && !self.is_removed(&known.id).await?;
                if is_own || self.find(&known.id).await?.is_some() {
                    return Ok(known);
                }
            }
            if self.put_key(name, &own, revision, None).await? {
                return Ok(own);
            }
        }
        Err(self.contended(&new.id))
    }

    /// The record of a client's key, after its revision.
    async fn known_key(&self, name: &str) -> Result<Option<(u64, KeyRecord)>, JobError> {
        let Some(record) = self.jetstream.get(name).await? else {
            return Ok(None);
        };
        let known = serde_json::from_slice(&record.payload).map_err(|error| foreign(name, &error))?;
        Ok(Some((record.revision, known)))
    }

    async fn put_key(
        &self,
        name: &str,
        record: &KeyRecord,
        revision: u64,
        ttl: Option<Duration>,
    ) -> Result<bool, JobError> {
        let payload = serde_json::to_vec(record).expect("texts become JSON");
        let subject = self.jetstream.subject(name);
        let put = self
            .jetstream
            .put(subject, None, payload.into(), Some(revision), ttl);
        Ok(put.await?.is_some())
    }

    fn contended(&self, id: &str) -> JobError {
        self.jetstream
            .unavailable(format!("`{id}` is changed by other processes all the time"))
    }

    /// Keeps the key of a job for so long from now, or until the job is over. It may stand for another job by now: then it stays as it is.
    async fn keep_key(&self, job: &Job, kept: Option<Duration>) -> Result<(), JobError> {
        let Some(key) = &job.key else { return Ok(()) };
        let name = key_name(&job.queue, job.subject.as_deref(), key);
        if let Some((revision, known)) = self.known_key(&name).await?
            && known.id == job.id
        {
            self.put_key(&name, &known, revision, kept).await?;
        }
        Ok(())
    }

    async fn put_scheduled(&self, queue: &str, until_ms: u64) -> Result<Changed, JobError> {
        let name = schedule_name(queue);
        for _ in 0..TRIES {
            let known = self.scheduled(queue).await?;
            if known.is_some_and(|(_, known_ms)| known_ms >= until_ms && !is_ahead(known_ms, until_ms)) {
                return Ok(Changed::Nothing);
            }
            let revision = known.map_or(0, |(revision, _)| revision);
            let subject = self.jetstream.subject(&name);
            let put = self
                .jetstream
                .put(subject, None, until_ms.to_string().into(), Some(revision), None);
            if put.await?.is_some() {
                return Ok(Changed::Nothing);
            }
        }
        Err(self.contended(&name))
    }

    async fn remove(&self, id: &str, even_if_over: bool, now_ms: u64) -> Result<Changed, JobError> {
        if is_id(id)
            && self.is_removed(id).await?
            && let Some((_, _, job)) = self.waiting(id).await?
        {
            self.clear(&job).await?;
            return Ok(Changed::Nothing);
        }
        for _ in 0..TRIES {
            let (revision, job) = self.resting(id).await?;
            if job.state.is_over() && !even_if_over {
                return Err(JobError::Over { state: job.state });
            }
            let subject = self.jetstream.subject(&job_name(id));
            let kept = REMOVED_KEPT + Duration::from_millis(job.due_ms.saturating_sub(now_ms));
            let put = self
                .jetstream
                .put(subject, None, Bytes::new(), Some(revision), Some(kept));
            if put.await?.is_some() {
                self.clear(&job).await?;
                return Ok(Changed::Nothing);
            }
        }
        Err(self.contended(id))
    }

    async fn is_removed(&self, id: &str) -> Result<bool, JobError> {
        let record = self.jetstream.get(&job_name(id)).await?;
        Ok(record.is_some_and(|record| record.entry.is_none()))
    }

    /// Removes the rest of a removed job: the message last, because it shows that there may be more.
    async fn clear(&self, job: &Job) -> Result<(), JobError> {
        let jetstream = &self.jetstream;
        let bucket = jetstream.bucket().await?;
        jetstream
            .purge(&bucket, jetstream.subject(&request_name(&job.id)))
            .await?;
        // A purge has no condition, but the next revision of the key may be one that expires at once.
        self.keep_key(job, Some(Duration::ZERO)).await?;
        let queue = self.queue_of(job).await?;
        jetstream.purge(&queue.stream, queue.subject_of(&job.id)).await
    }

    /// A job that is not running, and the revision of its record.
    async fn resting(&self, id: &str) -> Result<(u64, Job), JobError> {
        match self.look_up(id).await? {
            None => Err(JobError::NotFound { id: id.to_owned() }),
            Some((_, job)) if job.state == JobState::Running => Err(JobError::Running),
            Some(found) => Ok(found),
        }
    }

    async fn retry(&self, id: &str, now_ms: u64) -> Result<Changed, JobError> {
        let jetstream = &self.jetstream;
        let (revision, mut job) = self.resting(id).await?;
        if job.state == JobState::Done {
            return Err(JobError::Over { state: job.state });
        }
        let before = self.waiting(id).await?;
        let request = match &before {
            Some((_, message, _)) => Some(message.payload.clone()),
            None => jetstream
                .get(&request_name(id))
                .await?
                .map(|record| record.payload),
        };
        let request = request.ok_or_else(|| JobError::NotFound { id: id.to_owned() })?;
        let queue = self.queue_of(&job).await?;
        job.retry(now_ms);
        // A new message, because the existing one may be delayed. Until the job names it, it does nothing.
        let mut entry = Entry { job, sequence: 0 };
        let put = jetstream.put(queue.subject_of(id), Some(&entry), request, None, None);
        entry.sequence = put.await?.unwrap_or_default();
        let subject = jetstream.subject(&job_name(id));
        let put = jetstream.put(subject, Some(&entry), Bytes::new(), Some(revision), None);
        if put.await?.is_some() {
            let bucket = jetstream.bucket().await?;
            jetstream
                .purge(&bucket, jetstream.subject(&request_name(id)))
                .await?;
            self.keep_key(&entry.job, None).await?;
        } else {
            match jetstream.get(&job_name(id)).await? {
                // Another process has got the new message already. That happens only to jobs that had no attempt and have nothing in the bucket but a key.
                Some(Record {
                    entry: Some(noted), ..
                }) if noted.sequence == entry.sequence => entry = noted,
                Some(record) if record.revision != revision => {
                    drop(queue.stream.delete_message(entry.sequence).await);
                    return Err(JobError::Running);
                }
                _ => return Err(self.contended(id)),
            }
        }
        if let Some((queue, message, _)) = before {
            // It would do no harm: it is older than the one the job names.
            drop(queue.stream.delete_message(message.sequence).await);
        }
        Ok(Changed::Job(Box::new(entry.job)))
    }
}

impl WorkQueue {
    fn subject_of(&self, id: &str) -> String {
        format!("{}.{id}", self.subject)
    }
}

fn job_name(id: &str) -> String {
    format!("job.{id}")
}

fn request_name(id: &str) -> String {
    format!("request.{id}")
}

fn schedule_name(queue: &str) -> String {
    format!("schedule.{}", name_hash(&[queue]))
}

fn key_name(queue: &str, subject: Option<&str>, key: &str) -> String {
    let subject = subject.unwrap_or_default();
    format!("key.{}", name_hash(&[queue, subject, key]))
}

/// Whether it can be the id of a job. It becomes a part of subjects.
fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn foreign(path: &str, error: &serde_json::Error) -> JobError {
    JobError::Foreign {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
