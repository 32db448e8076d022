//! Reads one worker's link on the server thread that owns it: frames from the socket and from the outbox go to the pool's state,
//! a whole batch under one lock.

use std::{
    io,
    os::fd::{AsRawFd, RawFd},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use forebay_wire::{Frame, FrameType, HEADER_BYTES, OUTBOX_FRAME_ALIGN, Split, WireError, split_frame};
use tokio::io::Interest;

use crate::{
    link::Link, mailbox::LocalMailbox, outbox::TailOutOfRange, pool::Shared, session::Session,
    state::EndCause, sys::watch,
};

/// Bytes that one read of the socket asks for.
const READ_BYTES: usize = 64 * 1024;
/// Batches that are taken before other tasks of the thread have their turn: a worker that never stops sending keeps nobody else waiting.
const TURNS_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) pool: Arc<Shared>,
    pub(crate) link: Arc<Link>,
    /// The worker's key in the pool's state, valid until this reader reports it gone.
    pub(crate) worker: usize,
    /// What was read after the handshake.
    pub(crate) rest: BytesMut,
}

/// Why reading ends before the link does.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("worker has broken the protocol")]
    Wire(#[from] WireError),
    #[error("worker has broken the protocol")]
    Outbox(#[from] TailOutOfRange),
    #[error("cannot watch a worker's link")]
    Watch(#[from] io::Error),
}

/// A link's socket, kept open while the event loop watches it.
#[derive(Debug)]
pub(crate) struct WatchedSocket(pub(crate) Arc<Link>);

impl AsRawFd for WatchedSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.socket.as_raw_fd()
    }
}

impl Reader {
    /// Reads until the link ends, then reports the worker gone.
    pub(crate) async fn run(mut self, mailbox: Rc<LocalMailbox>) {
        // Answers that the worker put into the outbox before it died are taken even after the end of file.
        let read = match self.read(&mailbox).await {
            Ok(()) => self.take_outbox(&mut Vec::new(), &mailbox).map(|_| ()),
            Err(error) => Err(error),
        };
        if let Err(error) = read {
            self.cut_off(&error);
        }
        let mut session = self.pool.session(Some(&mailbox));
        session.worker_gone(self.worker);
        drop(session);
        self.link.ended.notify_one();
    }

    async fn read(&mut self, mailbox: &Rc<LocalMailbox>) -> Result<(), ReadError> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let socket = watch(WatchedSocket(self.link.clone()), both)?;
        let bell = match &self.link.bell {
            Some(bell) => Some(watch(bell.try_clone()?, Interest::READABLE)?),
            None => None,
        };
        let mut batch = Vec::new();
        // While the socket takes no more, reading goes on: a worker that blocks on its own writes reads nothing until then.
        let mut full = false;
        self.take_frames(mailbox)?;
        let mut turns = 0;
        loop {
            turns = (turns + 1) % TURNS_MAX;
            if turns == 0 {
                tokio::task::yield_now().await;
            }
            if self.take_outbox_or_arm(&mut batch, mailbox)? {
                continue;
            }
            let rung = async {
                match &bell {
                    // Edge-triggered: each ring is a new edge, so the counter need never be read.
                    Some(bell) => bell.readable().await.map(|mut ready| ready.clear_ready()),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                rung = rung => rung?,
                ready = socket.readable() => {
                    let mut ready = ready?;
                    match self.receive() {
                        Ok(0) => return Ok(()),
                        Ok(taken) => {
                            if taken < READ_BYTES {
                                ready.clear_ready();
                            }
                            self.take_frames(mailbox)?;
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                        // A reset means the same as an end: nothing more comes.
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

    fn receive(&mut self) -> io::Result<usize> {
        self.rest.reserve(READ_BYTES);
        let spare = self.rest.spare_capacity_mut();
        let wanted = spare.len().min(READ_BYTES);
        let (read, _) = rustix::io::read(&self.link.socket, &mut spare[..wanted])?;
        let taken = read.len();
        crate::sys::advance(&mut self.rest, taken);
        Ok(taken)
    }

    /// Takes every whole frame from what was read, those before a broken one too.
    fn take_frames(&mut self, mailbox: &Rc<LocalMailbox>) -> Result<(), ReadError> {
        let mut whole = 0;
        let broken = loop {
            match split_frame(&self.rest[whole..]) {
                Ok(Split::Whole { used, .. }) => whole += used,
                Ok(Split::Partial { .. }) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if whole > 0 {
            let frames = self.rest.split_to(whole).freeze();
            if self.rest.is_empty() {
                self.rest = BytesMut::new();
            }
            self.handle(&frames, 1, mailbox)?;
        }
        Ok(broken?)
    }

    /// Takes what is in the outbox. False: there is nothing, and the bell is armed.
    fn take_outbox_or_arm(&self, batch: &mut Vec<u8>, mailbox: &Rc<LocalMailbox>) -> Result<bool, ReadError> {
        if self.take_outbox(batch, mailbox)? {
            return Ok(true);
        }
        if let Some(page) = self.link.page() {
            page.arm_bell();
        }
        self.take_outbox(batch, mailbox)
    }

    fn take_outbox(&self, batch: &mut Vec<u8>, mailbox: &Rc<LocalMailbox>) -> Result<bool, ReadError> {
        let Some(page) = self.link.page() else {
            return Ok(false);
        };
        batch.clear();
        if !page.take(batch)? {
            return Ok(false);
        }
        self.handle(
            &Bytes::copy_from_slice(batch),
            OUTBOX_FRAME_ALIGN as usize,
            mailbox,
        )?;
        Ok(true)
    }

    /// Gives whole frames to the pool; each starts at a multiple of `align`.
    fn handle(&self, frames: &Bytes, align: usize, mailbox: &Rc<LocalMailbox>) -> Result<(), ReadError> {
        let now = Instant::now();
        let mut session = self.pool.session(Some(mailbox));
        let mut at = 0;
        while at < frames.len() {
            let Split::Whole { frame, used } = split_frame(&frames[at..])? else {
                return Err(WireError::Truncated {
                    kind: "outbox",
                    needed: used_at_least(at),
                    present: frames.len(),
                }
                .into());
            };
            let payload = at + HEADER_BYTES..at + used;
            self.dispatch(frame, || frames.slice(payload), now, &mut session)?;
            at += used.next_multiple_of(align);
        }
        Ok(())
    }

    fn dispatch(
        &self,
        frame: Frame<'_>,
        payload: impl FnOnce() -> Bytes,
        now: Instant,
        session: &mut Session<'_>,
    ) -> Result<(), WireError> {
        let header = frame.header;
        if header.kind == FrameType::Pad {
            return Ok(());
        }
        if header.generation != self.link.generation {
            session.stray();
            return Ok(());
        }
        let (worker, job) = (self.worker, (header.slot, header.job));
        match header.kind {
            FrameType::Response => session.answer(worker, job, header.flags, payload(), now)?,
            FrameType::Body => session.chunk(worker, job, header.flags, payload(), now)?,
            FrameType::Reset => session.reset(worker, job, now),
            FrameType::Window => {
                let Ok(bytes) = <[u8; 4]>::try_from(frame.payload) else {
                    return Err(WireError::Truncated {
                        kind: "WINDOW",
                        needed: 4,
                        present: frame.payload.len(),
                    });
                };
                session.window(worker, job, u32::from_le_bytes(bytes));
            }
            FrameType::Log => session.log(worker, job, payload()),
            // Frames of the handshake are over, those of the other direction mean nothing here, unknown ones are skipped.
            FrameType::Pad
            | FrameType::Hello
            | FrameType::Init
            | FrameType::Ready
            | FrameType::Failed
            | FrameType::Drain
            | FrameType::Request
            | FrameType::Abort
            | FrameType::Unknown(_) => {}
        }
        Ok(())
    }

    /// Stops a worker that cannot be read from. What it sent before stays valid.
    fn cut_off(&self, error: &ReadError) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(target: "forebay::pool", pool = %self.pool.name, cause, "{error}; it is stopped");
        self.pool.condemn(self.worker, EndCause::Protocol);
        self.link.hang_up();
    }
}

/// A frame at `at` has at least a header.
fn used_at_least(at: usize) -> u64 {
    (at + HEADER_BYTES) as u64
}
