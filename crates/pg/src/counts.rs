//! What is counted of a source's statements.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::{Code, PgError, Rows};

/// Counts that go on as long as the source is there.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    micros: AtomicU64,
    rows: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Statements that have ended, by how.
    pub outcomes: [(&'static str, u64); Outcome::ALL.len()],
    /// How long they took together, their waits for a connection included.
    pub time: Duration,
    /// Rows that they gave or changed.
    pub rows: u64,
    /// Statements under way and waiting.
    pub in_flight: usize,
    /// How many of these there may be.
    pub in_flight_max: usize,
}

/// How a statement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The server refused a value: class 22 of SQLSTATE.
    Data,
    /// A constraint was violated: class 23.
    Constraint,
    /// Two transactions stood in each other's way: class 40.
    Conflict,
    /// The server refused it for another reason.
    Server,
    Timeout,
    Full,
    Unreachable,
    Broken,
    /// It was not sent, because of what it is.
    Refused,
    /// Nobody waited for it any more.
    Abandoned,
}

impl Outcome {
    const ALL: [Self; 11] = [
        Self::Done,
        Self::Data,
        Self::Constraint,
        Self::Conflict,
        Self::Server,
        Self::Timeout,
        Self::Full,
        Self::Unreachable,
        Self::Broken,
        Self::Refused,
        Self::Abandoned,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Data => "data",
            Self::Constraint => "constraint",
            Self::Conflict => "conflict",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Full => "full",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Refused => "refused",
            Self::Abandoned => "abandoned",
        }
    }

    fn of(outcome: &Result<Rows, PgError>) -> Self {
        let Err(error) = outcome else { return Self::Done };
        match error.code() {
            Code::State(state) => match state.as_bytes() {
                [b'2', b'2', ..] => Self::Data,
                [b'2', b'3', ..] => Self::Constraint,
                [b'4', b'0', ..] => Self::Conflict,
                _ => Self::Server,
            },
            Code::Timeout => Self::Timeout,
            Code::Full => Self::Full,
            Code::Unreachable => Self::Unreachable,
            Code::Broken | Code::Cancelled | Code::RolledBack => Self::Broken,
            Code::NotSendable | Code::Session | Code::TooLarge => Self::Refused,
        }
    }
}

impl Counts {
    pub(crate) fn read(&self, in_flight: usize, in_flight_max: usize) -> Counted {
        Counted {
            outcomes: Outcome::ALL.map(|outcome| {
                let count = self.outcomes[outcome as usize].load(Ordering::Relaxed);
                (outcome.name(), count)
            }),
            time: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
            rows: self.rows.load(Ordering::Relaxed),
            in_flight,
            in_flight_max,
        }
    }
}

/// A statement that is counted when it ends, as abandoned where this is dropped before.
pub(crate) struct Counting<'c> {
    counts: &'c Counts,
    begun: Instant,
    outcome: Outcome,
}

impl<'c> Counting<'c> {
    pub(crate) fn begin(counts: &'c Counts) -> Self {
        Self {
            counts,
            begun: Instant::now(),
            outcome: Outcome::Abandoned,
        }
    }

    pub(crate) fn end(mut self, outcome: &Result<Rows, PgError>) {
        self.outcome = Outcome::of(outcome);
        if let Ok(rows) = outcome {
            self.counts.rows.fetch_add(rows.affected, Ordering::Relaxed);
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counts.micros.fetch_add(micros, Ordering::Relaxed);
        self.counts.outcomes[self.outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}
