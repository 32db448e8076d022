//! Counters of a script, across all its threads and reloads.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{Answer, Failure};

/// The counters of a script. Create a script with the existing counters of its name, so that they continue.
#[derive(Debug, Default)]
pub struct Counts {
    answered_io: AtomicU64,
    answered_executor: AtomicU64,
    faulted: AtomicU64,
    cancelled: AtomicU64,
    handed_over: AtomicU64,
    refused: AtomicU64,
    stopped: [AtomicU64; Reason::ALL.len()],
    given_up: AtomicU64,
    pub(crate) queued: Gauge,
    pub(crate) threads: Gauge,
    pub(crate) engines: Gauge,
    pub(crate) engine_bytes: Gauge,
}

/// The reason why a call was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// It used too much CPU time.
    Cpu,
    /// It took too long.
    Time,
    /// Its request's deadline passed.
    Deadline,
    /// It needed too much memory.
    Memory,
    /// Its answer was too long.
    Output,
    /// Another call on its thread could not be stopped.
    Thread,
    /// The script cannot run.
    Broken,
}

impl Reason {
    /// All reasons.
    const ALL: [Self; 7] = [
        Self::Cpu,
        Self::Time,
        Self::Deadline,
        Self::Memory,
        Self::Output,
        Self::Thread,
        Self::Broken,
    ];

    /// The name of the reason: that of its limit, if it has one.
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu_max",
            Self::Time => "time_max",
            Self::Deadline => "deadline",
            Self::Memory => "memory_max",
            Self::Output => "output_max",
            Self::Thread => "thread",
            Self::Broken => "broken",
        }
    }

    fn of(failure: &Failure) -> Option<Self> {
        Some(match failure {
            Failure::Time {
                limit: "time_max", ..
            } => Self::Time,
            Failure::Time { .. } => Self::Cpu,
            Failure::DeadlinePassed => Self::Deadline,
            Failure::Memory { .. } => Self::Memory,
            Failure::Output { .. } => Self::Output,
            Failure::GivenUp => Self::Thread,
            Failure::Broken { .. } | Failure::Stopping => Self::Broken,
            Failure::Busy { .. } | Failure::BytesFull { .. } => return None,
        })
    }
}

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Calls answered by their handler on an I/O thread, and records that were answered without it.
    pub answered_io: u64,
    /// Calls answered by their handler on an executor.
    pub answered_executor: u64,
    /// Calls whose handler threw.
    pub faulted: u64,
    /// Calls cancelled by their clients.
    pub cancelled: u64,
    /// Calls that an I/O thread began and left to an executor.
    pub handed_over: u64,
    /// Calls refused because of `in_flight_max` or `queue_bytes_max`.
    pub refused: u64,
    /// Calls that were stopped, by reason.
    pub stopped: [(&'static str, u64); Reason::ALL.len()],
    /// Threads that were abandoned.
    pub given_up: u64,
    /// Calls waiting for a thread.
    pub queued: u64,
    /// Executor threads, without abandoned ones.
    pub threads: u64,
    /// Engines on all threads.
    pub engines: u64,
    /// Memory of all engines in bytes, accurate to 64 KiB for each.
    pub engine_bytes: u64,
}

impl Counts {
    /// Reads all counters.
    pub fn read(&self) -> Counted {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            answered_io: read(&self.answered_io),
            answered_executor: read(&self.answered_executor),
            faulted: read(&self.faulted),
            cancelled: read(&self.cancelled),
            handed_over: read(&self.handed_over),
            refused: read(&self.refused),
            stopped: Reason::ALL.map(|reason| (reason.name(), read(&self.stopped[reason as usize]))),
            given_up: read(&self.given_up),
            queued: read(&self.queued.0),
            threads: read(&self.threads.0),
            engines: read(&self.engines.0),
            engine_bytes: read(&self.engine_bytes.0),
        }
    }

    pub(crate) fn answer_on_io(&self, answer: &Answer) {
        count(if answer.is_fault {
            &self.faulted
        } else {
            &self.answered_io
        });
    }

    pub(crate) fn declared_read(&self) {
        count(&self.answered_io);
    }

    pub(crate) fn outcome_on_executor(&self, outcome: &Result<Answer, Failure>) {
        match outcome {
            Ok(answer) if answer.is_fault => count(&self.faulted),
            Ok(_) => count(&self.answered_executor),
            Err(failure) => self.failure(failure),
        }
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        count(Reason::of(failure).map_or(&self.refused, |reason| &self.stopped[reason as usize]));
    }

    pub(crate) fn cancelled(&self) {
        count(&self.cancelled);
    }

    pub(crate) fn handed_over(&self) {
        count(&self.handed_over);
    }

    pub(crate) fn thread_given_up(&self) {
        count(&self.given_up);
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A quantity that rises and falls.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }
}

/// Counts an engine and its memory while it exists.
#[derive(Debug)]
pub(crate) struct CountedEngine {
    counts: Arc<Counts>,
    bytes: std::cell::Cell<u64>,
}

/// Change of an engine's memory below which the gauge is not updated.
const TOLD_BYTES: u64 = 64 << 10;

impl CountedEngine {
    pub(crate) fn new(counts: Arc<Counts>) -> Self {
        counts.engines.add(1);
        Self {
            counts,
            bytes: std::cell::Cell::new(0),
        }
    }

    /// Reports the current memory use.
    pub(crate) fn uses(&self, bytes: usize) {
        let (bytes, before) = (bytes as u64, self.bytes.get());
        if bytes >= before + TOLD_BYTES {
            self.counts.engine_bytes.add(bytes - before);
        } else if before >= bytes + TOLD_BYTES {
            self.counts.engine_bytes.subtract(before - bytes);
        } else {
            return;
        }
        self.bytes.set(bytes);
    }
}

impl Drop for CountedEngine {
    fn drop(&mut self) {
        self.counts.engines.subtract(1);
        self.counts.engine_bytes.subtract(self.bytes.get());
    }
}
