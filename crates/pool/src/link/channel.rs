//! The transport of a link: a socket, a pair of pipes, or the thread that speaks with other machines.

use std::{os::fd::OwnedFd, sync::Arc};

use parking_lot::Mutex;
use rustix::net::SendFlags;
use tokio::sync::mpsc;

/// The transport of a link.
#[derive(Debug)]
pub(crate) enum Channel {
    Socket(OwnedFd),
    /// The worker's standard output and input. Closing the second tells the worker that no more input follows.
    Pipes {
        from: OwnedFd,
        to: Mutex<Option<Arc<OwnedFd>>>,
    },
    /// The receiver of these carries whole frames to the worker, until the end of the link (`None`).
    Remote(mpsc::UnboundedSender<Option<Vec<u8>>>),
}

impl Channel {
    /// The descriptor to read from.
    pub(crate) fn input(&self) -> &OwnedFd {
        match self {
            Self::Socket(socket) => socket,
            Self::Pipes { from, .. } => from,
            Self::Remote(_) => unreachable!("frames of a host do not come from a descriptor"),
        }
    }

    /// The pipe to write to, while it is open.
    pub(crate) fn pipe_to_worker(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Socket(_) | Self::Remote(_) => None,
            Self::Pipes { to, .. } => to.lock().clone(),
        }
    }

    /// Writes all of these bytes; an error says how many were written before it.
    pub(super) fn write_all(&self, mut bytes: &[u8]) -> Result<(), (usize, rustix::io::Errno)> {
        if let Self::Remote(sender) = self {
            let sent = sender.send(Some(bytes.to_vec()));
            return sent.map_err(|_| (0, rustix::io::Errno::PIPE));
        }
        let whole = bytes.len();
        let pipe = self.pipe_to_worker();
        while !bytes.is_empty() {
            let written = match (self, &pipe) {
                (Self::Socket(socket), _) => {
                    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
                }
                // Rust programs ignore SIGPIPE.
                (Self::Pipes { .. }, Some(pipe)) => rustix::io::write(pipe, bytes),
                (Self::Pipes { .. } | Self::Remote(_), _) => Err(rustix::io::Errno::PIPE),
            };
            match written {
                Ok(sent) => bytes = &bytes[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err((whole - bytes.len(), error)),
            }
        }
        Ok(())
    }
}
