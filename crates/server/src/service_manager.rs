//! Notifications to the service manager (`sd_notify(3)`): ready, reloading, stopping, watchdog. Without `NOTIFY_SOCKET` nothing is sent.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sd_notify::NotifyState;

use crate::server::Shared;

/// Sends notifications. A service manager accepts them from the main process of a service only.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    /// Whether this is the main process.
    is_main_process: AtomicBool,
    /// Whether an error was logged: only the first one is.
    has_failed: AtomicBool,
}

impl ServiceManager {
    /// This is the main process from now on.
    pub(crate) fn enable(&self) {
        self.is_main_process.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ready(&self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
    }

    /// [`ServiceManager::ready`] must follow, whatever the outcome.
    pub(crate) fn reloading(&self, status: &str) {
        // systemd matches the time with its own reload request.
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            self.send(&[NotifyState::Reloading, now, NotifyState::Status(status)]);
        }
    }

    pub(crate) fn stopping(&self) {
        self.send(&[
            NotifyState::Stopping,
            NotifyState::Status("answering the requests that were read"),
        ]);
    }

    /// Makes another process the main one; this one sends nothing more.
    pub(crate) fn hand_over(&self, pid: u32) {
        self.send(&[NotifyState::MainPid(pid), NotifyState::Ready]);
        self.is_main_process.store(false, Ordering::Relaxed);
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if self.is_main_process.load(Ordering::Relaxed)
            && let Err(error) = sd_notify::notify(states)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(target: "forebay::server", cause = %error, "cannot notify the service manager (NOTIFY_SOCKET)");
        }
    }
}

/// A status must be one line: the next one would be read as another variable.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], "; ")
}

/// Resets the service manager's watchdog periodically, but only while this thread and every I/O thread run tasks.
pub(crate) async fn keep_watchdog(shared: Arc<Shared>) {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else {
        return;
    };
    // Half the limit, as `sd_watchdog_enabled(3)` recommends.
    let every = limit / 2;
    loop {
        let heartbeat = shared.front.heartbeat();
        tokio::pin!(heartbeat);
        while tokio::time::timeout(every, &mut heartbeat).await.is_err() {
            let threads = shared.front.unresponsive_threads().join(", ");
            tracing::error!(
                target: "forebay::server", threads,
                "I/O threads have been blocked for {every:?} or longer, so the watchdog is not reset"
            );
        }
        shared.manager.send(&[NotifyState::Watchdog]);
        tokio::time::sleep(every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(one_line("no\nMAINPID=1\r"), "no; MAINPID=1; ");
    }
}
