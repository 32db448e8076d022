//! The cost of 512 simultaneous clients for the database, by its own count.

use std::net::SocketAddr;

use super::Kind;
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
pub(super) fn statements(address: SocketAddr, postgres: &Postgres, kind: Kind) -> Vec<String> {
    let rows = if kind.path().ends_with('=') {
        ROWS.to_string()
    } else {
        String::new()
    };
    let target = format!("{}{rows}", kind.path());
    let problem = |text: String| format!("GET {target}: {text}");
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
            // A request reads each row by a statement, and writes all by one, which finds a row that was drawn twice only once.
            let is_updated = (rows * 100 / 105..=rows).contains(&found.updated);
            let updated = if is_updated { rows } else { found.updated };
            compare(&[
                ("statements", found.calls, rows + CLIENTS),
                ("rows read", found.read, rows),
                ("rows updated", updated, rows),
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
