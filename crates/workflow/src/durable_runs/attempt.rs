//! One attempt to run a durable run.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tokio::sync::watch;

use super::{
    entry::Entry,
    records::{RunName, RunRequest, StoredOutcome},
};
use crate::{
    Evaluator, FailureKind, RunCall, Runner, TRACE_TIME, WorkflowFailure, arguments, runner::now_ms,
};

/// Longest stored error of a run, in characters.
const ERROR_CHARS_MAX: usize = 4096;

/// Result of one attempt to run.
pub(super) enum Attempt {
    Ended(StoredOutcome),
    /// There was no room.
    NotBegun(WorkflowFailure),
    /// Interrupted because the server is stopping.
    CutOff,
}

/// Makes one attempt to run it.
pub(super) async fn attempt<E: Evaluator>(
    runner: &Runner<E>,
    name: &RunName,
    request: &RunRequest,
    entry: &Arc<Entry>,
    is_ending: &watch::Sender<bool>,
) -> Attempt {
    entry.has_begun.store(false, Ordering::Release);
    let (release, outcome) = run(runner, name, request, entry).await;
    let has_begun = entry.has_begun.load(Ordering::Acquire);
    let (status, answer, trace) = match outcome {
        Ok(answer) => (200, answer, String::new()),
        Err(refusal) if !has_begun && may_begin_later(&refusal) => return Attempt::NotBegun(refusal),
        Err(WorkflowFailure::Stopping) if *is_ending.borrow() => return Attempt::CutOff,
        Err(refusal) => {
            refusal.log(&name.id);
            let text = refusal.to_string().chars().take(ERROR_CHARS_MAX).collect();
            (refusal.code(), text, refusal.trace().to_owned())
        }
    };
    Attempt::Ended(StoredOutcome {
        workflow: request.workflow.clone(),
        digest: request.digest_text(),
        asked_ms: request.at_ms,
        ended_ms: now_ms(),
        status,
        answer,
        trace,
        release,
    })
}

/// Runs the workflow as requested; returns the release it used, and the result.
async fn run<E: Evaluator>(
    runner: &Runner<E>,
    name: &RunName,
    request: &RunRequest,
    entry: &Arc<Entry>,
) -> (Option<u64>, Result<String, WorkflowFailure>) {
    let chosen = match runner.releases.choose(&name.id, request.release) {
        Ok(chosen) => chosen,
        Err(refusal) => return (None, Err(refusal)),
    };
    let answer = async {
        let asker = runner.admission.known(name.client.as_deref())?;
        let asker = asker.with_user(request.user.as_deref());
        let args = arguments(request.args.as_bytes())?;
        let begun = Arc::clone(entry);
        let (workflow, wants_trace) = (&request.workflow, request.wants_trace);
        let ask = RunCall {
            begun: Some(Arc::new(move || begun.begins())),
            ..RunCall::new(&chosen.bundle, workflow, args, asker, &name.id, wants_trace)
        };
        let deadline = Instant::now() + runner.timeout_of(workflow);
        let awaited = tokio::time::timeout_at((deadline + TRACE_TIME).into(), runner.run(&ask, deadline));
        let bytes = awaited.await.unwrap_or(Err(WorkflowFailure::DeadlinePassed))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    (chosen.release, answer.await)
}

/// Whether a run that has not begun may begin at another time, or with other engines.
fn may_begin_later(failure: &WorkflowFailure) -> bool {
    let is_for_now = matches!(
        failure.kind(),
        FailureKind::TooMany | FailureKind::Overload | FailureKind::Deadline
    );
    is_for_now || matches!(failure, WorkflowFailure::GivenUp)
}
