//! Transactions known in advance, and descriptions of statements.

use std::time::Instant;

use forebay_pg::{Beginning, Driver, Isolation, PgError, Step, Takes};
use forebay_testkit::Postgres;

use crate::rig::{BOTH, PATIENCE, becomes, first, query, run, source, value};

fn steps<'s>(texts: &[&'s str]) -> Vec<Step<'s>> {
    texts.iter().map(|&text| (text, Vec::new())).collect()
}

#[test]
fn a_transaction_that_stood_in_anothers_way_is_run_again_and_sees_what_that_did() {
    let postgres = Postgres::start();
    run(async {
        let observer = source(&postgres, Driver::Pipelined);
        query(&observer, "create table counters (n int)", &[])
            .await
            .unwrap();
        for driver in BOTH {
            query(&observer, "truncate counters", &[]).await.unwrap();
            query(&observer, "insert into counters values (1)", &[])
                .await
                .unwrap();
            let deadline = Instant::now() + PATIENCE;
            let mut other = observer.begin(Beginning::default(), deadline).await.unwrap();
            other.query("update counters set n = n + 10", &[]).await.unwrap();
            let source = source(&postgres, driver);
            let add = [
                "select n from counters",
                "update counters set n = n + 1 returning n",
            ];
            let ours = tokio::task::spawn_local(async move {
                source
                    .transact(&steps(&add), Isolation::RepeatableRead, deadline, |_| true)
                    .await
            });
            let blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
            becomes(&observer, blocked, "1").await;
            other.commit().await.unwrap();
            let rows = ours.await.unwrap().unwrap();
            assert_eq!(first(&rows), "12", "{driver:?}");
        }
    });
}

#[test]
fn a_transaction_says_which_statement_failed_and_leaves_nothing() {
    let postgres = Postgres::start();
    run(async {
        for driver in BOTH {
            let source = source(&postgres, driver);
            query(&source, "create table if not exists notes (n int)", &[])
                .await
                .unwrap();
            let deadline = Instant::now() + PATIENCE;
            let failing = ["insert into notes values (1)", "select 1 / 0"];
            let committed = Isolation::ReadCommitted;
            let failed = source
                .transact(&steps(&failing), committed, deadline, |_| true)
                .await;
            let failed = failed.unwrap_err();
            assert_eq!((failed.step, failed.error.code().as_str()), (Some(1), "22012"));
            // An unwanted result prevents the changes as well.
            let unwanted = ["insert into notes values (1)", "select n from notes"];
            let rows = source
                .transact(&steps(&unwanted), committed, deadline, |_| false)
                .await;
            assert_eq!(first(&rows.unwrap()), "1");
            assert_eq!(value(&source, "select count(*) from notes", &[]).await, "0");
            let session = source
                .transact(&steps(&["commit"]), committed, deadline, |_| true)
                .await;
            assert_eq!(session.unwrap_err().error, PgError::Session { keyword: "commit" });
        }
    });
}

#[test]
fn a_statement_is_described_without_being_run() {
    let postgres = Postgres::start();
    run(async {
        for driver in BOTH {
            let source = source(&postgres, driver);
            query(&source, "create type mood as enum ('fine')", &[])
                .await
                .ok();
            let text = "insert into nowhere select $1::int, $2::jsonb, $3::mood[], $4::text[][]";
            let deadline = Instant::now() + PATIENCE;
            let error = source.describe(text, deadline).await.unwrap_err();
            let PgError::Server(error) = error else {
                panic!("{error}")
            };
            assert_eq!((&*error.code, error.position), ("42P01", Some(13)));
            let takes = source
                .describe(
                    "select $1::int, $2::jsonb, $3::mood[], $4::text[][], pg_sleep(1000)",
                    deadline,
                )
                .await;
            assert_eq!(
                takes.unwrap(),
                [Takes::Text, Takes::Json, Takes::Array, Takes::Array],
                "{driver:?}"
            );
        }
    });
}
