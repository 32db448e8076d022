//! Runs the functions of GoRules decisions.

use std::{sync::Arc, time::Instant};

use serde_json::{Value, json};

use super::tasks::{Reason, RunTasks, Task};
use crate::{
    Bundle, Evaluator, NodeName, RuleOutcome,
    bundle::Plan,
    jdm::{Answer, Decision, FunctionCall, Functions, Steps, Work},
};

/// The kind of node that a function's rule belongs to, and that of GoRules' first version of functions.
const FUNCTION: &str = "functionNode";
const FUNCTION_1: &str = "functionNode.1";

/// Runs a decision's functions in the engine.
pub(super) struct DecisionTasks<'d, E: Evaluator> {
    tasks: &'d RunTasks<E>,
    bundle: &'d Bundle<E>,
}

impl<'d, E: Evaluator> DecisionTasks<'d, E> {
    pub(super) fn new(tasks: &'d RunTasks<E>, bundle: &'d Bundle<E>) -> Self {
        Self { tasks, bundle }
    }
}

/// Evaluates a decision for a function; `input` is JSON. Returns the response in JSON, as GoRules' engine has it.
pub(super) async fn evaluate<E: Evaluator>(
    tasks: &RunTasks<E>,
    bundle: &Bundle<E>,
    key: &str,
    input: &str,
    wants_trace: bool,
) -> Result<String, String> {
    let functions = DecisionTasks::new(tasks, bundle);
    let decision = functions
        .decision(key)
        .ok_or_else(|| format!("there is no decision `{key}`"))?;
    // Decisions that evaluate themselves are interrupted by nothing else.
    tasks.give_way().await.map_err(|reason| reason.to_string())?;
    let input = serde_json::from_str(input).map_err(|error| error.to_string())?;
    let steps = wants_trace.then(Steps::default);
    let evaluation = decision.evaluate(input, &functions, steps.as_ref()).await;
    if let Err(error) = &evaluation.result {
        return Err(error.to_string());
    }
    let response = evaluation.reply().to_string();
    tasks.keep(response.len()).map_err(|reason| reason.to_string())?;
    Ok(response)
}

impl<E: Evaluator> Functions for DecisionTasks<'_, E> {
    type Failure = Reason;

    async fn run(&self, call: FunctionCall<'_>) -> Result<Answer, Reason> {
        let (rule, kind, input) = match call.work {
            Work::Source { source, version } => {
                let kind = if version == 1 { FUNCTION_1 } else { FUNCTION };
                (self.bundle.function(source), kind, call.input)
            }
            Work::Custom { kind, config } => {
                let input = json!({"input": call.input, "config": config});
                (self.bundle.node(kind), FUNCTION, input)
            }
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
        let outcome = self.tasks.run(Task {
            rule,
            node: &node,
            kind,
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
        match self.bundle.workflow(name)?.plan.as_ref().ok()? {
            Plan::Decision(decision) => Some(Arc::clone(decision)),
            Plan::Graph(_) => None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.tasks.deadline())
    }
}
