//! Copying rows in and out.

use std::time::{Duration, Instant};

use forebay_pg::{Beginning, Driver, PgError, Source};
use forebay_testkit::Postgres;
use serde_json::json;

use crate::{
    rig::{BOTH, PATIENCE, becomes, first, query, run, settings, value},
    session::{call, session_of},
};

fn later() -> Instant {
    Instant::now() + PATIENCE
}

/// Two connections, one of which is for copies.
fn source_of_two(postgres: &Postgres, driver: Driver) -> Source {
    let mut settings = settings(&postgres.url(), driver);
    settings.connections_max = 2;
    Source::new("main", settings, 1)
}

fn table(postgres: &Postgres, name: &str) {
    let make = format!(
        "drop table if exists {name}; create table {name} (id int primary key, note text); grant all on {name} to public"
    );
    postgres.admin().batch_execute(&make).unwrap();
}

fn rows(count: u32) -> String {
    let rows: Vec<String> = (0..count).map(|id| format!("{id}\tnote {id}\n")).collect();
    rows.concat()
}

async fn copied_out(source: &Source, text: &str) -> Vec<u8> {
    let mut copy = source.copy_out(text, later()).await.unwrap();
    let mut all = Vec::new();
    while let Some(piece) = copy.next().await.unwrap() {
        all.extend_from_slice(&piece);
    }
    assert!(copy.next().await.unwrap().is_none());
    all
}

#[test]
fn what_was_copied_in_comes_out_again() {
    let postgres = Postgres::shared();
    table(postgres, "copy_round");
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            query(&source, "delete from copy_round", &[]).await.unwrap();
            let rows = rows(100_000);
            let mut copy = source
                .copy_in("copy copy_round from stdin", later())
                .await
                .unwrap();
            // Pieces end anywhere.
            for piece in rows.as_bytes().chunks(65_537) {
                copy.send(piece).await.unwrap();
            }
            assert_eq!(copy.finish().await.unwrap(), 100_000);
            let out = copied_out(&source, "copy (select * from copy_round order by id) to stdout").await;
            assert!(out == rows.as_bytes(), "{} bytes of {}", out.len(), rows.len());

            let binary = "copy copy_round to stdout (format binary)";
            assert!(source.copy_out(binary, later()).await.unwrap().is_binary());
            let bytes = copied_out(&source, binary).await;
            query(&source, "delete from copy_round", &[]).await.unwrap();
            let mut copy = source
                .copy_in("copy copy_round from stdin (format binary)", later())
                .await
                .unwrap();
            copy.send(&bytes).await.unwrap();
            assert_eq!(copy.finish().await.unwrap(), 100_000);
            let nothing = source
                .copy_in("copy copy_round from stdin", later())
                .await
                .unwrap();
            assert_eq!(nothing.finish().await.unwrap(), 0);
            let none = copied_out(&source, "copy (select 1 where false) to stdout").await;
            assert!(none.is_empty());
        }
    });
}

#[test]
fn a_row_that_is_refused_ends_the_copy_with_the_error_of_the_server_and_copies_nothing() {
    let postgres = Postgres::shared();
    table(postgres, "copy_refused");
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            query(&source, "delete from copy_refused", &[]).await.unwrap();
            let mut copy = source
                .copy_in("copy copy_refused from stdin", later())
                .await
                .unwrap();
            copy.send(b"1\ta\nx\tb\n").await.ok();
            // The server reports the error when it has read the row, and accepts no more data.
            let error = loop {
                if let Err(error) = copy.send("2\tc\n".repeat(10_000).as_bytes()).await {
                    break error;
                }
            };
            let PgError::Server(error) = error else {
                panic!("an error of the server, not {error:?}")
            };
            assert_eq!(error.code, "22P02");
            drop(copy);
            let mut late = source
                .copy_in("copy copy_refused from stdin", later())
                .await
                .unwrap();
            late.send(b"1\ta\n1\ta\n").await.unwrap();
            let PgError::Server(error) = late.finish().await.unwrap_err() else {
                panic!("an error of the server")
            };
            assert_eq!(error.code, "23505");
            assert_eq!(
                value(&source, "select count(*) from copy_refused", &[]).await,
                "0"
            );
            let out = source.copy_out(
                "copy (select 1/(i-5000) from generate_series(1, 10000) as i) to stdout",
                later(),
            );
            let mut out = out.await.unwrap();
            let error = loop {
                match out.next().await {
                    Ok(piece) => assert!(piece.is_some()),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.code().as_str(), "22012");
            drop(out);
            let good = copied_out(&source, "copy (select 'good') to stdout").await;
            assert_eq!(good, b"good\n");
        }
    });
}

#[test]
fn what_is_given_up_is_not_copied_and_its_connection_is_used_again() {
    let postgres = Postgres::shared();
    table(postgres, "copy_given_up");
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            query(&source, "delete from copy_given_up", &[]).await.unwrap();
            let open = "select count(*) from pg_stat_activity where query like 'copy%' and state <> 'idle'";
            for _ in 0..3 {
                let mut copy = source
                    .copy_in("copy copy_given_up from stdin", later())
                    .await
                    .unwrap();
                copy.send(b"1\ta\n2").await.unwrap();
                drop(copy);
                becomes(&source, open, "0").await;
                let endless = "copy (select repeat('x', 1000), generate_series(1, 1000000000)) to stdout";
                let mut copy = source.copy_out(endless, later()).await.unwrap();
                assert!(copy.next().await.unwrap().is_some());
                drop(copy);
                becomes(&source, open, "0").await;
            }
            assert_eq!(
                value(&source, "select count(*) from copy_given_up", &[]).await,
                "0"
            );
        }
    });
}

#[test]
fn what_is_no_copy_or_goes_the_other_way_is_refused() {
    let postgres = Postgres::shared();
    table(postgres, "copy_wrong");
    run(async {
        let source = source_of_two(postgres, Driver::Pipelined);
        for text in [
            "select 1",
            "copy copy_wrong to stdout",
            "drop table copy_wrong; copy copy_wrong from stdin",
        ] {
            let error = source.copy_in(text, later()).await.unwrap_err();
            assert_eq!(error.code().as_str(), "not_sendable", "{text}: {error}");
        }
        let error = source
            .copy_out("copy copy_wrong from stdin", later())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("not to `stdout`"), "{error}");
        let error = source
            .copy_in("copy nowhere from stdin", later())
            .await
            .unwrap_err();
        assert_eq!(error.code().as_str(), "42P01");
        let two = "copy copy_wrong from stdin; drop table copy_wrong";
        assert_eq!(
            source.copy_in(two, later()).await.unwrap_err().code().as_str(),
            "42601"
        );
        assert_eq!(copied_out(&source, "copy copy_wrong to stdout").await, b"");
    });
}

#[test]
fn copies_are_a_part_of_their_transaction() {
    let postgres = Postgres::shared();
    table(postgres, "copy_within");
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            query(&source, "delete from copy_within", &[]).await.unwrap();
            let mut within = source.begin(Beginning::default(), later()).await.unwrap();
            within.copy_in("copy copy_within from stdin").await.unwrap();
            within.copy_bytes(b"1\ta\n").await.unwrap();
            let error = within.query("select 1", &[]).await.unwrap_err();
            assert_eq!(error.code().as_str(), "not_sendable");
            within.copy_bytes(b"2\tb\n").await.unwrap();
            assert_eq!(within.copy_done().await.unwrap(), 2);
            let count = "select count(*) from copy_within";
            assert_eq!(first(&within.query(count, &[]).await.unwrap()), "2");
            assert!(!within.copy_out("copy copy_within to stdout").await.unwrap());
            assert_eq!(within.copied().await.unwrap().unwrap(), "1\ta\n");
            assert!(within.query(count, &[]).await.is_err());
            within.copy_ended().await.unwrap();
            assert_eq!(first(&within.query(count, &[]).await.unwrap()), "2");
            within.rollback().await.unwrap();
            assert_eq!(value(&source, count, &[]).await, "0");
        }
    });
}

#[test]
fn handlers_copy_piece_by_piece() {
    let postgres = Postgres::shared();
    table(postgres, "copy_desk");
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            query(&source, "delete from copy_desk", &[]).await.unwrap();
            let session = session_of(&source);
            let begin = call(&session, json!({"op": "begin", "source": "main"})).await;
            for transaction in [begin["transaction"].clone(), json!(null)] {
                let text = "copy copy_desk from stdin";
                let copy_in =
                    json!({"op": "copy_in", "source": "main", "transaction": transaction, "text": text});
                let copy = call(&session, copy_in).await["copy"].clone();
                let send = |more: serde_json::Value| {
                    let mut operation = json!({"op": "copy_send", "source": "main", "copy": copy});
                    operation
                        .as_object_mut()
                        .unwrap()
                        .extend(more.as_object().unwrap().clone());
                    operation
                };
                assert_eq!(call(&session, send(json!({"text": "1\té"}))).await, json!({}));
                assert_eq!(
                    call(&session, send(json!({"bytes": "\\x0a320a"}))).await["error"],
                    json!(null)
                );
                for wrong in [
                    json!({"bytes": "0a"}),
                    json!({"bytes": "\\x0"}),
                    json!({"bytes": "\\x0g"}),
                    json!({}),
                    json!({"text": "", "bytes": "\\x"}),
                ] {
                    assert_eq!(call(&session, send(wrong)).await["error"]["code"], "malformed");
                }
                let done = json!({"op": "copy_done", "source": "main", "copy": copy});
                // The second row has too few columns.
                assert_eq!(
                    call(&session, done.clone()).await["error"]["code"],
                    "22P04",
                    "{driver:?}"
                );
                assert_eq!(call(&session, done).await["error"]["code"], "not_open");
                if !transaction.is_null() {
                    call(
                        &session,
                        json!({"op": "rollback", "source": "main", "transaction": transaction}),
                    )
                    .await;
                }
            }
            for (format, name, piece) in [
                ("text", "text", json!("a\\tb\n")),
                ("csv", "text", json!("a\tb\n")),
            ] {
                let text = format!("copy (select E'a\\tb') to stdout (format {format})");
                let out = call(
                    &session,
                    json!({"op": "copy_out", "source": "main", "text": text}),
                )
                .await;
                assert_eq!(out["binary"], false);
                let read = json!({"op": "copy_read", "source": "main", "copy": out["copy"]});
                assert_eq!(call(&session, read.clone()).await[name], piece);
                assert_eq!(call(&session, read.clone()).await, json!({}));
                assert_eq!(call(&session, read).await["error"]["code"], "not_open");
            }
            let binary = json!({"op": "copy_out", "source": "main", "text": "copy (select 1) to stdout (format binary)"});
            let out = call(&session, binary).await;
            assert_eq!(out["binary"], true);
            let read = json!({"op": "copy_read", "source": "main", "copy": out["copy"]});
            let head = call(&session, read).await["bytes"].clone();
            assert!(
                head.as_str().unwrap().starts_with("\\x5047434f50590aff0d0a00"),
                "{head}"
            );
            let close = json!({"op": "close", "source": "main", "id": out["copy"]});
            assert_eq!(call(&session, close).await, json!({}));
        }
    });
}

#[test]
fn a_copy_that_takes_too_long_is_counted_as_that() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            let soon = Instant::now() + Duration::from_secs(1);
            // More rows than the server buffers, and one that never arrives.
            let text = "copy (select repeat('x', 1000) from generate_series(1, 100) union all select pg_sleep(1000)::text) to stdout";
            let mut copy = source.copy_out(text, soon).await.unwrap();
            assert!(copy.next().await.unwrap().is_some());
            let error = loop {
                match copy.next().await {
                    Ok(piece) => assert!(piece.is_some()),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, PgError::TimedOut { .. }), "{error:?}");
            drop(copy);
            let counted = source.counted();
            let ended: Vec<_> = counted.outcomes.iter().filter(|(_, count)| *count > 0).collect();
            assert_eq!(ended, [&("timeout", 1)], "{driver:?}");
            let sleeping = "select count(*) from pg_stat_activity where query like 'copy%pg_sleep(1000)%' and state <> 'idle'";
            becomes(&source, sleeping, "0").await;
        }
    });
}
