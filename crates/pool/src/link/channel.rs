//! The transport of a link: a socket, or a pair of pipes.

use std::{os::fd::OwnedFd, sync::Arc};

use parking_lot::Mutex;
use rustix::net::SendFlags;

/// The transport of a link.
#[derive(Debug)]
pub(crate) enum Channel {
    Socket(OwnedFd),
    /// The worker's standard output and input. Closing the second tells the worker that no more input follows.
    Pipes {
        from: OwnedFd,
        to: Mutex<Option<Arc<OwnedFd>>>,
    },
}

impl Channel {
    /// The descriptor to read from.
    pub(crate) fn input(&self) -> &OwnedFd {
        match self {
            Self::Socket(socket) => socket,
            Self::Pipes { from, .. } => from,
        }
    }

    /// The pipe to write to, while it is open.
    pub(crate) fn pipe_to_worker(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Socket(_) => None,
            Self::Pipes { to, .. } => to.lock().clone(),
        }
    }

    /// Writes all of these bytes; an error says how many were written before it.
    pub(super) fn write_all(&self, mut bytes: &[u8]) -> Result<(), (usize, rustix::io::Errno)> {
        let whole = bytes.len();
        let pipe = self.pipe_to_worker();
        while !bytes.is_empty() {
            let written = match (self, &pipe) {
                (Self::Socket(socket), _) => {
                    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
                }
                // Rust programs ignore SIGPIPE.
                (Self::Pipes { .. }, Some(pipe)) => rustix::io::write(pipe, bytes),
                (Self::Pipes { .. }, None) => Err(rustix::io::Errno::PIPE),
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
