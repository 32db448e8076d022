//! One worker's link, as all threads share it: any thread appends frames and may write them; one thread reads ([`crate::reader`]).

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use forebay_wire::{AbortReason, FRAME_PAYLOAD_MAX, FrameType, Header, flag};
use parking_lot::Mutex;
use rustix::net::{SendFlags, Shutdown};
use tokio::sync::Notify;

use crate::{outbox::Page, state::LinkPort};

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: OwnedFd,
    pub(crate) generation: u16,
    pub(crate) bell: Option<OwnedFd>,
    page: Option<Page>,
    /// Whether the worker claims its jobs: known once it has said so.
    claims: AtomicBool,
    outgoing: Mutex<Outgoing>,
    /// Tells the reader to wait until the socket takes more.
    pub(crate) blocked: Notify,
    /// Tells the supervisor that nothing more will be read from the link.
    pub(crate) ended: Notify,
}

#[derive(Debug, Default)]
struct Outgoing {
    frames: Vec<u8>,
    /// The buffer that is not in use, kept for its memory.
    spare: Vec<u8>,
    /// A thread is writing; it takes what others append meanwhile.
    writing: bool,
    /// The socket is full; the reader writes on when it is not.
    full: bool,
    closed: bool,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd, generation: u16, page: Option<(Page, OwnedFd)>) -> Arc<Self> {
        let (page, bell) = page.unzip();
        Arc::new(Self {
            socket,
            generation,
            bell,
            page,
            claims: AtomicBool::new(false),
            outgoing: Mutex::default(),
            blocked: Notify::new(),
            ended: Notify::new(),
        })
    }

    pub(crate) fn page(&self) -> Option<&Page> {
        self.page.as_ref()
    }

    /// The worker's word that it claims every job before running it. Returns whether there is a page to claim on.
    pub(crate) fn set_claims(&self, claims: bool) -> bool {
        let claims = claims && self.page.is_some();
        self.claims.store(claims, Ordering::Release);
        claims
    }

    fn claims(&self) -> Option<&Page> {
        self.page.as_ref().filter(|_| self.claims.load(Ordering::Acquire))
    }

    fn header(&self, kind: FrameType, flags: u8, slot: u32, number: u32) -> Header {
        Header {
            kind,
            flags,
            generation: self.generation,
            job: number,
            slot,
        }
    }

    fn append(&self, header: &Header, payload: &[u8]) {
        let mut outgoing = self.outgoing.lock();
        if !outgoing.closed {
            forebay_wire::put_frame(&mut outgoing.frames, header, payload);
        }
    }

    /// Appends a frame about the link itself.
    pub(crate) fn control(&self, kind: FrameType, payload: &[u8]) {
        self.append(&Header::link(kind, self.generation), payload);
        self.flush();
    }

    /// Writes what was appended, unless another thread is at it or the socket is full.
    pub(crate) fn flush(&self) {
        let mut outgoing = self.outgoing.lock();
        if outgoing.writing || outgoing.full {
            return;
        }
        outgoing.writing = true;
        while !outgoing.frames.is_empty() && !outgoing.closed {
            let spare = std::mem::take(&mut outgoing.spare);
            let mut frames = std::mem::replace(&mut outgoing.frames, spare);
            drop(outgoing);
            let written = self.write_all(&frames);
            outgoing = self.outgoing.lock();
            match written {
                Ok(()) => {
                    frames.clear();
                    outgoing.spare = frames;
                }
                Err((done, error)) if error == rustix::io::Errno::AGAIN => {
                    frames.drain(..done);
                    frames.append(&mut outgoing.frames);
                    outgoing.frames = frames;
                    outgoing.full = true;
                    self.blocked.notify_one();
                    break;
                }
                Err(_) => {
                    // The worker is gone or going; the reader sees the end of file and settles its jobs.
                    outgoing.closed = true;
                    outgoing.frames = Vec::new();
                }
            }
        }
        outgoing.writing = false;
    }

    fn write_all(&self, mut bytes: &[u8]) -> Result<(), (usize, rustix::io::Errno)> {
        let whole = bytes.len();
        while !bytes.is_empty() {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err((whole - bytes.len(), error)),
            }
        }
        Ok(())
    }

    /// Wakes the reader when answers lie in the outbox: a worker that went from a fast job straight into a slow one has not rung.
    pub(crate) fn announce(&self) {
        if let (Some(page), Some(bell)) = (&self.page, &self.bell)
            && page.has_answers()
        {
            // The counter is full only when nobody has looked for very long, and then it needs no more rings.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// The socket takes more again.
    pub(crate) fn unblock(&self) {
        self.outgoing.lock().full = false;
        self.flush();
    }

    /// Ends the reading side: the reader takes what is there, then sees the end of file.
    pub(crate) fn hang_up(&self) {
        if let Err(error) = rustix::net::shutdown(&self.socket, Shutdown::Both) {
            tracing::debug!(cause = %io::Error::from(error), "link was already shut");
        }
    }
}

impl LinkPort for Arc<Link> {
    fn offer(&self, slot: u32, number: u32, end: bool, payload: &[u8]) {
        if let Some(page) = self.claims() {
            page.offer(slot, number);
        }
        let flags = if end { flag::END } else { 0 };
        self.append(&self.header(FrameType::Request, flags, slot, number), payload);
    }

    fn revoke(&self, slot: u32, number: u32) -> bool {
        self.claims().is_some_and(|page| page.revoke(slot, number))
    }

    fn is_claimed(&self, slot: u32, number: u32) -> bool {
        self.claims().is_none_or(|page| page.is_claimed(slot, number))
    }

    fn abort(&self, slot: u32, number: u32, reason: AbortReason) {
        self.append(&self.header(FrameType::Abort, 0, slot, number), &[reason as u8]);
    }

    fn body(&self, slot: u32, number: u32, bytes: &[u8], end: bool) {
        let mut rest = bytes;
        loop {
            let (now, later) = rest.split_at(rest.len().min(FRAME_PAYLOAD_MAX as usize));
            let flags = if end && later.is_empty() { flag::END } else { 0 };
            self.append(&self.header(FrameType::Body, flags, slot, number), now);
            rest = later;
            if rest.is_empty() {
                return;
            }
        }
    }

    fn window(&self, slot: u32, number: u32, bytes: u32) {
        self.append(
            &self.header(FrameType::Window, 0, slot, number),
            &bytes.to_le_bytes(),
        );
    }
}
