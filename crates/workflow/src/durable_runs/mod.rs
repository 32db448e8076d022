//! Durable runs, kept in the store: a run is on disk before its client is told that it is accepted, it runs whether or not the client
//! waits, and its outcome can be queried later. Runs that are accepted but unfinished when a server ends are run by the next one.
//!
//! **Invariants:** a name has at most one entry, which exists from before the store is asked to accept the name until the store has the
//! outcome. So one name never runs twice at the same time, and never again while its outcome is kept. An accepted asynchronous run is never
//! dropped. A run that has begun is begun again only by the server that follows one that died or had to cut it off.

mod attempt;
mod entry;
mod records;

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Semaphore, sync::watch};

use self::{
    attempt::{Attempt, attempt},
    records::Records,
};
pub use self::{
    entry::{Entry, Progress},
    records::{Over, RunName, RunRequest},
};
use crate::{
    Admission, Asker, Evaluator, FailureKind, RunStorage, Runner, StorageError, WorkflowFailure, arguments,
};

/// Pause before another attempt of a run that found no room. It doubles each time, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// `workflow.runs`: where durable runs are kept, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableRunLimits {
    /// The global that has the runs.
    pub global: String,
    /// How long outcomes are kept.
    pub kept: Duration,
    /// Most runs accepted and unfinished.
    pub open_max: usize,
    /// Most runs in progress for which no client waits.
    pub at_a_time: usize,
}

/// All durable runs, with those that are unfinished in memory.
pub struct DurableRuns<E: Evaluator> {
    records: Records,
    open_max: usize,
    /// Permits for running asynchronous runs.
    places: Semaphore,
    entries: Mutex<HashMap<RunName, Arc<Entry>>>,
    /// The workflows in force, which execute the runs.
    runner: watch::Sender<Option<Runner<E>>>,
    /// Whether [`DurableRuns::begin`] was called.
    has_begun: watch::Sender<bool>,
    is_ending: watch::Sender<bool>,
    runtime: Handle,
}

impl<E: Evaluator> fmt::Debug for DurableRuns<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DurableRuns").finish_non_exhaustive()
    }
}

/// Whether the client waits for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLookup {
    /// The client waits: the run begins now or is refused.
    Now,
    /// The run begins when there is room.
    Later,
}

impl<E: Evaluator> DurableRuns<E> {
    /// Opens the durable runs without starting them: another process may still execute them. Wait for [`DurableRuns::begun`] before any other use.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub fn new(storage: Arc<dyn RunStorage>, limits: &DurableRunLimits) -> Arc<Self> {
        Arc::new(Self {
            records: Records::new(storage, &limits.global, limits.kept),
            open_max: limits.open_max,
            places: Semaphore::new(limits.at_a_time),
            entries: Mutex::default(),
            runner: watch::Sender::new(None),
            has_begun: watch::Sender::new(false),
            is_ending: watch::Sender::new(false),
            runtime: Handle::current(),
        })
    }

    /// Starts; no other process may execute these runs any more. Unfinished runs of an earlier server are executed once there is a target.
    ///
    /// # Errors
    /// If the storage fails.
    pub fn begin(self: &Arc<Self>) -> Result<(), StorageError> {
        let left = self.records.all_open()?;
        if !left.is_empty() {
            tracing::info!(target: "forebay::workflow", runs = left.len(), "runs that were accepted and are not over are run");
        }
        for name in left {
            // A run that cannot be read does not affect the others.
            let Some(asked) = self.asked(&name) else {
                continue;
            };
            let entry = Entry::new(&asked, true, Progress::Waiting);
            drop(asked);
            self.entries.lock().insert(name.clone(), Arc::clone(&entry));
            let kept_runs = Arc::clone(self);
            self.runtime
                .spawn(async move { kept_runs.see_to(&name, &entry).await });
        }
        self.has_begun.send_replace(true);
        Ok(())
    }

    /// Waits for [`DurableRuns::begin`].
    pub async fn begun(&self) {
        // The sender lives as long as this does.
        let _ = self.has_begun.subscribe().wait_for(|begun| *begun).await;
    }

    /// Puts these workflows in force.
    pub fn serve(&self, runner: Option<&Runner<E>>) {
        self.runner.send_replace(runner.cloned());
    }

    /// Begins no more asynchronous runs; the next server will.
    pub fn stop(&self) {
        self.is_ending.send_replace(true);
    }

    /// Returns once no run is in progress.
    pub async fn stopped(&self) {
        let entries: Vec<_> = self.entries.lock().values().cloned().collect();
        for entry in entries {
            let rests = |progress: &Progress| matches!(progress, Progress::Waiting) || progress.is_over();
            entry.comes_to(rests).await;
        }
    }

    /// Number of runs accepted and unfinished.
    pub fn open(&self) -> usize {
        self.entries.lock().len()
    }

    /// The run of this name: an unfinished one, one whose outcome is stored, or a new one.
    ///
    /// # Errors
    /// If the name belongs to a run of something else, or there is no room for another.
    pub fn run(
        self: &Arc<Self>,
        name: RunName,
        asked: RunRequest,
        wanted: RunLookup,
    ) -> Result<Arc<Entry>, WorkflowFailure> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&name) {
            if entry.mark != asked.mark() {
                return Err(WorkflowFailure::OtherRun { id: name.id });
            }
            if wanted == RunLookup::Later {
                entry.promise();
            }
            return Ok(Arc::clone(entry));
        }
        if wanted == RunLookup::Later && *self.is_ending.borrow() {
            return Err(WorkflowFailure::Stopping);
        }
        let open_max = self.open_max;
        if entries.len() >= open_max {
            return Err(WorkflowFailure::TooManyRuns { open_max });
        }
        let entry = Entry::new(&asked, wanted == RunLookup::Later, Progress::Accepting);
        entries.insert(name.clone(), Arc::clone(&entry));
        drop(entries);
        // A spawned task, so that the run continues even if the client disconnects.
        let (kept, its) = (Arc::clone(self), Arc::clone(&entry));
        self.runtime.spawn(async move {
            match kept.accept(&name, asked).await {
                Ok(None) => {
                    its.progress.send_replace(Progress::Waiting);
                    kept.see_to(&name, &its).await;
                }
                Ok(Some(over)) => kept.conclude(&name, &its, Progress::Over(Arc::new(over))),
                Err(refusal) => kept.conclude(&name, &its, Progress::Refused(refusal)),
            }
        });
        Ok(entry)
    }

    /// Checks whether the client may have this run. An existing run may be asked for even if its workflow is gone.
    ///
    /// # Errors
    /// If the client may not run the workflow, or a new run cannot be: there is no such workflow, or its arguments do not match their schema.
    pub fn check(
        &self,
        runner: &Runner<E>,
        asker: Asker<'_>,
        name: &RunName,
        asked: &RunRequest,
    ) -> Result<(), WorkflowFailure> {
        let workflow = &asked.workflow;
        Admission::check(asker, workflow)?;
        if self.entries.lock().contains_key(name) || self.records.over(name)?.is_some() {
            return Ok(());
        }
        let chosen = runner.releases.choose(&name.id, asked.release)?;
        chosen.check(asker, workflow)?;
        match chosen.bundle.schemas(workflow) {
            Some(schemas) => schemas.check_args(arguments(asked.args.as_bytes())?),
            None => Ok(()),
        }
    }

    /// The progress of a workflow's run by name: its outcome as soon as there is one, or its progress at `until`.
    ///
    /// # Errors
    /// If the storage fails, or has other data there.
    pub async fn find(
        &self,
        name: &RunName,
        workflow: &str,
        until: Instant,
    ) -> Result<Option<Progress>, WorkflowFailure> {
        let entry = self.entries.lock().get(name).cloned();
        if let Some(entry) = entry {
            if entry.workflow != workflow {
                return Ok(None);
            }
            let over = tokio::time::timeout_at(until.into(), entry.comes_to(Progress::is_over));
            return Ok(Some(over.await.unwrap_or_else(|_| entry.progress())));
        }
        let over = self.records.over(name)?;
        let over = over.filter(|over| over.workflow == workflow);
        Ok(over.map(|over| Progress::Over(Arc::new(over))))
    }

    /// Stores the request; returns the outcome if the run has finished earlier.
    async fn accept(&self, name: &RunName, asked: RunRequest) -> Result<Option<Over>, WorkflowFailure> {
        if let Some(over) = self.records.over(name)? {
            return if over.mark == asked.mark_text() {
                Ok(Some(over))
            } else {
                let id = name.id.clone();
                Err(WorkflowFailure::OtherRun { id })
            };
        }
        self.records.accept(name, &asked)?.await?;
        Ok(None)
    }

    /// Removes the entry: this server has nothing more to do for the run.
    fn conclude(&self, name: &RunName, entry: &Entry, progress: Progress) {
        self.entries.lock().remove(name);
        entry.progress.send_replace(progress);
    }

    /// Leaves the run in the store, for the next server.
    fn leave(&self, name: &RunName, entry: &Entry) {
        self.conclude(name, entry, Progress::Refused(WorkflowFailure::Stopping));
    }

    /// The stored request of a run; logs an error if it cannot be read.
    fn asked(&self, name: &RunName) -> Option<RunRequest> {
        match self.records.asked(name) {
            Ok(asked) => asked,
            Err(refusal) => {
                let why = refusal.to_string();
                tracing::error!(target: "forebay::workflow", run = name.id, "a run that was accepted cannot be read: {why}");
                None
            }
        }
    }

    /// Runs an accepted run until it has an outcome.
    async fn see_to(&self, name: &RunName, entry: &Arc<Entry>) {
        let mut ending = self.is_ending.subscribe();
        let mut pause = PAUSE;
        loop {
            let mut place = None;
            if entry.is_promised() {
                tokio::select! {
                    biased;
                    _ = ending.wait_for(|ending| *ending) => return self.leave(name, entry),
                    taken = self.places.acquire() => place = taken.ok(),
                }
            }
            // Reads the arguments for each attempt, so that waiting runs do not hold them in memory.
            let Some(asked) = self.asked(name) else {
                let id = name.id.clone();
                let refusal = WorkflowFailure::NoSuchRun { id };
                return self.conclude(name, entry, Progress::Refused(refusal));
            };
            let runner = self.runner.borrow().clone();
            if let Some(runner) = runner {
                entry.progress.send_replace(Progress::Queued);
                match attempt(&runner, name, &asked, entry, &self.is_ending).await {
                    Attempt::Over(over) => {
                        drop(place);
                        return self.write(name, entry, over).await;
                    }
                    Attempt::CutOff => return self.leave(name, entry),
                    Attempt::NotBegun(refusal) => {
                        if self.take_back(name, entry, refusal).await {
                            return;
                        }
                    }
                }
            }
            // Gives others a chance to begin. The error is not reported, because the run will be attempted again.
            drop(place);
            entry.progress.send_replace(Progress::Waiting);
            drop(tokio::time::timeout(pause, ending.wait_for(|ending| *ending)).await);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Refuses a run that has not begun while every client waits for it, which frees its name. Returns false if the run was promised to a
    /// client that does not wait.
    async fn take_back(&self, name: &RunName, entry: &Entry, refusal: WorkflowFailure) -> bool {
        let forgotten = {
            let mut entries = self.entries.lock();
            if entry.is_promised() {
                return false;
            }
            entries.remove(name);
            // Submitted under the lock, before another request can store this name again.
            self.records.forget(name)
        };
        let is_forgotten = match forgotten {
            Ok(written) => written.await.is_ok(),
            Err(_) => false,
        };
        if !is_forgotten {
            tracing::warn!(target: "forebay::workflow", run = name.id, "a run that was refused could not be taken back: it runs after the next start");
        }
        entry.progress.send_replace(Progress::Refused(refusal));
        true
    }

    /// Stores the outcome, retrying for as long as it takes.
    async fn write(&self, name: &RunName, entry: &Entry, mut over: Over) {
        let (mut pause, mut is_replaced) = (PAUSE, false);
        loop {
            let written = match self.records.end(name, &over) {
                Ok(written) => written.await,
                Err(error) => Err(error),
            };
            let error = match written {
                Ok(()) => return self.conclude(name, entry, Progress::Over(Arc::new(over))),
                // The run was removed from the storage, so its outcome is of no interest.
                Err(error) if error.code() == FailureKind::NotFound.code() => {
                    return self.conclude(name, entry, Progress::Over(Arc::new(over)));
                }
                Err(error) => error,
            };
            let is_too_long = error.code() < FailureKind::Internal.code();
            if is_too_long && !is_replaced {
                // The error becomes the outcome.
                is_replaced = true;
                over.status = 500;
                over.trace.clear();
                over.answer = format!("the result of the run cannot be kept: {error}");
                continue;
            }
            tracing::error!(target: "forebay::workflow", run = name.id, workflow = over.workflow, "what a run has come to is not written yet: {error}");
            if *self.is_ending.borrow() {
                return self.leave(name, entry);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
