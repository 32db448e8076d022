//! Runs the functions of GoRules decisions.

use std::{sync::Arc, time::Instant};

use serde_json::{Value, json};

use super::tasks::{Reason, RunTasks, Task};
use crate::{
    Bundle, Evaluator, NodeName, RuleOutcome,
    bundle::Plan,
    jdm::{Answer, Decision, FunctionCall, Functions, Work},
};

/// The kind of node that a function's rule belongs to.
const FUNCTION: &str = "functionNode";

/// Runs a decision's functions in the engine.
pub(super) struct DecisionTasks<'d, E: Evaluator> {
    desk: &'d RunTasks<E>,
    book: &'d Bundle<E>,
}

impl<'d, E: Evaluator> DecisionTasks<'d, E> {
    pub(super) fn new(desk: &'d RunTasks<E>, book: &'d Bundle<E>) -> Self {
        Self { desk, book }
    }
}

impl<E: Evaluator> Functions for DecisionTasks<'_, E> {
    type Failure = Reason;

    async fn run(&self, call: FunctionCall<'_>) -> Result<Answer, Reason> {
        let (rule, input) = match call.work {
            Work::Source { source, .. } => (self.book.function(source), call.input),
            Work::Custom { kind, config } => (
                self.book.node(kind),
                json!({"input": call.input, "config": config}),
            ),
        };
        let Some(rule) = rule else {
            return Err("its function was not read with the decision".to_owned().into());
        };
        let input = RuleOutcome {
            is_true: true,
            values: input.to_string(),
        };
        let node = NodeName {
            id: call.node.into(),
            name: Some(call.name.into()),
        };
        let outcome = self.desk.run(Task {
            rule,
            node: &node,
            kind: FUNCTION,
            last: Some(input),
            item: None,
            time_max: None,
        });
        let outcome = outcome.await?;
        let value = serde_json::from_str(&outcome.values)
            .map_err(|error| Reason::from(format!("what it gives cannot be read: {error}")))?;
        Ok(Answer {
            value,
            trace: Value::Null,
        })
    }

    fn decision(&self, key: &str) -> Option<Arc<Decision>> {
        // GoRules' keys are file paths.
        let name = key.strip_suffix(".json").unwrap_or(key);
        match &self.book.workflow(name)?.plan {
            Plan::Decision(decision) => Some(Arc::clone(decision)),
            Plan::Graph(_) => None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.desk.deadline())
    }
}
