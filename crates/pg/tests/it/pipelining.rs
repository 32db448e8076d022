//! Many statements at a time.

use std::time::{Duration, Instant};

use forebay_pg::{Ask, Driver, PgError, Source};
use forebay_testkit::Postgres;

use crate::{
    relay::Relay,
    rig::{BOTH, first, query, run, settings, source, value},
};

#[test]
fn statements_of_many_tasks_on_one_connection_come_back_to_whom_they_belong() {
    let postgres = Postgres::shared();
    run(async {
        let source = source(postgres, Driver::Pipelined);
        let pid = value(&source, "select pg_backend_pid()", &[]).await;
        let tasks: Vec<_> = (0..400)
            .map(|task| {
                let (source, pid) = (source.clone(), pid.clone());
                tokio::task::spawn_local(async move {
                    for turn in 0..10 {
                        let marker = format!("{task}/{turn}");
                        // Some come with an error, which belongs to them alone.
                        if (task + turn) % 7 == 0 {
                            let error = query(&source, "select $1::text::int", &[Some(&marker)]).await;
                            let Err(PgError::Server(error)) = error else {
                                panic!("{error:?}")
                            };
                            assert!(error.message.contains(&format!("\"{marker}\"")), "{error}");
                        }
                        let text = "select $1 || ' ' || pg_backend_pid()";
                        let rows = query(&source, text, &[Some(&marker)]).await.unwrap();
                        assert_eq!(first(&rows), format!("{marker} {pid}"));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(source.in_flight(), 0);
    });
}

#[test]
fn every_statement_has_a_sync_of_its_own() {
    let postgres = Postgres::shared();
    for driver in BOTH {
        let relay = Relay::to(postgres.port());
        let url = relay.url(&postgres.url(), postgres.port());
        let source = Source::new("main", settings(&url, driver), 1);
        run(async {
            let tasks: Vec<_> = (0..50)
                .map(|number| {
                    let source = source.clone();
                    let number = number.to_string();
                    tokio::task::spawn_local(async move {
                        value(&source, "select $1::int", &[Some(&number)]).await
                    })
                })
                .collect();
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), number.to_string());
            }
        });
        // A password in two steps comes first.
        let kinds: Vec<u8> = relay.kinds().into_iter().filter(|&kind| kind != b'p').collect();
        let (prepared, run) = kinds.split_at(3);
        assert_eq!(prepared, b"PDS");
        assert_eq!(run.len(), 150);
        assert!(run.chunks(3).all(|messages| messages == b"BES"), "{run:?}");
    }
}

#[test]
fn one_statement_more_than_may_be_under_way_is_refused() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let mut settings = settings(&postgres.url(), driver);
            settings.in_flight_max = 2;
            let source = Source::new("main", settings, 1);
            let sleep = || query(&source, "select pg_sleep(0.2)", &[]);
            let (one, two, three) = tokio::join!(sleep(), sleep(), sleep());
            assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
            assert_eq!(three.unwrap_err(), PgError::Full { in_flight_max: 2 });
            assert!(sleep().await.is_ok());
        }
    });
}

#[test]
fn what_cannot_be_sent_leaves_the_connection_as_it_was() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            let pid = value(&source, "select pg_backend_pid()", &[]).await;
            let error = query(&source, "select '\0'", &[]).await.unwrap_err();
            assert!(matches!(error, PgError::Unsendable { .. }), "{error:?}");
            let error = query(&source, "select $1", &[Some("\0")]).await.unwrap_err();
            assert!(matches!(error, PgError::Server(_)), "{error:?}");
            assert_eq!(value(&source, "select pg_backend_pid()", &[]).await, pid);
        }
    });
}

#[test]
fn what_is_about_a_whole_connection_is_refused() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            for text in [
                "begin",
                "set timezone = 'CET'",
                "copy world to stdout",
                "listen a",
            ] {
                let error = query(&source, text, &[]).await.unwrap_err();
                assert!(matches!(error, PgError::Session { .. }), "{text}: {error:?}");
            }
        }
    });
}

#[test]
fn a_pipeline_runs_what_there_is_room_for_and_refuses_the_rest() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let mut settings = settings(&postgres.url(), driver);
            settings.in_flight_max = 2;
            let source = Source::new("main", settings, 1);
            let deadline = Instant::now() + Duration::from_secs(30);
            for _ in 0..2 {
                let texts = ["select 1", "select 1 / 0", "select 3"];
                let asks = texts.map(|text| Ask::new(text, &[]));
                let outcomes = source.pipeline(&asks, deadline).await;
                assert_eq!(first(outcomes[0].as_ref().unwrap()), "1");
                assert!(matches!(&outcomes[1], Err(PgError::Server(error)) if error.code == "22012"));
                assert_eq!(
                    outcomes[2].as_ref().unwrap_err(),
                    &PgError::Full { in_flight_max: 2 }
                );
                assert_eq!(source.in_flight(), 0);
            }
        }
    });
}
