//! Invariants that must hold after every step.

use std::time::{Duration, Instant};

use super::{
    super::{LinkPort, Phase, Place, lifecycle::TICK, limits::STALL},
    clients::Stage,
    world::World,
};

/// Maximum time that frames are in transit, plus some slack.
const SLACK: Duration = Duration::from_millis(45);
/// Maximum number of unread frames in a worker's link for each job it may hold: offers, aborts, grants.
const UNREAD_MAX: usize = 2_000;

/// Upper bound for the number of workers of any simulated pool at a time.
const WORKERS_MAX: usize = 10;

pub(super) fn check(world: &World) {
    conserves_jobs(world);
    conserves_workers(world);
    keeps_bounds(world);
    wastes_no_room(world);
    limits_bite(world);
    stuck_workers_end(world);
}

/// Checks the equation of [`Counters`](crate::Counters), and the same from the owners' view.
fn conserves_jobs(world: &World) {
    let state = &world.state;
    let counters = &state.counters;
    let open = |job: &&super::super::Job| job.reply_to.is_some();
    let under_way = state
        .jobs
        .iter()
        .filter(|(_, job)| open(job) && !job.answered)
        .count() as u64;
    let failed: u64 = counters.failed.values().sum();
    assert_eq!(
        counters.accepted,
        counters.answered + counters.faulted + counters.cancelled + failed + under_way,
        "{counters:?} and {under_way} under way"
    );
    let owned = state.jobs.iter().filter(|(_, job)| open(job)).count();
    assert_eq!(
        owned,
        world.clients.open().count(),
        "every owner that waits has a job"
    );
    for (serial, owner) in world.clients.open() {
        let job = state
            .jobs
            .get(owner.handle.job)
            .filter(|job| job.arrival == owner.handle.arrival);
        let job = job.unwrap_or_else(|| panic!("job {serial} is lost"));
        assert_eq!(
            job.reply_to.map(|to| u64::from(to.waiter)),
            Some(serial),
            "a job knows its owner"
        );
        assert_eq!(
            job.answered,
            owner.stage == Stage::Streaming,
            "an answer is delivered at once"
        );
    }
    let sent = state
        .jobs
        .iter()
        .filter(|(_, job)| matches!(job.place, Place::Sent(_)))
        .count();
    let queued = state.jobs.len() - sent;
    assert_eq!(queued, state.queue.len(), "a job that waits is in the queue");
    let held: usize = state.workers().map(|(_, worker)| worker.in_flight()).sum();
    assert_eq!(sent, held, "a job that was sent is at a worker");
}

fn conserves_workers(world: &World) {
    let counters = &world.state.counters;
    let ended: u64 = counters.ended.values().sum();
    assert_eq!(
        counters.started,
        ended + world.state.workers().count() as u64,
        "{counters:?}"
    );
    assert!(counters.ready <= counters.started);
}

fn keeps_bounds(world: &World) {
    let state = &world.state;
    let options = state.options();
    let bytes: usize = state
        .jobs
        .iter()
        .filter(|(_, job)| matches!(job.place, Place::Queued))
        .map(|(_, job)| job.payload.len())
        .sum();
    assert_eq!(bytes, state.queue.bytes(), "the queue knows its bytes");
    let fresh = world.clients.open().filter(|(_, owner)| !owner.was_offered);
    let waiting: Vec<_> = fresh
        .map(|(_, owner)| state.jobs[owner.handle.job].payload.len())
        .collect();
    assert!(waiting.len() <= options.queue_max, "{} jobs wait", waiting.len());
    assert!(
        waiting.iter().sum::<usize>() <= options.queue_bytes_max,
        "the queue's bytes are bounded"
    );
    // Jobs that workers run may return to the queue when they end; jobs in inboxes count as waiting before that.
    let running_max = options.concurrency * WORKERS_MAX;
    let all = state.queue.len() + state.sent_ahead();
    assert!(
        all <= options.queue_max + running_max,
        "{all} jobs wait with what came back"
    );
    for process in world.processes.values() {
        assert!(
            process.wire.unread() <= UNREAD_MAX,
            "{} frames wait for a worker",
            process.wire.unread()
        );
    }
}

/// While a worker has room, no job waits that it may run; and no job waits behind a slow one if another worker could run it.
fn wastes_no_room(world: &World) {
    let state = &world.state;
    let concurrency = state.options().concurrency;
    let ready = || state.workers().filter(|(_, worker)| worker.phase == Phase::Ready);
    let waiting = || state.queue.jobs().into_iter().map(|key| &state.jobs[key]);
    for client in waiting().filter_map(|job| job.client) {
        let worker = state.worker_of(client).map(|key| &state.workers[key]);
        assert!(
            worker.is_none_or(|worker| worker.in_flight() >= concurrency),
            "a job waits although its client's {worker:?} has room"
        );
    }
    if waiting().any(|job| job.client.is_none()) {
        let room = ready().find(|(_, worker)| worker.in_flight() < concurrency);
        assert!(
            room.is_none(),
            "{} jobs wait although {room:?} has room",
            state.queue.len()
        );
    }
    let idle = world.idle_since.is_some_and(|since| world.now > since + 2 * TICK);
    for process in world
        .processes
        .values()
        .filter(|process| idle && process.claims() && process.is_talking())
    {
        let Some(worker) = state.worker(process.key).filter(|worker| worker.id == process.id) else {
            continue;
        };
        let slow = process
            .running()
            .any(|(_, started)| world.now > started + STALL + 3 * TICK);
        let late = |offered| world.now > offered + 2 * TICK;
        let mut jobs = worker.jobs_in_order();
        let waits = jobs.find(|&(slot, number, key)| {
            if state.jobs[key].client.is_some() {
                return false;
            }
            let serial = state.jobs[key].reply_to.map(|to| u64::from(to.waiter));
            let owner = serial.and_then(|serial| world.clients.owner(serial));
            owner.is_some_and(|owner| owner.offered.is_some_and(late))
                && !worker.link.is_claimed(slot, number)
        });
        assert!(
            !slow || waits.is_none(),
            "{waits:?} waits behind a slow job although a worker is idle"
        );
    }
}

/// Every limit is noticed within a tick; the start of a handler within one more.
fn limits_bite(world: &World) {
    let late = |limit| world.now > limit + 2 * TICK + Duration::from_millis(1);
    for (serial, owner) in world
        .clients
        .open()
        .filter(|(_, owner)| owner.stage == Stage::Waiting)
    {
        assert!(!late(owner.deadline), "job {serial} is past its deadline");
        match world.clients.seems_started(owner) {
            Some(started) => {
                assert!(
                    !late(started + owner.limits.run_timeout),
                    "job {serial} runs too long"
                );
            }
            None => {
                assert!(
                    !late(owner.waits_since + owner.limits.queue_timeout),
                    "job {serial} waits too long"
                );
            }
        }
    }
}

/// A worker that does not start, or runs a job that never ends, gets SIGTERM and SIGKILL in time.
fn stuck_workers_end(world: &World) {
    let options = world.state.options();
    for process in world.processes.values().filter(|process| !process.dead) {
        let late = |limit| world.now > limit + 3 * TICK + SLACK;
        let signalled = process.termed.or(process.killed);
        if !process.booted {
            let limit = process.spawned + options.start_timeout;
            assert!(
                process.killed.is_some() || !late(limit),
                "worker {} never starts",
                process.id
            );
        }
        if let Some(termed) = process.termed {
            assert!(
                process.killed.is_some() || !late(termed + options.kill_grace),
                "worker {} lives on",
                process.id
            );
        }
        if process.detached {
            assert!(
                process.killed.is_some(),
                "worker {} is cut off and lives",
                process.id
            );
        }
        for (serial, started) in process.stuck().filter(|_| signalled.is_none()) {
            let Some(owner) = world.clients.owner(serial) else {
                continue;
            };
            let Some(limit) = owner.limit(started) else {
                continue;
            };
            assert!(
                !late(limit + options.kill_grace),
                "worker {} is stuck in job {serial}",
                process.id
            );
        }
    }
}

/// SIGTERM is sent only to a worker that has exceeded a job's limit or was drained, and has had `kill_grace` since.
pub(super) fn terminates_with_reason(world: &World, id: u64) {
    let Some(process) = world.processes.get(&id) else {
        return;
    };
    let grace = world.state.options().kill_grace;
    let passed = |since: Instant| world.now >= since + grace;
    let started = process.running().chain(process.unheard(world.now));
    let sent = process.waiting().map(|serial| (serial, world.now));
    let overran = started.chain(sent).any(|(serial, started)| {
        let owner = world.clients.owner(serial);
        // Without claim words, a job seems to run from the time it was sent.
        let seems = owner.and_then(|owner| world.clients.seems_started(owner));
        let since = seems.map_or(started, |seems| seems.min(started));
        owner.and_then(|owner| owner.limit(since)).is_some_and(passed)
    });
    let drained = process.done.is_some_and(passed);
    assert!(
        overran || drained || process.dead,
        "worker {id} gets SIGTERM for nothing"
    );
}
