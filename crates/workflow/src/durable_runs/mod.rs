//! Durable runs, kept in the store: a run is on disk before its client is told that it is accepted, it runs whether or not the client
//! waits, and its outcome can be queried later. Runs that are accepted but unfinished when a server ends are run by another one: the next on
//! its machine, or any that shares the store.
//!
//! **Invariants:** a name has at most one entry in each server, which exists from before the store is asked to accept the name until the
//! store has the outcome; the store accepts a name once, for one server. So one name never runs twice at the same time, and never again while
//! its outcome is kept. An accepted asynchronous run is never dropped. A run that has begun is begun again only after its server has died, has
//! lost its lock in the store, or had to cut the run off.

mod attempt;
mod entry;
mod holding;
mod records;

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Semaphore, sync::watch};

use self::{
    attempt::{Attempt, attempt},
    holding::Holding,
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
/// The code of a run that is stored already.
const CONFLICT: u16 = 412;
/// Longest pause before another look at a run that another server has.
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(500);

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
    /// Whether this server has its lock in the store, without which others take over its runs.
    is_holding: watch::Sender<bool>,
    is_ending: watch::Sender<bool>,
    holding: Mutex<Option<Holding>>,
    runtime: Handle,
}

impl<E: Evaluator> fmt::Debug for DurableRuns<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DurableRuns").finish_non_exhaustive()
    }
}

/// A run in the store.
enum Stored {
    Open(RunRequest),
    Over(Over),
}

impl Stored {
    fn workflow(&self) -> &str {
        match self {
            Self::Open(open) => &open.workflow,
            Self::Over(over) => &over.workflow,
        }
    }

    fn mark(&self) -> Cow<'_, str> {
        match self {
            Self::Open(open) => open.mark_text().into(),
            Self::Over(over) => (&*over.mark).into(),
        }
    }
}

impl<E: Evaluator> DurableRuns<E> {
    /// Opens the durable runs of a storage, which others may use at the same time. `server` is different for each start of a server.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub fn new(storage: Arc<dyn RunStorage>, limits: &DurableRunLimits, server: String) -> Arc<Self> {
        Arc::new(Self {
            records: Records::new(storage, &limits.global, limits.kept, server),
            open_max: limits.open_max,
            places: Semaphore::new(limits.at_a_time),
            entries: Mutex::default(),
            runner: watch::Sender::new(None),
            is_holding: watch::Sender::new(true),
            is_ending: watch::Sender::new(false),
            holding: Mutex::default(),
            runtime: Handle::current(),
        })
    }

    /// Starts: from now on runs are accepted, and those of servers that have died are taken over.
    ///
    /// # Errors
    /// If the storage fails, or a thread cannot be started.
    pub fn begin(self: &Arc<Self>) -> Result<(), StorageError> {
        *self.holding.lock() = Some(Holding::start(self)?);
        Ok(())
    }

    /// Puts these workflows in force.
    pub fn serve(&self, runner: Option<&Runner<E>>) {
        self.runner.send_replace(runner.cloned());
    }

    /// Begins no more asynchronous runs; other servers will.
    pub fn stop(&self) {
        self.is_ending.send_replace(true);
    }

    /// Lets other servers take over the runs that are left. To be called once no run is in progress.
    pub async fn release(&self) {
        let holding = self.holding.lock().take();
        if let Some(holding) = holding {
            // A panic of the thread has been reported, and its locks are released.
            let _ = self.runtime.spawn_blocking(|| holding.end()).await;
        }
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
    pub fn run(self: &Arc<Self>, name: RunName, asked: RunRequest) -> Result<Arc<Entry>, WorkflowFailure> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&name) {
            if entry.mark != asked.mark() {
                return Err(WorkflowFailure::OtherRun { id: name.id });
            }
            if asked.is_promised {
                entry.promise();
            }
            return Ok(Arc::clone(entry));
        }
        if asked.is_promised && *self.is_ending.borrow() {
            return Err(WorkflowFailure::Stopping);
        }
        let open_max = self.open_max;
        if entries.len() >= open_max {
            return Err(WorkflowFailure::TooManyRuns { open_max });
        }
        let entry = Entry::new(&asked, Progress::Accepting);
        entries.insert(name.clone(), Arc::clone(&entry));
        drop(entries);
        // A spawned task, so that the run continues even if the client disconnects.
        let (kept, its) = (Arc::clone(self), Arc::clone(&entry));
        self.runtime.spawn(async move {
            match kept.accept(&name, asked, &its).await {
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
    pub async fn check(
        &self,
        runner: &Runner<E>,
        asker: Asker<'_>,
        name: &RunName,
        asked: &RunRequest,
    ) -> Result<(), WorkflowFailure> {
        let workflow = &asked.workflow;
        Admission::check(asker, workflow)?;
        let is_here = self.entries.lock().contains_key(name);
        if is_here || self.records.over(name).await?.is_some() {
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
        let mut pause = PAUSE;
        loop {
            let stored = self.stored(name).await?;
            if stored.as_ref().is_none_or(|stored| stored.workflow() != workflow) {
                return Ok(None);
            }
            match stored {
                Some(Stored::Over(over)) => return Ok(Some(Progress::Over(Arc::new(over)))),
                _ if Instant::now() >= until => return Ok(Some(Progress::Running)),
                _ => {}
            }
            tokio::time::sleep_until(until.min(Instant::now() + pause).into()).await;
            pause = (pause * 2).min(LOOK_PAUSE_MAX);
        }
    }

    /// A run in the store.
    async fn stored(&self, name: &RunName) -> Result<Option<Stored>, WorkflowFailure> {
        if let Some(over) = self.records.over(name).await? {
            return Ok(Some(Stored::Over(over)));
        }
        if let Some(open) = self.records.asked(name).await? {
            return Ok(Some(Stored::Open(open)));
        }
        // It may have ended between the two.
        Ok(self.records.over(name).await?.map(Stored::Over))
    }

    /// Stores the request; returns the outcome if the run has finished earlier, or has been run by another server. Returns `None` once the run
    /// is this server's.
    async fn accept(
        &self,
        name: &RunName,
        mut asked: RunRequest,
        entry: &Entry,
    ) -> Result<Option<Over>, WorkflowFailure> {
        let mut ending = self.is_ending.subscribe();
        let mut pause = PAUSE;
        let mut stored = self.records.over(name).await?.map(Stored::Over);
        loop {
            let Some(found) = stored else {
                asked.is_promised = entry.is_promised();
                match self.records.accept(name, &asked)?.await {
                    // Another server was faster, or has it still.
                    Err(error) if error.code() == CONFLICT => stored = self.stored(name).await?,
                    accepted => return Ok(accepted.map(|()| None)?),
                }
                continue;
            };
            if found.mark() != asked.mark_text() {
                let id = name.id.clone();
                return Err(WorkflowFailure::OtherRun { id });
            }
            let open = match found {
                Stored::Over(over) => return Ok(Some(over)),
                Stored::Open(open) => open,
            };
            // It was taken over, or the outcome of an earlier acceptance was unknown.
            if self.records.is_own(name).await? {
                entry.promise();
                return Ok(None);
            }
            // Its server may still refuse a run that is not promised, and it is accepted here then.
            if open.is_promised {
                entry.progress.send_replace(Progress::Running);
            }
            let ended = tokio::time::timeout(pause, ending.wait_for(|ending| *ending));
            if ended.await.is_ok() {
                return Err(WorkflowFailure::Stopping);
            }
            pause = (pause * 2).min(LOOK_PAUSE_MAX);
            stored = self.stored(name).await?;
        }
    }

    /// Runs what has become this server's.
    fn adopt(self: &Arc<Self>, names: Vec<RunName>) {
        for name in names {
            let runs = Arc::clone(self);
            self.runtime.spawn(async move { runs.adopt_one(name).await });
        }
    }

    async fn adopt_one(self: Arc<Self>, name: RunName) {
        // A run that cannot be read does not affect the others.
        while let Some(asked) = self.asked(&name).await {
            let other = match self.entries.lock().entry(name.clone()) {
                hash_map::Entry::Occupied(entry) => Arc::clone(entry.get()),
                hash_map::Entry::Vacant(place) => {
                    let entry = Arc::clone(place.insert(Entry::new(&asked, Progress::Waiting)));
                    // Some client may have been promised it.
                    entry.promise();
                    let runs = Arc::clone(&self);
                    self.runtime
                        .spawn(async move { runs.see_to(&name, &entry).await });
                    return;
                }
            };
            // A client asks for it, who finds that it is this server's, or that it is another run.
            drop(asked);
            other.comes_to(Progress::is_over).await;
        }
    }

    /// Removes the entry: this server has nothing more to do for the run.
    fn conclude(&self, name: &RunName, entry: &Entry, progress: Progress) {
        self.entries.lock().remove(name);
        entry.progress.send_replace(progress);
    }

    /// Leaves the run in the store, for another server.
    fn leave(&self, name: &RunName, entry: &Entry) {
        let reason = if *self.is_ending.borrow() {
            WorkflowFailure::Stopping
        } else {
            WorkflowFailure::LeftToOthers
        };
        self.conclude(name, entry, Progress::Refused(reason));
    }

    /// The stored request of an accepted run, once the storage can be read; `None` if there is none. Logs an error if it is of another kind.
    async fn asked(&self, name: &RunName) -> Option<RunRequest> {
        let mut pause = PAUSE;
        loop {
            let why = match self.records.asked(name).await {
                Ok(asked) => return asked,
                Err(why) => why,
            };
            let is_foreign = matches!(why, WorkflowFailure::ForeignRun { .. });
            if is_foreign || pause == PAUSE {
                tracing::error!(target: "forebay::workflow", run = name.id, "a run that was accepted cannot be read: {why}");
            }
            if is_foreign || *self.is_ending.borrow() || !*self.is_holding.borrow() {
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Runs an accepted run until it has an outcome.
    async fn see_to(&self, name: &RunName, entry: &Arc<Entry>) {
        let (mut ending, mut holding) = (self.is_ending.subscribe(), self.is_holding.subscribe());
        let mut pause = PAUSE;
        loop {
            let mut place = None;
            if entry.is_promised() {
                tokio::select! {
                    biased;
                    _ = ending.wait_for(|ending| *ending) => return self.leave(name, entry),
                    _ = holding.wait_for(|holds| !*holds) => return self.leave(name, entry),
                    taken = self.places.acquire() => place = taken.ok(),
                }
            }
            // Reads the arguments for each attempt, so that waiting runs do not hold them in memory.
            let Some(asked) = self.asked(name).await else {
                if *self.is_ending.borrow() || !*self.is_holding.borrow() {
                    return self.leave(name, entry);
                }
                let id = name.id.clone();
                let refusal = WorkflowFailure::NoSuchRun { id };
                return self.conclude(name, entry, Progress::Refused(refusal));
            };
            let runner = self.runner.borrow().clone();
            if let Some(runner) = runner {
                entry.progress.send_replace(Progress::Queued);
                let attempted = tokio::select! {
                    biased;
                    // Another server may have taken it over.
                    _ = holding.wait_for(|holds| !*holds) => Attempt::CutOff,
                    attempted = attempt(&runner, name, &asked, entry, &self.is_ending) => attempted,
                };
                match attempted {
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
                // Another server has taken the run over, or it was removed from the storage, so that its outcome is of no interest.
                Err(error) if error.code() == FailureKind::NotFound.code() => {
                    let over = match self.stored(name).await {
                        Ok(None) => over,
                        Ok(Some(Stored::Over(over))) => over,
                        Ok(Some(Stored::Open(_))) | Err(_) => return self.leave(name, entry),
                    };
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
