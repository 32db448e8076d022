//! Where durable jobs are kept: in the embedded store, or in JetStream.

use std::{future::poll_fn, sync::Arc};

use forebay_cluster::ClusterJobs;
use forebay_jobs::{
    Candidate, Change, Changed, Content, Job, JobError, JobState, QueueFacts, due_ms, find, list, queues,
    request, response, scheduled_ms,
};
use forebay_store::{Durability, Snapshot};

use crate::{
    failure::Refusal,
    store::{Done, OPERATION_BYTES, OpenStore, Work, now_ms},
};

/// Where jobs are kept. Futures of JetStream are large, and those of connections would contain them: they are boxed.
#[derive(Debug)]
pub(crate) enum JobStorage {
    Store(Arc<OpenStore>),
    Cluster(Arc<ClusterJobs>),
}

impl JobStorage {
    /// Puts these routes in force.
    pub(super) fn serve(&self, routes: Vec<Candidate>) {
        if let Self::Cluster(jobs) = self {
            jobs.serve(routes);
        }
    }

    /// Makes a change, which is on disk afterwards. If the future is dropped before the change has begun, it is not made.
    pub(super) async fn change(&self, change: Change) -> Result<Changed, Refusal> {
        let store = match self {
            Self::Store(store) => store,
            Self::Cluster(jobs) => return Ok(Box::pin(jobs.change(change, now_ms())).await?),
        };
        let bytes = change.bytes() + OPERATION_BYTES;
        let mut pending = store.writer().submit(vec![Work::Job(Box::new(change))], bytes)?;
        let done = poll_fn(|cx| pending.poll(cx)).await?.pop();
        // The writer has not waited for the disk then.
        if store.store().options().durability == Durability::Relaxed {
            // A commit of the future stands for the last one.
            let flushed = store.flushes().bring(u64::MAX).await;
            flushed.map_err(|_| Refusal::Stopping)??;
        }
        match done {
            Some(Done::Job(changed)) => Ok(*changed),
            _ => unreachable!("a change of a job is what was done"),
        }
    }

    /// Whether one change begins jobs of several queues. Otherwise each is asked alone, so that no job waits for the answer of another queue.
    pub(super) fn begins_together(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// The job of this id, if it is kept.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Job>, Refusal> {
        match self {
            Self::Store(store) => read(store, |state| find(state, id, now_ms())),
            Self::Cluster(jobs) => Ok(Box::pin(jobs.find(id)).await?),
        }
    }

    /// The request of a job.
    pub(crate) async fn request(&self, id: &str) -> Result<Option<Content>, Refusal> {
        match self {
            Self::Store(store) => read(store, |state| request(state, id)),
            Self::Cluster(jobs) => Ok(Box::pin(jobs.request(id)).await?),
        }
    }

    /// The response of a job that is over.
    pub(super) async fn response(&self, id: &str) -> Result<Option<Content>, Refusal> {
        match self {
            Self::Store(store) => read(store, |state| response(state, id)),
            Self::Cluster(jobs) => Ok(Box::pin(jobs.response(id)).await?),
        }
    }

    /// Until when the times of a queue's schedule have had their jobs; `None`: it is new.
    pub(super) async fn scheduled_ms(&self, queue: &str) -> Result<Option<u64>, Refusal> {
        match self {
            Self::Store(store) => read(store, |state| scheduled_ms(state, queue)),
            Self::Cluster(jobs) => Ok(jobs.scheduled_ms(queue).await?),
        }
    }

    /// From when the next job of any of these queues may begin, in milliseconds since 1970 UTC; it may be too early.
    pub(super) fn due_ms(&self, candidates: &[Candidate]) -> Result<Option<u64>, Refusal> {
        let queues = candidates.iter().map(|candidate| &*candidate.queue);
        match self {
            Self::Store(store) => read(store, |state| due_ms(state, queues)),
            // JetStream knows.
            Self::Cluster(_) => Ok(Some(0)),
        }
    }

    /// At most `limit` jobs of these states, of one queue or of all.
    pub(crate) async fn list(
        &self,
        states: &[JobState],
        queue: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Job>, Refusal> {
        let store = match self {
            Self::Store(store) => Arc::clone(store),
            Self::Cluster(jobs) => return Ok(jobs.list(states, queue, limit).await?),
        };
        let (states, queue) = (states.to_vec(), queue.map(str::to_owned));
        // It may look at many jobs.
        let listing = tokio::task::spawn_blocking(move || {
            read(&store, |state| {
                list(state, &states, queue.as_deref(), limit, now_ms())
            })
        });
        listing.await.unwrap_or(Err(Refusal::Stopping))
    }

    /// Figures about all queues.
    pub(crate) fn queues(&self) -> Result<Vec<QueueFacts>, Refusal> {
        match self {
            Self::Store(store) => read(store, |state| queues(state, now_ms())),
            Self::Cluster(jobs) => Ok(jobs.queues()),
        }
    }

    /// Completes when another process may begin the job that this one runs.
    pub(super) async fn lost(&self, id: &str) {
        match self {
            Self::Store(_) => std::future::pending().await,
            Self::Cluster(jobs) => jobs.lost(id).await,
        }
    }
}

fn read<T>(store: &OpenStore, read: impl FnOnce(&Snapshot) -> Result<T, JobError>) -> Result<T, Refusal> {
    Ok(read(&store.store().snapshot()?)?)
}
