//! The pool's decisions, without I/O: which worker gets a job, what happens to the jobs of a worker that dies, how an exceeded limit is
//! handled. Time is passed in as an argument; sockets and processes are behind [`LinkPort`], [`Outlet`] and [`Command`], so a test can run
//! a pool for a simulated hour.
//!
//! Two invariants hold. Each job that [`State::submit`] accepts ends in exactly one final delivery, or was cancelled by its owner. While a
//! worker has room, no job waits, except those of clients that stay with another worker.

mod affinity;
mod answers;
mod connections;
mod hosts;
mod lifecycle;
mod limits;
mod queue;
mod rooms;
#[cfg(test)]
mod simulation;
mod worker;
mod workers;

use std::time::Instant;

use forebay_trace::Trace;
use forebay_wire::{AbortReason, DETACHED_SLOT, FrameType, RequestView};
use slab::Slab;

pub(crate) use self::answers::UnattributedAnswer;
pub(crate) use self::lifecycle::{Command, Signal};
pub(crate) use self::rooms::{ROOM_NAME_MAX, ROOMS_MAX};
pub use self::worker::EndCause;
pub(crate) use self::worker::{HostLoad, Phase, Worker};
use self::{
    lifecycle::Lifecycle,
    queue::{Arrival, Full, Queue},
    rooms::Rooms,
    workers::Workers,
};
use crate::{
    Delivery, Failure, Limits, Options, Retry,
    calls::{OpenCalls, Refusal},
    delivery::ReplyTo,
    options::WINDOW_BYTES,
    stats::{Counters, Timings},
};

/// Number of failed starts in a row before jobs are refused, if the pool has worked before: a new worker may be killed by chance.
const START_FAILURES_BORNE: u32 = 2;

/// Sends to one worker and knows its claim words. Never blocks.
pub(crate) trait LinkPort {
    /// Offers a job: stores its claim word, then sends its REQUEST.
    fn offer(&self, slot: u32, number: u32, end: bool, payload: &[u8]);
    /// Takes an offered job back; false when the worker has claimed it, or has no page.
    fn revoke(&self, slot: u32, number: u32) -> bool;
    /// Whether the worker has claimed the job. Without a page, every sent job counts as claimed.
    fn is_claimed(&self, slot: u32, number: u32) -> bool;
    /// The last commit to the store that the worker had made before its latest message; 0 if there is none.
    fn last_commit(&self) -> u64;
    /// Sends ABORT.
    fn abort(&self, slot: u32, number: u32, reason: AbortReason);
    /// Sends more of a request's body.
    fn body(&self, slot: u32, number: u32, bytes: &[u8], end: bool);
    /// Sends the fields behind a request's body.
    fn trailers(&self, slot: u32, number: u32, block: &[u8]);
    /// Sends a MESSAGE or CLOSE of a WebSocket.
    fn websocket(&self, kind: FrameType, flags: u8, number: u32, payload: &[u8]);
    /// Grants more of a response's body.
    fn window(&self, slot: u32, number: u32, bytes: u32);
}

/// Receives the state's outputs.
pub(crate) trait Outlet<L> {
    /// Delivers to the task that waits for a job.
    fn deliver(&mut self, to: ReplyTo, delivery: Delivery);
    /// Reports that the link has output and must be flushed.
    fn written(&mut self, link: &L);
    /// Reports that [`State::housekeep`] has something to do now.
    fn wake_supervisor(&mut self);
}

/// A submitted job.
#[derive(Debug)]
pub(crate) struct NewJob {
    pub(crate) payload: Vec<u8>,
    /// Whether the payload contains the whole body.
    pub(crate) end: bool,
    pub(crate) limits: Limits,
    /// The deadline of the client's request.
    pub(crate) deadline: Instant,
    pub(crate) may_upgrade: bool,
    /// Passed to the handler of its calls.
    pub(crate) trace: Option<Trace>,
    /// The client, if it stays with one worker.
    pub(crate) client: Option<u64>,
    pub(crate) reply_to: ReplyTo,
}

/// Identifies a job from outside, even after it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobHandle {
    job: usize,
    arrival: Arrival,
}

#[derive(Debug)]
struct Job {
    arrival: Arrival,
    payload: Vec<u8>,
    end: bool,
    limits: Limits,
    /// Start of its current wait: its arrival, or the end of the worker that ran it.
    waits_since: Instant,
    deadline: Instant,
    trace: Option<Trace>,
    /// The client, if it stays with one worker.
    client: Option<u64>,
    /// `None` once its owner has left or was told of a failure.
    reply_to: Option<ReplyTo>,
    /// Whether the first part of an answer was delivered.
    answered: bool,
    protocols: Protocols,
    /// Number of body bytes that the worker may still send in BODY frames.
    window: u64,
    /// The queue for its calls, once it has made one. Dropped with the job, or earlier if its owner no longer waits.
    calls: Option<OpenCalls>,
    ran_before: bool,
    place: Place,
}

/// The protocol on the connection of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocols {
    Http,
    /// HTTP, unless the worker answers with an upgrade.
    Upgradable,
    WebSocket,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Queued,
    Sent(Sent),
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    worker: usize,
    slot: u32,
    number: u32,
    at: Instant,
    /// When the worker was first seen running it.
    started: Option<Instant>,
    /// When it was aborted.
    aborted: Option<Instant>,
    /// When it was first seen over its limit.
    overran: Option<Instant>,
}

/// The state of one pool.
#[derive(Debug)]
pub(crate) struct State<L> {
    options: Options,
    jobs: Slab<Job>,
    queue: Queue,
    workers: Workers<L>,
    lifecycle: Lifecycle,
    arrivals: Arrival,
    /// Number of jobs that have left their slots.
    detached: usize,
    /// Whether a job has been of a client that stays with one worker.
    has_clients: bool,
    rooms: Rooms,
    /// Whether connections have been told to end, and no further ones are taken.
    ends_connections: bool,
    /// Number of workers that may be busy before jobs are packed onto them: the number of cores.
    cores: usize,
    pub(crate) counters: Counters,
    pub(crate) timings: Timings,
}

impl<L: LinkPort> State<L> {
    pub(crate) fn new(options: Options, cores: usize) -> Self {
        Self {
            queue: Queue::new(options.queue_max, options.queue_bytes_max),
            lifecycle: Lifecycle::new(&options),
            options,
            jobs: Slab::new(),
            workers: Workers::default(),
            arrivals: 0,
            detached: 0,
            has_clients: false,
            rooms: Rooms::default(),
            ends_connections: false,
            cores,
            counters: Counters::default(),
            timings: Timings::default(),
        }
    }

    /// Takes the number of jobs that a worker asks for. All workers of a pool run the same handler, so it holds for all of them.
    pub(crate) fn raise_concurrency(&mut self, asked: usize) {
        let Options {
            concurrency,
            concurrency_max,
            ..
        } = &mut self.options;
        *concurrency = asked.clamp(*concurrency, *concurrency_max);
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn queued(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.bytes())
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = (usize, &Worker<L>)> {
        self.workers.iter()
    }

    pub(crate) fn worker(&self, key: usize) -> Option<&Worker<L>> {
        self.workers.get(key)
    }

    /// Whether any jobs wait or run. Those that have left their slots do not count.
    pub(crate) fn has_jobs(&self) -> bool {
        self.jobs.len() > self.detached
    }

    /// Number of open event streams and upgraded connections.
    pub(crate) fn connections(&self) -> usize {
        self.detached
    }

    /// Accepts a job, or refuses it at once.
    pub(crate) fn submit(
        &mut self,
        new: NewJob,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) -> Result<JobHandle, Failure> {
        if let Some(refusal) = self.refusal() {
            self.counters.refused(&refusal);
            return Err(refusal);
        }
        let arrival = self.arrivals;
        let bytes = new.payload.len();
        let may_wait = self.queue.len() + self.sent_ahead() < self.options.queue_max;
        self.has_clients |= new.client.is_some();
        // If any worker could run this one at once, those that wait are for others.
        let free = if self.queue.is_empty() || self.has_clients {
            self.pick_for(new.client, may_wait)
        } else {
            None
        };
        if free.is_none() {
            let queued = if may_wait {
                self.queue.push(arrival, self.jobs.vacant_key(), bytes)
            } else {
                Err(Full::Jobs)
            };
            if let Err(full) = queued {
                let refusal = self.full(&full, bytes);
                self.counters.refused(&refusal);
                return Err(refusal);
            }
        }
        self.arrivals += 1;
        self.counters.accepted += 1;
        let job = self.jobs.insert(Job {
            arrival,
            payload: new.payload,
            end: new.end,
            limits: new.limits,
            waits_since: now,
            deadline: new.deadline,
            trace: new.trace,
            client: new.client,
            reply_to: Some(new.reply_to),
            answered: false,
            protocols: if new.may_upgrade {
                Protocols::Upgradable
            } else {
                Protocols::Http
            },
            window: u64::from(WINDOW_BYTES),
            calls: None,
            ran_before: false,
            place: Place::Queued,
        });
        match free {
            Some(worker) => self.send(job, worker, now, out),
            None if self.can_grow() => out.wake_supervisor(),
            None => {}
        }
        if !self.lifecycle.ticks {
            out.wake_supervisor();
        }
        Ok(JobHandle { job, arrival })
    }

    /// Number of jobs in workers' inboxes. They count as waiting, because a slow job sends them back to the queue.
    fn sent_ahead(&self) -> usize {
        if self.options.remote {
            return 0;
        }
        let beyond = |worker: &Worker<L>| worker.in_flight().saturating_sub(self.options.concurrency);
        self.workers.iter().map(|(_, worker)| beyond(worker)).sum()
    }

    fn refusal(&self) -> Option<Failure> {
        let pool = || self.options.name.clone();
        if self.lifecycle.stopping() {
            Some(Failure::Stopping { pool: pool() })
        } else if self.cannot_start() {
            Some(Failure::NotStarting { pool: pool() })
        } else {
            self.no_host()
        }
    }

    /// Whether starts fail and no worker is left, so that it is unknown when the next job could run.
    fn cannot_start(&self) -> bool {
        let borne = if self.counters.ready > 0 {
            START_FAILURES_BORNE
        } else {
            0
        };
        self.lifecycle.start_failures() > borne && !self.workers.iter().any(|(_, w)| w.phase == Phase::Ready)
    }

    fn full(&self, full: &Full, bytes: usize) -> Failure {
        let pool = self.options.name.clone();
        match full {
            Full::Jobs => Failure::QueueFull {
                pool,
                queue_max: self.options.queue_max,
            },
            Full::Bytes => Failure::QueueBytesFull {
                pool,
                bytes,
                queue_bytes_max: self.options.queue_bytes_max,
            },
        }
    }

    /// Picks the worker for the next job. Idle workers come first, of those the ones with the fewest connections, and then the most
    /// recently used one, so that the others may retire. But once as many are busy as there are cores, a fast one with credit left takes the
    /// job into its inbox: waking another process would only make batches smaller. Workers with a slow job come last. Hosts have an order of
    /// their own. Unless the job may wait, only a worker that can run it at once is picked.
    fn pick(&mut self, may_wait: bool) -> Option<usize> {
        if self.options.remote {
            return self.workers.first_host();
        }
        let mut idle: Option<(usize, (usize, Instant))> = None;
        let mut busy: Option<(usize, (bool, usize))> = None;
        let mut busy_count = 0;
        for (key, worker) in self.workers.iter() {
            if worker.phase != Phase::Ready {
                continue;
            }
            let in_flight = worker.in_flight();
            let concurrency = self.options.concurrency;
            if in_flight == 0 {
                let connections = worker.detached().len();
                let is_better = |(least, last)| {
                    connections < least || (connections == least && worker.last_answer > last)
                };
                if idle.is_none_or(|(_, best)| is_better(best)) {
                    idle = Some((key, (connections, worker.last_answer)));
                }
                continue;
            }
            if !worker.stalled {
                busy_count += 1;
            }
            let rank = (worker.stalled, in_flight);
            let has_room = if may_wait {
                worker.has_room(concurrency)
            } else {
                in_flight < concurrency
            };
            if has_room && busy.is_none_or(|(_, least)| rank < least) {
                busy = Some((key, rank));
            }
        }
        match (idle, busy) {
            (Some((idle, _)), Some((busy, (stalled, _)))) => Some(if stalled || busy_count < self.cores {
                idle
            } else {
                busy
            }),
            (idle, busy) => idle.map(|(key, _)| key).or(busy.map(|(key, _)| key)),
        }
    }

    fn send(&mut self, key: usize, to: usize, now: Instant, out: &mut impl Outlet<L>) {
        let job = &mut self.jobs[key];
        let worker = &mut self.workers[to];
        let (slot, number) = worker.place(key);
        let left = job.deadline.saturating_duration_since(now).as_millis();
        forebay_wire::set_remaining_ms(&mut job.payload, u32::try_from(left.max(1)).unwrap_or(u32::MAX));
        job.place = Place::Sent(Sent {
            worker: to,
            slot,
            number,
            at: now,
            started: None,
            aborted: None,
            overran: None,
        });
        self.timings
            .waited(now.saturating_duration_since(job.waits_since));
        worker.link.offer(slot, number, job.end, &job.payload);
        out.written(&worker.link);
    }

    /// Sends waiting jobs to workers while there is room.
    fn dispatch(&mut self, now: Instant, out: &mut impl Outlet<L>) {
        if self.has_clients {
            return self.dispatch_to_clients_workers(now, out);
        }
        while !self.queue.is_empty() {
            let Some(worker) = self.pick(true) else { return };
            let job = self.queue.pop().expect("the queue is not empty");
            self.send(job, worker, now, out);
        }
    }

    /// Sends more of a request body to the worker that runs the job; false if the job is over.
    pub(crate) fn send_body(
        &mut self,
        handle: JobHandle,
        bytes: &[u8],
        end: bool,
        out: &mut impl Outlet<L>,
    ) -> bool {
        let Some(Place::Sent(sent)) = self.place_of(handle) else {
            return false;
        };
        let link = &self.workers[sent.worker].link;
        link.body(sent.slot, sent.number, bytes, end);
        out.written(link);
        true
    }

    /// Sends the fields behind a request body to the worker that runs the job, if it is not over.
    pub(crate) fn send_trailers(&mut self, handle: JobHandle, block: &[u8], out: &mut impl Outlet<L>) {
        if let Some(Place::Sent(sent)) = self.place_of(handle) {
            let link = &self.workers[sent.worker].link;
            link.trailers(sent.slot, sent.number, block);
            out.written(link);
        }
    }

    /// Tells the worker that the client has consumed this many bytes of the response body.
    pub(crate) fn grant(&mut self, handle: JobHandle, bytes: u32, out: &mut impl Outlet<L>) {
        let Some(Place::Sent(sent)) = self.place_of(handle) else {
            return;
        };
        self.jobs[handle.job].window += u64::from(bytes);
        let link = &self.workers[sent.worker].link;
        link.window(sent.slot, sent.number, bytes);
        out.written(link);
    }

    /// Cancels a job whose owner no longer waits. If it has not started, it never will; if it runs, its worker is told.
    pub(crate) fn cancel(&mut self, handle: JobHandle, now: Instant, out: &mut impl Outlet<L>) {
        if self.place_of(handle).is_none() {
            return;
        }
        let job = &mut self.jobs[handle.job];
        if job.reply_to.take().is_some() && !job.answered {
            self.counters.cancelled += 1;
        }
        self.abandon(handle.job, AbortReason::ClientGone, now, out);
        self.dispatch(now, out);
    }

    /// Drops a job that has not started; aborts one that has.
    fn abandon(&mut self, key: usize, reason: AbortReason, now: Instant, out: &mut impl Outlet<L>) {
        let job = &mut self.jobs[key];
        match &mut job.place {
            Place::Queued => {
                let arrival = job.arrival;
                self.queue.remove(arrival);
                self.jobs.remove(key);
            }
            Place::Sent(Sent {
                worker,
                slot: DETACHED_SLOT,
                number,
                ..
            }) => {
                let link = &self.workers[*worker].link;
                link.abort(DETACHED_SLOT, *number, reason);
                out.written(link);
                self.finish(key, out);
            }
            Place::Sent(sent) => {
                let worker = &mut self.workers[sent.worker];
                if worker.host.is_some() {
                    // It may still run the job, or not be there: it has more room once it says so.
                    let room = worker.room(0);
                    // The host limits the run itself; what it still sends of the job is dropped.
                    worker.link.abort(sent.slot, sent.number, reason);
                    out.written(&worker.link);
                    worker.release(sent.slot);
                    worker.set_room(room);
                    self.jobs.remove(key);
                } else if worker.link.revoke(sent.slot, sent.number) {
                    let slot = sent.slot;
                    worker.release(slot);
                    self.jobs.remove(key);
                } else if sent.aborted.is_none() {
                    job.calls = None;
                    sent.started.get_or_insert(now);
                    sent.aborted = Some(now);
                    worker.link.abort(sent.slot, sent.number, reason);
                    out.written(&worker.link);
                }
            }
        }
    }

    /// Delivers a failure, unless the job has ended for its owner already.
    fn fail(&mut self, key: usize, failure: Failure, out: &mut impl Outlet<L>) {
        let job = &mut self.jobs[key];
        if let Some(to) = job.reply_to.take() {
            if !job.answered {
                self.counters.failed(&failure);
            }
            out.deliver(to, Delivery::Failed(failure));
        }
    }

    /// Removes a job whose last frame has arrived.
    fn finish(&mut self, key: usize, out: &mut impl Outlet<L>) {
        let job = self.jobs.remove(key);
        let Place::Sent(sent) = job.place else {
            unreachable!("only a sent job ends with a frame")
        };
        let worker = &mut self.workers[sent.worker];
        worker.remove(sent.slot, sent.number);
        if sent.slot == DETACHED_SLOT {
            self.detached -= 1;
            self.rooms.leave_all(key);
            return;
        }
        worker.answered += 1;
        worker.stalled = false;
        if worker.phase > Phase::Ready || self.lifecycle.wants_look(worker) {
            out.wake_supervisor();
        }
    }

    /// Removes a worker whose link has ended, after all its frames were handled.
    pub(crate) fn worker_gone(&mut self, gone: usize, now: Instant, out: &mut impl Outlet<L>) {
        for key in self.workers[gone].detached().collect::<Vec<_>>() {
            let (pool, worker) = (self.options.name.clone(), self.workers[gone].id);
            self.fail(key, Failure::WorkerDied { pool, worker }, out);
            self.finish(key, out);
        }
        let jobs: Vec<_> = self.workers[gone].jobs_in_order().collect();
        let mut ran = self.workers[gone].answered > 0;
        for (slot, number, key) in jobs {
            let unclaimed = self.workers[gone].link.revoke(slot, number);
            ran |= !unclaimed;
            self.lose(key, unclaimed, self.workers[gone].id, now, out);
        }
        let worker = self.workers.remove(gone);
        self.note_end(&worker, ran, now);
        self.dispatch(now, out);
        out.wake_supervisor();
    }

    /// Returns a job to the queue that its worker has not begun, or has died with and that may run twice. Otherwise the job fails.
    fn lose(&mut self, key: usize, has_not_begun: bool, worker: u64, now: Instant, out: &mut impl Outlet<L>) {
        let job = &mut self.jobs[key];
        let again = has_not_begun || (job.limits.retry == Retry::Idempotent && job.end && !job.ran_before);
        if job.reply_to.is_some() && again && !job.answered && !self.lifecycle.abandoned() {
            job.calls = None;
            if !has_not_begun {
                job.ran_before = true;
                job.waits_since = now;
            }
            job.place = Place::Queued;
            self.queue.put_back(job.arrival, key, job.payload.len());
        } else {
            let pool = self.options.name.clone();
            self.fail(key, Failure::WorkerDied { pool, worker }, out);
            self.jobs.remove(key);
        }
    }

    /// Whether this key still belongs to the worker with this number.
    pub(crate) fn has_worker(&self, key: usize, id: u64) -> bool {
        self.workers.get(key).is_some_and(|worker| worker.id == id)
    }

    /// Finds the queue for a worker's call, and its deadline: the queue of the job, or the worker's own if job and slot are 0.
    pub(crate) fn calls(
        &mut self,
        (from, id): (usize, u64),
        (slot, number): (u32, u32),
        now: Instant,
    ) -> Result<(&OpenCalls, Instant), Refusal> {
        let handler = self.options.calls.as_ref().ok_or(Refusal::NoCallHandler)?;
        let open = |trace| OpenCalls::new(handler.open(trace));
        let alone = now + self.options.call_timeout;
        let worker = self.workers.get_mut(from).filter(|worker| worker.id == id);
        let worker = worker.ok_or(Refusal::Over)?;
        if number == 0 {
            return Ok((worker.calls.get_or_insert_with(|| open(None)), alone));
        }
        let job = &mut self.jobs[worker.job_at(slot, number).ok_or(Refusal::Over)?];
        let Place::Sent(Sent { aborted: None, .. }) = job.place else {
            return Err(Refusal::Over);
        };
        // A response that has begun has no deadline any more.
        let deadline = if job.answered { alone } else { job.deadline };
        let trace = &job.trace;
        Ok((job.calls.get_or_insert_with(|| open(trace.clone())), deadline))
    }

    /// The id of the request whose job a frame names.
    pub(crate) fn request_id(&self, worker: usize, slot: u32, number: u32) -> Option<String> {
        let job = self.workers.get(worker)?.job_at(slot, number)?;
        request_id_in(&self.jobs[job].payload)
    }

    /// The id of the request that a worker runs, if it runs exactly one and never several: what one of several prints may be read when only
    /// another is left.
    pub(crate) fn running_request_id(&self, worker_id: u64) -> Option<String> {
        let (_, worker) = self.workers.iter().find(|(_, worker)| worker.id == worker_id)?;
        if self.options.concurrency > 1 {
            return None;
        }
        let mut running = worker
            .jobs_in_order()
            .filter(|&(slot, number, _)| worker.link.is_claimed(slot, number));
        let (_, _, job) = running.next()?;
        if running.next().is_some() {
            None
        } else {
            request_id_in(&self.jobs[job].payload)
        }
    }

    fn place_of(&self, handle: JobHandle) -> Option<Place> {
        self.jobs
            .get(handle.job)
            .filter(|job| job.arrival == handle.arrival)
            .map(|job| job.place)
    }

    /// Finds the job of a frame. Frames for jobs that are over are counted.
    fn job_of(&mut self, worker: usize, slot: u32, number: u32) -> Option<usize> {
        let job = self
            .workers
            .get(worker)
            .and_then(|worker| worker.job_at(slot, number));
        if job.is_none() {
            self.counters.stray_frames += 1;
        }
        job
    }
}

fn request_id_in(payload: &[u8]) -> Option<String> {
    let id = RequestView::decode(payload).ok()?.id;
    (!id.is_empty()).then(|| String::from_utf8_lossy(id).into_owned())
}
