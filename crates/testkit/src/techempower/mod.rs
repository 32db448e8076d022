//! The acceptance test of the TechEmpower benchmarks: what its own verifier looks at (`toolset/test_types` of its repository), each answer held
//! against what a run of the benchmarks takes for granted. What that one only warns of is a problem here, and so is what the rules ask for and it
//! cannot see from outside as far as this one can: spelling of keys, status of every answer, values that are those of the database.

mod answers;
mod counts;
mod fortunes;
mod worlds;

use std::{fmt, net::SocketAddr};

use self::answers::Answers;
use crate::{Postgres, Server};

/// One of the tests, with the path at which it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `/json`: an object that is made for each request.
    Json,
    /// `/plaintext`.
    Plaintext,
    /// `/db`: one row of the table `world`, chosen by lot.
    Db,
    /// `/queries?queries=`: so many of them, each by a statement of its own.
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
    /// All of them, in an order in which one server can be held against them: what a cache has read is not the database's any more after updates.
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

    /// Its path; where there is a number to ask for, with the query up to the number.
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

/// The checks, numbered as in the documentation of whoever looks for one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// 1: status 200, a body, and JSON where there is to be JSON.
    Answer,
    /// 2: `Server`, `Date`, `Content-Type` and a length; a date that is true and goes on.
    Fields,
    /// 3: the media type, with no other charset than UTF-8.
    MediaType,
    /// 4: the greeting of `/json` and `/plaintext`.
    Greeting,
    /// 5: a row of `world`: its keys, its numbers, and that it is the database's.
    World,
    /// 6: how many rows come for what is asked, whatever that is.
    Rows,
    /// 7: the rows that an update has changed.
    Changed,
    /// 8: the page of fortunes.
    Page,
    /// 9: how many statements 512 clients at the same time have cost, and none of them fails.
    Statements,
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which.
    pub check: Check,
    /// What was asked for.
    pub target: String,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}: GET {}: {}", self.check, self.target, self.text)
    }
}

/// Panics unless the server answers one kind as the benchmarks want it. Nobody else may use this PostgreSQL meanwhile: its statements are counted.
pub fn verify(server: &Server, postgres: &Postgres, kind: Kind) {
    let problems = problems(server.address(), postgres, kind);
    let lines: Vec<String> = problems.iter().map(|problem| format!("\n{problem}")).collect();
    assert!(problems.is_empty(), "{kind:?} breaks rules:{}", lines.concat());
}

/// What is wrong with a server's answers to one kind. Dates are only waited for, and statements only counted, when nothing else is wrong.
pub fn problems(address: SocketAddr, postgres: &Postgres, kind: Kind) -> Vec<Problem> {
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
