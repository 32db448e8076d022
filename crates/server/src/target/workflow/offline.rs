//! Runs workflows without a server, in engines like a server's.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Instant};

use forebay_store::{Options, Store, StoreError};
use forebay_workflow::{
    Asker, BundleErrors, Compat, EraseTypes, RunCall, StoredTest, WorkflowFailure, WorkflowFiles,
};
use serde_json::{Value, json, value::RawValue};

use super::{ActiveReleases, Bundle, WorkflowTarget};
use crate::{
    app::{BuildError, WorkflowEnvironment, compat_of, workflow_engines},
    config::{self, Config},
    failure,
    sources::DatabaseRegistry,
};

/// Request id that rules see.
const REQUEST_ID: &str = "forebay-workflow";

/// Workflows ready to run, with an engine of their own.
#[derive(Debug)]
pub struct Offline {
    target: WorkflowTarget,
    book: Arc<Bundle>,
    /// The store that rules may use, if any.
    store: Option<Store>,
}

/// Opens a store as a follower, or with the options with which this process has it open already.
fn open(config: &config::Store) -> Result<Store, StoreError> {
    let follower = || Options {
        create: false,
        lead: false,
        ..Options::default()
    };
    let options = Store::opened(&config.path).unwrap_or_else(follower);
    Store::open(&config.path, &options)
}

/// Why a workflow cannot be run offline.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The files have errors.
    #[error(transparent)]
    Faults(#[from] BundleErrors),
    /// The engines cannot be started.
    #[error(transparent)]
    Engines(#[from] BuildError),
    /// The store that rules may use cannot be opened.
    #[error("rules may reach the store (workflow.allow.store), which cannot be opened")]
    Store(#[from] StoreError),
    /// No workflow has this name.
    #[error("there is no workflow `{name}`")]
    NoSuchWorkflow {
        /// The name that was asked for.
        name: String,
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

impl Offline {
    /// Checks files and starts an engine for them, with the limits and permissions of a configuration that has `[workflow]`: rules reach
    /// its store and its databases as far as they are allowed to. Error messages prefix the files' paths with `place`.
    ///
    /// # Errors
    /// Every error in the files, or a store that cannot be opened.
    ///
    /// # Panics
    /// If the configuration has no `[workflow]`.
    pub fn start(
        config: &Config,
        files: &WorkflowFiles,
        place: &Path,
        erase_types: EraseTypes,
    ) -> Result<Self, OfflineError> {
        let workflow = config.workflow.as_ref().expect("there is a section");
        let book = Bundle::of(files, place, compat_of(workflow), erase_types)?;
        let shelf = ActiveReleases::of(book);
        let book = shelf.choose("", None).expect("it has one book").book;
        let store = config.store.as_ref().filter(|_| !workflow.allow.store.is_empty());
        let store = store.map(open).transpose()?;
        let store_options = store.as_ref().map(|store| forebay_script::StoreOptions {
            folder: store.path().into(),
            options: *store.options(),
            records: config.records.to_text(),
        });
        let sources = DatabaseRegistry::default();
        let environment = WorkflowEnvironment {
            erase_types,
            counts: Arc::default(),
            workflows: Arc::default(),
            sources: &sources,
            pools: &BTreeMap::new(),
            held: None,
            store: store_options,
            open_store: None,
            kept: None,
            logs: None,
        };
        let target = workflow_engines(config, workflow, shelf, environment)?;
        Ok(Self { target, book, store })
    }

    /// Runs a workflow with arguments, a JSON object. Returns the body that a server would respond with; for a failed run `node` and
    /// `error`, where the stack trace follows the error's first line.
    ///
    /// # Errors
    /// If no workflow has this name, the run is refused, or the store that rules may use cannot be flushed.
    pub async fn run(&self, name: &str, args: &RawValue, wants_trace: bool) -> Result<Value, OfflineError> {
        let deadline = Instant::now() + self.target.runner.limits.timeout;
        let ask = RunCall {
            book: &self.book,
            workflow: name,
            args,
            asker: Asker::default(),
            trace_id: REQUEST_ID,
            is_traced: wants_trace,
            wants_trace,
            begun: None,
        };
        let refused = |reason: &dyn std::error::Error| OfflineError::Refused {
            reason: failure::with_causes(reason),
        };
        let run = tokio::time::timeout_at(deadline.into(), self.target.runner.run(&ask, deadline));
        let outcome = run.await;
        if let Some(store) = &self.store {
            // Flushed, so that the rules' writes are durable even if another process leads the store.
            store.flush()?;
        }
        let failed = |reason: String| json!({"node": null, "error": reason});
        Ok(match outcome {
            Ok(Ok(bytes)) => serde_json::from_slice(&bytes).map_err(|error| refused(&error))?,
            Ok(Err(WorkflowFailure::NoSuchWorkflow { name })) => {
                return Err(OfflineError::NoSuchWorkflow { name });
            }
            Ok(Err(WorkflowFailure::Broken { reason })) => failed(format!("the script cannot run: {reason}")),
            Ok(Err(
                failure @ (WorkflowFailure::Time { .. }
                | WorkflowFailure::DeadlinePassed
                | WorkflowFailure::GivenUp
                | WorkflowFailure::Stopping),
            )) => failed(failure.to_string()),
            Ok(Err(failure)) => return Err(refused(&failure)),
            Err(_) => failed(WorkflowFailure::DeadlinePassed.to_string()),
        })
    }

    /// Runs the stored tests one after another, and passes each result to `tell`.
    ///
    /// # Errors
    /// If a run is refused.
    pub async fn test(&self, mut tell: impl FnMut(Tested<'_>)) -> Result<(), OfflineError> {
        for test in self.book.tests() {
            let outcome = self.run(&test.workflow, &test.args, false).await?;
            let differences = test.differences(&outcome);
            tell(Tested { test, differences });
        }
        Ok(())
    }
}

/// Checks files as [`Offline::start`] does, without starting an engine.
///
/// # Errors
/// Every error in the files.
pub fn check(
    config: &Config,
    files: &WorkflowFiles,
    place: &Path,
    erase_types: EraseTypes,
) -> Result<(), BundleErrors> {
    let compat = config.workflow.as_ref().map_or(Compat::None, compat_of);
    Bundle::of(files, place, compat, erase_types).map(drop)
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
