//! Durable runs over HTTP: requested with `Prefer: respond-async` (RFC 7240) or with an `Idempotency-Key`, and queried by id.

use std::time::Duration;

use forebay_workflow::{Admission, Asker, Progress, RunName, RunRequest, WorkflowFailure};

use crate::{
    front::{Client, Head},
    jobs::random,
    reply::Reply,
    target::{
        End, Request,
        idempotency_key::{KEY_BYTES_MAX, idempotency_key},
        parameters::parameters,
        pending::wait_for,
        store::json,
        workflow::{DurableRuns, WorkflowTarget},
    },
};
use forebay_router::{decode, put_encoded};

/// How a request wants its run to be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DurableRunRequest {
    /// The client's key for the run.
    pub(super) key: Option<String>,
    prefers: Preferences,
}

/// The known preferences in the Prefer field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Preferences {
    /// The response may be sent before the run is over.
    respond_async: bool,
    /// How long the client prefers to wait.
    wait: Option<Duration>,
}

impl DurableRunRequest {
    /// Reads the head. `None`: the request does not want a durable run.
    pub(super) fn of(head: &Head) -> Result<Option<Self>, WorkflowFailure> {
        let key = idempotency_key(head).map_err(WorkflowFailure::request)?;
        let prefers = preferences(head);
        Ok((key.is_some() || prefers.respond_async).then_some(Self { key, prefers }))
    }

    /// Whether the response may be sent before the run is over.
    pub(super) fn is_async(&self) -> bool {
        self.prefers.respond_async
    }
}

fn preferences(head: &Head) -> Preferences {
    let mut prefers = Preferences::default();
    let Some(list) = head.list("prefer") else {
        return prefers;
    };
    for preference in list.split(|&byte| byte == b',') {
        let preference = preference.split(|&byte| byte == b';').next().unwrap_or_default();
        let preference = String::from_utf8_lossy(preference.trim_ascii()).to_ascii_lowercase();
        match preference.split_once('=') {
            None if preference == "respond-async" => prefers.respond_async = true,
            Some((name, seconds)) if name.trim() == "wait" => {
                // `u32` seconds exceed any deadline, and still can be added to an instant.
                let seconds: Option<u32> = seconds.trim().trim_matches('"').parse().ok();
                prefers.wait = prefers
                    .wait
                    .or(seconds.map(|seconds| Duration::from_secs(seconds.into())));
            }
            _ => {}
        }
    }
    prefers
}

/// Starts a durable run, or finds the one with this key; responds with its outcome, or with where to query it.
pub(super) async fn answer(
    target: &WorkflowTarget,
    request: &Request<'_>,
    how: DurableRunRequest,
    asker: Asker<'_>,
    run: RunRequest,
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let Some(runs) = target.durable_runs() else {
        return Err(WorkflowFailure::request(
            "there is an `Idempotency-Key`, and runs are not kept here: `runs` under [workflow] says where",
        )
        .into());
    };
    let name = RunName {
        client: asker.id.map(str::to_owned),
        id: match how.key {
            Some(key) => key,
            None => format!("{:032x}", random()?),
        },
    };
    wait_for(
        runs.check(&target.runner, asker, &name, &run),
        request.deadline,
        client,
    )
    .await??;
    let deadline = request.arrived + target.runner.timeout_of(&run.workflow);
    let deadline = deadline.min(request.deadline);
    let id = name.id.clone();
    let Preferences { respond_async, wait } = how.prefers;
    let entry = runs.run(name, run)?;
    if !respond_async {
        let over = wait_for(entry.wait_for(Progress::is_over), deadline, client).await?;
        return ended(&id, over);
    }
    let accepted = wait_for(entry.wait_for(Progress::is_accepted), request.deadline, client).await?;
    if accepted.is_over() {
        return ended(&id, accepted);
    }
    if let Some(wait) = wait {
        // Leaves time to respond with the run's location if it is not over.
        let room = deadline.saturating_duration_since(request.arrived);
        let until = request.arrived + wait.min(room * 9 / 10);
        let over = tokio::time::timeout_at(until.into(), entry.wait_for(Progress::is_over));
        if let Ok(over) = wait_for(over, request.deadline, client).await? {
            return ended(&id, over);
        }
    }
    let mut reply = json(202, entry.progress().accepted(&id).into_bytes());
    let mut place = format!("{}?run=", request.head.path());
    put_encoded(&id, &mut place);
    let headers = reply.headers.to_mut();
    headers.push_known("location", &place);
    headers.push_known("preference-applied", "respond-async");
    Ok(reply)
}

/// The response with a run's outcome, as if the request had waited for it.
fn ended(id: &str, progress: Progress) -> Result<Reply<'static>, End> {
    let over = progress.outcome()?;
    let mut reply = json(200, over.answer.clone().into_bytes());
    let headers = reply.headers.to_mut();
    headers.push_known("workflow-run", id);
    if let Some(release) = over.release {
        headers.push_known("workflow-release", &release.to_string());
    }
    Ok(reply)
}

/// Responds with a run's progress: `GET ?run=ID`. With `Prefer: wait=N`, waits until it is over or N seconds have passed.
pub(in crate::target::workflow) async fn tell(
    target: &WorkflowTarget,
    runs: &DurableRuns,
    request: &Request<'_>,
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let asker = target.asker(request.head)?;
    let rest = request.rest.unwrap_or_default();
    let workflow = decode(rest).unwrap_or(rest.into());
    Admission::check(asker, &workflow)?;
    let mut id = None;
    for parameter in parameters(request.head.query(), "") {
        let parameter = parameter?;
        match &*parameter.name {
            "run" => id = Some(parameter.value.clone().into_owned()),
            _ => return Err(parameter.wrong("there is `run`, the id of a run").into()),
        }
    }
    let Some(id) = id.filter(|id| !id.is_empty() && id.len() <= KEY_BYTES_MAX) else {
        return Err(WorkflowFailure::request(
            "a workflow is run with POST; GET asks about a run, with `?run=` and its id",
        )
        .into());
    };
    let name = RunName {
        client: asker.id.map(str::to_owned),
        id,
    };
    let progress = find(runs, request, &name, &workflow, client).await?;
    Ok(json(200, progress.report(&name.id, &workflow)?.into_bytes()))
}

async fn find(
    runs: &DurableRuns,
    request: &Request<'_>,
    name: &RunName,
    workflow: &str,
    client: &mut dyn Client,
) -> Result<Progress, End> {
    let until = preferences(request.head)
        .wait
        .map_or(request.arrived, |wait| request.arrived + wait);
    let found = runs.find(name, workflow, until.min(request.deadline));
    let found = wait_for(found, request.deadline + Duration::from_secs(1), client).await??;
    Ok(found.ok_or_else(|| WorkflowFailure::NoSuchRun { id: name.id.clone() })?)
}
