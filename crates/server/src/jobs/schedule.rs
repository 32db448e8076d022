//! Puts the jobs of schedules into their queues.
//!
//! All processes that share a queue look at its schedule. The job of a time has a key, so it is put there once, and until when all times have had
//! their jobs is noted in the storage, so a time that has passed while no process ran is made up for. If that is ahead of this process's clock,
//! the clock of one of them is or was wrong: then only the key says whether a time has had its job, and the note follows if it has not.

use forebay_jobs::{Change, Changed, Content, NewJob, Schedule, is_ahead};

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
        let known = self.next_times.lock().get(&route.queue).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.contains(&now_ms)) {
            return Ok(known.end);
        }
        let done = |until_ms| {
            let queue = route.queue.clone();
            self.storage.change(Change::Scheduled { queue, until_ms })
        };
        let noted_ms = self.storage.scheduled_ms(&route.queue).await?;
        let is_ahead = noted_ms.is_some_and(|noted_ms| is_ahead(noted_ms, now_ms));
        let done_ms = match noted_ms {
            Some(noted_ms) if is_ahead => {
                let [noted, now] = [noted_ms, now_ms].map(|ms| scheduled.schedule.written(ms));
                tracing::warn!(target: "forebay::jobs", route = route.queue, noted, now, "a schedule is noted as done up to a time that has not come: this server's clock is slow, or another one was fast; times that have had no job get one");
                known.map_or(now_ms, |known| known.start.min(now_ms))
            }
            Some(noted_ms) => noted_ms,
            None => {
                done(now_ms).await?;
                now_ms
            }
        };
        let mut next_ms = scheduled.schedule.after(done_ms);
        if let Some(due_ms) = next_ms.filter(|due_ms| *due_ms <= now_ms) {
            let new = Box::new(scheduled.job(route, due_ms)?);
            let (id, limits) = (new.id.clone(), route.bounds);
            let accepted = self.storage.change(Change::Accept { new, limits }).await?;
            let is_new = matches!(accepted, Changed::Accepted(job) if job.id == id);
            if is_new || !is_ahead {
                done(now_ms).await?;
            }
            next_ms = scheduled.schedule.after(now_ms);
        }
        let next_ms = next_ms.unwrap_or(u64::MAX);
        self.next_times
            .lock()
            .insert(route.queue.clone(), now_ms..next_ms);
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
