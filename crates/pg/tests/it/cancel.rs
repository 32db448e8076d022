//! Statements whose caller has given up.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use forebay_pg::{Ask, Driver, PgError, Source, Stage};
use forebay_testkit::Postgres;

use crate::rig::{BOTH, PATIENCE, becomes, query, run, settings, source, value};

/// Counts the sleeping statements with this mark.
fn running(mark: &str) -> String {
    format!(
        "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and pid <> pg_backend_pid() \
         and query like '%{mark}%' and query not like '%pg_stat_activity%'"
    )
}

/// A statement that sleeps for long, on a source with one connection.
struct Slow {
    source: Source,
    /// The server process of that connection.
    pid: String,
    text: String,
    /// Query that counts the sleeping statement.
    count: String,
}

async fn slow(postgres: &Postgres, driver: Driver, mark: &str) -> Slow {
    let source = source(postgres, driver);
    let pid = value(&source, "select pg_backend_pid()", &[]).await;
    let mark = format!("{mark} {driver:?}");
    Slow {
        source,
        pid,
        text: format!("select pg_sleep(1000) /* {mark} */"),
        count: running(&mark),
    }
}

#[test]
fn a_statement_whose_waiter_goes_is_cancelled_and_its_connection_goes_on() {
    let postgres = Postgres::shared();
    run(async {
        let observer = source(postgres, Driver::Pipelined);
        for driver in BOTH {
            let Slow {
                source,
                pid,
                text,
                count,
            } = slow(postgres, driver, "gone").await;
            {
                let sleeping = query(&source, &text, &[]);
                tokio::select! {
                    outcome = sleeping => panic!("{outcome:?}"),
                    () = becomes(&observer, &count, "1") => {}
                }
            }
            becomes(&observer, &count, "0").await;
            assert_eq!(value(&source, "select pg_backend_pid()", &[]).await, pid);
            assert_eq!(source.in_flight(), 0);
        }
    });
}

#[test]
fn a_statement_past_its_deadline_is_cancelled_and_its_connection_goes_on() {
    let postgres = Postgres::shared();
    run(async {
        let observer = source(postgres, Driver::Pipelined);
        for driver in BOTH {
            let Slow {
                source,
                pid,
                text,
                count,
            } = slow(postgres, driver, "late").await;
            let deadline = Instant::now() + Duration::from_millis(50);
            let error = source.query(&text, &[], deadline).await.unwrap_err();
            let PgError::TimedOut { what, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!(what, Stage::Statement);
            becomes(&observer, &count, "0").await;
            assert_eq!(value(&source, "select pg_backend_pid()", &[]).await, pid);
        }
    });
}

#[test]
fn the_server_ends_what_takes_too_long_even_if_nobody_cancels_it() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            let limit = value(&source, "select current_setting('statement_timeout')", &[]).await;
            assert_eq!(limit, "31s");
        }
    });
}

#[test]
fn a_cancellation_hits_no_statement_that_is_waited_for() {
    let postgres = Postgres::shared();
    run(async {
        let source = source(postgres, Driver::Pipelined);
        for round in 0..20 {
            let slow = query(&source, "select pg_sleep(1000)", &[]);
            let others: Vec<_> = (0..30)
                .map(|number| {
                    let source = source.clone();
                    let marker = format!("{round}/{number}");
                    tokio::task::spawn_local(async move {
                        let text = "select $1::text from pg_sleep(0.001)";
                        assert_eq!(value(&source, text, &[Some(&marker)]).await, marker);
                    })
                })
                .collect();
            let outcome = tokio::time::timeout(Duration::from_millis(5), slow).await;
            assert!(outcome.is_err());
            for other in others {
                other.await.unwrap();
            }
        }
    });
}

#[test]
fn a_victim_that_only_reads_is_run_again_and_another_is_told() {
    let postgres = Postgres::shared();
    run(async {
        let observer = source(postgres, Driver::Pipelined);
        // Counts runs, including those that fail.
        query(&observer, "create sequence runs", &[]).await.unwrap();
        for (text, is_run_again) in [
            (
                "select case when nextval('runs') = 1 then pg_sleep(1000)::text else 'victim' end",
                true,
            ),
            (
                "update world set id = id where id = 1 and pg_sleep(1000) is null /* victim */",
                false,
            ),
        ] {
            let source = source(postgres, Driver::Pipelined);
            let pid = value(&source, "select pg_backend_pid()", &[]).await;
            let meant = tokio::task::spawn_local({
                let source = source.clone();
                async move { query(&source, "select pg_sleep(1000) /* meant */", &[]).await }
            });
            while source.in_flight() == 0 {
                tokio::task::yield_now().await;
            }
            // A third party cancels the statement behind the intended one, unless it was hit already.
            let hit = async {
                becomes(&observer, &running("meant"), "1").await;
                meant.abort();
                becomes(&observer, &running("victim"), "1").await;
                value(&observer, "select pg_cancel_backend($1::int)", &[Some(&pid)]).await;
                std::future::pending::<Infallible>().await
            };
            let victim = tokio::select! {
                outcome = query(&source, text, &[]) => outcome,
                never = hit => match never {},
            };
            if is_run_again {
                assert_eq!(crate::rig::first(&victim.unwrap()), "victim");
            } else {
                assert_eq!(victim.unwrap_err(), PgError::Hit);
            }
        }
    });
}

#[test]
fn a_victim_behind_a_result_that_is_too_large_is_run_again_if_it_only_reads() {
    let postgres = Postgres::shared();
    run(async {
        let observer = source(postgres, Driver::Pipelined);
        query(&observer, "create sequence runs_behind", &[])
            .await
            .unwrap();
        let reads = "select case when nextval('runs_behind') = 1 then pg_sleep(1000)::text else 'again' end /* behind */";
        let changes = "update world set id = id where id = 1 and pg_sleep(1000) is null /* behind */";
        let mut settings = settings(&postgres.url(), Driver::Blocking);
        settings.result_bytes_max = 1000;
        let source = Source::new("main", settings, 1);
        let pid = value(&source, "select pg_backend_pid()", &[]).await;
        // A known statement is sent together with those before it.
        for text in [reads, changes] {
            let deadline = Instant::now() + Duration::from_millis(200);
            let _ = source.query(text, &[], deadline).await;
        }
        query(&observer, "select setval('runs_behind', 1, false)", &[])
            .await
            .unwrap();
        let endless = "select repeat('x', 100), generate_series(1, 1000000000)";
        let _ = query(&source, endless, &[]).await;
        for text in [reads, changes] {
            // A third party cancels the statement behind, unless it was hit already.
            let hit = async {
                becomes(&observer, &running("behind"), "1").await;
                value(&observer, "select pg_cancel_backend($1::int)", &[Some(&pid)]).await;
                std::future::pending::<Infallible>().await
            };
            let asks = [endless, text].map(|text| Ask::new(text, &[]));
            let mut outcomes = tokio::select! {
                outcomes = source.pipeline(&asks, Instant::now() + PATIENCE) => outcomes,
                never = hit => match never {},
            };
            let behind = outcomes.pop().unwrap();
            assert!(
                matches!(outcomes[0], Err(PgError::TooLarge { .. })),
                "{outcomes:?}"
            );
            if text == reads {
                assert_eq!(crate::rig::first(&behind.unwrap()), "again");
            } else {
                assert_eq!(behind.unwrap_err(), PgError::Hit);
            }
        }
    });
}

#[test]
fn what_waits_behind_and_is_given_up_is_never_sent() {
    let postgres = Postgres::start();
    let mut admin = postgres.admin();
    admin
        .batch_execute("create table marks (mark int); grant all on marks to benchmarkdbuser")
        .unwrap();
    run(async {
        let holder = source(&postgres, Driver::Pipelined);
        let mut lock = holder
            .begin(forebay_pg::Beginning::default(), Instant::now() + PATIENCE)
            .await
            .unwrap();
        lock.query("select pg_advisory_xact_lock(7)", &[]).await.unwrap();
        let source = source(&postgres, Driver::Pipelined);
        value(&source, "select 1", &[]).await;
        let sent = |count: usize, text: &'static str| -> Vec<_> {
            let send = || {
                let source = source.clone();
                tokio::task::spawn_local(async move { query(&source, text, &[]).await })
            };
            (0..count).map(|_| send()).collect()
        };
        // More than fit into the pipeline.
        let before = sent(300, "select pg_advisory_xact_lock_shared(7)");
        let given_up = sent(10, "insert into marks values (1)");
        while source.in_flight() < 310 {
            tokio::task::yield_now().await;
        }
        for task in given_up {
            task.abort();
            assert!(task.await.is_err());
        }
        lock.commit().await.unwrap();
        for task in before {
            task.await.unwrap().unwrap();
        }
        assert_eq!(value(&source, "select count(*) from marks", &[]).await, "0");
    });
}

#[test]
fn a_connection_ends_with_its_source() {
    let postgres = Postgres::start();
    run(async {
        let observer = source(&postgres, Driver::Pipelined);
        let count = "select count(*) from pg_stat_activity where application_name = 'ending'";
        for driver in BOTH {
            let url = format!("{}&application_name=ending", postgres.url());
            let source = Source::new("main", settings(&url, driver), 1);
            query(&source, "select 1", &[]).await.unwrap();
            becomes(&observer, count, "1").await;
            drop(source);
            becomes(&observer, count, "0").await;
        }
    });
}
