//! Workflows without a server, in engines like a server's.

use std::{collections::BTreeMap, error::Error, path::Path, sync::Arc};

use forebay_script::Script;
use forebay_store::{Options, Store, StoreError};
use forebay_workflow::{BundleErrors, Compat, ReleaseEnvironment, SourceParser, Storage, WorkflowFiles};

use super::{ActiveReleases, Bundle, Offline, WorkflowStore, access};
use crate::{
    app::{BuildError, WorkflowEnvironment, compat_of, workflow_engines},
    config::{self, Config},
    sources::DatabaseRegistry,
};

/// Why workflows cannot be run without a server.
#[derive(Debug, thiserror::Error)]
pub enum OfflineStartError {
    /// The engines cannot be started.
    #[error(transparent)]
    Engines(#[from] BuildError),
    /// The store that rules may use cannot be opened.
    #[error("rules may reach the store (workflow.allow.store), which cannot be opened")]
    Store(#[from] StoreError),
}

/// Opens a store as a follower, or with the options with which this process has it open already.
fn open(config: &config::Store) -> Result<Store, StoreError> {
    let follower = || Options {
        create: false,
        lead: false,
        ..Options::default()
    };
    let location = config.location();
    let options = Store::opened(&location).unwrap_or_else(follower);
    Store::open(&location, &options)
}

/// Checks files and starts an engine for them, with the limits and permissions of a configuration that has `[workflow]`: rules reach its
/// store and its databases as far as they are allowed to. Error messages prefix the files' paths with `place`. A workflow whose files have
/// errors is refused when it is run. Rules find the time `now_ms`, in milliseconds since 1970 UTC, instead of the current one.
///
/// # Errors
/// Engines that cannot be started, or a store that cannot be opened.
///
/// # Panics
/// If the configuration has no `[workflow]`.
pub fn start_offline(
    config: &Config,
    files: &WorkflowFiles,
    place: &Path,
    parser: SourceParser,
    now_ms: Option<u64>,
) -> Result<Offline, OfflineStartError> {
    let workflow = config.workflow.as_ref().expect("there is a section");
    let releases = ActiveReleases::of(Bundle::of(files, place, compat_of(workflow), parser));
    let store = config
        .store
        .as_ref()
        .filter(|_| !workflow.allow.common.store.is_empty());
    let store = store.map(open).transpose()?;
    let store_options = store.as_ref().map(|store| forebay_script::StoreOptions {
        folder: config
            .store
            .as_ref()
            .map(config::Store::location)
            .unwrap_or_default(),
        options: *store.options(),
        records: config.records.settings().to_text(),
    });
    let environment = WorkflowEnvironment {
        parser,
        now_ms,
        counts: Arc::default(),
        workflows: Arc::default(),
        sources: &DatabaseRegistry::default(),
        pools: &BTreeMap::new(),
        held: None,
        store: store_options,
        open_store: None,
        durable_runs: None,
        logs: None,
    };
    let target = workflow_engines(config, workflow, releases, environment)?;
    let storage = store.map(|store| Arc::new(WorkflowStore(store)) as Arc<dyn Storage>);
    Ok(Offline::new(target.runner().clone(), storage).expect("a folder's workflows are published"))
}

/// Checks files as [`start_offline`] does, without starting an engine. Returns warnings.
///
/// # Errors
/// Every error in the files.
pub fn check(
    config: &Config,
    files: &WorkflowFiles,
    place: &Path,
    parser: SourceParser,
) -> Result<Vec<String>, BundleErrors> {
    let compat = config.workflow.as_ref().map_or(Compat::None, compat_of);
    let bundle = Bundle::of(files, place, compat, parser).whole()?;
    Ok(match &config.workflow {
        Some(workflow) => access::warnings(&bundle, workflow),
        None => bundle.warnings().to_vec(),
    })
}

/// The configuration for checking and testing releases.
#[derive(Debug)]
pub struct OfflineEnvironment {
    /// A configuration that has `[workflow]`.
    pub config: Config,
    /// Parses rules.
    pub parser: SourceParser,
}

impl ReleaseEnvironment for OfflineEnvironment {
    type Evaluator = Script;

    fn check(&self, files: &WorkflowFiles, place: &Path) -> Result<Vec<String>, BundleErrors> {
        check(&self.config, files, place, self.parser)
    }

    fn start(&self, files: &WorkflowFiles, place: &Path) -> Result<Offline, Box<dyn Error + Send + Sync>> {
        Ok(start_offline(&self.config, files, place, self.parser, None)?)
    }
}
