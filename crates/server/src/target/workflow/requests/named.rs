//! Runs the workflow that the path names: once, with the body as its arguments, or once for each item of a list.

use std::{borrow::Cow, time::Instant};

use bytes::Bytes;
use forebay_workflow::{
    Admission, Asker, RunCall, RunRequest, RunResult, TRACE_TIME, WorkflowFailure, arguments, public_reason,
};
use futures_util::{StreamExt as _, stream};
use serde_json::value::RawValue;

use super::durable::{self, DurableRunRequest};
use crate::{
    failure::Refusal,
    front::{Socket, Stream},
    reply::Reply,
    router::decode,
    store::now_ms,
    target::{
        End, Request,
        parameters::parameters,
        pending::wait_for,
        store::json,
        workflow::{ResolvedRelease, WorkflowTarget, quoted, trace_of, with_release},
    },
};

/// Most inputs in one request.
pub(in crate::target::workflow) const INPUTS_MAX: usize = 1000;
/// Concurrent runs of one request.
const AT_A_TIME: usize = 32;

/// Options in the query.
#[derive(Debug, Default)]
struct Wishes {
    /// Whether the response includes a trace of the nodes.
    trace: bool,
    /// The requested release.
    release: Option<u64>,
}

/// A request for runs of one workflow.
struct Named<'r> {
    target: &'r WorkflowTarget,
    request: &'r Request<'r>,
    workflow: Cow<'r, str>,
    asker: Asker<'r>,
    chosen: ResolvedRelease,
    wants_trace: bool,
}

/// Answers a request with this body.
pub(in crate::target::workflow) async fn answer<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    let asker = target.asker(request.head)?;
    let rest = request.rest.unwrap_or_default();
    let wishes = wishes(target, request)?;
    let workflow = decode(rest).unwrap_or(rest.into());
    // Without durable runs a preference may be ignored, but not a key: ignoring it could run something twice.
    let is_kept = |wish: &DurableRunRequest| target.kept().is_some() || wish.key.is_some();
    if let Some(wish) = DurableRunRequest::of(request.head)?.filter(is_kept) {
        let asked = RunRequest {
            workflow: workflow.into_owned(),
            args: durable::arguments_of(text)?.get().to_owned(),
            release: wishes.release.or(target.route.release),
            wants_trace: wishes.trace,
            at_ms: now_ms(),
        };
        return durable::answer(target, request, wish, asker, asked, socket).await;
    }
    let named = Named {
        target,
        request,
        workflow,
        asker,
        chosen: target.choose(request.id, wishes.release)?,
        wants_trace: wishes.trace,
    };
    let reply = if text.trim_ascii_start().starts_with(b"[") {
        named.run_each(text, socket).await?
    } else {
        named.run_once(text, socket).await?
    };
    Ok(with_release(&named.chosen, reply))
}

impl Named<'_> {
    async fn run_once<S: Stream>(&self, text: &[u8], socket: &mut Socket<S>) -> Result<Reply<'static>, End> {
        let args = arguments(if text.is_empty() { b"{}" } else { text })?;
        let deadline = self.deadline(self.request.arrived);
        let run = self.run(args, deadline);
        let bytes = match wait_for(run, self.until(deadline), socket).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(refusal)) | Err(End::Refused(refusal)) => {
                return Err(self.by_limit(refusal, deadline).into());
            }
            Err(end) => return Err(end),
        };
        match self.failure(&bytes)? {
            Some(failure) => Err(Refusal::Workflow(failure).into()),
            None => Ok(json(200, bytes.to_vec())),
        }
    }

    /// Runs the workflow for each input; responds with the list of outcomes, in order.
    async fn run_each<S: Stream>(&self, text: &[u8], socket: &mut Socket<S>) -> Result<Reply<'static>, End> {
        let inputs = inputs(text)?;
        let name = &*self.workflow;
        check_there(self.asker, &self.chosen, name)?;
        let at_a_time = AT_A_TIME.min(self.asker.runs_max().unwrap_or(AT_A_TIME));
        let begun = |args| async move {
            let deadline = self.deadline(Instant::now());
            let run = tokio::time::timeout_at(self.until(deadline).into(), self.run(args, deadline));
            run.await
                .unwrap_or(Err(Refusal::Workflow(WorkflowFailure::DeadlinePassed)))
        };
        let output_max = self.target.runner.limits.output_max;
        let mut outcomes = stream::iter(inputs).map(begun).buffered(at_a_time);
        let collect = async {
            let mut out = vec![b'['];
            while let Some(outcome) = outcomes.next().await {
                if out.len() > 1 {
                    out.push(b',');
                }
                self.put(outcome, &mut out)?;
                if out.len() > output_max {
                    return Err(Refusal::Workflow(WorkflowFailure::ResultLength { output_max }));
                }
            }
            out.push(b']');
            Ok(out)
        };
        let out = wait_for(collect, self.request.deadline, socket).await??;
        Ok(json(200, out))
    }

    /// Appends the outcome of one run.
    fn put(&self, outcome: Result<Bytes, Refusal>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let told = match outcome {
            Ok(bytes) => match self.failure(&bytes)? {
                None => {
                    out.extend_from_slice(&bytes);
                    return Ok(());
                }
                Some(WorkflowFailure::Failed { node, reason, trace }) => {
                    format!(
                        r#"{{"error":{},"status":500,"node":{}{trace}}}"#,
                        quoted(&reason),
                        quoted(&node)
                    )
                }
                Some(failure) => error_item(&Refusal::Workflow(failure)),
            },
            Err(refusal) => {
                refusal.log(self.request.id);
                error_item(&refusal)
            }
        };
        out.extend_from_slice(told.as_bytes());
        Ok(())
    }

    async fn run(&self, args: &RawValue, deadline: Instant) -> Result<Bytes, Refusal> {
        let ask = RunCall {
            book: &self.chosen.book,
            workflow: &self.workflow,
            args,
            asker: self.asker,
            trace_id: self.request.id,
            is_traced: self.wants_trace,
            wants_trace: self.wants_trace,
            is_anonymous: self.asker.is_anonymous(),
            begun: None,
        };
        self.target.run(&ask, deadline).await
    }

    /// Deadline of a run that starts to wait at `now`.
    fn deadline(&self, now: Instant) -> Instant {
        let own = now + self.target.timeout_of(&self.workflow);
        own.min(self.request.deadline)
    }

    /// How long a run with this deadline is waited for.
    fn until(&self, deadline: Instant) -> Instant {
        if self.wants_trace {
            deadline + TRACE_TIME
        } else {
            deadline
        }
    }

    /// The failure of a run that ended by `deadline`, with the limit that set it.
    fn by_limit(&self, refusal: Refusal, deadline: Instant) -> Refusal {
        if refusal.status() != 504 || deadline >= self.request.deadline {
            return refusal;
        }
        let timeout = self.target.timeout_of(&self.workflow);
        let failure = WorkflowFailure::Timeout { timeout };
        Refusal::Workflow(match refusal {
            Refusal::Workflow(WorkflowFailure::Stopped { trace, .. }) => WorkflowFailure::Stopped {
                failure: Box::new(failure),
                trace,
            },
            _ => failure,
        })
    }

    /// The node at which a run failed and the error, which is logged.
    fn failure(&self, bytes: &[u8]) -> Result<Option<WorkflowFailure>, Refusal> {
        let result = RunResult::read(bytes)?;
        let (Some(node), Some(error)) = (&result.node, &result.error) else {
            return Ok(None);
        };
        let (workflow, request_id) = (&*self.workflow, self.request.id);
        tracing::warn!(target: "forebay::workflow", workflow, request_id, "node `{node}` failed: {error}");
        let reason = public_reason(error, self.asker.is_anonymous()).to_owned();
        Ok(Some(if result.is_input {
            WorkflowFailure::OtherArguments { what: reason }
        } else {
            let (node, trace) = (node.clone(), result.trace_members());
            WorkflowFailure::Failed { node, reason, trace }
        }))
    }
}

/// The item of a list of outcomes for a run that failed.
fn error_item(refusal: &Refusal) -> String {
    let status = refusal.status();
    format!(
        r#"{{"error":{},"status":{status}{}}}"#,
        quoted(&refusal.to_string()),
        trace_of(refusal)
    )
}

/// Refuses a workflow that does not exist or that the client may not run.
pub(super) fn check_there(asker: Asker<'_>, chosen: &ResolvedRelease, workflow: &str) -> Result<(), Refusal> {
    Admission::check(asker, workflow)?;
    if chosen.book.has(workflow) {
        return Ok(());
    }
    let name = workflow.to_owned();
    Err(Refusal::Workflow(WorkflowFailure::NoSuchWorkflow { name }))
}

/// Parses the list of inputs.
fn inputs(text: &[u8]) -> Result<Vec<&RawValue>, Refusal> {
    let wrong = |what: String| Refusal::Workflow(WorkflowFailure::Arguments { what });
    let inputs: Vec<&RawValue> = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    if inputs.len() > INPUTS_MAX {
        let found = inputs.len();
        return Err(wrong(format!(
            "it is a list of {found} objects, at most {INPUTS_MAX}"
        )));
    }
    match inputs.iter().position(|input| !input.get().starts_with('{')) {
        Some(at) => Err(wrong(format!("entry {at} of the list is another value"))),
        None => Ok(inputs),
    }
}

/// Parses the query: `trace=true`, `release=N`.
fn wishes(target: &WorkflowTarget, request: &Request<'_>) -> Result<Wishes, Refusal> {
    let mut wishes = Wishes::default();
    for parameter in parameters(request.head.query(), "") {
        let parameter = parameter?;
        match &*parameter.name {
            "trace" => wishes.trace = parameter.flag()?,
            "release" if !target.runner.releases.has_releases() => {
                return Err(parameter.wrong("the workflows are those of a folder, which has no releases"));
            }
            "release" if target.route.release.is_some() => {
                return Err(parameter.wrong("the route has a release of its own"));
            }
            "release" => {
                let number = parameter.number();
                wishes.release =
                    Some(number.ok_or_else(|| parameter.wrong("it is the number of a release"))?);
            }
            _ => return Err(parameter.wrong("there are `trace` and `release`")),
        }
    }
    Ok(wishes)
}
