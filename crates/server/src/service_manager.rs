//! What the service manager is told (`sd_notify(3)`): that the server is ready, reloads, stops, and is alive. Without systemd, or what
//! understands the same, nothing is sent.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sd_notify::NotifyState;

use crate::server::Shared;

/// The connection to the service manager, which listens to one process of a service.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    /// Whether this is the process it listens to.
    is_heard: AtomicBool,
    /// Whether a message could not be sent, which is logged once.
    has_failed: AtomicBool,
}

impl ServiceManager {
    /// This is the process that the service manager listens to from now on.
    pub(crate) fn begin(&self) {
        self.is_heard.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ready(&self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
    }

    /// [`ServiceManager::ready`] says that it is over, however it has ended.
    pub(crate) fn reloading(&self, status: &str) {
        // Without the time systemd would not know whether this answers its own request.
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

    /// Names the process that it is to listen to instead of this one.
    pub(crate) fn hand_over(&self, pid: u32) {
        self.send(&[NotifyState::MainPid(pid), NotifyState::Ready]);
        self.is_heard.store(false, Ordering::Relaxed);
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if self.is_heard.load(Ordering::Relaxed)
            && let Err(error) = sd_notify::notify(states)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(target: "forebay::server", cause = %error, "the service manager cannot be told about this server (NOTIFY_SOCKET)");
        }
    }
}

/// A status ends at a line feed, and the next line would be another message.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], "; ")
}

/// Tells the service manager's watchdog that the server is alive, for as long as this thread and every I/O thread run tasks.
pub(crate) async fn keep_watchdog(shared: Arc<Shared>) {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else {
        return;
    };
    // As `sd_watchdog_enabled(3)` recommends.
    let every = limit / 2;
    loop {
        let turns = shared.front.turns();
        tokio::pin!(turns);
        while tokio::time::timeout(every, &mut turns).await.is_err() {
            let threads = shared.front.hanging().join(", ");
            tracing::error!(
                target: "forebay::server", threads,
                "I/O threads have run no task for {every:?}, so the watchdog is not told that the server is alive"
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
    fn a_status_cannot_say_something_else_to_the_service_manager() {
        assert_eq!(one_line("no\nMAINPID=1\r"), "no; MAINPID=1; ");
    }
}
