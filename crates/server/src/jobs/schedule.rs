//! Puts the jobs of schedules into their queues.
//!
//! All processes that share a queue look at its schedule. The job of a time has a key, so it is put there once, and until when all times have had
//! their jobs is noted in the storage, so a time that has passed while no process ran is made up for.

use forebay_jobs::{Change, Content, NewJob, Schedule};

use super::{JobRoute, Jobs, RequestHead, new_id};
use crate::{failure::Refusal, store::now_ms};

/// No client is called so: those have a `:` in their names.
const SUBJECT: &str = "schedule";
/// The header field with the time for which a job is.
const SCHEDULED: &str = "forebay-scheduled";

/// The request of the jobs of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledRequest {
    pub(crate) schedule: Schedule,
    pub(crate) method: String,
    pub(crate) path: String,
}

impl Jobs {
    /// Each route with a schedule, the schedule, and its next time, if there is one.
    pub(crate) fn next_times(&self) -> Vec<(String, Schedule, Option<u64>)> {
        let routes = self.routes.lock().clone();
        let scheduled = routes.iter().filter_map(|route| {
            let schedule = route.schedule.as_ref()?.schedule.clone();
            let next_ms = schedule.after(now_ms());
            Some((route.queue.clone(), schedule, next_ms))
        });
        scheduled.collect()
    }

    /// Puts the job of a route's schedule into its queue, if it is time; returns when to look again, in milliseconds since 1970 UTC.
    pub(super) async fn put_scheduled(&self, route: &JobRoute) -> Result<u64, Refusal> {
        let Some(scheduled) = &route.schedule else {
            return Ok(u64::MAX);
        };
        let now_ms = now_ms();
        let known = self.next_times.lock().get(&route.queue).copied();
        if let Some(next_ms) = known.filter(|next_ms| *next_ms > now_ms) {
            return Ok(next_ms);
        }
        let done = |until_ms| {
            let queue = route.queue.clone();
            self.storage.change(Change::Scheduled { queue, until_ms })
        };
        let done_ms = match self.storage.scheduled_ms(&route.queue).await? {
            Some(done_ms) => done_ms,
            None => {
                done(now_ms)?.await?;
                now_ms
            }
        };
        let mut next_ms = scheduled.schedule.after(done_ms);
        if let Some(due_ms) = next_ms.filter(|due_ms| *due_ms <= now_ms) {
            let new = Box::new(scheduled.job(route, due_ms)?);
            let limits = route.bounds;
            self.storage.change(Change::Accept { new, limits })?.await?;
            done(now_ms)?.await?;
            next_ms = scheduled.schedule.after(now_ms);
        }
        let next_ms = next_ms.unwrap_or(u64::MAX);
        self.next_times.lock().insert(route.queue.clone(), next_ms);
        Ok(next_ms)
    }
}

impl ScheduledRequest {
    fn job(&self, route: &JobRoute, due_ms: u64) -> Result<NewJob, Refusal> {
        let id = new_id()?;
        let head = RequestHead {
            method: self.method.clone(),
            path: self.path.clone(),
            query: String::new(),
            pattern: self.path.clone(),
            params: Vec::new(),
            headers: vec![(SCHEDULED.to_owned(), self.schedule.written(due_ms))],
            peer: String::new(),
            id: id.clone(),
            identity: String::new(),
        };
        Ok(NewJob {
            id,
            queue: route.queue.clone(),
            subject: Some(SUBJECT.to_owned()),
            key: Some(due_ms.to_string()),
            digest: String::new(),
            delay_ms: 0,
            request: Content {
                head: serde_json::to_string(&head).expect("texts become JSON"),
                body: Vec::new(),
            },
        })
    }
}
