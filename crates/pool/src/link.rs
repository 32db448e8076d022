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
            tracing::debug!(target: "forebay::pool", cause = %io::Error::from(error), "link was already shut");
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

    fn last_commit(&self) -> u64 {
        self.claims().map_or(0, Page::last_commit)
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

#[cfg(test)]
mod tests {
    use forebay_wire::{HEADER_BYTES, Split, split_frame};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn link() -> (Arc<Link>, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        (Link::new(ours, 1, None), theirs)
    }

    /// Everything that can be read now.
    fn drain(socket: &OwnedFd, into: &mut Vec<u8>) -> bool {
        let before = into.len();
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read) = rustix::io::read(socket, &mut bytes[..]) {
            if read == 0 {
                break;
            }
            into.extend_from_slice(&bytes[..read]);
        }
        into.len() > before
    }

    /// The numbers of the jobs that whole frames name.
    fn jobs(bytes: &[u8]) -> Vec<u32> {
        let mut at = 0;
        let mut jobs = Vec::new();
        while let Ok(Split::Whole { frame, used }) = split_frame(&bytes[at..]) {
            assert!(frame.payload.iter().all(|&byte| byte == frame.header.job as u8));
            jobs.push(frame.header.job);
            at += used;
        }
        assert_eq!(at, bytes.len(), "whole frames only");
        jobs
    }

    fn is_told_to_wait(link: &Link) -> bool {
        let mut notified = std::pin::pin!(link.blocked.notified());
        notified.as_mut().enable()
    }

    #[test]
    fn what_does_not_fit_into_the_socket_follows_in_order_once_it_does() {
        let (link, worker) = link();
        let mut received = Vec::new();
        let payload = |job: u32| vec![job as u8; 10_000];
        for job in 1..=200 {
            link.offer(0, job, true, &payload(job));
            link.flush();
        }
        assert!(
            is_told_to_wait(&link),
            "the reader learns that the socket is full"
        );
        // While it is full, others append and nobody writes.
        link.offer(0, 201, true, &payload(201));
        link.flush();
        while drain(&worker, &mut received) {
            link.unblock();
        }
        assert_eq!(jobs(&received), (1..=201).collect::<Vec<_>>());
        assert_eq!(received.len(), 201 * (10_000 + HEADER_BYTES));
    }

    #[test]
    fn threads_that_write_at_once_mix_up_no_frames() {
        const THREADS: u32 = 4;
        const EACH: u32 = 300;
        let length = |turn: u32| 5_000 + turn as usize * 7919 % 50_000;
        let bytes = THREADS as usize * (0..EACH).map(|turn| HEADER_BYTES + length(turn)).sum::<usize>();
        let (link, worker) = link();
        let mut received = Vec::new();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let link = &link;
                scope.spawn(move || {
                    for turn in 0..EACH {
                        // Not far ahead of the socket, so that all of them are at it until the end.
                        while link.outgoing.lock().frames.len() > 100_000 {
                            std::thread::yield_now();
                        }
                        let job = thread * EACH + turn + 1;
                        link.offer(0, job, true, &vec![job as u8; length(turn)]);
                        link.flush();
                    }
                });
            }
            // What the reader does: wait for room, then write on.
            while received.len() < bytes {
                drain(&worker, &mut received);
                if is_told_to_wait(&link) {
                    link.unblock();
                }
                std::thread::yield_now();
            }
        });
        let mut jobs = jobs(&received);
        let of_thread = |thread| jobs.iter().filter(move |&&job| (job - 1) / EACH == thread);
        for thread in 0..THREADS {
            assert!(
                of_thread(thread).is_sorted(),
                "a thread's frames keep their order"
            );
        }
        jobs.sort_unstable();
        assert_eq!(jobs, (1..=THREADS * EACH).collect::<Vec<_>>());
    }

    #[test]
    fn a_link_whose_worker_is_gone_keeps_nothing() {
        let (link, worker) = link();
        drop(worker);
        link.offer(0, 1, true, &[0; 100]);
        link.flush();
        link.offer(0, 2, true, &[0; 100]);
        link.flush();
        let outgoing = link.outgoing.lock();
        assert!(outgoing.closed && outgoing.frames.is_empty() && !outgoing.writing);
    }

    #[test]
    fn a_long_body_is_cut_into_frames_and_ends_once() {
        let (link, worker) = link();
        let length = 2 * FRAME_PAYLOAD_MAX as usize + 5;
        link.body(3, 7, &vec![7; length], true);
        link.flush();
        let mut received = Vec::new();
        while drain(&worker, &mut received) {
            link.unblock();
        }
        let mut ends = Vec::new();
        let mut at = 0;
        while let Ok(Split::Whole { frame, used }) = split_frame(&received[at..]) {
            ends.push((frame.payload.len(), frame.header.has(flag::END)));
            at += used;
        }
        let whole = FRAME_PAYLOAD_MAX as usize;
        assert_eq!(ends, [(whole, false), (whole, false), (5, true)]);
    }
}
