//! Durable jobs of a cluster, in JetStream.

use std::{pin::Pin, sync::Arc};

use forebay_cluster::ClusterJobs;
use forebay_jobs::{Candidate, Change, Content, Job, JobState, QueueFacts};

use super::{Changing, JobStorage, Reading};
use crate::{failure::Refusal, store::now_ms};

impl JobStorage for Arc<ClusterJobs> {
    fn serve(&self, routes: Vec<Candidate>) {
        ClusterJobs::serve(self, routes);
    }

    fn change(&self, change: Change) -> Result<Changing, Refusal> {
        let jobs = Self::clone(self);
        Ok(Box::pin(async move {
            Ok(ClusterJobs::change(&jobs, change, now_ms()).await?)
        }))
    }

    fn begins_together(&self) -> bool {
        false
    }

    fn find<'s>(&'s self, id: &'s str) -> Reading<'s, Option<Job>> {
        Box::pin(async move { Ok(ClusterJobs::find(self, id).await?) })
    }

    fn request<'s>(&'s self, id: &'s str) -> Reading<'s, Option<Content>> {
        Box::pin(async move { Ok(ClusterJobs::request(self, id).await?) })
    }

    fn response<'s>(&'s self, id: &'s str) -> Reading<'s, Option<Content>> {
        Box::pin(async move { Ok(ClusterJobs::response(self, id).await?) })
    }

    fn scheduled_ms<'s>(&'s self, queue: &'s str) -> Reading<'s, Option<u64>> {
        Box::pin(async move { Ok(ClusterJobs::scheduled_ms(self, queue).await?) })
    }

    /// JetStream knows.
    fn due_ms(&self, _candidates: &[Candidate]) -> Result<Option<u64>, Refusal> {
        Ok(Some(0))
    }

    fn list<'s>(
        &'s self,
        states: &'s [JobState],
        queue: Option<&'s str>,
        limit: usize,
    ) -> Reading<'s, Vec<Job>> {
        Box::pin(async move { Ok(ClusterJobs::list(self, states, queue, limit).await?) })
    }

    fn queues(&self) -> Result<Vec<QueueFacts>, Refusal> {
        Ok(ClusterJobs::queues(self))
    }

    fn lost<'s>(&'s self, id: &'s str) -> Pin<Box<dyn Future<Output = ()> + Send + 's>> {
        Box::pin(ClusterJobs::lost(self, id))
    }
}
