//! What the two processes of an upgrade say to each other: a line of JSON for each message, over a Unix socket, with descriptors beside it.

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

/// Most descriptors that are sent at a time; the kernel takes 253.
const DESCRIPTORS_MAX: usize = 128;
/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Longest reason that is sent, in bytes, so that its message is never too long.
pub(super) const REASON_BYTES_MAX: usize = 8 << 10;

/// A message. Both sides may be of another version: what is not known ends the upgrade.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    /// Listening sockets, and what they are for.
    Sockets {
        purpose: String,
        /// Whether the service manager keeps the file of a Unix socket.
        is_managed: bool,
        /// How many descriptors come with it.
        count: usize,
    },
    /// The lock of the store in this folder comes with it.
    StoreLock { folder: PathBuf },
    /// Everything has been passed.
    Start,
    /// The new process has not started.
    Failed { reason: String },
    /// The new process accepts connections.
    Ready,
    /// The old process accepts none any more. Files, and the word to the service manager, are the new one's from now on.
    TakeOver,
}

/// One end of the connection between two processes.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    /// What was received and has not been taken.
    received: Mutex<Received>,
}

#[derive(Debug, Default)]
struct Received {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Received {
    /// Takes the first whole line, without empty ones, which only carry descriptors.
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
    /// This process's end, and that of the process to be started.
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

    /// Writes everything; the descriptors go with the first byte.
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

    /// The next message. `None`: the other process has ended.
    pub(super) async fn receive(&self) -> io::Result<Option<Message>> {
        loop {
            if let Some(line) = self.received.lock().line() {
                return Ok(Some(serde_json::from_slice(&line).map_err(|error| {
                    let text = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                    invalid(format!(
                        "the other process says {text:?}, which this version does not know: {error}"
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

    /// Receives more; false if there will be no more.
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
                    "the other process says more than {MESSAGE_BYTES_MAX} bytes at once"
                )));
            }
            Ok(length > 0)
        };
        match self.stream.async_io(Interest::READABLE, receive).await {
            // The other process has ended without reading what was sent to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            received => received,
        }
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
