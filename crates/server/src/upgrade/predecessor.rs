//! The process that has started this one to be replaced by it.

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
    front::FileOf,
    sockets::{Origin, Passed, PassedSockets},
};

/// How long the other process may take to pass everything.
const PASS_MAX: Duration = Duration::from_secs(10);

/// This process was to replace another one, and does not.
#[derive(Debug, thiserror::Error)]
pub enum PredecessorError {
    /// The other process is no longer there.
    #[error(
        "process {pid}, which has started this one to be replaced by it (FOREBAY_UPGRADE_FROM), has ended"
    )]
    Gone {
        /// Its number, as the environment has it.
        pid: String,
    },
    /// Sockets could not be taken over.
    #[error("cannot take over from process {pid}, which has started this one to be replaced by it")]
    Link {
        /// Its number.
        pid: String,
        /// What failed.
        #[source]
        source: io::Error,
    },
}

/// The process that has started this one to be replaced by it, and what it has passed.
#[derive(Debug)]
pub struct Predecessor {
    pid: String,
    link: Link,
    passed: Passed,
    store_lock: Option<(PathBuf, File)>,
}

impl Predecessor {
    /// Environment variable with the number of the process that has started this one to be replaced by it.
    pub const VARIABLE: &str = "FOREBAY_UPGRADE_FROM";

    /// The predecessor that the environment names, and what it passes. `None`: this process replaces no other.
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
            // Standard input is the connection to it. Nobody else is to have that, and nothing is to be read from there.
            let socket = io::stdin().as_fd().try_clone_to_owned()?;
            nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
            let link = Link::new(socket.into())?;
            let (passed, store_lock) = tokio::time::timeout(PASS_MAX, receive(&link)).await??;
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

    /// The listening sockets that it has passed, once.
    pub(crate) fn take_sockets(&mut self) -> Passed {
        std::mem::take(&mut self.passed)
    }

    /// The lock of the store in a folder, if it has that store.
    pub(crate) fn take_store_lock(&mut self, folder: &Path) -> Option<File> {
        let is_it = |(of, _): &mut (PathBuf, File)| folder.canonicalize().is_ok_and(|folder| folder == *of);
        self.store_lock.take_if(is_it).map(|(_, lock)| lock)
    }

    /// Tells it why this process does not start, so that it says so where it was asked.
    pub async fn refuse(&self, reason: &str) {
        let mut reason = reason.to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        // If it has ended, nobody asks.
        let _ = self.link.send(&Message::Failed { reason }, &[]).await;
    }

    /// Says that this process accepts connections, and waits until it may take over.
    pub(crate) async fn take_over(&self) -> Result<(), PredecessorError> {
        let failed = |source| PredecessorError::Link {
            pid: self.pid.clone(),
            source,
        };
        self.link.send(&Message::Ready, &[]).await.map_err(failed)?;
        match self.link.receive().await.map_err(failed)? {
            Some(Message::TakeOver) => Ok(()),
            Some(message) => Err(failed(io::Error::other(format!("it says {message:?}")))),
            None => Err(PredecessorError::Gone {
                pid: self.pid.clone(),
            }),
        }
    }

    /// Waits until it has ended its durable runs, or has ended itself.
    pub(crate) async fn runs_ended(&self) {
        // It says nothing more, so that this is the end of the connection.
        let _ = self.link.receive().await;
    }
}

async fn receive(link: &Link) -> io::Result<(Passed, Option<(PathBuf, File)>)> {
    let mut passed = Passed::default();
    let mut store_lock = None;
    loop {
        match link.receive().await?.ok_or(io::ErrorKind::UnexpectedEof)? {
            Message::Sockets {
                purpose,
                is_managed,
                count,
            } => {
                let file_of = if is_managed {
                    FileOf::ServiceManager
                } else {
                    FileOf::OtherGeneration
                };
                passed.push(PassedSockets {
                    of: Origin::Predecessor { purpose, file_of },
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
                return Err(io::Error::other(format!("it says {message:?} too early")));
            }
        }
    }
}
