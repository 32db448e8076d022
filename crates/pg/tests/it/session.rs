//! Database operations of handlers.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use forebay_pg::{Source, SqlSession};
use forebay_testkit::Postgres;
use serde_json::{Value, json};

use crate::rig::{BOTH, PATIENCE, becomes, query, run, settings, value};

pub(crate) fn session_of(source: &Source) -> SqlSession {
    SqlSession::new(Arc::new(BTreeMap::from([("main".to_owned(), source.clone())])))
}

pub(crate) async fn call(session: &SqlSession, operation: Value) -> Value {
    let outcome = session
        .call(operation.to_string().as_bytes(), Instant::now() + PATIENCE)
        .await;
    serde_json::from_slice(&outcome).unwrap()
}

#[test]
fn each_statement_has_an_outcome_of_its_own() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = Source::new("main", settings(&postgres.url(), driver), 1);
            let session = session_of(&source);
            let statements = json!({
                "op": "statements",
                "source": "main",
                "statements": [["select $1::int as a, $2 as b", ["1", null]], ["select 1/0", []], ["select 'x' where false", []]],
            });
            let outcome = call(&session, statements).await;
            assert_eq!(outcome[0], json!({"rows": [{"a": 1, "b": null}], "count": 1}));
            assert_eq!(
                outcome[1],
                json!({"error": {"message": "division by zero", "code": "22012", "database": "main"}})
            );
            assert_eq!(outcome[2], json!({"rows": [], "count": 0}));
        }
    });
}

#[test]
fn an_operation_that_is_none_is_told_what_is_wrong_with_it() {
    run(async {
        let settings = settings("postgres://nobody@127.0.0.1:1/none", BOTH[0]);
        let session = session_of(&Source::new("main", settings, 1));
        for (operation, code, message) in [
            (
                "{\"op\":\"statements\",\"source\":\"other\",\"statements\":[]}",
                "not_allowed",
                "database `other` may not be reached: its `allow` names main",
            ),
            (
                "{\"op\":\"fly\",\"wings\":2}",
                "unknown_operation",
                "there is no operation `fly` on databases",
            ),
            (
                "{\"op\":\"statements\",\"source\":\"main\"}",
                "malformed",
                "missing field `statements`",
            ),
            (
                "{\"op\":\"statements\",\"source\":\"main\",\"statements\":[[1]]}",
                "malformed",
                "invalid type: integer `1`, expected a string at line 1 column 51",
            ),
            (
                "{\"op\":\"statements\",\"source\":\"main\",\"statements\":[],\"x\":1}",
                "malformed",
                "unknown field `x`",
            ),
            ("[", "malformed", "cannot be read"),
            ("", "malformed", "cannot be read"),
            ("\u{ff}", "malformed", "cannot be read"),
        ] {
            let outcome = session
                .call(operation.as_bytes(), Instant::now() + PATIENCE)
                .await;
            let outcome: Value = serde_json::from_slice(&outcome).unwrap();
            let error = &outcome["error"];
            assert_eq!(error["code"], code, "{operation}: {outcome}");
            assert!(
                error["message"].as_str().unwrap().contains(message),
                "{operation}: {outcome}"
            );
        }
    });
}

fn table(postgres: &Postgres, name: &str) {
    let make = format!(
        "drop table if exists {name}; create table {name} (id int primary key, note text); grant all on {name} to public"
    );
    postgres.admin().batch_execute(&make).unwrap();
}

/// Runs statements of a transaction; returns their outcomes.
async fn within(session: &SqlSession, transaction: &Value, statements: Value) -> Value {
    let operation =
        json!({"op": "statements", "source": "main", "transaction": transaction, "statements": statements});
    call(session, operation).await
}

async fn begin(session: &SqlSession) -> Value {
    call(session, json!({"op": "begin", "source": "main"})).await["transaction"].clone()
}

/// Runs an operation on a transaction.
async fn about(session: &SqlSession, op: &str, transaction: &Value) -> Value {
    call(
        session,
        json!({"op": op, "source": "main", "transaction": transaction}),
    )
    .await
}

#[test]
fn a_transaction_is_committed_rolled_back_and_ended_with_the_session() {
    let postgres = Postgres::shared();
    table(postgres, "session_marks");
    run(async {
        for driver in BOTH {
            let source = Source::new("main", settings(&postgres.url(), driver), 1);
            let session = session_of(&source);
            let marks = "select coalesce(string_agg(id::text, ' ' order by id), '') from session_marks";
            let insert = |id: u32| json!(["insert into session_marks values ($1::int)", [id.to_string()]]);
            query(&source, "delete from session_marks", &[]).await.unwrap();

            let kept = begin(&session).await;
            let outcomes = within(&session, &kept, json!([insert(1), insert(2), insert(3)])).await;
            assert_eq!(outcomes[2], json!({"rows": [], "count": 1}), "{driver:?}");
            let savepoint = about(&session, "savepoint", &kept).await;
            let again = within(&session, &kept, json!([insert(4), insert(1), insert(5)])).await;
            assert_eq!(
                (
                    &again[0]["count"],
                    &again[1]["error"]["code"],
                    &again[2]["error"]["code"]
                ),
                (&json!(1), &json!("23505"), &json!("25P02"))
            );
            let back = json!({"op": "rollback_to", "source": "main", "transaction": kept, "savepoint": savepoint["savepoint"]});
            assert_eq!(call(&session, back.clone()).await, json!({}));
            assert_eq!(call(&session, back).await["error"]["code"], "no_savepoint");
            within(&session, &kept, json!([insert(6)])).await;
            assert_eq!(value(&source, marks, &[]).await, "");
            assert_eq!(about(&session, "commit", &kept).await, json!({}));
            assert_eq!(value(&source, marks, &[]).await, "1 2 3 6");
            assert_eq!(
                about(&session, "commit", &kept).await["error"]["code"],
                "not_open"
            );

            let undone = begin(&session).await;
            within(&session, &undone, json!([insert(7)])).await;
            assert_eq!(about(&session, "rollback", &undone).await, json!({}));
            let left = begin(&session).await;
            within(&session, &left, json!([insert(8)])).await;
            drop(session);
            let open = "select count(*) from pg_stat_activity where query like '%session_marks values%' and state like 'idle in%'";
            becomes(&source, open, "0").await;
            assert_eq!(value(&source, marks, &[]).await, "1 2 3 6");
        }
    });
}

#[test]
fn what_is_asked_of_a_transaction_at_the_same_time_is_done_in_order() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = Source::new("main", settings(&postgres.url(), driver), 1);
            let session = session_of(&source);
            let transaction = begin(&session).await;
            let set = within(
                &session,
                &transaction,
                json!([["select set_config('a.b', $1, true), pg_sleep(0.05)", ["1"]]]),
            );
            let get = within(
                &session,
                &transaction,
                json!([["select current_setting('a.b') as b", []]]),
            );
            let (_, got, committed) = tokio::join!(set, get, about(&session, "commit", &transaction));
            assert_eq!(got[0]["rows"], json!([{"b": "1"}]));
            assert_eq!(committed, json!({}));
        }
    });
}

#[test]
fn a_long_pipeline_in_a_transaction_with_large_statements_and_results_comes_to_its_end() {
    let postgres = Postgres::shared();
    run(async {
        let source = Source::new("main", settings(&postgres.url(), BOTH[0]), 1);
        let session = session_of(&source);
        let large = "x".repeat(200_000);
        // The first time it is prepared; then all are sent before the first answer.
        let statements: Vec<Value> = (0..200)
            .map(|number| {
                let text = ["select $1::int as n, $2 as t", "select $1::int as n, $2 as t, 1"][number % 2];
                json!([text, [number.to_string(), large]])
            })
            .collect();
        let transaction = begin(&session).await;
        for _ in 0..2 {
            let outcomes = within(&session, &transaction, json!(statements)).await;
            for (number, outcome) in outcomes.as_array().unwrap().iter().enumerate() {
                assert_eq!(outcome["rows"][0]["n"], number);
                assert_eq!(outcome["rows"][0]["t"].as_str().unwrap().len(), large.len());
            }
        }
        assert_eq!(about(&session, "commit", &transaction).await, json!({}));
    });
}

#[test]
fn a_cursor_gives_its_rows_part_by_part_alone_and_in_a_transaction() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let mut settings = settings(&postgres.url(), driver);
            settings.connections_max = 4;
            let source = Source::new("main", settings, 1);
            let session = session_of(&source);
            let transaction = begin(&session).await;
            for transaction in [Value::Null, transaction] {
                let text = "select i from generate_series(1, $1::int) as i";
                let open = |count: u32| json!({"op": "cursor", "source": "main", "transaction": transaction, "statement": [text, [count.to_string()]], "batch": 100});
                for count in [0, 99, 100, 101, 250] {
                    let mut part = call(&session, open(count)).await;
                    let mut numbers = Vec::new();
                    loop {
                        let rows = part["rows"].as_array().unwrap();
                        assert_eq!(part["count"], rows.len());
                        numbers.extend(rows.iter().map(|row| row["i"].as_u64().unwrap()));
                        if part["cursor"].is_null() {
                            break;
                        }
                        let fetch = json!({"op": "fetch", "source": "main", "cursor": part["cursor"]});
                        part = call(&session, fetch).await;
                    }
                    assert_eq!(
                        numbers,
                        (1..=u64::from(count)).collect::<Vec<_>>(),
                        "{transaction}"
                    );
                }
                let part = call(&session, open(1000)).await;
                let close = json!({"op": "close", "source": "main", "id": part["cursor"]});
                for _ in 0..2 {
                    assert_eq!(call(&session, close.clone()).await, json!({}));
                }
                let fetch = json!({"op": "fetch", "source": "main", "cursor": part["cursor"]});
                assert_eq!(call(&session, fetch).await["error"]["code"], "not_open");
                let mut wrong = open(1);
                wrong["statement"] = json!(["select  nothing", []]);
                let error = call(&session, wrong).await;
                assert_eq!(
                    (&error["error"]["code"], &error["error"]["position"]),
                    (&json!("42703"), &json!("9"))
                );
            }
        }
    });
}

#[test]
fn only_so_much_is_open_at_a_time() {
    let postgres = Postgres::shared();
    run(async {
        let mut settings = settings(&postgres.url(), BOTH[0]);
        settings.connections_max = 40;
        let session = session_of(&Source::new("main", settings, 1));
        let mut begun = Vec::new();
        for _ in 0..32 {
            begun.push(begin(&session).await);
        }
        let error = call(&session, json!({"op": "begin", "source": "main"})).await;
        assert_eq!(
            error,
            json!({"error": {"message": "32 transactions, cursors, copies and listeners are open already (open_max)", "code": "too_many_open"}})
        );
        about(&session, "rollback", &begun[0]).await;
        assert!(begin(&session).await.is_number());
    });
}

#[test]
fn columns_of_bytes_are_named_beside_the_rows() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = Source::new("main", settings(&postgres.url(), driver), 1);
            let session = session_of(&source);
            let text = "select '\\x00ff'::bytea as a, '\\x00ff'::text as b, array['\\x01'::bytea, null] as c, '\\x02'::bytea as d, '\\x02' as d";
            let statements = json!({"op": "statements", "source": "main", "statements": [[text, []]]});
            assert_eq!(
                call(&session, statements).await[0],
                json!({"rows": [{"a": "\\x00ff", "b": "\\x00ff", "c": ["\\x01", null], "d": "\\x02"}], "count": 1, "bytea": ["a", "c"]})
            );
        }
    });
}
