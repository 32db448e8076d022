//! What can go wrong with a single request or connection while load runs, by class.

use serde::{Deserialize, Serialize};

/// The class of a failure. Each is counted on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Nobody listens.
    ConnectRefused,
    /// No connection within `connect_timeout`.
    ConnectTimeout,
    /// Any other end of an attempt to connect.
    Connect,
    /// No local port or descriptor was free.
    Resources,
    /// The TLS handshake failed.
    Tls,
    /// The request could not be written.
    Write,
    /// The connection was reset with answers due.
    Reset,
    /// The connection was closed in an orderly way before an answer began.
    ClosedEarly,
    /// The connection was closed in the middle of an answer.
    Truncated,
    /// What came is not an HTTP answer.
    Malformed,
    /// The answer does not say clearly where it ends.
    Framing,
    /// A head, chunk line or trailer that is longer than is read.
    OverLong,
    /// Bytes that no request asked for.
    Unsolicited,
    /// No whole answer within `timeout`.
    Timeout,
    /// An answer whose status is not among those expected.
    Status,
    /// An answer whose body or fields are not as expected.
    Mismatch,
    /// A request that was due while more waited than are kept.
    Dropped,
    /// Due, sent or not, and without an answer when the run ended.
    Unanswered,
}

impl Class {
    /// All classes, in the order in which reports show them.
    pub const ALL: [Self; 18] = [
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::Connect,
        Self::Resources,
        Self::Tls,
        Self::Write,
        Self::Reset,
        Self::ClosedEarly,
        Self::Truncated,
        Self::Malformed,
        Self::Framing,
        Self::OverLong,
        Self::Unsolicited,
        Self::Timeout,
        Self::Status,
        Self::Mismatch,
        Self::Dropped,
        Self::Unanswered,
    ];

    /// The name in reports, such as `connect_refused`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::Connect => "connect",
            Self::Resources => "resources",
            Self::Tls => "tls",
            Self::Write => "write",
            Self::Reset => "reset",
            Self::ClosedEarly => "closed_early",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::Framing => "framing",
            Self::OverLong => "over_long",
            Self::Unsolicited => "unsolicited",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Mismatch => "mismatch",
            Self::Dropped => "dropped",
            Self::Unanswered => "unanswered",
        }
    }

    /// Whether there was a whole answer, which is counted as one too.
    pub const fn has_answer(self) -> bool {
        matches!(self, Self::Status | Self::Mismatch)
    }
}

/// A count for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Class::ALL.len()]);

impl Counts {
    /// Adds to a class.
    pub fn add(&mut self, class: Class, count: u64) {
        self.0[class as usize] += count;
    }

    /// How often a class has happened.
    pub fn get(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// Of all classes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those without an answer: the others are answers, too.
    pub fn without_answer(&self) -> u64 {
        let without = self.iter().filter(|(class, _)| !class.has_answer());
        without.map(|(_, count)| count).sum()
    }

    /// The classes that have happened.
    pub fn iter(&self) -> impl Iterator<Item = (Class, u64)> {
        Class::ALL
            .into_iter()
            .map(|class| (class, self.get(class)))
            .filter(|(_, count)| *count > 0)
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
