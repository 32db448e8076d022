//! The store as the storage of durable jobs.

use std::future::poll_fn;

use forebay_jobs::{
    Candidate, Change, Content, Job, JobError, JobState, QueueFacts, due_ms, find, list, queues, request,
    response, scheduled_ms,
};
use forebay_store::Durability;

use super::{Done, OPERATION_BYTES, OpenStore, Work, now_ms};
use crate::{
    failure::Refusal,
    jobs::{Changing, JobStorage, Reading},
};

impl JobStorage for OpenStore {
    fn change(&self, change: Change) -> Result<Changing, Refusal> {
        let bytes = change.bytes() + OPERATION_BYTES;
        let mut pending = self.writer().submit(vec![Work::Job(Box::new(change))], bytes)?;
        // The writer does not wait for the disk then.
        let is_relaxed = self.store().options().durability == Durability::Relaxed;
        let flushes = is_relaxed.then(|| self.flushes().clone());
        Ok(Box::pin(async move {
            let done = poll_fn(|cx| pending.poll(cx)).await?.pop();
            if let Some(flushes) = flushes {
                // A commit of the future stands for the last one.
                let flushed = flushes.bring(u64::MAX).await;
                flushed.map_err(|_| Refusal::Stopping)??;
            }
            match done {
                Some(Done::Job(changed)) => Ok(*changed),
                _ => unreachable!("a change of a job is what was done"),
            }
        }))
    }

    fn find<'s>(&'s self, id: &'s str) -> Reading<'s, Option<Job>> {
        self.read(|state| find(state, id, now_ms()))
    }

    fn request<'s>(&'s self, id: &'s str) -> Reading<'s, Option<Content>> {
        self.read(|state| request(state, id))
    }

    fn response<'s>(&'s self, id: &'s str) -> Reading<'s, Option<Content>> {
        self.read(|state| response(state, id))
    }

    fn scheduled_ms<'s>(&'s self, queue: &'s str) -> Reading<'s, Option<u64>> {
        self.read(|state| scheduled_ms(state, queue))
    }

    fn due_ms(&self, candidates: &[Candidate]) -> Result<Option<u64>, Refusal> {
        let queues = candidates.iter().map(|candidate| &*candidate.queue);
        Ok(due_ms(&self.store().snapshot()?, queues)?)
    }

    fn list<'s>(
        &'s self,
        states: &'s [JobState],
        queue: Option<&'s str>,
        limit: usize,
    ) -> Reading<'s, Vec<Job>> {
        let (store, states, queue) = (self.store().clone(), states.to_vec(), queue.map(str::to_owned));
        // It may look at many jobs.
        let listing = tokio::task::spawn_blocking(move || {
            let snapshot = store.snapshot()?;
            Ok(list(&snapshot, &states, queue.as_deref(), limit, now_ms())?)
        });
        Box::pin(async move { listing.await.unwrap_or(Err(Refusal::Stopping)) })
    }

    fn queues(&self) -> Result<Vec<QueueFacts>, Refusal> {
        Ok(queues(&self.store().snapshot()?, now_ms())?)
    }
}

impl OpenStore {
    fn read<'s, T: Send + 's>(
        &self,
        read: impl FnOnce(&forebay_store::Snapshot) -> Result<T, JobError>,
    ) -> Reading<'s, T> {
        let result = self
            .store()
            .snapshot()
            .map_err(JobError::from)
            .and_then(|state| read(&state));
        Box::pin(std::future::ready(result.map_err(Refusal::from)))
    }
}
