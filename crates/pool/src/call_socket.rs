//! Reads a worker's second socket, which carries calls that block the worker until they are answered.

use std::{io, sync::Arc, time::Instant};

use bytes::BytesMut;
use forebay_wire::{FrameType, Split, WireError, split_frame};
use tokio::io::Interest;

use crate::{
    abort_on_panic::abort_on_panic, link::Link, pool::Shared, reader::WatchedSocket, state::EndCause, sys,
};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 64 * 1024;

/// The server's end of a worker's call socket.
#[derive(Debug)]
pub struct CallSocket {
    pub(crate) pool: Arc<Shared>,
    pub(crate) link: Arc<Link>,
    /// The worker's key in the pool's state. It is reused once the worker is gone.
    pub(crate) worker: usize,
    /// The worker's number, which is never reused.
    pub(crate) id: u64,
}

/// The reason why reading ends before the socket is closed.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("worker has broken the protocol")]
    Wire(#[from] WireError),
    #[error("cannot watch a worker's call socket")]
    Watch(#[from] io::Error),
}

impl CallSocket {
    /// Reads until the worker is gone, on a thread whose runtime has I/O.
    pub async fn run(self) {
        abort_on_panic("reader of a call socket", async move {
            if let Err(error) = self.read().await {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(target: "forebay::pool", pool = %self.pool.name, worker = self.id, cause, "{error}; it is stopped");
                let is_there = self.pool.state.lock().has_worker(self.worker, self.id);
                if is_there {
                    self.pool.condemn(self.worker, EndCause::Protocol);
                }
                self.link.hang_up();
            }
        })
        .await;
    }

    async fn read(&self) -> Result<(), ReadError> {
        let socket = sys::watch(
            WatchedSocket(self.link.clone()),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let mut bytes = BytesMut::new();
        let mut full = false;
        loop {
            tokio::select! {
                biased;
                ready = socket.readable() => {
                    let mut ready = ready?;
                    bytes.reserve(READ_BYTES);
                    match rustix::io::read(self.link.channel.input(), bytes.spare_capacity_mut()) {
                        Ok((read, _)) => {
                            let taken = read.len();
                            if taken == 0 {
                                return Ok(());
                            }
                            sys::advance(&mut bytes, taken);
                            self.take(&mut bytes)?;
                        }
                        Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                        // A reset means the same as an end: no more data will arrive.
                        Err(_) => return Ok(()),
                    }
                }
                () = self.link.blocked.notified() => full = true,
                ready = socket.writable(), if full => {
                    ready?.clear_ready();
                    full = false;
                    self.link.unblock();
                }
            }
        }
    }

    /// Processes every complete frame.
    fn take(&self, bytes: &mut BytesMut) -> Result<(), WireError> {
        let mut used = 0;
        self.pool.change(None, |session| {
            while let Split::Whole { frame, used: length } = split_frame(&bytes[used..])? {
                used += length;
                if frame.header.generation != self.link.generation {
                    session.stray();
                } else if frame.header.kind == FrameType::Call {
                    let worker = (self.worker, self.id);
                    session.call(worker, &self.link, &frame.header, frame.payload, Instant::now())?;
                }
            }
            Ok(())
        })?;
        drop(bytes.split_to(used));
        if bytes.is_empty() {
            // Release the memory of a long call.
            *bytes = BytesMut::new();
        }
        Ok(())
    }
}
