//! The process that this one replaces.

use std::{
    fs::File,
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::getppid;
use socket2::Socket;

use super::link::{Link, Message, REASON_BYTES_MAX};
use crate::{
    front::SocketFileOwner,
    sockets::{InheritedGroup, InheritedSockets, SocketOrigin},
};

/// Limit on receiving everything from the predecessor.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// This process cannot replace its predecessor.
#[derive(Debug, thiserror::Error)]
pub enum PredecessorError {
    /// The predecessor has exited.
    #[error("process {pid}, which this one was started to replace (FOREBAY_UPGRADE_FROM), has exited")]
    Gone {
        /// Its number, as the environment has it.
        pid: String,
    },
    /// Sockets could not be taken over.
    #[error("cannot take over from process {pid}")]
    Link {
        /// Number of the old process.
        pid: String,
        /// The failed step.
        #[source]
        source: io::Error,
    },
}

/// The process that this one replaces, with the sockets and the lock that it sent.
#[derive(Debug)]
pub struct Predecessor {
    pid: String,
    link: Link,
    passed: InheritedSockets,
    store_lock: Option<(PathBuf, File)>,
}

impl Predecessor {
    /// Environment variable with the id of the process to replace.
    pub const VARIABLE: &str = "FOREBAY_UPGRADE_FROM";

    /// Connects to the predecessor named in the environment and receives its sockets. `None`: this is an ordinary start.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub async fn of_this_process() -> Result<Option<Self>, PredecessorError> {
        let Ok(pid) = std::env::var(Self::VARIABLE) else {
            return Ok(None);
        };
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get().to_string());
        if parent.as_ref() != Some(&pid) {
            return Err(PredecessorError::Gone { pid });
        }
        let taken = async {
            // Standard input is the connection. It is replaced, so that nothing else reads from it and no child inherits it.
            let socket = io::stdin().as_fd().try_clone_to_owned()?;
            nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
            let link = Link::new(socket.into())?;
            let (passed, store_lock) = tokio::time::timeout(RECEIVE_TIMEOUT, receive(&link)).await??;
            Ok((link, passed, store_lock))
        };
        match taken.await {
            Ok((link, passed, store_lock)) => Ok(Some(Self {
                pid,
                link,
                passed,
                store_lock,
            })),
            Err(source) => Err(PredecessorError::Link { pid, source }),
        }
    }

    /// The received listening sockets; empty after the first call.
    pub(crate) fn take_sockets(&mut self) -> InheritedSockets {
        std::mem::take(&mut self.passed)
    }

    /// The lock of the store in a folder, if the predecessor has that store open.
    pub(crate) fn take_store_lock(&mut self, folder: &Path) -> Option<File> {
        let is_it = |(of, _): &mut (PathBuf, File)| folder.canonicalize().is_ok_and(|folder| folder == *of);
        self.store_lock.take_if(is_it).map(|(_, lock)| lock)
    }

    /// Reports why this process failed to start.
    pub async fn refuse(&self, reason: &str) {
        let mut reason = reason.to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        // The predecessor may have exited.
        let _ = self.link.send(&Message::Failed { reason }, &[]).await;
    }

    /// Reports that this process accepts connections, and waits until it may take over.
    pub(crate) async fn take_over(&self) -> Result<(), PredecessorError> {
        let failed = |source| PredecessorError::Link {
            pid: self.pid.clone(),
            source,
        };
        self.link.send(&Message::Ready, &[]).await.map_err(failed)?;
        match self.link.receive().await.map_err(failed)? {
            Some(Message::TakeOver) => Ok(()),
            Some(message) => Err(failed(io::Error::other(format!(
                "unexpected message {message:?}"
            )))),
            None => Err(PredecessorError::Gone {
                pid: self.pid.clone(),
            }),
        }
    }

    /// Waits until its durable runs have stopped, or it has exited.
    pub(crate) async fn runs_ended(&self) {
        // It sends nothing more, so this returns when the connection closes.
        let _ = self.link.receive().await;
    }
}

async fn receive(link: &Link) -> io::Result<(InheritedSockets, Option<(PathBuf, File)>)> {
    let mut passed = InheritedSockets::default();
    let mut store_lock = None;
    loop {
        match link.receive().await?.ok_or(io::ErrorKind::UnexpectedEof)? {
            Message::Sockets {
                purpose,
                is_managed,
                count,
            } => {
                let file_owner = if is_managed {
                    SocketFileOwner::ServiceManager
                } else {
                    SocketFileOwner::OtherGeneration
                };
                passed.push(InheritedGroup {
                    of: SocketOrigin::Predecessor { purpose, file_owner },
                    sockets: link
                        .descriptors(count)
                        .await?
                        .into_iter()
                        .map(Socket::from)
                        .collect(),
                });
            }
            Message::StoreLock { folder } => {
                let lock = link.descriptors(1).await?.pop();
                store_lock = lock.map(|lock| (folder, File::from(lock)));
            }
            Message::Start => return Ok((passed, store_lock)),
            message @ (Message::Failed { .. } | Message::Ready | Message::TakeOver) => {
                return Err(io::Error::other(format!("unexpected message {message:?}")));
            }
        }
    }
}
