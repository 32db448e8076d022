//! Reads one worker's link on the server thread that owns it: frames from the socket and the outbox go to the pool's state, a whole batch
//! under one lock. A worker's second socket, which carries calls that block the worker until they are answered, is read in the same way, on
//! the thread that answers the calls.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use forebay_wire::{Frame, FrameType, HEADER_BYTES, OUTBOX_FRAME_ALIGN, Split, WireError, flag, split_frame};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    abort_on_panic::abort_on_panic,
    dialect::{Decoder, MessageTooLong, Piece, Resync, Said},
    link::{Channel, Link, Unread},
    mailbox::LocalMailbox,
    outbox::TailOutOfRange,
    pool::Shared,
    session::Session,
    state::EndCause,
    sys::watch,
};

/// Maximum number of bytes per read of the socket.
const READ_BYTES: usize = 64 * 1024;
/// Maximum number of descriptors whose frames are not complete. The kernel ends a read behind the bytes that a descriptor came with, so an
/// incomplete frame and the next one can have one each.
const FILES_MAX: usize = 2;
/// The error of a response whose descriptor could not be taken.
const LOST_FILE: &str = "its file cannot be taken: the server has too many files open";
/// Number of batches before other tasks of the thread get a turn, so that a worker that never stops sending does not starve them.
const TURNS_MAX: usize = 16;
/// Maximum number of reads from the pipe of a worker that is gone: more than a pipe can hold, and a limit in case another process still
/// writes to it.
const LAST_READS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) pool: Arc<Shared>,
    pub(crate) link: Arc<Link>,
    /// The worker's key in the pool's state. It may be reused once the reader of the link has reported the worker gone.
    pub(crate) worker: usize,
    /// The worker's number, which is never reused.
    pub(crate) id: u64,
    /// Bytes that arrived together with the handshake.
    pub(crate) rest: BytesMut,
    pub(crate) input: Input,
    /// Descriptors that arrived with frames, until their frames are handled.
    pub(crate) files: RefCell<VecDeque<io::Result<OwnedFd>>>,
}

/// The outcome of one read.
#[derive(Debug)]
struct Received {
    /// The number of bytes; 0 at the end of the input.
    bytes: usize,
    /// Whether nothing more had arrived. A read also ends behind the bytes that a descriptor came with.
    is_all: bool,
}

/// How to decode the bytes of a worker.
#[derive(Debug)]
pub(crate) enum Input {
    Frames,
    /// Frames of a call socket; only calls mean something there.
    Calls,
    /// Frames mixed with other output of the program.
    MixedFrames(Resync),
    Messages(Decoder),
}

/// The reason why reading ends before the link is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("worker has broken the protocol")]
    Wire(#[from] WireError),
    #[error("worker has broken the protocol")]
    Outbox(#[from] TailOutOfRange),
    #[error("worker has broken the protocol")]
    MessageTooLong(#[from] MessageTooLong),
    #[error("worker has broken the protocol")]
    Unread(#[from] Unread),
    #[error("cannot watch a worker's link")]
    Watch(#[from] io::Error),
}

/// A link's socket, kept open while the event loop watches it.
#[derive(Debug)]
pub(crate) struct WatchedSocket(pub(crate) Arc<Link>);

impl AsRawFd for WatchedSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.channel.input().as_raw_fd()
    }
}

impl Reader {
    /// Reads until the link ends, then reports that the worker is gone.
    pub(crate) async fn run(mut self, mailbox: Rc<LocalMailbox>) {
        // Answers that the worker put into the outbox before it died are delivered even after the end of file.
        let read = match self.read(Some(&mailbox)).await {
            Ok(()) => self
                .take_rest(Some(&mailbox))
                .and_then(|()| self.take_outbox(&mut Vec::new(), Some(&mailbox)).map(|_| ())),
            Err(error) => Err(error),
        };
        if let Err(error) = read {
            self.cut_off(&error);
        }
        self.link.profiles.end();
        self.pool
            .change(Some(&mailbox), |session| session.worker_gone(self.worker));
        self.link.ended.notify_one();
    }

    async fn read(&mut self, mailbox: Option<&Rc<LocalMailbox>>) -> Result<(), ReadError> {
        let is_socket = matches!(self.link.channel, Channel::Socket(_));
        let interest = if is_socket {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let socket = watch(WatchedSocket(self.link.clone()), interest)?;
        // The pipe to the worker is watched only while it is full, so that it can be closed at any other time.
        let mut pipe = None;
        let bell = match &self.link.bell {
            Some(bell) => Some(watch(bell.try_clone()?, Interest::READABLE)?),
            None => None,
        };
        let mut batch = Vec::new();
        // Reading continues while the socket is full: a worker that blocks on its own writes reads nothing until they are done.
        let mut full = false;
        self.take_input(mailbox)?;
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
                        Ok(Received { bytes: 0, .. }) => return Ok(()),
                        Ok(received) => {
                            if received.is_all {
                                ready.clear_ready();
                            }
                            self.take_input(mailbox)?;
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                        // A reset means the same as an end: no more data will arrive.
                        Err(_) => return Ok(()),
                    }
                }
                () = self.link.hung_up.notified(), if !is_socket => return self.last_reads(mailbox),
                () = self.link.blocked.notified() => {
                    full = true;
                    pipe = match self.link.channel.pipe_to_worker() {
                        Some(to) => Some(watch(WatchedPipe(to), Interest::WRITABLE)?),
                        None => None,
                    };
                }
                ready = has_room(&socket, pipe.as_ref()), if full => {
                    ready?;
                    (full, pipe) = (false, None);
                    self.link.unblock();
                }
            }
        }
    }

    /// Reads what a pipe still holds, without waiting for more.
    fn last_reads(&mut self, mailbox: Option<&Rc<LocalMailbox>>) -> Result<(), ReadError> {
        for _ in 0..LAST_READS_MAX {
            match self.receive() {
                Ok(Received { bytes: 0, .. }) | Err(_) => break,
                Ok(_) => self.take_input(mailbox)?,
            }
        }
        Ok(self.link.unread().map_or(Ok(()), Err)?)
    }

    fn receive(&mut self) -> io::Result<Received> {
        self.rest.reserve(READ_BYTES);
        let spare = self.rest.spare_capacity_mut();
        let wanted = spare.len().min(READ_BYTES);
        let (bytes, file) = match (&self.link.channel, &self.input) {
            (Channel::Socket(socket), Input::Frames) => crate::sys::receive(socket, &mut spare[..wanted])?,
            (channel, _) => (
                rustix::io::read(channel.input(), &mut spare[..wanted])?.0.len(),
                None,
            ),
        };
        crate::sys::advance(&mut self.rest, bytes);
        let is_all = bytes < READ_BYTES && file.is_none();
        self.files.get_mut().extend(file);
        Ok(Received { bytes, is_all })
    }

    /// Processes everything that is complete.
    fn take_input(&mut self, mailbox: Option<&Rc<LocalMailbox>>) -> Result<(), ReadError> {
        match &mut self.input {
            Input::Frames | Input::Calls => self.take_frames(mailbox),
            Input::MixedFrames(resync) => {
                let mut pieces = Vec::new();
                while let Some(piece) = resync.next(&mut self.rest) {
                    pieces.push(piece);
                }
                self.handle_pieces(pieces, mailbox)
            }
            Input::Messages(decoder) => {
                let mut said = Vec::new();
                let read = Instant::now();
                let taken = decoder.take(&mut self.rest, &mut said);
                self.hear(said, read, mailbox);
                Ok(taken?)
            }
        }
    }

    /// Processes the rest at the end of the input: plain output, or an incomplete message.
    fn take_rest(&mut self, mailbox: Option<&Rc<LocalMailbox>>) -> Result<(), ReadError> {
        match &mut self.input {
            Input::Frames | Input::Calls => Ok(()),
            Input::MixedFrames(resync) => {
                let mut pieces = Vec::new();
                while let Some(line) = resync.end(&mut self.rest) {
                    pieces.push(Piece::Printed(line));
                }
                self.handle_pieces(pieces, mailbox)
            }
            Input::Messages(decoder) => {
                let mut said = Vec::new();
                decoder.end(&mut self.rest, &mut said);
                self.hear(said, Instant::now(), mailbox);
                Ok(())
            }
        }
    }

    fn handle_pieces(&self, pieces: Vec<Piece>, mailbox: Option<&Rc<LocalMailbox>>) -> Result<(), ReadError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        self.pool.change(mailbox, |session| {
            for piece in pieces {
                match piece {
                    Piece::Frame(header, payload) => {
                        let frame = Frame {
                            header,
                            payload: &payload,
                        };
                        self.dispatch(frame, || payload.clone(), now, session)?;
                    }
                    Piece::Printed(line) => session.printed(self.worker, line),
                }
            }
            Ok(())
        })
    }

    /// Handles the events of a worker that speaks no frames.
    fn hear(&self, said: Vec<Said>, read: Instant, mailbox: Option<&Rc<LocalMailbox>>) {
        if said.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut replies = Vec::new();
        self.pool.change(mailbox, |session| {
            for one in said {
                match one {
                    Said::Answer(answered) => session.answered(self.worker, answered, read, now),
                    Said::Call { id, body } => {
                        session.call_message((self.worker, self.id), &self.link, id, body, now);
                    }
                    Said::Log {
                        level,
                        message,
                        fields,
                        request,
                        reply,
                    } => {
                        session.noted(self.worker, request, level, message, fields);
                        replies.extend(reply);
                    }
                    Said::Printed(line) => session.printed(self.worker, line),
                }
            }
        });
        if !replies.is_empty() {
            self.link.say(&replies.concat());
        }
    }

    /// Processes every complete frame, including those before an invalid one.
    pub(crate) fn take_frames(&mut self, mailbox: Option<&Rc<LocalMailbox>>) -> Result<(), ReadError> {
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
        if self.files.borrow().len() > FILES_MAX {
            return Err(WireError::Descriptor.into());
        }
        Ok(broken?)
    }

    /// Processes the outbox. Returns false if it is empty; then the bell is armed.
    fn take_outbox_or_arm(
        &self,
        batch: &mut Vec<u8>,
        mailbox: Option<&Rc<LocalMailbox>>,
    ) -> Result<bool, ReadError> {
        if self.take_outbox(batch, mailbox)? {
            return Ok(true);
        }
        if let Some(page) = self.link.page() {
            page.arm_bell();
        }
        self.take_outbox(batch, mailbox)
    }

    fn take_outbox(
        &self,
        batch: &mut Vec<u8>,
        mailbox: Option<&Rc<LocalMailbox>>,
    ) -> Result<bool, ReadError> {
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

    /// Passes complete frames to the pool; each starts at a multiple of `align`.
    fn handle(
        &self,
        frames: &Bytes,
        align: usize,
        mailbox: Option<&Rc<LocalMailbox>>,
    ) -> Result<(), ReadError> {
        let now = Instant::now();
        self.pool.change(mailbox, |session| {
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
                self.dispatch(frame, || frames.slice(payload), now, session)?;
                at += used.next_multiple_of(align);
            }
            Ok(())
        })
    }

    fn dispatch(
        &self,
        frame: Frame<'_>,
        payload: impl FnOnce() -> Bytes,
        now: Instant,
        session: &mut Session<'_>,
    ) -> Result<(), WireError> {
        let header = frame.header;
        let has_file = header.kind == FrameType::Response && header.flags & flag::FILE != 0;
        let file = if has_file {
            let arrived = self.files.borrow_mut().pop_front();
            Some(arrived.ok_or(WireError::Descriptor)?)
        } else {
            None
        };
        if header.kind == FrameType::Pad {
            return Ok(());
        }
        if header.generation != self.link.generation {
            session.stray();
            return Ok(());
        }
        if matches!(self.input, Input::Calls) && header.kind != FrameType::Call {
            return Ok(());
        }
        let (worker, job) = (self.worker, (header.slot, header.job));
        match header.kind {
            FrameType::Response | FrameType::Upgrade => match file.transpose() {
                Ok(file) => session.answer(worker, &header, payload(), file, now)?,
                Err(_) => session.refuse(worker, job, LOST_FILE, now),
            },
            FrameType::Message => session.message(worker, job, header.flags, payload())?,
            FrameType::Close => session.close(worker, job, &payload())?,
            FrameType::Join | FrameType::Leave => {
                let joins = header.kind == FrameType::Join;
                session.room(worker, job, joins, frame.payload, now)?;
            }
            FrameType::Publish => session.publish(worker, job, header.flags, &payload())?,
            FrameType::Body => session.chunk(worker, job, header.flags, payload(), now)?,
            FrameType::Trailers => session.trailers(worker, job, payload())?,
            FrameType::Reset => session.reset(worker, job, now),
            FrameType::Failure => session.failure(worker, job, frame.payload, now)?,
            FrameType::Ready => session.ready(worker, now),
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
            FrameType::Profiled => {
                if !self.link.profiles.put(payload()) {
                    session.stray();
                }
            }
            FrameType::Call => {
                let id = self.id;
                session.call((worker, id), &self.link, &header, frame.payload, now)?;
            }
            // Other frames of the handshake are over, frames of the other direction mean nothing here, unknown ones are skipped.
            FrameType::Pad
            | FrameType::Hello
            | FrameType::Init
            | FrameType::Failed
            | FrameType::Drain
            | FrameType::Profile
            | FrameType::Request
            | FrameType::Abort
            | FrameType::Return
            | FrameType::Unknown(_) => {}
        }
        Ok(())
    }

    /// Stops a worker whose output is invalid. What it sent before stays valid.
    pub(crate) fn cut_off(&self, error: &ReadError) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(target: "forebay::pool", pool = %self.pool.name, worker = self.id, cause, "{error}; it is stopped");
        let is_there = self.pool.state.lock().has_worker(self.worker, self.id);
        if is_there {
            self.pool.condemn(self.worker, EndCause::Protocol);
        }
        self.link.hang_up();
    }
}

/// The server's end of a worker's call socket.
#[derive(Debug)]
pub struct CallSocket(pub(crate) Reader);

impl CallSocket {
    /// Reads until the worker is gone, on a thread whose runtime has I/O.
    pub async fn run(mut self) {
        abort_on_panic("reader of a call socket", async move {
            if let Err(error) = self.0.read(None).await {
                self.0.cut_off(&error);
            }
        })
        .await;
    }
}

/// A pipe to a worker, kept open while the event loop watches it.
#[derive(Debug)]
pub(crate) struct WatchedPipe(Arc<OwnedFd>);

impl AsRawFd for WatchedPipe {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits until the link is writable.
async fn has_room(socket: &AsyncFd<WatchedSocket>, pipe: Option<&AsyncFd<WatchedPipe>>) -> io::Result<()> {
    match pipe {
        Some(pipe) => pipe.writable().await?.clear_ready(),
        None => socket.writable().await?.clear_ready(),
    }
    Ok(())
}

/// Minimum size of an input with a frame header at `at`.
fn used_at_least(at: usize) -> u64 {
    (at + HEADER_BYTES) as u64
}
