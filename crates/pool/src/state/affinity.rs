//! Jobs of clients that stay with one worker.
//!
//! Each worker has a seat, and a replacement takes that of its predecessor. A client's worker is the one whose seat has the highest hash
//! with the client's key (rendezvous hashing), so only the clients of a worker that ends move, and they come back to its replacement.

use std::{collections::HashSet, time::Instant};

use super::{LinkPort, Outlet, Phase, State};

impl<L: LinkPort> State<L> {
    /// The lowest seat of no worker that accepts or will accept jobs, without those to be replaced.
    pub(super) fn free_seat(&self) -> u64 {
        let workers = self.workers.iter().map(|(_, worker)| worker);
        let staying = workers.filter(|worker| worker.phase <= Phase::Ready && !worker.to_recycle);
        let taken: HashSet<u64> = staying.map(|worker| worker.seat).collect();
        (0..=self.workers.len() as u64)
            .find(|seat| !taken.contains(seat))
            .expect("there are more seats than workers")
    }

    /// The worker of a client: none while no worker is ready.
    pub(super) fn worker_of(&self, client: u64) -> Option<usize> {
        let ready = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.phase == Phase::Ready);
        ready
            .max_by_key(|(_, worker)| (mixed(client, worker.seat), worker.id))
            .map(|(key, _)| key)
    }

    /// Picks the worker for a job: that of its client if it has room, or any if it is of no client. See [`State::pick`].
    pub(super) fn pick_for(&mut self, client: Option<u64>, may_wait: bool) -> Option<usize> {
        let Some(client) = client else {
            return self.pick(may_wait);
        };
        let key = self.worker_of(client)?;
        let worker = &self.workers[key];
        let has_room = if may_wait {
            worker.has_room(self.options.concurrency)
        } else {
            worker.in_flight() < self.options.concurrency
        };
        has_room.then_some(key)
    }

    /// Sends each waiting job whose worker has room, oldest first. Looks at all that wait, which `queue_max` bounds.
    pub(super) fn dispatch_to_clients_workers(&mut self, now: Instant, out: &mut impl Outlet<L>) {
        let concurrency = self.options.concurrency;
        for job in self.queue.jobs() {
            if !self
                .workers
                .iter()
                .any(|(_, worker)| worker.has_room(concurrency))
            {
                return;
            }
            if let Some(worker) = self.pick_for(self.jobs[job].client, true) {
                self.queue.remove(self.jobs[job].arrival);
                self.send(job, worker, now, out);
            }
        }
    }
}

/// A hash of two numbers (the finalizer of `SplitMix64`).
fn mixed(client: u64, seat: u64) -> u64 {
    let mut hash = client ^ seat.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
