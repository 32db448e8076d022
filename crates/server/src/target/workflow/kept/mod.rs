//! Runs that are kept in the store: accepted durably before anybody is told so, run whether or not somebody waits, and what they have come to is there to be asked
//! for. What was accepted and is not over when a server ends is run by the next.
//!
//! **Invariants:** there is at most one entry for a name, and it is there from before the store is asked for that name until the store has what the run has come to.
//! So a name is never run twice at a time, and never again while its outcome is kept. What was promised to somebody who does not wait is not given up; a run that has begun is begun again only by the server after the one that died or had to cut it off.

pub(super) mod records;

use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_script::Failure;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::{runtime::Handle, sync::Semaphore, sync::watch};

use self::records::{Asked, Over, Records, RunName};
use super::{Ask, WorkflowFailure, WorkflowTarget, arguments, first_line, read_result};
use crate::{
    config,
    failure::Refusal,
    store::{OpenStore, Pending, now_ms},
};

/// How long a run that finds no room waits before it is tried again; twice as long each time, up to the most.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Longest error of a run that is kept, in characters.
const ERROR_CHARS_MAX: usize = 4096;

/// All runs that are kept, and those of them that are not over.
pub(crate) struct KeptRuns {
    records: Records,
    open_max: usize,
    /// Of those that nobody waits for.
    places: Semaphore,
    entries: Mutex<HashMap<RunName, Arc<Entry>>>,
    /// Who runs them: the workflows that are in force.
    target: watch::Sender<Option<WorkflowTarget>>,
    is_ending: watch::Sender<bool>,
    runtime: Handle,
}

impl fmt::Debug for KeptRuns {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KeptRuns").finish_non_exhaustive()
    }
}

/// A run that is not over.
#[derive(Debug)]
pub(super) struct Entry {
    workflow: String,
    /// Of what is asked for.
    mark: u128,
    /// Whether somebody does not wait for it: it begins when there is room, whenever that is.
    is_promised: AtomicBool,
    has_begun: AtomicBool,
    progress: watch::Sender<Progress>,
}

/// How far a run has come.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// The store does not have it yet.
    Accepting,
    Waiting,
    /// It begins as soon as an engine has room for it.
    Queued,
    Running,
    Over(Arc<Over>),
    /// This server does not run it: it was not accepted, could not begin while somebody waited, or is left to the next.
    Refused(Refusal),
}

impl Entry {
    fn new(asked: &Asked, is_promised: bool, progress: Progress) -> Arc<Self> {
        Arc::new(Self {
            workflow: asked.workflow.clone(),
            mark: asked.mark(),
            is_promised: AtomicBool::new(is_promised),
            has_begun: AtomicBool::new(false),
            progress: watch::Sender::new(progress),
        })
    }

    /// The first progress that is one of these.
    pub(super) async fn comes_to(&self, wanted: fn(&Progress) -> bool) -> Progress {
        let mut progress = self.progress.subscribe();
        let come = progress.wait_for(wanted).await;
        // The sender is there as long as the entry.
        come.map_or(Progress::Refused(Refusal::Stopping), |come| come.clone())
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// An engine has it.
    pub(super) fn begins(&self) {
        self.has_begun.store(true, Ordering::Release);
        self.progress.send_replace(Progress::Running);
    }

    fn is_promised(&self) -> bool {
        self.is_promised.load(Ordering::Acquire)
    }
}

impl Progress {
    pub(super) fn is_accepted(&self) -> bool {
        !matches!(self, Self::Accepting)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Over(_) | Self::Refused(_))
    }
}

/// What an attempt to run has come to.
enum Attempt {
    Over(Over),
    /// It found no room.
    NotBegun(Refusal),
    /// The server ends, and has ended it.
    CutOff,
}

/// How a run is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Somebody waits: it begins now or is refused.
    Now,
    /// It begins when there is room.
    Later,
}

impl KeptRuns {
    /// Those of a configuration; what was accepted before and is not over runs when there is a target.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time.
    pub(crate) fn start(store: &Arc<OpenStore>, config: &config::KeptRuns) -> Result<Arc<Self>, Refusal> {
        let records = Records::new(Arc::clone(store), &config.global, config.kept);
        let records = records.map_err(forebay_store::StoreError::from)?;
        let left = records.all_open()?;
        let kept = Arc::new(Self {
            records,
            open_max: config.open_max,
            places: Semaphore::new(config.at_a_time),
            entries: Mutex::default(),
            target: watch::Sender::new(None),
            is_ending: watch::Sender::new(false),
            runtime: Handle::current(),
        });
        if !left.is_empty() {
            tracing::info!(target: "forebay::workflow", runs = left.len(), "runs that were accepted and are not over are run");
        }
        for name in left {
            // Of one that cannot be read the others know nothing.
            let Some(asked) = kept.asked(&name) else {
                continue;
            };
            let entry = Entry::new(&asked, true, Progress::Waiting);
            drop(asked);
            kept.entries.lock().insert(name.clone(), Arc::clone(&entry));
            let kept_runs = Arc::clone(&kept);
            kept.runtime
                .spawn(async move { kept_runs.see_to(&name, &entry).await });
        }
        Ok(kept)
    }

    /// These workflows are in force from now on.
    pub(crate) fn serve(&self, target: Option<&WorkflowTarget>) {
        self.target.send_replace(target.cloned());
    }

    /// Of those that nobody waits for none begins any more: they are there for the next server.
    pub(crate) fn stop(&self) {
        self.is_ending.send_replace(true);
    }

    /// Gives back when none is under way.
    pub(crate) async fn stopped(&self) {
        let entries: Vec<_> = self.entries.lock().values().cloned().collect();
        for entry in entries {
            let rests = |progress: &Progress| matches!(progress, Progress::Waiting) || progress.is_over();
            entry.comes_to(rests).await;
        }
    }

    /// How many are accepted and not over.
    pub(crate) fn open(&self) -> usize {
        self.entries.lock().len()
    }

    /// The run of this name: one that is not over, what it has come to, or a new one.
    pub(super) fn run(
        self: &Arc<Self>,
        name: RunName,
        asked: Asked,
        wanted: Wanted,
    ) -> Result<Arc<Entry>, Refusal> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&name) {
            if entry.mark != asked.mark() {
                return Err(WorkflowFailure::OtherRun { id: name.id }.into());
            }
            if wanted == Wanted::Later {
                entry.is_promised.store(true, Ordering::Release);
            }
            return Ok(Arc::clone(entry));
        }
        if wanted == Wanted::Later && *self.is_ending.borrow() {
            return Err(Refusal::Stopping);
        }
        let open_max = self.open_max;
        if entries.len() >= open_max {
            return Err(WorkflowFailure::TooManyRuns { open_max }.into());
        }
        let entry = Entry::new(&asked, wanted == Wanted::Later, Progress::Accepting);
        entries.insert(name.clone(), Arc::clone(&entry));
        drop(entries);
        // Whoever asked may go: what is begun goes on without them.
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

    /// Whether there is a run of this name, or what one has come to.
    pub(super) fn knows(&self, name: &RunName) -> Result<bool, Refusal> {
        Ok(self.entries.lock().contains_key(name) || self.records.over(name)?.is_some())
    }

    /// How far the run of this name of a workflow has come, as soon as it is over or at `until`.
    pub(super) async fn find(
        &self,
        name: &RunName,
        workflow: &str,
        until: Instant,
    ) -> Result<Option<Progress>, Refusal> {
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

    /// Writes that it is asked for; gives what it has come to where it is over already.
    async fn accept(&self, name: &RunName, asked: Asked) -> Result<Option<Over>, Refusal> {
        if let Some(over) = self.records.over(name)? {
            return if over.mark == asked.mark_text() {
                Ok(Some(over))
            } else {
                let id = name.id.clone();
                Err(WorkflowFailure::OtherRun { id }.into())
            };
        }
        done(self.records.accept(name, &asked)?).await?;
        Ok(None)
    }

    /// What this server does for it is done: nobody finds it among those that are not over any more.
    fn conclude(&self, name: &RunName, entry: &Entry, progress: Progress) {
        self.entries.lock().remove(name);
        entry.progress.send_replace(progress);
    }

    /// It stays in the store, for the next server.
    fn leave(&self, name: &RunName, entry: &Entry) {
        self.conclude(name, entry, Progress::Refused(Refusal::Stopping));
    }

    /// What a run is asked for; the log is told where that cannot be read.
    fn asked(&self, name: &RunName) -> Option<Asked> {
        match self.records.asked(name) {
            Ok(asked) => asked,
            Err(refusal) => {
                let why = refusal.to_string();
                tracing::error!(target: "forebay::workflow", run = name.id, "a run that was accepted cannot be read: {why}");
                None
            }
        }
    }

    /// Has a run that was accepted come to its end.
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
            // Arguments are in memory for as long as they are needed.
            let Some(asked) = self.asked(name) else {
                let id = name.id.clone();
                let refusal = WorkflowFailure::NoSuchRun { id }.into();
                return self.conclude(name, entry, Progress::Refused(refusal));
            };
            let target = self.target.borrow().clone();
            if let Some(target) = target {
                entry.progress.send_replace(Progress::Queued);
                match attempt(&target, name, &asked, entry, &self.is_ending).await {
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
            // Others may begin meanwhile. Nobody is told of an error, for it is tried again.
            drop(place);
            entry.progress.send_replace(Progress::Waiting);
            drop(tokio::time::timeout(pause, ending.wait_for(|ending| *ending)).await);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Refuses a run that has not begun, and for which all that asked wait: its name is free. False: it is promised to somebody.
    async fn take_back(&self, name: &RunName, entry: &Entry, refusal: Refusal) -> bool {
        let forgotten = {
            let mut entries = self.entries.lock();
            if entry.is_promised() {
                return false;
            }
            entries.remove(name);
            // Before whoever asks for this name next has it written.
            self.records.forget(name)
        };
        let is_forgotten = match forgotten {
            Ok(pending) => done(pending).await.is_ok(),
            Err(_) => false,
        };
        if !is_forgotten {
            tracing::warn!(target: "forebay::workflow", run = name.id, "a run that was refused could not be taken back: it runs after the next start");
        }
        entry.progress.send_replace(Progress::Refused(refusal));
        true
    }

    /// Writes what a run has come to, however long that takes.
    async fn write(&self, name: &RunName, entry: &Entry, mut over: Over) {
        let (mut pause, mut is_replaced) = (PAUSE, false);
        loop {
            let written = match self.records.end(name, &over) {
                Ok(pending) => done(pending).await,
                Err(refusal) => Err(refusal),
            };
            let refusal = match written {
                // Or somebody has taken it out of the store, and nobody asks for it any more.
                Ok(()) | Err(Refusal::NoSuchNode) => {
                    return self.conclude(name, entry, Progress::Over(Arc::new(over)));
                }
                Err(refusal) => refusal,
            };
            let is_too_long = match refusal {
                Refusal::WriteQueueBytesFull { queue_bytes_max } => over.answer.len() > queue_bytes_max / 4,
                _ => refusal.status() < 500,
            };
            if is_too_long && !is_replaced {
                // That is what it has come to.
                is_replaced = true;
                over.status = 500;
                over.answer = format!("the result of the run cannot be kept: {refusal}");
                continue;
            }
            tracing::error!(target: "forebay::workflow", run = name.id, workflow = over.workflow, "what a run has come to is not written yet: {refusal}");
            if *self.is_ending.borrow() {
                return self.leave(name, entry);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Has it run once.
async fn attempt(
    target: &WorkflowTarget,
    name: &RunName,
    asked: &Asked,
    entry: &Arc<Entry>,
    is_ending: &watch::Sender<bool>,
) -> Attempt {
    entry.has_begun.store(false, Ordering::Release);
    let (release, outcome) = run(target, name, asked, entry).await;
    let has_begun = entry.has_begun.load(Ordering::Acquire);
    let (status, answer) = match outcome {
        Ok(answer) => (200, answer),
        Err(refusal) if !has_begun && may_begin_later(&refusal) => return Attempt::NotBegun(refusal),
        Err(Refusal::Script(Failure::Stopping)) if *is_ending.borrow() => return Attempt::CutOff,
        Err(refusal) => {
            refusal.log(&name.id);
            let told = refusal.to_string().chars().take(ERROR_CHARS_MAX).collect();
            (refusal.status(), told)
        }
    };
    Attempt::Over(Over {
        workflow: asked.workflow.clone(),
        mark: asked.mark_text(),
        asked_ms: asked.at_ms,
        ended_ms: now_ms(),
        status,
        answer,
        release,
    })
}

/// Has a workflow run as it was asked for; the release it had, and its answer.
async fn run(
    target: &WorkflowTarget,
    name: &RunName,
    asked: &Asked,
    entry: &Arc<Entry>,
) -> (Option<u64>, Result<String, Refusal>) {
    let chosen = match target.choose(&name.id, asked.release) {
        Ok(chosen) => chosen,
        Err(refusal) => return (None, Err(refusal)),
    };
    let answer = async {
        let asker = target.admission.known(name.client.as_deref())?;
        let args: &RawValue = arguments(asked.args.as_bytes())?;
        let ask = Ask {
            book: &chosen.book,
            workflow: &asked.workflow,
            args,
            asker,
            trace_id: &name.id,
            is_traced: asked.wants_trace,
            wants_trace: asked.wants_trace,
            begun: Some(Arc::clone(entry)),
        };
        let deadline = Instant::now() + target.timeout_of(&asked.workflow);
        let awaited = tokio::time::timeout_at(deadline.into(), target.run(&ask, deadline));
        let bytes = awaited
            .await
            .unwrap_or(Err(Refusal::Script(Failure::DeadlinePassed)))?;
        let result = read_result(&bytes)?;
        if let (Some(node), Some(error)) = (result.node, result.error) {
            let (workflow, request_id) = (&*asked.workflow, &*name.id);
            tracing::warn!(target: "forebay::workflow", workflow, request_id, "node `{node}` failed: {error}");
            let reason = first_line(&error).to_owned();
            return Err(WorkflowFailure::Failed { node, reason }.into());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    (chosen.release, answer.await)
}

/// Whether a run that did not begin may at another time, or with other engines.
fn may_begin_later(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Script(Failure::GivenUp)) || matches!(refusal.status(), 429 | 503 | 504)
}

/// Waits for a write.
async fn done(mut pending: Pending) -> Result<(), Refusal> {
    poll_fn(|context| pending.poll(context)).await.map(drop)
}
