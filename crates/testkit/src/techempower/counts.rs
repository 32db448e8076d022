//! The cost of 512 simultaneous clients for the database, by its own count.

use std::net::SocketAddr;

use super::{Check, Kind, Problem};
use crate::{Client, Postgres, wait_until};

/// Number of clients that send a request at the same time, each once.
const CLIENTS: u64 = 512;
/// Number of rows that each requests.
const ROWS: u64 = 20;
/// Rows of the table `fortune`.
const FORTUNES: u64 = 12;

/// Cost of the statements on a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    calls: u64,
    read: u64,
    updated: u64,
}

/// Has all clients send a request, and compares the cost with the expected one. Where PostgreSQL cannot count, only the responses are
/// checked.
pub(super) fn statements(address: SocketAddr, postgres: &Postgres, kind: Kind) -> Vec<Problem> {
    let rows = if kind.path().ends_with('=') {
        ROWS.to_string()
    } else {
        String::new()
    };
    let target = format!("{}{rows}", kind.path());
    let problem = |text: String| Problem {
        check: Check::Statements,
        target: target.clone(),
        text,
    };
    let table = if kind == Kind::Fortunes {
        "fortune"
    } else {
        "world"
    };
    let before = cost(postgres, table);
    let failed = ask_all(address, &target);
    if let Some(status) = failed.first() {
        let text = format!(
            "{} of {CLIENTS} clients got no 200, the first {status}",
            failed.len()
        );
        return vec![problem(text)];
    }
    let (Some(before), Some(after)) = (before, cost(postgres, table)) else {
        return Vec::new();
    };
    let found = Cost {
        calls: after.calls - before.calls,
        read: after.read - before.read,
        updated: after.updated - before.updated,
    };
    faults(kind, found).into_iter().map(problem).collect()
}

/// Opens all connections, then sends on all of them, then reads all responses; returns the statuses other than 200.
fn ask_all(address: SocketAddr, target: &str) -> Vec<u16> {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::tcp(address)).collect();
    for client in &mut clients {
        client.request("GET", target);
    }
    let statuses = clients.iter_mut().map(|client| client.response().status);
    statuses.filter(|status| *status != 200).collect()
}

/// The cost of the benchmarks' user so far, once none of its statements runs.
fn cost(postgres: &Postgres, table: &str) -> Option<Cost> {
    let mut admin = postgres.admin();
    let counts = "select 1 from pg_extension where extname = 'pg_stat_statements'";
    admin.query_opt(counts, &[]).expect("an administrator may ask")?;
    let active =
        "select 1 from pg_stat_activity where usename = 'benchmarkdbuser' and state <> 'idle' limit 1";
    wait_until("the statements of all clients to end", || {
        admin
            .query_opt(active, &[])
            .expect("an administrator may ask")
            .is_none()
    });
    let row = admin.query_one(
        "select coalesce(sum(calls), 0)::int8, coalesce(sum(rows) filter (where query ~* 'select'), 0)::int8, \
         coalesce(sum(rows) filter (where query ~* 'update'), 0)::int8 \
         from pg_stat_statements join pg_roles on pg_roles.oid = userid \
         where rolname = 'benchmarkdbuser' and query ~* ('\\m' || $1 || '\\M')",
        &[&table],
    );
    let row = row.expect("an administrator may ask");
    let count = |column| row.get::<_, i64>(column).cast_unsigned();
    Some(Cost {
        calls: count(0),
        read: count(1),
        updated: count(2),
    })
}

/// Deviations from the expected cost of one kind.
fn faults(kind: Kind, found: Cost) -> Vec<String> {
    let rows = CLIENTS * ROWS;
    match kind {
        // A cache may query the database or not.
        Kind::Json | Kind::Plaintext | Kind::CachedQueries => Vec::new(),
        Kind::Db => compare(&[
            ("statements", found.calls, CLIENTS),
            ("rows read", found.read, CLIENTS),
        ]),
        Kind::Queries | Kind::Queries2 => {
            compare(&[("statements", found.calls, rows), ("rows read", found.read, rows)])
        }
        Kind::Fortunes => compare(&[
            ("statements", found.calls, CLIENTS),
            ("rows read", found.read, CLIENTS * FORTUNES),
        ]),
        Kind::Updates => {
            // The writes of a request are one statement each, or one for all, which finds a row that was drawn twice only once.
            let bulk = rows + CLIENTS;
            let is_bulk = found.calls.abs_diff(bulk) * 1_000 < bulk;
            let calls = if is_bulk { bulk } else { 2 * rows };
            let least_updated = if is_bulk { rows * 100 / 105 } else { rows };
            let calls_found = if is_bulk { bulk } else { found.calls };
            let updated_found = if (least_updated..=rows).contains(&found.updated) {
                rows
            } else {
                found.updated
            };
            compare(&[
                ("statements", calls_found, calls),
                ("rows read", found.read, rows),
                ("rows updated", updated_found, rows),
            ])
        }
    }
}

/// Names figures that are lower than expected, or higher by over a twentieth: something may be retried.
fn compare(figures: &[(&str, u64, u64)]) -> Vec<String> {
    let wrong = figures
        .iter()
        .filter(|(_, found, expected)| !(*expected..=expected * 105 / 100).contains(found));
    wrong
        .map(|(what, found, expected)| format!("{found} {what} instead of {expected}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Cost, faults};
    use crate::techempower::Kind;

    fn cost(calls: u64, read: u64, updated: u64) -> Cost {
        Cost { calls, read, updated }
    }

    #[test]
    fn each_kind_has_its_cost() {
        for (kind, right) in [
            (Kind::Json, cost(0, 0, 0)),
            (Kind::Db, cost(512, 512, 0)),
            (Kind::Queries, cost(10_240, 10_240, 0)),
            (Kind::Queries2, cost(10_700, 10_700, 0)),
            (Kind::Fortunes, cost(512, 6_144, 0)),
            (Kind::Updates, cost(20_480, 10_240, 10_240)),
            (Kind::Updates, cost(10_752, 10_240, 10_200)),
            (Kind::Updates, cost(10_760, 10_240, 10_240)),
            (Kind::CachedQueries, cost(0, 0, 0)),
        ] {
            assert_eq!(faults(kind, right), Vec::<String>::new(), "{kind:?} {right:?}");
        }
    }

    #[test]
    fn less_and_much_more_is_wrong() {
        for (kind, wrong, told) in [
            (Kind::Db, cost(511, 512, 0), "511 statements instead of 512"),
            (Kind::Db, cost(512, 600, 0), "600 rows read instead of 512"),
            (
                Kind::Queries,
                cost(512, 10_240, 0),
                "512 statements instead of 10240",
            ),
            (Kind::Fortunes, cost(512, 512, 0), "512 rows read instead of 6144"),
            (
                Kind::Updates,
                cost(10_752, 10_240, 512),
                "512 rows updated instead of 10240",
            ),
            (
                Kind::Updates,
                cost(11_264, 20_480, 10_240),
                "11264 statements instead of 20480",
            ),
            (
                Kind::Updates,
                cost(10_752, 20_480, 10_240),
                "20480 rows read instead of 10240",
            ),
            (
                Kind::Updates,
                cost(20_480, 10_240, 10_200),
                "10200 rows updated instead of 10240",
            ),
        ] {
            assert_eq!(faults(kind, wrong)[0], told);
        }
    }
}
