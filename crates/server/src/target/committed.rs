//! Answers that depend on a commit are held until that is on the disk: nobody is told of what a power cut could take back.

use std::time::Instant;

use super::{End, waiting::wait_for};
use crate::{
    failure::Refusal,
    front::{Socket, Stream},
    store::OpenStore,
};

/// Waits until a commit is on the disk; `store` is `None` where nothing can be committed.
pub(crate) async fn wait_for_disk<S: Stream>(
    store: Option<&OpenStore>,
    commit: u64,
    deadline: Instant,
    socket: &mut Socket<S>,
) -> Result<(), End> {
    let Some(store) = store.filter(|store| !store.flushes().has(commit)) else {
        return Ok(());
    };
    match wait_for(store.flushes().bring(commit), deadline, socket).await? {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Refusal::from(error).into()),
        Err(_) => Err(Refusal::Stopping.into()),
    }
}
