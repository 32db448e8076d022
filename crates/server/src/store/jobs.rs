//! The store as the storage of durable jobs.

use std::future::poll_fn;

use forebay_jobs::{
    Candidate, Change, Content, Job, JobState, QueueFacts, due_ms, find, list, queues, request, response,
};
use forebay_store::Durability;

use super::{Done, OPERATION_BYTES, OpenStore, Work, now_ms};
use crate::{
    failure::Refusal,
    jobs::{Changing, JobStorage},
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

    fn find(&self, id: &str) -> Result<Option<Job>, Refusal> {
        Ok(find(&self.store().snapshot()?, id, now_ms())?)
    }

    fn request(&self, id: &str) -> Result<Option<Content>, Refusal> {
        Ok(request(&self.store().snapshot()?, id)?)
    }

    fn response(&self, id: &str) -> Result<Option<Content>, Refusal> {
        Ok(response(&self.store().snapshot()?, id)?)
    }

    fn due_ms(&self, candidates: &[Candidate]) -> Result<Option<u64>, Refusal> {
        let queues = candidates.iter().map(|candidate| &*candidate.queue);
        Ok(due_ms(&self.store().snapshot()?, queues)?)
    }

    fn list(&self, states: &[JobState], queue: Option<&str>, limit: usize) -> Result<Vec<Job>, Refusal> {
        Ok(list(&self.store().snapshot()?, states, queue, limit, now_ms())?)
    }

    fn queues(&self) -> Result<Vec<QueueFacts>, Refusal> {
        Ok(queues(&self.store().snapshot()?, now_ms())?)
    }
}
