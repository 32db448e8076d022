//! What is counted of statements: of a source, and of each route that has some.

mod durations;

use std::{
    borrow::{Borrow, Cow},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use self::durations::Histogram;
pub use self::durations::{BOUNDS_US, Durations};
use crate::{Code, PgError, Source};

/// Classes of SQLSTATE that are told apart (manual, appendix A). Functions of the database may raise others: they are one more.
const CLASSES: [&str; 41] = [
    "03", "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "20", "21", "22", "23", "24", "25", "26", "27",
    "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "40", "42", "44", "53", "54", "55", "57",
    "58", "72", "F0", "HV", "P0", "XX", OTHER,
];
const OTHER: &str = "other";
/// Letters of a statement that the log has.
const LOGGED_MAX: usize = 300;

/// Counts that go on as long as anybody has them; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    classes: [AtomicU64; CLASSES.len()],
    wait: Histogram,
    execution: Histogram,
    rows: AtomicU64,
    in_flight: AtomicUsize,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            outcomes: Default::default(),
            classes: [const { AtomicU64::new(0) }; CLASSES.len()],
            wait: Histogram::default(),
            execution: Histogram::default(),
            rows: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
        }
    }
}

/// The counts at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Statements that have ended, by how.
    pub outcomes: [(&'static str, u64); Outcome::ALL.len()],
    /// Those that the server has refused, by the class of SQLSTATE, as far as there are any.
    pub classes: Vec<(&'static str, u64)>,
    /// How long they waited for a connection.
    pub wait: Durations,
    /// How long they took with it, until their last row.
    pub execution: Durations,
    /// Rows that they gave or changed.
    pub rows: u64,
    /// Statements under way and waiting.
    pub in_flight: usize,
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

    fn of(error: &PgError) -> Self {
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

impl Meter {
    /// What has been counted.
    pub fn read(&self) -> Counted {
        let counts = &*self.0;
        let classes = CLASSES.iter().zip(&counts.classes);
        let classes = classes.map(|(class, count)| (*class, count.load(Ordering::Relaxed)));
        Counted {
            outcomes: Outcome::ALL.map(|outcome| {
                let count = counts.outcomes[outcome as usize].load(Ordering::Relaxed);
                (outcome.name(), count)
            }),
            classes: classes.filter(|(_, count)| *count > 0).collect(),
            wait: counts.wait.read(),
            execution: counts.execution.read(),
            rows: counts.rows.load(Ordering::Relaxed),
            in_flight: counts.in_flight.load(Ordering::Relaxed),
        }
    }
}

/// Since when a statement has had a connection.
pub(crate) type Placed = Arc<OnceLock<Instant>>;

/// A statement, or a transaction that is known as a whole. It is counted when this is dropped, as abandoned unless its end is told before.
#[derive(Debug)]
pub(crate) struct Counting<'t, S: Borrow<Source>> {
    source: S,
    text: Cow<'t, str>,
    begun: Instant,
    /// When it had a connection.
    placed: Placed,
    outcome: Outcome,
    class: Option<usize>,
    pub(crate) rows: u64,
}

impl<'t, S: Borrow<Source>> Counting<'t, S> {
    pub(crate) fn begin(source: S, text: impl Into<Cow<'t, str>>, placed: Placed) -> Self {
        for meter in source.borrow().meters() {
            meter.0.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            source,
            text: text.into(),
            begun: Instant::now(),
            placed,
            outcome: Outcome::Abandoned,
            class: None,
            rows: 0,
        }
    }

    /// It has had a connection since then.
    pub(crate) fn place(&self, at: Instant) {
        let _ = self.placed.set(at);
    }

    pub(crate) fn fail(&mut self, error: &PgError) {
        self.outcome = Outcome::of(error);
        if let Code::State(state) = error.code() {
            let class = CLASSES.iter().position(|class| state.starts_with(class));
            self.class = Some(class.unwrap_or(CLASSES.len() - 1));
        }
    }

    pub(crate) fn done(&mut self) {
        self.outcome = Outcome::Done;
    }

    /// How it ended, with how many rows.
    pub(crate) fn end<O>(mut self, outcome: &Result<O, PgError>, rows: impl FnOnce(&O) -> u64) {
        match outcome {
            Ok(outcome) => {
                self.rows = rows(outcome);
                self.done();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Tells the log of what took long. Parameters are nobody's business.
    fn tell_slow(&self, wait: Duration, execution: Duration) {
        let source = self.source.borrow();
        let limit = source.settings().slow_query;
        if limit.is_none_or(|limit| wait + execution < limit) || !source.may_tell() {
            return;
        }
        let (wait_ms, execution_ms) = (wait.as_millis() as u64, execution.as_millis() as u64);
        let (rows, outcome) = (self.rows, self.outcome.name());
        let statement = shortened(&self.text);
        tracing::warn!(target: "forebay::sql", source = source.name(), wait_ms, execution_ms, rows, outcome, statement, "a slow statement");
    }
}

impl<S: Borrow<Source>> Drop for Counting<'_, S> {
    fn drop(&mut self) {
        let ended = Instant::now();
        let placed = self.placed.get().copied();
        let wait = placed.unwrap_or(ended).saturating_duration_since(self.begun);
        let execution = placed.map_or(Duration::ZERO, |placed| ended.saturating_duration_since(placed));
        for Meter(counts) in self.source.borrow().meters() {
            counts.wait.record(wait);
            if placed.is_some() {
                counts.execution.record(execution);
            }
            counts.outcomes[self.outcome as usize].fetch_add(1, Ordering::Relaxed);
            if let Some(class) = self.class {
                counts.classes[class].fetch_add(1, Ordering::Relaxed);
            }
            counts.rows.fetch_add(self.rows, Ordering::Relaxed);
            counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        self.tell_slow(wait, execution);
    }
}

/// A statement in one line, and the beginning of a long one.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(LOGGED_MAX) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_shortened_to_one_line() {
        assert_eq!(shortened(" select\n  1,\t2 "), "select 1, 2");
        let long = shortened(&"é ".repeat(1000));
        assert_eq!(
            (long.chars().count(), long.ends_with('…')),
            (LOGGED_MAX + 1, true)
        );
    }
}
