//! An unfinished run, and the progress of a run as clients are told.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::watch;

use super::records::{RunRequest, StoredOutcome};
use crate::{WorkflowFailure, runs::result::quoted};

/// An unfinished run.
#[derive(Debug)]
pub struct Entry {
    pub(super) workflow: String,
    /// Digest of the request.
    pub(super) digest: u128,
    /// Whether some client does not wait for it: then it begins whenever there is room.
    is_promised: AtomicBool,
    pub(super) has_begun: AtomicBool,
    pub(super) progress: watch::Sender<Progress>,
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Not stored yet.
    Accepting,
    /// Waiting to begin.
    Waiting,
    /// Waiting for an engine.
    Queued,
    /// Running in an engine, or another server has it.
    Running,
    /// Ended, with this outcome.
    Ended(Arc<StoredOutcome>),
    /// Not run by this server: it was not accepted, could not begin while its clients waited, or is left to the next server.
    Refused(WorkflowFailure),
}

impl Entry {
    pub(super) fn new(request: &RunRequest, progress: Progress) -> Arc<Self> {
        Arc::new(Self {
            workflow: request.workflow.clone(),
            digest: request.digest(),
            is_promised: AtomicBool::new(request.is_promised),
            has_begun: AtomicBool::new(false),
            progress: watch::Sender::new(progress),
        })
    }

    /// Waits for the first progress that meets a condition.
    pub async fn wait_for(&self, condition: fn(&Progress) -> bool) -> Progress {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(condition).await;
        // The entry owns the sender, so it outlives this wait.
        reached.map_or(Progress::Refused(WorkflowFailure::Stopping), |reached| {
            reached.clone()
        })
    }

    /// The progress so far.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Called when an engine starts the run.
    pub(super) fn begins(&self) {
        self.has_begun.store(true, Ordering::Release);
        self.progress.send_replace(Progress::Running);
    }

    /// Notes that some client does not wait for it.
    pub(super) fn promise(&self) {
        self.is_promised.store(true, Ordering::Release);
    }

    pub(super) fn is_promised(&self) -> bool {
        self.is_promised.load(Ordering::Acquire)
    }
}

impl Progress {
    /// Whether the run is stored, or has been.
    pub fn is_accepted(&self) -> bool {
        !matches!(self, Self::Accepting)
    }

    /// Whether this server does nothing more for the run.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Refused(_))
    }

    /// Its name: `waiting`, `running`, `done` or `failed`.
    fn state(&self) -> &'static str {
        match self {
            Self::Accepting | Self::Waiting | Self::Queued => "waiting",
            Self::Running => "running",
            Self::Ended(outcome) if outcome.status == 200 => "done",
            Self::Ended(_) | Self::Refused(_) => "failed",
        }
    }

    /// The successful outcome of a run that was waited for.
    ///
    /// # Errors
    /// If the run failed, was refused, or is not over.
    pub fn outcome(self) -> Result<Arc<StoredOutcome>, WorkflowFailure> {
        match self {
            Self::Ended(outcome) if outcome.status == 200 => Ok(outcome),
            Self::Ended(outcome) => Err(WorkflowFailure::Ended {
                status: outcome.status,
                what: outcome.answer.clone(),
                trace: outcome.trace.clone(),
            }),
            Self::Refused(refusal) => Err(refusal),
            Self::Accepting | Self::Waiting | Self::Queued | Self::Running => {
                Err(WorkflowFailure::DeadlinePassed)
            }
        }
    }

    /// An accepted run's id and state, as JSON.
    pub fn accepted(&self, id: &str) -> String {
        format!(r#"{{"run":{},"state":"{}"}}"#, quoted(id), self.state())
    }

    /// How far the run of a workflow has come, with its outcome if it is over, as JSON.
    ///
    /// # Errors
    /// If this server does not run it.
    pub fn report(&self, id: &str, workflow: &str) -> Result<String, WorkflowFailure> {
        let (run, workflow, state) = (quoted(id), quoted(workflow), self.state());
        let begin = format!(r#"{{"run":{run},"workflow":{workflow},"state":"{state}""#);
        let outcome = match self {
            Self::Ended(outcome) => outcome,
            Self::Refused(refusal) => return Err(refusal.clone()),
            Self::Accepting | Self::Waiting | Self::Queued | Self::Running => {
                return Ok(format!("{begin}}}"));
            }
        };
        let StoredOutcome {
            asked_ms,
            ended_ms,
            status,
            answer,
            trace,
            release,
            ..
        } = &**outcome;
        let outcome = if *status == 200 {
            format!(r#""result":{answer}"#)
        } else {
            format!(r#""status":{status},"error":{}{trace}"#, quoted(answer))
        };
        let release = release.map_or_else(String::new, |release| format!(r#","release":{release}"#));
        Ok(format!(
            r#"{begin},"askedMs":{asked_ms},"endedMs":{ended_ms}{release},{outcome}}}"#
        ))
    }
}
