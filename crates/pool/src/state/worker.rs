//! The pool's record of one worker, a process or a host on another machine: its jobs by slot, its speed, and its phase.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use smallvec::SmallVec;

use forebay_wire::{DETACHED_SLOT, SLOTS_MAX};

use super::workers::Rank;
use crate::calls::OpenCalls;

/// Maximum amount of work in a worker's inbox beyond what it runs.
const CREDIT_WORK: Duration = Duration::from_millis(1);
/// Maximum number of jobs in a worker's inbox, however fast it is.
const CREDIT_JOBS_MAX: usize = 127;
/// Divisor of the moving average: each job has a weight of 1 over this in the service time.
const AVERAGE_OVER: f64 = 16.0;

/// Maximum number of entries of finished jobs in the order list, so that a stream at its front does not make it grow.
const ORDER_SLACK: usize = 64;

/// Maximum number of jobs that a host has from one pool.
const HOST_JOBS_MAX: usize = SLOTS_MAX as usize - 1;

const _: () = assert!(CREDIT_JOBS_MAX < SLOTS_MAX as usize);

/// Phase of a worker's life. It only moves downwards in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Started, not yet ready for jobs.
    Starting,
    /// Accepts jobs.
    Ready,
    /// Finishes its jobs, then ends.
    Draining,
    /// Has been sent SIGTERM.
    Terminating,
    /// Has been sent SIGKILL.
    Killed,
}

/// The reason why a worker ends, for counters and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndCause {
    /// It ended on its own.
    Crashed,
    /// It ran a job over its limit.
    Overran,
    /// It broke the protocol.
    Protocol,
    /// It could not start.
    StartFailed,
    /// It had nothing to do.
    Idle,
    /// It reached a limit of `recycle`.
    Recycled,
    /// The pool was made smaller or stopped.
    Stopped,
}

impl EndCause {
    /// The name of this cause in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Overran => "overran",
            Self::Protocol => "protocol",
            Self::StartFailed => "start_failed",
            Self::Idle => "idle",
            Self::Recycled => "recycled",
            Self::Stopped => "stopped",
        }
    }

    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Crashed,
        Self::Overran,
        Self::Protocol,
        Self::StartFailed,
        Self::Idle,
        Self::Recycled,
        Self::Stopped,
    ];
}

#[derive(Debug)]
pub(crate) struct Worker<L> {
    /// The worker's number in the pool, never reused.
    pub(crate) id: u64,
    pub(crate) pid: u32,
    /// Its place among the workers, which its replacement takes.
    pub(crate) seat: u64,
    pub(crate) link: L,
    pub(crate) phase: Phase,
    /// When it entered its current phase.
    pub(crate) since: Instant,
    pub(crate) ready_at: Option<Instant>,
    pub(crate) cause: Option<EndCause>,
    pub(crate) answered: u64,
    /// When it last sent an answer or a part of one.
    pub(crate) last_answer: Instant,
    /// Whether it runs a slow job, behind which no other may wait.
    pub(crate) stalled: bool,
    /// Whether it is to be replaced: it drains as soon as another is ready.
    pub(crate) to_recycle: bool,
    pub(crate) uses_page: bool,
    /// Present if the worker is a host on another machine.
    pub(crate) host: Option<HostLoad>,
    /// The queue for its calls outside of jobs, once it has made one.
    pub(crate) calls: Option<OpenCalls>,
    /// Resident memory at the last measurement.
    pub(crate) rss_bytes: u64,
    jobs: Vec<Slot>,
    free: SmallVec<[u32; 8]>,
    /// Slots and numbers in the order in which their jobs were sent.
    order: std::collections::VecDeque<(u32, u32)>,
    in_flight: usize,
    /// Jobs that have left their slots, by number.
    detached: HashMap<u32, usize>,
    last_job: u32,
    service_ns: Option<f64>,
}

/// The state of a worker that is a host on another machine.
#[derive(Clone, Debug)]
pub(crate) struct HostLoad {
    pub(crate) name: String,
    /// Number of this pool's jobs that the host takes at most, as far as is known. Other pools use the same host.
    pub(crate) jobs_max: usize,
    /// Its place in the order of hosts that get jobs.
    pub(super) rank: Option<Rank>,
    /// Whether that may be another one by now.
    pub(super) is_noted: bool,
}

impl HostLoad {
    /// A host that has not said yet how many jobs it takes.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            jobs_max: 0,
            rank: None,
            is_noted: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The job's number on the link; 0 if the slot is free.
    number: u32,
    job: usize,
}

impl<L> Worker<L> {
    pub(crate) fn new(id: u64, pid: u32, seat: u64, link: L, now: Instant) -> Self {
        Self {
            id,
            pid,
            seat,
            link,
            phase: Phase::Starting,
            since: now,
            ready_at: None,
            cause: None,
            answered: 0,
            last_answer: now,
            stalled: false,
            to_recycle: false,
            uses_page: false,
            host: None,
            calls: None,
            rss_bytes: 0,
            jobs: Vec::new(),
            free: SmallVec::new(),
            order: std::collections::VecDeque::new(),
            in_flight: 0,
            detached: HashMap::new(),
            last_job: 0,
            service_ns: None,
        }
    }

    /// Number of jobs in slots.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether it has jobs, or is not ready yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.phase == Phase::Starting || self.in_flight > 0 || !self.detached.is_empty()
    }

    /// Jobs that have left their slots.
    pub(crate) fn detached(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.detached.values().copied()
    }

    /// Frees the slot of a job, which is known by its number from now on.
    pub(crate) fn detach(&mut self, slot: u32) {
        let Slot { number, job } = self.jobs[slot as usize];
        self.release(slot);
        self.detached.insert(number, job);
    }

    /// Number of jobs that may lie in its inbox beyond those it runs.
    pub(crate) fn credit(&self) -> usize {
        match self.service_ns {
            Some(service) if self.uses_page && !self.stalled => {
                ((CREDIT_WORK.as_nanos() as f64 / service.max(1.0)) as usize).min(CREDIT_JOBS_MAX)
            }
            _ => 0,
        }
    }

    /// Number of jobs that it runs at a time in a pool with this `concurrency`.
    pub(crate) fn concurrency(&self, of_pool: usize) -> usize {
        self.host.as_ref().map_or(of_pool, |host| host.jobs_max)
    }

    /// Records how many more jobs a host takes now.
    pub(crate) fn set_room(&mut self, room: usize) {
        let jobs_max = self.in_flight.saturating_add(room).min(HOST_JOBS_MAX);
        if let Some(host) = &mut self.host {
            host.jobs_max = jobs_max;
        }
    }

    /// Number of jobs that may still be sent to it.
    pub(crate) fn room(&self, concurrency: usize) -> usize {
        if self.phase == Phase::Ready {
            (self.concurrency(concurrency) + self.credit()).saturating_sub(self.in_flight)
        } else {
            0
        }
    }

    /// Whether another job may be sent to it.
    pub(crate) fn has_room(&self, concurrency: usize) -> bool {
        self.room(concurrency) > 0
    }

    pub(crate) fn move_to(&mut self, phase: Phase, now: Instant) {
        assert!(phase > self.phase, "a worker's life has one direction");
        self.phase = phase;
        self.since = now;
    }

    /// Allocates a slot for a job, and its number on the link.
    pub(crate) fn place(&mut self, job: usize) -> (u32, u32) {
        loop {
            self.last_job = self.last_job.checked_add(1).unwrap_or(1);
            // After 4 billion jobs, numbers come again while a detached job may still have one.
            if !self.detached.contains_key(&self.last_job) {
                break;
            }
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(
                self.jobs.len() < SLOTS_MAX as usize,
                "room was checked before a job is placed"
            );
            self.jobs.push(Slot { number: 0, job: 0 });
            self.jobs.len() as u32 - 1
        });
        self.jobs[slot as usize] = Slot {
            number: self.last_job,
            job,
        };
        self.order.push_back((slot, self.last_job));
        self.in_flight += 1;
        (slot, self.last_job)
    }

    /// The job with this slot and number on the link, unless it is over. One that has left its slot may still be named by that: calls come on
    /// two sockets, in no order.
    pub(crate) fn job_at(&self, slot: u32, number: u32) -> Option<usize> {
        match self.jobs.get(slot as usize) {
            Some(place) if number != 0 && place.number == number => Some(place.job),
            _ => self.detached.get(&number).copied(),
        }
    }

    /// The slot of the job with this number on the link.
    pub(crate) fn slot_of(&self, number: u32) -> Option<u32> {
        let slot = self.jobs.iter().position(|place| place.number == number)?;
        (number != 0).then_some(slot as u32)
    }

    /// Slot, number on the link and job, if it has exactly one job.
    pub(crate) fn only_job(&self) -> Option<(u32, u32, usize)> {
        let only = self.jobs_in_order().next()?;
        (self.in_flight == 1).then_some(only)
    }

    /// Forgets a job that is over.
    pub(crate) fn remove(&mut self, slot: u32, number: u32) {
        if slot == DETACHED_SLOT {
            self.detached.remove(&number);
        } else {
            self.release(slot);
        }
    }

    /// Frees the slot of a job that is over or was taken back.
    pub(crate) fn release(&mut self, slot: u32) {
        let place = &mut self.jobs[slot as usize];
        assert!(place.number != 0, "only a taken slot is released");
        place.number = 0;
        self.free.push(slot);
        self.in_flight -= 1;
        while let Some(&(slot, number)) = self.order.front() {
            if self.jobs[slot as usize].number == number {
                break;
            }
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.in_flight + ORDER_SLACK {
            let jobs = &self.jobs;
            self.order
                .retain(|&(slot, number)| jobs[slot as usize].number == number);
        }
    }

    /// Its jobs in the order in which they were sent: slot, number on the link, job.
    pub(crate) fn jobs_in_order(&self) -> impl DoubleEndedIterator<Item = (u32, u32, usize)> + '_ {
        self.order
            .iter()
            .filter_map(|&(slot, number)| self.job_at(slot, number).map(|job| (slot, number, job)))
    }

    /// Updates the average service time.
    pub(crate) fn observe(&mut self, service: Duration) {
        let sample = service.as_nanos() as f64;
        self.service_ns = Some(match self.service_ns {
            None => sample,
            Some(average) => average + (sample - average) / AVERAGE_OVER,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready_worker(uses_page: bool) -> Worker<()> {
        let now = Instant::now();
        let mut worker = Worker::new(1, 1, 0, (), now);
        worker.move_to(Phase::Ready, now);
        worker.uses_page = uses_page;
        worker
    }

    #[test]
    fn the_inbox_holds_a_millisecond_of_work_at_most() {
        let mut worker = ready_worker(true);
        assert_eq!(worker.credit(), 0, "before the first answer nothing is known");
        worker.observe(Duration::from_micros(100));
        assert_eq!(worker.credit(), 10);
        worker.observe(Duration::from_millis(100));
        assert_eq!(worker.credit(), 0, "one slow job is enough to stop sending ahead");
        for _ in 0..500 {
            worker.observe(Duration::from_nanos(50));
        }
        assert_eq!(worker.credit(), CREDIT_JOBS_MAX, "however fast it is");
        assert_eq!(worker.room(1), 1 + CREDIT_JOBS_MAX);
    }

    #[test]
    fn no_job_is_sent_ahead_to_a_worker_that_is_slow_cannot_claim_or_is_not_ready() {
        let mut worker = ready_worker(false);
        worker.observe(Duration::from_micros(1));
        assert_eq!(worker.room(2), 2);
        worker.uses_page = true;
        worker.stalled = true;
        assert_eq!(worker.room(2), 2);
        worker.stalled = false;
        worker.move_to(Phase::Draining, Instant::now());
        assert!(!worker.has_room(2));
    }

    #[test]
    fn a_slot_is_used_again_under_another_number() {
        let mut worker = ready_worker(true);
        let (slot, number) = worker.place(7);
        assert_eq!(worker.job_at(slot, number), Some(7));
        worker.release(slot);
        assert_eq!(
            worker.job_at(slot, number),
            None,
            "its old name means nothing any more"
        );
        assert_eq!(worker.job_at(slot, 0), None, "number 0 is no job");
        let (again, next) = worker.place(8);
        assert_eq!(again, slot);
        assert_ne!(next, number);
        assert_eq!(worker.job_at(slot, number), None);
        assert_eq!(worker.job_at(99, next), None);
    }

    #[test]
    fn numbers_go_around_without_0() {
        let mut worker = ready_worker(true);
        worker.last_job = u32::MAX;
        assert_eq!(worker.place(1).1, 1);
    }

    #[test]
    fn the_order_forgets_what_is_over_even_behind_a_job_that_stays() {
        let mut worker = ready_worker(true);
        let first = worker.place(0);
        for job in 1..10_000 {
            let (slot, _) = worker.place(job);
            worker.release(slot);
        }
        assert!(
            worker.order.len() <= 2 + ORDER_SLACK + 1,
            "{} entries",
            worker.order.len()
        );
        let second = worker.place(5);
        let order: Vec<_> = worker.jobs_in_order().collect();
        assert_eq!(order, [(first.0, first.1, 0), (second.0, second.1, 5)]);
        assert_eq!(worker.jobs.len(), 2, "slots are used again");
    }

    #[test]
    fn a_detached_job_is_named_by_its_number_while_its_slot_has_another() {
        let mut worker = ready_worker(true);
        let (slot, number) = worker.place(7);
        worker.detach(slot);
        assert_eq!((worker.in_flight(), worker.detached().len()), (0, 1));
        let (again, next) = worker.place(8);
        assert_eq!(again, slot);
        for slot in [slot, DETACHED_SLOT, 99] {
            assert_eq!(worker.job_at(slot, number), Some(7), "in slot {slot}");
        }
        assert_eq!(worker.job_at(slot, next), Some(8));
        // Numbers that come again after going around are not given twice.
        worker.last_job = number - 1;
        assert_ne!(worker.place(9).1, number);
        worker.remove(DETACHED_SLOT, number);
        assert_eq!(worker.job_at(slot, number), None);
    }
}
