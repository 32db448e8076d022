//! Errors of requests about releases, with a `code` for programs.

use std::{error::Error, io, time::Duration};

use serde_json::{Value, json};

use super::ReleaseResponse;
use crate::{BundleErrors, OfflineError, ReleaseError, with_causes};

/// Why a request about releases failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReleaseApiError {
    #[error("{what}")]
    Malformed { what: String },
    #[error(
        "there are `/`, `/log`, `/rollback` and, for a release by its number, `/N`, `/N/files`, `/N/check`, `/N/test`, `/N/state` and `/N/publish`"
    )]
    NoResource,
    #[error("method is not allowed here; allowed: {allow}")]
    Method { allow: &'static str },
    #[error("{max} requests about releases are under way already")]
    Busy { max: usize },
    #[error(transparent)]
    Release(#[from] ReleaseError),
    #[error(transparent)]
    Faults(#[from] BundleErrors),
    #[error(transparent)]
    Start(Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    Run(#[from] OfflineError),
    /// Stored tests of a release that was to be published failed.
    #[error("{failed} of {count} stored tests do not hold, and release {release} is not published")]
    Tests {
        release: u64,
        count: usize,
        failed: usize,
        /// The failed ones.
        tests: Vec<Value>,
    },
    #[error("the stored tests did not end within {max:?}")]
    Time { max: Duration },
    #[error("the client has left")]
    Abandoned,
    #[error("there is no thread for the request: {0}")]
    Thread(io::Error),
    #[error("the request about releases was lost")]
    Lost,
}

impl ReleaseApiError {
    /// The status, and the word for programs.
    fn class(&self) -> (u16, &'static str) {
        match self {
            Self::Malformed { .. } => (400, "malformed"),
            Self::NoResource => (404, "no_resource"),
            Self::Method { .. } => (405, "method"),
            Self::Busy { .. } => (503, "busy"),
            Self::Release(error) => match error {
                ReleaseError::NoSuchRelease { .. } => (404, "no_release"),
                ReleaseError::TooLarge { .. } => (413, "too_large"),
                ReleaseError::NoWorkflows => (422, "no_workflows"),
                ReleaseError::TooMany { .. } => (409, "too_many"),
                ReleaseError::TooManyForTest { .. } => (409, "too_many_for_test"),
                ReleaseError::InForce { .. } => (409, "in_force"),
                ReleaseError::WasPublished { .. } => (409, "was_published"),
                ReleaseError::NothingBefore { .. } => (409, "nothing_before"),
                ReleaseError::NothingToShare { .. } => (409, "nothing_to_share"),
                ReleaseError::TextTooLong { .. } => (400, "text_too_long"),
                ReleaseError::Foreign { .. } => (500, "foreign"),
                ReleaseError::Storage(_) => (500, "store"),
            },
            Self::Faults(_) => (422, "faults"),
            Self::Tests { .. } => (422, "tests"),
            Self::Time { .. } => (504, "time"),
            Self::Start(_) | Self::Run(_) | Self::Abandoned | Self::Thread(_) | Self::Lost => (500, "failed"),
        }
    }

    pub(super) fn response(self) -> ReleaseResponse {
        let (status, code) = self.class();
        let mut problem = json!({"status": status, "detail": with_causes(&self), "code": code});
        let allow = match self {
            Self::Method { allow } => Some(allow),
            Self::Tests { count, tests, .. } => {
                problem["count"] = count.into();
                problem["tests"] = tests.into();
                None
            }
            _ => None,
        };
        ReleaseResponse {
            allow,
            ..ReleaseResponse::of(status, Some(problem))
        }
    }
}
