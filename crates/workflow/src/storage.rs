//! The boundary to whatever stores releases and durable runs.

use std::{error::Error, fmt, pin::Pin, sync::Arc};

/// Stores what outlasts a run.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// Resolves once a commit is on disk; `None` if it is already.
    fn on_disk(
        &self,
        commit: u64,
    ) -> Option<Pin<Box<dyn Future<Output = Result<(), StorageError>> + Send + '_>>>;
}

/// The storage failed.
#[derive(Clone, Debug)]
pub struct StorageError {
    code: u16,
    source: Arc<dyn Error + Send + Sync>,
}

impl StorageError {
    /// Wraps an error; for `code` see [`crate::FailureKind::code`].
    pub fn new(code: u16, source: impl Error + Send + Sync + 'static) -> Self {
        let source = Arc::new(source);
        Self { code, source }
    }

    /// The code of the error.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The wrapped error.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(out)
    }
}

impl Error for StorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

impl PartialEq for StorageError {
    /// The same error may end many runs, but two errors are never equal.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }
}
