//! A pool with its clients and workers in virtual time. Every step performs the single action that is due next.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_wire::{ContentKind, FrameType, Header, ResponseHead, flag};

use super::{
    super::{Command, EndCause, JobHandle, NewJob, Outlet, Phase, Signal, State, Worker},
    chaos::FaultPlan,
    clients::{Act, Clients, Kind},
    dice::Dice,
    nature::{Environment, options, script},
    process::{Character, FromWorker, Process},
    promises,
    wire::Wire,
};
use crate::{Delivery, Limits, Retry, delivery::ReplyTo};

/// More steps than this at one point in time mean an endless chain of wake-ups.
const STEPS_AT_ONCE_MAX: u32 = 20_000;
/// More workers than this that end within a second without having run a job mean that starts do not back off.
const STILLBORN_MAX: usize = 20;

/// Outputs of the state that are not carried out yet.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) deliveries: Vec<(ReplyTo, Delivery)>,
    written: Vec<Rc<Wire>>,
    wake: bool,
}

impl Outlet<Rc<Wire>> for Outputs {
    fn deliver(&mut self, to: ReplyTo, delivery: Delivery) {
        self.deliveries.push((to, delivery));
    }

    fn written(&mut self, link: &Rc<Wire>) {
        self.written.push(link.clone());
    }

    fn wake_supervisor(&mut self) {
        self.wake = true;
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) state: State<Rc<Wire>>,
    pub(super) now: Instant,
    pub(super) clients: Clients,
    pub(super) processes: BTreeMap<u64, Process>,
    pub(super) nature: Environment,
    pub(super) dice: Dice,
    pub(super) outputs: Outputs,
    supervisor_due: Option<Instant>,
    /// Result of the supervisor's last check: the time until the next one, or `None` if it rests.
    pub(super) rest: Option<Duration>,
    /// Since when a ready worker has been idle.
    pub(super) idle_since: Option<Instant>,
    next_arrival: Option<Instant>,
    pub(super) next_chaos: Option<Instant>,
    pub(super) arrival_gap_us: u64,
    pub(super) weather: FaultPlan,
    serials: u64,
    /// Times within the last second at which workers ended without having run a job.
    stillborn: Vec<Instant>,
    steps_at_once: u32,
    /// Whether to print events.
    pub(super) tells: bool,
    pub(super) checks_every_step: bool,
    born: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Arrival,
    Client,
    Chaos,
    Supervisor,
    Process(u64),
}

impl World {
    pub(super) fn new(mut dice: Dice, nature: Environment) -> Self {
        let now = Instant::now();
        let options = options(&mut dice, nature);
        let cores = dice.size(1, 4);
        let in_order = !nature.chaos && nature.misbehaving == 0 && options.workers_max == 1;
        let clients = Clients::new(nature.claims, in_order);
        Self {
            state: State::new(options, cores),
            now,
            clients,
            processes: BTreeMap::new(),
            nature,
            next_arrival: Some(now + dice.micros(0, 200_000)),
            next_chaos: nature.chaos.then(|| now + dice.pause(500_000)),
            dice,
            outputs: Outputs::default(),
            supervisor_due: Some(now),
            rest: None,
            idle_since: None,
            arrival_gap_us: nature.gaps_us[2],
            weather: FaultPlan::Fine,
            serials: 0,
            stillborn: Vec::new(),
            steps_at_once: 0,
            tells: false,
            checks_every_step: false,
            born: now,
        }
    }

    /// Time since the world began.
    pub(super) fn age(&self) -> Duration {
        self.now - self.born
    }

    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{:12} {}", self.age().as_micros(), what());
        }
    }

    /// Stops new clients and random faults.
    pub(super) fn calm(&mut self) {
        self.next_arrival = None;
        self.next_chaos = None;
        self.weather = FaultPlan::Fine;
        self.tell(|| "calm".into());
    }

    pub(super) fn stop(&mut self) {
        self.tell(|| "stop".into());
        self.state.stop();
        self.wake();
    }

    pub(super) fn abandon_all(&mut self) {
        self.tell(|| "abandon all".into());
        self.clients.abandoned = true;
        self.state.abandon_all(self.now, &mut self.outputs);
        self.settle();
    }

    /// Whether everything is gone that a stopping pool waits for.
    pub(super) fn is_empty(&self) -> bool {
        !self.state.has_jobs() && self.state.workers().next().is_none() && self.processes.is_empty()
    }

    pub(super) fn wake(&mut self) {
        self.supervisor_due = Some(self.now);
    }

    fn next_actor(&self) -> Option<(Instant, Actor)> {
        let fixed = [
            (self.supervisor_due, Actor::Supervisor),
            (self.next_arrival, Actor::Arrival),
            (self.clients.due(), Actor::Client),
            (self.next_chaos, Actor::Chaos),
        ];
        let fixed = fixed.into_iter().filter_map(|(at, actor)| Some((at?, actor)));
        let processes = self
            .processes
            .iter()
            .filter_map(|(id, process)| Some((process.due()?, Actor::Process(*id))));
        fixed.chain(processes).min_by_key(|&(at, _)| at)
    }

    /// Performs the next action; false if none is due before `until`, which then becomes the current time.
    pub(super) fn step(&mut self, until: Instant) -> bool {
        let Some((at, actor)) = self.next_actor().filter(|&(at, _)| at < until) else {
            self.now = until;
            return false;
        };
        if at > self.now {
            self.now = at;
            self.steps_at_once = 0;
        }
        self.steps_at_once += 1;
        assert!(self.steps_at_once < STEPS_AT_ONCE_MAX, "{actor:?} never rests");
        match actor {
            Actor::Arrival => self.arrive(),
            Actor::Client => self.client_acts(),
            Actor::Chaos => self.chaos(),
            Actor::Supervisor => self.supervise(),
            Actor::Process(id) => self.process_acts(id),
        }
        self.settle();
        true
    }

    /// Carries out the state's outputs.
    fn settle(&mut self) {
        self.clients.starts_fail = self.state.cannot_start();
        for (to, delivery) in std::mem::take(&mut self.outputs.deliveries) {
            self.tell(|| format!("owner {} gets {delivery:?}", to.waiter));
            assert_eq!(to.nonce, !to.waiter, "a delivery keeps its address");
            self.clients
                .deliver(u64::from(to.waiter), &delivery, self.now, &mut self.dice);
        }
        for wire in self.outputs.written.drain(..) {
            wire.flush(|offer| self.clients.offered(offer.serial, self.now));
        }
        for process in self.processes.values_mut() {
            assert!(
                process.wire.is_flushed(),
                "what was appended to the link of worker {} is sent",
                process.id
            );
            process.notice_mail(self.now, &mut self.dice);
        }
        if std::mem::take(&mut self.outputs.wake) {
            self.wake();
        }
        let idle = self
            .state
            .workers()
            .any(|(_, worker)| worker.phase == Phase::Ready && worker.in_flight() == 0);
        self.idle_since = idle.then_some(self.idle_since.unwrap_or(self.now));
    }

    fn arrive(&mut self) {
        self.next_arrival = Some(self.now + self.dice.pause(self.arrival_gap_us));
        self.serials += 1;
        let serial = self.serials;
        let script = script(&mut self.dice, self.nature);
        let limits = Limits {
            queue_timeout: self.dice.micros(1_000, 2_000_000),
            run_timeout: self.dice.micros(5_000, 1_000_000),
            retry: if self.dice.chance(300) {
                Retry::Idempotent
            } else {
                Retry::Never
            },
        };
        let deadline = self.now + self.dice.micros(1_000, 3_000_000);
        let end = self.dice.chance(900);
        let mut payload = vec![0; 4];
        payload.extend_from_slice(&serial.to_le_bytes());
        payload.resize(12 + self.dice.size(0, 200), 0);
        let waiter = serial as u32;
        let reply_to = ReplyTo {
            mailbox: 0,
            waiter,
            nonce: !waiter,
        };
        let job = NewJob {
            payload,
            end,
            limits,
            deadline,
            may_upgrade: false,
            trace: None,
            client: self
                .dice
                .chance(self.nature.of_clients)
                .then(|| self.dice.between(0, 5)),
            reply_to,
        };
        let submitted = self.state.submit(job, self.now, &mut self.outputs);
        self.tell(|| format!("job {serial} {script:?} {limits:?}: {submitted:?}"));
        let Ok(handle) = submitted else { return };
        self.clients
            .add(serial, handle, (limits, deadline, end), script, self.now);
        if matches!(script.kind, Kind::Stream { .. }) || self.dice.chance(100) {
            let leaves = self.now + self.dice.micros(0, 3_000_000);
            self.clients.later(leaves, serial, Act::Cancel);
        }
        if self.dice.chance(5) {
            // The client was gone before anything else could happen.
            self.cancel(serial, handle);
        }
    }

    fn cancel(&mut self, serial: u64, handle: JobHandle) {
        self.settle();
        if self
            .clients
            .owner(serial)
            .is_some_and(|owner| owner.handle == handle)
        {
            self.tell(|| format!("owner {serial} leaves"));
            self.clients.left(serial, self.now);
            self.state.cancel(handle, self.now, &mut self.outputs);
        }
    }

    fn client_acts(&mut self) {
        let Some((serial, handle, act)) = self.clients.next_act() else {
            return;
        };
        let serial_bytes = serial.to_le_bytes();
        match act {
            Act::Cancel => self.cancel(serial, handle),
            Act::SendBody => {
                self.state
                    .send_body(handle, &serial_bytes, true, &mut self.outputs);
            }
            Act::Grant => self.state.grant(handle, 1000, &mut self.outputs),
        }
    }

    fn supervise(&mut self) {
        self.supervisor_due = None;
        let (commands, again) = self.state.housekeep(self.now, &mut self.outputs);
        self.rest = again;
        self.supervisor_due = again.map(|pause| self.now + pause);
        self.settle();
        for command in commands {
            self.carry_out(command);
        }
    }

    fn carry_out(&mut self, command: Command) {
        self.tell(|| format!("{command:?}"));
        if let Command::Signal(id, Signal::Terminate) = command {
            promises::terminates_with_reason(self, id);
        }
        let (now, dice) = (self.now, &mut self.dice);
        match command {
            Command::Start => self.start(),
            Command::Drain(id) => {
                self.check_replaced(id);
                if let Some(process) = self.processes.get_mut(&id) {
                    process.drain();
                }
            }
            Command::Signal(id, signal) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    match signal {
                        Signal::Terminate => process.terminate(now, dice),
                        Signal::Kill => process.kill(now, dice),
                    }
                }
            }
        }
    }

    fn start(&mut self) {
        let (_, max) = self.state.size();
        let kept = |worker: &Worker<_>| worker.phase <= Phase::Ready && !worker.to_recycle;
        let alive = self.state.workers().filter(|(_, worker)| kept(worker)).count();
        let needed = !self.state.is_stopping() || self.state.has_jobs();
        assert!(needed, "a worker starts for nobody");
        assert!(
            alive < max,
            "{alive} workers are there and one more starts (max {max})"
        );
        let dice = &mut self.dice;
        let id = self.state.next_worker_id();
        let Some(boot) = self.weather.boot(dice) else {
            self.state.spawn_failed(self.now);
            self.wake();
            return;
        };
        let character = Character {
            boot,
            claims: self.nature.claims,
            concurrency: self.state.options().concurrency,
            heeds_drain: dice.chance(900),
            heeds_term: dice.chance(700),
        };
        let mut process = Process::new(id, character, self.now);
        process.key = self
            .state
            .add_worker(id, id as u32, process.wire.clone(), self.now);
        self.processes.insert(id, process);
    }

    /// Checks that a recycled or idle worker leaves only if the others are enough.
    fn check_replaced(&self, id: u64) {
        let dispensable = |cause| matches!(cause, Some(EndCause::Recycled | EndCause::Idle));
        let leaves = self
            .state
            .workers()
            .any(|(_, w)| w.id == id && dispensable(w.cause));
        if leaves && !self.state.is_stopping() {
            let others = self
                .state
                .workers()
                .filter(|(_, w)| w.phase == Phase::Ready)
                .count();
            assert!(
                others >= self.state.size().0,
                "worker {id} leaves, and {others} are not enough"
            );
        }
    }

    fn process_acts(&mut self, id: u64) {
        let process = self
            .processes
            .get_mut(&id)
            .expect("only living processes are due");
        let Some(frame) = process.act(self.now, &mut self.dice, &mut self.clients) else {
            return;
        };
        self.tell(|| format!("worker {id} says {frame:?}"));
        let process = self.processes.get_mut(&id).expect("it has just acted");
        let (key, claims) = (process.key, process.claims());
        if process.detached {
            if matches!(frame, FromWorker::Gone) {
                self.processes.remove(&id);
            }
            return;
        }
        let (now, out) = (self.now, &mut self.outputs);
        match frame {
            FromWorker::Ready => {
                process.wire.claims.set(claims);
                self.state.worker_ready(key, claims, now, out);
            }
            FromWorker::Answer {
                slot,
                number,
                serial,
                run_us,
                end,
                fault,
            } => {
                let flags = if end { flag::END } else { 0 } | if fault { flag::FAULT } else { 0 };
                let header = header((slot, number), flags);
                let taken = self
                    .state
                    .answer(key, &header, response(serial, run_us), None, now, out);
                assert_eq!(taken, Ok(()), "a good answer is taken");
            }
            FromWorker::Chunk {
                slot,
                number,
                serial,
                end,
            } => {
                let bytes = Bytes::copy_from_slice(&serial.to_le_bytes());
                let flags = if end { flag::END } else { 0 };
                let taken = self.state.chunk(key, (slot, number), flags, bytes, now, out);
                assert_eq!(taken, Ok(()), "a good chunk is taken");
            }
            FromWorker::Reset { slot, number } => self.state.reset(key, (slot, number), now, out),
            FromWorker::Window { slot, number } => self.state.window(key, (slot, number), 8, out),
            FromWorker::Garbage { slot, number, body } => {
                let bytes = Bytes::from_static(b"not a response");
                let taken = if body {
                    self.state.chunk(key, (slot, number), 0, bytes, now, out)
                } else {
                    let header = header((slot, number), flag::END);
                    self.state.answer(key, &header, bytes, None, now, out)
                };
                // A job that is over accepts nothing, so nothing is checked for it.
                if taken.is_err() {
                    process.detached = true;
                    let command = self.state.condemn(key, EndCause::Protocol, now);
                    self.worker_gone(key);
                    if let Some(command) = command {
                        self.carry_out(command);
                    }
                }
            }
            FromWorker::Gone => {
                let process = self.processes.remove(&id).expect("it has just acted");
                // Without claim words, a worker that was sent a job counts as having run it.
                if claims && process.is_stillborn(now) {
                    self.count_stillborn();
                }
                self.worker_gone(key);
            }
        }
    }

    fn count_stillborn(&mut self) {
        let window = self.now.checked_sub(Duration::from_secs(1));
        self.stillborn
            .retain(|&at| window.is_none_or(|window| at > window));
        self.stillborn.push(self.now);
        let count = self.stillborn.len();
        assert!(
            count <= STILLBORN_MAX,
            "{count} workers in a second have ended without use"
        );
    }

    fn worker_gone(&mut self, key: usize) {
        let jobs: Vec<_> = self.state.workers[key]
            .jobs_in_order()
            .map(|(_, _, job)| job)
            .collect();
        self.state.worker_gone(key, self.now, &mut self.outputs);
        for job in jobs.into_iter().filter_map(|job| self.state.jobs.get(job)) {
            let owner = job.reply_to.expect("nobody waits for what nobody wants");
            self.clients.waits_again(u64::from(owner.waiter), self.now);
        }
    }

    /// Drops what can no longer matter from the model.
    pub(super) fn forget(&mut self) {
        let running: BTreeSet<u64> = self
            .processes
            .values()
            .flat_map(|process| process.running().map(|(serial, _)| serial))
            .collect();
        // Without claim words, a worker starts a job even if its owner has left.
        if self.nature.claims {
            self.clients.forget_all_but(&running);
        }
    }
}

/// The header of a RESPONSE to a job.
pub(super) fn header((slot, job): (u32, u32), flags: u8) -> Header {
    Header {
        kind: FrameType::Response,
        flags,
        generation: 0,
        job,
        slot,
    }
}

pub(super) fn response(serial: u64, run_us: u32) -> Bytes {
    let mut payload = Vec::new();
    let head = ResponseHead {
        status: 200,
        content: ContentKind::Bytes,
        run_us,
    };
    head.put(&mut payload, &[], &serial.to_le_bytes());
    payload.into()
}
