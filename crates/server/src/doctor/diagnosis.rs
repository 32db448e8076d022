//! Evaluates a database's settings together with ours.

use forebay_pg::PgError;
use serde::Serialize;

use super::{Facts, Ours};

/// Older versions get no more fixes (postgresql.org/support/versioning, November 2026: 14 is the oldest until the 12th).
const VERSION_MIN: u32 = 140_000;
/// PostgreSQL's default for `shared_buffers`.
const SHARED_BUFFERS_DEFAULT: u64 = 128 << 20;
/// Above this, requests mostly wait for the network to the database.
const ROUND_TRIP_US_MAX: u64 = 1000;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The setting or property that was checked.
    pub what: &'static str,
    /// Whether something has to change.
    pub level: Level,
    /// The value found.
    pub found: String,
    /// Why it matters.
    pub why: &'static str,
    /// The suggested change; empty if none is needed.
    pub change: String,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing to change.
    Fine,
    /// It works but could be better.
    Advice,
    /// Requests will fail, or data may be lost or exposed.
    Wrong,
}

fn finding(what: &'static str, why: &'static str, found: String, judged: Option<(Level, String)>) -> Finding {
    let (level, change) = judged.unwrap_or((Level::Fine, String::new()));
    Finding {
        what,
        level,
        found,
        why,
        change,
    }
}

pub(super) fn unreachable(error: &PgError) -> Finding {
    finding(
        "connection",
        "nothing can be said about a database that does not answer",
        error.to_string(),
        Some((
            Level::Wrong,
            "see that it runs, and that `url` has its host, port, user, password and database".into(),
        )),
    )
}

/// A check whose objection is always the same.
fn check(
    what: &'static str,
    why: &'static str,
    found: String,
    is_fine: bool,
    level: Level,
    change: &str,
) -> Finding {
    finding(what, why, found, (!is_fine).then(|| (level, change.to_owned())))
}

/// Runs all checks, in the order of the report.
pub(super) fn judge(facts: &Facts, ours: &Ours) -> Vec<Finding> {
    let statistics = if facts.has_statistics {
        "there"
    } else {
        "not there"
    };
    vec![
        check(
            "version",
            "old versions get no fixes",
            facts.version.clone(),
            facts.version_num >= VERSION_MIN,
            Level::Advice,
            "upgrade to a version that is still maintained",
        ),
        connections(facts, ours),
        pool(ours),
        check(
            "round trip",
            "a statement that needs the result of another waits for one each time",
            format!("{} us for `select 1`, the median", facts.round_trip_us),
            facts.round_trip_us <= ROUND_TRIP_US_MAX,
            Level::Advice,
            "bring the server nearer to its database, or send statements together: pipeline([...])",
        ),
        encryption(facts, ours),
        check(
            "durability",
            "without them a crash of the machine can leave the database damaged, not only without the last commits",
            format!(
                "fsync {}, full_page_writes {}",
                facts.fsync, facts.full_page_writes
            ),
            facts.fsync == "on" && facts.full_page_writes == "on",
            Level::Wrong,
            "set fsync = on and full_page_writes = on",
        ),
        check(
            "synchronous_commit",
            "when off, a commit is answered before it is on the disk: faster, and a crash loses the last ones",
            facts.synchronous_commit.clone(),
            facts.synchronous_commit != "off",
            Level::Advice,
            "set synchronous_commit = on, unless the last commits may be lost",
        ),
        check(
            "wal_level",
            "when minimal, there can be no replica and no backup to a point in time",
            facts.wal_level.clone(),
            facts.wal_level != "minimal",
            Level::Advice,
            "set wal_level = replica, unless this is for measuring or can be made anew",
        ),
        check(
            "shared_buffers",
            "what does not fit there is fetched from the system again and again",
            format!("{} MiB", facts.shared_buffers >> 20),
            facts.shared_buffers > SHARED_BUFFERS_DEFAULT,
            Level::Advice,
            "set shared_buffers to about a quarter of the database machine's memory (manual, 20.4)",
        ),
        check(
            "statement_timeout",
            "the server itself ends a statement that nobody could cancel; Forebay sets it on its connections",
            facts.statement_timeout.clone(),
            facts.statement_timeout != "0",
            Level::Advice,
            "connect without a pooler that drops it, or set it for the role",
        ),
        check(
            "pg_stat_statements",
            "it says which statements take the database's time",
            statistics.to_owned(),
            facts.has_statistics,
            Level::Advice,
            "shared_preload_libraries = 'pg_stat_statements', a restart, then `create extension pg_stat_statements`",
        ),
    ]
}

fn connections(facts: &Facts, ours: &Ours) -> Finding {
    let needed = ours.connections_max * ours.servers;
    let room = facts
        .max_connections
        .saturating_sub(facts.superuser_reserved + facts.reserved) as usize;
    let found = format!(
        "max_connections {} less {} reserved; {} open now; ours: {} a server, {} servers",
        facts.max_connections,
        facts.superuser_reserved + facts.reserved,
        facts.connections,
        ours.connections_max,
        ours.servers
    );
    let others = (facts.connections as usize).saturating_sub(1);
    let judged = if needed > room {
        let fits = (room / ours.servers).max(1);
        Some((
            Level::Wrong,
            format!(
                "lower `connections_max` to {fits}, or raise max_connections to {} and restart PostgreSQL",
                needed + facts.max_connections as usize - room
            ),
        ))
    } else if needed + others > room {
        Some((
            Level::Advice,
            format!(
                "{others} are open already, perhaps of a server that runs; if they are of others, not all of ours find room"
            ),
        ))
    } else {
        None
    };
    finding(
        "connections",
        "a connection beyond max_connections is refused, and its requests are answered 503",
        found,
        judged,
    )
}

fn pool(ours: &Ours) -> Finding {
    let (driver, wanted) = if ours.is_pipelined {
        ("async", ours.threads + 1)
    } else {
        ("blocking", 2)
    };
    let found = format!(
        "connections_max {} with driver \"{driver}\", {} threads",
        ours.connections_max, ours.threads
    );
    let judged = (ours.connections_max < wanted)
        .then(|| (Level::Advice, format!("raise `connections_max` to {wanted}")));
    finding(
        "pool",
        if ours.is_pipelined {
            "each thread has a connection of its own that many statements share; transactions and streams need others"
        } else {
            "each statement has a connection to itself while it runs; others wait for one"
        },
        found,
        judged,
    )
}

fn encryption(facts: &Facts, ours: &Ours) -> Finding {
    let judged = (!facts.is_encrypted && !ours.is_local).then(|| {
        let first = if facts.ssl == "on" {
            ""
        } else {
            "set ssl = on with a certificate, and "
        };
        (Level::Wrong, format!("{first}take sslmode=disable out of `url`"))
    });
    let found = match (facts.is_encrypted, ours.is_local) {
        (true, _) => "encrypted",
        (false, true) => "not encrypted, on this machine",
        (false, false) => "not encrypted",
    };
    finding(
        "encryption",
        "what goes over a network in the clear can be read and changed on its way",
        found.into(),
        judged,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> (Facts, Ours) {
        let facts = Facts {
            version: "17.2".into(),
            version_num: 170_002,
            max_connections: 100,
            superuser_reserved: 3,
            shared_buffers: 1 << 30,
            synchronous_commit: "on".into(),
            wal_level: "replica".into(),
            fsync: "on".into(),
            full_page_writes: "on".into(),
            ssl: "on".into(),
            statement_timeout: "11s".into(),
            is_encrypted: true,
            connections: 1,
            has_statistics: true,
            round_trip_us: 80,
            ..Facts::default()
        };
        let ours = Ours {
            connections_max: 16,
            threads: 4,
            servers: 2,
            is_pipelined: true,
            is_local: false,
        };
        (facts, ours)
    }

    /// The findings that are not fine after a change.
    fn found(change: impl FnOnce(&mut Facts, &mut Ours)) -> Vec<(&'static str, Level, String)> {
        let (mut facts, mut ours) = well();
        change(&mut facts, &mut ours);
        let findings = judge(&facts, &ours).into_iter();
        findings
            .filter(|finding| finding.level != Level::Fine)
            .map(|finding| (finding.what, finding.level, finding.change))
            .collect()
    }

    #[test]
    fn a_database_that_fits_is_fine() {
        assert_eq!(found(|_, _| {}), []);
        assert_eq!(
            found(|facts, ours| (facts.is_encrypted, ours.is_local) = (false, true)),
            []
        );
    }

    #[test]
    fn each_wrong_setting_is_found_and_no_other() {
        let of = |change: fn(&mut Facts, &mut Ours)| {
            let found = found(change);
            assert_eq!(found.len(), 1, "{found:?}");
            (found[0].0, found[0].1)
        };
        assert_eq!(
            of(|facts, _| facts.version_num = 130_000),
            ("version", Level::Advice)
        );
        assert_eq!(of(|_, ours| ours.servers = 7), ("connections", Level::Wrong));
        assert_eq!(
            of(|facts, _| facts.connections = 80),
            ("connections", Level::Advice)
        );
        assert_eq!(of(|_, ours| ours.connections_max = 4), ("pool", Level::Advice));
        assert_eq!(
            of(|facts, _| facts.round_trip_us = 1001),
            ("round trip", Level::Advice)
        );
        assert_eq!(
            of(|facts, _| facts.is_encrypted = false),
            ("encryption", Level::Wrong)
        );
        assert_eq!(
            of(|facts, _| facts.fsync = "off".into()),
            ("durability", Level::Wrong)
        );
        assert_eq!(
            of(|facts, _| facts.synchronous_commit = "off".into()),
            ("synchronous_commit", Level::Advice)
        );
        assert_eq!(
            of(|facts, _| facts.wal_level = "minimal".into()),
            ("wal_level", Level::Advice)
        );
        assert_eq!(
            of(|facts, _| facts.shared_buffers = 128 << 20),
            ("shared_buffers", Level::Advice)
        );
        assert_eq!(
            of(|facts, _| facts.statement_timeout = "0".into()),
            ("statement_timeout", Level::Advice)
        );
        assert_eq!(
            of(|facts, _| facts.has_statistics = false),
            ("pg_stat_statements", Level::Advice)
        );
    }

    #[test]
    fn too_many_connections_come_with_numbers_that_fit() {
        let found = found(|_, ours| ours.servers = 10);
        assert_eq!(
            found[0].2,
            "lower `connections_max` to 9, or raise max_connections to 163 and restart PostgreSQL"
        );
    }
}
