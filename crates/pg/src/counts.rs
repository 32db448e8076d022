//! Statistics of statements, for each source and each route with statements.

mod durations;

use std::{
    borrow::{Borrow, Cow},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub use self::durations::{BOUNDS_US, Durations, Histogram};
use crate::{Ask, Code, PgError, Source};

/// SQLSTATE classes counted separately (manual, appendix A). Functions of the database may raise others, which share
/// one more counter.
const CLASSES: [&str; 41] = [
    "03", "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "20", "21", "22", "23", "24", "25", "26", "27",
    "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "40", "42", "44", "53", "54", "55", "57",
    "58", "72", "F0", "HV", "P0", "XX", OTHER,
];
const OTHER: &str = "other";
/// Most characters of a statement in the log.
const LOGGED_MAX: usize = 300;

/// Running counters; clones share them.
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

/// A snapshot of the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Number of finished statements, by outcome.
    pub outcomes: [(&'static str, u64); Outcome::ALL.len()],
    /// Number of statements that the server rejected, by SQLSTATE class; only classes that occurred.
    pub classes: Vec<(&'static str, u64)>,
    /// Time spent waiting for a connection.
    pub wait: Durations,
    /// Time from getting a connection to the last row.
    pub execution: Durations,
    /// Rows returned or changed.
    pub rows: u64,
    /// Statements running or waiting.
    pub in_flight: usize,
}

/// Outcome of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The server rejected a value: SQLSTATE class 22.
    Data,
    /// A constraint was violated: class 23.
    Constraint,
    /// It conflicted with another transaction: class 40.
    Conflict,
    /// The server rejected it for another reason.
    Server,
    Timeout,
    Full,
    Unreachable,
    Broken,
    /// It was not sent, because this kind of statement is not allowed.
    Refused,
    /// The caller stopped waiting.
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
    /// Takes a snapshot of the counters.
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

/// Time at which a statement got a connection; set once.
pub(crate) type Placed = Arc<OnceLock<Instant>>;

/// Counts a statement, a whole transaction, or statements sent together whose answers are awaited together. Counted
/// when dropped, as abandoned unless the outcome was recorded before.
#[derive(Debug)]
pub(crate) struct Counting<'t, S: Borrow<Source>> {
    source: S,
    text: Text<'t>,
    count: u64,
    begun: Instant,
    /// When it got a connection.
    placed: Placed,
    tally: Tally,
}

/// Text of what is counted, for the log of slow statements.
#[derive(Debug)]
enum Text<'t> {
    One(Cow<'t, str>),
    Many(&'t [Ask<'t>]),
}

/// Outcomes of the statements.
#[derive(Debug, Default)]
struct Tally {
    outcomes: [u64; Outcome::ALL.len()],
    /// Class index of each statement that the server rejected.
    classes: Vec<usize>,
    rows: u64,
}

impl Tally {
    fn fail(&mut self, error: &PgError) {
        self.outcomes[Outcome::of(error) as usize] += 1;
        if let Code::State(state) = error.code() {
            let class = CLASSES.iter().position(|class| state.starts_with(class));
            self.classes.push(class.unwrap_or(CLASSES.len() - 1));
        }
    }
}

impl Counts {
    fn add(&self, tally: &Tally, count: u64, wait: Duration, execution: Option<Duration>) {
        self.wait.record(wait, count);
        if let Some(execution) = execution {
            self.execution.record(execution, count);
        }
        for (counted, &count) in self.outcomes.iter().zip(&tally.outcomes) {
            if count > 0 {
                counted.fetch_add(count, Ordering::Relaxed);
            }
        }
        for &class in &tally.classes {
            self.classes[class].fetch_add(1, Ordering::Relaxed);
        }
        self.rows.fetch_add(tally.rows, Ordering::Relaxed);
        self.in_flight.fetch_sub(count as usize, Ordering::Relaxed);
    }
}

impl<'t, S: Borrow<Source>> Counting<'t, S> {
    pub(crate) fn begin(source: S, text: impl Into<Cow<'t, str>>, placed: Placed) -> Self {
        Self::new(source, Text::One(text.into()), 1, placed)
    }

    fn new(source: S, text: Text<'t>, count: u64, placed: Placed) -> Self {
        for meter in source.borrow().meters() {
            meter.0.in_flight.fetch_add(count as usize, Ordering::Relaxed);
        }
        Self {
            source,
            text,
            count,
            begun: Instant::now(),
            placed,
            tally: Tally::default(),
        }
    }

    /// Records when it got a connection.
    pub(crate) fn place(&self, at: Instant) {
        let _ = self.placed.set(at);
    }

    pub(crate) fn fail(&mut self, error: &PgError) {
        self.tally.fail(error);
    }

    /// Adds rows returned or changed.
    pub(crate) fn gives(&mut self, rows: u64) {
        self.tally.rows += rows;
    }

    pub(crate) fn done(&mut self) {
        self.tally.outcomes[Outcome::Done as usize] += 1;
    }

    /// Records the outcome of the statement, or of one of several, and its number of rows.
    pub(crate) fn end<O>(&mut self, outcome: &Result<O, PgError>, rows: impl FnOnce(&O) -> u64) {
        match outcome {
            Ok(outcome) => {
                self.gives(rows(outcome));
                self.done();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Logs a slow statement. Its parameters are confidential and not logged.
    fn tell_slow(&self, wait: Duration, execution: Duration) {
        let source = self.source.borrow();
        let limit = source.settings().slow_query;
        if limit.is_none_or(|limit| wait + execution < limit) || !source.may_tell() {
            return;
        }
        let (wait_ms, execution_ms) = (wait.as_millis() as u64, execution.as_millis() as u64);
        let rows = self.tally.rows;
        let outcome = self.tally.outcomes.iter().position(|count| *count > 0);
        let outcome = Outcome::ALL[outcome.unwrap_or(0)].name();
        let statement = match &self.text {
            Text::One(text) => shortened(text),
            Text::Many(asks) => {
                let texts: Vec<_> = asks.iter().map(|ask| ask.text).collect();
                shortened(&texts.join("; "))
            }
        };
        tracing::warn!(target: "forebay::sql", source = source.name(), wait_ms, execution_ms, rows, outcome, statement, "a slow statement");
    }
}

impl<'t> Counting<'t, &'t Source> {
    /// Counts statements that are sent together.
    pub(crate) fn begin_all(source: &'t Source, asks: &'t [Ask<'t>]) -> Self {
        let placed = asks.first().map(|ask| ask.placed.clone());
        Self::new(
            source,
            Text::Many(asks),
            asks.len() as u64,
            placed.unwrap_or_default(),
        )
    }
}

impl<S: Borrow<Source>> Drop for Counting<'_, S> {
    fn drop(&mut self) {
        if self.count == 0 {
            return;
        }
        let ended = Instant::now();
        let told: u64 = self.tally.outcomes.iter().sum();
        self.tally.outcomes[Outcome::Abandoned as usize] += self.count - told;
        let placed = self.placed.get().copied();
        let wait = placed.unwrap_or(ended).saturating_duration_since(self.begun);
        let execution = placed.map(|placed| ended.saturating_duration_since(placed));
        for Meter(counts) in self.source.borrow().meters() {
            counts.add(&self.tally, self.count, wait, execution);
        }
        self.tell_slow(wait, execution.unwrap_or_default());
    }
}

/// A statement on one line, shortened if it is long.
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
