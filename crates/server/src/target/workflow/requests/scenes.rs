//! Requests and responses of Rengine's executor: several workflows at once, by their scenes' codes, or a single rule.

use std::{
    collections::{BTreeSet, HashSet},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_script::Script;
use forebay_workflow::{
    ARGUMENTS_DEPTH_MAX, Asker, RunCall, RunResult, WorkflowFailure, arguments, depth_of, public_reason,
};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    failure::Refusal,
    front::{Head, Socket, Stream},
    reply::Reply,
    store::now_ms,
    target::{
        End, Request,
        parameters::parameters,
        pending::wait_for,
        store::json,
        workflow::{ResolvedRelease, WorkflowTarget, quoted, trace_of, with_release},
    },
};

/// Most workflows in one request.
const SCENES_MAX: usize = 100;
/// Time limit of runs if the request does not set one.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Extra time after the runs' deadline for reporting their outcomes.
const TELLING: Duration = Duration::from_secs(1);
/// The part of a request's timeout that its runs get, as in Rengine.
const RUN_PART: f64 = 0.9;

/// A request, as in section 1.2 of Rengine's model.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SceneRequest<'r> {
    pub(super) request_id: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<String>,
    pub(super) scenes_codes: Option<Vec<String>>,
    /// The rule to run alone.
    pub(super) rule_script_id: Option<Value>,
    /// Language of the rule: only `JS`.
    pub(super) engine: Option<String>,
    pub(super) trace: Option<bool>,
    pub(super) timeout: Option<i64>,
    /// Accepted and ignored.
    #[serde(rename = "bestEffort")]
    pub(super) _best_effort: Option<bool>,
    #[serde(borrow)]
    pub(super) args: Option<&'r RawValue>,
}

/// A validated request.
struct Checked<'r> {
    request_id: &'r str,
    asker: Asker<'r>,
    timeout: Duration,
    args: &'r RawValue,
    /// The value of `isTrace()` in rules.
    is_traced: bool,
    /// Whether the response includes a trace of the nodes: the parameter `trace` of the query.
    wants_trace: bool,
}

/// Outcome of one workflow.
#[derive(Debug)]
pub(super) struct SceneResult {
    /// Its values as JSON, or its failure.
    pub(super) values: Result<String, SceneFailure>,
    /// The trace, as members of an object, if the client asked for it.
    trace: String,
}

/// Why a workflow has no values.
#[derive(Debug)]
pub(super) struct SceneFailure {
    /// The status of the response if all others failed likewise.
    status: u16,
    pub(super) reason: String,
}

/// Answers a request with this body, for workflows or for a rule.
pub(in crate::target::workflow) async fn answer<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    socket: &mut Socket<S>,
    is_rule: bool,
) -> Result<Reply<'static>, End> {
    let read = read(text);
    let id = read.as_ref().ok().and_then(|read| read.request_id.clone());
    let outcome = match &read {
        Ok(read) if is_rule => run_rule(target, request, read, socket).await,
        Ok(read) => run_scenes(target, request, read, socket).await,
        Err(refusal) => Err(End::Refused(refusal.clone())),
    };
    match outcome {
        Err(End::Refused(refusal)) => {
            refusal.log(request.id);
            Ok(failed(target, &refusal, id.as_deref().unwrap_or(request.id)))
        }
        outcome => outcome,
    }
}

/// Parses a request. An error names the wrong field and what is accepted.
fn read(text: &[u8]) -> Result<SceneRequest<'_>, Refusal> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let read: SceneRequest<'_> = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let text = error.inner().to_string();
        match text.split_once(" at line ") {
            Some((what, _)) if error.inner().is_data() => refused(&format!("`{path}`: {what}")),
            _ => refused(&text),
        }
    })?;
    json.end().map_err(|error| refused(&error.to_string()))?;
    Ok(read)
}

async fn run_scenes<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    read: &SceneRequest<'_>,
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    let request_id = read.request_id.as_deref().unwrap_or_default();
    let chosen = target.choose(request_id, None)?;
    let results = run_codes(target, request, read, &chosen, socket).await?;
    Ok(with_release(&chosen, reported(target, request_id, &results)))
}

/// Runs the requested workflows concurrently and returns the outcome of each.
pub(super) async fn run_codes<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    read: &SceneRequest<'_>,
    chosen: &ResolvedRelease,
    socket: &mut Socket<S>,
) -> Result<Vec<(String, SceneResult)>, End> {
    let checked = check(target, request.head, read)?;
    let asked = codes(read)?;
    let (run_timeout, deadline) = limits(target, request, &checked);
    let is_known = |code: &str| chosen.book.has(code);
    let codes: Vec<&str> = asked.iter().copied().filter(|code| is_known(code)).collect();
    if codes.is_empty() {
        let name = asked.join("`, `");
        return Err(Refusal::Workflow(WorkflowFailure::NoSuchWorkflow { name }).into());
    }
    let outcomes = join_all(codes.iter().map(async |code| {
        let deadline = deadline.min(request.arrived + target.timeout_of(code));
        let ask = checked.ask(chosen, code);
        // A run that is still waiting for an executor by then times out alone.
        let until = if checked.wants_trace {
            deadline + TELLING * 3 / 4
        } else {
            deadline
        };
        let outcome = tokio::time::timeout_at(until.into(), target.run(&ask, deadline)).await;
        outcome.unwrap_or(Err(Refusal::Workflow(WorkflowFailure::DeadlinePassed)))
    }));
    let outcomes = wait_for(outcomes, deadline + TELLING, socket).await?;
    let mut results = Vec::with_capacity(asked.len());
    let mut outcomes = outcomes.into_iter();
    let is_alone = asked.len() == 1;
    for code in asked {
        if !is_known(code) {
            let failure = WorkflowFailure::NoSuchWorkflow {
                name: code.to_owned(),
            };
            results.push((code.to_owned(), Refusal::Workflow(failure).into()));
            continue;
        }
        let outcome = outcomes.next().expect("each known workflow has an outcome");
        if is_alone
            && let Err(refusal) = &outcome
            && is_turned_away(refusal)
        {
            return Err(refusal.clone().into());
        }
        let result = result_of(outcome, code, request, &checked, run_timeout)?;
        results.push((code.to_owned(), result));
    }
    Ok(results)
}

async fn run_rule<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    read: &SceneRequest<'_>,
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    let checked = check(target, request.head, read)?;
    if let Some(engine) = &read.engine
        && engine != "JS"
    {
        return Err(refused(&format!("`engine` is {engine}: rules are written for JS")).into());
    }
    let rule = match &read.rule_script_id {
        Some(Value::String(rule)) if !rule.is_empty() => rule.clone(),
        Some(Value::Number(rule)) => rule.to_string(),
        _ => return Err(refused("`ruleScriptId` is missing: the name of a rule").into()),
    };
    let (run_timeout, deadline) = limits(target, request, &checked);
    let chosen = target.choose(checked.request_id, None)?;
    let ask = checked.ask(&chosen, &rule);
    let outcome = wait_for(target.run_rule(&ask, deadline), deadline + TELLING, socket).await?;
    if let Err(refusal) = &outcome
        && is_turned_away(refusal)
    {
        return Err(refusal.clone().into());
    }
    let result = result_of(outcome, &rule, request, &checked, run_timeout)?;
    let data = format!("{{{}}}", members(&result));
    let status = if result.values.is_ok() {
        "SUCCESS"
    } else {
        "FAILED"
    };
    let code = status_of(target, [&result].into_iter());
    let reply = json(
        code,
        envelope(code, status, checked.request_id, message_of(code), &data),
    );
    Ok(with_release(&chosen, reply))
}

/// The time limit of a request's runs, and their deadline.
fn limits(target: &WorkflowTarget, request: &Request<'_>, checked: &Checked<'_>) -> (Duration, Instant) {
    let timeout = checked.timeout.min(target.runner.limits.timeout);
    let run_timeout = if target.is_as_rengine {
        timeout.mul_f64(RUN_PART)
    } else {
        timeout
    };
    (run_timeout, request.deadline.min(request.arrived + run_timeout))
}

/// A run's outcome, as the response reports it.
fn result_of(
    outcome: Result<Bytes, Refusal>,
    name: &str,
    request: &Request<'_>,
    checked: &Checked<'_>,
    run_timeout: Duration,
) -> Result<SceneResult, Refusal> {
    Ok(match outcome {
        Ok(bytes) => {
            let result = RunResult::read(&bytes)?;
            let trace = result.trace_members();
            let values = match (result.error, result.values) {
                (None, Some(values)) => Ok(values.get().to_owned()),
                (error, _) => {
                    let error = error.unwrap_or_default();
                    let node = result.node.unwrap_or_default();
                    tracing::warn!(target: "forebay::workflow", workflow = name, request_id = request.id, "node `{node}` failed: {error}");
                    Err(SceneFailure {
                        status: if result.is_input { 422 } else { 500 },
                        reason: public_reason(&error, checked.asker.is_anonymous()).to_owned(),
                    })
                }
            };
            SceneResult { values, trace }
        }
        Err(refusal) if refusal.status() == 504 => SceneResult {
            values: Err(SceneFailure {
                status: 504,
                reason: format!("Execution time exceeded in {}ms", run_timeout.as_millis()),
            }),
            trace: trace_of(&refusal).to_owned(),
        },
        Err(refusal) => {
            refusal.log(request.id);
            refusal.into()
        }
    })
}

impl From<Refusal> for SceneResult {
    fn from(refusal: Refusal) -> Self {
        Self {
            values: Err(SceneFailure {
                status: refusal.status(),
                reason: refusal.to_string(),
            }),
            trace: trace_of(&refusal).to_owned(),
        }
    }
}

/// The status of a response: 200 if anything succeeded, and always as Rengine; otherwise that of the failures, or 500 if they differ.
fn status_of<'r>(target: &WorkflowTarget, results: impl Iterator<Item = &'r SceneResult>) -> u16 {
    if target.is_as_rengine {
        return 200;
    }
    let statuses: BTreeSet<u16> = results
        .map(|result| result.values.as_ref().err().map_or(200, |failure| failure.status))
        .collect();
    match statuses.first() {
        Some(200) | None => 200,
        Some(&status) if statuses.len() == 1 => status,
        Some(_) => 500,
    }
}

fn message_of(code: u16) -> &'static str {
    if code == 200 {
        "Ok"
    } else {
        "All executions failed"
    }
}

impl<'r> Checked<'r> {
    fn ask<'a>(&'a self, chosen: &'a ResolvedRelease, workflow: &'a str) -> RunCall<'a, Script> {
        RunCall {
            book: &chosen.book,
            workflow,
            args: self.args,
            asker: self.asker,
            trace_id: self.request_id,
            is_traced: self.is_traced,
            wants_trace: self.wants_trace,
            is_anonymous: self.asker.is_anonymous(),
            begun: None,
        }
    }
}

/// Whether the run was refused before it began. If it was the only one, the refusal is the response.
fn is_turned_away(refusal: &Refusal) -> bool {
    matches!(refusal.status(), 401 | 403 | 404 | 429 | 503)
}

fn check<'r>(
    target: &'r WorkflowTarget,
    head: &Head,
    read: &'r SceneRequest<'r>,
) -> Result<Checked<'r>, Refusal> {
    let needed = |value: &'r Option<String>, name: &str| match value.as_deref().map(str::trim) {
        None | Some("") => Err(refused(&format!("`{name}` is missing: text that is not blank"))),
        Some(_) => Ok(value.as_deref().unwrap_or_default()),
    };
    let request_id = needed(&read.request_id, "requestId")?;
    let client = needed(&read.client_id, "clientId");
    let client = client.and_then(|id| Ok((id, needed(&read.client_secret, "clientSecret")?)));
    let asker = asker(target, head, client)?;
    let timeout = match read.timeout {
        None => TIMEOUT,
        Some(ms @ 1..) => Duration::from_millis(ms.unsigned_abs()),
        Some(ms) => return Err(refused(&format!("`timeout` is {ms}: milliseconds, more than 0"))),
    };
    let args = match read.args {
        Some(args) if args.get() == "null" => arguments(b"{}")?,
        Some(args) if !args.get().starts_with('{') => {
            return Err(refused("`args` is another value than an object"));
        }
        Some(args) if depth_of(args.get()) > ARGUMENTS_DEPTH_MAX => {
            return Err(refused(&format!(
                "`args` is nested deeper than {ARGUMENTS_DEPTH_MAX} levels"
            )));
        }
        Some(args) => args,
        None => arguments(b"{}")?,
    };
    let wants_trace = wants_trace(head)?;
    Ok(Checked {
        request_id,
        wants_trace,
        asker,
        timeout,
        args,
        is_traced: read.trace.unwrap_or(true),
    })
}

/// Whether the query asks for a trace. Other parameters are ignored, as Rengine does.
pub(super) fn wants_trace(head: &Head) -> Result<bool, Refusal> {
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
    client: Result<(&'r str, &str), Refusal>,
) -> Result<Asker<'r>, Refusal> {
    let by_body = client.and_then(|(id, secret)| Ok(target.asker_with(id, secret)?));
    by_body.or_else(|refusal| {
        if target.runner.admission.is_open() {
            return Err(refusal);
        }
        target.asker(head).map_err(|by_head| match by_head {
            WorkflowFailure::NoCredentials => refusal,
            other => other.into(),
        })
    })
}

/// The requested workflows, without duplicates.
fn codes<'r>(read: &'r SceneRequest<'_>) -> Result<Vec<&'r str>, Refusal> {
    let codes = read.scenes_codes.as_deref().unwrap_or_default();
    if codes.is_empty() || codes.len() > SCENES_MAX {
        let found = codes.len();
        return Err(refused(&format!(
            "`scenesCodes` has {found} entries: 1 to {SCENES_MAX} names of workflows"
        )));
    }
    let mut seen = HashSet::new();
    let codes = codes.iter().map(String::as_str);
    Ok(codes.filter(|code| seen.insert(*code)).collect())
}

pub(super) fn refused(what: &str) -> Refusal {
    Refusal::Workflow(WorkflowFailure::Request {
        what: what.to_owned(),
    })
}

/// The members of a response that describe a result.
fn members(SceneResult { values, trace }: &SceneResult) -> String {
    match values {
        Ok(values) => format!(r#""success":true,"valueMap":{values},"reason":null{trace}"#),
        Err(failure) => {
            let reason = quoted(&failure.reason);
            format!(r#""success":false,"valueMap":null,"reason":{reason}{trace}"#)
        }
    }
}

pub(super) fn reported(
    target: &WorkflowTarget,
    request_id: &str,
    results: &[(String, SceneResult)],
) -> Reply<'static> {
    let failed = results
        .iter()
        .filter(|(_, result)| result.values.is_err())
        .count();
    let (status, description) = match failed {
        0 => ("SUCCESS", "All executed successfully"),
        failed if failed < results.len() => ("PART_SUCCESS", "There are failed executions"),
        _ => ("FAILED", "There are failed executions"),
    };
    let code = status_of(target, results.iter().map(|(_, result)| result));
    let results: Vec<String> = results
        .iter()
        .map(|(code, result)| format!(r#"{{"scenesCode":{},{}}}"#, quoted(code), members(result)))
        .collect();
    let data = format!(
        r#"{{"requestId":{},"results":[{}],"description":"{description}"}}"#,
        quoted(request_id),
        results.join(",")
    );
    json(code, envelope(code, status, request_id, message_of(code), &data))
}

/// The response to a request that failed as a whole.
pub(super) fn failed(target: &WorkflowTarget, refusal: &Refusal, request_id: &str) -> Reply<'static> {
    let code = refusal.status();
    let body = envelope(code, "FAILED", request_id, &refusal.to_string(), "null");
    let status = if target.is_as_rengine { 200 } else { code };
    let mut reply = json(status, body);
    if let Some(retry) = refusal.retry_after() {
        reply.headers.to_mut().push_known("retry-after", retry);
    }
    reply
}

fn envelope(code: u16, status: &str, request_id: &str, message: &str, data: &str) -> Vec<u8> {
    let (id, message) = (quoted(request_id), quoted(message));
    let timestamp = now_ms();
    format!(
        r#"{{"code":{code},"status":"{status}","requestId":{id},"timestamp":{timestamp},"message":{message},"data":{data}}}"#
    )
    .into_bytes()
}
