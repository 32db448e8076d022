//! Errors of requests about releases, as problem details (RFC 9457) with a `code` for programs.

use std::io;

use forebay_workflow::{ReleaseError, ReleaseServiceError, with_causes};
use serde_json::json;

use super::ReleaseResponse;
use crate::reply;

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
    Service(#[from] ReleaseServiceError),
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
            Self::Service(error) => class_of(error),
            Self::Thread(_) | Self::Lost => (500, "failed"),
        }
    }

    pub(super) fn response(self) -> ReleaseResponse {
        let (status, code) = self.class();
        let mut problem = json!({
            "type": "about:blank", "title": reply::reason(status), "status": status, "detail": with_causes(&self), "code": code,
        });
        let allow = match self {
            Self::Method { allow } => Some(allow),
            Self::Service(ReleaseServiceError::Tests { count, tests, .. }) => {
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

fn class_of(error: &ReleaseServiceError) -> (u16, &'static str) {
    match error {
        ReleaseServiceError::Malformed { .. } => (400, "malformed"),
        ReleaseServiceError::Release(error) => match error {
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
        ReleaseServiceError::Faults(_) => (422, "faults"),
        ReleaseServiceError::Tests { .. } => (422, "tests"),
        ReleaseServiceError::Time { .. } => (504, "time"),
        ReleaseServiceError::Start(_)
        | ReleaseServiceError::Run(_)
        | ReleaseServiceError::Abandoned
        | ReleaseServiceError::Runtime(_) => (500, "failed"),
    }
}
