//! Requests that wait for another thread.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
    time::Instant,
};

use super::End;
use crate::{failure::Refusal, front::Client};

/// Awaits a result from another thread until the deadline, or until the client disconnects.
pub(crate) async fn wait_for<T>(
    awaited: impl Future<Output = T>,
    deadline: Instant,
    client: &mut dyn Client,
) -> Result<T, End> {
    let mut awaited = pin!(awaited);
    poll_fn(|cx| {
        let waker = client.waker_for_others(cx);
        if let Poll::Ready(come) = awaited.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Poll::Ready(Ok(come));
        }
        if client.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(End::Gone));
        }
        client
            .poll_limit(cx, deadline)
            .map(|()| Err(Refusal::DeadlinePassed.into()))
    })
    .await
}
