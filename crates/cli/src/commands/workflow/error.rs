//! Errors of commands on workflows, with their exit codes and advice.

use std::{io, path::PathBuf};

use forebay_server::workflow::OfflineStartError;
use forebay_store::StoreError;
use forebay_workflow::{BundleErrors, OfflineError};
use serde_json::Value;

/// Why a command on workflows failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkflowError {
    /// The configuration has no `[workflow]`.
    #[error("the configuration has no section [workflow]")]
    NoSection,
    /// The command is about releases, but the workflows are in a folder.
    #[error("the workflows are in the folder {}, and have no releases", folder.display())]
    Folder { folder: PathBuf },
    /// The store does not exist yet.
    #[error("there is no store in {} yet", folder.display())]
    NoStore { folder: PathBuf },
    /// No release was named, and none is published.
    #[error("no release is published in the global `{global}`")]
    NothingPublished { global: String },
    /// A request about releases failed; the body of the response.
    #[error("{}", problem["detail"].as_str().unwrap_or("the server gave no reason"))]
    Release { problem: Value },
    /// The workflows of a release have errors.
    #[error("{faults}")]
    Faults { faults: String },
    /// Stored tests failed; they have been printed by then.
    #[error("{failed} of {count} stored tests do not hold")]
    Tests { failed: usize, count: usize },
    /// A run has failed.
    #[error("node `{node}` failed: {reason}")]
    Run { node: String, reason: String },
    /// The run failed before it reached a node.
    #[error("{reason}")]
    Stopped { reason: String },
    /// The target folder is not empty.
    #[error("the folder {} is not empty", folder.display())]
    NotEmpty { folder: PathBuf },
    /// A file of collections cannot be parsed.
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

/// The exit kind of an error; `None` if it is not one of workflows.
pub(crate) fn exit_kind(error: &anyhow::Error) -> Option<ExitKind> {
    if let Some(error) = error.downcast_ref::<OfflineStartError>() {
        return Some(match error {
            OfflineStartError::Engines(_) | OfflineStartError::Store(_) => ExitKind::Failed,
        });
    }
    if let Some(error) = error.downcast_ref::<OfflineError>() {
        return Some(match error {
            OfflineError::Faulty { .. } => ExitKind::Invalid,
            OfflineError::NoSuchWorkflow { .. } => ExitKind::Absent,
            OfflineError::Storage(_) | OfflineError::Refused { .. } => ExitKind::Failed,
        });
    }
    if error.is::<BundleErrors>() {
        return Some(ExitKind::Invalid);
    }
    Some(match error.downcast_ref::<WorkflowError>()? {
        WorkflowError::Release { problem } => match code(problem) {
            "no_release" => ExitKind::Absent,
            "faults" | "tests" => ExitKind::Invalid,
            _ => ExitKind::Failed,
        },
        WorkflowError::NoSection
        | WorkflowError::Faults { .. }
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

/// Advice on an error, if there is any.
pub(crate) fn next_step(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(OfflineError::NoSuchWorkflow { .. }) = error.downcast_ref() {
        return Some("`forebay workflow check` names the workflows that there are");
    }
    if let Some(OfflineStartError::Store(StoreError::Absent { .. })) = error.downcast_ref() {
        return Some("`forebay serve` makes it, and so does `forebay store set`");
    }
    match error.downcast_ref::<WorkflowError>()? {
        WorkflowError::Release { problem } => advice(code(problem)),
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

/// The word for programs in a response.
fn code(problem: &Value) -> &str {
    problem["code"].as_str().unwrap_or_default()
}

/// Advice on a failed request about releases, by its code.
fn advice(code: &str) -> Option<&'static str> {
    Some(match code {
        "no_release" => "`forebay workflow list` shows the releases",
        "too_many" => "`forebay workflow discard N` removes one, with `--former` also one that was published",
        "too_many_for_test" => "`forebay workflow state N draft` makes one a draft again",
        "in_force" => "`forebay workflow publish` another one first, or `forebay workflow rollback`",
        "was_published" => "`--former` removes it all the same",
        "nothing_to_share" => "without `--canary` all runs have it",
        "nothing_before" => {
            "`forebay workflow list` shows the releases, `forebay workflow publish N` takes any of them"
        }
        _ => return None,
    })
}
