//! The result of a run, as the JSON that an executor sends to the thread that responds.

use std::{fmt, rc::Rc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::driver::{Log, NodeLine};
use crate::{
    Evaluator, NodeName, Outcome, RunError, RunOutcome, Step, Trace, WorkflowFailure,
    jdm::{self, Cause, Evaluation},
};

/// The members of a run's result that the server looks at before passing it on.
#[derive(Debug, Deserialize)]
pub(crate) struct RunResult<'r> {
    /// Values of its last rule.
    #[serde(borrow, rename = "valueMap", alias = "result")]
    pub(crate) values: Option<&'r RawValue>,
    /// The node that failed.
    pub(crate) node: Option<String>,
    /// The error; its stack trace follows the first line.
    pub(crate) error: Option<String>,
    /// The steps of the run, if they were asked for.
    #[serde(borrow)]
    pub(crate) trace: Option<&'r RawValue>,
    /// The lines that its rules logged, if they were asked for.
    #[serde(borrow)]
    pub(crate) logs: Option<&'r RawValue>,
    /// Whether the error is that of the arguments, which do not match the schema of the decision's input.
    #[serde(default, rename = "isInput")]
    pub(crate) is_input: bool,
}

/// The node at which a run failed.
#[derive(Clone, Debug)]
pub(crate) struct NodeFailure {
    pub(crate) node: String,
    /// The part of the error that the client may read.
    pub(crate) reason: String,
    /// As in [`RunResult`].
    pub(crate) is_input: bool,
    /// The trace, as in [`WorkflowFailure::Failed`].
    pub(crate) trace: String,
}

impl From<NodeFailure> for WorkflowFailure {
    fn from(failure: NodeFailure) -> Self {
        let NodeFailure {
            node,
            reason,
            is_input,
            trace,
        } = failure;
        if is_input {
            Self::OtherArguments { what: reason }
        } else {
            Self::Failed { node, reason, trace }
        }
    }
}

impl<'r> RunResult<'r> {
    /// Reads the result of a run.
    ///
    /// # Errors
    /// [`WorkflowFailure::Broken`] if it is something else.
    pub(crate) fn read(bytes: &'r [u8]) -> Result<Self, WorkflowFailure> {
        serde_json::from_slice(bytes).map_err(|error| WorkflowFailure::Broken {
            reason: format!("a run's result cannot be read: {error}"),
        })
    }
}

impl RunResult<'_> {
    /// The trace, as further members of an object.
    pub(crate) fn trace_members(&self) -> String {
        let member = |name: &str, value: Option<&RawValue>| {
            value.map_or_else(String::new, |value| format!(",\"{name}\":{}", value.get()))
        };
        member("trace", self.trace) + &member("logs", self.logs)
    }
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

/// Stands in for an error that anonymous clients do not get.
const WITHHELD: &str = "a call that its rule made failed; the log says why, under the id of the request";

/// The part of an error that a client may read: its first line, without the stack trace, or a text that stands in for it.
pub(crate) type PublicText = fn(&str) -> &str;

/// The text for all clients but anonymous ones.
pub(crate) fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

/// The text for anonymous clients, which get only what a rule has thrown itself.
pub(crate) fn anonymous_text<E: Evaluator>(error: &str) -> &str {
    if E::is_thrown_by_rule(error) {
        first_line(error)
    } else {
        WITHHELD
    }
}

type Ended<F> = Result<Outcome<Rc<str>>, RunError<F>>;

/// Writes the result of a graph. Beyond `output_max` bytes it may be truncated, because it will be refused anyway.
pub(super) fn write_run<F: fmt::Display + Clone>(
    outcome: &Ended<F>,
    trace: Option<&Trace<Rc<str>, F>>,
    log: &Log,
    public_text: PublicText,
    output_max: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    put_outcome(&mut out, outcome, |cause| cause);
    if let Err(error) = outcome {
        put(&mut out, &format!(",\"node\":{}", quoted(&error.node.id)));
    }
    if let Some(trace) = trace {
        put_trace(&mut out, trace, log, public_text, output_max);
    }
    out.push(b'}');
    out
}

/// Appends the steps of a graph and the lines of its log as further members of an object. Beyond `output_max` bytes the rest is left out.
pub(super) fn put_trace<F: fmt::Display + Clone>(
    out: &mut Vec<u8>,
    trace: &Trace<Rc<str>, F>,
    log: &Log,
    public_text: PublicText,
    output_max: usize,
) {
    let steps = trace.steps();
    let mut next = vec![Vec::new(); steps.len()];
    for step in &*steps {
        if let Some(parent) = step.parent {
            next[parent].push(Value::from(&*step.node.id));
        }
    }
    put(out, ",\"trace\":[");
    for (at, (step, next)) in steps.iter().zip(next).enumerate() {
        put(out, if at > 0 { ",{" } else { "{" });
        put_step(out, step, public_text);
        if !next.is_empty() {
            put(out, &format!(",\"next\":{}", Value::from(next)));
        }
        out.push(b'}');
        if out.len() > output_max {
            break;
        }
    }
    out.push(b']');
    // A line belongs to the step of its node that had begun last.
    put_log(out, log, |line| {
        let is_its = |step: &Step<_, _>| line.node.as_ref() == Some(&step.node) && step.begun <= line.at;
        steps.iter().rposition(is_its)
    });
}

fn put_step<F: fmt::Display>(out: &mut Vec<u8>, step: &Step<Rc<str>, F>, public_text: PublicText) {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let (id, kind, began) = (quoted(&step.node.id), step.kind, ms(step.begun));
    put(
        out,
        &format!("\"node\":{id},\"kind\":\"{kind}\",\"beganMs\":{began:.3}"),
    );
    let mut member = |name: &str, value: &str| put(out, &format!(",\"{name}\":{value}"));
    if let Some(name) = &step.node.name {
        member("name", &quoted(name));
    }
    if let Some(parent) = step.parent {
        member("parent", &parent.to_string());
    }
    if let Some(input) = &step.input {
        member("input", input);
    }
    if let Some(own) = &step.own {
        member(
            "output",
            &format!("{{\"state\":{},\"valueMap\":{}}}", own.is_true, own.values),
        );
    }
    if let Some(error) = &step.fallback {
        member("fallback", &quoted(public_text(&error.cause.to_string())));
    }
    if let Some(case) = &step.case {
        member("case", &quoted(case));
    }
    if let Some(attempts) = step.attempts {
        member("attempts", &attempts.to_string());
    }
    if let Some((took, outcome)) = &step.ended {
        put(out, &format!(",\"tookMs\":{:.3},", ms(*took)));
        put_outcome(out, outcome, public_text);
    }
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
        put_log(&mut out, log, |_| None);
        out.push(b'}');
    }
    out
}

/// Appends the steps of a decision and the lines of its log as further members of an object. Beyond `output_max` bytes the rest is left out.
pub(super) fn put_steps(out: &mut Vec<u8>, steps: &[jdm::Step], log: &Log, output_max: usize) {
    put(out, ",\"trace\":{");
    for (order, step) in steps.iter().enumerate() {
        let comma = if order > 0 { "," } else { "" };
        put(out, &format!("{comma}{}:{}", quoted(&step.id), step.shown(order)));
        if out.len() > output_max {
            break;
        }
    }
    out.push(b'}');
    put_log(out, log, |_| None);
}

/// Appends the log as further members of an object; `step_of` tells to which step a line belongs.
fn put_log(out: &mut Vec<u8>, log: &Log, step_of: impl Fn(&NodeLine) -> Option<usize>) {
    put(out, ",\"logs\":[");
    for (at, line) in log.lines.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let (level, message) = (line.level.as_str().to_lowercase(), quoted(&line.text));
        let ms = line.at.as_secs_f64() * 1000.0;
        put(
            out,
            &format!("{comma}{{\"level\":\"{level}\",\"message\":{message},\"atMs\":{ms:.3}"),
        );
        if let Some(NodeName { id, name }) = &line.node {
            put(out, &format!(",\"node\":{}", quoted(id)));
            if let Some(name) = name {
                put(out, &format!(",\"name\":{}", quoted(name)));
            }
        }
        if let Some(step) = step_of(line) {
            put(out, &format!(",\"step\":{step}"));
        }
        out.push(b'}');
    }
    out.push(b']');
    if log.left_out > 0 {
        put(out, &format!(",\"logsLeftOut\":{}", log.left_out));
    }
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn put_outcome<F: fmt::Display>(
    out: &mut Vec<u8>,
    outcome: &Result<Outcome<Rc<str>>, RunError<F>>,
    text: PublicText,
) {
    match outcome {
        Ok(outcome) => {
            put(out, &format!("\"state\":{},\"valueMap\":", outcome.is_true));
            put(out, &outcome.values);
        }
        Err(error) => put(
            out,
            &format!("\"error\":{}", quoted(text(&error.cause.to_string()))),
        ),
    }
}
