//! Requests in the formats of Rengine's executor.

use std::collections::BTreeMap;

use forebay_script::Script;
use forebay_workflow::{
    Asker, WorkflowFailure,
    rengine::{Arrival, CustomRequest, SceneCall, SceneRequest, failed, fill},
};

use crate::{
    failure::Refusal,
    front::{Client, Head},
    reply::{Body, Reply},
    target::{
        End, Request,
        parameters::parameters,
        pending::wait_for,
        store::json,
        workflow::{WorkflowTarget, with_release},
    },
};

/// Answers a request with this body, for workflows or for a rule.
pub(in crate::target::workflow) async fn answer(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    client: &mut dyn Client,
    is_rule: bool,
) -> Result<Reply<'static>, End> {
    let read = SceneRequest::read(text);
    let id = read.as_ref().ok().and_then(SceneRequest::id);
    let outcome = match &read {
        Ok(read) if is_rule => run_rule(target, request, read, client).await,
        Ok(read) => run_scenes(target, request, read, client).await,
        Err(failure) => Err(failure.clone().into()),
    };
    enveloped(target, request, id.unwrap_or(request.id), outcome)
}

/// Answers a request with this body, of a system that knows nothing of workflows.
pub(in crate::target::workflow) async fn answer_custom(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let outcome = run_custom(target, request, text, client).await;
    enveloped(target, request, request.id, outcome)
}

/// The response, in Rengine's format if the request was refused.
fn enveloped(
    target: &WorkflowTarget,
    request: &Request<'_>,
    id: &str,
    outcome: Result<Reply<'static>, End>,
) -> Result<Reply<'static>, End> {
    let Err(End::Refused(refusal)) = outcome else {
        return outcome;
    };
    refusal.log(request.id);
    let (status, body) = failed(refusal.status(), &refusal.to_string(), id, target.is_as_rengine);
    let mut reply = json(status, body);
    if let Some(retry) = refusal.retry_after() {
        reply.headers.to_mut().push_known("retry-after", &retry);
    }
    Ok(reply)
}

async fn run_scenes(
    target: &WorkflowTarget,
    request: &Request<'_>,
    read: &SceneRequest<'_>,
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let chosen = target.choose(read.id().unwrap_or_default(), None)?;
    let call = scene_call(target, request, read)?;
    let results = wait_for(call.run_scenes(&chosen.bundle), call.until(), client).await??;
    let (status, body) = call.report(&results);
    Ok(with_release(&chosen, json(status, body)))
}

async fn run_rule(
    target: &WorkflowTarget,
    request: &Request<'_>,
    read: &SceneRequest<'_>,
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let call = scene_call(target, request, read)?;
    let rule = read.rule()?;
    let chosen = target.choose(call.request_id, None)?;
    let result = wait_for(call.run_rule(&chosen.bundle, &rule), call.until(), client).await??;
    let (status, body) = call.report_rule(&result);
    Ok(with_release(&chosen, json(status, body)))
}

async fn run_custom(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let head = request.head;
    let mut query = BTreeMap::new();
    for parameter in parameters(head.query(), "") {
        let parameter = parameter?;
        query.insert(parameter.name.into_owned(), parameter.value.into_owned());
    }
    let header = |name: &str| Some(String::from_utf8_lossy(head.field(name)?).into_owned());
    let text = if head.method() == "POST" { text } else { b"" };
    let custom = CustomRequest::read(&query, &header, text, request.id)?;
    let read = custom.scene();
    let chosen = target.choose(read.id().unwrap_or(request.id), None)?;
    let template = custom.template(&chosen.bundle)?;
    let call = scene_call(target, request, &read)?;
    let results = wait_for(call.run_scenes(&chosen.bundle), call.until(), client).await??;
    let reply = if call.wants_trace {
        let (status, body) = call.report(&results);
        json(status, body)
    } else {
        let body = fill(template, &results)?;
        let mut reply = Reply::new(200);
        let headers = reply.headers.to_mut();
        headers.push_known("content-type", template.media_type);
        reply.body = Body::Bytes(body.into_bytes().into());
        reply
    };
    Ok(with_release(&chosen, reply))
}

fn scene_call<'r>(
    target: &'r WorkflowTarget,
    request: &Request<'r>,
    read: &'r SceneRequest<'r>,
) -> Result<SceneCall<'r, Script>, Refusal> {
    read.needed_id()?;
    let user = request.identity.get().map(|identity| identity.json());
    let asker = asker(target, request.head, read.credentials())?.with_user(user);
    let arrival = Arrival {
        id: request.id,
        at: request.arrived,
        deadline: request.deadline,
    };
    let mut call = SceneCall::new(&target.runner, read, asker, arrival, target.is_as_rengine)?;
    call.wants_trace = wants_trace(request.head)?;
    Ok(call)
}

/// Whether the query asks for a trace. Other parameters are ignored, as Rengine does.
fn wants_trace(head: &Head) -> Result<bool, Refusal> {
    for parameter in parameters(head.query(), "") {
        let parameter = parameter?;
        if parameter.name == "trace" {
            return parameter.flag();
        }
    }
    Ok(false)
}

/// Authenticates the client: by the body's credentials, or by the head's where clients are configured.
fn asker<'r>(
    target: &'r WorkflowTarget,
    head: &Head,
    client: Result<(&'r str, &str), WorkflowFailure>,
) -> Result<Asker<'r>, WorkflowFailure> {
    let by_body = client.and_then(|(id, secret)| target.asker_with(id, secret));
    by_body.or_else(|failure| {
        if target.runner.admission.is_open() {
            return Err(failure);
        }
        target.asker(head).map_err(|by_head| match by_head {
            WorkflowFailure::NoCredentials => failure,
            other => other,
        })
    })
}
