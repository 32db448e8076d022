//! Runs workflows without a server, in engines like those of one.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Instant};

use forebay_script::Failure;
use forebay_store::{Options, Store, StoreError};
use forebay_workflow::Compat;
use serde_json::{Value, json, value::RawValue};

use super::{
    Ask, Book, BookFaults, Shelf, StoredTest, WorkflowFailure, WorkflowFiles, WorkflowTarget,
    admission::Asker,
};
use crate::{
    app::{BuildError, EraseTypes, WorkflowSurroundings, compat_of, workflow_engines},
    config::{self, Config},
    failure::{self, Refusal},
    sources::SourceBook,
};

/// As what rules see the request of a run.
const REQUEST_ID: &str = "forebay-workflow";

/// Workflows that can be run.
#[derive(Debug)]
pub struct Offline {
    target: WorkflowTarget,
    book: Arc<Book>,
    /// The one that rules may reach.
    store: Option<Store>,
}

/// Opens a store as whoever follows its leader, or as it is open already.
fn open(config: &config::Store) -> Result<Store, StoreError> {
    let follower = || Options {
        create: false,
        lead: false,
        ..Options::default()
    };
    let options = Store::opened(&config.path).unwrap_or_else(follower);
    Store::open(&config.path, &options)
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// What is wrong with the files.
    #[error(transparent)]
    Faults(#[from] BookFaults),
    /// The engines do not start.
    #[error(transparent)]
    Engines(#[from] BuildError),
    /// The store that rules may reach cannot be opened.
    #[error("rules may reach the store (workflow.allow.store), which cannot be opened")]
    Store(#[from] StoreError),
    /// There is no workflow of this name.
    #[error("there is no workflow `{name}`")]
    NoSuchWorkflow {
        /// It.
        name: String,
    },
    /// The run is refused.
    #[error("{reason}")]
    Refused {
        /// Why.
        reason: String,
    },
}

/// What has become of a stored test.
#[derive(Clone, Debug)]
pub struct Tested<'t> {
    /// It.
    pub test: &'t StoredTest,
    /// What differs from what it expects; nothing: it holds.
    pub differences: Vec<String>,
}

impl Offline {
    /// Checks files and starts an engine for them, with the limits and the permissions of a configuration that has `[workflow]`: rules reach its store and its
    /// databases as far as they are allowed. Errors name files with `place` before them.
    ///
    /// # Errors
    /// Everything that is wrong with the files; the store cannot be opened.
    ///
    /// # Panics
    /// Without `[workflow]`.
    pub fn start(
        config: &Config,
        files: &WorkflowFiles,
        place: &Path,
        erase_types: EraseTypes,
    ) -> Result<Self, OfflineError> {
        let workflow = config.workflow.as_ref().expect("there is a section");
        let book = Book::of(files, place, compat_of(workflow), erase_types)?;
        let shelf = Shelf::of(book);
        let book = shelf.choose("", None).expect("it has one book").book;
        let store = config.store.as_ref().filter(|_| !workflow.allow.store.is_empty());
        let store = store.map(open).transpose()?;
        let store_options = store.as_ref().map(|store| forebay_script::StoreOptions {
            folder: store.path().into(),
            options: *store.options(),
            records: config.records.to_text(),
        });
        let sources = SourceBook::default();
        let surroundings = WorkflowSurroundings {
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
        let target = workflow_engines(config, workflow, shelf, surroundings)?;
        Ok(Self { target, book, store })
    }

    /// Runs a workflow with arguments, an object in JSON. Gives what the answer to a request would have in its body; of a run that has failed `node` and `error`,
    /// with where it was thrown behind the first line.
    ///
    /// # Errors
    /// There is no such workflow.
    pub async fn run(&self, name: &str, args: &RawValue, wants_trace: bool) -> Result<Value, OfflineError> {
        let deadline = Instant::now() + self.target.limits.timeout;
        let ask = Ask {
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
        let run = tokio::time::timeout_at(deadline.into(), self.target.run(&ask, deadline));
        let outcome = run.await;
        if let Some(store) = &self.store {
            // What rules have written stays, whoever leads the store.
            store.flush()?;
        }
        let failed = |reason: String| json!({"node": null, "error": reason});
        Ok(match outcome {
            Ok(Ok(bytes)) => serde_json::from_slice(&bytes).map_err(|error| refused(&error))?,
            Ok(Err(Refusal::Script(failure))) => failed(failure::with_causes(&failure)),
            Ok(Err(Refusal::Workflow(WorkflowFailure::NoSuchWorkflow { name }))) => {
                return Err(OfflineError::NoSuchWorkflow { name });
            }
            Ok(Err(refusal)) => return Err(refused(&refusal)),
            Err(_) => failed(failure::with_causes(&Failure::DeadlinePassed)),
        })
    }

    /// Runs the stored tests, one after another, and hands each on as it is over.
    ///
    /// # Errors
    /// A run is refused.
    pub async fn test(&self, mut tell: impl FnMut(Tested<'_>)) -> Result<(), OfflineError> {
        for test in self.book.tests() {
            let outcome = self.run(&test.workflow, &test.args, false).await?;
            let differences = test.differences(&outcome);
            tell(Tested { test, differences });
        }
        Ok(())
    }
}

/// Checks files as [`Offline::start`] does, and starts nothing.
///
/// # Errors
/// Everything that is wrong with them.
pub fn check(
    config: &Config,
    files: &WorkflowFiles,
    place: &Path,
    erase_types: EraseTypes,
) -> Result<(), BookFaults> {
    let compat = config.workflow.as_ref().map_or(Compat::None, compat_of);
    Book::of(files, place, compat, erase_types).map(drop)
}

/// The arguments of a run, as a command line or a file has them.
///
/// # Errors
/// It is no JSON, or no object.
pub fn arguments_of(text: &str) -> Result<Box<RawValue>, String> {
    let value: Box<RawValue> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !value.get().starts_with('{') {
        return Err("it is another value than an object".to_owned());
    }
    Ok(value)
}
