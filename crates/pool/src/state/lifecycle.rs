//! Time-based transitions of workers: start, retirement, replacement, stop. Those of jobs are in `limits.rs`.

use std::time::{Duration, Instant};

use forebay_wire::AbortReason;

use super::{EndCause, LinkPort, Outlet, Phase, Place, State, Worker, limits::take_back};
use crate::{Failure, Options};

/// Interval for checking limits while there are jobs or changes: a limit is noticed at most this late.
pub(super) const TICK: Duration = Duration::from_millis(5);
/// Interval at which a pool without jobs looks for workers to retire.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// If all workers are busy for this long, another one is started.
const SATURATION: Duration = Duration::from_millis(100);
/// A worker that ends sooner without having run a job counts as a failed start.
const START_FAILURE_LIFE: Duration = Duration::from_secs(1);
/// The pause after the first failed start; it doubles with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// The longest pause between failing starts.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// A command for the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Start another worker.
    Start,
    /// Send DRAIN to the worker with this number.
    Drain(u64),
    /// Send a signal to the process group of the worker with this number.
    Signal(u64, Signal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Terminate,
    Kill,
}

#[derive(Debug)]
pub(super) struct Lifecycle {
    min: usize,
    max: usize,
    stopping: bool,
    /// Jobs are not retried: the pool has been told to stop at once.
    abandoned: bool,
    /// Number of failed starts since the last successful one.
    start_failures: u32,
    /// Number of failed starts since a worker ended that had been useful. Becoming ready is not enough to reset the back-off.
    failed_in_a_row: u32,
    next_start: Option<Instant>,
    /// Number of starts that were ordered but are not among the workers yet.
    ordered: usize,
    saturated_since: Option<Instant>,
    workers_made: u64,
    /// Why a pool of hosts has none.
    pub(super) absence: String,
    recycle_jobs: u64,
    /// Whether the next housekeeping comes within a tick without a wake-up.
    pub(super) ticks: bool,
}

impl Lifecycle {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            min: options.workers_min,
            max: options.workers_max.max(options.workers_min).max(1),
            stopping: false,
            abandoned: false,
            start_failures: 0,
            failed_in_a_row: 0,
            next_start: None,
            ordered: 0,
            saturated_since: None,
            workers_made: 0,
            absence: String::new(),
            recycle_jobs: options.recycle.jobs,
            ticks: false,
        }
    }

    pub(super) fn stopping(&self) -> bool {
        self.stopping
    }

    pub(super) fn abandoned(&self) -> bool {
        self.abandoned
    }

    pub(super) fn start_failures(&self) -> u32 {
        self.start_failures
    }

    /// Whether this worker has just reached a limit that only housekeeping acts on.
    pub(super) fn wants_look<L>(&self, worker: &Worker<L>) -> bool {
        self.recycle_jobs > 0 && worker.answered >= self.recycle_jobs
    }
}

impl<L: LinkPort> State<L> {
    /// The current minimum and maximum of workers.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.lifecycle.min, self.lifecycle.max)
    }

    /// Changes the range of workers; [`State::housekeep`] does the rest. The maximum is raised to at least 1 and at least `min`.
    pub(crate) fn resize(&mut self, min: usize, max: usize) {
        (self.lifecycle.min, self.lifecycle.max) = (min, max.max(min).max(1));
    }

    /// Refuses new jobs from now on; workers end once they are idle.
    pub(crate) fn stop(&mut self) {
        self.lifecycle.stopping = true;
    }

    /// Whether the pool is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.lifecycle.stopping
    }

    /// Records the resident memory of workers: key, process, bytes.
    pub(crate) fn set_rss(&mut self, sizes: &[(usize, u32, u64)]) {
        for &(key, pid, bytes) in sizes {
            if let Some(worker) = self.workers.get_mut(key).filter(|worker| worker.pid == pid) {
                worker.rss_bytes = bytes;
            }
        }
    }

    /// Fails all remaining jobs, and has every worker killed.
    pub(crate) fn abandon_all(&mut self, now: Instant, out: &mut impl Outlet<L>) {
        self.lifecycle.stopping = true;
        self.lifecycle.abandoned = true;
        let keys: Vec<_> = self.jobs.iter().map(|(key, _)| key).collect();
        for key in keys {
            let pool = self.options.name.clone();
            self.fail(key, Failure::Stopping { pool }, out);
            self.abandon(key, AbortReason::ServerEnds, now, out);
        }
        out.wake_supervisor();
    }

    /// Whether the pool can run jobs: it has its minimum of ready workers, or has lost one and is replacing it.
    pub(crate) fn is_ready(&self) -> bool {
        let ready = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.phase == Phase::Ready)
            .count();
        let had_enough = self.counters.ready >= self.lifecycle.min as u64;
        let is_replacing = !(self.cannot_start() || self.lifecycle.stopping || self.options.remote);
        had_enough && (ready > 0 || is_replacing)
    }

    /// Number of failed starts since the last successful one.
    pub(crate) fn start_failures(&self) -> u32 {
        self.lifecycle.start_failures
    }

    /// Whether another worker may be started for a waiting job.
    pub(super) fn can_grow(&self) -> bool {
        !self.options.remote && self.alive() + self.lifecycle.ordered < self.lifecycle.max
    }

    /// Number of workers that accept or will accept jobs, without those to be replaced.
    fn alive(&self) -> usize {
        self.workers
            .iter()
            .filter(|(_, w)| w.phase <= Phase::Ready && !w.to_recycle)
            .count()
    }

    fn count(&self, phase: Phase) -> usize {
        self.workers
            .iter()
            .filter(|(_, worker)| worker.phase == phase)
            .count()
    }

    /// Adds a worker whose process was started.
    pub(crate) fn add_worker(&mut self, id: u64, pid: u32, link: L, now: Instant) -> usize {
        self.lifecycle.ordered = self.lifecycle.ordered.saturating_sub(1);
        self.counters.started += 1;
        let seat = self.free_seat();
        self.workers.insert(Worker::new(id, pid, seat, link, now))
    }

    /// Allocates the number of the next worker.
    pub(crate) fn next_worker_id(&mut self) -> u64 {
        self.lifecycle.workers_made += 1;
        self.lifecycle.workers_made
    }

    /// Records that a process could not be started at all.
    pub(crate) fn spawn_failed(&mut self, now: Instant) {
        self.lifecycle.ordered = self.lifecycle.ordered.saturating_sub(1);
        self.counters.started += 1;
        self.counters.ended(EndCause::StartFailed);
        self.start_failed(now);
    }

    /// Records that the worker's handshake is done.
    pub(crate) fn worker_ready(
        &mut self,
        key: usize,
        uses_page: bool,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) {
        let worker = &mut self.workers[key];
        if worker.phase != Phase::Starting {
            return;
        }
        worker.move_to(Phase::Ready, now);
        worker.ready_at = Some(now);
        worker.last_answer = now;
        worker.uses_page = uses_page;
        self.counters.ready += 1;
        self.lifecycle.start_failures = 0;
        self.lifecycle.next_start = None;
        self.dispatch(now, out);
        out.wake_supervisor();
    }

    /// Has a worker killed for a reason found elsewhere, such as bytes that are not frames.
    pub(crate) fn condemn(&mut self, key: usize, cause: EndCause, now: Instant) -> Option<Command> {
        let worker = self.workers.get_mut(key)?;
        if worker.phase == Phase::Killed {
            return None;
        }
        worker.cause.get_or_insert(cause);
        worker.move_to(Phase::Killed, now);
        Some(Command::Signal(worker.id, Signal::Kill))
    }

    /// Counts the end of a worker. If it never ran a job, its start counts as failed.
    pub(super) fn note_end(&mut self, worker: &Worker<L>, ran: bool, now: Instant) {
        let cause = worker.cause.unwrap_or(match worker.ready_at {
            None => EndCause::StartFailed,
            Some(_) => EndCause::Crashed,
        });
        self.counters.ended(cause);
        let stillborn = cause == EndCause::Crashed
            && !ran
            && worker
                .ready_at
                .is_some_and(|ready| now.saturating_duration_since(ready) < START_FAILURE_LIFE);
        if worker.host.is_none() && (cause == EndCause::StartFailed || stillborn) {
            self.start_failed(now);
        } else if worker.ready_at.is_some() {
            self.lifecycle.failed_in_a_row = 0;
        }
    }

    fn start_failed(&mut self, now: Instant) {
        let failed = &mut self.lifecycle.failed_in_a_row;
        let pause = BACKOFF_MIN
            .saturating_mul(1 << (*failed).min(16))
            .min(BACKOFF_MAX);
        *failed += 1;
        self.lifecycle.start_failures = *failed;
        self.lifecycle.next_start = Some(now + pause);
    }

    /// Checks every limit. Returns commands for processes, and the longest time until the next check.
    pub(crate) fn housekeep(
        &mut self,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) -> (Vec<Command>, Option<Duration>) {
        let mut commands = Vec::new();
        self.expire_jobs(now, out);
        self.refuse_waiting(now, out);
        self.unstall(now, out);
        self.escalate(now, &mut commands);
        self.mark_for_recycling(now);
        self.retire(now, &mut commands);
        self.grow(now, &mut commands);
        self.dispatch(now, out);
        let again = self.look_again(now);
        self.lifecycle.ticks = again == Some(TICK);
        (commands, again)
    }

    fn look_again(&self, now: Instant) -> Option<Duration> {
        let changing = self
            .workers
            .iter()
            .any(|(_, worker)| worker.phase != Phase::Ready);
        let ordered = self.lifecycle.ordered > 0;
        if self.has_jobs() || changing || ordered || self.lifecycle.stopping {
            return Some(TICK);
        }
        if let Some(start) = self.lifecycle.next_start.filter(|start| *start > now) {
            return Some(start.saturating_duration_since(now).max(TICK));
        }
        let may_retire = self.workers.len() > self.lifecycle.min;
        let ages = self.options.recycle.age > Duration::ZERO || self.options.recycle.rss_bytes > 0;
        (may_retire || ages).then_some(IDLE_TICK)
    }

    fn escalate(&mut self, now: Instant, commands: &mut Vec<Command>) {
        let grace = self.options.kill_grace;
        let abandoned = self.lifecycle.abandoned;
        for (_, worker) in self.workers.iter_mut() {
            let overrun: Vec<Instant> = worker
                .jobs_in_order()
                .filter_map(|(_, _, job)| match self.jobs[job].place {
                    Place::Sent(sent) => sent.overran,
                    Place::Queued => None,
                })
                .collect();
            let lost = overrun.iter().any(|&since| now >= since + grace);
            match worker.phase {
                Phase::Killed => {}
                _ if abandoned => {
                    worker.cause.get_or_insert(EndCause::Stopped);
                    worker.move_to(Phase::Killed, now);
                    commands.push(Command::Signal(worker.id, Signal::Kill));
                }
                Phase::Starting if now >= worker.since + self.options.start_timeout => {
                    worker.cause.get_or_insert(EndCause::StartFailed);
                    worker.move_to(Phase::Killed, now);
                    commands.push(Command::Signal(worker.id, Signal::Kill));
                }
                Phase::Ready | Phase::Draining if lost => {
                    let silent = now >= worker.last_answer + grace;
                    let alone = worker.in_flight() == overrun.len();
                    if silent || alone {
                        worker.cause.get_or_insert(EndCause::Overran);
                        worker.move_to(Phase::Terminating, now);
                        commands.push(Command::Signal(worker.id, Signal::Terminate));
                    } else if worker.phase == Phase::Ready {
                        worker.cause.get_or_insert(EndCause::Overran);
                        worker.move_to(Phase::Draining, now);
                        commands.push(Command::Drain(worker.id));
                    }
                }
                // A host leaves once its connections have ended.
                Phase::Draining if worker.host.is_some() && worker.detached().len() > 0 => {}
                Phase::Draining
                    if worker.in_flight() == 0 && now >= worker.since.max(worker.last_answer) + grace =>
                {
                    worker.move_to(Phase::Terminating, now);
                    commands.push(Command::Signal(worker.id, Signal::Terminate));
                }
                Phase::Terminating if now >= worker.since + grace => {
                    worker.move_to(Phase::Killed, now);
                    commands.push(Command::Signal(worker.id, Signal::Kill));
                }
                Phase::Starting | Phase::Ready | Phase::Draining | Phase::Terminating => {}
            }
        }
        self.take_back_from_ending();
    }

    /// Returns jobs that an ending worker has not started to the queue.
    fn take_back_from_ending(&mut self) {
        let Self {
            workers, jobs, queue, ..
        } = self;
        for (_, worker) in workers
            .iter_mut()
            .filter(|(_, w)| w.phase > Phase::Ready && w.in_flight() > 0)
        {
            for (slot, number, key) in worker.jobs_in_order().collect::<Vec<_>>() {
                take_back(worker, (slot, number), key, jobs, queue);
            }
        }
    }

    /// Marks one worker at a time, so that the pool never replaces all workers at once.
    fn mark_for_recycling(&mut self, now: Instant) {
        if self.lifecycle.stopping
            || self
                .workers
                .iter()
                .any(|(_, w)| w.to_recycle && w.phase <= Phase::Ready)
        {
            return;
        }
        let recycle = self.options.recycle;
        let due = self.workers.iter_mut().map(|(_, worker)| worker).find(|worker| {
            let jobs = recycle.jobs > 0 && worker.answered >= recycle.jobs;
            let age = recycle.age > Duration::ZERO
                && worker
                    .ready_at
                    .is_some_and(|ready| now.saturating_duration_since(ready) >= recycle.age);
            let rss = recycle.rss_bytes > 0 && worker.rss_bytes > recycle.rss_bytes;
            worker.phase == Phase::Ready && (jobs || age || rss)
        });
        if let Some(worker) = due {
            worker.to_recycle = true;
        }
    }

    fn drain(&mut self, key: usize, cause: EndCause, now: Instant, commands: &mut Vec<Command>) {
        let worker = &mut self.workers[key];
        worker.cause.get_or_insert(cause);
        worker.move_to(Phase::Draining, now);
        commands.push(Command::Drain(worker.id));
    }

    fn retire(&mut self, now: Instant, commands: &mut Vec<Command>) {
        let Lifecycle {
            min, max, stopping, ..
        } = self.lifecycle;
        let idle_done = stopping && !self.has_jobs();
        let mut alive = self.alive();
        for (_, worker) in self
            .workers
            .iter_mut()
            .filter(|(_, w)| w.phase == Phase::Starting)
        {
            if idle_done || alive > max {
                alive -= 1;
                worker.cause.get_or_insert(EndCause::Stopped);
                worker.move_to(Phase::Killed, now);
                commands.push(Command::Signal(worker.id, Signal::Kill));
            }
        }
        let ready = self.workers.iter().filter(|(_, w)| w.phase == Phase::Ready);
        let (old, mut fresh): (Vec<_>, Vec<_>) = ready
            .map(|(key, w)| (key, w.to_recycle))
            .partition(|&(_, old)| old);
        // Keep the most recently used.
        fresh.sort_by_key(|&(key, _)| self.workers[key].last_answer);
        let mut staying = fresh.len();
        for (key, _) in fresh {
            let worker = &self.workers[key];
            let idle_for = now.saturating_duration_since(worker.last_answer);
            let is_idle = worker.in_flight() == 0 && worker.detached().len() == 0;
            let idle = is_idle && idle_for >= self.options.idle_retire;
            let cause = if idle_done || alive > max {
                EndCause::Stopped
            } else if idle && staying > min {
                EndCause::Idle
            } else {
                continue;
            };
            (alive, staying) = (alive - 1, staying - 1);
            self.drain(key, cause, now, commands);
        }
        for (key, _) in old {
            if idle_done {
                self.drain(key, EndCause::Stopped, now, commands);
            } else if staying >= min.max(1) {
                self.drain(key, EndCause::Recycled, now, commands);
            }
        }
    }

    fn grow(&mut self, now: Instant, commands: &mut Vec<Command>) {
        let needs_none = self.options.remote || self.lifecycle.abandoned;
        if needs_none || (self.lifecycle.stopping && self.queue.is_empty()) {
            return;
        }
        if self.lifecycle.next_start.is_some_and(|start| now < start) {
            return;
        }
        let starting = self.count(Phase::Starting) + self.lifecycle.ordered;
        let alive = self.alive() + self.lifecycle.ordered;
        let saturated = self.saturated(now);
        let Lifecycle {
            min,
            max,
            start_failures,
            ..
        } = self.lifecycle;
        let recycling = self
            .workers
            .iter()
            .any(|(_, w)| w.to_recycle && w.phase == Phase::Ready);
        // Even without demand, one worker must show that starts work again, or take over from the one to be recycled.
        let floor = min.max(usize::from(start_failures > 0 || recycling));
        let missing = floor.saturating_sub(alive);
        let demand = self.queue.len().saturating_sub(starting) + usize::from(saturated && starting == 0);
        let mut wanted = missing.max(demand.min(max.saturating_sub(alive)));
        if start_failures > 0 {
            // A single attempt shows whether the cause is gone.
            wanted = wanted.min(1).saturating_sub(starting);
        }
        self.lifecycle.ordered += wanted;
        commands.extend((0..wanted).map(|_| Command::Start));
    }

    /// Whether all workers have been busy without a pause, and there is a core for another one.
    fn saturated(&mut self, now: Instant) -> bool {
        let ready = self.count(Phase::Ready);
        let busy = ready > 0
            && ready < self.cores
            && self
                .workers
                .iter()
                .all(|(_, w)| w.phase != Phase::Ready || w.in_flight() > 0);
        if !busy {
            self.lifecycle.saturated_since = None;
            return false;
        }
        now >= *self.lifecycle.saturated_since.get_or_insert(now) + SATURATION
    }
}
