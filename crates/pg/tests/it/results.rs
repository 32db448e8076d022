//! Conversion of values.

use forebay_pg::json::{Numbers, Writer};
use forebay_testkit::Postgres;

use crate::rig::{BOTH, query, run, source};

/// Values of all types, as expressions.
const VALUES: [&str; 46] = [
    "true",
    "false",
    "32767::int2",
    "-2147483648",
    "9223372036854775807",
    "1.5::float4",
    "0.1::float8 + 0.2::float8",
    "1e300::float8",
    "'NaN'::float8",
    "'-Infinity'::float4",
    "123456789012345678901234567890.123456789012345678901234567890",
    "-0.000000000000000000000000000000000000000000001",
    "'NaN'::numeric",
    "repeat('9', 5000)::numeric",
    "''::text",
    "'日本語 \u{1F98A} \" \\ / ' || chr(10) || chr(1) || chr(127)",
    "'a'::char(5)",
    "'x'::\"char\"",
    "'\\x00ff10'::bytea",
    "''::bytea",
    "'6f9619ff-8b86-d011-b42d-00c04fc964ff'::uuid",
    "'2020-02-29'::date",
    "'infinity'::date",
    "'0044-03-15 BC'::date",
    "'10:20:30.123456'::time",
    "'10:20:30+05:30'::timetz",
    "'2020-01-31 10:20:30.5'::timestamp",
    "'infinity'::timestamp",
    "'2020-01-31 10:20:30.5+02'::timestamptz",
    "'1 year 2 days 03:04:05'::interval",
    "array[1, null, 3]",
    "array[[1, 2], [3, 4]]::int8[]",
    "array[[['a', 'b \"c\"'], ['NULL', null]]]",
    "'{}'::text[]",
    "'[0:1]={1,2}'::int[]",
    "array[1.50, 'NaN']::numeric[]",
    "array['2020-01-31 10:20:30'::timestamp, null]",
    "array[true, false]",
    "array['\\x00'::bytea]",
    "'{\"a\": [1, 2.50, null]}'::json",
    "'{\"b\": 1, \"a\": {}}'::jsonb",
    "null::int",
    "null::text[]",
    "'(1,2)'::point",
    "'10.0.0.0/8'::cidr",
    "'[1,5)'::int4range",
];

#[test]
fn both_drivers_give_the_same_bytes_and_the_json_that_the_server_would_write() {
    let postgres = Postgres::shared();
    run(async {
        let [pipelined, blocking] = BOTH.map(|driver| source(postgres, driver));
        for value in VALUES {
            let text = format!("select v, v::text, to_json(v) from (select {value}) as _(v)");
            let one = query(&pipelined, &text, &[]).await.unwrap();
            let other = query(&blocking, &text, &[]).await.unwrap();
            assert_eq!(one.columns, other.columns, "{value}");
            for at in 0..3 {
                assert_eq!(one.rows[0].text(at), other.rows[0].text(at), "{value}");
            }
            let row = &one.rows[0];
            if !value.contains("char(5)") && !value.starts_with("true") && !value.starts_with("false") {
                assert_eq!(row.text(0), row.text(1), "{value}");
            }
            let mut written = Vec::new();
            Writer::of(one.columns[0].oid).write(row.text(0), Numbers::Exact, &mut written);
            let model = row.text(2).unwrap_or(b"null");
            assert_eq!(
                String::from_utf8_lossy(&written),
                String::from_utf8_lossy(model),
                "{value}"
            );
        }
    });
}

#[test]
fn parameters_arrive_as_they_were_given() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            let injected = "'; drop table world; --";
            for parameter in [Some(""), Some(injected), Some("日本語 \u{1F98A}"), None] {
                let rows = query(&source, "select $1::text", &[parameter]).await.unwrap();
                assert_eq!(rows.rows[0].text(0), parameter.map(str::as_bytes));
            }
            let rows = query(&source, "select count(*) from world", &[]).await.unwrap();
            assert_eq!(rows.rows[0].text(0), Some(&b"10000"[..]));
        }
    });
}

#[test]
fn how_many_rows_are_changed_or_given_is_told() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            for (text, affected) in [
                ("select generate_series(1, 3)", 3),
                ("update world set randomnumber = randomnumber where id <= 5", 5),
                ("delete from world where id < 0", 0),
                ("", 0),
            ] {
                let rows = query(&source, text, &[]).await.unwrap();
                assert_eq!(rows.affected, affected, "{text}");
            }
        }
    });
}
