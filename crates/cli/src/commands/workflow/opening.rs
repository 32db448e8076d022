//! Which workflows are meant: those of the configuration's folder, of a release in its store, or of another folder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_server::{
    config::{Config, WorkflowSource},
    workflow::{Offline, WorkflowStore, check, start_offline},
};
use forebay_store::StoreError;
use forebay_workflow::{Actor, BundleErrors, Releases, WorkflowFiles, place_of_release};

use super::WorkflowError;
use crate::{
    arguments::ConfigFile,
    commands::{store::Data, strip::erase_types},
};

/// Which workflows are meant.
#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// A release of the store, by its number; without, the one that is published. Example: --release 7
    #[arg(long, value_name = "N")]
    pub(super) release: Option<u64>,
    #[command(flatten)]
    pub(super) config: ConfigFile,
}

/// The author of a change.
#[derive(Debug, clap::Args)]
pub(super) struct Who {
    /// The author, for the log; by default the name of the user. Example: --by ada
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

/// The selected workflows.
#[derive(Debug)]
pub(super) struct Found {
    /// Always has `[workflow]`.
    pub(super) config: Config,
    pub(super) files: WorkflowFiles,
    /// Location of their files, for errors.
    pub(super) place: PathBuf,
    /// Number of the release, if they are one.
    pub(super) release: Option<u64>,
}

impl Who {
    pub(super) fn name(&self) -> String {
        let of_environment = || {
            ["USER", "LOGNAME"]
                .iter()
                .find_map(|name| std::env::var(name).ok())
        };
        let name = self
            .by
            .clone()
            .or_else(of_environment)
            .filter(|name| !name.is_empty());
        name.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()))
    }
}

/// The actor of a change made now.
pub(super) fn now(by: &str) -> Actor<'_> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Actor {
        by,
        at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
    }
}

/// A configuration that has `[workflow]`.
pub(super) fn configuration(file: &ConfigFile) -> anyhow::Result<Config> {
    let config = Config::load(&file.config)?;
    if config.workflow.is_none() {
        return Err(WorkflowError::NoSection.into());
    }
    Ok(config)
}

/// The releases in the store of a configuration; `is_changing` creates the store if there is none.
pub(super) fn releases(file: &ConfigFile, is_changing: bool) -> anyhow::Result<(Releases, Config)> {
    let config = configuration(file)?;
    let global = match config.workflow.as_ref().map(|section| &section.source) {
        Some(WorkflowSource::Store { global }) => global.clone(),
        Some(WorkflowSource::Folder { path, .. }) => {
            let folder = path.clone();
            return Err(WorkflowError::Folder { folder }.into());
        }
        None => return Err(WorkflowError::NoSection.into()),
    };
    let folder = config.store.as_ref().map(|store| store.path.clone());
    let data = Data::of(folder.unwrap_or_default());
    let store = if is_changing {
        data.write_or_make()?
    } else {
        data.read().map_err(|error| match error {
            StoreError::Absent { path } => WorkflowError::NoStore { folder: path }.into(),
            error => anyhow::Error::from(error),
        })?
    };
    Ok((Releases::new(Arc::new(WorkflowStore(store)), &global), config))
}

impl Which {
    /// Finds the selected workflows.
    pub(super) fn find(&self) -> anyhow::Result<Found> {
        let config = configuration(&self.config)?;
        let section = config.workflow.as_ref();
        let folder = section
            .and_then(|section| section.source.folder())
            .map(Path::to_owned);
        if let (Some(folder), None) = (folder, self.release) {
            return of_folder(&folder, config);
        }
        let (releases, config) = releases(&self.config, false)?;
        let number = match self.release {
            Some(number) => number,
            None => releases
                .standing()?
                .published
                .ok_or_else(|| WorkflowError::NothingPublished {
                    global: releases.global().to_owned(),
                })?,
        };
        of_release(&releases, number, config)
    }
}

/// The workflows of a folder.
pub(super) fn of_folder(folder: &Path, config: Config) -> anyhow::Result<Found> {
    Ok(Found {
        config,
        files: WorkflowFiles::read(folder)?,
        place: folder.to_owned(),
        release: None,
    })
}

/// The workflows of a release.
pub(super) fn of_release(releases: &Releases, number: u64, config: Config) -> anyhow::Result<Found> {
    Ok(Found {
        config,
        files: releases.files(number)?,
        place: place_of_release(number),
        release: Some(number),
    })
}

impl Found {
    /// Prepares the workflows to run, at the current time or at another.
    pub(super) fn start(&self, now_ms: Option<u64>) -> anyhow::Result<Offline> {
        Ok(start_offline(
            &self.config,
            &self.files,
            &self.place,
            erase_types,
            now_ms,
        )?)
    }

    /// Checks the workflows, and returns warnings.
    pub(super) fn check(&self) -> Result<Vec<String>, BundleErrors> {
        check(&self.config, &self.files, &self.place, erase_types)
    }
}

/// Runs a future to completion.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(work))
}
