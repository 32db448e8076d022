//! Runs the workflow that the path names: once, with the body as its arguments, or once for each item of a list.

use forebay_workflow::{RunCall, RunRequest, WorkflowFailure, argument_list, arguments, is_list};

use super::durable::{self, DurableRunRequest};
use crate::{
    auth::User,
    failure::Refusal,
    front::Client,
    reply::Reply,
    store::now_ms,
    target::{
        End, Request,
        parameters::parameters,
        pending::wait_for,
        store::json,
        workflow::{WorkflowTarget, with_release},
    },
};
use forebay_router::decode;

/// Options in the query.
#[derive(Debug, Default)]
struct RunOptions {
    /// Whether the response includes a trace of the nodes.
    trace: bool,
    /// The requested release.
    release: Option<u64>,
}

/// Answers a request with this body.
pub(in crate::target::workflow) async fn answer(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let user = request.identity.get().map(|identity| identity.json());
    let asker = target.asker(request.head)?.with_user(user);
    let rest = request.rest.unwrap_or_default();
    let options = run_options(target, request)?;
    let workflow = decode(rest).unwrap_or(rest.into());
    // Without durable runs a preference may be ignored, but not a key: ignoring it could run something twice.
    let is_kept = |how: &DurableRunRequest| target.durable_runs().is_some() || how.key.is_some();
    if let Some(how) = DurableRunRequest::of(request.head)?.filter(is_kept) {
        if is_list(text) {
            let what = "a run that is kept has one object of arguments, not a list".to_owned();
            return Err(WorkflowFailure::Arguments { what }.into());
        }
        let run = RunRequest {
            workflow: workflow.into_owned(),
            args: arguments(text)?.get().to_owned(),
            release: options.release.or(target.route.release),
            wants_trace: options.trace,
            user: user.map(str::to_owned),
            user_key: request.identity.get().map(User::key),
            is_promised: how.is_async(),
            at_ms: now_ms(),
        };
        return durable::answer(target, request, how, asker, run, client).await;
    }
    let chosen = target.choose(request.id, options.release)?;
    let list = if is_list(text) {
        Some(argument_list(text)?)
    } else {
        None
    };
    let args = arguments(if list.is_some() { b"" } else { text })?;
    let ask = RunCall::new(&chosen.bundle, &workflow, args, asker, request.id, options.trace);
    let runner = &target.runner;
    let body = if let Some(list) = list {
        chosen.check(asker, &workflow)?;
        let runs = runner.run_list(&ask, &list, request.deadline);
        wait_for(runs, request.deadline, client).await??
    } else {
        let timeout = runner.timeout_of(&workflow);
        let deadline = request.deadline.min(request.arrived + timeout);
        let run = runner.run(&ask, deadline);
        let outcome = match wait_for(run, ask.until(deadline), client).await {
            Err(End::Refused(Refusal::DeadlinePassed)) => Err(WorkflowFailure::DeadlinePassed),
            outcome => outcome?,
        };
        let is_own_limit = deadline < request.deadline;
        let outcome = outcome.map_err(|failure| {
            if is_own_limit {
                failure.with_limit(timeout)
            } else {
                failure
            }
        });
        outcome?.to_vec()
    };
    Ok(with_release(&chosen, json(200, body)))
}

/// Parses the query: `trace=true`, `release=N`.
fn run_options(target: &WorkflowTarget, request: &Request<'_>) -> Result<RunOptions, Refusal> {
    let mut options = RunOptions::default();
    for parameter in parameters(request.head.query(), "") {
        let parameter = parameter?;
        match &*parameter.name {
            "trace" => options.trace = parameter.flag()?,
            "release" if !target.runner.releases.has_releases() => {
                return Err(parameter.wrong("the workflows are those of a folder, which has no releases"));
            }
            "release" if target.route.release.is_some() => {
                return Err(parameter.wrong("the route has a release of its own"));
            }
            "release" => {
                let number = parameter.number();
                options.release =
                    Some(number.ok_or_else(|| parameter.wrong("it is the number of a release"))?);
            }
            _ => return Err(parameter.wrong("there are `trace` and `release`")),
        }
    }
    Ok(options)
}
