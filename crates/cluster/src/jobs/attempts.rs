//! Attempts: which jobs begin in this process, and how they end.

use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use forebay_jobs::{Candidate, Changed, Content, FAILED_KEPT, Job, JobError, JobState, Outcome, Policy};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior};

use super::{ClusterJobs, RunningAttempt, TRIES, is_id, job_name, request_name};
use crate::jetstream::{Entry, Record, TIMEOUT, content_of, entry_of, payload_of};

/// Leases are renewed, and figures read, this often.
const RENEWAL: Duration = Duration::from_secs(3);
/// An attempt is given up when its lease has not been renewed for so long: no other process has the message yet.
const LEASE_USED: Duration = Duration::from_secs(11);
/// How often a message is returned, a second apart, that is newer than the record of its job, which is about to be written.
const EARLY_DELIVERIES_MAX: i64 = 60;
/// Results are kept for so long at least: the message of a job that is done may come once more, when its acknowledgement was lost.
const KEPT_MIN: Duration = Duration::from_mins(1);
const SOON: AckKind = AckKind::Nak(Some(Duration::from_secs(1)));

impl ClusterJobs {
    /// Begins jobs of the first candidate that has any: those of others would have them wait.
    pub(super) async fn begin(
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
            let asked = self.begin_of(candidate, room, owner, now_ms, &mut begun).await;
            if !begun.is_empty() {
                // An error comes again.
                return Ok(Changed::Begun(begun));
            }
            failure = asked.err().or(failure);
        }
        failure.map_or(Ok(Changed::Begun(begun)), Err)
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
    pub(super) fn running(&self, route: &str) -> usize {
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
        let accepted = accepted.filter(|accepted| is_id(&accepted.job.id));
        let (Some(accepted), Some(request)) = (accepted, content_of(&message.payload)) else {
            tracing::warn!(target: "forebay::cluster", subject = %message.subject, "what somebody has published there is no job");
            return self.end(&message, AckKind::Term).await;
        };
        if !accepted.job.is_due(now_ms) {
            return self.end(&message, until(accepted.job.due_ms, now_ms)).await;
        }
        let name = job_name(&accepted.job.id);
        for _ in 0..TRIES {
            let (revision, mut entry, ttl) = match self.jetstream.get(&name).await? {
                None => (
                    0,
                    Entry {
                        sequence,
                        ..accepted.clone()
                    },
                    None,
                ),
                Some(Record { entry: None, .. }) => {
                    self.clear(&accepted.job).await?;
                    return self.end(&message, AckKind::Ack).await;
                }
                Some(Record {
                    revision,
                    entry: Some(entry),
                    ttl,
                    ..
                }) => (revision, entry, ttl),
            };
            // A retry by hand has put a new message in the place of this one, or is about to note that this is the new one.
            if sequence < entry.sequence || (sequence > entry.sequence && deliveries > EARLY_DELIVERIES_MAX) {
                return self.end(&message, AckKind::Ack).await;
            }
            if sequence > entry.sequence {
                return self.end(&message, SOON).await;
            }
            match entry.job.state {
                JobState::Done | JobState::Failed => {
                    // The front end that ended it may have died, or lost the reply, before it set the expiry of the key.
                    if let (Some(ttl), Some(ended_ms)) = (ttl, entry.job.ended_ms) {
                        let passed = Duration::from_millis(now_ms.saturating_sub(ended_ms));
                        self.keep_key(&entry.job, Some(ttl.saturating_sub(passed)))
                            .await?;
                    }
                    return self.end(&message, AckKind::Ack).await;
                }
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
                JobState::Waiting | JobState::Retrying if !entry.job.is_due(now_ms) => {
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
                let held = RunningAttempt {
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

    pub(super) async fn conclude(
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
        // If it is gone, it is made anew, where there is no such job: without it, storing the end would be tried forever.
        self.jetstream.bucket().await?;
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
        if put.is_none()
            && let Some(record) = self.jetstream.get(&job_name(id)).await?
            && record.revision == held.revision
        {
            // An earlier write, which was not acknowledged in time, may still be under way.
            return Err(self.contended(id));
        }
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
        // If it is lost, the next one that gets the message sees the state of the job.
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
}

/// Renews the leases of all attempts until the jobs are dropped. None waits for another one, or for its own reply, to be renewed in time.
pub(super) async fn renew(jobs: Weak<ClusterJobs>) {
    let mut ticks = tokio::time::interval(RENEWAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(jobs) = jobs.upgrade() else { return };
        let held: Vec<_> = jobs.held.lock().values().cloned().collect();
        for held in held {
            tokio::spawn(async move {
                let asked = Instant::now();
                let renewal = held.message.double_ack_with(AckKind::Progress);
                if let Ok(Ok(())) = tokio::time::timeout(TIMEOUT, renewal).await {
                    let mut renewed = held.renewed.lock();
                    *renewed = asked.max(*renewed);
                }
            });
        }
    }
}

/// Reads the figures until the jobs are dropped.
pub(super) async fn read_figures(jobs: Weak<ClusterJobs>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(jobs) = jobs.upgrade() else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let figures = jobs.read_figures(now.unwrap_or_default().as_millis() as u64);
        // Those before stand until they can be read.
        drop(tokio::time::timeout(TIMEOUT, figures).await);
    }
}

fn until(due_ms: u64, now_ms: u64) -> AckKind {
    let delay = Duration::from_millis(due_ms.saturating_sub(now_ms));
    AckKind::Nak((!delay.is_zero()).then_some(delay))
}
