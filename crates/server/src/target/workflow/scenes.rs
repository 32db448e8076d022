//! Requests and answers of Rengine's executor: several workflows by their scenes' codes, at the same time.

use std::{collections::HashSet, time::Duration};

use futures_util::future::{Either, join_all};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Ask, WorkflowFailure, WorkflowTarget, arguments, first_line, now_ms, quoted, read_result, whole,
};
use crate::{
    failure::Refusal,
    front::{Socket, Stream},
    reply::Reply,
    target::{End, Request, store::json, waiting::wait_for},
};

/// Most workflows of a request.
const SCENES_MAX: usize = 100;
/// How long a run may take where a request does not say.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The part of a request's time that its runs have.
const RUN_PART: f64 = 0.9;

/// A request, as section 1.2 of Rengine's model has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SceneRequest<'r> {
    request_id: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    scenes_codes: Option<Vec<String>>,
    trace: Option<bool>,
    timeout: Option<i64>,
    /// Nothing depends on it.
    #[serde(rename = "bestEffort")]
    _best_effort: Option<bool>,
    #[serde(borrow)]
    args: Option<&'r RawValue>,
}

/// A request that has all it needs.
struct Checked<'r> {
    request_id: &'r str,
    client_id: &'r str,
    codes: Vec<&'r str>,
    timeout: Duration,
    args: &'r RawValue,
}

/// What became of one workflow.
struct SceneResult {
    code: String,
    /// JSON, where it has not failed.
    values: Result<String, String>,
}

/// Answers a request with this body.
pub(super) async fn answer<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    let read = serde_json::from_slice::<SceneRequest<'_>>(text);
    let read = read.map_err(|error| refused(&error.to_string()));
    let id = read.as_ref().ok().and_then(|read| read.request_id.clone());
    let outcome = match &read {
        Ok(read) => run(target, request, read, socket).await,
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

async fn run<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    read: &SceneRequest<'_>,
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    let checked = check(read)?;
    let timeout = checked.timeout.min(target.limits.timeout);
    let run_timeout = if target.limits.is_as_rengine {
        timeout.mul_f64(RUN_PART)
    } else {
        timeout
    };
    let deadline = request.deadline.min(request.arrived + run_timeout);
    // Those that there are not are left out where there are others.
    let known = |code: &&&str| target.book.workflow(code).is_some();
    let codes: Vec<&str> = checked.codes.iter().filter(known).copied().collect();
    if codes.is_empty() {
        let name = checked.codes.join("`, `");
        return Err(Refusal::Workflow(WorkflowFailure::NoSuchWorkflow { name }).into());
    }
    let begin = |code: &&str| {
        let ask = Ask {
            workflow: code,
            args: checked.args,
            client: Some(checked.client_id),
            trace_id: checked.request_id,
            wants_trace: false,
        };
        target.begin(&ask, deadline)
    };
    let mut begun = Vec::with_capacity(codes.len());
    for code in &codes {
        begun.push(match begin(code) {
            Ok(awaited) => Either::Left(awaited),
            // Alone, it is the request that is refused.
            Err(refusal) if codes.len() == 1 => return Err(refusal.into()),
            Err(refusal) => Either::Right(std::future::ready(Err(refusal))),
        });
    }
    let outcomes = join_all(begun.into_iter().map(async |begun| match begun {
        Either::Left(awaited) => awaited.await.map_err(Refusal::Script),
        Either::Right(refused) => refused.await,
    }));
    // Each of them ends by itself when its time is over, so that those that are over by then are told.
    let late = deadline.max(request.deadline);
    let outcomes = wait_for(outcomes, late, socket).await?;
    let mut results = Vec::with_capacity(codes.len());
    for (code, outcome) in codes.iter().zip(outcomes) {
        let values = match outcome {
            Ok(answer) => {
                let bytes = whole(answer);
                let result = read_result(&bytes)?;
                match (result.error, result.values) {
                    (None, Some(values)) => Ok(values.get().to_owned()),
                    (error, _) => {
                        let error = error.unwrap_or_default();
                        let node = result.node.unwrap_or_default();
                        tracing::warn!(target: "forebay::workflow", workflow = code, request_id = request.id, "node `{node}` failed: {error}");
                        Err(first_line(&error).to_owned())
                    }
                }
            }
            Err(Refusal::Script(
                forebay_script::Failure::DeadlinePassed | forebay_script::Failure::Time { .. },
            )) => Err(format!(
                "Execution time exceeded in {}ms",
                run_timeout.as_millis()
            )),
            Err(refusal) => {
                refusal.log(request.id);
                Err(refusal.to_string())
            }
        };
        results.push(SceneResult {
            code: (*code).to_owned(),
            values,
        });
    }
    Ok(succeeded(checked.request_id, &results))
}

fn check<'r>(read: &'r SceneRequest<'r>) -> Result<Checked<'r>, Refusal> {
    let needed = |value: &'r Option<String>, name: &str| match value.as_deref().map(str::trim) {
        None | Some("") => Err(refused(&format!("`{name}` is missing: text that is not blank"))),
        Some(_) => Ok(value.as_deref().unwrap_or_default()),
    };
    let request_id = needed(&read.request_id, "requestId")?;
    let client_id = needed(&read.client_id, "clientId")?;
    needed(&read.client_secret, "clientSecret")?;
    let codes = read.scenes_codes.as_deref().unwrap_or_default();
    if codes.is_empty() || codes.len() > SCENES_MAX {
        let found = codes.len();
        return Err(refused(&format!(
            "`scenesCodes` has {found} entries: 1 to {SCENES_MAX} names of workflows"
        )));
    }
    let mut seen = HashSet::new();
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
        Some(args) => args,
        None => arguments(b"{}")?,
    };
    let _ = read.trace;
    Ok(Checked {
        request_id,
        client_id,
        codes: codes
            .iter()
            .map(String::as_str)
            .filter(|code| seen.insert(*code))
            .collect(),
        timeout,
        args,
    })
}

fn refused(what: &str) -> Refusal {
    Refusal::Workflow(WorkflowFailure::Request {
        what: what.to_owned(),
    })
}

fn succeeded(request_id: &str, results: &[SceneResult]) -> Reply<'static> {
    let failed = results.iter().filter(|result| result.values.is_err()).count();
    let (status, description) = match failed {
        0 => ("SUCCESS", "All executed successfully"),
        failed if failed < results.len() => ("PART_SUCCESS", "There are failed executions"),
        _ => ("FAILED", "There are failed executions"),
    };
    let results: Vec<String> = results
        .iter()
        .map(|SceneResult { code, values }| {
            let code = quoted(code);
            match values {
                Ok(values) => {
                    format!(r#"{{"scenesCode":{code},"success":true,"valueMap":{values},"reason":null}}"#)
                }
                Err(reason) => format!(
                    r#"{{"scenesCode":{code},"success":false,"valueMap":null,"reason":{}}}"#,
                    quoted(reason)
                ),
            }
        })
        .collect();
    let data = format!(
        r#"{{"requestId":{},"results":[{}],"description":"{description}"}}"#,
        quoted(request_id),
        results.join(",")
    );
    json(200, envelope(200, status, request_id, "Ok", &data))
}

/// The answer to a request that has no results.
fn failed(target: &WorkflowTarget, refusal: &Refusal, request_id: &str) -> Reply<'static> {
    let code = refusal.status();
    let body = envelope(code, "FAILED", request_id, &refusal.to_string(), "null");
    let status = if target.limits.is_as_rengine { 200 } else { code };
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
