//! Reads of the jobs of a cluster.

use std::{collections::VecDeque, sync::Arc};

use async_nats::jetstream::{
    consumer::{AckPolicy, DeliverPolicy, pull},
    message::StreamMessage,
};
use forebay_jobs::{Content, Job, JobError, JobState, QueueFacts};
use futures_util::StreamExt as _;

use super::{ClusterJobs, foreign, is_id, job_name, request_name, schedule_name};
use crate::jetstream::{LEASE, Record, TIMEOUT, WorkQueue, content_of, entry_of};

/// Jobs in one answer when all are listed.
const LISTED_AT_ONCE: usize = 500;

impl ClusterJobs {
    /// A job, and the revision of its record; 0: it has not begun.
    pub(super) async fn look_up(&self, id: &str) -> Result<Option<(u64, Job)>, JobError> {
        if !is_id(id) {
            return Ok(None);
        }
        let name = job_name(id);
        let of_record = |record: Record| Some((record.revision, record.entry?.job));
        if let Some(record) = self.jetstream.get(&name).await? {
            return Ok(of_record(record));
        }
        if let Some((_, _, job)) = self.waiting(id).await? {
            return Ok(Some((0, job)));
        }
        // It may have begun and ended since.
        Ok(self.jetstream.get(&name).await?.and_then(of_record))
    }

    /// The message of a job that is not over.
    pub(super) async fn waiting(
        &self,
        id: &str,
    ) -> Result<Option<(Arc<WorkQueue>, StreamMessage, Job)>, JobError> {
        for queue in self.work_queues().await? {
            let found = self.jetstream.last(&queue.stream, &queue.subject_of(id)).await?;
            if let Some(message) = found
                && let Some(entry) = entry_of(&message.headers)
            {
                return Ok(Some((queue, message, entry.job)));
            }
        }
        Ok(None)
    }

    /// The job of this id, if it is kept.
    pub async fn find(&self, id: &str) -> Result<Option<Job>, JobError> {
        Ok(self.look_up(id).await?.map(|(_, job)| job))
    }

    /// Until when the times of a queue's schedule have had their jobs; `None`: it is new.
    pub async fn scheduled_ms(&self, queue: &str) -> Result<Option<u64>, JobError> {
        Ok(self.scheduled(queue).await?.map(|(_, until_ms)| until_ms))
    }

    /// The same, after the revision of the record.
    pub(super) async fn scheduled(&self, queue: &str) -> Result<Option<(u64, u64)>, JobError> {
        let name = schedule_name(queue);
        let Some(record) = self.jetstream.get(&name).await? else {
            return Ok(None);
        };
        let until_ms = serde_json::from_slice(&record.payload).map_err(|error| foreign(&name, &error))?;
        Ok(Some((record.revision, until_ms)))
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
        for work in self.work_queues().await? {
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

    pub(super) async fn read_figures(&self, now_ms: u64) -> Result<(), JobError> {
        let mut figures = Vec::new();
        for queue in self.work_queues().await? {
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
