//! Runs durable jobs: begins those that are due, in the pools of their routes, and stores how they end.
//!
//! **Invariants:** a job is stored as running before its pool gets it, and its end is stored before its slot is free. So a job that was
//! running when a process died is found by the next one, and one that is done does not run again. Two processes may use one queue, as
//! during an upgrade: what begins is decided in the store.

mod attempt;
mod schedule;
mod storage;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use forebay_jobs::{Candidate, Change, Changed, Content, Job, JobState, Outcome, Policy, QueueLimits, Slots};
use forebay_pool::{Limits, Pool};
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};

pub(crate) use self::{attempt::RequestHead, schedule::ScheduledRequest, storage::JobStorage};
use crate::{
    failure::Refusal,
    store::{OpenStore, now_ms},
};

/// The queue is looked at this often, because another process may have changed it.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before another attempt to store how a job has ended. It doubles each time, up to [`LOOK`].
const PAUSE: Duration = Duration::from_millis(20);

/// A durable route: how its jobs are done.
#[derive(Debug)]
pub(crate) struct JobRoute {
    /// The name of the route.
    pub(crate) queue: String,
    pub(crate) policy: Policy,
    pub(crate) at_a_time: usize,
    pub(crate) rank: u8,
    pub(crate) schedule: Option<ScheduledRequest>,
    pub(crate) bounds: QueueLimits,
    pub(crate) pool: Pool,
    /// Most jobs that the pool runs at a time.
    pub(crate) room: usize,
    pub(crate) limits: Limits,
    /// Bytes of a request's body in the payload of the pool's job.
    pub(crate) first_bytes_max: usize,
    /// The store, if handlers can write to it.
    pub(crate) store: Option<Arc<OpenStore>>,
    #[expect(dead_code, reason = "it is held: it keeps the pool")]
    pub(crate) held: Arc<watch::Sender<()>>,
}

/// The queue of this process.
#[derive(Debug)]
pub(crate) struct Jobs {
    storage: JobStorage,
    /// This process, in the store.
    owner: String,
    /// The durable routes in force.
    routes: Mutex<Arc<Vec<Arc<JobRoute>>>>,
    slots: Mutex<Slots>,
    /// When the schedules of routes were looked at last and are to be looked at next, by the route's name.
    next_times: Mutex<HashMap<String, Range<u64>>>,
    /// Why jobs could not begin when they were looked at last, which is logged once; empty if they could.
    failure: Mutex<String>,
    /// Attempts in progress, and the task that begins them.
    running: watch::Sender<usize>,
    /// There may be a job to begin, or room for one.
    wake: Notify,
    /// Dropped at the end of the next attempt; for each job that a client waits for.
    ends: Mutex<HashMap<String, watch::Sender<()>>>,
    is_stopping: watch::Sender<bool>,
    runtime: Handle,
}

/// The end of an attempt that a client waits for.
#[derive(Debug)]
pub(crate) struct EndOfAttempt<'j> {
    jobs: &'j Jobs,
    id: String,
    end: watch::Receiver<()>,
}

impl EndOfAttempt<'_> {
    /// Waits for it.
    pub(crate) async fn wait(&mut self) {
        // Nothing is ever sent: the sender is dropped.
        let _ = self.end.changed().await;
    }
}

impl Drop for EndOfAttempt<'_> {
    fn drop(&mut self) {
        let mut ends = self.jobs.ends.lock();
        if ends.get(&self.id).is_some_and(|end| end.receiver_count() == 1) {
            ends.remove(&self.id);
        }
    }
}

impl Jobs {
    /// A queue that begins nothing yet.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub(crate) fn new(storage: JobStorage) -> Result<Arc<Self>, Refusal> {
        Ok(Arc::new(Self {
            storage,
            owner: new_id()?,
            routes: Mutex::default(),
            slots: Mutex::default(),
            next_times: Mutex::default(),
            failure: Mutex::default(),
            running: watch::Sender::new(0),
            wake: Notify::new(),
            ends: Mutex::default(),
            is_stopping: watch::Sender::new(false),
            runtime: Handle::current(),
        }))
    }

    pub(crate) fn storage(&self) -> &JobStorage {
        &self.storage
    }

    /// Begins to run jobs.
    pub(crate) fn start(self: &Arc<Self>) {
        let jobs = Arc::clone(self);
        jobs.running.send_modify(|running| *running += 1);
        self.runtime.spawn(async move {
            let mut stopping = jobs.is_stopping.subscribe();
            while !*stopping.borrow() {
                let pause = jobs.begin_due().await;
                tokio::select! {
                    () = jobs.wake.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                    _ = stopping.wait_for(|stopping| *stopping) => {}
                }
            }
            jobs.running.send_modify(|running| *running -= 1);
        });
    }

    /// Has the jobs wait again that ran in processes which have ended. To be called once this is the only process that runs jobs.
    pub(crate) fn recover_soon(self: &Arc<Self>) {
        let jobs = Arc::clone(self);
        self.runtime.spawn(async move { jobs.recover().await });
    }

    async fn recover(&self) {
        let mut stopping = self.is_stopping.subscribe();
        while !*stopping.borrow() {
            match self.recover_now().await {
                Ok(jobs) => {
                    if jobs > 0 {
                        tracing::info!(target: "forebay::jobs", jobs, "jobs that were cut off run again");
                        self.wake.notify_one();
                    }
                    return;
                }
                Err(refusal) => {
                    tracing::error!(target: "forebay::jobs", cause = %refusal, "jobs that were cut off cannot be read");
                }
            }
            drop(tokio::time::timeout(LOOK, stopping.wait_for(|stopping| *stopping)).await);
        }
    }

    async fn recover_now(&self) -> Result<usize, Refusal> {
        if self.storage.queues()?.iter().all(|queue| queue.running == 0) {
            return Ok(0);
        }
        let owner = self.owner.clone();
        let queue = None;
        match self.change(Change::Recover { owner, queue }).await? {
            Changed::Recovered(jobs) => Ok(jobs.len()),
            _ => Ok(0),
        }
    }

    /// Puts these routes in force.
    pub(crate) fn serve(&self, routes: Arc<Vec<Arc<JobRoute>>>) {
        self.storage
            .serve(routes.iter().map(|route| route.candidate()).collect());
        *self.routes.lock() = routes;
        self.next_times.lock().clear();
        self.wake.notify_one();
    }

    /// Begins no more jobs; the next process will.
    pub(crate) fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Returns once no attempt is in progress and, after [`Jobs::stop`], none can begin.
    pub(crate) async fn stopped(&self) {
        // This owns the sender.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Makes a change.
    pub(crate) async fn change(&self, change: Change) -> Result<Changed, Refusal> {
        let changed = self.storage.change(change).await?;
        self.wake.notify_one();
        Ok(changed)
    }

    /// The response of a job, if it is over.
    pub(crate) async fn response(&self, job: &Job) -> Result<Option<Content>, Refusal> {
        if job.state.is_over() {
            return self.storage.response(&job.id).await;
        }
        Ok(None)
    }

    /// The end of the job's next attempt in this process.
    pub(crate) fn end_of_attempt(&self, id: &str) -> EndOfAttempt<'_> {
        let end = self.ends.lock().entry(id.to_owned()).or_default().subscribe();
        EndOfAttempt {
            jobs: self,
            id: id.to_owned(),
            end,
        }
    }

    /// Begins the jobs that may begin; returns the time until others may.
    async fn begin_due(self: &Arc<Self>) -> Duration {
        let routes = self.routes.lock().clone();
        if routes.is_empty() {
            return Duration::MAX;
        }
        let mut pools: BTreeMap<&str, Vec<&Arc<JobRoute>>> = BTreeMap::new();
        for route in &*routes {
            pools.entry(route.pool.name()).or_default().push(route);
        }
        let mut failure = String::new();
        let mut next_ms = u64::MAX;
        for route in &*routes {
            match self.put_scheduled(route).await {
                Ok(ms) => next_ms = next_ms.min(ms),
                Err(refusal) => failure = refusal.to_string(),
            }
        }
        let is_together = self.storage.begins_together();
        for (pool, mut routes) in pools {
            routes.sort_by_key(|route| route.rank);
            for routes in routes.chunk_by(|_, _| is_together) {
                match self.begin_in(pool, routes).await {
                    Ok(ms) => next_ms = next_ms.min(ms),
                    Err(refusal) => failure = refusal.to_string(),
                }
            }
        }
        let mut known = self.failure.lock();
        if !failure.is_empty() && *known != failure {
            tracing::error!(target: "forebay::jobs", cause = failure, "jobs that are due cannot begin");
        }
        *known = failure;
        drop(known);
        Duration::from_millis(next_ms.saturating_sub(now_ms())).min(LOOK)
    }

    /// Begins the jobs that may begin in a pool; returns from when others may.
    async fn begin_in(self: &Arc<Self>, pool: &str, routes: &[&Arc<JobRoute>]) -> Result<u64, Refusal> {
        let now_ms = now_ms();
        let most = routes.iter().map(|route| route.room).max().unwrap_or_default();
        let (room, candidates) = {
            let slots = self.slots.lock();
            let room = match slots.free(pool, most, now_ms) {
                Ok(0) => return Ok(u64::MAX),
                Ok(room) => room,
                Err(until_ms) => return Ok(until_ms),
            };
            let free = routes
                .iter()
                .filter(|route| slots.running(&route.queue) < route.at_a_time);
            let candidates: Vec<_> = free.map(|route| route.candidate()).collect();
            (room, candidates)
        };
        match self.storage.due_ms(&candidates)? {
            None => return Ok(u64::MAX),
            Some(due_ms) if due_ms > now_ms => return Ok(due_ms),
            Some(_) => {}
        }
        let owner = self.owner.clone();
        let change = Change::Begin {
            candidates,
            room,
            owner,
        };
        let Changed::Begun(begun) = self.storage.change(change).await? else {
            return Ok(u64::MAX);
        };
        // Without any, other processes run as many as may.
        let next_ms = if begun.is_empty() { u64::MAX } else { now_ms };
        for (job, request) in begun {
            let route = routes.iter().find(|route| route.queue == job.queue);
            let route = Arc::clone(route.expect("it is one of the candidates"));
            self.slots.lock().begin(pool, &job.queue);
            self.running.send_modify(|running| *running += 1);
            self.runtime.spawn(Arc::clone(self).attempt(route, job, request));
        }
        Ok(next_ms)
    }

    async fn attempt(self: Arc<Self>, route: Arc<JobRoute>, job: Job, request: Content) {
        let outcome = tokio::select! {
            outcome = route.run(&job, request) => outcome,
            () = self.storage.lost(&job.id) => Outcome::NotBegun,
        };
        let has_begun = outcome != Outcome::NotBegun;
        self.conclude(&route, &job, outcome).await;
        self.slots
            .lock()
            .end(route.pool.name(), &job.queue, has_begun, now_ms());
        self.ends.lock().remove(&job.id);
        drop(route);
        self.running.send_modify(|running| *running -= 1);
        self.wake.notify_one();
    }

    /// Stores how an attempt has ended, however often that takes.
    async fn conclude(&self, route: &JobRoute, job: &Job, mut outcome: Outcome) {
        let mut pause = PAUSE;
        loop {
            let change = Change::Conclude {
                id: job.id.clone(),
                attempt: job.attempts,
                owner: self.owner.clone(),
                outcome: outcome.clone(),
                policy: route.policy,
                jitter: random().map_or(0.5, |random| f64::from(random as u32) / f64::from(u32::MAX)),
            };
            let refusal = match self.storage.change(change).await {
                Ok(Changed::Job(after)) => return tell(&after),
                Ok(_) => return,
                Err(refusal) => refusal,
            };
            if refusal.status() < 500 && matches!(outcome, Outcome::Done(_)) {
                // The error takes the response's place.
                let error = format!("the response cannot be kept: {refusal}");
                outcome = Outcome::failure(error, true);
                continue;
            }
            tracing::error!(target: "forebay::jobs", job = job.id, cause = %refusal, "how a job has ended is not stored yet");
            if *self.is_stopping.borrow() {
                // It is found as one that was cut off.
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK);
        }
    }
}

impl JobRoute {
    fn candidate(&self) -> Candidate {
        Candidate {
            queue: self.queue.clone(),
            rank: self.rank,
            at_a_time: self.at_a_time,
            limits: self.bounds,
        }
    }
}

/// Logs an attempt that failed.
fn tell(job: &Job) {
    let cause = job.error.as_deref().unwrap_or_default();
    let (id, route, attempts) = (&job.id, &job.queue, job.attempts);
    match job.state {
        JobState::Failed => {
            tracing::error!(target: "forebay::jobs", job = id, route, attempts, cause, "a job has failed for good");
        }
        JobState::Retrying if !cause.is_empty() => {
            tracing::warn!(target: "forebay::jobs", job = id, route, attempts, cause, "a job has failed and is tried again");
        }
        _ => {}
    }
}

pub(crate) fn random() -> Result<u128, Refusal> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|error| Refusal::NoRandomNumbers {
        reason: error.to_string(),
    })?;
    Ok(u128::from_ne_bytes(bytes))
}

/// A new id: the time in milliseconds, then 80 random bits, so that ids cannot be guessed, and new jobs are stored beside each other.
pub(crate) fn new_id() -> Result<String, Refusal> {
    let time = u128::from(now_ms()) << 80;
    Ok(format!("{:032x}", time | random()? >> 48))
}
