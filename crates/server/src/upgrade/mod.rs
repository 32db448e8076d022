//! Replaces the running process with a new one from the program's current file, without losing a connection.
//!
//! The old process starts the new one with its own arguments and sends it duplicates of all listening sockets and of the store's lock, so
//! every accept queue always has an owner. When the new process is ready, both accept connections until the old one stops accepting. Up to
//! that point the old process is unchanged: if the new one fails or times out, it is terminated and nothing else happens.
//!
//! After the handover the new process serves health checks and the control socket, and is the service's main process. The old one finishes
//! its requests and exits. Durable workflow runs must run in one process at a time: the new one starts them when the old one has stopped.

mod link;
mod predecessor;

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    process::{ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use self::link::{Link, Message};
pub use self::predecessor::{Predecessor, PredecessorError};
use crate::{front::SocketFileOwner, server::Shared};

/// Time between SIGTERM and SIGKILL of a new process that failed.
const END_MAX: Duration = Duration::from_secs(5);

/// The upgrade failed, and the running process continues.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    #[error("an upgrade to process {pid} is already in progress")]
    Busy { pid: u32 },
    #[error("the server is stopping")]
    Stopping,
    #[error(
        "the server is process 1, so its container would stop with it: replace the container, or run it with an init process (docker run --init)"
    )]
    FirstProcess,
    #[error("cannot start `{program}`", program = .program.display())]
    Start {
        program: OsString,
        #[source]
        source: io::Error,
    },
    #[error("cannot send the sockets to process {pid}")]
    Pass {
        pid: u32,
        #[source]
        source: io::Error,
    },
    #[error("process {pid} failed to start: {reason}")]
    Refused { pid: u32, reason: String },
    #[error("process {pid} exited before it was ready ({status}); see its messages in the log")]
    Ended { pid: u32, status: ExitStatus },
    #[error("process {pid} was not ready within {limit:?} (server.upgrade_timeout)")]
    Late { pid: u32, limit: Duration },
}

/// A completed upgrade.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgraded {
    /// The process that took over.
    pub(crate) pid: u32,
    pub(crate) took: Duration,
}

/// The state of upgrades.
#[derive(Debug, Default)]
pub(crate) struct Upgrading {
    /// Held during an upgrade, so that only one runs at a time.
    turn: tokio::sync::Mutex<()>,
    /// The process started last; 0: none yet.
    pid: AtomicU32,
    /// The connection to the process that took over. Closing it tells that process to start the durable runs.
    successor: Mutex<Option<Link>>,
}

impl Upgrading {
    /// Whether another process took over.
    pub(crate) fn is_over(&self) -> bool {
        self.successor.lock().is_some()
    }

    /// Lets the new process start the durable workflow runs.
    pub(crate) fn release_runs(&self) {
        self.successor.lock().take();
    }
}

impl Shared {
    /// Starts a new process, waits until it is ready, lets it take over, and stops this one. Logs the outcome. On an error nothing has
    /// changed.
    pub(crate) async fn upgrade(self: &Arc<Self>, asked_by: &str) -> Result<Upgraded, UpgradeError> {
        let began = Instant::now();
        let result = self.replace_process().await.map(|pid| Upgraded {
            pid,
            took: began.elapsed(),
        });
        match &result {
            Ok(Upgraded { pid, took }) => {
                let took_ms = took.as_millis() as u64;
                tracing::info!(target: "forebay::server", asked_by, pid, took_ms, "upgraded: process {pid} has taken over, this one stops");
            }
            Err(error) => {
                let reason = crate::failure::with_causes(error);
                tracing::error!(target: "forebay::server", asked_by, "upgrade failed, this process continues: {reason}");
            }
        }
        result
    }

    async fn replace_process(self: &Arc<Self>) -> Result<u32, UpgradeError> {
        if std::process::id() == 1 {
            return Err(UpgradeError::FirstProcess);
        }
        let Ok(_one) = self.upgrading.turn.try_lock() else {
            let pid = self.upgrading.pid.load(Ordering::Relaxed);
            return Err(UpgradeError::Busy { pid });
        };
        // Waits for a reload in progress.
        let _no_reload = self.reloading.turn().await;
        let mut stopping = self.stopping.subscribe();
        if *stopping.borrow() {
            return Err(UpgradeError::Stopping);
        }
        self.manager.reloading("upgrading");
        let started = self.start_successor();
        let result = match started {
            Err(error) => Err(error),
            Ok((mut child, link)) => {
                let pid = child.id().unwrap_or_default();
                let ready = tokio::select! {
                    ready = self.make_ready(pid, &mut child, &link) => ready,
                    _ = stopping.wait_for(|stopping| *stopping) => Err(UpgradeError::Stopping),
                };
                match ready {
                    Ok(()) => Ok((pid, link)),
                    Err(error) => {
                        end(child).await;
                        Err(error)
                    }
                }
            }
        };
        match result {
            Err(error) => {
                self.manager.ready(&format!("upgrade failed: {error}"));
                Err(error)
            }
            Ok((pid, link)) => {
                self.hand_over(pid, link).await;
                Ok(pid)
            }
        }
    }

    /// Starts the program with this process's arguments.
    fn start_successor(&self) -> Result<(Child, Link), UpgradeError> {
        let mut arguments = std::env::args_os();
        let program = arguments.next().unwrap_or_default();
        let failed = |source| UpgradeError::Start {
            program: program.clone(),
            source,
        };
        let (link, theirs) = Link::pair().map_err(failed)?;
        let child = Command::new(&program)
            .args(arguments)
            .env(Predecessor::VARIABLE, std::process::id().to_string())
            // systemd set it to the id of this process; without it the new process knows that the watchdog is its own.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(theirs))
            .spawn()
            .map_err(failed)?;
        let pid = child.id().unwrap_or_default();
        self.upgrading.pid.store(pid, Ordering::Relaxed);
        tracing::info!(target: "forebay::server", pid, "upgrade: process {pid} started");
        Ok((child, link))
    }

    /// Sends sockets and lock to the new process and waits until it is ready.
    async fn make_ready(&self, pid: u32, child: &mut Child, link: &Link) -> Result<(), UpgradeError> {
        let limit = self.front.app().config.server.upgrade_timeout;
        let ready = async {
            if let Err(source) = self.pass(link).await {
                // If it exited at once, its status says more than the broken connection.
                let ended = tokio::time::timeout(END_MAX, child.wait()).await;
                return Err(match ended {
                    Ok(Ok(status)) => UpgradeError::Ended { pid, status },
                    _ => UpgradeError::Pass { pid, source },
                });
            }
            match link.receive().await {
                Ok(Some(Message::Ready)) => Ok(()),
                Ok(Some(Message::Failed { reason })) => Err(UpgradeError::Refused { pid, reason }),
                Ok(Some(message)) => {
                    let reason = format!("unexpected message {message:?}");
                    Err(UpgradeError::Refused { pid, reason })
                }
                Ok(None) => match child.wait().await {
                    Ok(status) => Err(UpgradeError::Ended { pid, status }),
                    Err(source) => Err(UpgradeError::Pass { pid, source }),
                },
                Err(source) => Err(UpgradeError::Pass { pid, source }),
            }
        };
        let ready = tokio::time::timeout(limit, ready).await;
        ready.unwrap_or(Err(UpgradeError::Late { pid, limit }))
    }

    async fn pass(&self, link: &Link) -> io::Result<()> {
        // Duplicates, because no lock may be held across an await.
        let sockets: Vec<_> = {
            let sockets = self.sockets.lock();
            let all = sockets.all(&self.front.app().config).into_iter();
            all.map(|(purpose, file_owner, sockets)| {
                let copies = sockets.iter().map(BorrowedFd::try_clone_to_owned);
                copies
                    .collect::<io::Result<Vec<_>>>()
                    .map(|sockets| (purpose, file_owner, sockets))
            })
            .collect::<io::Result<_>>()?
        };
        for (purpose, file_owner, sockets) in sockets {
            let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
            let message = Message::Sockets {
                purpose,
                is_managed: file_owner == SocketFileOwner::ServiceManager,
                count: sockets.len(),
            };
            link.send(&message, &sockets).await?;
        }
        if let Some(store) = &self.services.store
            && let Some(lock) = store.lock()
        {
            let folder = store.path().to_owned();
            link.send(&Message::StoreLock { folder }, &[lock]).await?;
        }
        link.send(&Message::Start, &[]).await
    }

    /// Makes the new process the main one and stops this one.
    async fn hand_over(&self, pid: u32, link: Link) {
        for bound in self.sockets.lock().each() {
            bound.set_file_owner(SocketFileOwner::OtherGeneration);
        }
        self.manager.hand_over(pid);
        if let Err(error) = link.send(&Message::TakeOver, &[]).await {
            tracing::warn!(target: "forebay::server", pid, cause = %error, "the new process exited while it took over");
        }
        *self.upgrading.successor.lock() = Some(link);
        self.stopping.send_replace(true);
    }
}

/// Terminates a new process that is not needed. SIGTERM first: it may have accepted connections, which it then drains.
async fn end(mut child: Child) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // Fails if it has exited meanwhile.
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(END_MAX, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
