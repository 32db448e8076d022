//! Tasks that a server cannot do without.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    process::abort,
};

/// Runs a task, and ends the process when it panics. The event loop catches what its tasks panic with, and the server would go on
/// without a pool's supervision or a worker's answers, and not know it.
pub(crate) async fn vital<T>(name: &str, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    std::future::poll_fn(|cx| {
        // Nobody sees what a panic has left half done.
        catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))).unwrap_or_else(|_| {
            tracing::error!(target: "forebay::pool", "the {name} has panicked: the server ends");
            abort()
        })
    })
    .await
}
