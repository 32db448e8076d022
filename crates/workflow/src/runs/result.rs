//! The result of a run, as the JSON that an executor sends to the thread that responds.

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::driver::Log;
use crate::{
    LogLine, Outcome, Run, RunError, RunOutcome, WorkflowFailure,
    jdm::{Cause, Evaluation},
};

/// The members of a run's result that the server looks at before passing it on.
#[derive(Debug, Deserialize)]
pub struct RunResult<'r> {
    /// Values of its last rule.
    #[serde(borrow, rename = "valueMap", alias = "result")]
    pub values: Option<&'r RawValue>,
    /// The node that failed.
    pub node: Option<String>,
    /// The error; its stack trace follows the first line.
    pub error: Option<String>,
    /// The steps of the run, if they were asked for.
    #[serde(borrow)]
    pub trace: Option<&'r RawValue>,
    /// The lines that its rules logged, if they were asked for.
    #[serde(borrow)]
    pub logs: Option<&'r RawValue>,
    /// Whether the error is that of the arguments, which do not match the schema of the decision's input.
    #[serde(default, rename = "isInput")]
    pub is_input: bool,
}

impl<'r> RunResult<'r> {
    /// Reads the result of a run.
    ///
    /// # Errors
    /// [`WorkflowFailure::Broken`] if it is something else.
    pub fn read(bytes: &'r [u8]) -> Result<Self, WorkflowFailure> {
        serde_json::from_slice(bytes).map_err(|error| WorkflowFailure::Broken {
            reason: format!("a run's result cannot be read: {error}"),
        })
    }
}

/// The first line of an error, without the stack trace.
pub fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

/// The outcome that a result is counted as.
pub(crate) fn outcome_of(bytes: &[u8]) -> RunOutcome {
    // Recognizes the prefix that `put_outcome` writes, so that a long result is not parsed.
    if bytes.starts_with(b"{\"state\":true,") {
        return RunOutcome::True;
    }
    if bytes.starts_with(b"{\"state\":false,") {
        return RunOutcome::False;
    }
    match serde_json::from_slice::<RunResult<'_>>(bytes) {
        Ok(RunResult { error: None, .. }) => RunOutcome::True,
        _ => RunOutcome::Failed,
    }
}

const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// Writes the result of a graph. Beyond `output_max` bytes it may be truncated, because it will be refused anyway.
pub(super) fn write_run<F: fmt::Display>(
    run: &Run<std::rc::Rc<str>, F>,
    log: &Log,
    wants_trace: bool,
    output_max: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    put_outcome(&mut out, &run.outcome, |cause| cause);
    if let Err(error) = &run.outcome {
        put(&mut out, &format!(",\"node\":{}", quoted(&error.node)));
    }
    if wants_trace {
        put(&mut out, ",\"trace\":[");
        for (at, step) in run.steps.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let (began, took) = (
                step.begun.as_secs_f64() * 1000.0,
                step.took.as_secs_f64() * 1000.0,
            );
            let (node, kind) = (quoted(&step.node), step.kind);
            put(
                &mut out,
                &format!(
                    "{comma}{{\"node\":{node},\"kind\":\"{kind}\",\"beganMs\":{began:.3},\"tookMs\":{took:.3},"
                ),
            );
            // Clients do not get the stack trace.
            put_outcome(&mut out, &step.outcome, first_line);
            out.push(b'}');
            // It is refused as too long, whatever would follow.
            if out.len() > output_max {
                return out;
            }
        }
        out.push(b']');
        put_log(&mut out, log);
    }
    out.push(b'}');
    out
}

/// Writes the result of a decision in the format of GoRules' engine and agent.
pub(super) fn write_evaluation<F: fmt::Display>(
    evaluation: &Evaluation<F>,
    log: &Log,
    wants_trace: bool,
) -> Vec<u8> {
    let mut reply = evaluation.reply();
    if let Err(error) = &evaluation.result {
        reply["node"] = Value::from(&*error.node);
        reply["error"] = Value::from(error.cause.to_string());
        // Nodes of nested decisions have a path.
        let is_input = matches!(error.cause, Cause::InvalidInput { .. }) && !error.node.contains('/');
        reply["isInput"] = Value::from(is_input);
    }
    let mut out = reply.to_string().into_bytes();
    if wants_trace {
        out.pop();
        put_log(&mut out, log);
        out.push(b'}');
    }
    out
}

/// Appends the log as further members of an object.
fn put_log(out: &mut Vec<u8>, log: &Log) {
    put(out, ",\"logs\":[");
    for (at, LogLine { level, text }) in log.lines.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let level = LEVELS[usize::from(*level).min(LEVELS.len() - 1)];
        let message = quoted(text);
        put(
            out,
            &format!("{comma}{{\"level\":\"{level}\",\"message\":{message}}}"),
        );
    }
    out.push(b']');
    if log.left_out > 0 {
        put(out, &format!(",\"logsLeftOut\":{}", log.left_out));
    }
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn put_outcome<F: fmt::Display>(
    out: &mut Vec<u8>,
    outcome: &Result<Outcome<std::rc::Rc<str>>, RunError<F>>,
    told: fn(&str) -> &str,
) {
    match outcome {
        Ok(outcome) => {
            put(out, &format!("\"state\":{},\"valueMap\":", outcome.is_true));
            put(out, &outcome.values);
        }
        Err(error) => put(
            out,
            &format!("\"error\":{}", quoted(told(&error.cause.to_string()))),
        ),
    }
}
