//! Time limits of jobs, and the return to the queue of jobs that wait behind a slow one.

use std::time::{Duration, Instant};

use forebay_wire::{AbortReason, DETACHED_SLOT};
use slab::Slab;

use super::{Job, LinkPort, Outlet, Phase, Place, Queue, Sent, State, Worker};
use crate::Failure;

/// If a job runs this long, jobs that its worker has not started go back to the queue.
pub(super) const STALL: Duration = Duration::from_millis(5);

impl<L: LinkPort> State<L> {
    pub(super) fn expire_jobs(&mut self, now: Instant, out: &mut impl Outlet<L>) {
        let keys: Vec<_> = self.jobs.iter().map(|(key, _)| key).collect();
        for key in keys {
            let job = &mut self.jobs[key];
            let (limits, deadline, waits_since) = (job.limits, job.deadline, job.waits_since);
            let waiting = match &mut job.place {
                Place::Queued => true,
                Place::Sent(Sent {
                    slot: DETACHED_SLOT, ..
                }) => continue,
                Place::Sent(sent) => {
                    let link = &self.workers[sent.worker].link;
                    if sent.started.is_none() && link.is_claimed(sent.slot, sent.number) {
                        sent.started = Some(now);
                    }
                    sent.started.is_none()
                }
            };
            if waiting {
                let failure = if now >= deadline {
                    Failure::DeadlinePassed
                } else if now.saturating_duration_since(waits_since) >= limits.queue_timeout {
                    Failure::QueueTimeout {
                        queue_timeout: limits.queue_timeout,
                    }
                } else {
                    continue;
                };
                self.fail(key, failure, out);
                self.abandon(key, AbortReason::DeadlinePassed, now, out);
            } else {
                self.expire_running(key, now, out);
            }
        }
    }

    /// Refuses waiting jobs while workers fail to start or there is no host, just as new jobs are refused.
    pub(super) fn refuse_waiting(&mut self, now: Instant, out: &mut impl Outlet<L>) {
        let pool = self.options.name.clone();
        let starts_fail = self.cannot_start().then_some(Failure::NotStarting { pool });
        let Some(failure) = starts_fail.or_else(|| self.no_host()) else {
            return;
        };
        let waiting = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job.place, Place::Queued));
        for key in waiting.map(|(key, _)| key).collect::<Vec<_>>() {
            self.fail(key, failure.clone(), out);
            self.abandon(key, AbortReason::ServerEnds, now, out);
        }
    }

    /// A response that has begun is not cut off by time: streams may be long. It ends when its client leaves; from then on its handler has
    /// `run_timeout` to notice.
    fn expire_running(&mut self, key: usize, now: Instant, out: &mut impl Outlet<L>) {
        let job = &mut self.jobs[key];
        let Place::Sent(sent) = &mut job.place else { return };
        let since = if job.answered { sent.aborted } else { sent.started };
        let Some(since) = since.filter(|_| sent.overran.is_none()) else {
            return;
        };
        let run_timeout = job.limits.run_timeout;
        let failure = if now >= job.deadline && !job.answered {
            Failure::DeadlinePassed
        } else if now.saturating_duration_since(since) >= run_timeout {
            Failure::RunTimeout { run_timeout }
        } else {
            return;
        };
        sent.overran = Some(now);
        self.fail(key, failure, out);
        self.abandon(key, AbortReason::DeadlinePassed, now, out);
    }

    /// Takes back jobs that wait behind a slow one: those beyond the worker's concurrency always, and the rest as far as other workers have
    /// room. Without that room they stay, or the same jobs would be sent to the same worker every tick.
    pub(super) fn unstall(&mut self, now: Instant, out: &mut impl Outlet<L>) {
        let Self {
            workers,
            jobs,
            queue,
            options,
            ..
        } = self;
        let mut room = 0;
        // Jobs that wait at a host are distributed there.
        let processes = |worker: &Worker<L>| worker.phase == Phase::Ready && worker.host.is_none();
        for (_, worker) in workers.iter_mut().filter(|(_, w)| processes(w)) {
            let slow = worker.jobs_in_order().any(|(_, _, key)| {
                matches!(jobs[key].place, Place::Sent(Sent { started: Some(started), .. }) if now >= started + STALL)
            });
            worker.stalled |= slow;
            if !worker.stalled {
                room += worker.room(options.concurrency);
            }
        }
        for (_, worker) in workers.iter_mut().filter(|(_, w)| w.stalled && w.in_flight() > 1) {
            let beyond = worker.in_flight().saturating_sub(options.concurrency);
            for (slot, number, key) in worker.jobs_in_order().rev().take(beyond).collect::<Vec<_>>() {
                take_back(worker, (slot, number), key, jobs, queue);
            }
            for (slot, number, key) in worker.jobs_in_order().collect::<Vec<_>>() {
                // The client of such a job stays with this worker.
                if room > 0
                    && jobs[key].client.is_none()
                    && take_back(worker, (slot, number), key, jobs, queue)
                {
                    room -= 1;
                }
            }
        }
        self.dispatch(now, out);
    }
}

/// Returns a job to the queue, unless its worker has claimed it or answers without claiming.
pub(super) fn take_back<L: LinkPort>(
    worker: &mut Worker<L>,
    (slot, number): (u32, u32),
    key: usize,
    jobs: &mut Slab<Job>,
    queue: &mut Queue,
) -> bool {
    let job = &mut jobs[key];
    let taken = !job.answered && worker.link.revoke(slot, number);
    if taken {
        worker.release(slot);
        job.place = Place::Queued;
        queue.put_back(job.arrival, key, job.payload.len());
    }
    taken
}
