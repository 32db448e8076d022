//! Durable jobs in JetStream, for all processes of a cluster.
//!
//! A job that is not over has one message in the work queue of its route, which JetStream gives to one process at a time. That process notes
//! in the bucket what becomes of the job, each time on condition that nobody else has done so since. The message is acknowledged when the job
//! is over, is returned with a delay until the job is due, and goes to another process [`LEASE`] after the last sign of life.
//!
//! **Invariants:** a job that was accepted has its message until it is over. An attempt begins and ends by a conditional write, so of two
//! processes that have the message only one runs it; a process that cannot renew its lease gives its attempts up before others get them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use async_nats::jetstream::{
    AckKind, Message,
    consumer::{AckPolicy, DeliverPolicy, pull},
    message::StreamMessage,
};
use bytes::Bytes;
use forebay_jobs::{
    Candidate, Change, Changed, Content, FAILED_KEPT, Job, JobError, JobState, NewJob, Outcome, Policy,
    QueueFacts, QueueLimits, name_hash,
};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{task::JoinSet, time::Instant};

use crate::jetstream::{
    Entry, JetStream, LEASE, Record, TIMEOUT, WorkQueue, content_of, entry_of, payload_of,
};

/// Leases are renewed, and figures read, this often.
const RENEWAL: Duration = Duration::from_secs(3);
/// An attempt is given up when its lease has not been renewed for so long: no other process has the message yet.
const LEASE_USED: Duration = Duration::from_secs(11);
/// For so long a removed job is remembered, so that a process which has just got its message drops it.
const REMOVED_KEPT: Duration = Duration::from_hours(1);
/// Conditional writes that are tried again because another process was faster.
const TRIES: usize = 8;
/// How often a message is returned, a second apart, that is newer than what is noted of its job: somebody is about to note it.
const EARLY_DELIVERIES_MAX: i64 = 60;
/// Results are kept for so long at least: the message of a job that is done may come once more, when its acknowledgement was lost.
const KEPT_MIN: Duration = Duration::from_mins(1);
const SOON: AckKind = AckKind::Nak(Some(Duration::from_secs(1)));
/// Jobs in one answer when all are listed.
const LISTED_AT_ONCE: usize = 500;

/// The durable jobs of a cluster.
#[derive(Debug)]
pub struct ClusterJobs {
    jetstream: JetStream,
    /// The attempts of this process, by the job's id.
    held: Mutex<HashMap<String, Arc<Held>>>,
    /// How many jobs of each queue this process has seen done, and how many failed.
    ended: Mutex<HashMap<String, (u64, u64)>>,
    figures: Mutex<Vec<QueueFacts>>,
}

/// An attempt of this process.
#[derive(Debug)]
struct Held {
    message: Message,
    job: Job,
    sequence: u64,
    /// Of the job's record.
    revision: u64,
    /// When the lease was last known to be renewed.
    renewed: Mutex<Instant>,
}

/// What a client's key stands for.
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
            held: Mutex::default(),
            ended: Mutex::default(),
            figures: Mutex::default(),
        });
        runtime.spawn(renew(Arc::downgrade(&jobs)));
        jobs
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
            Change::Remove { id, even_if_over } => self.remove(&id, even_if_over).await,
            Change::Retry { id } => self.retry(&id, now_ms).await,
            // JetStream gives the messages of processes that have ended to others.
            Change::Recover { .. } => Ok(Changed::Recovered(0)),
        }
    }

    async fn accept(&self, mut new: NewJob, limits: QueueLimits, now_ms: u64) -> Result<Changed, JobError> {
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
        // Whoever sends the same key at the same time stores the same job: one of them does.
        let payload = payload_of(&new.request);
        self.jetstream
            .put(subject, Some(&entry), payload, Some(0), None)
            .await?;
        Ok(Changed::Accepted(Box::new(entry.job)))
    }

    /// Has a client's key stand for this job, unless it stands for another one.
    async fn take_key(&self, name: &str, new: &NewJob) -> Result<KeyRecord, JobError> {
        let own = KeyRecord {
            id: new.id.clone(),
            digest: new.digest.clone(),
        };
        for _ in 0..TRIES {
            let known = self.jetstream.get(name).await?;
            let revision = known.as_ref().map_or(0, |known| known.revision);
            if let Some(known) = known {
                let known: KeyRecord =
                    serde_json::from_slice(&known.payload).map_err(|error| foreign(name, &error))?;
                if known.digest == own.digest || self.find(&known.id).await?.is_some() {
                    return Ok(known);
                }
            }
            if self.put_key(name, &own, Some(revision), None).await? {
                return Ok(own);
            }
        }
        Err(self.contended(&new.id))
    }

    async fn put_key(
        &self,
        name: &str,
        record: &KeyRecord,
        expected: Option<u64>,
        ttl: Option<Duration>,
    ) -> Result<bool, JobError> {
        let payload = serde_json::to_vec(record).expect("texts become JSON");
        let subject = self.jetstream.subject(name);
        let put = self.jetstream.put(subject, None, payload.into(), expected, ttl);
        Ok(put.await?.is_some())
    }

    fn contended(&self, id: &str) -> JobError {
        self.jetstream
            .unavailable(format!("job `{id}` is changed by other processes all the time"))
    }

    async fn begin(
        &self,
        mut candidates: Vec<Candidate>,
        room: usize,
        owner: &str,
        now_ms: u64,
    ) -> Result<Changed, JobError> {
        candidates.sort_by_key(|candidate| candidate.rank);
        let mut begun = Vec::new();
        let mut failure = None;
        for candidate in &candidates {
            if let Err(error) = self.begin_of(candidate, room, owner, now_ms, &mut begun).await {
                failure = Some(error);
            }
        }
        match failure {
            Some(error) if begun.is_empty() => Err(error),
            // Those run; an error comes again.
            _ => Ok(Changed::Begun(begun)),
        }
    }

    async fn begin_of(
        &self,
        candidate: &Candidate,
        room: usize,
        owner: &str,
        now_ms: u64,
        begun: &mut Vec<(Job, Content)>,
    ) -> Result<(), JobError> {
        let queue = self.jetstream.queue(&candidate.queue, candidate.limits).await?;
        loop {
            let free = candidate.at_a_time.saturating_sub(self.running(&queue.route));
            let free = free.min(room - begun.len());
            if free == 0 {
                return Ok(());
            }
            let asked = Instant::now();
            let fetch = queue.consumer.fetch().max_messages(free).messages();
            let mut messages = fetch.await.map_err(|error| self.jetstream.unavailable(error))?;
            let mut is_empty = true;
            loop {
                let next = tokio::time::timeout(TIMEOUT, messages.next()).await;
                let message = match next {
                    Ok(Some(Ok(message))) => message,
                    Ok(Some(Err(error))) => return Err(self.jetstream.unavailable(error)),
                    Ok(None) => break,
                    Err(_) => return Err(self.jetstream.unavailable("no answer when asked for jobs")),
                };
                is_empty = false;
                begun.extend(self.take(message, asked, owner, now_ms).await?);
            }
            if is_empty {
                return Ok(());
            }
        }
    }

    /// How many jobs of a route this process runs.
    fn running(&self, route: &str) -> usize {
        let held = self.held.lock();
        held.values().filter(|held| held.job.queue == route).count()
    }

    async fn end(&self, message: &Message, kind: AckKind) -> Result<Option<(Job, Content)>, JobError> {
        let ended = message.ack_with(kind).await;
        ended
            .map(|()| None)
            .map_err(|error| self.jetstream.unavailable(error))
    }

    /// Begins the job of a message, if it may begin now.
    async fn take(
        &self,
        message: Message,
        asked: Instant,
        owner: &str,
        now_ms: u64,
    ) -> Result<Option<(Job, Content)>, JobError> {
        let info = message
            .info()
            .map_err(|error| self.jetstream.unavailable(error))?;
        let (sequence, deliveries) = (info.stream_sequence, info.delivered);
        let accepted = message.headers.as_ref().and_then(entry_of);
        let (Some(accepted), Some(request)) = (accepted, content_of(&message.payload)) else {
            tracing::warn!(target: "forebay::cluster", subject = %message.subject, "what somebody has published there is no job");
            return self.end(&message, AckKind::Term).await;
        };
        if accepted.job.due_ms > now_ms {
            return self.end(&message, until(accepted.job.due_ms, now_ms)).await;
        }
        let name = job_name(&accepted.job.id);
        for _ in 0..TRIES {
            let (revision, mut entry) = match self.jetstream.get(&name).await? {
                None => (
                    0,
                    Entry {
                        sequence,
                        ..accepted.clone()
                    },
                ),
                Some(Record { entry: None, .. }) => return self.end(&message, AckKind::Ack).await,
                Some(Record {
                    revision,
                    entry: Some(entry),
                    ..
                }) => (revision, entry),
            };
            // A retry by hand has put a new message in the place of this one, or is about to note that this is the new one.
            if sequence < entry.sequence || (sequence > entry.sequence && deliveries > EARLY_DELIVERIES_MAX) {
                return self.end(&message, AckKind::Ack).await;
            }
            if sequence > entry.sequence {
                return self.end(&message, SOON).await;
            }
            match entry.job.state {
                JobState::Done | JobState::Failed => return self.end(&message, AckKind::Ack).await,
                JobState::Running if self.held.lock().contains_key(&entry.job.id) => {
                    return self.end(&message, AckKind::Progress).await;
                }
                JobState::Running => {
                    entry.job.interrupt(now_ms);
                    if entry.job.state == JobState::Failed {
                        if self
                            .put_end(&entry, revision, None, &message.payload, FAILED_KEPT)
                            .await?
                            .is_some()
                        {
                            return self.end(&message, AckKind::Ack).await;
                        }
                        continue;
                    }
                }
                JobState::Waiting | JobState::Retrying if entry.job.due_ms > now_ms => {
                    return self.end(&message, until(entry.job.due_ms, now_ms)).await;
                }
                JobState::Waiting | JobState::Retrying => {}
            }
            entry.job.begin(owner, now_ms);
            let subject = self.jetstream.subject(&name);
            let put = self
                .jetstream
                .put(subject, Some(&entry), Bytes::new(), Some(revision), None);
            if let Some(revision) = put.await? {
                let job = entry.job;
                let held = Held {
                    message,
                    job: job.clone(),
                    sequence,
                    revision,
                    renewed: Mutex::new(asked),
                };
                self.held.lock().insert(job.id.clone(), Arc::new(held));
                return Ok(Some((job, request)));
            }
        }
        self.end(&message, SOON).await
    }

    /// Completes when the lease of an attempt of this process may pass to another one.
    pub async fn lost(&self, id: &str) {
        let held = self.held.lock().get(id).cloned();
        let Some(held) = held else { return };
        loop {
            let until = *held.renewed.lock() + LEASE_USED;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    async fn conclude(
        &self,
        id: &str,
        attempt: u32,
        outcome: Outcome,
        policy: &Policy,
        now_ms: u64,
        jitter: f64,
    ) -> Result<Changed, JobError> {
        let held = self
            .held
            .lock()
            .get(id)
            .filter(|held| held.job.attempts == attempt)
            .cloned();
        let Some(held) = held else {
            return Ok(Changed::Nothing);
        };
        let mut job = held.job.clone();
        let response = job.conclude(outcome, policy, now_ms, jitter);
        let entry = Entry {
            job,
            sequence: held.sequence,
        };
        let put = if let Some(until_ms) = entry.job.kept_until_ms(policy) {
            let kept = Duration::from_millis(until_ms.saturating_sub(now_ms));
            self.put_end(&entry, held.revision, response, &held.message.payload, kept)
                .await?
        } else {
            let subject = self.jetstream.subject(&job_name(id));
            self.jetstream
                .put(subject, Some(&entry), Bytes::new(), Some(held.revision), None)
                .await?
        };
        self.held.lock().remove(id);
        if put.is_none() {
            return Ok(Changed::Nothing);
        }
        let job = entry.job;
        let kind = if job.state.is_over() {
            AckKind::Ack
        } else {
            until(job.due_ms, now_ms)
        };
        // Should it be lost, whoever gets the message next sees how the job stands.
        drop(held.message.ack_with(kind).await);
        Ok(Changed::Job(Box::new(job)))
    }

    /// Notes that a job is over, and for how long it is kept; `None`: another process has changed it.
    async fn put_end(
        &self,
        entry: &Entry,
        revision: u64,
        response: Option<Content>,
        request: &Bytes,
        kept: Duration,
    ) -> Result<Option<u64>, JobError> {
        let (job, jetstream, kept) = (&entry.job, &self.jetstream, kept.max(KEPT_MIN));
        if job.state == JobState::Failed {
            let subject = jetstream.subject(&request_name(&job.id));
            jetstream
                .put(subject, None, request.clone(), None, Some(kept))
                .await?;
        }
        let payload = response.as_ref().map(payload_of).unwrap_or_default();
        let subject = jetstream.subject(&job_name(&job.id));
        let put = jetstream
            .put(subject, Some(entry), payload, Some(revision), Some(kept))
            .await?;
        if put.is_none() {
            return Ok(None);
        }
        self.keep_key(job, Some(kept)).await?;
        let mut ended = self.ended.lock();
        let (done, failed) = ended.entry(job.queue.clone()).or_default();
        *if job.state == JobState::Done { done } else { failed } += 1;
        Ok(put)
    }

    /// Keeps the key of a job for as long as the job.
    async fn keep_key(&self, job: &Job, kept: Option<Duration>) -> Result<(), JobError> {
        let Some(key) = &job.key else { return Ok(()) };
        let record = KeyRecord {
            id: job.id.clone(),
            digest: job.digest.clone(),
        };
        let name = key_name(&job.queue, job.subject.as_deref(), key);
        self.put_key(&name, &record, None, kept).await.map(|_| ())
    }

    async fn remove(&self, id: &str, even_if_over: bool) -> Result<Changed, JobError> {
        for _ in 0..TRIES {
            let (revision, job) = self.resting(id).await?;
            if job.state.is_over() && !even_if_over {
                return Err(JobError::Over { state: job.state });
            }
            let jetstream = &self.jetstream;
            let subject = jetstream.subject(&job_name(id));
            let put = jetstream.put(subject, None, Bytes::new(), Some(revision), Some(REMOVED_KEPT));
            if put.await?.is_none() {
                continue;
            }
            let bucket = jetstream.bucket().await?;
            jetstream
                .purge(&bucket, jetstream.subject(&request_name(id)))
                .await?;
            if let Some(key) = &job.key {
                let name = key_name(&job.queue, job.subject.as_deref(), key);
                jetstream.purge(&bucket, jetstream.subject(&name)).await?;
            }
            for queue in jetstream.queues().iter().filter(|queue| queue.route == job.queue) {
                jetstream.purge(&queue.stream, queue.subject_of(id)).await?;
            }
            return Ok(Changed::Nothing);
        }
        Err(self.contended(id))
    }

    /// A job that is not running, and the revision of its record.
    async fn resting(&self, id: &str) -> Result<(u64, Job), JobError> {
        let missing = || JobError::NotFound { id: id.to_owned() };
        if !is_id(id) {
            return Err(missing());
        }
        let (revision, job) = match self.jetstream.get(&job_name(id)).await? {
            Some(record) => (record.revision, record.entry.ok_or_else(missing)?.job),
            None => {
                let (_, _, job) = self.waiting(id).await?.ok_or_else(missing)?;
                (0, job)
            }
        };
        if job.state == JobState::Running {
            return Err(JobError::Running);
        }
        Ok((revision, job))
    }

    /// The message of a job that is not over.
    async fn waiting(&self, id: &str) -> Result<Option<(Arc<WorkQueue>, StreamMessage, Job)>, JobError> {
        for queue in self.jetstream.queues() {
            let found = self.jetstream.last(&queue.stream, &queue.subject_of(id)).await?;
            if let Some(message) = found
                && let Some(entry) = entry_of(&message.headers)
            {
                return Ok(Some((queue, message, entry.job)));
            }
        }
        Ok(None)
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
        let queue = jetstream
            .queues()
            .into_iter()
            .find(|queue| queue.route == job.queue);
        let queue = queue.ok_or_else(|| JobError::Unavailable {
            reason: format!(
                "no route `{}` is configured, or its queue is not there yet",
                job.queue
            ),
        })?;
        job.retry(now_ms);
        // A new message, because the one that is there may have been given to nobody until its time. Until the job names it, it does nothing.
        let mut entry = Entry { job, sequence: 0 };
        let put = jetstream.put(queue.subject_of(id), Some(&entry), request, None, None);
        entry.sequence = put.await?.unwrap_or_default();
        let subject = jetstream.subject(&job_name(id));
        let put = jetstream.put(subject, Some(&entry), Bytes::new(), Some(revision), None);
        if put.await?.is_none() {
            drop(queue.stream.delete_message(entry.sequence).await);
            return Err(JobError::Running);
        }
        let bucket = jetstream.bucket().await?;
        jetstream
            .purge(&bucket, jetstream.subject(&request_name(id)))
            .await?;
        self.keep_key(&entry.job, None).await?;
        if let Some((queue, message, _)) = before {
            // It would do no harm: it is older than the one the job names.
            drop(queue.stream.delete_message(message.sequence).await);
        }
        Ok(Changed::Job(Box::new(entry.job)))
    }

    /// The job of this id, if it is kept.
    pub async fn find(&self, id: &str) -> Result<Option<Job>, JobError> {
        if !is_id(id) {
            return Ok(None);
        }
        match self.jetstream.get(&job_name(id)).await? {
            Some(record) => Ok(record.entry.map(|entry| entry.job)),
            None => Ok(self.waiting(id).await?.map(|(_, _, job)| job)),
        }
    }

    /// The request of a job that is not done.
    pub async fn request(&self, id: &str) -> Result<Option<Content>, JobError> {
        if !is_id(id) {
            return Ok(None);
        }
        if let Some((_, message, _)) = self.waiting(id).await? {
            return Ok(content_of(&message.payload));
        }
        let record = self.jetstream.get(&request_name(id)).await?;
        Ok(record.and_then(|record| content_of(&record.payload)))
    }

    /// The response of a job that is over, if its handler gave one.
    pub async fn response(&self, id: &str) -> Result<Option<Content>, JobError> {
        if !is_id(id) {
            return Ok(None);
        }
        let record = self.jetstream.get(&job_name(id)).await?;
        Ok(record.and_then(|record| content_of(&record.payload)))
    }

    /// At most `limit` jobs of these states, of one queue or of all: open ones in the order in which they were accepted, others latest first.
    pub async fn list(
        &self,
        states: &[JobState],
        queue: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Job>, JobError> {
        let mut jobs = Vec::new();
        for work in self.jetstream.queues() {
            let mut sequence = 1;
            while states.iter().any(|state| !state.is_over())
                && queue.is_none_or(|queue| queue == work.route)
                && jobs.len() < limit
                && let Some(message) = self.jetstream.next(&work, sequence).await?
            {
                sequence = message.sequence + 1;
                if let Some(entry) = entry_of(&message.headers)
                    && let Some(job) = self.find(&entry.job.id).await?
                    && !job.state.is_over()
                    && states.contains(&job.state)
                {
                    jobs.push(job);
                }
            }
        }
        if states.iter().any(|state| state.is_over()) {
            jobs.extend(self.over(states, queue, limit - jobs.len()).await?);
        }
        Ok(jobs)
    }

    /// Reads the header of each record.
    async fn over(
        &self,
        states: &[JobState],
        queue: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Job>, JobError> {
        let failed = |error: &dyn std::fmt::Display| self.jetstream.unavailable(error);
        let bucket = self.jetstream.bucket().await?;
        let consumer = bucket
            .create_consumer(pull::Config {
                filter_subject: self.jetstream.subject("job.*"),
                deliver_policy: DeliverPolicy::LastPerSubject,
                ack_policy: AckPolicy::None,
                headers_only: true,
                memory_storage: true,
                num_replicas: 1,
                inactive_threshold: LEASE,
                ..pull::Config::default()
            })
            .await
            .map_err(|error| failed(&error))?;
        let mut latest = VecDeque::new();
        loop {
            let fetch = consumer.fetch().max_messages(LISTED_AT_ONCE).messages();
            let mut messages = fetch.await.map_err(|error| failed(&error))?;
            let mut is_empty = true;
            while let Some(message) = tokio::time::timeout(TIMEOUT, messages.next())
                .await
                .map_err(|error| failed(&error))?
            {
                is_empty = false;
                let message = message.map_err(|error| failed(&error))?;
                let entry = message.headers.as_ref().and_then(entry_of);
                let is_asked = |job: &Job| {
                    job.state.is_over()
                        && states.contains(&job.state)
                        && queue.is_none_or(|queue| queue == job.queue)
                };
                latest.extend(entry.map(|entry| entry.job).filter(is_asked));
                if latest.len() > limit {
                    latest.pop_front();
                }
            }
            if is_empty {
                break;
            }
        }
        Ok(latest.into_iter().rev().collect())
    }

    /// Figures about the queues that this process uses, a few seconds old. What runs, was done and failed is that of this process.
    pub fn queues(&self) -> Vec<QueueFacts> {
        self.figures.lock().clone()
    }

    async fn read_figures(&self, now_ms: u64) -> Result<(), JobError> {
        let mut figures = Vec::new();
        for queue in self.jetstream.queues() {
            let info = queue
                .stream
                .get_info()
                .await
                .map_err(|error| self.jetstream.unavailable(error))?;
            let consumer = queue
                .consumer
                .get_info()
                .await
                .map_err(|error| self.jetstream.unavailable(error))?;
            let mut oldest_ms = 0;
            if consumer.num_pending > 0
                && let Some(next) = self
                    .jetstream
                    .next(&queue, consumer.delivered.stream_sequence + 1)
                    .await?
                && let Some(entry) = entry_of(&next.headers)
            {
                oldest_ms = now_ms.saturating_sub(entry.job.due_ms);
            }
            let running = self.running(&queue.route) as u64;
            let (done, failed) = self.ended.lock().get(&queue.route).copied().unwrap_or_default();
            figures.push(QueueFacts {
                queue: queue.route.clone(),
                waiting: info.state.messages.saturating_sub(running),
                running,
                bytes: info.state.bytes,
                done,
                failed,
                oldest_ms,
            });
        }
        *self.figures.lock() = figures;
        Ok(())
    }
}

impl WorkQueue {
    fn subject_of(&self, id: &str) -> String {
        format!("{}.{id}", self.subject)
    }
}

/// Renews the leases of all attempts, and reads the figures, until the jobs are dropped.
async fn renew(jobs: Weak<ClusterJobs>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(jobs) = jobs.upgrade() else { return };
        let held: Vec<_> = jobs.held.lock().values().cloned().collect();
        let mut renewals = JoinSet::new();
        for held in held {
            renewals.spawn(async move {
                let asked = Instant::now();
                // It is asked again before the lease has passed.
                if held.message.double_ack_with(AckKind::Progress).await.is_ok() {
                    *held.renewed.lock() = asked;
                }
            });
        }
        renewals.join_all().await;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let figures = jobs.read_figures(now.unwrap_or_default().as_millis() as u64);
        // Those before stand until they can be read. Leases do not wait for them.
        drop(tokio::time::timeout(RENEWAL, figures).await);
    }
}

fn until(due_ms: u64, now_ms: u64) -> AckKind {
    let delay = Duration::from_millis(due_ms.saturating_sub(now_ms));
    AckKind::Nak((!delay.is_zero()).then_some(delay))
}

fn job_name(id: &str) -> String {
    format!("job.{id}")
}

fn request_name(id: &str) -> String {
    format!("request.{id}")
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
