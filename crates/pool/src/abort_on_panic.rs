//! Aborts the process when a critical task panics.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    process::abort,
};

/// Runs a task, and aborts the process if it panics. The event loop would catch the panic, and the server would go on without a pool's
/// supervision or a worker's answers, and never notice.
pub async fn abort_on_panic<T>(name: &str, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    std::future::poll_fn(|cx| {
        // Unwind safe: the process ends before the broken state can be seen.
        catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))).unwrap_or_else(|_| {
            tracing::error!(target: "forebay::pool", "the {name} has panicked: the server ends");
            abort()
        })
    })
    .await
}
