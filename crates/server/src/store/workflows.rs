//! The store as the storage of workflows.

use std::pin::Pin;

use forebay_workflow::{Storage, StorageError};

use super::OpenStore;
use crate::failure::Refusal;

impl Storage for OpenStore {
    fn on_disk(
        &self,
        commit: u64,
    ) -> Option<Pin<Box<dyn Future<Output = Result<(), StorageError>> + Send + '_>>> {
        if self.flushes().has(commit) {
            return None;
        }
        Some(Box::pin(async move {
            let flushed = self.flushes().bring(commit).await;
            let flushed = flushed.map_or(Err(Refusal::Stopping), |flushed| flushed.map_err(Refusal::from));
            flushed.map_err(StorageError::from)
        }))
    }
}

impl From<Refusal> for StorageError {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status(), refusal)
    }
}
