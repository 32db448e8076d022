//! The protocol of the TechEmpower framework benchmarks: which routes are asked for, with how many connections, and what a right answer is.
//!
//! Names, numbers and rules are those of its toolset (`benchmarks/`, `test_types/`, `wrk/*.sh`). The tests of this repository judge the routes of its
//! example by `techempower` of `crates/testkit`, which is separate on purpose: a black box shares no code with what it tests.

mod answers;

use std::time::Duration;

/// Connections of each rung.
pub const CONNECTIONS: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// Length of a rung, and of the warm-up before the first.
pub const RUNG: Duration = Duration::from_secs(15);
/// What is sent before anything else: so many connections for so long.
pub const PRIMER: (usize, Duration) = (8, Duration::from_secs(5));

const PIPELINED_CONNECTIONS: [usize; 4] = [256, 1024, 4096, 16384];
const PIPELINE: usize = 16;
const ROWS: [u32; 5] = [1, 5, 10, 15, 20];
const CACHED_ROWS: [u32; 5] = [1, 10, 20, 50, 100];

/// One of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// An object that is made and serialized for each request.
    Json,
    /// A text, asked for 16 times at once on each connection.
    Plaintext,
    /// One row by a statement.
    Db,
    /// Several rows, each by a statement of its own.
    Queries,
    /// The same by another driver. It is no test of the benchmarks: Forebay's example has it beside the other.
    Queries2,
    /// The same, and each row gets another number.
    Updates,
    /// All rows of a table and one more, sorted, as a page.
    Fortunes,
    /// Several rows from a cache.
    CachedQueries,
}

/// One measurement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// Connections at a time.
    pub connections: usize,
    /// Rows that each request asks for, where a test has such a number.
    pub rows: Option<u32>,
}

/// Other numbers than those of the benchmarks; an empty list leaves theirs.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// Connections.
    pub connections: Vec<usize>,
    /// Rows of `queries`, `updates` and the like.
    pub rows: Vec<u32>,
}

impl Test {
    /// All of them; what changes rows comes last, so that no other test is measured on a table that was just written.
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

    /// Its name, which is its path without the slash.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Plaintext => "plaintext",
            Self::Db => "db",
            Self::Queries => "queries",
            Self::Queries2 => "queries2",
            Self::Updates => "updates",
            Self::Fortunes => "fortunes",
            Self::CachedQueries => "cached-queries",
        }
    }

    /// Whether the benchmarks have it. A server may well be without one that they do not have.
    pub fn is_of_the_benchmarks(self) -> bool {
        self != Self::Queries2
    }

    /// What is asked for.
    pub fn path(self, rows: Option<u32>) -> String {
        match (self.parameter(), rows) {
            (Some(parameter), Some(rows)) => format!("/{}?{parameter}={rows}", self.name()),
            _ => format!("/{}", self.name()),
        }
    }

    /// Requests that are under way on each connection.
    pub fn pipeline(self) -> usize {
        match self {
            Self::Plaintext => PIPELINE,
            _ => 1,
        }
    }

    /// Its measurements, in their order. Tests with a number of rows have all of them with the most connections.
    pub fn rungs(self, levels: &Levels) -> Vec<Rung> {
        let connections: &[usize] = match (self, levels.connections.as_slice()) {
            (Self::Plaintext, []) => &PIPELINED_CONNECTIONS,
            (_, []) => &CONNECTIONS,
            (_, wanted) => wanted,
        };
        if self.parameter().is_none() {
            let rung = |&connections: &usize| Rung {
                connections,
                rows: None,
            };
            return connections.iter().map(rung).collect();
        }
        let rows: &[u32] = match (self, levels.rows.as_slice()) {
            (Self::CachedQueries, []) => &CACHED_ROWS,
            (_, []) => &ROWS,
            (_, wanted) => wanted,
        };
        let most = connections.iter().copied().max().unwrap_or(1);
        let rung = |&rows: &u32| Rung {
            connections: most,
            rows: Some(rows),
        };
        rows.iter().map(rung).collect()
    }

    /// What is asked for to see whether the answers are right: with numbers of rows that are none, too.
    pub fn probes(self) -> Vec<String> {
        match self.parameter() {
            None => vec![self.path(None)],
            Some(parameter) => answers::COUNTS
                .iter()
                .map(|(asked, _)| format!("/{}?{parameter}={asked}", self.name()))
                .collect(),
        }
    }

    /// What is wrong with the answer to one of its probes; the first thing that is.
    pub fn problem(self, probe: &str, answer: &[u8]) -> Option<String> {
        answers::problem(self, probe, answer).err()
    }

    /// Whether the answer says that there is no such route.
    pub fn is_absent(answer: &[u8]) -> bool {
        answers::status(answer) == Some(404)
    }

    /// The parameter that says how many rows.
    fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Queries | Self::Queries2 | Self::Updates => Some("queries"),
            Self::CachedQueries => Some("count"),
            Self::Json | Self::Plaintext | Self::Db | Self::Fortunes => None,
        }
    }
}

impl std::str::FromStr for Test {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|test| test.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|test| test.name()).collect();
            format!("found {text:?}, expected one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_the_rungs_of_the_benchmarks() {
        let rungs = |test: Test| -> Vec<(usize, Option<u32>)> {
            let rungs = test.rungs(&Levels::default());
            rungs.iter().map(|rung| (rung.connections, rung.rows)).collect()
        };
        assert_eq!(
            rungs(Test::Db),
            [16, 32, 64, 128, 256, 512].map(|connections| (connections, None))
        );
        assert_eq!(
            rungs(Test::Plaintext),
            [256, 1024, 4096, 16384].map(|connections| (connections, None))
        );
        assert_eq!(
            rungs(Test::Updates),
            [1, 5, 10, 15, 20].map(|rows| (512, Some(rows)))
        );
        assert_eq!(
            rungs(Test::CachedQueries),
            [1, 10, 20, 50, 100].map(|rows| (512, Some(rows)))
        );
    }

    #[test]
    fn other_levels_stand_in_the_place_of_all() {
        let levels = Levels {
            connections: vec![2, 8, 4],
            rows: vec![3],
        };
        assert_eq!(Test::Plaintext.rungs(&levels).len(), 3);
        let only = Rung {
            connections: 8,
            rows: Some(3),
        };
        assert_eq!(Test::Queries.rungs(&levels), [only]);
        assert_eq!(Test::Queries.path(only.rows), "/queries?queries=3");
        assert_eq!(Test::CachedQueries.path(only.rows), "/cached-queries?count=3");
    }

    #[test]
    fn names_are_read_back() {
        for test in Test::ALL {
            assert_eq!(test.name().parse(), Ok(test));
        }
        assert!("dbs".parse::<Test>().unwrap_err().contains("cached-queries"));
    }
}
