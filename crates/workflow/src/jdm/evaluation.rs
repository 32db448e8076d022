//! The result of evaluating a decision, and its steps.

use std::{cell::RefCell, fmt, time::Duration};

use serde_json::{Value, json};

use super::error::RunError;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Evaluation<F: fmt::Display> {
    /// Duration of the run.
    pub took: Duration,
    /// The final value, or the failure.
    pub result: Result<Value, RunError<F>>,
    /// The steps of the run in order of evaluation, if requested.
    pub trace: Option<Vec<Step>>,
}

/// The steps of a run that are over, in order of evaluation.
pub type Steps = RefCell<Vec<Step>>;

/// One node's part in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The id of the node.
    pub id: String,
    /// The display name of the node.
    pub name: String,
    /// The node's input; null for the input node.
    pub input: Value,
    /// The node's result; null for the output node and for a node that failed.
    pub output: Value,
    /// Duration of the node's evaluation.
    pub took: Duration,
    /// Details of the evaluation: the matching rows of a table, the taken statements of a switch, the steps of a decision.
    pub trace: Value,
}

impl Step {
    /// The step in the format of GoRules' engine; `order` is its index in the run.
    pub(crate) fn shown(&self, order: usize) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "input": self.input,
            "output": self.output,
            "performance": performance(self.took),
            "traceData": self.trace,
            "order": order,
        })
    }
}

impl<F: fmt::Display> Evaluation<F> {
    /// The response in the format of GoRules' engine and agent: `performance`, `result` and, if there is one, `trace` by node id. For a
    /// failed run: `type`, `source`, `nodeId` and the trace.
    pub fn reply(&self) -> Value {
        let mut reply = match &self.result {
            Ok(result) => json!({"performance": performance(self.took), "result": result}),
            Err(error) => {
                json!({"type": "NodeError", "source": error.cause.to_string(), "nodeId": error.node})
            }
        };
        if let Some(trace) = &self.trace {
            reply["trace"] = trace_of(trace);
        }
        reply
    }
}

fn performance(took: Duration) -> String {
    format!("{took:.1?}")
}

pub(super) fn trace_of(steps: &[Step]) -> Value {
    let steps = steps.iter().enumerate();
    let shown = steps.map(|(order, step)| (step.id.clone(), step.shown(order)));
    Value::Object(shown.collect())
}
