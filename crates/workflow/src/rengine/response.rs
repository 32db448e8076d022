//! Responses in Rengine's format.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    WorkflowFailure,
    runner::now_ms,
    runs::result::{NodeFailure, RunResult, quoted},
};

/// Outcome of one workflow.
#[derive(Debug)]
pub struct SceneResult {
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

impl SceneResult {
    /// The values of a run that has not failed.
    pub(super) fn of(result: &RunResult<'_>) -> Self {
        Self {
            values: Ok(result.values.map_or("null", |values| values.get()).to_owned()),
            trace: result.trace_members(),
        }
    }

    fn failed(status: u16, reason: String, trace: String) -> Self {
        let values = Err(SceneFailure { status, reason });
        Self { values, trace }
    }

    /// The outcome of a run that exceeded its time limit.
    pub(super) fn late(timeout: Duration, trace: &str) -> Self {
        let reason = format!("Execution time exceeded in {}ms", timeout.as_millis());
        Self::failed(504, reason, trace.to_owned())
    }
}

impl From<NodeFailure> for SceneResult {
    fn from(failure: NodeFailure) -> Self {
        let status = if failure.is_input { 422 } else { 500 };
        Self::failed(status, failure.reason, failure.trace)
    }
}

impl From<WorkflowFailure> for SceneResult {
    fn from(failure: WorkflowFailure) -> Self {
        let (status, trace) = (failure.kind().code(), failure.trace().to_owned());
        Self::failed(status, failure.to_string(), trace)
    }
}

/// The status of a response: 200 if anything succeeded, and always as Rengine; otherwise that of the failures, or 500 if they differ.
fn status_of<'r>(results: impl Iterator<Item = &'r SceneResult>, is_as_rengine: bool) -> u16 {
    if is_as_rengine {
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

/// The response with the outcomes of workflows.
pub(super) fn of_scenes(
    results: &[(String, SceneResult)],
    request_id: &str,
    is_as_rengine: bool,
) -> (u16, Vec<u8>) {
    let failed = results
        .iter()
        .filter(|(_, result)| result.values.is_err())
        .count();
    let (status, description) = match failed {
        0 => ("SUCCESS", "All executed successfully"),
        failed if failed < results.len() => ("PART_SUCCESS", "There are failed executions"),
        _ => ("FAILED", "There are failed executions"),
    };
    let code = status_of(results.iter().map(|(_, result)| result), is_as_rengine);
    let results: Vec<String> = results
        .iter()
        .map(|(code, result)| format!(r#"{{"scenesCode":{},{}}}"#, quoted(code), members(result)))
        .collect();
    let data = format!(
        r#"{{"requestId":{},"results":[{}],"description":"{description}"}}"#,
        quoted(request_id),
        results.join(",")
    );
    (code, envelope(code, status, request_id, message_of(code), &data))
}

/// The response with the outcome of a rule.
pub(super) fn of_rule(result: &SceneResult, request_id: &str, is_as_rengine: bool) -> (u16, Vec<u8>) {
    let data = format!("{{{}}}", members(result));
    let is_ok = result.values.is_ok();
    let status = if is_ok { "SUCCESS" } else { "FAILED" };
    let code = status_of([result].into_iter(), is_as_rengine);
    (code, envelope(code, status, request_id, message_of(code), &data))
}

/// The response to a request that failed as a whole, with this status and this text: its status and its body.
pub fn failed(code: u16, message: &str, request_id: &str, is_as_rengine: bool) -> (u16, Vec<u8>) {
    let body = envelope(code, "FAILED", request_id, message, "null");
    (if is_as_rengine { 200 } else { code }, body)
}

fn envelope(code: u16, status: &str, request_id: &str, message: &str, data: &str) -> Vec<u8> {
    let (id, message) = (quoted(request_id), quoted(message));
    let timestamp = now_ms();
    format!(
        r#"{{"code":{code},"status":"{status}","requestId":{id},"timestamp":{timestamp},"message":{message},"data":{data}}}"#
    )
    .into_bytes()
}
