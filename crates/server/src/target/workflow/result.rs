//! What a run has come to, as JSON between its executor and the thread that answers.

use std::fmt;

use forebay_script::LogLine;
use forebay_workflow::{Outcome, Run, RunError};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::course::Log;

/// What a run has come to, as far as it is looked at before it is handed on.
#[derive(Debug, Deserialize)]
pub(super) struct RunResult<'r> {
    /// What its last rule has found out.
    #[serde(borrow, rename = "valueMap")]
    pub(super) values: Option<&'r RawValue>,
    /// The node that failed.
    pub(super) node: Option<String>,
    /// Why, with where it was thrown behind the first line.
    pub(super) error: Option<String>,
}

const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// Writes what a run has come to.
pub(super) fn write_result<F: fmt::Display>(
    run: &Run<std::rc::Rc<str>, F>,
    log: &Log,
    wants_trace: bool,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    put_outcome(&mut out, &run.outcome);
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
            put_outcome(&mut out, &step.outcome);
            out.push(b'}');
        }
        put(&mut out, "],\"logs\":[");
        for (at, LogLine { level, text }) in log.lines.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let level = LEVELS[usize::from(*level).min(LEVELS.len() - 1)];
            put(
                &mut out,
                &format!("{comma}{{\"level\":\"{level}\",\"message\":{}}}", quoted(text)),
            );
        }
        out.push(b']');
        if log.left_out > 0 {
            put(&mut out, &format!(",\"logsLeftOut\":{}", log.left_out));
        }
    }
    out.push(b'}');
    out
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn put_outcome<F: fmt::Display>(out: &mut Vec<u8>, outcome: &Result<Outcome<std::rc::Rc<str>>, RunError<F>>) {
    match outcome {
        Ok(outcome) => {
            put(out, &format!("\"state\":{},\"valueMap\":", outcome.is_true));
            put(out, &outcome.values);
        }
        Err(error) => put(out, &format!("\"error\":{}", quoted(&error.cause.to_string()))),
    }
}
