//! What can be wrong with one of several requests, whether a list or a scenario holds it.

use super::{BodyError, TemplateError, parts::RequestError};
use crate::{expect::ExpectError, target::UrlError};

/// What is wrong with a request, or with what is expected of its answer. Whoever holds it says where it stands.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// A URL that is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A part that no request can have.
    #[error(transparent)]
    Request(#[from] TemplateError),
    /// A body that cannot be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// An expectation that is none.
    #[error(transparent)]
    Expect(#[from] ExpectError),
}

impl From<RequestError> for Flaw {
    fn from(error: RequestError) -> Self {
        Self::Request(error.into())
    }
}
