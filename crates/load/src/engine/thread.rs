//! An event loop: connections that send, read, and send again. An answer is followed by the next request at once, so a request costs
//! one read, one write, and its share of one wait for all connections that are ready (edge-triggered epoll).

mod exchange;
mod streams;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, mpsc::Sender},
};

use rustix::{
    event::{Timespec, epoll},
    io::Errno,
};

use super::{
    Command, Inbox, Notice,
    budget::Budget,
    calls::{self, Call},
    clock::Clock,
    connection::{Connection, Phase},
    pacing::Pacer,
    transport::PLAIN_BYTES_MIN,
    window::{WINDOW_NS, Window},
};
use crate::{
    failure::Class,
    h2,
    plan::{Load, Pace, Plan},
    request::{Seat, Source},
    response::KnownHead,
};

/// Bytes that one read may bring.
const SCRATCH_BYTES: usize = 32 * 1024;
const _: () = assert!(SCRATCH_BYTES >= PLAIN_BYTES_MIN);
/// Reads of one connection before the others have their turn.
const READS_MAX: usize = 16;
/// Events that one wait may bring.
const EVENTS_MAX: usize = 512;
/// The event of the bell that announces commands.
const BELL: u64 = u64::MAX;
/// First pause after an attempt to connect that failed; it doubles up to [`BACKOFF_MAX_NS`].
const BACKOFF_NS: u64 = 10_000_000;
const BACKOFF_MAX_NS: u64 = 1_000_000_000;
/// How long a connection that has carried its only request waits for the other side to close it.
const CLOSE_WAIT_NS: u64 = 1_000_000_000;
/// A loop without events looks up at least so often.
const WAIT_MAX_NS: u64 = 1_000_000_000;

pub(super) struct Thread {
    connections: Vec<Connection>,
    context: Context,
}

/// What all connections of a thread work with.
struct Context {
    plan: Arc<Plan>,
    index: usize,
    clock: Clock,
    epoll: OwnedFd,
    inbox: Arc<Inbox>,
    notices: Sender<Notice>,
    load: Load,
    /// Connections of this thread that are in use: those with a lower index.
    active: usize,
    pacer: Option<Pacer>,
    budget: Budget,
    sources: Vec<Source>,
    known: Vec<KnownHead>,
    /// For lanes with HTTP/2.
    coders: Vec<h2::Coder>,
    window: Window,
    epoch: u64,
    /// When the last wait ended.
    woke: u64,
    /// Connections that have got answers in this turn and may send again.
    answered: Vec<usize>,
    scratch: Box<[u8]>,
    rendered: Vec<u8>,
    /// Connections that wait for a request of an open load to be due.
    waiting: VecDeque<usize>,
    /// When to look at a connection again.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    in_flight: usize,
    /// Whether [`Notice::Idle`] was sent for what is under way.
    idle_told: bool,
    examples_told: u32,
    negotiated_told: bool,
    next_sweep: u64,
    sweep_every: u64,
    looks: Looks,
}

/// How much of an answer is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Status,
    /// The length of its body, too.
    Length,
    /// All of it, so that heads and bodies are kept.
    All,
}

/// What became of a connection after it was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Goes,
    /// It was closed and is to be made anew.
    Reopen,
}

/// What is known about the end of a stream before it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Unknown,
    /// The other side has said that it sends nothing more.
    Orderly,
    /// Reading to the end brings an error.
    Broken,
}

impl Thread {
    pub(super) fn new(
        plan: Arc<Plan>,
        index: usize,
        clock: Clock,
        inbox: Arc<Inbox>,
        notices: Sender<Notice>,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            inbox.bell.as_fd(),
            epoll::EventData::new_u64(BELL),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        let source = |(lane, carried): (usize, &crate::plan::Lane)| {
            let seat = Seat {
                thread: index,
                threads: plan.threads,
                lane,
                lanes: plan.lanes.len(),
            };
            Source::new(&carried.requests, plan.pipeline, plan.seed, seat)
        };
        let sources: Vec<_> = plan.lanes.iter().enumerate().map(source).collect();
        let acts = sources.iter().any(Source::has_users);
        let known = plan.lanes.iter().map(|_| KnownHead::default()).collect();
        let coders = plan
            .lanes
            .iter()
            .map(|lane| h2::Coder::new(lane.link.tls.is_some()))
            .collect();
        let shortest = plan.timeout.min(plan.connect_timeout);
        let now = clock.now();
        let context = Context {
            index,
            clock,
            epoll,
            inbox,
            notices,
            load: Load::PAUSED,
            active: 0,
            pacer: None,
            budget: Budget::new(None, plan.threads),
            sources,
            known,
            coders,
            window: Window::new(0, now, false),
            epoch: 0,
            woke: now,
            answered: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into(),
            rendered: Vec::new(),
            waiting: VecDeque::new(),
            timers: BinaryHeap::new(),
            in_flight: 0,
            idle_told: true,
            examples_told: 0,
            negotiated_told: false,
            next_sweep: now,
            sweep_every: (shortest.as_nanos() as u64 / 20).clamp(1_000_000, 100_000_000),
            looks: match (&plan.expect, acts) {
                (_, true) => Looks::All,
                (expect, _) if expect.keeps() => Looks::All,
                (expect, _) if expect.looks() => Looks::Length,
                _ => Looks::Status,
            },
            plan,
        };
        Ok(Self {
            connections: Vec::new(),
            context,
        })
    }

    /// Works until it is told to end.
    pub(super) fn run(mut self) {
        // Waits shall end when they are due, not when the kernel finds it convenient. Without this only the lag grows.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let wait = self.wait();
            events.clear();
            calls::count(Call::Wait);
            match epoll::wait(
                &self.context.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&wait),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("the thread's own event queue failed: {error}"),
            }
            // What is ready now has come by now: later readings would count this thread's own work as waiting.
            self.context.woke = self.context.clock.now();
            for event in &events {
                let (data, flags) = (event.data.u64(), event.flags);
                if data != BELL {
                    self.ready(data as usize, flags);
                }
            }
            self.send_answered();
            let now = self.context.clock.now();
            if events.iter().any(|event| event.data.u64() == BELL) {
                for command in self.context.inbox.take() {
                    if self.obey(command, now) {
                        return;
                    }
                }
            }
            self.send_due(now);
            self.run_timers(now);
            if now >= self.context.next_sweep {
                self.context.next_sweep = now + self.context.sweep_every;
                self.sweep(now);
            }
            if now >= self.context.window.start_ns + WINDOW_NS {
                self.context.publish(now);
            }
            self.context.tell_idle();
        }
    }

    fn wait(&self) -> Timespec {
        let context = &self.context;
        let now = context.clock.now();
        let mut until = now + WAIT_MAX_NS;
        if context.active > 0 || context.in_flight > 0 {
            until = until
                .min(context.next_sweep)
                .min(context.window.start_ns + WINDOW_NS);
        }
        if let Some(pacer) = &context.pacer {
            until = until.min(pacer.next_due());
        }
        if let Some(Reverse((at, _))) = context.timers.peek() {
            until = until.min(*at);
        }
        let wait = until.saturating_sub(now);
        Timespec {
            tv_sec: (wait / 1_000_000_000).cast_signed(),
            tv_nsec: (wait % 1_000_000_000).cast_signed(),
        }
    }

    /// Does what the session asks. True: the thread shall end.
    fn obey(&mut self, command: Command, now: u64) -> bool {
        match command {
            Command::Load(load) => self.set_load(load, now),
            Command::Epoch {
                number,
                requests,
                load,
            } => {
                self.context.publish(now);
                self.context.epoch = number;
                self.context.window.epoch = number;
                self.context.budget = requests;
                self.context.idle_told = false;
                self.context.examples_told = 0;
                let _ = self.context.notices.send(Notice::Began(number));
                self.set_load(load, now);
            }
            Command::End => {
                let unanswered = self.context.in_flight as u64;
                self.context.window.failures.add(Class::Unanswered, unanswered);
                self.context.publish(now);
                return true;
            }
        }
        false
    }

    fn set_load(&mut self, load: Load, now: u64) {
        let threads = self.context.plan.threads;
        let before = std::mem::replace(&mut self.context.load, load);
        let rest = usize::from(self.context.index < load.connections % threads);
        self.context.active = load.connections / threads + rest;
        self.context.idle_told = false;
        let pacer = Pacer::new(
            load.pace,
            self.context.index,
            threads,
            self.context.plan.seed,
            now,
        );
        match (&mut self.context.pacer, pacer) {
            (Some(going), Some(next)) => going.resume(next, now),
            (pacer, next) => *pacer = next,
        }
        let paced = load.pace != Pace::Closed;
        if paced && self.context.window.service.is_none() {
            self.context.publish(now);
        }
        while self.connections.len() < self.context.active {
            let index = self.connections.len();
            let lane = (index * threads + self.context.index) % self.context.plan.lanes.len();
            let user = self.context.sources[lane].user(index);
            self.connections
                .push(Connection::new(index, lane, self.context.keeps(), user));
        }
        if let Pace::PerConnection { per_second } = load.pace
            && before.pace != load.pace
        {
            // Spread over the first interval, or all of them would send at once.
            let interval = 1e9 / per_second;
            let active = self.context.active.max(1) as f64;
            for connection in &mut self.connections[..self.context.active] {
                connection.next_due = now + (interval * connection.index as f64 / active) as u64;
            }
        }
        for index in 0..self.context.active {
            let connection = &mut self.connections[index];
            if connection.phase == Phase::Closed {
                self.open(index, now);
            } else {
                self.pump(index, now);
            }
        }
    }

    fn open(&mut self, index: usize, now: u64) {
        let connection = &mut self.connections[index];
        if connection.phase == Phase::Closed && index < self.context.active && !self.context.budget.is_spent()
        {
            match self.context.connect(connection, now) {
                After::Goes => self.pump(index, now),
                After::Reopen => self.go_on(index, After::Reopen, now),
            }
        }
    }

    /// Sends what may be sent on a connection.
    fn pump(&mut self, index: usize, now: u64) {
        let connection = &mut self.connections[index];
        let mut after = self.context.fill(connection, now);
        if after == After::Goes && connection.h2.is_some() {
            after = self.context.send_frames(connection);
        }
        self.go_on(index, after, now);
    }

    fn go_on(&mut self, index: usize, after: After, now: u64) {
        if after == After::Reopen {
            // Without a pause a server that takes connections and answers nothing would be flooded with them.
            match self.connections[index].failed_attempts {
                0 => self.open(index, now),
                failed => {
                    let pause = (BACKOFF_NS << (failed - 1).min(10)).min(BACKOFF_MAX_NS);
                    self.context.timers.push(Reverse((now + pause, index)));
                }
            }
        }
    }

    fn ready(&mut self, index: usize, flags: epoll::EventFlags) {
        let hung_up =
            flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let connection = &mut self.connections[index];
        let mut after = After::Goes;
        let moved = hung_up || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::OUT);
        if connection.phase == Phase::Connecting && moved {
            let now = self.context.clock.now();
            after = self.context.connected(connection, hung_up, now);
            if after == After::Goes {
                after = self.context.fill(connection, now);
            }
        }
        if after == After::Goes && matches!(connection.phase, Phase::Open | Phase::Greeting) {
            if flags.contains(epoll::EventFlags::OUT) && connection.holds_unsent() {
                let now = self.context.clock.now();
                after = self.context.flush(connection, now);
            }
            let brings = hung_up || flags.contains(epoll::EventFlags::IN) || connection.holds_received();
            if after == After::Goes && brings {
                let end = match () {
                    () if flags.contains(epoll::EventFlags::ERR) => End::Broken,
                    () if hung_up => End::Orderly,
                    () => End::Unknown,
                };
                after = self.context.receive(connection, end);
            }
        }
        if after == After::Reopen {
            let now = self.context.clock.now();
            self.go_on(index, after, now);
        }
    }

    /// Sends on all connections that were read in this turn. Reading them all first lets the server sleep until there is work for a
    /// while, and wakes it once.
    fn send_answered(&mut self) {
        for at in 0..self.context.answered.len() {
            let now = self.context.clock.now();
            self.pump(self.context.answered[at], now);
        }
        self.context.answered.clear();
    }

    /// Gives requests that are due to connections that wait for some.
    fn send_due(&mut self, now: u64) {
        let Some(pacer) = &mut self.context.pacer else {
            return;
        };
        let dropped = pacer.advance(now);
        if dropped > 0 && !self.context.budget.is_spent() {
            self.context.window.failures.add(Class::Dropped, dropped);
            self.context.example(Class::Dropped, || {
                "more requests were due and waiting than are kept".into()
            });
        }
        while let Some(pacer) = &mut self.context.pacer
            && !pacer.backlog.is_empty()
        {
            if self.context.budget.is_spent() {
                // All that were asked for are sent; what is due beyond them is nobody's.
                pacer.backlog.clear();
                return;
            }
            let Some(index) = self.context.waiting.pop_front() else {
                return;
            };
            self.connections[index].waits = false;
            self.pump(index, now);
        }
    }

    fn run_timers(&mut self, now: u64) {
        while let Some(&Reverse((at, index))) = self.context.timers.peek()
            && at <= now
        {
            self.context.timers.pop();
            match self.connections[index].phase {
                Phase::Closed => self.open(index, now),
                Phase::Connecting | Phase::Greeting => {}
                Phase::Open => self.pump(index, now),
            }
        }
    }

    fn sweep(&mut self, now: u64) {
        let timeout = self.context.plan.timeout.as_nanos() as u64;
        let connect_timeout = self.context.plan.connect_timeout.as_nanos() as u64;
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            let after = match (connection.phase, connection.in_flight.front()) {
                (Phase::Connecting | Phase::Greeting, _) if now - connection.since >= connect_timeout => {
                    let awaits = connection.awaits();
                    self.context
                        .connect_failed(connection, Class::ConnectTimeout, awaits)
                }
                // One answer is late, the connection is alive.
                (Phase::Open, Some(sent))
                    if now.saturating_sub(sent.at) >= timeout
                        && connection.h2.is_some()
                        && connection.heard > sent.at =>
                {
                    self.context.cancel_late(connection, now)
                }
                // The other side was to close, and does not.
                (Phase::Open, None)
                    if !self.context.plan.keep_alive
                        && connection.carried > 0
                        && now - connection.since >= CLOSE_WAIT_NS =>
                {
                    self.context.reopen(connection)
                }
                (Phase::Open, Some(sent)) if now.saturating_sub(sent.at) >= timeout => {
                    for sent in &connection.in_flight {
                        self.context
                            .window
                            .latency
                            .saturating_record(now.saturating_sub(sent.due));
                    }
                    self.context
                        .close(connection, Class::Timeout, "no whole answer within the time-out")
                }
                _ => continue,
            };
            self.go_on(index, after, now);
        }
    }
}
