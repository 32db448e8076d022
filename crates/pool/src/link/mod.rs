//! The link to one worker, shared by all threads: any thread appends frames and may write them; one thread reads ([`crate::reader`]).

mod calls;
mod channel;
mod outgoing;

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use forebay_wire::{
    AbortReason, CONNECTION_BYTES, DETACHED_SLOT, FRAME_PAYLOAD_MAX, FrameType, Header, flag,
};
use parking_lot::Mutex;
use rustix::net::Shutdown;
use tokio::sync::Notify;

use self::outgoing::{LinkState, Outgoing};
pub(crate) use self::{channel::Channel, outgoing::Unread};
use crate::{Protocol, calls::Intake, dialect, outbox::Page, profile::Profiles, state::LinkPort};

/// How a worker claims its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claims {
    /// The worker does not claim jobs.
    None,
    /// By an atomic exchange of the claim word.
    Exchanged,
    /// By reading and writing the claim word under a lock on the page.
    Locked,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) channel: Channel,
    pub(crate) protocol: Protocol,
    pub(crate) generation: u16,
    message_bytes_max: usize,
    pub(crate) intake: Intake,
    /// CPU profiles requested from the worker.
    pub(crate) profiles: Profiles,
    /// Whether the worker has been told to end, in its dialect.
    stopped: AtomicBool,
    pub(crate) bell: Option<OwnedFd>,
    page: Option<Page>,
    /// How the worker claims its jobs; set once it has said so.
    claims: OnceLock<Claims>,
    /// Whether the worker reads what REQUEST says about the connection.
    reads_connection: AtomicBool,
    /// Whether the worker reads the identity of a client.
    takes_identity: AtomicBool,
    outgoing: Mutex<Outgoing>,
    /// Tells the reader to wait until the socket is writable again.
    pub(crate) blocked: Notify,
    /// Tells the reader of a pipe to take what is there and then to end; not used for sockets.
    pub(crate) hung_up: Notify,
    /// Tells the supervisor that nothing more will be read from the link.
    pub(crate) ended: Notify,
}

impl Link {
    pub(crate) fn new(
        channel: Channel,
        protocol: Protocol,
        generation: u16,
        message_bytes_max: usize,
        page: Option<(Page, OwnedFd)>,
    ) -> Arc<Self> {
        let (page, bell) = page.unzip();
        Arc::new(Self {
            bell,
            page,
            ..Self::bare(
                channel,
                protocol,
                generation,
                message_bytes_max,
                Intake::default(),
            )
        })
    }

    /// Creates the second link of the same worker.
    pub(crate) fn beside(&self, socket: OwnedFd) -> Arc<Self> {
        let intake = Intake::beside(&self.intake);
        let channel = Channel::Socket(socket);
        Arc::new(Self::bare(
            channel,
            self.protocol,
            self.generation,
            self.message_bytes_max,
            intake,
        ))
    }

    fn bare(
        channel: Channel,
        protocol: Protocol,
        generation: u16,
        message_bytes_max: usize,
        intake: Intake,
    ) -> Self {
        Self {
            channel,
            protocol,
            generation,
            message_bytes_max,
            intake,
            profiles: Profiles::default(),
            stopped: AtomicBool::new(false),
            bell: None,
            page: None,
            claims: OnceLock::new(),
            reads_connection: AtomicBool::new(false),
            takes_identity: AtomicBool::new(false),
            outgoing: Mutex::default(),
            blocked: Notify::new(),
            hung_up: Notify::new(),
            ended: Notify::new(),
        }
    }

    /// Maximum length of a message from the worker.
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    pub(crate) fn page(&self) -> Option<&Page> {
        self.page.as_ref()
    }

    /// Records how the worker says it claims jobs before running them. Returns whether it claims them at all: that requires a page.
    pub(crate) fn set_claims(&self, claims: Claims) -> bool {
        let claims = *self.claims.get_or_init(|| claims);
        claims != Claims::None && self.page.is_some()
    }

    /// Notes that the worker reads what REQUEST says about the connection.
    pub(crate) fn set_reads_connection(&self) {
        self.reads_connection.store(true, Ordering::Relaxed);
    }

    /// Records whether the worker says that it reads the identity of a client.
    pub(crate) fn set_takes_identity(&self, takes_identity: bool) {
        self.takes_identity.store(takes_identity, Ordering::Relaxed);
    }

    fn claims(&self) -> Option<&Page> {
        let claims = self.claims.get().is_some_and(|claims| *claims != Claims::None);
        self.page.as_ref().filter(|_| claims)
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
        if outgoing.state != LinkState::Closed {
            forebay_wire::put_frame(&mut outgoing.frames, header, payload);
        }
    }

    /// Appends a frame about the link itself, and writes.
    pub(crate) fn control(&self, kind: FrameType, payload: &[u8]) {
        self.append(&Header::link(kind, self.generation), payload);
        self.flush();
    }

    /// Appends a message that is not a frame, and writes.
    pub(crate) fn say(&self, message: &[u8]) {
        let mut outgoing = self.outgoing.lock();
        if outgoing.state == LinkState::Open {
            outgoing.frames.extend_from_slice(message);
        }
        drop(outgoing);
        self.flush();
    }

    /// Tells an idle worker of a dialect to end, and closes its input. Workers with frames get DRAIN instead.
    pub(crate) fn end_input(&self) {
        if !self.protocol.takes_whole_bodies() || self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut word = Vec::new();
        dialect::put_stop(self.protocol, &mut word, libc::SIGTERM);
        let mut outgoing = self.outgoing.lock();
        outgoing.frames.extend_from_slice(&word);
        if outgoing.state == LinkState::Open {
            outgoing.state = LinkState::Ending;
        }
        drop(outgoing);
        self.flush();
    }

    /// Tells a worker that is about to be killed to end at once, if its dialect has a message for that.
    pub(crate) fn stop_now(&self) {
        let mut word = Vec::new();
        dialect::put_stop(self.protocol, &mut word, libc::SIGKILL);
        if !word.is_empty() {
            self.say(&word);
        }
    }

    /// Writes the buffer, unless another thread is writing or the socket is full.
    pub(crate) fn flush(&self) {
        let mut outgoing = self.outgoing.lock();
        if outgoing.writing || outgoing.full {
            return;
        }
        outgoing.writing = true;
        let before = outgoing.state;
        while outgoing.state != LinkState::Closed {
            outgoing.add_returns();
            if outgoing.frames.is_empty() {
                break;
            }
            let spare = std::mem::take(&mut outgoing.spare);
            let mut frames = std::mem::replace(&mut outgoing.frames, spare);
            drop(outgoing);
            let written = self.channel.write_all(&frames);
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
                    outgoing.close();
                }
            }
        }
        outgoing.writing = false;
        let at_end = outgoing.state != LinkState::Open && outgoing.frames.is_empty();
        if at_end && let Channel::Pipes { to, .. } = &self.channel {
            *to.lock() = None;
            if outgoing.state == LinkState::Closed && before == LinkState::Open {
                // The worker no longer reads this pipe, but the other one may still be open.
                self.hung_up.notify_one();
            }
        }
    }

    /// Wakes the reader if there are answers in the outbox: a worker that goes straight from a fast job to a slow one has not rung the
    /// bell.
    pub(crate) fn announce(&self) {
        if let (Some(page), Some(bell)) = (&self.page, &self.bell)
            && page.has_answers()
        {
            // The counter is full only if the reader has not looked for very long, and then it needs no more rings.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// Resumes writing: the socket is writable again.
    pub(crate) fn unblock(&self) {
        self.outgoing.lock().full = false;
        self.flush();
    }

    /// Ends the reading side: the reader takes what is there, then sees the end of file.
    pub(crate) fn hang_up(&self) {
        match &self.channel {
            Channel::Socket(socket) => {
                if let Err(error) = rustix::net::shutdown(socket, Shutdown::Both) {
                    tracing::debug!(target: "forebay::pool", cause = %io::Error::from(error), "link was already shut");
                }
            }
            Channel::Pipes { .. } => self.hung_up.notify_one(),
            // The receiver of the frames may have ended already.
            Channel::Remote(sender) => drop(sender.send(None)),
        }
    }
}

impl LinkPort for Arc<Link> {
    /// For workers of a dialect, `payload` is the translated message. Otherwise it ends with a [`Connection`](forebay_wire::Connection).
    fn offer(&self, slot: u32, number: u32, end: bool, payload: &[u8]) {
        if let Some(page) = self.claims() {
            page.offer(slot, number);
        }
        if self.protocol.takes_whole_bodies() {
            let mut outgoing = self.outgoing.lock();
            if outgoing.state != LinkState::Closed {
                dialect::put_request(self.protocol, &mut outgoing.frames, number, payload);
            }
            return;
        }
        let mut flags = if end { flag::END } else { 0 };
        let mut payload = payload;
        if self.reads_connection.load(Ordering::Relaxed) {
            flags |= flag::CONNECTION;
        } else {
            payload = &payload[..payload.len() - CONNECTION_BYTES];
        }
        let knows_identity = self.takes_identity.load(Ordering::Relaxed);
        let plain = (!knows_identity)
            .then(|| forebay_wire::without_identity(payload))
            .flatten();
        let payload = plain.as_deref().unwrap_or(payload);
        self.append(&self.header(FrameType::Request, flags, slot, number), payload);
    }

    fn revoke(&self, slot: u32, number: u32) -> bool {
        self.claims().is_some_and(|page| match self.claims.get() {
            Some(Claims::Locked) => page.revoke_locked(slot, number),
            _ => page.revoke(slot, number),
        })
    }

    fn is_claimed(&self, slot: u32, number: u32) -> bool {
        self.claims().is_none_or(|page| page.is_claimed(slot, number))
    }

    fn last_commit(&self) -> u64 {
        self.claims().map_or(0, Page::last_commit)
    }

    fn abort(&self, slot: u32, number: u32, reason: AbortReason) {
        // Dialects have no message for this; the worker's answer arrives too late and is dropped.
        if !self.protocol.takes_whole_bodies() {
            self.append(&self.header(FrameType::Abort, 0, slot, number), &[reason as u8]);
        }
    }

    fn body(&self, slot: u32, number: u32, bytes: &[u8], end: bool) {
        assert!(
            !self.protocol.takes_whole_bodies(),
            "a job has its whole body where messages do"
        );
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

    fn trailers(&self, slot: u32, number: u32, block: &[u8]) {
        self.append(&self.header(FrameType::Trailers, 0, slot, number), block);
    }

    fn websocket(&self, kind: FrameType, flags: u8, number: u32, payload: &[u8]) {
        self.append(&self.header(kind, flags, DETACHED_SLOT, number), payload);
    }

    fn window(&self, slot: u32, number: u32, bytes: u32) {
        if self.protocol.takes_whole_bodies() {
            return;
        }
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

    use super::{
        outgoing::{RETURN_BYTES_MAX, RETURNS_AHEAD_BYTES},
        *,
    };

    fn link() -> (Arc<Link>, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let link = Link::new(Channel::Socket(ours), Protocol::Framed, 1, 0, None);
        // The worker gets payloads as they are offered.
        link.set_reads_connection();
        (link, theirs)
    }

    /// Reads everything that is available.
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

    /// Job numbers of all complete frames.
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
        // While the socket is full, others append without writing.
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
                        // Stay close to the socket's pace, so that all threads compete until the end.
                        while link.outgoing.lock().frames.len() > 100_000 {
                            std::thread::yield_now();
                        }
                        let job = thread * EACH + turn + 1;
                        link.offer(0, job, true, &vec![job as u8; length(turn)]);
                        link.flush();
                    }
                });
            }
            // Act as the reader: wait for room, then resume writing.
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
    fn long_answers_to_calls_take_turns_and_hold_up_no_other_frame() {
        let (link, worker) = link();
        let header = link.header(FrameType::Return, 0, 0, 9);
        for number in [1, 2] {
            link.outgoing
                .lock()
                .put_return(header, number, vec![9; 3 << 20])
                .unwrap();
        }
        link.flush();
        assert!(link.outgoing.lock().frames.len() < 2 * RETURNS_AHEAD_BYTES);
        link.offer(0, 9, true, &[9; 10]);
        let mut received = Vec::new();
        while drain(&worker, &mut received) {
            link.unblock();
        }
        let (mut at, mut order) = (0, Vec::new());
        while let Ok(Split::Whole { frame, used }) = split_frame(&received[at..]) {
            order.push((frame.header.kind, frame.payload[0], frame.header.has(flag::END)));
            at += used;
        }
        assert_eq!(at, received.len());
        let request = order.iter().position(|(kind, ..)| *kind == FrameType::Request);
        assert!(
            request.unwrap() < order.len() / 2,
            "{request:?} of {}",
            order.len()
        );
        order.retain(|(kind, ..)| *kind == FrameType::Return);
        let pieces = order.len();
        assert!(order.chunks(2).all(|pair| pair[0].1 == 1 && pair[1].1 == 2));
        assert!(order[..pieces - 2].iter().all(|(.., ends)| !ends));
        assert!(order[pieces - 1].2 && order[pieces - 2].2);
        assert_eq!(link.outgoing.lock().return_bytes, 0);
    }

    #[test]
    fn answers_that_nobody_reads_are_bounded() {
        let (link, _worker) = link();
        let header = link.header(FrameType::Return, 0, 0, 9);
        link.outgoing
            .lock()
            .put_return(header, 1, vec![0; RETURN_BYTES_MAX])
            .unwrap();
        let refused = link.outgoing.lock().put_return(header, 2, vec![0]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the result has 1 bytes; with those that wait to be read, that is more than 268435456"
        );
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
        assert!(outgoing.state == LinkState::Closed && outgoing.frames.is_empty() && !outgoing.writing);
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
