//! Several runs of one workflow, one for each of a list of arguments.

use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use serde_json::value::RawValue;
use tokio::time::timeout_at;

use crate::{Evaluator, RunCall, Runner, WorkflowFailure, runs::result::quoted};

/// Most concurrent runs of a list.
const AT_A_TIME: usize = 32;

impl<E: Evaluator> Runner<E> {
    /// Runs a workflow for each of these arguments instead of those of `ask`, each run within its own time limit and until `deadline`.
    /// Returns the list of outcomes as JSON, in order.
    ///
    /// # Errors
    /// If the list of outcomes is longer than a result may be.
    pub async fn run_list(
        &self,
        ask: &RunCall<'_, E>,
        list: &[&RawValue],
        deadline: Instant,
    ) -> Result<Vec<u8>, WorkflowFailure> {
        let at_a_time = AT_A_TIME.min(ask.asker.runs_max().unwrap_or(AT_A_TIME));
        let run = async |args| {
            let ask = RunCall {
                args,
                begun: ask.begun.clone(),
                ..*ask
            };
            let deadline = deadline.min(Instant::now() + self.timeout_of(ask.workflow));
            let outcome = timeout_at(ask.until(deadline).into(), self.run(&ask, deadline)).await;
            outcome.unwrap_or(Err(WorkflowFailure::DeadlinePassed))
        };
        let output_max = self.limits.output_max;
        let mut outcomes = stream::iter(list.iter().copied().map(run)).buffered(at_a_time);
        let mut out = vec![b'['];
        while let Some(outcome) = outcomes.next().await {
            if out.len() > 1 {
                out.push(b',');
            }
            match outcome {
                Ok(bytes) => out.extend_from_slice(&bytes),
                Err(failure) => {
                    failure.log(ask.trace_id);
                    out.extend_from_slice(item_of(&failure).as_bytes());
                }
            }
            if out.len() > output_max {
                return Err(WorkflowFailure::ResultLength { output_max });
            }
        }
        out.push(b']');
        Ok(out)
    }
}

/// The item of a run that failed.
fn item_of(failure: &WorkflowFailure) -> String {
    let (status, trace) = (failure.kind().code(), failure.trace());
    let (error, node) = match failure {
        WorkflowFailure::Failed { node, reason, .. } => {
            (reason.clone(), format!(",\"node\":{}", quoted(node)))
        }
        failure => (failure.to_string(), String::new()),
    };
    format!(r#"{{"error":{},"status":{status}{node}{trace}}}"#, quoted(&error))
}
