//! Replaces the running process by one of the program's present file, without losing a connection.
//!
//! The old process starts the new one with its own arguments, and passes it copies of all listening sockets and of the store's lock. So
//! no accept queue is ever without an owner. Both accept connections from the moment at which the new one is ready, until the old one
//! stops accepting. Until then nothing of the old one has changed: if the new one fails, or takes too long, it is ended.
//!
//! Then the new process answers health checks and the control socket, and is the one that the service manager knows. The old one answers
//! what it has read, and ends. What only one process at a time may do, which is to run the durable runs of workflows, the new one begins
//! when the old one has ended it.

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
use crate::{front::FileOf, server::Shared};

/// How long a process that is to end may take before it is killed.
const END_MAX: Duration = Duration::from_secs(5);

/// Why the running process stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    #[error("the upgrade to process {pid} is not over yet")]
    Busy { pid: u32 },
    #[error("the server is stopping")]
    Stopping,
    #[error(
        "this is process 1 of a container, which would end with it: replace the container, and start the server with `init` for upgrades inside it"
    )]
    FirstProcess,
    #[error("cannot start `{program}`", program = .program.display())]
    Start {
        program: OsString,
        #[source]
        source: io::Error,
    },
    #[error("cannot pass the sockets to process {pid}")]
    Pass {
        pid: u32,
        #[source]
        source: io::Error,
    },
    #[error("process {pid} does not start: {reason}")]
    Refused { pid: u32, reason: String },
    #[error("process {pid} has ended before it was ready ({status}); the log has what it says")]
    Ended { pid: u32, status: ExitStatus },
    #[error("process {pid} was not ready within {limit:?} (server.upgrade_timeout)")]
    Late { pid: u32, limit: Duration },
}

/// A completed upgrade.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgraded {
    /// The process that serves now.
    pub(crate) pid: u32,
    pub(crate) took: Duration,
}

/// The state of upgrades.
#[derive(Debug, Default)]
pub(crate) struct Upgrading {
    /// Held during an upgrade, so that only one runs at a time.
    turn: tokio::sync::Mutex<()>,
    /// The process that is starting; 0: none has been started yet.
    pid: AtomicU32,
    /// The connection to the process that has taken over. Closing it says that the durable runs of this one have ended.
    successor: Mutex<Option<Link>>,
}

impl Upgrading {
    /// Whether another process has taken over.
    pub(crate) fn is_over(&self) -> bool {
        self.successor.lock().is_some()
    }

    /// Lets the process that has taken over begin the durable runs of workflows.
    pub(crate) fn release_runs(&self) {
        self.successor.lock().take();
    }
}

impl Shared {
    /// Starts the program anew, waits until it serves, and lets it take over; this process stops then. Logs the outcome. On an error nothing
    /// has changed.
    pub(crate) async fn upgrade(self: &Arc<Self>, asked_by: &str) -> Result<Upgraded, UpgradeError> {
        let began = Instant::now();
        let result = self.replace_process().await.map(|pid| Upgraded {
            pid,
            took: began.elapsed(),
        });
        match &result {
            Ok(Upgraded { pid, took }) => {
                let took_ms = took.as_millis() as u64;
                tracing::info!(target: "forebay::server", asked_by, pid, took_ms, "upgraded: another process serves now, and this one ends");
            }
            Err(error) => {
                let reason = crate::failure::with_causes(error);
                tracing::error!(target: "forebay::server", asked_by, "not upgraded, this process goes on: {reason}");
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
        // A reload that has begun comes first.
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
                self.manager.ready(&format!("not upgraded: {error}"));
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
            // It is pinged for another process by now.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(theirs))
            .spawn()
            .map_err(failed)?;
        let pid = child.id().unwrap_or_default();
        self.upgrading.pid.store(pid, Ordering::Relaxed);
        tracing::info!(target: "forebay::server", pid, "upgrade: process {pid} starts");
        Ok((child, link))
    }

    /// Passes everything to the new process, and waits until it is ready.
    async fn make_ready(&self, pid: u32, child: &mut Child, link: &Link) -> Result<(), UpgradeError> {
        let limit = self.front.app().config.server.upgrade_timeout;
        let ready = async {
            if let Err(source) = self.pass(link).await {
                // It may have ended at once, which says more.
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
                    let reason = format!("it says {message:?} instead of whether it is ready");
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
        // Copies, because no lock may be held while the other process is waited for.
        let sockets: Vec<_> = {
            let sockets = self.sockets.lock();
            let all = sockets.all(&self.front.app().config).into_iter();
            all.map(|(purpose, file_of, sockets)| {
                let copies = sockets.iter().map(BorrowedFd::try_clone_to_owned);
                copies
                    .collect::<io::Result<Vec<_>>>()
                    .map(|sockets| (purpose, file_of, sockets))
            })
            .collect::<io::Result<_>>()?
        };
        for (purpose, file_of, sockets) in sockets {
            let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
            let message = Message::Sockets {
                purpose,
                is_managed: file_of == FileOf::ServiceManager,
                count: sockets.len(),
            };
            link.send(&message, &sockets).await?;
        }
        if let Some(store) = &self.services.store {
            let folder = store.path().to_owned();
            link.send(&Message::StoreLock { folder }, &[store.lock()]).await?;
        }
        link.send(&Message::Start, &[]).await
    }

    /// Makes the new process the one that serves, and stops this one.
    async fn hand_over(&self, pid: u32, link: Link) {
        for bound in self.sockets.lock().each() {
            bound.pass_file_to(FileOf::OtherGeneration);
        }
        self.manager.hand_over(pid);
        if let Err(error) = link.send(&Message::TakeOver, &[]).await {
            tracing::warn!(target: "forebay::server", pid, cause = %error, "the process that takes over has ended");
        }
        *self.upgrading.successor.lock() = Some(link);
        self.stopping.send_replace(true);
    }
}

/// Ends a process that is not needed, in order, so that connections that it has accepted are answered.
async fn end(mut child: Child) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // It may have ended since.
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(END_MAX, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
