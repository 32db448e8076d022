//! The connection between the two processes of an upgrade: one JSON message per line over a Unix socket, with file descriptors attached (`SCM_RIGHTS`).

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    path::PathBuf,
};

use parking_lot::Mutex;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use tokio::{io::Interest, net::UnixStream};

/// Most descriptors attached to one write; the kernel allows 253.
const DESCRIPTORS_MAX: usize = 128;
/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Longest failure reason, in bytes; keeps its message below the limit.
pub(super) const REASON_BYTES_MAX: usize = 8 << 10;

/// A message. The two processes may have different versions: an unknown message fails the upgrade.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    /// Listening sockets of one address.
    Sockets {
        purpose: String,
        /// Whether the service manager keeps the file of a Unix socket.
        is_managed: bool,
        /// Number of attached descriptors.
        count: usize,
    },
    /// The lock of the store in this folder, attached as one descriptor.
    StoreLock { folder: PathBuf },
    /// Nothing more follows.
    Start,
    /// The new process failed to start.
    Failed { reason: String },
    /// The new process accepts connections.
    Ready,
    /// The old process stops accepting. Socket files and service manager notifications now belong to the new one.
    TakeOver,
}

/// One end of the connection between two processes.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    /// Received and not yet consumed.
    received: Mutex<Received>,
}

#[derive(Debug, Default)]
struct Received {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Received {
    /// Removes and returns the first complete line. Skips empty ones, which only carry descriptors.
    fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = memchr::memchr(b'\n', &self.bytes)?;
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            if line.len() > 1 {
                return Some(line);
            }
        }
    }
}

impl Link {
    /// Both ends: this process's, and the one to pass to the new process.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        Ok((Self::new(ours)?, theirs.into()))
    }

    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub(super) fn new(stream: StdUnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: UnixStream::from_std(stream)?,
            received: Mutex::default(),
        })
    }

    pub(super) async fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        let mut chunks = descriptors.chunks(DESCRIPTORS_MAX);
        self.write(&bytes, chunks.next().unwrap_or_default()).await?;
        for more in chunks {
            self.write(b"\n", more).await?;
        }
        Ok(())
    }

    /// Writes all bytes; the descriptors are attached to the first.
    async fn write(&self, mut bytes: &[u8], mut descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        while !bytes.is_empty() {
            let send = || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
                let mut beside = SendAncillaryBuffer::new(&mut space);
                if !descriptors.is_empty() {
                    beside.push(SendAncillaryMessage::ScmRights(descriptors));
                }
                let bytes = [IoSlice::new(bytes)];
                Ok(sendmsg(&self.stream, &bytes, &mut beside, SendFlags::NOSIGNAL)?)
            };
            let sent = self.stream.async_io(Interest::WRITABLE, send).await?;
            bytes = &bytes[sent..];
            descriptors = &[];
        }
        Ok(())
    }

    /// The next message. `None`: the other process closed the connection or exited.
    pub(super) async fn receive(&self) -> io::Result<Option<Message>> {
        loop {
            if let Some(line) = self.received.lock().line() {
                return Ok(Some(serde_json::from_slice(&line).map_err(|error| {
                    let text = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                    invalid(format!(
                        "unknown message {text:?}, perhaps from another version: {error}"
                    ))
                })?));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// The next `count` descriptors.
    pub(super) async fn descriptors(&self, count: usize) -> io::Result<Vec<OwnedFd>> {
        loop {
            if let Some(taken) = {
                let descriptors = &mut self.received.lock().descriptors;
                (descriptors.len() >= count).then(|| descriptors.drain(..count).collect())
            } {
                return Ok(taken);
            }
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Receives more; false at the end of the stream.
    async fn fill(&self) -> io::Result<bool> {
        let receive = || {
            let mut bytes = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let length = recvmsg(
                &self.stream,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut beside,
                RecvFlags::CMSG_CLOEXEC,
            )?
            .bytes;
            let mut received = self.received.lock();
            received.bytes.extend_from_slice(&bytes[..length]);
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    received.descriptors.extend(rights);
                }
            }
            if received.bytes.len() > MESSAGE_BYTES_MAX {
                return Err(invalid(format!(
                    "a message is longer than {MESSAGE_BYTES_MAX} bytes"
                )));
            }
            Ok(length > 0)
        };
        match self.stream.async_io(Interest::READABLE, receive).await {
            // The other process exited without reading everything sent to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            received => received,
        }
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
