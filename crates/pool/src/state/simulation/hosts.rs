//! Pools whose workers are hosts: announcements, refusals, answers, and deaths of processes and hosts, at random.

use std::{
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use forebay_wire::FailureReason;

use super::{
    dice::Dice,
    nature::{Environment, options},
    wire::{ToWorker, Wire},
    world::{Outputs, header, response},
};
use crate::{
    Delivery, Failure, Limits, Options, Retry,
    delivery::ReplyTo,
    state::{JobHandle, NewJob, Phase, State},
};

const STEPS: u32 = 4_000;
const WORLDS: u64 = 60;
const HOSTS_MAX: usize = 5;

/// A job as its client and the hosts know it.
#[derive(Debug)]
struct Known {
    handle: JobHandle,
    may_run_twice: bool,
    begun: u32,
    is_over: bool,
}

struct Pool {
    state: State<Rc<Wire>>,
    out: Outputs,
    now: Instant,
    dice: Dice,
    hosts: BTreeMap<usize, Rc<Wire>>,
    /// Jobs that hosts run: host, slot, number, serial number.
    running: Vec<(usize, u32, u32, u64)>,
    jobs: BTreeMap<u64, Known>,
    accepted: u64,
}

fn new(seed: u64) -> Pool {
    let mut dice = Dice::new(seed);
    let nature = Environment {
        claims: false,
        chaos: false,
        misbehaving: 0,
        of_clients: 0,
        gaps_us: super::QUIET,
    };
    let options = Options {
        remote: true,
        workers_min: 0,
        workers_max: HOSTS_MAX,
        idle_retire: Duration::MAX,
        queue_max: 20,
        queue_bytes_max: 10_000,
        ..options(&mut dice, nature)
    };
    Pool {
        state: State::new(options, 2),
        out: Outputs::default(),
        now: Instant::now(),
        dice,
        hosts: BTreeMap::new(),
        running: Vec::new(),
        jobs: BTreeMap::new(),
        accepted: 0,
    }
}

impl Pool {
    fn attach(&mut self) {
        let wire = Rc::new(Wire::default());
        let id = self.state.next_worker_id();
        let key = self.state.add_host(id, "host", wire.clone(), self.now);
        self.state
            .host_announced(key, self.dice.size(0, 4), false, self.now, &mut self.out);
        self.state.worker_ready(key, false, self.now, &mut self.out);
        self.hosts.insert(key, wire);
    }

    fn submit(&mut self) {
        let serial = self.accepted;
        let may_run_twice = self.dice.chance(500);
        let limits = Limits {
            queue_timeout: Duration::from_secs(1),
            run_timeout: Duration::from_secs(2),
            retry: if may_run_twice {
                Retry::Idempotent
            } else {
                Retry::Never
            },
        };
        let job = NewJob {
            payload: [&[0; 4][..], &serial.to_le_bytes()].concat(),
            end: true,
            limits,
            deadline: self.now + Duration::from_secs(3),
            may_upgrade: false,
            trace: None,
            client: None,
            reply_to: ReplyTo {
                mailbox: 0,
                waiter: serial as u32,
                nonce: 0,
            },
        };
        match self.state.submit(job, self.now, &mut self.out) {
            Ok(handle) => {
                let known = Known {
                    handle,
                    may_run_twice,
                    begun: 0,
                    is_over: false,
                };
                self.jobs.insert(serial, known);
                self.accepted += 1;
            }
            Err(Failure::NoHost { .. }) => assert!(!self.has_host(), "it has a host"),
            Err(Failure::QueueFull { .. } | Failure::QueueBytesFull { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn has_host(&self) -> bool {
        self.state
            .workers()
            .any(|(_, worker)| worker.phase == Phase::Ready)
    }

    /// Has the hosts read what was sent: each refuses or begins its jobs.
    fn read(&mut self) {
        for (&key, wire) in &self.hosts.clone() {
            wire.flush(|_| ());
            for frame in wire.receive() {
                match frame {
                    ToWorker::Request(offer) if self.dice.chance(200) => {
                        let (name, reason) = ((offer.slot, offer.number), FailureReason::NotBegun);
                        self.state
                            .host_failed(key, name, reason, "", self.now, &mut self.out);
                    }
                    ToWorker::Request(offer) => {
                        // Its client may have left.
                        if let Some(job) = self.jobs.get_mut(&offer.serial) {
                            job.begun += 1;
                        }
                        self.running.push((key, offer.slot, offer.number, offer.serial));
                    }
                    ToWorker::Abort { slot, number } => {
                        self.running
                            .retain(|running| (running.0, running.1, running.2) != (key, slot, number));
                    }
                    ToWorker::Body { .. } | ToWorker::Window => {}
                }
            }
        }
    }

    /// Ends one of the jobs that run.
    fn end_one(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let at = self.dice.size(0, self.running.len() - 1);
        let (key, slot, number, serial) = self.running.swap_remove(at);
        let (name, now) = ((slot, number), self.now);
        if self.dice.chance(200) {
            self.state
                .host_failed(key, name, FailureReason::WorkerDied, "", now, &mut self.out);
        } else {
            let header = header(name, forebay_wire::flag::END);
            let answered = self
                .state
                .answer(key, &header, response(serial, 1), None, now, &mut self.out);
            answered.expect("it is a valid answer");
        }
    }

    fn lose_host(&mut self) {
        let Some(&key) = self.hosts.keys().next() else {
            return;
        };
        let wire = self.hosts.remove(&key).expect("it is there");
        wire.flush(|_| ());
        let unread = wire.receive();
        let mut offers = unread.iter().filter_map(|frame| match frame {
            ToWorker::Request(offer) => Some(offer),
            _ => None,
        });
        if let Some(first) = offers.next().filter(|_| self.dice.chance(500)) {
            self.state
                .host_has_not_got(key, first.number, self.now, &mut self.out);
            let worker = self.state.worker(key).expect("it has not been removed");
            let began = self.running.iter().filter(|running| running.0 == key).count();
            assert!(
                worker.in_flight() <= began,
                "what has not begun is not there any more"
            );
        }
        self.running.retain(|running| running.0 != key);
        self.state.worker_gone(key, self.now, &mut self.out);
    }

    fn announce(&mut self) {
        let room = self.dice.size(0, 4);
        let drains = self.dice.chance(100);
        if let Some(&key) = self.hosts.keys().next_back() {
            self.state
                .host_announced(key, room, drains, self.now, &mut self.out);
        }
    }

    fn leave(&mut self) {
        let waiting = self.jobs.iter().find(|(_, job)| !job.is_over);
        if let Some((&serial, job)) = waiting {
            self.state.cancel(job.handle, self.now, &mut self.out);
            self.jobs.remove(&serial);
        }
    }

    fn check(&mut self) {
        for (to, delivery) in self.out.deliveries.drain(..) {
            let Some(job) = self.jobs.get_mut(&u64::from(to.waiter)) else {
                panic!("{delivery:?} for a client that has left")
            };
            assert!(!job.is_over, "a second end: {delivery:?}");
            assert!(
                matches!(delivery, Delivery::Answer(_) | Delivery::Failed(_)),
                "{delivery:?}"
            );
            job.is_over = true;
        }
        for job in self.jobs.values() {
            assert!(
                job.begun <= if job.may_run_twice { 2 } else { 1 },
                "{job:?} began too often"
            );
        }
        let (queued, _) = self.state.queued();
        let has_room = self.state.workers().any(|(_, worker)| worker.has_room(1));
        assert!(
            queued == 0 || !has_room,
            "{queued} jobs wait while a host has room"
        );
    }

    fn step(&mut self) {
        match self.dice.between(0, 99) {
            0..=2 if self.hosts.len() < HOSTS_MAX => self.attach(),
            3 => self.lose_host(),
            4..=9 => self.announce(),
            10..=11 => self.leave(),
            12..=39 => self.submit(),
            40..=64 => self.read(),
            65..=94 => self.end_one(),
            _ => {
                self.now += self.dice.micros(100, 200_000);
                let (commands, _) = self.state.housekeep(self.now, &mut self.out);
                let starts = commands.contains(&crate::state::Command::Start);
                assert!(!starts, "a pool of hosts starts no process");
            }
        }
        self.check();
    }
}

#[test]
fn every_job_ends_once_whatever_hosts_refuse_lose_and_forget() {
    for seed in 0..WORLDS {
        let mut pool = new(seed);
        for _ in 0..STEPS {
            pool.step();
        }
        assert!(pool.accepted > 200, "seed {seed}: {} jobs", pool.accepted);
        // Nothing more comes; all limits pass.
        pool.now += Duration::from_secs(10);
        for _ in 0..3 {
            pool.state.housekeep(pool.now, &mut pool.out);
            pool.check();
        }
        let open = pool.jobs.values().filter(|job| !job.is_over).count();
        assert_eq!(open, 0, "seed {seed}: jobs without an end");
    }
}

#[test]
fn the_hosts_with_the_largest_share_of_room_get_the_next_jobs() {
    let mut pool = new(1);
    for room in [8, 4, 4] {
        pool.attach();
        let key = *pool.hosts.keys().next_back().expect("it was attached");
        pool.state
            .host_announced(key, room, false, pool.now, &mut pool.out);
    }
    (0..8).for_each(|_| pool.submit());
    let mut in_flight: Vec<_> = pool
        .state
        .workers()
        .map(|(_, worker)| worker.in_flight())
        .collect();
    assert_eq!(in_flight, [4, 2, 2], "all are half full");
    (0..8).for_each(|_| pool.submit());
    in_flight = pool
        .state
        .workers()
        .map(|(_, worker)| worker.in_flight())
        .collect();
    assert_eq!(in_flight, [8, 4, 4], "all are full");
    assert_eq!(pool.state.queued().0, 0);
}

#[test]
fn a_host_that_refuses_gets_no_more_until_it_announces_room_or_finishes_a_job() {
    let mut pool = new(1);
    for _ in 0..2 {
        pool.attach();
    }
    let keys: Vec<usize> = pool.hosts.keys().copied().collect();
    let [full, free] = keys[..] else {
        panic!("two hosts")
    };
    let room = |pool: &Pool, key: usize| pool.state.worker(key).expect("it is there").room(1);
    pool.state.host_announced(full, 2, false, pool.now, &mut pool.out);
    pool.state.host_announced(free, 0, false, pool.now, &mut pool.out);
    pool.submit();
    pool.submit();
    assert_eq!((room(&pool, full), room(&pool, free)), (0, 0));
    pool.hosts[&full].flush(|_| ());
    let sent = pool.hosts[&full].receive();
    let Some(ToWorker::Request(refused)) = sent.back() else {
        panic!("{sent:?}")
    };
    let name = (refused.slot, refused.number);
    pool.state
        .host_failed(full, name, FailureReason::NotBegun, "", pool.now, &mut pool.out);
    assert_eq!(pool.state.queued().0, 1, "it waits: no host has room");
    assert_eq!(room(&pool, full), 0, "although it has one job fewer than before");
    pool.state.host_announced(free, 1, false, pool.now, &mut pool.out);
    assert_eq!(pool.state.queued().0, 0, "it goes to the one with room");
    assert_eq!(pool.state.worker(free).expect("it is there").in_flight(), 1);
    let Some(ToWorker::Request(first)) = sent.front() else {
        panic!("{sent:?}")
    };
    let header = header((first.slot, first.number), forebay_wire::flag::END);
    let answer = response(first.serial, 1);
    let answered = pool
        .state
        .answer(full, &header, answer, None, pool.now, &mut pool.out);
    answered.expect("it is a valid answer");
    assert_eq!(room(&pool, full), 1, "what it has finished makes room");
}

#[test]
fn a_host_has_no_more_room_when_clients_leave_until_it_says_so() {
    let mut pool = new(1);
    pool.attach();
    let key = *pool.hosts.keys().next().expect("it was attached");
    pool.state.host_announced(key, 2, false, pool.now, &mut pool.out);
    pool.submit();
    // It falls silent.
    pool.state.host_announced(key, 0, false, pool.now, &mut pool.out);
    pool.leave();
    pool.submit();
    let in_flight = |pool: &Pool| pool.state.worker(key).expect("it is there").in_flight();
    assert_eq!((in_flight(&pool), pool.state.queued().0), (0, 1));
    pool.state.host_announced(key, 1, false, pool.now, &mut pool.out);
    assert_eq!((in_flight(&pool), pool.state.queued().0), (1, 0));
}
