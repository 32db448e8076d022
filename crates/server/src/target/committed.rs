//! Answers that depend on a commit are held until that is on the disk: nobody is told of what a power cut could take back.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use super::End;
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
    let mut flushed = store.flushes().bring(commit);
    poll_fn(|cx| {
        let waker = socket.waker_for_others(cx);
        if let Poll::Ready(flushed) = Pin::new(&mut flushed).poll(&mut Context::from_waker(&waker)) {
            return Poll::Ready(match flushed {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(Refusal::from(error).into()),
                Err(_) => Err(Refusal::Stopping.into()),
            });
        }
        if socket.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(End::Gone));
        }
        socket
            .poll_limit(cx, deadline)
            .map(|()| Err(Refusal::DeadlinePassed.into()))
    })
    .await
}
