//! Streams and transactions.

use std::time::{Duration, Instant};

use forebay_pg::{Beginning, Driver, PgError, Row, RowStream, Source, Stage};
use forebay_testkit::Postgres;

use crate::rig::{BOTH, PATIENCE, becomes, first, query, run, settings, source, value};

fn text(row: &Row) -> &str {
    std::str::from_utf8(row.text(0).unwrap()).unwrap()
}

fn later() -> Instant {
    Instant::now() + PATIENCE
}

async fn stream(source: &Source, text: &str) -> Result<RowStream, PgError> {
    source.stream(text, &[], later()).await
}

/// Two connections, one of which is for streams and transactions.
fn source_of_two(postgres: &Postgres, driver: Driver) -> Source {
    let mut settings = settings(&postgres.url(), driver);
    settings.connections_max = 2;
    Source::new("main", settings, 1)
}

#[test]
fn a_stream_gives_every_row_in_order_and_its_connection_to_the_next() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            let mut pids = Vec::new();
            for count in [0, 1, 255, 256, 257, 10_000] {
                let text_of = "select i, pg_backend_pid() from generate_series(1, $1::int) as i";
                let limit = count.to_string();
                let parameters = [Some(limit.as_bytes())];
                let mut rows = source.stream(text_of, &parameters, later()).await.unwrap();
                assert_eq!(rows.columns()[0].name, "i");
                for number in 1..=count {
                    let row = rows.next().await.unwrap().unwrap();
                    assert_eq!(text(&row), number.to_string());
                    pids.push(row.text(1).unwrap().to_vec());
                }
                for _ in 0..2 {
                    assert!(rows.next().await.unwrap().is_none());
                }
            }
            pids.dedup();
            assert_eq!(pids.len(), 1, "one connection after the other");
        }
    });
}

#[test]
fn an_error_in_a_stream_comes_after_the_rows_before_it() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            let mut rows = stream(
                &source,
                "select 1 / (1000 - i) from generate_series(1, 2000) as i",
            )
            .await
            .unwrap();
            for _ in 1..1000 {
                assert!(rows.next().await.unwrap().is_some());
            }
            let PgError::Server(error) = rows.next().await.unwrap_err() else {
                panic!("an error of the server")
            };
            assert_eq!(error.code, "22012");
            drop(rows);
            let error = stream(&source, "select nothing").await.unwrap_err();
            assert!(matches!(error, PgError::Server(_)), "{error:?}");
            let mut rows = stream(&source, "select 'good'").await.unwrap();
            assert_eq!(text(&rows.next().await.unwrap().unwrap()), "good");
        }
    });
}

#[test]
fn a_stream_that_is_dropped_is_ended_on_the_server_and_holds_nobody_up_before() {
    let postgres = Postgres::shared();
    run(async {
        let observer = source(postgres, Driver::Pipelined);
        for driver in BOTH {
            let source = source_of_two(postgres, driver);
            // More rows than fit into any memory.
            let endless = "select generate_series(1, 1000000000), repeat('x', 10000) /* endless */";
            let mut rows = stream(&source, endless).await.unwrap();
            for number in 1..=1000 {
                assert_eq!(text(&rows.next().await.unwrap().unwrap()), number.to_string());
            }
            for _ in 0..10 {
                value(&source, "select 1", &[]).await;
            }
            drop(rows);
            let count = "select count(*) from pg_stat_activity where query like '%endless%' \
                         and pid <> pg_backend_pid() and state <> 'idle'";
            becomes(&observer, count, "0").await;
            // A stream without a row for long is cancelled.
            let slow =
                "select 1 from generate_series(1, 3) as i where pg_sleep(i * 100) is null /* endless */";
            let opened = tokio::time::timeout(Duration::from_millis(50), stream(&source, slow)).await;
            assert!(opened.is_err());
            becomes(&observer, count, "0").await;
            let mut rows = stream(&source, "select 'good'").await.unwrap();
            assert_eq!(text(&rows.next().await.unwrap().unwrap()), "good");
        }
    });
}

#[test]
fn streams_and_statements_together_have_so_many_connections() {
    let postgres = Postgres::start();
    run(async {
        let observer = source(&postgres, Driver::Pipelined);
        for driver in BOTH {
            let mut settings = settings(&postgres.url(), driver);
            settings.connections_max = 3;
            settings.acquire_timeout = Duration::from_secs(1);
            let mut url = postgres.url();
            url.push_str("&application_name=bounded");
            settings.server = url.parse().unwrap();
            let source = Source::new("main", settings, 1);
            let sleep = || query(&source, "select pg_sleep(0.1)", &[]);
            // A statement that arrives a while after a long one does not queue behind it.
            let busy = async || {
                let later = async {
                    query(&observer, "select pg_sleep(0.02)", &[]).await.unwrap();
                    let _ = tokio::join!(sleep(), sleep(), sleep());
                };
                tokio::join!(sleep(), later)
            };
            let _ = busy().await;
            let mut open = Vec::new();
            let error = loop {
                match stream(&source, "select generate_series(1, 100000)").await {
                    Ok(rows) => open.push(rows),
                    Err(error) => break error,
                }
            };
            let what = Stage::Acquire;
            let limit = Duration::from_secs(1);
            assert_eq!(error, PgError::TimedOut { what, limit });
            assert!(!open.is_empty());
            let _ = busy().await;
            let count = "select count(*) from pg_stat_activity where application_name = 'bounded'";
            becomes(&observer, count, "3").await;
            drop(open);
            stream(&source, "select 1").await.unwrap();
        }
    });
}

#[test]
fn a_transaction_takes_effect_as_a_whole_or_not_at_all() {
    let postgres = Postgres::start();
    let mut admin = postgres.admin();
    admin
        .batch_execute("create table marks (mark int unique); grant all on marks to benchmarkdbuser")
        .unwrap();
    run(async {
        for driver in BOTH {
            let source = source_of_two(&postgres, driver);
            query(&source, "delete from marks", &[]).await.unwrap();
            let count = "select count(*) from marks";
            let insert = "insert into marks values ($1::int)";

            let mut kept = source.begin(Beginning::default(), later()).await.unwrap();
            kept.query(insert, &[Some(b"1")]).await.unwrap();
            assert_eq!(first(&kept.query(count, &[]).await.unwrap()), "1");
            assert_eq!(value(&source, count, &[]).await, "0");
            kept.commit().await.unwrap();
            assert_eq!(value(&source, count, &[]).await, "1");

            let mut undone = source.begin(Beginning::default(), later()).await.unwrap();
            undone.query(insert, &[Some(b"2")]).await.unwrap();
            undone.rollback().await.unwrap();
            let mut dropped = source.begin(Beginning::default(), later()).await.unwrap();
            dropped.query(insert, &[Some(b"3")]).await.unwrap();
            drop(dropped);
            let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
            becomes(&source, open, "0").await;
            let mut failed = source.begin(Beginning::default(), later()).await.unwrap();
            failed.query(insert, &[Some(b"4")]).await.unwrap();
            assert!(failed.query(insert, &[Some(b"1")]).await.is_err());
            assert_eq!(failed.commit().await.unwrap_err(), PgError::RolledBack);
            assert_eq!(value(&source, count, &[]).await, "1");

            let mut nested = source.begin(Beginning::default(), later()).await.unwrap();
            nested.query(insert, &[Some(b"5")]).await.unwrap();
            let savepoint = nested.savepoint().await.unwrap();
            nested.query(insert, &[Some(b"6")]).await.unwrap();
            assert!(nested.query(insert, &[Some(b"6")]).await.is_err());
            nested.rollback_to(savepoint).await.unwrap();
            nested.query(insert, &[Some(b"7")]).await.unwrap();
            nested.release(savepoint).await.unwrap();
            let error = nested.query("commit", &[]).await.unwrap_err();
            assert_eq!(error, PgError::Session { keyword: "commit" });
            nested.commit().await.unwrap();
            let all = "select string_agg(mark::text, ' ' order by mark) from marks";
            assert_eq!(value(&source, all, &[]).await, "1 5 7");
        }
    });
}

#[test]
fn a_statement_of_a_transaction_that_is_given_up_is_cancelled_and_the_transaction_goes_on_from_a_savepoint() {
    let postgres = Postgres::shared();
    run(async {
        let source = source_of_two(postgres, Driver::Pipelined);
        let mut transaction = source.begin(Beginning::default(), later()).await.unwrap();
        let savepoint = transaction.savepoint().await.unwrap();
        let observer = crate::rig::source(postgres, Driver::Pipelined);
        let count =
            "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and query like '%given up'";
        tokio::select! {
            outcome = transaction.query("select pg_sleep(1000) -- given up", &[]) => panic!("{outcome:?}"),
            () = becomes(&observer, count, "1") => {}
        }
        let PgError::Server(error) = transaction.query("select 1", &[]).await.unwrap_err() else {
            panic!("an error of the server")
        };
        assert_eq!(error.code, "25P02");
        transaction.rollback_to(savepoint).await.unwrap();
        assert_eq!(first(&transaction.query("select 1", &[]).await.unwrap()), "1");
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_transaction_that_takes_too_long_is_rolled_back() {
    let postgres = Postgres::shared();
    run(async {
        let source = source_of_two(postgres, Driver::Pipelined);
        let mut late = source
            .begin(Beginning::default(), Instant::now() + Duration::from_secs(1))
            .await
            .unwrap();
        let error = late.query("select pg_sleep(1000)", &[]).await.unwrap_err();
        assert!(
            matches!(
                error,
                PgError::TimedOut {
                    what: Stage::Transaction,
                    ..
                }
            ),
            "{error:?}"
        );
        drop(late);
        // It uses the only connection.
        let mut next = source.begin(Beginning::default(), later()).await.unwrap();
        assert_eq!(first(&next.query("select 1", &[]).await.unwrap()), "1");
    });
}
