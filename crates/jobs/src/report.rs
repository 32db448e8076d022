//! Jobs as JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{Content, Job, JobState};

/// A job without its request and response, as in a list.
pub fn listed(job: &Job) -> Value {
    json!({
        "id": job.id,
        "route": job.queue,
        "state": job.state,
        "attempts": job.attempts,
        "acceptedMs": job.accepted_ms,
        "dueMs": job.due_ms,
        "begunMs": job.begun_ms,
        "endedMs": job.ended_ms,
        "error": job.error,
    })
}

/// A job as clients see it, with its response.
pub fn report(job: &Job, response: Option<Content>) -> Value {
    let mut report = json!({
        "id": job.id,
        "state": job.state,
        "attempts": job.attempts,
        "acceptedMs": job.accepted_ms,
    });
    if matches!(job.state, JobState::Waiting | JobState::Retrying) {
        report["dueMs"] = job.due_ms.into();
    }
    for (name, ms) in [("begunMs", job.begun_ms), ("endedMs", job.ended_ms)] {
        if let Some(ms) = ms {
            report[name] = ms.into();
        }
    }
    if let Some(error) = &job.error {
        report["error"] = error.as_str().into();
    }
    if let Some(response) = response.and_then(with_body) {
        report["response"] = response;
    }
    report
}

/// A whole job, with its request as the client has sent it: what a login says about the client is for the handler.
pub fn shown(job: &Job, request: Option<Content>, response: Option<Content>) -> Value {
    let mut shown = report(job, response);
    shown["route"] = job.queue.as_str().into();
    shown["subject"] = job.subject.as_deref().into();
    if let Some(mut request) = request.and_then(with_body) {
        request.as_object_mut().map(|head| head.remove("identity"));
        shown["request"] = request;
    }
    shown
}

/// The head as an object, and in it the body, as text if it is one. `None` if the head is no object.
fn with_body(content: Content) -> Option<Value> {
    let mut value: Value = serde_json::from_str(&content.head).ok()?;
    let object = value.as_object_mut()?;
    match String::from_utf8(content.body) {
        Ok(text) => object.insert("body".to_owned(), text.into()),
        Err(error) => object.insert("base64".to_owned(), STANDARD.encode(error.as_bytes()).into()),
    };
    Some(value)
}
