//! Holds responses that depend on a commit until it is on disk: a client is never told of a change that a power cut could undo.

use std::time::Instant;

use super::{End, pending::wait_for};
use crate::{failure::Refusal, front::Client, store::OpenStore};

/// Waits until a commit is on disk. `store` is `None` where nothing can be committed.
pub(crate) async fn wait_for_disk(
    store: Option<&OpenStore>,
    commit: u64,
    deadline: Instant,
    client: &mut dyn Client,
) -> Result<(), End> {
    if store.is_none_or(|store| store.flushes().has(commit)) {
        return Ok(());
    }
    wait_for(on_disk(store, commit), deadline, client)
        .await?
        .map_err(End::from)
}

/// Like [`wait_for_disk`], for callers that enforce their own deadline.
pub(crate) async fn on_disk(store: Option<&OpenStore>, commit: u64) -> Result<(), Refusal> {
    let Some(store) = store.filter(|store| !store.flushes().has(commit)) else {
        return Ok(());
    };
    match store.flushes().bring(commit).await {
        Ok(flushed) => flushed.map_err(Refusal::from),
        Err(_) => Err(Refusal::Stopping),
    }
}
