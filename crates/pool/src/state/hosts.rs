//! Workers that are hosts on other machines: each runs a pool of its own, which other servers use, too.
//!
//! Two things differ from a process. A host may refuse a job that it has not begun, because others have filled it. And it is never signalled:
//! it limits and ends what it runs itself, so an aborted job is forgotten at once.

use std::time::Instant;

use forebay_wire::FailureReason;

use super::{EndCause, HostLoad, LinkPort, Outlet, Phase, State};
use crate::Failure;

impl<L: LinkPort> State<L> {
    /// Adds a host. It gets jobs once it is ready.
    pub(crate) fn add_host(&mut self, id: u64, name: &str, link: L, now: Instant) -> usize {
        let key = self.add_worker(id, 0, link, now);
        self.workers[key].host = Some(HostLoad::new(name));
        key
    }

    /// Records why there is no host.
    pub(crate) fn set_absence(&mut self, why: &str) {
        why.clone_into(&mut self.lifecycle.absence);
    }

    /// Why jobs are refused if the pool has hosts instead of processes, and none that takes jobs.
    pub(super) fn no_host(&self) -> Option<Failure> {
        let takes_jobs = |phase| phase <= Phase::Ready;
        let is_empty =
            self.options.remote && !self.workers.iter().any(|(_, worker)| takes_jobs(worker.phase));
        is_empty.then(|| Failure::NoHost {
            pool: self.options.name.clone(),
            why: self.lifecycle.absence.clone(),
        })
    }

    /// Records how many more jobs a host takes. Returns whether it has just begun to drain.
    pub(crate) fn host_announced(
        &mut self,
        key: usize,
        room: usize,
        is_draining: bool,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) -> bool {
        let worker = &mut self.workers[key];
        worker.set_room(room);
        let begins_to_drain = is_draining && worker.phase <= Phase::Ready;
        if begins_to_drain {
            worker.cause = Some(EndCause::Stopped);
            worker.move_to(Phase::Draining, now);
            out.wake_supervisor();
        }
        self.dispatch(now, out);
        begins_to_drain
    }

    /// Handles a FAILURE: a host ends a job without a response.
    pub(crate) fn host_failed(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        reason: FailureReason,
        text: &str,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) {
        let Some(key) = self.job_of(from, slot, number) else {
            return;
        };
        let limits = self.jobs[key].limits;
        let pool = self.options.name.clone();
        let is_detached = self.workers[from].slot_of(number) != Some(slot);
        let worker = &mut self.workers[from];
        worker.last_answer = now;
        let failure = match reason {
            FailureReason::NotBegun | FailureReason::WorkerDied if !is_detached && worker.host.is_some() => {
                let id = worker.id;
                worker.release(slot);
                let has_not_begun = reason == FailureReason::NotBegun;
                if has_not_begun {
                    worker.set_room(0);
                }
                self.lose(key, has_not_begun, id, now, out);
                self.dispatch(now, out);
                // It may wait for a host that is no longer there, or be the last job of one that drains.
                return out.wake_supervisor();
            }
            FailureReason::NotBegun | FailureReason::WorkerDied => Failure::WorkerDied {
                pool,
                worker: worker.id,
            },
            FailureReason::RunTimeout => Failure::RunTimeout {
                run_timeout: limits.run_timeout,
            },
            FailureReason::DeadlinePassed => Failure::DeadlinePassed,
            FailureReason::TooManyConnections => Failure::TooManyConnections {
                pool,
                connections_max: self.options.connections_max,
            },
            FailureReason::InvalidAnswer => Failure::InvalidAnswer {
                what: text.to_owned(),
            },
        };
        self.fail(key, failure, out);
        self.finish(key, out);
        self.dispatch(now, out);
    }

    /// Returns the jobs of a host that is gone to the queue, from this number on: the host has never got them.
    pub(crate) fn host_has_not_got(
        &mut self,
        key: usize,
        first: u32,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) {
        let worker = &mut self.workers[key];
        // No other jobs go there.
        if worker.phase <= Phase::Ready {
            worker.move_to(Phase::Draining, now);
        }
        let jobs: Vec<_> = worker.jobs_in_order().collect();
        for (slot, number, _) in jobs {
            // Numbers go around.
            if number.wrapping_sub(first) < u32::MAX / 2 {
                self.host_failed(key, (slot, number), FailureReason::NotBegun, "", now, out);
            }
        }
    }

    /// Number of jobs that the pool has, and of those that it still takes at once. A place in a worker's inbox counts.
    pub(crate) fn load(&self) -> (usize, usize) {
        let concurrency = self.options.concurrency;
        let mut ready = 0;
        let mut room = 0;
        for (_, worker) in self
            .workers
            .iter()
            .filter(|(_, worker)| worker.phase == Phase::Ready)
        {
            ready += 1;
            room += worker.room(concurrency);
        }
        if !self.cannot_start() {
            let (_, workers_max) = self.size();
            room += workers_max.saturating_sub(ready) * concurrency;
        }
        if self.is_stopping() {
            room = 0;
        }
        let taken = self.jobs.len() - self.detached;
        (taken, room.saturating_sub(self.queue.len()))
    }

    /// The link of the worker with this number.
    pub(crate) fn link_of(&self, id: u64) -> Option<&L> {
        let (_, worker) = self.workers.iter().find(|(_, worker)| worker.id == id)?;
        Some(&worker.link)
    }
}
