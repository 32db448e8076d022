//! Runs that are kept in the store: accepted durably before anybody is told so, run whether or not somebody waits, and what they have come to is there to be asked
//! for. What was accepted and is not over when a server ends is run by the next.
//!
//! **Invariants:** there is at most one entry for a name, and it is there from before the store is asked for that name until the store has what the run has come to.
//! So a name is never run twice at a time, and never again while its outcome is kept; a server that ends in the middle of a run is why one can run twice at all.

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
    progress: watch::Sender<Progress>,
}

/// How far a run has come.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// The store does not have it yet.
    Accepting,
    Waiting,
    Running,
    Over(Arc<Over>),
    /// It is not kept: it was not accepted, or could not begin while somebody waited.
    Refused(Refusal),
}

impl Entry {
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
}

impl Progress {
    pub(super) fn is_accepted(&self) -> bool {
        !matches!(self, Self::Accepting)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Over(_) | Self::Refused(_))
    }
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
            let Some(asked) = kept.records.asked(&name)? else {
                continue;
            };
            let entry = Arc::new(Entry {
                workflow: asked.workflow.clone(),
                mark: asked.mark(),
                progress: watch::Sender::new(Progress::Waiting),
            });
            kept.entries.lock().insert(name.clone(), Arc::clone(&entry));
            let kept_runs = Arc::clone(&kept);
            kept.runtime
                .spawn(async move { kept_runs.see_to(&name, &entry, Wanted::Later).await });
        }
        Ok(kept)
    }

    /// These workflows are in force from now on.
    pub(crate) fn serve(&self, target: Option<&WorkflowTarget>) {
        self.target.send_replace(target.cloned());
    }

    /// No run begins any more; gives back when none is under way. Those that wait are there for the next server.
    pub(crate) async fn end(&self) {
        self.is_ending.send_replace(true);
        let entries: Vec<_> = self.entries.lock().values().cloned().collect();
        for entry in entries {
            entry
                .comes_to(|progress| !matches!(progress, Progress::Accepting | Progress::Running))
                .await;
        }
        self.target.send_replace(None);
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
        let mark = asked.mark();
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&name) {
            return if entry.mark == mark {
                Ok(Arc::clone(entry))
            } else {
                Err(WorkflowFailure::OtherRun { id: name.id }.into())
            };
        }
        if *self.is_ending.borrow() {
            return Err(Refusal::Stopping);
        }
        let open_max = self.open_max;
        if entries.len() >= open_max {
            return Err(WorkflowFailure::TooManyRuns { open_max }.into());
        }
        let entry = Arc::new(Entry {
            workflow: asked.workflow.clone(),
            mark,
            progress: watch::Sender::new(Progress::Accepting),
        });
        entries.insert(name.clone(), Arc::clone(&entry));
        drop(entries);
        // Whoever asked may go: what is begun goes on without them.
        let (kept, its) = (Arc::clone(self), Arc::clone(&entry));
        self.runtime.spawn(async move {
            match kept.accept(&name, asked).await {
                Ok(None) => {
                    its.progress.send_replace(Progress::Waiting);
                    kept.see_to(&name, &its, wanted).await;
                }
                Ok(Some(over)) => kept.is_over(&name, &its, Progress::Over(Arc::new(over))),
                Err(refusal) => kept.is_over(&name, &its, Progress::Refused(refusal)),
            }
        });
        Ok(entry)
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
        let over = over.filter(|over| over.asked.workflow == workflow);
        Ok(over.map(|over| Progress::Over(Arc::new(over))))
    }

    /// Writes that it is asked for; gives what it has come to where it is over already.
    async fn accept(&self, name: &RunName, asked: Asked) -> Result<Option<Over>, Refusal> {
        if let Some(over) = self.records.over(name)? {
            return if over.asked.mark() == asked.mark() {
                Ok(Some(over))
            } else {
                let id = name.id.clone();
                Err(WorkflowFailure::OtherRun { id }.into())
            };
        }
        done(self.records.accept(name, &asked)?).await?;
        Ok(None)
    }

    /// Nobody finds it among those that are not over any more.
    fn is_over(&self, name: &RunName, entry: &Entry, progress: Progress) {
        self.entries.lock().remove(name);
        entry.progress.send_replace(progress);
    }

    /// Has a run that was accepted come to its end.
    async fn see_to(&self, name: &RunName, entry: &Entry, wanted: Wanted) {
        let mut ending = self.is_ending.subscribe();
        let place = match wanted {
            Wanted::Now => None,
            Wanted::Later => tokio::select! {
                place = self.places.acquire() => place.ok(),
                _ = ending.wait_for(|ending| *ending) => {
                    return self.is_over(name, entry, Progress::Refused(Refusal::Stopping));
                }
            },
        };
        // Arguments are in memory for as long as they are needed.
        let asked = match self.records.asked(name) {
            Ok(Some(asked)) => asked,
            Ok(None) => {
                let id = name.id.clone();
                let refusal = WorkflowFailure::NoSuchRun { id }.into();
                return self.is_over(name, entry, Progress::Refused(refusal));
            }
            Err(refusal) => {
                let why = refusal.to_string();
                tracing::error!(target: "forebay::workflow", run = name.id, "a run that was accepted cannot be read: {why}");
                return self.is_over(name, entry, Progress::Refused(refusal));
            }
        };
        let mut pause = PAUSE;
        let over = loop {
            if *ending.borrow() {
                break None;
            }
            let target = self.target.borrow().clone();
            if let Some(target) = target {
                entry.progress.send_replace(Progress::Running);
                match attempt(&target, name, &asked).await {
                    Ok(over) => break Some(over),
                    Err(refusal) if wanted == Wanted::Now => {
                        self.forget(name).await;
                        return self.is_over(name, entry, Progress::Refused(refusal));
                    }
                    Err(_) => {}
                }
            }
            // Nobody is told of its error, for it is tried again.
            entry.progress.send_replace(Progress::Waiting);
            drop(tokio::time::timeout(pause, ending.wait_for(|ending| *ending)).await);
            pause = (pause * 2).min(PAUSE_MAX);
        };
        drop(place);
        match over {
            Some(over) => {
                let over = self.write(name, over).await;
                self.is_over(name, entry, Progress::Over(Arc::new(over)));
            }
            None => self.is_over(name, entry, Progress::Refused(Refusal::Stopping)),
        }
    }

    /// Writes what a run has come to, however long that takes; gives what was written.
    async fn write(&self, name: &RunName, mut over: Over) -> Over {
        let (mut pause, mut is_replaced) = (PAUSE, false);
        loop {
            let written = match self.records.end(name, &over) {
                Ok(pending) => done(pending).await,
                Err(refusal) => Err(refusal),
            };
            match written {
                // Somebody has taken it out of the store, and nobody asks for it any more.
                Ok(()) | Err(Refusal::NoSuchNode) => return over,
                // The result is longer than the store takes: that is what it has come to.
                Err(refusal) if refusal.status() < 500 && !is_replaced => {
                    is_replaced = true;
                    over.status = 500;
                    over.answer = format!("the result of the run cannot be kept: {refusal}");
                }
                Err(refusal) => {
                    let why = refusal.to_string();
                    tracing::error!(target: "forebay::workflow", run = name.id, workflow = over.asked.workflow, "what a run has come to is not written yet: {why}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    if *self.is_ending.borrow() {
                        return over;
                    }
                }
            }
        }
    }

    /// It did not begin, and is not kept. Where that cannot be written it is run by the next server.
    async fn forget(&self, name: &RunName) {
        if let Ok(pending) = self.records.forget(name)
            && done(pending).await.is_ok()
        {
            return;
        }
        tracing::warn!(target: "forebay::workflow", run = name.id, "a run that was refused could not be taken back: it runs after the next start");
    }
}

/// Has it run once; a refusal: it has not begun, or not by its own fault not ended, and another attempt may.
async fn attempt(target: &WorkflowTarget, name: &RunName, asked: &Asked) -> Result<Over, Refusal> {
    let begun = Arc::new(AtomicBool::new(false));
    let (release, outcome) = run(target, name, asked, &begun).await;
    let has_begun = begun.load(Ordering::Acquire);
    let (status, answer) = match outcome {
        Ok(answer) => (200, answer),
        Err(refusal) if !has_begun && may_begin_later(&refusal) => return Err(refusal),
        Err(refusal @ Refusal::Script(Failure::Stopping | Failure::GivenUp)) => return Err(refusal),
        Err(refusal) => {
            refusal.log(&name.id);
            (refusal.status(), refusal.to_string())
        }
    };
    Ok(Over {
        asked: asked.clone(),
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
    begun: &Arc<AtomicBool>,
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
            begun: Some(Arc::clone(begun)),
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

/// Whether a run that did not begin may at another time.
fn may_begin_later(refusal: &Refusal) -> bool {
    matches!(refusal.status(), 429 | 503 | 504)
}

/// Waits for a write.
async fn done(mut pending: Pending) -> Result<(), Refusal> {
    poll_fn(|context| pending.poll(context)).await.map(drop)
}
