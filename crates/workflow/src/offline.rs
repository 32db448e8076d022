//! Runs workflows without a server, in engines like a server's.

use std::{sync::Arc, time::Instant};

use serde_json::{Value, value::RawValue};

use crate::{
    Asker, Bundle, Evaluator, RunCall, Runner, Storage, StorageError, StoredTest, TRACE_TIME,
    WorkflowFailure, with_causes,
};

/// Request id that rules see.
const REQUEST_ID: &str = "forebay-workflow";

/// Workflows ready to run, with an engine of their own.
#[derive(Debug)]
pub struct Offline<E: Evaluator> {
    runner: Runner<E>,
    bundle: Arc<Bundle<E>>,
    /// The storage that rules may write to, if any.
    storage: Option<Arc<dyn Storage>>,
}

/// Why a workflow cannot be run offline.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The writes of rules cannot be flushed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// No workflow has this name.
    #[error("there is no workflow `{name}`")]
    NoSuchWorkflow {
        /// The name that was asked for.
        name: String,
    },
    /// The workflow's files have errors.
    #[error("workflow `{name}` cannot be run: {reason}")]
    Faulty {
        /// The workflow's name.
        name: String,
        /// The errors, one a line.
        reason: String,
    },
    /// The run was refused.
    #[error("{reason}")]
    Refused {
        /// The refusal, with its causes.
        reason: String,
    },
}

/// Result of a stored test.
#[derive(Clone, Debug)]
pub struct Tested<'t> {
    /// The test that was run.
    pub test: &'t StoredTest,
    /// Differences from the expected result. Empty: the test passed.
    pub differences: Vec<String>,
}

impl<E: Evaluator> Offline<E> {
    /// Workflows that `runner` runs: those that it has published. `storage` is what rules may write to.
    ///
    /// # Errors
    /// If none are published.
    pub fn new(runner: Runner<E>, storage: Option<Arc<dyn Storage>>) -> Result<Self, WorkflowFailure> {
        let bundle = runner.releases.published(None)?.bundle;
        Ok(Self {
            runner,
            bundle,
            storage,
        })
    }

    /// Runs a workflow with arguments, a JSON object. Returns the body that a server would respond with; for a failed run `node` and
    /// `error`, where the stack trace follows the error's first line.
    ///
    /// # Errors
    /// If no workflow has this name, the run is refused, or what the rules wrote cannot be flushed.
    pub async fn run(&self, name: &str, args: &RawValue, wants_trace: bool) -> Result<Value, OfflineError> {
        let deadline = Instant::now() + self.runner.limits.timeout;
        let asker = Asker::default();
        let ask = RunCall {
            is_anonymous: false,
            ..RunCall::new(&self.bundle, name, args, asker, REQUEST_ID, wants_trace)
        };
        let refused = |reason: &dyn std::error::Error| OfflineError::Refused {
            reason: with_causes(reason),
        };
        let run = tokio::time::timeout_at(
            (deadline + TRACE_TIME).into(),
            self.runner.evaluate(&ask, deadline),
        );
        let outcome = run.await.unwrap_or(Err(WorkflowFailure::DeadlinePassed));
        if let Some(storage) = &self.storage {
            // Flushed, so that the rules' writes are durable even if another process leads the store.
            storage.flush()?;
        }
        let (outcome, trace) = match outcome {
            Err(WorkflowFailure::Stopped { failure, trace }) => (Err(*failure), trace),
            outcome => (outcome, String::new()),
        };
        let reason = match outcome {
            Ok(bytes) => return serde_json::from_slice(&bytes).map_err(|error| refused(&error)),
            Err(WorkflowFailure::NoSuchWorkflow { name }) => {
                return Err(OfflineError::NoSuchWorkflow { name });
            }
            Err(WorkflowFailure::Faulty { name, reason }) => {
                return Err(OfflineError::Faulty { name, reason });
            }
            Err(WorkflowFailure::Broken { reason }) => format!("the script cannot run: {reason}"),
            Err(
                failure @ (WorkflowFailure::Time { .. }
                | WorkflowFailure::DeadlinePassed
                | WorkflowFailure::GivenUp
                | WorkflowFailure::Stopping),
            ) => failure.to_string(),
            Err(failure) => return Err(refused(&failure)),
        };
        let text = format!(r#"{{"node":null,"error":{}{trace}}}"#, Value::from(reason));
        serde_json::from_str(&text).map_err(|error| refused(&error))
    }

    /// Runs the stored tests one after another, and passes each result to `tell`.
    ///
    /// # Errors
    /// If a run is refused.
    pub async fn test(&self, mut tell: impl FnMut(Tested<'_>)) -> Result<(), OfflineError> {
        for test in self.bundle.tests() {
            let outcome = self.run(&test.workflow, &test.args, false).await?;
            let differences = test.differences(&outcome);
            tell(Tested { test, differences });
        }
        Ok(())
    }
}

/// Parses a run's arguments from a command line or a file.
///
/// # Errors
/// If `text` is not a JSON object.
pub fn arguments_of(text: &str) -> Result<Box<RawValue>, String> {
    let value: Box<RawValue> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !value.get().starts_with('{') {
        return Err("it is another value than an object".to_owned());
    }
    Ok(value)
}
