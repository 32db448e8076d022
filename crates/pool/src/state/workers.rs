//! The workers of a pool, and the order in which hosts get jobs. There may be thousands of hosts, so they are not all looked at for each job.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    ops::{Deref, Index, IndexMut},
    time::Instant,
};

use slab::Slab;

use super::{Phase, Worker};

/// How soon a host gets a job: idle ones first, those with the fewest connections, then those with the smallest share of their room in use, in
/// thousandths; of equal ones the most recently used.
pub(super) type Rank = (bool, usize, Reverse<Instant>);

/// Workers by key. Whoever changes one, through this, changes the order of the hosts.
#[derive(Debug)]
pub(super) struct Workers<L> {
    all: Slab<Worker<L>>,
    /// The hosts with room.
    free: BTreeSet<(Rank, usize)>,
    /// Hosts whose rank may be another one than in `free`, each once.
    changed: Vec<usize>,
}

impl<L> Default for Workers<L> {
    fn default() -> Self {
        Self {
            all: Slab::new(),
            free: BTreeSet::new(),
            changed: Vec::new(),
        }
    }
}

impl<L> Workers<L> {
    pub(super) fn insert(&mut self, worker: Worker<L>) -> usize {
        self.all.insert(worker)
    }

    pub(super) fn remove(&mut self, key: usize) -> Worker<L> {
        let mut worker = self.all.remove(key);
        if let Some(rank) = worker.host.as_mut().and_then(|host| host.rank.take()) {
            self.free.remove(&(rank, key));
        }
        self.changed.retain(|&changed| changed != key);
        worker
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Worker<L>> {
        self.all.contains(key).then(|| &mut self[key])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Worker<L>)> {
        let changed = &mut self.changed;
        self.all.iter_mut().map(|(key, worker)| {
            note(key, worker, changed);
            (key, worker)
        })
    }

    /// The host that gets the next job, if any has room.
    pub(super) fn first_host(&mut self) -> Option<usize> {
        for key in self.changed.drain(..) {
            let worker = &mut self.all[key];
            let rank = rank(worker);
            let host = worker.host.as_mut().expect("only hosts are noted");
            host.is_noted = false;
            if host.rank != rank {
                if let Some(before) = host.rank {
                    self.free.remove(&(before, key));
                }
                self.free.extend(rank.map(|rank| (rank, key)));
                host.rank = rank;
            }
        }
        self.free.first().map(|&(_, key)| key)
    }
}

impl<L> Deref for Workers<L> {
    type Target = Slab<Worker<L>>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl<L> Index<usize> for Workers<L> {
    type Output = Worker<L>;

    fn index(&self, key: usize) -> &Self::Output {
        &self.all[key]
    }
}

impl<L> IndexMut<usize> for Workers<L> {
    fn index_mut(&mut self, key: usize) -> &mut Self::Output {
        let worker = &mut self.all[key];
        note(key, worker, &mut self.changed);
        worker
    }
}

/// Notes that a worker may change, if it is a host.
fn note<L>(key: usize, worker: &mut Worker<L>, changed: &mut Vec<usize>) {
    if let Some(host) = &mut worker.host
        && !std::mem::replace(&mut host.is_noted, true)
    {
        changed.push(key);
    }
}

/// The rank of a host; `None` if it gets no job.
fn rank<L>(worker: &Worker<L>) -> Option<Rank> {
    let jobs_max = worker.concurrency(0);
    let in_flight = worker.in_flight();
    let used = if in_flight == 0 {
        worker.detached().len()
    } else {
        in_flight * 1_000 / jobs_max.max(1)
    };
    (worker.phase == Phase::Ready && in_flight < jobs_max).then_some((
        in_flight > 0,
        used,
        Reverse(worker.last_answer),
    ))
}
