//! An event loop: connections that send, read, and send again. A response is followed by the next request in the same turn. With epoll
//! (edge-triggered) a request costs one read, one write, and its share of one wait for all connections that are ready; with io_uring
//! (`completions.rs`) its share of one call for everything.

mod commands;
mod completions;
mod exchange;
mod opening;
mod timeouts;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

use rustix::{
    event::{Timespec, epoll},
    io::Errno,
};

use self::timeouts::Timeouts;
use super::{
    Clock, Command, Inbox, Notice,
    budget::Budget,
    connection::{Connection, Phase},
    outbox::Outbox,
    pacing::Pacer,
    ring::{self, Completion, Ring},
    transport::PLAIN_BYTES_MIN,
    window::{WINDOW_NS, Window},
};
use crate::{
    failure::Class,
    plan::{Load, Pace, Plan},
    request::{Source, SourceId},
    response::KnownHead,
};

/// Most bytes of one read.
const SCRATCH_BYTES: usize = 32 * 1024;
const _: () = assert!(SCRATCH_BYTES >= PLAIN_BYTES_MIN);
/// Reads of one connection before the others get their turn.
const READS_MAX: usize = 16;
/// Most events of one wait.
const EVENTS_MAX: usize = 512;
/// Tag of the event that announces commands.
const BELL: u64 = u64::MAX;
/// First pause after an attempt to connect that failed; it doubles up to [`BACKOFF_MAX_NS`].
const BACKOFF_NS: u64 = 10_000_000;
const BACKOFF_MAX_NS: u64 = 1_000_000_000;
/// Longest wait of a loop without events.
const WAIT_MAX_NS: u64 = 1_000_000_000;

pub(super) struct Thread {
    connections: Vec<Connection>,
    context: Context,
    completions: Vec<Completion>,
}

/// State that all connections of a thread share.
struct Context {
    plan: Arc<Plan>,
    index: usize,
    clock: Clock,
    epoll: OwnedFd,
    /// The ring, with io_uring.
    ring: Option<Ring>,
    /// For each lane, whether its connections move to the ring once they are open.
    on_ring: Vec<bool>,
    /// Number of registrations with the ring so far.
    ring_turns: u32,
    inbox: Arc<Inbox>,
    notices: Outbox,
    load: Load,
    /// Connections of this thread that are in use: those with a lower index.
    active: usize,
    pacer: Option<Pacer>,
    budget: Budget,
    sources: Vec<Source>,
    known: Vec<KnownHead>,
    window: Window,
    epoch: u64,
    /// When the last wait ended.
    woke: u64,
    /// Connections that have received responses in this turn and may send again.
    answered: Vec<usize>,
    scratch: Box<[u8]>,
    rendered: Vec<u8>,
    /// Idle connections of an open load: each waits for the next request to be due.
    waiting: VecDeque<usize>,
    /// When to look at a connection again.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    in_flight: usize,
    /// Whether [`Notice::Idle`] was sent for the current stretch.
    idle_reported: bool,
    examples_reported: u32,
    timeouts: Timeouts,
    next_sweep: u64,
    sweep_every: u64,
    looks: Looks,
}

/// How much of a response is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Status,
    /// The length of the body, too.
    Length,
    /// Everything, so bodies are kept.
    All,
}

/// The state of a connection after an operation on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Goes,
    /// It was closed and is to be opened again.
    Reopen,
}

/// How a stream ends, as far as that is known before it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Unknown,
    /// The server has announced that it sends nothing more.
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
            let id = SourceId {
                thread: index,
                threads: plan.threads,
                lane,
                lanes: plan.lanes.len(),
            };
            Source::new(&carried.requests, plan.pipeline, plan.seed, id)
        };
        let sources: Vec<_> = plan.lanes.iter().enumerate().map(source).collect();
        let known = plan.lanes.iter().map(|_| KnownHead::default()).collect();
        let timeouts = Timeouts::new(&plan);
        let now = clock.now();
        let ring = ring::for_thread(&plan)?;
        let looks = match &plan.expect {
            expect if expect.keeps() => Looks::All,
            expect if expect.looks() => Looks::Length,
            _ => Looks::Status,
        };
        let context = Context {
            index,
            clock,
            epoll,
            on_ring: plan.lanes.iter().map(|lane| plan.suits_ring(lane)).collect(),
            ring,
            ring_turns: 0,
            inbox,
            notices: Outbox::new(notices),
            load: Load::PAUSED,
            active: 0,
            pacer: None,
            budget: Budget::new(None, plan.threads),
            sources,
            known,
            window: Window::new(0, now, false),
            epoch: 0,
            woke: now,
            answered: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into(),
            rendered: Vec::new(),
            waiting: VecDeque::new(),
            timers: BinaryHeap::new(),
            in_flight: 0,
            idle_reported: true,
            examples_reported: 0,
            next_sweep: now,
            sweep_every: timeouts.sweep_every_ns(),
            timeouts,
            looks,
            plan,
        };
        Ok(Self {
            connections: Vec::new(),
            context,
            completions: Vec::new(),
        })
    }

    /// Runs until the session ends the thread.
    pub(super) fn run(mut self) {
        // Waits must end when they are due, not when the kernel finds it convenient. If this fails, requests are only sent a little later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Some(ring) = &self.context.ring {
            ring.enable()
                .unwrap_or_else(|error| panic!("the thread's own ring failed: {error}"));
            self.context.await_events();
        }
        loop {
            let longest = self.longest_wait();
            let rung = if self.context.ring.is_some() {
                self.take_completions(longest)
            } else {
                self.take_events(longest)
            };
            self.send_answered();
            let now = self.context.clock.now();
            if rung {
                for command in self.context.inbox.take() {
                    if self.execute(command, now) {
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

    /// Waits for events of epoll and handles them; true if there are commands.
    fn take_events(&mut self, longest: Duration) -> bool {
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let longest = Timespec {
            tv_sec: longest.as_secs().cast_signed(),
            tv_nsec: longest.subsec_nanos().into(),
        };
        let events: &[_] = match epoll::wait(&self.context.epoll, &mut space, Some(&longest)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &[],
            Err(error) => panic!("the thread's own event queue failed: {error}"),
        };
        // Everything that is ready arrived before this moment: reading the clock later would count this thread's own work as latency.
        self.context.woke = self.context.clock.now();
        let mut rung = false;
        for event in events {
            match event.data.u64() {
                BELL => rung = true,
                index => self.ready(index as usize, event.flags),
            }
        }
        rung
    }

    fn longest_wait(&self) -> Duration {
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
        Duration::from_nanos(until.saturating_sub(now))
    }

    fn open(&mut self, index: usize, now: u64) {
        let connection = &mut self.connections[index];
        if connection.phase == Phase::Closed
            && index < self.context.active
            && now >= connection.not_before
            && !self.context.budget.is_spent()
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
        let after = self.context.fill(connection, now);
        self.go_on(index, after, now);
    }

    fn go_on(&mut self, index: usize, after: After, now: u64) {
        if after == After::Reopen {
            // Without a pause, a server that accepts connections and never responds would be flooded with them.
            match self.connections[index].failed_attempts {
                0 => self.open(index, now),
                failed => {
                    let pause = (BACKOFF_NS << (failed - 1).min(10)).min(BACKOFF_MAX_NS);
                    self.connections[index].not_before = now + pause;
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
            after = self.context.connected(connection, hung_up);
            if after == After::Goes {
                let now = self.context.clock.now();
                after = self.context.fill(connection, now);
            }
        }
        if after == After::Goes && connection.phase == Phase::Open {
            if flags.contains(epoll::EventFlags::OUT) && connection.holds_unsent() {
                let now = self.context.clock.now();
                after = self.context.flush(connection, now);
            }
            let brings = hung_up || flags.contains(epoll::EventFlags::IN) || connection.holds_received();
            // The connection may have moved to the ring meanwhile, which then does the reading.
            if after == After::Goes && brings && connection.ring_turn == 0 {
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

    /// Sends on all connections that were read in this turn. Reading all of them first lets the server sleep until there is work for a
    /// while, and wakes it once.
    fn send_answered(&mut self) {
        for at in 0..self.context.answered.len() {
            let now = self.context.clock.now();
            self.pump(self.context.answered[at], now);
        }
        self.context.answered.clear();
    }

    /// Hands requests that are due to idle connections.
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
                // Every request that was asked for has been sent; drop those that are due beyond that number.
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
                Phase::Connecting => {}
                Phase::Open => self.pump(index, now),
            }
        }
    }

    fn sweep(&mut self, now: u64) {
        for index in 0..self.connections.len() {
            let after = self.context.enforce_timeouts(&mut self.connections[index], now);
            self.go_on(index, after, now);
        }
    }
}
