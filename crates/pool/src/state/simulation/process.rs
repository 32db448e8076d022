//! A simulated worker process: it claims, runs, answers, spins, crashes and hangs as its jobs' scripts say.

use std::{
    collections::VecDeque,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    clients::{Clients, Kind, Script},
    dice::Dice,
    wire::{Offer, ToWorker, Wire},
};

/// Maximum time that a frame is in transit.
const LATENCY_MAX: Duration = Duration::from_millis(25);
/// Maximum duration of stop hooks: less than any `kill_grace`.
const STOP_HOOKS_US_MAX: u64 = 45_000;

/// A message from a worker to the server. Frames arrive in order, each a little later than it was written.
#[derive(Clone, Copy, Debug)]
pub(super) enum FromWorker {
    Ready,
    Answer {
        slot: u32,
        number: u32,
        serial: u64,
        run_us: u32,
        end: bool,
        fault: bool,
    },
    Chunk {
        slot: u32,
        number: u32,
        serial: u64,
        end: bool,
    },
    Reset {
        slot: u32,
        number: u32,
    },
    Window {
        slot: u32,
        number: u32,
    },
    /// A RESPONSE that does not decode, or a body before it.
    Garbage {
        slot: u32,
        number: u32,
        body: bool,
    },
    /// The end of file, after everything else.
    Gone,
}

/// The outcome of a start.
#[derive(Clone, Copy, Debug)]
pub(super) enum Boot {
    Ready(Duration),
    Dies(Duration),
    Hangs,
    /// Becomes ready, starts no job, and ends after this time, whatever it holds then.
    Stillborn(Duration),
}

#[derive(Debug)]
struct Run {
    offer: Offer,
    script: Script,
    started: Instant,
    /// Time of the next step of its script. `None` if there is none without outside action.
    next: Option<Instant>,
    chunks_sent: u32,
    answered: bool,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Process {
    pub(super) id: u64,
    pub(super) key: usize,
    pub(super) wire: Rc<Wire>,
    pub(super) spawned: Instant,
    pub(super) booted: bool,
    /// The server has abandoned its link.
    pub(super) detached: bool,
    pub(super) dead: bool,
    pub(super) termed: Option<Instant>,
    pub(super) killed: Option<Instant>,
    boot: Boot,
    claims: bool,
    concurrency: usize,
    heeds_drain: bool,
    heeds_term: bool,
    draining: bool,
    /// When it finished draining and began its stop hooks.
    pub(super) done: Option<Instant>,
    dies_at: Option<Instant>,
    reads_at: Option<Instant>,
    busy_until: Instant,
    spins: bool,
    inbox: VecDeque<Offer>,
    /// Whether it has run any job.
    ran: bool,
    runs: Vec<Run>,
    mail: VecDeque<(Instant, FromWorker)>,
    /// Jobs whose end may not have reached the server yet: serial number, start, end.
    unheard: Vec<(u64, Instant, Instant)>,
    /// Slots and numbers of the jobs that it answered last, for duplicate frames.
    pub(super) over: VecDeque<(u32, u32)>,
}

/// Behaviour of a process apart from its jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Character {
    pub(super) boot: Boot,
    pub(super) claims: bool,
    pub(super) concurrency: usize,
    pub(super) heeds_drain: bool,
    pub(super) heeds_term: bool,
}

impl Process {
    pub(super) fn new(id: u64, character: Character, now: Instant) -> Self {
        let Character {
            boot,
            claims,
            concurrency,
            heeds_drain,
            heeds_term,
        } = character;
        Self {
            id,
            key: usize::MAX,
            wire: Rc::default(),
            spawned: now,
            booted: false,
            detached: false,
            dead: false,
            termed: None,
            killed: None,
            boot,
            claims,
            concurrency,
            heeds_drain,
            heeds_term,
            draining: false,
            done: None,
            dies_at: None,
            reads_at: None,
            busy_until: now,
            spins: false,
            inbox: VecDeque::new(),
            ran: false,
            runs: Vec::new(),
            mail: VecDeque::new(),
            unheard: Vec::new(),
            over: VecDeque::new(),
        }
    }

    pub(super) fn claims(&self) -> bool {
        self.claims
    }

    /// Whether it can speak and the server still listens.
    pub(super) fn is_talking(&self) -> bool {
        self.booted && !self.detached && !self.dead
    }

    /// Whether it has just ended on its own without ever having run a job.
    pub(super) fn is_stillborn(&self, now: Instant) -> bool {
        let left_alone = self.termed.or(self.killed).is_none() && !self.draining;
        !self.ran && left_alone && now < self.spawned + Duration::from_secs(1)
    }

    /// One of its running jobs, for frames that are wrong in one way only.
    pub(super) fn some_run(&self) -> Option<Offer> {
        self.runs.first().map(|run| run.offer)
    }

    /// Jobs that it runs and will never end on its own: serial number and start.
    pub(super) fn stuck(&self) -> impl Iterator<Item = (u64, Instant)> + '_ {
        let alone = self.concurrency == 1;
        let stuck = move |run: &&Run| match run.script.kind {
            Kind::Spin => true,
            Kind::Deaf => alone,
            _ => false,
        };
        self.runs
            .iter()
            .filter(stuck)
            .map(|run| (run.offer.serial, run.started))
    }

    /// Jobs that it was sent and has not started.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        let read = self.inbox.iter().map(|offer| offer.serial);
        read.chain(self.wire.unread_offers())
    }

    /// Jobs whose end the server may not know yet, with their start.
    pub(super) fn unheard(&self, now: Instant) -> impl Iterator<Item = (u64, Instant)> + '_ {
        let recent = self
            .unheard
            .iter()
            .filter(move |&&(_, _, ended)| now < ended + LATENCY_MAX);
        recent.map(|&(serial, started, _)| (serial, started))
    }

    /// Jobs whose handlers were started, with their start.
    pub(super) fn running(&self) -> impl Iterator<Item = (u64, Instant)> + '_ {
        self.runs.iter().map(|run| (run.offer.serial, run.started))
    }

    /// Schedules a read: its link has new frames.
    pub(super) fn notice_mail(&mut self, now: Instant, dice: &mut Dice) {
        if self.wire.has_mail() && self.reads_at.is_none() {
            self.reads_at = Some(now + dice.micros(5, 300));
        }
    }

    /// The time of its next action.
    pub(super) fn due(&self) -> Option<Instant> {
        let arrival = self.mail.front().map(|&(at, _)| at);
        let own = (!self.dead).then(|| self.own_due()).flatten();
        arrival.into_iter().chain(own).min()
    }

    fn own_due(&self) -> Option<Instant> {
        if !self.booted {
            return match self.boot {
                Boot::Ready(after) | Boot::Dies(after) => Some(self.spawned + after),
                Boot::Stillborn(_) => Some(self.spawned),
                Boot::Hangs => None,
            };
        }
        if self.spins || matches!(self.boot, Boot::Stillborn(_)) {
            return self.dies_at;
        }
        let wants_thread = self
            .reads_at
            .into_iter()
            .chain(self.runs.iter().filter_map(|run| run.next))
            .chain((self.may_start() || self.may_leave()).then_some(self.busy_until))
            .min();
        let thread = wants_thread.map(|at| at.max(self.busy_until));
        thread.into_iter().chain(self.dies_at).min()
    }

    fn may_start(&self) -> bool {
        !self.inbox.is_empty() && self.runs.len() < self.concurrency
    }

    fn may_leave(&self) -> bool {
        let is_done = self.runs.is_empty() && (self.claims || self.inbox.is_empty());
        self.draining && self.done.is_none() && is_done
    }

    /// Performs one action that is due. Returns a message if one has arrived at the server.
    pub(super) fn act(&mut self, now: Instant, dice: &mut Dice, clients: &mut Clients) -> Option<FromWorker> {
        if self.mail.front().is_some_and(|&(at, _)| at <= now) {
            return self.mail.pop_front().map(|(_, frame)| frame);
        }
        if self.dead {
            return None;
        }
        if !self.booted {
            match self.boot {
                Boot::Ready(_) => self.boot(now, dice),
                Boot::Stillborn(after) => {
                    self.boot(now, dice);
                    self.dies_at = Some(now + after);
                }
                Boot::Dies(_) => self.die(now, dice),
                Boot::Hangs => {}
            }
        } else if self.dies_at.is_some_and(|at| at <= now) {
            self.die(now, dice);
        } else if matches!(self.boot, Boot::Stillborn(_)) {
            // It does nothing until it ends.
        } else if self.reads_at.is_some_and(|at| at <= now) {
            self.read(now, dice);
        } else if let Some(run) = self
            .runs
            .iter()
            .position(|run| run.next.is_some_and(|at| at <= now))
        {
            self.go_on(run, now, dice);
        } else if self.may_leave() {
            self.done = Some(now);
            self.dies_at = self.heeds_drain.then(|| now + dice.micros(0, STOP_HOOKS_US_MAX));
        } else if self.may_start() {
            self.start(now, dice, clients);
        }
        None
    }

    fn boot(&mut self, now: Instant, dice: &mut Dice) {
        self.booted = true;
        self.write(FromWorker::Ready, now, dice);
    }

    fn write(&mut self, frame: FromWorker, now: Instant, dice: &mut Dice) {
        // Sometimes the reading thread is busy with something else.
        let soon = now
            + if dice.chance(50) {
                dice.micros(1_000, 20_000)
            } else {
                dice.micros(5, 400)
            };
        let at = self.mail.back().map_or(soon, |&(last, _)| soon.max(last));
        self.mail.push_back((at, frame));
    }

    pub(super) fn die(&mut self, now: Instant, dice: &mut Dice) {
        if !self.dead {
            self.dead = true;
            self.write(FromWorker::Gone, now, dice);
        }
    }

    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    pub(super) fn terminate(&mut self, now: Instant, dice: &mut Dice) {
        self.termed.get_or_insert(now);
        if self.heeds_term {
            self.die(now, dice);
        }
    }

    pub(super) fn kill(&mut self, now: Instant, dice: &mut Dice) {
        self.killed.get_or_insert(now);
        self.die(now, dice);
    }

    fn read(&mut self, now: Instant, dice: &mut Dice) {
        self.reads_at = None;
        for frame in self.wire.receive() {
            match frame {
                ToWorker::Request(offer) => self.inbox.push_back(offer),
                ToWorker::Abort { slot, number } => self.abort(slot, number, now, dice),
                ToWorker::Body { slot, number, serial } => {
                    if let Some(run) = self.run_at(slot, number) {
                        assert_eq!(
                            self.runs[run].offer.serial, serial,
                            "a body reaches the job it belongs to"
                        );
                    }
                }
                ToWorker::Window => {}
            }
        }
    }

    fn run_at(&self, slot: u32, number: u32) -> Option<usize> {
        self.runs
            .iter()
            .position(|run| (run.offer.slot, run.offer.number) == (slot, number))
    }

    fn abort(&mut self, slot: u32, number: u32, now: Instant, dice: &mut Dice) {
        let named = |offer: &Offer| (offer.slot, offer.number) == (slot, number);
        if let Some(offer) = self
            .inbox
            .iter()
            .position(named)
            .and_then(|at| self.inbox.remove(at))
        {
            // The time at which the job was sent is not known here; the server knows it, and takes it for the start.
            self.unheard.push((offer.serial, self.spawned, now));
            self.write(FromWorker::Reset { slot, number }, now, dice);
        }
        let Some(at) = self.run_at(slot, number) else {
            return;
        };
        match self.runs[at].script.kind {
            Kind::Polite => self.answer(at, true, now, dice),
            Kind::Stream { .. } => self.reset(at, now, dice),
            _ => {}
        }
    }

    fn start(&mut self, now: Instant, dice: &mut Dice, clients: &mut Clients) {
        let offer = self.inbox.pop_front().expect("it was looked at before");
        if self.claims && !self.wire.claim(offer.slot, offer.number) {
            return;
        }
        self.ran = true;
        let script = clients.started(offer, self.id, self.claims, now);
        let next = match script.kind {
            Kind::Deaf | Kind::Polite => None,
            Kind::Stream { .. } => Some(now),
            Kind::Spin => {
                self.spins = true;
                None
            }
            _ => {
                self.busy_until = now + script.work;
                Some(self.busy_until)
            }
        };
        self.runs.push(Run {
            offer,
            script,
            started: now,
            next,
            chunks_sent: 0,
            answered: false,
        });
        if !offer.end {
            self.write(
                FromWorker::Window {
                    slot: offer.slot,
                    number: offer.number,
                },
                now,
                dice,
            );
        }
    }

    fn go_on(&mut self, at: usize, now: Instant, dice: &mut Dice) {
        let Offer {
            slot, number, serial, ..
        } = self.runs[at].offer;
        match self.runs[at].script.kind {
            Kind::Answer => self.answer(at, false, now, dice),
            Kind::Fault => self.answer(at, true, now, dice),
            Kind::Reset => self.reset(at, now, dice),
            Kind::Crash => self.die(now, dice),
            Kind::AnswerAndCrash => {
                self.answer(at, false, now, dice);
                self.die(now, dice);
            }
            Kind::Garbage => self.write(
                FromWorker::Garbage {
                    slot,
                    number,
                    body: serial % 2 == 0,
                },
                now,
                dice,
            ),
            Kind::Stream { chunks, resets } => {
                let run = &mut self.runs[at];
                run.next = Some(now + run.script.work);
                if !run.answered {
                    run.answered = true;
                    let run_us = (now - run.started).as_micros() as u32;
                    let frame = FromWorker::Answer {
                        slot,
                        number,
                        serial,
                        run_us,
                        end: false,
                        fault: false,
                    };
                    self.write(frame, now, dice);
                } else if run.chunks_sent < chunks {
                    run.chunks_sent += 1;
                    self.write(
                        FromWorker::Chunk {
                            slot,
                            number,
                            serial,
                            end: false,
                        },
                        now,
                        dice,
                    );
                } else if resets {
                    self.reset(at, now, dice);
                } else {
                    self.end(at, now);
                    self.write(
                        FromWorker::Chunk {
                            slot,
                            number,
                            serial,
                            end: true,
                        },
                        now,
                        dice,
                    );
                }
                return;
            }
            Kind::Spin | Kind::Deaf | Kind::Polite => unreachable!("these never go on by themselves"),
        }
        if let Some(run) = self.runs.get_mut(at).filter(|run| run.offer.serial == serial) {
            run.next = None;
        }
    }

    fn end(&mut self, at: usize, now: Instant) {
        let Run { offer, started, .. } = self.runs.remove(at);
        self.over.push_front((offer.slot, offer.number));
        self.over.truncate(4);
        self.unheard.retain(|&(_, _, ended)| now < ended + LATENCY_MAX);
        self.unheard.push((offer.serial, started, now));
    }

    fn answer(&mut self, at: usize, fault: bool, now: Instant, dice: &mut Dice) {
        let Offer {
            slot, number, serial, ..
        } = self.runs[at].offer;
        let run_us = (now - self.runs[at].started).as_micros() as u32;
        self.end(at, now);
        self.write(
            FromWorker::Answer {
                slot,
                number,
                serial,
                run_us,
                end: true,
                fault,
            },
            now,
            dice,
        );
    }

    fn reset(&mut self, at: usize, now: Instant, dice: &mut Dice) {
        let Offer { slot, number, .. } = self.runs[at].offer;
        self.end(at, now);
        self.write(FromWorker::Reset { slot, number }, now, dice);
    }
}
