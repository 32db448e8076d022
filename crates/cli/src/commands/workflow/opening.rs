//! Which workflows are meant: those of the configuration's folder, of a release in its store, or of another folder.

use std::path::{Path, PathBuf};

use forebay_server::{
    config::Config,
    workflow::{Offline, check, start_offline},
};
use forebay_workflow::{BundleErrors, WorkflowFiles, place_of_release};

use super::{WorkflowError, source::Source};
use crate::{arguments::ConfigFile, commands::strip::PARSER};

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
}

/// Where the selected workflows are.
#[derive(Debug)]
pub(super) enum Selection {
    Folder(PathBuf),
    Release(Source, u64),
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

/// A configuration that has `[workflow]`.
pub(super) fn configuration(file: &ConfigFile) -> anyhow::Result<Config> {
    let config = Config::load(&file.config)?;
    if config.workflow.is_none() {
        return Err(WorkflowError::NoSection.into());
    }
    Ok(config)
}

impl Which {
    /// Finds out which workflows are meant, without reading them.
    pub(super) fn select(&self) -> anyhow::Result<(Selection, Config)> {
        let config = configuration(&self.config)?;
        let section = config.workflow.as_ref();
        let folder = section.and_then(|section| section.folder());
        if let (Some(folder), None) = (folder, self.release) {
            return Ok((Selection::Folder(folder.to_owned()), config));
        }
        let (source, config) = Source::open(&self.config, false)?;
        let number = match self.release {
            Some(number) => number,
            None => {
                let list = source.get("")?;
                let published = list["published"].as_u64();
                published.ok_or_else(|| WorkflowError::NothingPublished {
                    global: list["global"].as_str().unwrap_or_default().to_owned(),
                })?
            }
        };
        Ok((Selection::Release(source, number), config))
    }

    /// Reads the selected workflows.
    pub(super) fn find(&self) -> anyhow::Result<Found> {
        let (selection, config) = self.select()?;
        selection.read(config)
    }
}

impl Selection {
    /// Reads the files. A store that was opened for them is closed.
    pub(super) fn read(self, config: Config) -> anyhow::Result<Found> {
        match self {
            Self::Folder(folder) => of_folder(&folder, config),
            Self::Release(source, number) => Ok(Found {
                config,
                files: source.files(number)?,
                place: place_of_release(number),
            }),
        }
    }
}

/// The workflows of a folder.
pub(super) fn of_folder(folder: &Path, config: Config) -> anyhow::Result<Found> {
    Ok(Found {
        config,
        files: WorkflowFiles::read(folder)?,
        place: folder.to_owned(),
    })
}

impl Found {
    /// Prepares the workflows to run, at the current time or at another.
    pub(super) fn start(&self, now_ms: Option<u64>) -> anyhow::Result<Offline> {
        Ok(start_offline(
            &self.config,
            &self.files,
            &self.place,
            PARSER,
            now_ms,
        )?)
    }

    /// Checks the workflows, and returns warnings.
    pub(super) fn check(&self) -> Result<Vec<String>, BundleErrors> {
        check(&self.config, &self.files, &self.place, PARSER)
    }
}

/// Runs a future to completion.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(work))
}
