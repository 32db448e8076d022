//! An event loop of the server. Edge-triggered: a connection is driven until it can do nothing more.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, epoll},
    io::Errno,
    net::{RecvFlags, SocketFlags, sockopt},
};

use super::{
    Shared, answer,
    connection::{Connection, DRAIN_NS, Ending, Stream, Wait, Written},
    path::{Action, Fault},
    request::{Asked, Body, Heads, Malformed, place_in},
    stats::{Stats, Tally},
};
use crate::request::Random;

/// Bytes that one read may bring.
const SCRATCH_BYTES: usize = 64 * 1024;
/// Events that one wait may bring.
const EVENTS_MAX: usize = 256;
/// Most connections of one worker. Further ones are closed at once.
const CONNECTIONS_MAX: usize = 65_536;
/// Reads and writes on one connection before the others have their turn.
const ROUNDS_MAX: usize = 32;
/// How long no connection is accepted after one could not be for want of descriptors.
const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// The events of the bell and of the listener; connections have their place.
const BELL: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

pub(super) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    epoll: OwnedFd,
    /// Only the first worker has it; the others are handed their connections.
    listener: Option<OwnedFd>,
    /// When to listen again.
    listens_at: Option<u64>,
    turn: usize,
    connections: Vec<Slot>,
    free: Vec<usize>,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    heads: Heads,
    random: Random,
    scratch: Box<[u8]>,
}

/// A place for a connection.
#[derive(Debug, Default)]
struct Slot {
    /// Tells apart the connections that have had it.
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Closes,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, index: usize, listener: Option<OwnedFd>) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = shared.workers[index].bell.as_fd();
        epoll::add(
            &epoll,
            bell,
            epoll::EventData::new_u64(BELL),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        let mut worker = Self {
            index,
            epoll,
            listener,
            listens_at: None,
            turn: 0,
            connections: Vec::new(),
            free: Vec::new(),
            timers: BinaryHeap::new(),
            heads: Heads::default(),
            random: Random::new(shared.seed.wrapping_add(index as u64)),
            scratch: vec![0; SCRATCH_BYTES].into(),
            shared,
        };
        worker.listen()?;
        Ok(worker)
    }

    /// Works until the server is stopped.
    pub(super) fn run(mut self) {
        // Delays shall end when they are due. Without this only their precision suffers.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.shared.stop.load(Ordering::Acquire) {
            events.clear();
            let wait = self.wait();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                wait.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("the worker's own event queue failed: {error}"),
            }
            for event in &events {
                self.stand_still();
                match event.data.u64() {
                    BELL => self.adopt(),
                    LISTENER => self.accept(),
                    key => self.ready(key, event.flags),
                }
            }
            self.stand_still();
            self.run_timers();
        }
    }

    fn wait(&self) -> Option<Timespec> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let until = [timer, self.listens_at].into_iter().flatten().min()?;
        Some(timespec(until.saturating_sub(self.shared.now())))
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.shared.workers[self.index].tally()
    }

    /// Does nothing while the whole server stalls.
    fn stand_still(&mut self) {
        let shared = self.shared.clone();
        let mut began = None;
        while let Some(end) = shared.stalls.end_at(|| shared.now())
            && !shared.stop.load(Ordering::Acquire)
        {
            let now = shared.now();
            began.get_or_insert(now);
            let wait = timespec(end.saturating_sub(now));
            // A server that is stopped does not stand still any longer.
            let mut bell = [PollFd::new(&shared.stopped, PollFlags::IN)];
            let _ = rustix::event::poll(&mut bell, Some(&wait));
        }
        if let Some(began) = began {
            let stalled = shared.now() - began;
            let mut tally = self.tally();
            tally.stalls += 1;
            tally.stalled_ns += stalled;
        }
    }

    fn listen(&mut self) -> Result<(), Errno> {
        self.listens_at = None;
        match &self.listener {
            Some(listener) => epoll::add(
                &self.epoll,
                listener,
                epoll::EventData::new_u64(LISTENER),
                epoll::EventFlags::IN,
            ),
            None => Ok(()),
        }
    }

    /// Accepts a connection, and hands it to the worker whose turn it is.
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let accepted = match rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        {
            Ok(accepted) => accepted,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                // The connection stays in the queue, and would announce itself without end.
                let _ = epoll::delete(&self.epoll, listener);
                self.listens_at = Some(self.shared.now() + ACCEPT_PAUSE_NS);
                return;
            }
            // Gone again, or not for this worker.
            Err(_) => return,
        };
        // A Unix socket has no such option, and no need of it.
        let _ = sockopt::set_tcp_nodelay(&accepted, true);
        let worker = self.turn;
        self.turn = (worker + 1) % self.shared.workers.len();
        if worker == self.index {
            self.take_in(accepted);
        } else {
            self.shared.workers[worker].hand_over(accepted);
        }
    }

    /// Takes in the connections that were handed over.
    fn adopt(&mut self) {
        let handed: Vec<_> = std::mem::take(&mut *self.shared.workers[self.index].handed());
        for socket in handed {
            self.take_in(socket);
        }
    }

    fn take_in(&mut self, socket: OwnedFd) {
        self.tally().accepted += 1;
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.connections.len() < CONNECTIONS_MAX => {
                self.connections.push(Slot::default());
                self.connections.len() - 1
            }
            None => return,
        };
        let key = u64::from(self.connections[at].generation) << 32 | at as u64;
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(key), flags).is_err() {
            self.free.push(at);
            return;
        }
        self.connections[at].connection = Some(Box::new(Connection::new(socket)));
        self.tally().open += 1;
    }

    fn ready(&mut self, key: u64, flags: epoll::EventFlags) {
        let gone = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let ends = flags.contains(epoll::EventFlags::RDHUP);
        self.with(key, |worker, connection| {
            if gone || ends && matches!(connection.wait, Wait::Forever) {
                return Fate::Closes;
            }
            connection.readable |= ends || flags.contains(epoll::EventFlags::IN);
            worker.drive(key, connection)
        });
    }

    /// Does something with a connection, if it is still there.
    fn with(&mut self, key: u64, act: impl FnOnce(&mut Self, &mut Connection) -> Fate) {
        let (at, generation) = ((key & u64::from(u32::MAX)) as usize, (key >> 32) as u32);
        let Some(slot) = self
            .connections
            .get_mut(at)
            .filter(|slot| slot.generation == generation)
        else {
            return;
        };
        let Some(mut connection) = slot.connection.take() else {
            return;
        };
        match act(self, &mut connection) {
            Fate::Stays => self.connections[at].connection = Some(connection),
            Fate::Closes => {
                self.connections[at].generation = generation.wrapping_add(1);
                self.free.push(at);
                self.tally().open -= 1;
            }
        }
    }

    fn run_timers(&mut self) {
        let now = self.shared.now();
        if self.listens_at.is_some_and(|at| at <= now) && self.listen().is_err() {
            self.listens_at = Some(now + ACCEPT_PAUSE_NS);
        }
        while let Some(&Reverse((at, key))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            self.with(key, |worker, connection| {
                match std::mem::replace(&mut connection.wait, Wait::Nothing) {
                    Wait::Answer(asked) => put_fixed(connection, &asked),
                    Wait::Drain => return Fate::Closes,
                    Wait::Nothing | Wait::Slow | Wait::Forever => {}
                }
                worker.drive(key, connection)
            });
        }
    }

    /// Reads, answers and writes until nothing more can be done now.
    fn drive(&mut self, key: u64, connection: &mut Connection) -> Fate {
        for _ in 0..ROUNDS_MAX {
            if matches!(connection.wait, Wait::Drain) {
                return self.drain(connection);
            }
            self.digest(key, connection, 0);
            if !connection.has_out()
                && matches!(connection.wait, Wait::Nothing)
                && connection.stream.is_some()
                && let Some(again) = connection.go_on(self.shared.now())
            {
                connection.wait = Wait::Slow;
                self.timers.push(Reverse((again, key)));
            }
            if connection.has_out() {
                let ready = self.shared.now();
                let written = connection.flush();
                self.count_written(connection, ready);
                match written {
                    Written::All => {}
                    Written::Some => return Fate::Stays,
                    Written::Failed => return Fate::Closes,
                }
            }
            if matches!(connection.wait, Wait::Slow | Wait::Answer(_) | Wait::Forever) {
                return Fate::Stays;
            }
            if connection.stream.is_some() || connection.more && connection.takes_requests() {
                continue;
            }
            match connection.ending {
                Ending::Resets => {
                    connection.reset_on_close();
                    return Fate::Closes;
                }
                // Closing with something unread would be a reset, and could cost the client its answer.
                Ending::Closes if connection.readable || !connection.input.is_empty() => {
                    connection.shut_down();
                    connection.wait = Wait::Drain;
                    self.timers.push(Reverse((self.shared.now() + DRAIN_NS, key)));
                    continue;
                }
                Ending::Closes => return Fate::Closes,
                Ending::Stays if !connection.readable => return Fate::Stays,
                Ending::Stays => {}
            }
            match rustix::net::recv(&connection.socket, &mut self.scratch[..], RecvFlags::empty()) {
                Ok((0, _)) => return Fate::Closes,
                Ok((received, _)) => {
                    connection.readable = received == self.scratch.len();
                    self.digest(key, connection, received);
                }
                Err(Errno::AGAIN) => connection.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => return Fate::Closes,
            }
        }
        // The others have their turn; changing nothing about what is watched lets the event come again.
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        match epoll::modify(
            &self.epoll,
            &connection.socket,
            epoll::EventData::new_u64(key),
            flags,
        ) {
            Ok(()) => Fate::Stays,
            Err(_) => Fate::Closes,
        }
    }

    /// Throws away what a client still sends to a connection that is being closed.
    fn drain(&mut self, connection: &mut Connection) -> Fate {
        for _ in 0..ROUNDS_MAX {
            match rustix::net::recv(&connection.socket, &mut self.scratch[..], RecvFlags::empty()) {
                Ok((0, _)) => return Fate::Closes,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Fate::Stays,
                Err(_) => return Fate::Closes,
            }
        }
        Fate::Closes
    }

    /// Counts what was written, which was about to be handed to the system at `ready`.
    fn count_written(&mut self, connection: &mut Connection, ready: u64) {
        let now = self.shared.now();
        let mut tally = self.shared.workers[self.index].tally();
        while let Some(due) = connection.next_written() {
            if let Some(place) = due.place {
                tally.paths[place].1.answered += 1;
                tally.service_ns.saturating_record(now.saturating_sub(due.since));
                tally.ready_ns.saturating_record(ready.saturating_sub(due.since));
            }
        }
    }

    /// Understands what was read before, and so many bytes in the scratch buffer.
    fn digest(&mut self, key: u64, connection: &mut Connection, received: usize) {
        if received == 0 && (connection.input.is_empty() || !connection.takes_requests()) {
            return;
        }
        if received > 0 {
            connection.since = self.shared.now();
        }
        let scratch = std::mem::take(&mut self.scratch);
        let result = if connection.input.is_empty() {
            let result = self.requests(key, connection, &scratch[..received]);
            if let Ok(used) = result {
                connection.input.extend_from_slice(&scratch[used..received]);
            }
            result
        } else {
            let mut input = std::mem::take(&mut connection.input);
            input.extend_from_slice(&scratch[..received]);
            let result = self.requests(key, connection, &input);
            if let Ok(used) = result {
                input.drain(..used);
                connection.input = input;
            }
            result
        };
        self.scratch = scratch;
        if let Err(reason) = result {
            self.tally().malformed += 1;
            connection.utter(|out| answer::refusal(out, reason));
            connection.ending = Ending::Closes;
        }
    }

    /// Answers the requests in what was read; returns how much of it they are.
    fn requests(&mut self, key: u64, connection: &mut Connection, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while connection.takes_requests() {
            if let Some((asked, mut body)) = connection.body.take() {
                at += body.take(&bytes[at..])?;
                if !body.has_ended() {
                    connection.body = Some((asked, body));
                    break;
                }
                self.act(key, connection, &asked, body);
            } else if at == bytes.len() {
                break;
            } else {
                let tally = &self.shared.workers[self.index].tally;
                let Some(asked) = self.heads.read(&bytes[at..], place_in(tally))? else {
                    break;
                };
                at += asked.head.len();
                let body = Body::new(asked.body, asked.action == Action::Echo);
                if asked.expects_continue && !body.has_ended() {
                    connection.utter(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
                }
                connection.body = Some((asked, body));
            }
        }
        connection.more = at < bytes.len() && !connection.takes_requests();
        Ok(at)
    }

    /// Answers a request that was read to its end.
    fn act(&mut self, key: u64, connection: &mut Connection, asked: &Rc<Asked>, body: Body) {
        if let Some(place) = asked.place {
            self.tally().paths[place].1.received += 1;
        }
        if !asked.keep_alive {
            connection.ending = Ending::Closes;
        }
        match &asked.action {
            Action::Delay(delay) => self.hold_back(key, connection, asked, *delay),
            Action::DelayBy(distribution) => {
                let delay = distribution.sample(&mut self.random);
                self.hold_back(key, connection, asked, delay);
            }
            Action::Stall { every_ns, for_ns } => {
                put_fixed(connection, asked);
                self.shared.stalls.schedule(self.shared.now(), *every_ns, *for_ns);
                self.shared.ring_all();
            }
            Action::Fault { fault, share } if *share >= 1.0 || self.random.unit() < *share => {
                self.fail(connection, asked, *fault);
            }
            Action::Echo if body.too_long => {
                connection.answer(asked.place, |out| {
                    answer::text(out, asked, 413, "a body of more than 4 MiB is not sent back\n");
                });
            }
            Action::Echo => {
                let bytes = body.kept.unwrap_or_default();
                connection.answer(asked.place, |out| answer::echo(out, asked, &bytes));
            }
            Action::Bytes(bytes) if asked.fixed.is_none() => {
                let length = answer::Length::Known(*bytes);
                stream(connection, asked, length, Stream::Bytes { left: *bytes });
            }
            Action::Chunked(bytes) => chunked(connection, asked, *bytes),
            Action::Stats => {
                let stats = self.shared.stats();
                connection.answer(None, |out| answer::json(out, asked, &stats.to_json()));
            }
            Action::Reset => {
                self.shared
                    .workers
                    .iter()
                    .for_each(|worker| worker.tally().reset());
                connection.answer(None, |out| answer::json(out, asked, &Stats::new().to_json()));
            }
            _ => put_fixed(connection, asked),
        }
    }

    fn hold_back(&mut self, key: u64, connection: &mut Connection, asked: &Rc<Asked>, delay: u64) {
        connection.wait = Wait::Answer(asked.clone());
        self.timers.push(Reverse((connection.since + delay, key)));
    }

    fn fail(&mut self, connection: &mut Connection, asked: &Asked, fault: Fault) {
        match fault {
            Fault::Never => connection.wait = Wait::Forever,
            Fault::Reset => connection.ending = Ending::Resets,
            Fault::Slow { bytes_per_s } => {
                let mut bytes = Vec::new();
                answer::faulty(&mut bytes, asked, fault);
                let stream = Stream::Slow {
                    bytes,
                    at: 0,
                    per_s: bytes_per_s,
                    began: self.shared.now(),
                };
                connection.begin_stream(stream, asked.place);
            }
            Fault::Unsolicited | Fault::Interim => {
                connection.answer(asked.place, |out| answer::faulty(out, asked, fault));
            }
            _ => {
                connection.utter(|out| answer::faulty(out, asked, fault));
                connection.ending = Ending::Closes;
            }
        }
    }
}

/// Puts out the answer that was made when the head was read.
fn put_fixed(connection: &mut Connection, asked: &Asked) {
    if let Some(fixed) = &asked.fixed {
        connection.answer(asked.place, |out| out.extend_from_slice(fixed));
    }
}

/// Begins an answer in chunks, or one that ends with the connection for a client that knows no chunks.
fn chunked(connection: &mut Connection, asked: &Asked, bytes: u64) {
    if asked.old {
        connection.ending = Ending::Closes;
        stream(
            connection,
            asked,
            answer::Length::UntilClose,
            Stream::Bytes { left: bytes },
        );
    } else {
        stream(
            connection,
            asked,
            answer::Length::Chunked,
            Stream::Chunks { left: bytes },
        );
    }
}

/// Begins an answer that is made as the connection takes it.
fn stream(connection: &mut Connection, asked: &Asked, length: answer::Length, body: Stream) {
    let head = |out: &mut Vec<u8>| answer::head(out, asked, 200, "application/octet-stream", length);
    if asked.head_only {
        connection.answer(asked.place, head);
    } else {
        connection.utter(head);
        connection.begin_stream(body, asked.place);
    }
}

/// A length of time in nanoseconds; all that are waited for here are far below what it holds.
fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}
