//! Suites of rungs and peers, read from `ladder.toml`, `sql.toml` and `seeds/`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The suites of this version.
const LADDER: &str = include_str!("ladder.toml");
const SQL: &str = include_str!("sql.toml");
const SCALING: &str = include_str!("scaling.toml");
const SEEDS: [(&str, &str); 5] = [
    ("qoper8", include_str!("seeds/qoper8.toml")),
    ("mgweb", include_str!("seeds/mgweb.toml")),
    ("wabur", include_str!("seeds/wabur.toml")),
    ("rengine", include_str!("seeds/rengine.toml")),
    ("pgasync", include_str!("seeds/pgasync.toml")),
];

/// Rungs and peers in the order in which they are shown.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The words behind `forebay bench` that measure it.
    pub name: String,
    /// The folder of the configuration that rungs add to, among the examples and the ladder's own files.
    pub site: String,
    /// Variables of the server's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Routes of a server of this version.
    #[serde(rename = "rung", default)]
    pub rungs: Vec<Entry>,
    /// Other programs.
    #[serde(rename = "peer", default)]
    pub peers: Vec<Entry>,
    /// Programs whose versions belong to the figures.
    #[serde(rename = "program", default)]
    pub programs: Vec<Program>,
    /// Figures that others have published.
    #[serde(rename = "table", default)]
    pub tables: Vec<Table>,
    /// Rungs that do the same with more and more of something.
    #[serde(rename = "curve", default)]
    pub curves: Vec<Curve>,
}

/// Rungs that do the same with more and more of something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The amount, in the plural.
    pub title: String,
    /// How much of it, in ascending order.
    pub values: Vec<u64>,
    /// The exponent by which the work of a request grows with the value: 0 not at all, 1 in proportion.
    pub work: f64,
    /// Why the cost is as it is.
    pub why: String,
    /// The [`Entry`] of each value, which stands for `{n}`, as TOML.
    pub rung: String,
    /// Sections of `forebay.toml` that its rungs share.
    #[serde(default)]
    pub config: String,
    /// The rung's name for each value.
    #[serde(skip)]
    pub names: Vec<String>,
}

/// A program whose version belongs to the figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name in reports.
    pub name: String,
    /// Whether only peers use it.
    #[serde(default)]
    pub is_peer: bool,
    /// The command that prints its version.
    pub version: Vec<String>,
}

impl Program {
    /// The first number with a dot in what the command prints.
    pub(super) fn find(printed: &str) -> Option<String> {
        let is_part =
            |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-' || letter == '+';
        let words = printed.split(|letter: char| !is_part(letter));
        let words = words.map(|word| word.trim_start_matches('v').trim_end_matches('.'));
        let is_version =
            |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit()) && word.contains('.');
        words.into_iter().find(is_version).map(ToOwned::to_owned)
    }
}

/// A table of a document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The heading, with the command that was measured.
    pub title: String,
    /// Its rows, in the document's order.
    pub rows: Vec<Published>,
}

/// A row of a document's table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Its name, unique in its table.
    pub row: String,
    /// The rung that does the same here.
    pub rung: String,
    /// Requests a second, or messages.
    pub per_second: f64,
    /// Mean latency in milliseconds.
    #[serde(default)]
    pub mean_ms: Option<f64>,
    /// Requests without a right response.
    #[serde(default)]
    pub failed: Option<u64>,
    /// The row of this table that is its baseline.
    #[serde(default)]
    pub of: Option<String>,
    /// Whether the figures were a goal, and not measured.
    #[serde(default)]
    pub goal: bool,
}

/// A way of answering requests: a route, or another program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name in tables.
    pub name: String,
    /// The entry that it is compared with: the rung below a rung, the rung beside a peer.
    #[serde(default)]
    pub base: Option<String>,
    /// Ratios that it must reach.
    #[serde(default)]
    pub bars: Vec<Bar>,
    /// Its number of connections, where that is not for the command line to say.
    #[serde(default)]
    pub connections: Option<usize>,
    /// Whether its connections carry more than one request, where that is not for the command line to say.
    #[serde(default)]
    pub keep_alive: Option<bool>,
    /// Requests of a slice, where its length is not for the command line to say.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Whether it is asked over TLS, whatever certificate it has.
    #[serde(default)]
    pub tls: bool,
    /// Path and query of the request.
    #[serde(default)]
    pub path: String,
    /// Header fields of the request, by name.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// JSON to POST; a GET without it.
    #[serde(default)]
    pub body: Option<String>,
    /// The status of a right response.
    #[serde(default = "ok")]
    pub status: u16,
    /// The body of a right response.
    #[serde(default)]
    pub answer: Option<String>,
    /// A text in the body of a right response.
    #[serde(default)]
    pub answer_has: Option<String>,
    /// Requirements: `node`, `bun`, `python`, `pg` (an address of PostgreSQL), a program of `PATH`, or a path.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether its figures depend on a disk.
    #[serde(default)]
    pub durable: bool,
    /// Sections of `forebay.toml` that a rung adds.
    #[serde(default)]
    pub config: String,
    /// The command line of a peer, or of a rung with a server of its own.
    #[serde(default)]
    pub command: Vec<String>,
    /// Commands that prepare what `command` needs.
    #[serde(default)]
    pub before: Vec<Vec<String>>,
    /// A command that removes what `before` has made outside of the entry's folder.
    #[serde(default)]
    pub after: Vec<String>,
    /// The peer whose process serves this one, too.
    #[serde(default)]
    pub served_by: Option<String>,
    /// Variables of a peer's environment beside `PATH`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files in the folder of a server of its own, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The command that installs a peer.
    #[serde(default)]
    pub install: String,
    /// How a peer that does not speak HTTP is measured.
    #[serde(default)]
    pub measure: Option<Measure>,
}

/// A ratio that an entry must reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// The entry that it is compared with.
    pub of: String,
    /// Which ratio, and its limit.
    #[serde(flatten)]
    pub limit: Limit,
}

/// The limit of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The least ratio of requests a second.
    AtLeast(f64),
    /// The highest ratio of CPU time for each request.
    CpuAtMost(f64),
}

impl Limit {
    /// Whether a ratio is within the limit.
    pub fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::CpuAtMost(most) => ratio <= most,
        }
    }
}

/// A program that loads an entry and prints figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The command that loads it; `{connections}`, `{seconds}` and `{requests}` say how much.
    pub command: Vec<String>,
    /// Where the rate stands in its output.
    pub requests_per_second: Figure,
    /// Where the median latency stands.
    #[serde(default)]
    pub p50_ms: Option<Figure>,
    /// Where the 99th percentile of latency stands.
    #[serde(default)]
    pub p99_ms: Option<Figure>,
}

/// Where a figure stands in a program's output: the `nth` number behind a text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The text before it.
    pub after: String,
    /// Which number behind the text, from 1.
    #[serde(default = "first")]
    pub nth: usize,
}

fn ok() -> u16 {
    200
}

fn first() -> usize {
    1
}

impl Figure {
    /// Finds the figure in a program's output.
    pub(super) fn find(&self, output: &str) -> Option<f64> {
        let (_, behind) = output.split_once(&self.after)?;
        let numbers = behind.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
        numbers
            .filter_map(|text| text.trim_end_matches('.').parse().ok())
            .nth(self.nth - 1)
    }
}

impl Suite {
    /// Every way of answering a request.
    pub fn ladder() -> Self {
        Self::read(LADDER)
    }

    /// The routes of the TechEmpower benchmarks on PostgreSQL.
    pub fn sql() -> Self {
        Self::read(SQL)
    }

    /// Ways of answering with more and more of something.
    pub fn scaling() -> Self {
        Self::read(SCALING)
    }

    /// Reads a suite of this version, and writes its curves out.
    fn read(text: &str) -> Self {
        let mut suite: Self = toml_edit::de::from_str(text).expect("a test reads it");
        for curve in &mut suite.curves {
            for (at, value) in curve.values.iter().enumerate() {
                let text = curve.rung.replace("{n}", &value.to_string());
                let mut rung: Entry = toml_edit::de::from_str(&text).expect("a test reads it");
                if at == 0 {
                    rung.config.push_str(&curve.config);
                }
                curve.names.push(rung.name.clone());
                suite.rungs.push(rung);
            }
        }
        suite
    }

    /// The tables of a document of [`Self::seeds`].
    pub fn seed(name: &str) -> Option<Self> {
        let (_, text) = SEEDS.iter().find(|(known, _)| *known == name)?;
        Some(Self::read(text))
    }

    /// Names of the documents whose tables can be measured again.
    pub fn seeds() -> impl Iterator<Item = &'static str> {
        SEEDS.iter().map(|(name, _)| *name)
    }

    /// All entries: rungs, then peers.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.rungs.iter().chain(&self.peers)
    }

    /// The named entries and those that they are compared with; all for no names. Fails with the first name that no entry has.
    pub fn chosen(&self, names: &[String]) -> Result<BTreeSet<&str>, String> {
        if names.is_empty() {
            return Ok(self.entries().map(|entry| entry.name.as_str()).collect());
        }
        let mut chosen = BTreeSet::new();
        for name in names {
            let entry = self.entries().find(|entry| entry.name == *name);
            let entry = entry.ok_or_else(|| name.clone())?;
            chosen.insert(entry.name.as_str());
            chosen.extend(entry.base.as_deref());
            chosen.extend(entry.bars.iter().map(|bar| bar.of.as_str()));
        }
        let servers = self
            .entries()
            .filter(|entry| chosen.contains(entry.name.as_str()));
        let servers: Vec<&str> = servers.filter_map(|entry| entry.served_by.as_deref()).collect();
        chosen.extend(servers);
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_names_others_that_exist_and_its_request_is_complete() {
        for suite in [Suite::ladder(), Suite::sql(), Suite::scaling()]
            .into_iter()
            .chain(Suite::seeds().filter_map(Suite::seed))
        {
            is_complete(&suite);
        }
    }

    fn is_complete(suite: &Suite) {
        let names: BTreeSet<&str> = suite.entries().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), suite.entries().count(), "names are unique");
        for entry in suite.entries() {
            let others = entry
                .bars
                .iter()
                .map(|bar| &bar.of)
                .chain(&entry.base)
                .chain(&entry.served_by);
            for other in others {
                assert!(names.contains(other.as_str()), "{}: {other}", entry.name);
            }
            let checked = entry.answer.is_some() || entry.answer_has.is_some();
            assert!(
                entry.measure.is_some() || (entry.path.starts_with('/') && checked),
                "{}",
                entry.name
            );
        }
        let is_compared = |entry: &Entry| entry.base.is_some() || entry.name == suite.rungs[0].name;
        assert!(!suite.tables.is_empty() || !suite.curves.is_empty() || suite.entries().all(is_compared));
        for table in &suite.tables {
            for row in &table.rows {
                assert!(names.contains(row.rung.as_str()), "{}: {}", row.row, row.rung);
                let of = row.of.as_ref();
                let baseline = of.map(|of| table.rows.iter().filter(|other| other.row == *of).count());
                assert!(baseline.is_none_or(|count| count == 1), "{}", row.row);
            }
        }
        let shared = |peer: &&Entry| peer.served_by.is_none();
        assert!(
            suite
                .peers
                .iter()
                .filter(shared)
                .all(|peer| !peer.install.is_empty())
        );
        for peer in suite.peers.iter().filter_map(|peer| peer.served_by.as_ref()) {
            assert!(
                suite
                    .peers
                    .iter()
                    .any(|other| other.name == *peer && !other.command.is_empty()),
                "{peer}"
            );
        }
    }

    #[test]
    fn every_row_that_the_documents_have_published_is_there() {
        let rows = |name| -> Vec<usize> {
            let suite = Suite::seed(name).unwrap();
            suite.tables.iter().map(|table| table.rows.len()).collect()
        };
        assert_eq!(rows("qoper8"), [4, 12, 5]);
        assert_eq!(rows("mgweb"), [4]);
        assert_eq!(rows("wabur"), [6, 5]);
        assert_eq!(rows("rengine"), [9, 9]);
        assert_eq!(rows("pgasync"), [9]);
    }

    #[test]
    fn an_entry_is_chosen_with_what_it_is_compared_with() {
        let suite = Suite::ladder();
        let chosen = suite.chosen(&["pool, Bun".to_owned()]).unwrap();
        assert_eq!(chosen, BTreeSet::from(["Bun.serve", "pool, Bun", "respond"]));
        assert_eq!(suite.chosen(&["pool".to_owned()]), Err("pool".to_owned()));
        assert_eq!(suite.chosen(&[]).unwrap().len(), suite.entries().count());
    }

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let find = |printed| Program::find(printed).unwrap_or_default();
        assert_eq!(find("nginx version: nginx/1.22.1\n"), "1.22.1");
        assert_eq!(find("v22.15.0\n"), "22.15.0");
        assert_eq!(
            find("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0"),
            "7.0.15"
        );
        assert_eq!(find("openjdk version \"17.0.19\" 2026-04-21"), "17.0.19");
        assert_eq!(find("unknown"), "");
    }

    #[test]
    fn figures_are_found_in_what_programs_print() {
        let printed = "throughput summary: 143266.47 requests per second\n  latency summary (msec):\n    avg  min  p50\n  0.223  0.080  0.215\n";
        let find = |after: &str, nth| {
            Figure {
                after: after.to_owned(),
                nth,
            }
            .find(printed)
        };
        assert_eq!(find("throughput summary:", 1), Some(143_266.47));
        assert_eq!(find("min  p50", 3), Some(0.215));
        assert_eq!((find("tps =", 1), find("throughput", 9)), (None, None));
    }
}
