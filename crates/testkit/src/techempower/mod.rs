//! The acceptance test of the TechEmpower benchmarks: the checks of its own verifier (`toolset/test_types` of its repository), applied to
//! every response of a benchmark run. Its warnings are problems here, and so are violations of rules that it does not check, as far as they
//! can be seen from outside: spelling of keys, status of every response, values that are those of the database.

mod answers;
mod counts;
mod fortunes;
mod worlds;

use std::net::SocketAddr;

use self::answers::Answers;
use crate::{Postgres, Server};

/// One of the tests, with its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `/json`: an object that is made for each request.
    Json,
    /// `/plaintext`.
    Plaintext,
    /// `/db`: one row of the table `world`, chosen at random.
    Db,
    /// `/queries?queries=`: a number of them, each by a statement of its own.
    Queries,
    /// `/queries2?queries=`: the same by another driver.
    Queries2,
    /// `/updates?queries=`: the same, and each gets another number.
    Updates,
    /// `/fortunes`: all rows of the table `fortune` and one more, sorted, as a page.
    Fortunes,
    /// `/cached-queries?count=`: rows of `world` from a cache.
    CachedQueries,
}

impl Kind {
    /// All kinds, in an order in which one server can be checked: after updates, cached rows differ from those of the database.
    pub const ALL: [Self; 8] = [
        Self::Json,
        Self::Plaintext,
        Self::Db,
        Self::Queries,
        Self::Queries2,
        Self::Fortunes,
        Self::CachedQueries,
        Self::Updates,
    ];

    /// The path; where it takes a number, with the query up to the number.
    pub fn path(self) -> &'static str {
        match self {
            Self::Json => "/json",
            Self::Plaintext => "/plaintext",
            Self::Db => "/db",
            Self::Queries => "/queries?queries=",
            Self::Queries2 => "/queries2?queries=",
            Self::Updates => "/updates?queries=",
            Self::Fortunes => "/fortunes",
            Self::CachedQueries => "/cached-queries?count=",
        }
    }
}

/// Panics unless the server responds to one kind as the benchmarks require. No other client may use this PostgreSQL meanwhile: its
/// statements are counted.
pub fn verify(server: &Server, postgres: &Postgres, kind: Kind) {
    let problems = problems(server.address(), postgres, kind);
    assert!(
        problems.is_empty(),
        "{kind:?} breaks rules:\n{}",
        problems.join("\n")
    );
}

/// The problems in a server's responses to one kind. Dates are only awaited, and statements only counted, when nothing else is wrong.
pub fn problems(address: SocketAddr, postgres: &Postgres, kind: Kind) -> Vec<String> {
    let mut answers = Answers::of(address, kind);
    match kind {
        Kind::Json => answers::json(&mut answers),
        Kind::Plaintext => answers::plaintext(&mut answers),
        Kind::Db => worlds::one(&mut answers, postgres),
        Kind::Queries | Kind::Queries2 | Kind::CachedQueries => worlds::many(&mut answers, postgres),
        Kind::Updates => worlds::updated(&mut answers, postgres),
        Kind::Fortunes => fortunes::page(&mut answers),
    }
    if !answers.are_wrong() {
        answers.await_other_dates();
    }
    let mut problems = answers.into_problems();
    if problems.is_empty() {
        problems = counts::statements(address, postgres, kind);
    }
    problems
}
