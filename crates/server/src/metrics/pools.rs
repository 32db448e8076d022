//! Counts of pools. A reload replaces a pool; the counts for its name continue, because those of ended pools are kept and added to those of
//! running ones.

use std::{cmp::Ordering, collections::BTreeMap};

use forebay_pool::{Counters, Percentiles, Pool, Status, Timings};
use parking_lot::Mutex;

/// Registry of the running pools, with the counts of those that have ended.
#[derive(Debug, Default)]
pub(crate) struct PoolRegistry {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// With the generation each belongs to, oldest first.
    living: Vec<(u64, Pool)>,
    ended: BTreeMap<String, Totals>,
}

/// Counts of all ended pools of one name.
#[derive(Clone, Debug, Default)]
struct Totals {
    counters: Counters,
    timings: Timings,
}

/// A snapshot of all pools.
#[derive(Debug)]
pub(crate) struct PoolStates {
    /// Pools in force, by name. Counts are those of all pools with that name since the server started.
    pub(crate) current: Vec<Status>,
    /// Replaced pools that still have requests or workers.
    pub(crate) retiring: Vec<Status>,
}

impl PoolRegistry {
    /// Registers the pools of a new generation, some of which may be those of an earlier one.
    pub(crate) fn add(&self, generation: u64, pools: impl IntoIterator<Item = Pool>) {
        let living = &mut self.pages.lock().living;
        for pool in pools {
            living.retain(|(_, other)| !other.is_same(&pool));
            living.push((generation, pool));
        }
    }

    /// All pools that have not ended.
    pub(crate) fn living(&self) -> Vec<Pool> {
        self.pages
            .lock()
            .living
            .iter()
            .map(|(_, pool)| pool.clone())
            .collect()
    }

    /// Records the final counts of a pool that has ended.
    pub(crate) fn end(&self, generation: u64, name: &str) {
        let mut pages = self.pages.lock();
        let is_it = |(its, pool): &(u64, Pool)| *its == generation && pool.name() == name;
        let Some(at) = pages.living.iter().position(is_it) else {
            return;
        };
        let (_, pool) = pages.living.remove(at);
        let status = pool.status();
        pages
            .ended
            .entry(name.to_owned())
            .or_default()
            .add(&status.counters, &status.timings);
    }

    /// Drops counts under names that no pool has any more.
    pub(crate) fn forget_unused(&self) {
        let Pages { living, ended } = &mut *self.pages.lock();
        ended.retain(|name, _| living.iter().any(|(_, pool)| pool.name() == name));
    }

    pub(crate) fn states(&self, generation: u64) -> PoolStates {
        let mut states = PoolStates {
            current: Vec::new(),
            retiring: Vec::new(),
        };
        let pages = self.pages.lock();
        for (its, pool) in &pages.living {
            match its.cmp(&generation) {
                Ordering::Less => states.retiring.push(pool.status()),
                Ordering::Equal => states.current.push(pool.status()),
                // A pool that is not in force yet.
                Ordering::Greater => {}
            }
        }
        for status in &mut states.current {
            let before = pages
                .ended
                .get(&status.name)
                .map(|totals| (&totals.counters, &totals.timings));
            let retiring = states.retiring.iter().filter(|other| other.name == status.name);
            for (counters, timings) in before
                .into_iter()
                .chain(retiring.map(|other| (&other.counters, &other.timings)))
            {
                add_counters(&mut status.counters, counters);
                add_timings(&mut status.timings, timings);
            }
            status.wait = Percentiles::of(&status.timings.wait_us);
            status.run = Percentiles::of(&status.timings.run_us);
        }
        states
    }
}

impl Totals {
    fn add(&mut self, counters: &Counters, timings: &Timings) {
        add_counters(&mut self.counters, counters);
        add_timings(&mut self.timings, timings);
    }
}

fn add_counters(sum: &mut Counters, more: &Counters) {
    // Destructured completely, so that a new counter cannot be forgotten here.
    let Counters {
        accepted,
        answered,
        faulted,
        cancelled,
        failed,
        refused,
        stray_frames,
        started,
        ready,
        ended,
    } = more;
    sum.accepted += accepted;
    sum.answered += answered;
    sum.faulted += faulted;
    sum.cancelled += cancelled;
    sum.stray_frames += stray_frames;
    sum.started += started;
    sum.ready += ready;
    add_each(&mut sum.failed, failed);
    add_each(&mut sum.refused, refused);
    add_each(&mut sum.ended, ended);
}

fn add_each<K: Ord + Copy>(sum: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (&key, count) in more {
        *sum.entry(key).or_default() += count;
    }
}

fn add_timings(sum: &mut Timings, more: &Timings) {
    let same = "all timings have the same bounds";
    sum.wait_us.add(&more.wait_us).expect(same);
    sum.run_us.add(&more.run_us).expect(same);
}
