//! Errors of durable jobs.

use std::{fmt, sync::Arc};

use forebay_jobs::JobError;

use super::Refusal;

/// An error of durable jobs, except errors of the store.
#[derive(Clone, Debug)]
pub(crate) struct JobFailure(pub(super) Arc<JobError>);

impl JobFailure {
    pub(super) fn status(&self) -> u16 {
        match &*self.0 {
            JobError::NotFound { .. } => 404,
            JobError::OtherRequest { .. } => 422,
            JobError::Full { .. }
            | JobError::BytesFull { .. }
            | JobError::Refused { .. }
            | JobError::Unavailable { .. } => 503,
            JobError::Long { .. } => 413,
            JobError::Running | JobError::Over { .. } => 409,
            JobError::Foreign { .. } | JobError::Store(_) => 500,
        }
    }
}

impl fmt::Display for JobFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl PartialEq for JobFailure {
    /// The same failure may end many requests, but two failures are never equal.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<JobError> for Refusal {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Store(error) => error.into(),
            error => Self::Job(JobFailure(Arc::new(error))),
        }
    }
}
