//! What makes a command on workflows fail, the exit code of it, and what to do next.

use std::{io, path::PathBuf};

use forebay_server::workflow::{BundleErrors, OfflineError, ReleaseError};
use forebay_store::StoreError;

/// Why a command on workflows did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkflowError {
    /// The configuration knows nothing of workflows.
    #[error("the configuration has no section [workflow]")]
    NoSection,
    /// A command is about releases, and the workflows are in a folder.
    #[error("the workflows are in the folder {}, and have no releases", folder.display())]
    Folder { folder: PathBuf },
    /// Nothing has made the store yet.
    #[error("there is no store in {} yet", folder.display())]
    NoStore { folder: PathBuf },
    /// There is no release to take where none is named.
    #[error("no release is published in the global `{global}`")]
    NothingPublished { global: String },
    /// Stored tests do not hold; they have been printed by then.
    #[error("{failed} of {count} stored tests do not hold{}", unchanged(*.publishing))]
    Tests {
        failed: usize,
        count: usize,
        /// The release that was to be published.
        publishing: Option<u64>,
    },
    /// A run has failed.
    #[error("node `{node}` failed: {reason}")]
    Run { node: String, reason: String },
    /// A run has not come to a node that could fail.
    #[error("{reason}")]
    Stopped { reason: String },
    /// A folder that is written into has something else in it.
    #[error("the folder {} is not empty", folder.display())]
    NotEmpty { folder: PathBuf },
    /// A file of collections has something that cannot be read.
    #[error("{}: {reason}", file.display())]
    Collections { file: PathBuf, reason: String },
    /// A file that cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

fn unchanged(publishing: Option<u64>) -> String {
    publishing.map_or_else(String::new, |number| {
        format!(", and release {number} is not published")
    })
}

/// How a command on workflows ends with this error: `None` where it is none of them.
pub(crate) fn exit_kind(error: &anyhow::Error) -> Option<ExitKind> {
    if let Some(error) = error.downcast_ref::<OfflineError>() {
        return Some(match error {
            OfflineError::Faults(_) => ExitKind::Invalid,
            OfflineError::NoSuchWorkflow { .. } => ExitKind::Absent,
            OfflineError::Engines(_) | OfflineError::Store(_) | OfflineError::Refused { .. } => {
                ExitKind::Failed
            }
        });
    }
    if error.is::<BundleErrors>() {
        return Some(ExitKind::Invalid);
    }
    if let Some(error) = error.downcast_ref::<ReleaseError>() {
        return Some(match error {
            ReleaseError::NoSuchRelease { .. } => ExitKind::Absent,
            _ => ExitKind::Failed,
        });
    }
    Some(match error.downcast_ref::<WorkflowError>()? {
        WorkflowError::NoSection
        | WorkflowError::Folder { .. }
        | WorkflowError::Tests { .. }
        | WorkflowError::Collections { .. } => ExitKind::Invalid,
        WorkflowError::NoStore { .. } | WorkflowError::NothingPublished { .. } => ExitKind::Absent,
        WorkflowError::Run { .. }
        | WorkflowError::Stopped { .. }
        | WorkflowError::NotEmpty { .. }
        | WorkflowError::File { .. } => ExitKind::Failed,
    })
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitKind {
    Failed,
    Invalid,
    Absent,
}

/// What to try then.
pub(crate) fn next_step(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(OfflineError::NoSuchWorkflow { .. }) = error.downcast_ref() {
        return Some("`forebay workflow check` names the workflows that there are");
    }
    if let Some(OfflineError::Store(StoreError::Absent { .. })) = error.downcast_ref() {
        return Some("`forebay serve` makes it, and so does `forebay store set`");
    }
    if let Some(error) = error.downcast_ref::<ReleaseError>() {
        return match error {
            ReleaseError::NoSuchRelease { .. } => Some("`forebay workflow list` shows the releases"),
            ReleaseError::TooMany { .. } => {
                Some("`forebay workflow discard N` removes one, with `--former` also one that was published")
            }
            ReleaseError::TooManyForTest { .. } => {
                Some("`forebay workflow state N draft` makes one a draft again")
            }
            ReleaseError::InForce { .. } => {
                Some("`forebay workflow publish` another one first, or `forebay workflow rollback`")
            }
            ReleaseError::WasPublished { .. } => Some("`--former` removes it all the same"),
            ReleaseError::NothingToShare { .. } => Some("without `--canary` all runs have it"),
            ReleaseError::NothingBefore { .. } => Some(
                "`forebay workflow list` shows the releases, `forebay workflow publish N` takes any of them",
            ),
            ReleaseError::TooLarge { .. }
            | ReleaseError::NoWorkflows
            | ReleaseError::TextTooLong { .. }
            | ReleaseError::Foreign { .. }
            | ReleaseError::Store(_) => None,
        };
    }
    match error.downcast_ref::<WorkflowError>()? {
        WorkflowError::NoSection => {
            Some("[workflow] with `path = \"FOLDER\"`, or with `store = \"Workflow\"` beside a [store]")
        }
        WorkflowError::Folder { .. } => {
            Some("`store = \"Workflow\"` under [workflow], in the place of `path`, and a section [store]")
        }
        WorkflowError::NothingPublished { .. } => {
            Some("`--release N` takes another one; `forebay workflow publish N` publishes one")
        }
        WorkflowError::NoStore { .. } => {
            Some("`forebay workflow import FOLDER` makes it, with a first release")
        }
        WorkflowError::NotEmpty { .. } => Some("name a folder that is not there yet"),
        _ => None,
    }
}
