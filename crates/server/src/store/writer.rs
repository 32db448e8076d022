//! The one thread of the server that writes to the store.
//!
//! Writes wait in a bounded queue. The thread takes all that wait, does them in one transaction, flushes once, and then answers
//! them. It takes them only when it has the transaction: whoever has waited too long by then is told so, and its write is not done.

use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    process::abort,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use forebay_store::{Durability, Store, StoreError, Transaction};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::operation::{Done, Undone, Work};
use crate::{config, failure::Refusal, front::together};

/// Most writes in one transaction.
const GROUP_JOBS_MAX: usize = 1024;
/// Bytes of writes after which no further one joins a transaction.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How long jobs are done in a transaction before the first of them are answered: one can be a statement that takes its time.
const GROUP_TIME_MAX: Duration = Duration::from_millis(100);

/// Most jobs that break their transaction one after the other before each job gets one of its own.
const BROKEN_MAX: usize = 8;

type Outcome = Result<Vec<Done>, Refusal>;

/// A handle on the thread. It ends with its handle, once the queue is empty.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    queue_max: usize,
    queue_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is work, or the end.
    asked: Condvar,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    end: bool,
}

#[derive(Debug, Default)]
struct Counters {
    done: AtomicU64,
    failed: AtomicU64,
    expired: AtomicU64,
    refused: AtomicU64,
    commits: AtomicU64,
    flushes: AtomicU64,
}

/// What the writer has done and has before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterCounts {
    pub(crate) queued: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) queue_max: usize,
    /// Writes that stand.
    pub(crate) done: u64,
    /// Writes that could not be done.
    pub(crate) failed: u64,
    /// Writes whose time was over, or whose client was gone, before they were begun.
    pub(crate) expired: u64,
    /// Writes for which there was no room.
    pub(crate) refused: u64,
    pub(crate) commits: u64,
    pub(crate) flushes: u64,
}

impl WriterCounts {
    /// Every write that was handed in has one of these outcomes, or waits.
    pub(crate) fn outcomes(&self) -> [(&'static str, u64); 4] {
        [
            ("done", self.done),
            ("failed", self.failed),
            ("expired", self.expired),
            ("refused", self.refused),
        ]
    }
}

/// Operations that are done together or not at all.
#[derive(Debug)]
struct Job {
    operations: Vec<Work>,
    bytes: usize,
    /// Set by whoever decides what becomes of the job: the thread that does it, or the client that gives it up.
    decided: Arc<AtomicBool>,
    answer: oneshot::Sender<Outcome>,
}

/// A write that was handed in. Dropped, it is not done unless it has been begun.
#[derive(Debug)]
pub(crate) struct Pending {
    decided: Arc<AtomicBool>,
    answer: oneshot::Receiver<Outcome>,
}

impl Pending {
    /// What became of it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let answer = std::pin::Pin::new(&mut self.answer);
        answer
            .poll(cx)
            .map(|outcome| outcome.unwrap_or(Err(Refusal::Stopping)))
    }

    /// Gives the write up; false when it has been begun.
    pub(crate) fn give_up(&self) -> bool {
        !self.decided.swap(true, SeqCst)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Writer {
    pub(super) fn start(store: &Store, config: &config::Store) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = Thread {
            shared: Arc::clone(&shared),
            store: store.clone(),
            durable: config.durability != config::Durability::Relaxed,
        };
        thread::Builder::new().name("store-write".into()).spawn(move || {
            // Nobody sees what a panic has left half done, and nobody would write any more.
            if catch_unwind(AssertUnwindSafe(|| thread.run())).is_err() {
                tracing::error!(target: "forebay::store", "the store's writer has panicked: the server ends");
                abort();
            }
        })?;
        Ok(Self {
            shared,
            limits: Limits {
                queue_max: config.queue_max,
                queue_bytes_max: usize::try_from(config.queue_bytes_max).unwrap_or(usize::MAX),
            },
        })
    }

    /// Hands in operations that are done together or not at all. `bytes`: how much they hold.
    pub(crate) fn submit(&self, operations: Vec<Work>, bytes: usize) -> Result<Pending, Refusal> {
        let Limits {
            queue_max,
            queue_bytes_max,
        } = self.limits;
        let mut queue = self.shared.queue.lock();
        let refusal = if queue.jobs.len() >= queue_max {
            Some(Refusal::WriteQueueFull { queue_max })
        } else if queue.bytes + bytes > queue_bytes_max {
            Some(Refusal::WriteQueueBytesFull { queue_bytes_max })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.shared.counters.refused.fetch_add(1, Relaxed);
            return Err(refusal);
        }
        let (answer, receiver) = oneshot::channel();
        let decided = Arc::new(AtomicBool::new(false));
        queue.bytes += bytes;
        queue.jobs.push_back(Job {
            operations,
            bytes,
            decided: Arc::clone(&decided),
            answer,
        });
        let first = queue.jobs.len() == 1;
        drop(queue);
        if first {
            self.shared.asked.notify_one();
        }
        Ok(Pending {
            decided,
            answer: receiver,
        })
    }

    pub(super) fn counts(&self) -> WriterCounts {
        let (queued, queued_bytes) = {
            let queue = self.shared.queue.lock();
            (queue.jobs.len(), queue.bytes)
        };
        let counters = &self.shared.counters;
        WriterCounts {
            queued,
            queued_bytes,
            queue_max: self.limits.queue_max,
            done: counters.done.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            expired: counters.expired.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            commits: counters.commits.load(Relaxed),
            flushes: counters.flushes.load(Relaxed),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue.lock().end = true;
        self.shared.asked.notify_one();
    }
}

/// What the thread works with.
struct Thread {
    shared: Arc<Shared>,
    store: Store,
    /// Whether writes are answered only once they are on the disk.
    durable: bool,
}

impl Thread {
    fn run(&self) {
        while self.wait() {
            // Another process may be writing: meanwhile jobs stay in the queue, from where they can be given up.
            let mut transaction = self.store.begin();
            let mut jobs = self.take();
            while !jobs.is_empty() {
                let outcomes = match transaction {
                    Ok(transaction) => self.write(transaction, &jobs),
                    Err(error) => vec![Err(Refusal::from(error)); jobs.len()],
                };
                let left = jobs.split_off(outcomes.len());
                self.answer(jobs, outcomes);
                jobs = left;
                if jobs.is_empty() {
                    break;
                }
                transaction = self.store.begin();
            }
        }
    }

    fn answer(&self, jobs: Vec<Job>, outcomes: Vec<Outcome>) {
        together(|| {
            for (job, outcome) in jobs.into_iter().zip(outcomes) {
                let counters = &self.shared.counters;
                let counter = if outcome.is_ok() {
                    &counters.done
                } else {
                    &counters.failed
                };
                counter.fetch_add(1, Relaxed);
                // A client that is gone misses its answer.
                let _ = job.answer.send(outcome);
            }
        });
    }

    /// Waits for work; false at the end.
    fn wait(&self) -> bool {
        let mut queue = self.shared.queue.lock();
        while queue.jobs.is_empty() {
            if queue.end {
                return false;
            }
            self.shared.asked.wait(&mut queue);
        }
        true
    }

    /// Takes the jobs of one group off the queue, without those that were given up.
    fn take(&self) -> Vec<Job> {
        let mut queue = self.shared.queue.lock();
        let mut jobs = Vec::with_capacity(queue.jobs.len().min(GROUP_JOBS_MAX));
        let mut bytes = 0;
        while jobs.len() < GROUP_JOBS_MAX && bytes < GROUP_BYTES_MAX {
            let Some(job) = queue.jobs.pop_front() else { break };
            queue.bytes -= job.bytes;
            if job.decided.swap(true, SeqCst) {
                self.shared.counters.expired.fetch_add(1, Relaxed);
                continue;
            }
            bytes += job.bytes;
            jobs.push(job);
        }
        jobs
    }

    /// Does the jobs in one transaction, and brings it to the disk. When they take long it does the first of them, at least one.
    fn write(&self, transaction: Transaction, jobs: &[Job]) -> Vec<Outcome> {
        let mut outcomes = self.commit(transaction, jobs);
        if self.durable && outcomes.iter().any(Result::is_ok) {
            if let Err(error) = self.store.flush() {
                let reason = error.to_string();
                spoil(&mut outcomes, &StoreError::NotFlushed { reason }.into());
            }
            self.shared.counters.flushes.fetch_add(1, Relaxed);
        }
        outcomes
    }

    /// A job that leaves something half done breaks the transaction: the others are done again without it.
    fn commit(&self, transaction: Transaction, jobs: &[Job]) -> Vec<Outcome> {
        let mut broken: Vec<(usize, Refusal)> = Vec::new();
        let mut transaction = Ok(transaction);
        while broken.len() < BROKEN_MAX
            && let Ok(begun) = transaction
        {
            match self.commit_without(begun, jobs, &broken) {
                Ok(outcomes) => return outcomes,
                Err(culprit) => broken.push(culprit),
            }
            transaction = self.store.begin();
        }
        match transaction {
            Err(error) => {
                let mut outcomes = vec![Err(Refusal::from(error)); jobs.len()];
                for (at, refusal) in broken {
                    outcomes[at] = Err(refusal);
                }
                outcomes
            }
            // So many that it is quicker to do each by itself.
            Ok(begun) => {
                drop(begun);
                jobs.iter().map(|job| self.commit_alone(job)).collect()
            }
        }
    }

    fn commit_alone(&self, job: &Job) -> Outcome {
        let outcomes = self.commit_without(self.store.begin()?, std::slice::from_ref(job), &[]);
        outcomes.map_or_else(
            |(_, refusal)| Err(refusal),
            |mut outcomes| outcomes.pop().expect("one job has one outcome"),
        )
    }

    /// Commits the jobs, as many as there is time for, but for those that are known to break the transaction. `Err`: another one does, and nothing is committed.
    fn commit_without(
        &self,
        mut transaction: Transaction,
        jobs: &[Job],
        broken: &[(usize, Refusal)],
    ) -> Result<Vec<Outcome>, (usize, Refusal)> {
        let (mut outcomes, begun) = (Vec::with_capacity(jobs.len()), Instant::now());
        for (at, job) in jobs.iter().enumerate() {
            if at > 0 && begun.elapsed() >= GROUP_TIME_MAX {
                break;
            }
            if let Some((_, refusal)) = broken.iter().find(|(other, _)| *other == at) {
                outcomes.push(Err(refusal.clone()));
                continue;
            }
            outcomes.push(match perform(&job.operations, &mut transaction) {
                Ok(done) => Ok(done),
                Err(Undone::Refused(refusal)) => Err(refusal),
                Err(Undone::Broken(refusal)) => return Err((at, refusal)),
            });
        }
        if outcomes.iter().any(Result::is_ok) {
            self.shared.counters.commits.fetch_add(1, Relaxed);
            // The flush comes after, for all of them.
            if let Err(error) = transaction.commit(Durability::Relaxed) {
                spoil(&mut outcomes, &error.into());
            }
        }
        Ok(outcomes)
    }
}

fn perform(operations: &[Work], transaction: &mut Transaction) -> Result<Vec<Done>, Undone> {
    let mut all = Vec::with_capacity(operations.len());
    for operation in operations {
        match operation.perform(transaction) {
            Ok(done) => all.push(done),
            // What came before it in the same job must not stay.
            Err(Undone::Refused(refusal)) if !all.is_empty() => return Err(Undone::Broken(refusal)),
            Err(undone) => return Err(undone),
        }
    }
    Ok(all)
}

/// What seemed done is not.
fn spoil(outcomes: &mut [Outcome], refusal: &Refusal) {
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
        *outcome = Err(refusal.clone());
    }
}
