//! Simulation of the pool's decisions: clients that arrive and leave, workers that are slow, stuck, broken and killed, and a clock that
//! jumps from event to event. A seed determines a world, and the same seed always makes the same one.
//!
//! `FOREBAY_SEED=n cargo test -p forebay-pool simulation -- --nocapture` repeats one world and prints what happens in it; `FOREBAY_SOAK=1`
//! runs many worlds instead of a few.

mod chaos;
mod clients;
mod dice;
mod hosts;
mod nature;
mod process;
mod promises;
mod scale;
mod wire;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::Bytes;

use self::{
    dice::Dice,
    nature::{Environment, options},
    wire::Wire,
    world::{Outputs, World, header, response},
};
use super::{Command, NewJob, Phase, Signal, State};
use crate::{Limits, Options, Retry, delivery::ReplyTo};

/// Number of worlds of each kind.
const WORLDS: u64 = 12;
/// Number of worlds of each kind with `FOREBAY_SOAK`.
const WORLDS_SOAK: u64 = 200;
/// Duration of a world before it calms down.
const LIFE: Duration = Duration::from_secs(20);
/// Time after which a calm world must have recovered: the longest pause between failing starts, and the longest time a client waits.
const RECOVERY: Duration = Duration::from_secs(20);
/// Time after which a stopped pool must have ended: every limit of a job, twice for a retried one, and every grace period.
const STOPPING: Duration = Duration::from_secs(15);
/// Time after which a pool that is stopped at once must have ended.
const ABANDONING: Duration = Duration::from_millis(100);
/// Mean microseconds between jobs in a world that is often overloaded.
const BUSY: [u64; 6] = [100, 300, 2_000, 5_000, 50_000, 2_000_000];
/// Mean microseconds between jobs in a quieter world.
const QUIET: [u64; 6] = [2_000, 20_000, 50_000, 200_000, 1_000_000, 20_000_000];
/// A check takes as long as there are jobs, so one is made every so many jobs' steps. With `FOREBAY_SOAK`, and when one world is repeated, every
/// step is checked.
const JOBS_PER_STEP: usize = 8;
/// Number of steps after which the model forgets what is over.
const FORGET_STEPS: u32 = 10_000;

impl World {
    fn run(&mut self, time: Duration, mut is_done: impl FnMut(&Self) -> bool) {
        let until = self.now + time;
        let (mut steps, mut unchecked) = (0u32, 0);
        while !is_done(self) && self.step(until) {
            steps += 1;
            unchecked += JOBS_PER_STEP;
            if self.checks_every_step || unchecked > self.state.jobs.len() {
                promises::check(self);
                unchecked = 0;
            }
            if steps.is_multiple_of(FORGET_STEPS) {
                self.forget();
            }
        }
        promises::check(self);
    }

    /// Checks that the pool recovers once nothing breaks any more.
    fn recover(&mut self) {
        self.calm();
        self.run(RECOVERY, |_| false);
        let (min, max) = self.state.size();
        let (kept, ending): (Vec<_>, Vec<_>) =
            self.state.workers().partition(|(_, w)| w.phase <= Phase::Ready);
        let steady = ending.is_empty() && kept.iter().all(|(_, w)| w.phase == Phase::Ready);
        assert!(self.state.is_ready(), "the pool is ready again");
        assert!(!self.state.has_jobs(), "every job ends");
        // There may be one more: the replacement of one that is to be recycled.
        assert!(
            kept.len() >= min && kept.len() <= max + 1,
            "{} workers of {min} to {max}",
            kept.len()
        );
        let sleeps = self.rest.is_none_or(|pause| pause >= Duration::from_secs(1));
        assert!(sleeps || !steady, "an idle pool lets the machine sleep");
    }

    fn end(&mut self, at_once: bool) {
        let patience = if at_once {
            self.abandon_all();
            ABANDONING
        } else {
            self.stop();
            STOPPING
        };
        self.run(patience, Self::is_empty);
        assert!(self.is_empty(), "a stopped pool ends");
        assert_eq!(self.clients.open().count(), 0, "every owner knows its end");
    }
}

fn soaks() -> bool {
    std::env::var_os("FOREBAY_SOAK").is_some()
}

fn live(seed: u64, nature: Environment, life: Duration, tells: bool) -> u64 {
    let mut dice = Dice::new(seed);
    let (recovers, at_once) = (dice.chance(500), dice.chance(500));
    let mut world = World::new(dice, nature);
    world.tells = tells;
    world.checks_every_step = tells || soaks();
    world.run(life, |_| false);
    if recovers {
        world.recover();
    }
    world.end(at_once);
    world.clients.delivered
}

/// Runs worlds of one kind; a failure names its seed.
fn live_often(nature: Environment) {
    let replayed = std::env::var("FOREBAY_SEED")
        .ok()
        .map(|seed| seed.parse::<u64>().expect("FOREBAY_SEED is a number"));
    let seeds = match replayed {
        Some(seed) => seed..seed + 1,
        None if soaks() => 0..WORLDS_SOAK,
        None => 0..WORLDS,
    };
    for seed in seeds {
        let lived = catch_unwind(AssertUnwindSafe(|| live(seed, nature, LIFE, replayed.is_some())));
        if let Err(panic) = lived {
            println!("the world of seed {seed} fails: repeat it with FOREBAY_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

#[test]
fn a_pool_keeps_its_promises_in_a_world_of_failures() {
    live_often(Environment {
        claims: true,
        chaos: true,
        misbehaving: 60,
        of_clients: 0,
        gaps_us: BUSY,
    });
}

#[test]
fn a_pool_keeps_its_promises_when_clients_stay_with_their_workers() {
    for of_clients in [300, 1_000] {
        live_often(Environment {
            claims: true,
            chaos: true,
            misbehaving: 60,
            of_clients,
            gaps_us: BUSY,
        });
    }
}

#[test]
fn a_pool_keeps_its_promises_without_claim_words() {
    live_often(Environment {
        claims: false,
        chaos: true,
        misbehaving: 60,
        of_clients: 0,
        gaps_us: BUSY,
    });
}

#[test]
fn a_pool_keeps_its_promises_when_only_handlers_fail() {
    live_often(Environment {
        claims: true,
        chaos: false,
        misbehaving: 20,
        of_clients: 0,
        gaps_us: BUSY,
    });
}

#[test]
fn one_worker_starts_jobs_in_the_order_of_their_arrival() {
    live_often(Environment {
        claims: true,
        chaos: false,
        misbehaving: 0,
        of_clients: 0,
        gaps_us: BUSY,
    });
}

#[test]
fn a_simulated_hour_passes_quickly() {
    let hour = Duration::from_hours(1);
    let delivered = live(
        1,
        Environment {
            claims: true,
            chaos: true,
            misbehaving: 30,
            of_clients: 0,
            gaps_us: QUIET,
        },
        hour,
        false,
    );
    assert!(delivered > 10_000, "only {delivered} deliveries in an hour");
}

/// A rare case on its own: a frame that was in transit when the limit passed does not count as a sign of life forever.
#[test]
fn a_worker_that_falls_silent_is_ended_although_it_was_heard_after_the_limit() {
    let ms = Duration::from_millis;
    let nature = Environment {
        claims: true,
        chaos: false,
        misbehaving: 0,
        of_clients: 0,
        gaps_us: QUIET,
    };
    let options = Options {
        concurrency: 2,
        concurrency_max: 2,
        kill_grace: ms(300),
        ..options(&mut Dice::new(0), nature)
    };
    let (mut state, mut out) = (State::new(options, 1), Outputs::default());
    let (start, wire) = (Instant::now(), Rc::new(Wire::default()));
    let id = state.next_worker_id();
    let key = state.add_worker(id, 1, wire.clone(), start);
    wire.claims.set(true);
    state.worker_ready(key, true, start, &mut out);
    let limits = Limits {
        queue_timeout: ms(1_000),
        run_timeout: ms(20),
        retry: Retry::Never,
    };
    let mut submit = |waiter| {
        let job = NewJob {
            payload: vec![0; 12],
            end: true,
            limits,
            deadline: start + ms(60_000),
            may_upgrade: false,
            trace: None,
            client: None,
            reply_to: ReplyTo {
                mailbox: 0,
                waiter,
                nonce: 0,
            },
        };
        state.submit(job, start, &mut out).unwrap();
        let name = state.workers[key].jobs_in_order().last().unwrap();
        assert!(wire.claim(name.0, name.1));
        (name.0, name.1)
    };
    let (_spins, streams) = (submit(0), submit(1));
    let head = response(0, 1);
    state
        .answer(key, &header(streams, 0), head, None, start + ms(1), &mut out)
        .unwrap();
    let mut ended = None;
    for now in (5..1_000).step_by(5) {
        let (commands, _) = state.housekeep(start + ms(now), &mut out);
        if now == 30 {
            let bytes = Bytes::from_static(b"under way");
            let late = start + ms(now);
            state.chunk(key, streams, 0, bytes, late, &mut out).unwrap();
        }
        if commands.contains(&Command::Signal(id, Signal::Terminate)) {
            ended = Some(now);
            break;
        }
    }
    assert_eq!(
        ended,
        Some(30 + 300),
        "it has kill_grace from when it was last heard"
    );
}

/// Clients of a worker that ends move; its replacement, which takes its seat, gets them back, and no others move.
#[test]
fn only_the_clients_of_a_worker_that_is_replaced_move() {
    let nature = Environment {
        claims: true,
        chaos: false,
        misbehaving: 0,
        of_clients: 0,
        gaps_us: QUIET,
    };
    let (mut state, mut out) = (
        State::new(options(&mut Dice::new(0), nature), 1),
        Outputs::default(),
    );
    let now = Instant::now();
    let mut start = |state: &mut State<Rc<Wire>>| {
        let id = state.next_worker_id();
        let key = state.add_worker(id, 1, Rc::new(Wire::default()), now);
        state.worker_ready(key, true, now, &mut out);
        key
    };
    let workers = [(); 4].map(|()| start(&mut state));
    let of_clients = |state: &State<Rc<Wire>>| {
        let of = |client: u64| state.workers[state.worker_of(client * client).unwrap()].seat;
        (0..1_000).map(of).collect::<Vec<_>>()
    };
    let before = of_clients(&state);
    for seat in 0..4 {
        let clients = before.iter().filter(|&&other| other == seat).count();
        assert!((150..350).contains(&clients), "{clients} of 1000 at one of four");
    }
    // One is replaced before it ends, another one has died.
    state.workers[workers[1]].to_recycle = true;
    start(&mut state);
    assert_eq!(of_clients(&state), before);
    state.worker_gone(workers[1], now, &mut Outputs::default());
    assert_eq!(of_clients(&state), before);
    state.worker_gone(workers[2], now, &mut Outputs::default());
    for (before, after) in before.iter().zip(of_clients(&state)) {
        assert!(if *before == 2 {
            after != 2
        } else {
            after == *before
        });
    }
    start(&mut state);
    assert_eq!(of_clients(&state), before);
}
