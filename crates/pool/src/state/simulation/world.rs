//! One pool with its clients and workers in virtual time. Every step does the one thing that is due next.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_wire::{ContentKind, ResponseHead, flag};

use super::{
    super::{Command, EndCause, JobHandle, NewJob, Outlet, Phase, Signal, State, Worker},
    clients::{Act, Clients, Kind, Script},
    dice::Dice,
    process::{Boot, Character, FromWorker, Process},
    wire::Wire,
};
use crate::{Delivery, Limits, Options, Program, Recycle, Retry, delivery::ReplyTo};

/// More steps without time going on mean that something wakes itself for ever.
const STEPS_AT_ONCE_MAX: u32 = 20_000;

/// What the state puts out, until it is carried out.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    deliveries: Vec<(ReplyTo, Delivery)>,
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

/// How starts go at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    Fine,
    SpawnsFail,
    Hang,
    DieAtStart,
    Stillborn,
    Mixed,
}

const WEATHERS: [Weather; 5] = [
    Weather::SpawnsFail,
    Weather::Hang,
    Weather::DieAtStart,
    Weather::Stillborn,
    Weather::Mixed,
];

/// What kind of world a seed makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    /// Workers claim their jobs.
    pub(super) claims: bool,
    /// Workers, their starts and the pool's size change without a reason.
    pub(super) chaos: bool,
    /// Per mille of jobs whose handlers misbehave.
    pub(super) misbehaving: u64,
    /// Microseconds between jobs, on average; chaos changes from one to another.
    pub(super) gaps_us: [u64; 6],
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) state: State<Rc<Wire>>,
    pub(super) now: Instant,
    pub(super) clients: Clients,
    pub(super) processes: BTreeMap<u64, Process>,
    pub(super) nature: Nature,
    dice: Dice,
    outputs: Outputs,
    supervisor_due: Option<Instant>,
    /// Whether the supervisor's last look came to rest.
    pub(super) rest: Option<Duration>,
    /// Since when some worker that is ready has had nothing to do.
    pub(super) idle_since: Option<Instant>,
    next_arrival: Option<Instant>,
    next_chaos: Option<Instant>,
    arrival_gap_us: u64,
    weather: Weather,
    serials: u64,
    steps_at_once: u32,
    /// Prints what happens.
    pub(super) tells: bool,
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
    pub(super) fn new(mut dice: Dice, nature: Nature) -> Self {
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
            weather: Weather::Fine,
            serials: 0,
            steps_at_once: 0,
            tells: false,
            born: now,
        }
    }

    /// Time since the world began.
    pub(super) fn age(&self) -> Duration {
        self.now - self.born
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{:12} {}", self.age().as_micros(), what());
        }
    }

    /// No more clients come, and nothing breaks any more without a reason.
    pub(super) fn calm(&mut self) {
        self.next_arrival = None;
        self.next_chaos = None;
        self.weather = Weather::Fine;
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

    /// What the supervisor waits for after a stop.
    pub(super) fn is_empty(&self) -> bool {
        !self.state.has_jobs() && self.state.workers().next().is_none() && self.processes.is_empty()
    }

    fn wake(&mut self) {
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

    /// Does what is due next; false when nothing is due before `until`, which then is the time.
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

    /// Carries out what the state has put out.
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
            run_timeout: self.dice.micros(20_000, 1_000_000),
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
            self.clients.left(serial);
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
        assert!(
            alive < max,
            "{alive} workers are there and one more starts (max {max})"
        );
        let dice = &mut self.dice;
        let weather = match self.weather {
            Weather::Mixed if dice.chance(500) => WEATHERS[dice.size(0, WEATHERS.len() - 2)],
            Weather::Mixed => Weather::Fine,
            weather => weather,
        };
        let id = self.state.next_worker_id();
        let boot = match weather {
            Weather::Fine | Weather::Mixed => Boot::Ready(dice.micros(1_000, 60_000)),
            Weather::Hang => Boot::Hangs,
            Weather::DieAtStart => Boot::Dies(dice.micros(100, 60_000)),
            Weather::Stillborn => Boot::Stillborn(dice.micros(0, 50_000)),
            Weather::SpawnsFail => {
                self.state.spawn_failed(self.now);
                self.wake();
                return;
            }
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

    /// A worker is recycled only when the others are enough.
    fn check_replaced(&self, id: u64) {
        let recycled = self
            .state
            .workers()
            .any(|(_, worker)| worker.id == id && worker.cause == Some(EndCause::Recycled));
        if recycled && !self.state.is_stopping() {
            let others = self
                .state
                .workers()
                .filter(|(_, w)| w.phase == Phase::Ready)
                .count();
            assert!(
                others >= self.state.size().0,
                "worker {id} leaves before its replacement is ready"
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
                let taken = self
                    .state
                    .answer(key, (slot, number), flags, response(serial, run_us), now, out);
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
            FromWorker::Garbage { slot, number } => {
                let bytes = Bytes::from_static(b"not a response");
                // A job that is over takes nothing, so nothing is decoded for it.
                if self
                    .state
                    .answer(key, (slot, number), flag::END, bytes, now, out)
                    .is_err()
                {
                    process.detached = true;
                    let command = self.state.condemn(key, EndCause::Protocol, now);
                    self.worker_gone(key);
                    command.into_iter().for_each(|command| self.carry_out(command));
                }
            }
            FromWorker::Gone => {
                self.processes.remove(&id);
                self.worker_gone(key);
            }
        }
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

    fn chaos(&mut self) {
        self.next_chaos = Some(self.now + self.dice.pause(200_000));
        let dice = &mut self.dice;
        match dice.between(0, 9) {
            0 => self.arrival_gap_us = self.nature.gaps_us[dice.size(0, 5)],
            1 => {
                let min = dice.size(0, 3);
                let max = (min + dice.size(0, 3)).max(1);
                self.state.resize(min, max);
                self.tell(|| format!("resize to {min}, {max}"));
                self.wake();
            }
            2 => self.weather = WEATHERS[dice.size(0, WEATHERS.len() - 1)],
            3 | 4 => self.weather = Weather::Fine,
            5 | 6 => {
                let ids: Vec<_> = self.processes.keys().copied().collect();
                if let Some(at) = ids.len().checked_sub(1) {
                    let id = ids[dice.size(0, at)];
                    let now = self.now;
                    if let Some(process) = self.processes.get_mut(&id) {
                        process.die(now, dice);
                    }
                    self.tell(|| format!("worker {id} is killed from outside"));
                }
            }
            7 => {
                let sizes: Vec<_> = self
                    .processes
                    .values()
                    .map(|p| (p.key, p.id as u32, dice.between(0, 120)))
                    .collect();
                self.state.set_rss(&sizes);
            }
            _ => self.stray(),
        }
    }

    /// Frames for jobs that are over, were never there, or are another's: they are counted and change nothing.
    fn stray(&mut self) {
        let dice = &mut self.dice;
        let talking: Vec<_> = self
            .processes
            .values()
            .filter(|process| process.is_talking())
            .collect();
        let Some(last) = talking.len().checked_sub(1) else {
            return;
        };
        let process = talking[dice.size(0, last)];
        let key = process.key;
        if self
            .state
            .worker(key)
            .is_none_or(|worker| worker.id != process.id)
        {
            return;
        }
        let mut names: Vec<_> = process
            .over
            .iter()
            .copied()
            .filter(|_| process.due().is_none())
            .collect();
        names.extend([(0, 0), (4095, 1), (0, u32::MAX)]);
        names.extend(process.some_run().map(|run| (run.slot + 1, run.number)));
        names.extend(process.some_run().map(|run| (run.slot, run.number + 1000)));
        let name = names[dice.size(0, names.len() - 1)];
        let before = self.state.counters.stray_frames;
        let (now, out) = (self.now, &mut self.outputs);
        match dice.between(0, 3) {
            0 => assert_eq!(
                self.state.answer(key, name, flag::END, response(0, 0), now, out),
                Ok(())
            ),
            1 => assert_eq!(
                self.state.chunk(key, name, flag::END, Bytes::new(), now, out),
                Ok(())
            ),
            2 => self.state.reset(key, name, now, out),
            _ => self.state.window(key, name, 1, out),
        }
        assert_eq!(
            self.state.counters.stray_frames,
            before + 1,
            "a stray frame {name:?} is counted"
        );
        assert!(
            self.outputs.deliveries.is_empty(),
            "a stray frame changes nothing"
        );
    }

    /// Lets the model forget what can no longer matter.
    pub(super) fn forget(&mut self) {
        let running: BTreeSet<u64> = self
            .processes
            .values()
            .flat_map(|process| process.running().map(|(serial, _)| serial))
            .collect();
        // Without claim words a worker starts what it was sent although the owner has left.
        if self.nature.claims {
            self.clients.forget_all_but(&running);
        }
    }
}

fn response(serial: u64, run_us: u32) -> Bytes {
    let mut payload = Vec::new();
    let head = ResponseHead {
        status: 200,
        content: ContentKind::Bytes,
        run_us,
    };
    head.put(&mut payload, &[], &serial.to_le_bytes());
    payload.into()
}

fn options(dice: &mut Dice, nature: Nature) -> Options {
    let min = dice.size(0, 3);
    let mut recycle = Recycle::default();
    if nature.chaos && dice.chance(500) {
        recycle.jobs = dice.between(5, 200);
        recycle.age = [Duration::ZERO, dice.micros(1_000_000, 5_000_000)][dice.size(0, 1)];
        recycle.rss_bytes = [0, 100][dice.size(0, 1)];
    }
    let program = Program {
        argv: vec!["worker".into()],
        env: Vec::new(),
        cwd: "/".into(),
        page: nature.claims,
        handler: None,
        start: None,
    };
    Options {
        name: "simulated".into(),
        program,
        workers_min: min,
        workers_max: (min + dice.size(0, 3)).max(1),
        concurrency: if dice.chance(700) { 1 } else { dice.size(2, 5) },
        queue_max: dice.size(1, 60),
        queue_bytes_max: dice.size(250, 8_000),
        start_timeout: Duration::from_millis(500),
        kill_grace: [Duration::from_millis(50), Duration::from_millis(300)][dice.size(0, 1)],
        idle_retire: dice.micros(50_000, 5_000_000),
        recycle,
    }
}

fn script(dice: &mut Dice, nature: Nature) -> Script {
    let work = match dice.between(0, 9) {
        0..=6 => dice.micros(10, 500),
        7 | 8 => dice.micros(500, 8_000),
        _ => dice.micros(8_000, 100_000),
    };
    let kind = if dice.chance(nature.misbehaving) {
        match dice.between(0, 12) {
            0..=2 => Kind::Crash,
            3 => Kind::AnswerAndCrash,
            4 => Kind::Garbage,
            5 | 6 => Kind::Spin,
            7 => Kind::Deaf,
            8 | 9 => Kind::Reset,
            10 => Kind::Polite,
            _ => Kind::Stream {
                chunks: dice.between(0, 5) as u32,
                resets: true,
            },
        }
    } else {
        match dice.between(0, 19) {
            0 => Kind::Fault,
            1 => Kind::Stream {
                chunks: dice.between(0, 5) as u32,
                resets: false,
            },
            _ => Kind::Answer,
        }
    };
    Script { kind, work }
}
