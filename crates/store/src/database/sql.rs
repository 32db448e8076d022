//! The statements of a store in a database, and the binary form of their values. Only what `PostgreSQL`, `CockroachDB`
//! and `YugabyteDB` document.

use std::time::Duration;

use bytes::BufMut as _;

/// Records that are read behind a key that is about to be written.
pub(super) const NEXT: u64 = 2;
/// Longest value that is read ahead of its use, in bytes.
const AHEAD_BYTES_MAX: usize = 16_384;

/// Statement texts, with the schema's name.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) create: Vec<String>,
    pub(super) head: String,
    /// Lets a reading transaction stay idle for as long as a snapshot may be read.
    pub(super) idle_max: String,
    /// Waits for the write lock: the row of the state, which each write transaction updates.
    pub(super) lock: String,
    /// Each of these reads records; with `true` the head in the same statement, before key and value.
    pub(super) exact: [String; 2],
    /// The last one in a range: what most reads are.
    pub(super) last: [String; 2],
    pub(super) back: [String; 2],
    pub(super) ahead: [String; 2],
    pub(super) around: [String; 2],
    /// The same for many keys, whose numbers are first in the rows; without long values.
    pub(super) around_many: String,
    pub(super) remove_range: String,
    pub(super) remove: String,
    pub(super) put: String,
    pub(super) log: String,
    pub(super) finish: String,
    pub(super) changes: String,
    pub(super) piece: String,
    pub(super) trim: String,
    pub(super) locks: LockStatements,
}

/// Statements of locks.
#[derive(Debug)]
pub(super) struct LockStatements {
    pub(super) gate: String,
    pub(super) expire: String,
    pub(super) conflicts: String,
    pub(super) hold: String,
    pub(super) release: String,
    pub(super) release_all: String,
    pub(super) extend: String,
}

/// Has `YugabyteDB` keep tables in the order of their keys, in which they are read.
pub(super) const IN_ORDER: &str =
    "select set_config(name, 'off', false) from pg_settings where name = 'yb_use_hash_splitting_by_default'";
/// One state for all statements. `CockroachDB` has `serializable` instead, unless it is told otherwise.
pub(super) const BEGIN_READING: &str = "begin transaction isolation level repeatable read read only";
/// Where the database has a stronger level instead, a transaction that has waited for the write lock conflicts with the
/// one that had it, and is begun again.
pub(super) const BEGIN_WRITING: &str = "begin transaction isolation level read committed";

impl Statements {
    /// `lock_seconds`: how long a lock lasts that its owner does not extend. `reader_age_max`: how long a snapshot may be
    /// read.
    pub(super) fn new(schema: &str, lock_seconds: u64, reader_age_max: Duration) -> Self {
        let short = format!("octet_length(value) <= {AHEAD_BYTES_MAX}");
        let both = |records: String| {
            let with_head = format!(
                "select s.sequence, s.expiring, s.catalogue, e.key, e.value from \"{schema}\".state s \
                 left join lateral ({records}) e on true where s.id = 1"
            );
            [records, with_head]
        };
        let back = |limit: &str, value: &str| {
            format!(
                "select key, {value} as value from \"{schema}\".entries where key < $1 and key >= $2 order by key desc limit {limit}"
            )
        };
        let several = |limit: &str| format!("case when {limit}::bigint = 1 or {short} then value end");
        // The transaction may have waited for long since its `now()`.
        let lease = format!("clock_timestamp() + interval '{lock_seconds} seconds'");
        Self {
            create: vec![
                format!("create schema if not exists \"{schema}\""),
                format!(
                    "create table if not exists \"{schema}\".entries (key bytea primary key, value bytea not null)"
                ),
                format!(
                    "create table if not exists \"{schema}\".changes (sequence bigint not null, part integer not null, \
                     record_bytes bigint not null, log_bytes bigint not null, bytes bytea not null, primary key (sequence, part))"
                ),
                format!(
                    "create table if not exists \"{schema}\".locks (name bigint not null, owner bigint not null, \
                     is_shared boolean not null, until timestamptz not null, primary key (name, owner))"
                ),
                format!(
                    "create table if not exists \"{schema}\".state (id smallint primary key, sequence bigint not null, \
                     expiring boolean not null, catalogue bigint not null, log_bytes bigint not null, format integer not null)"
                ),
                format!(
                    "insert into \"{schema}\".state values (1, 0, false, 0, 0, {format}), (2, 0, false, 0, 0, {format}) \
                     on conflict (id) do nothing",
                    format = super::FORMAT
                ),
            ],
            head: format!(
                "select sequence, expiring, catalogue, format from \"{schema}\".state where id = 1"
            ),
            // At most what the setting can be.
            idle_max: format!(
                "set local idle_in_transaction_session_timeout = {}",
                reader_age_max.as_millis().clamp(1, i32::MAX as u128)
            ),
            lock: format!(
                "select sequence, expiring, catalogue from \"{schema}\".state where id = 1 for update"
            ),
            exact: both(format!(
                "select key, value from \"{schema}\".entries where key = $1"
            )),
            last: both(back("1", "value")),
            back: both(back("$3", &several("$3"))),
            ahead: both(format!(
                "select key, {} as value from \"{schema}\".entries where key >= $1 and key < $2 order by key limit $3",
                several("$3")
            )),
            around: both(format!(
                "({}) union all (select key, case when {short} then value end as value from \"{schema}\".entries \
                 where key >= $1 and key < $3 order by key limit $4)",
                back("1", "value")
            )),
            around_many: format!(
                "select k.number, e.key, e.value from unnest($1::bytea[]) with ordinality as k(at, number) left join lateral (\
                 (select key, case when {short} then value end as value from \"{schema}\".entries \
                 where key < k.at and key >= $2 order by key desc limit 1) union all \
                 (select key, case when {short} then value end as value from \"{schema}\".entries \
                 where key >= k.at and key < $3 order by key limit {NEXT})) e on true"
            ),
            remove_range: format!("delete from \"{schema}\".entries where key >= $1 and key < $2"),
            remove: format!("delete from \"{schema}\".entries where key = any($1::bytea[])"),
            put: format!(
                "insert into \"{schema}\".entries (key, value) select * from unnest($1::bytea[], $2::bytea[]) \
                 on conflict (key) do update set value = excluded.value"
            ),
            log: format!(
                "insert into \"{schema}\".changes (sequence, part, record_bytes, log_bytes, bytes) \
                 select $1::bigint, $2::integer, $3::bigint, log_bytes + $3::bigint, $4::bytea from \"{schema}\".state where id = 1"
            ),
            finish: format!(
                "update \"{schema}\".state set sequence = $1, expiring = $2, catalogue = $3, log_bytes = log_bytes + $4 \
                 where id = 1"
            ),
            changes: format!(
                "select sequence, record_bytes, case when octet_length(bytes) <= {AHEAD_BYTES_MAX} then bytes end \
                 from \"{schema}\".changes where sequence > $1 and sequence <= $2 and part = 0 order by sequence limit $3"
            ),
            piece: format!("select bytes from \"{schema}\".changes where sequence = $1 and part = $2"),
            trim: format!(
                "delete from \"{schema}\".changes where sequence <= (select max(sequence) from \
                 (select sequence, log_bytes from \"{schema}\".changes where part = 0 order by sequence limit 1000) as oldest \
                 where log_bytes <= (select log_bytes from \"{schema}\".state where id = 1) - $1)"
            ),
            locks: LockStatements {
                // A change, so that who has waited for it conflicts, unless the next statement sees what was waited for.
                gate: format!("update \"{schema}\".state set sequence = sequence + 1 where id = 2"),
                expire: format!("delete from \"{schema}\".locks where until < now()"),
                conflicts: format!(
                    "select name from \"{schema}\".locks where owner <> $1::bigint and \
                     (name = any($2::bigint[]) or name = any($3::bigint[]) and not is_shared) limit 1"
                ),
                hold: format!(
                    "insert into \"{schema}\".locks (name, owner, is_shared, until) select name, $1::bigint, $3::boolean, {lease} \
                     from unnest($2::bigint[]) as name on conflict (name, owner) do update \
                     set is_shared = excluded.is_shared, until = excluded.until"
                ),
                release: format!(
                    "delete from \"{schema}\".locks where owner = $1 and name = any($2::bigint[])"
                ),
                release_all: format!("delete from \"{schema}\".locks where owner = $1"),
                extend: format!(
                    "update \"{schema}\".locks set until = {lease} where owner = $1 and name = any($2::bigint[]) \
                     and until >= now() returning name"
                ),
            },
        }
    }
}

/// A `bigint`.
pub(super) fn bigint(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Reads a `bigint` that is never negative.
pub(super) fn number(value: Option<&[u8]>) -> u64 {
    let bytes = value.and_then(|value| value.try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

/// An array of `bytea`.
pub(super) fn bytes_array<'a>(items: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    array(17, items)
}

/// An array of `bigint`.
pub(super) fn bigint_array(items: &[u64]) -> Vec<u8> {
    let items: Vec<[u8; 8]> = items.iter().map(|item| bigint(*item)).collect();
    array(20, items.iter().map(|item| &item[..]))
}

/// The binary form of an array (`array_recv` of PostgreSQL): dimensions, whether there are nulls, type of the elements,
/// their count, the first index, and the elements with their lengths.
fn array<'a>(oid: i32, items: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [i32::from(items.len() > 0), 0, oid] {
        out.put_i32(number);
    }
    if items.len() > 0 {
        out.put_u32(items.len() as u32);
        out.put_i32(1);
    }
    for item in items {
        out.put_u32(item.len() as u32);
        out.extend_from_slice(item);
    }
    out
}
