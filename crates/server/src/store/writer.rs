//! The server's single thread that writes to the store.
//!
//! Writes wait in a bounded queue. The thread executes everything that waits in one transaction, flushes once, and then answers. It takes
//! jobs from the queue only after it has begun the transaction, so a write whose client has given up by then is not executed.

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

/// Most jobs in one transaction.
const GROUP_JOBS_MAX: usize = 1024;
/// Once a transaction holds this many bytes, no further write joins it.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Limit for executing jobs in one transaction before the first of them are answered; a single statement may take long.
const GROUP_TIME_MAX: Duration = Duration::from_millis(100);

/// After this many jobs in a row have broken their transaction, each job gets a transaction of its own.
const BROKEN_MAX: usize = 8;

type Outcome = Result<Vec<Done>, Refusal>;

/// A handle to the thread. Once it is dropped, the thread empties the queue and ends.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    limits: Limits,
    is_remote: bool,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    queue_max: usize,
    queue_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signals that there is work or that the queue has ended.
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

/// A snapshot of the writer's counters and queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterCounts {
    pub(crate) queued: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) queue_max: usize,
    /// Writes that were committed.
    pub(crate) done: u64,
    /// Writes that failed.
    pub(crate) failed: u64,
    /// Writes that expired or were given up before they began.
    pub(crate) expired: u64,
    /// Writes rejected because the queue was full.
    pub(crate) refused: u64,
    pub(crate) commits: u64,
    pub(crate) flushes: u64,
}

impl WriterCounts {
    /// Every submitted write is counted in one of these, or still waits.
    pub(crate) fn outcomes(&self) -> [(&'static str, u64); 4] {
        [
            ("done", self.done),
            ("failed", self.failed),
            ("expired", self.expired),
            ("refused", self.refused),
        ]
    }
}

/// Operations that are executed together or not at all.
#[derive(Debug)]
struct Job {
    operations: Vec<Work>,
    bytes: usize,
    /// Set by the side that decides the job's fate: the writer when it begins the job, or the client when it gives up.
    decided: Arc<AtomicBool>,
    answer: oneshot::Sender<Outcome>,
}

/// A submitted write. Dropping it cancels the write unless it has begun.
#[derive(Debug)]
pub(crate) struct Pending {
    decided: Arc<AtomicBool>,
    answer: oneshot::Receiver<Outcome>,
    /// Whether the store is in a database, which may take long to confirm what has begun.
    pub(crate) is_remote: bool,
}

impl Pending {
    /// Polls for the outcome.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let answer = std::pin::Pin::new(&mut self.answer);
        answer
            .poll(cx)
            .map(|outcome| outcome.unwrap_or(Err(Refusal::Stopping)))
    }

    /// Cancels the write. Returns false if it has begun already.
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
            // A panic leaves no half-done state visible, but without its writer the server cannot go on.
            if catch_unwind(AssertUnwindSafe(|| thread.run())).is_err() {
                tracing::error!(target: "forebay::store", "the store's writer has panicked: the server ends");
                abort();
            }
        })?;
        Ok(Self {
            shared,
            is_remote: store.is_remote(),
            limits: Limits {
                queue_max: config.queue_max,
                queue_bytes_max: usize::try_from(config.queue_bytes_max).unwrap_or(usize::MAX),
            },
        })
    }

    /// Submits operations that are executed together or not at all. `bytes` is their size, for the queue's limit.
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
            is_remote: self.is_remote,
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

/// The state of the writer thread.
struct Thread {
    shared: Arc<Shared>,
    store: Store,
    /// Whether writes are answered only after they have been flushed.
    durable: bool,
}

impl Thread {
    fn run(&self) {
        while self.wait() {
            // This waits while another process writes; jobs stay in the queue meanwhile, where they can still be cancelled.
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
                // The receiver is gone if the client has left.
                let _ = job.answer.send(outcome);
            }
        });
    }

    /// Waits for work. Returns false once the queue has ended and is empty.
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

    /// Takes one group of jobs off the queue, skipping those that were cancelled.
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

    /// Executes the jobs in one transaction and flushes it. If they take too long, only the first of them are executed, at least one; the
    /// outcomes are theirs.
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

    /// Commits the jobs. A job that breaks the transaction is excluded, and the others are executed again without it.
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
            // With so many broken jobs it is faster to execute each on its own.
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

    /// Commits as many jobs as time permits, except those known to break the transaction. The error names another job that does; then
    /// nothing is committed.
    fn commit_without(
        &self,
        mut transaction: Transaction,
        jobs: &[Job],
        broken: &[(usize, Refusal)],
    ) -> Result<Vec<Outcome>, (usize, Refusal)> {
        let (mut outcomes, begun) = (Vec::with_capacity(jobs.len()), Instant::now());
        let nodes = jobs.iter().flat_map(|job| &job.operations).filter_map(Work::node);
        // After a failure, each job fails by itself.
        let _ = transaction.prefetch(nodes);
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
            // One flush for all jobs follows later.
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
            // Earlier operations of the same job must be undone.
            Err(Undone::Refused(refusal)) if !all.is_empty() => return Err(Undone::Broken(refusal)),
            Err(undone) => return Err(undone),
        }
    }
    Ok(all)
}

/// Turns successes into failures after the commit or the flush has failed.
fn spoil(outcomes: &mut [Outcome], refusal: &Refusal) {
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
        *outcome = Err(refusal.clone());
    }
}
