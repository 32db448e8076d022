//! Many concurrent statements.

use std::time::{Duration, Instant};

use forebay_pg::{Ask, Beginning, Driver, PgError, Rows, Source};
use forebay_testkit::Postgres;

use crate::{
    relay::Relay,
    rig::{BOTH, PATIENCE, first, query, run, settings, source, value},
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
                        // Some fail, which affects only them.
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
        // The password exchange, in two steps, comes first.
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

async fn pipeline(source: &Source, texts: &[&str], deadline: Instant) -> Vec<Result<Rows, PgError>> {
    let asks: Vec<_> = texts.iter().map(|text| Ask::new(text, &[])).collect();
    source.pipeline(&asks, deadline).await
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

#[test]
fn a_pipeline_is_sent_before_its_first_statement_is_answered() {
    let postgres = Postgres::shared();
    for driver in BOTH {
        let relay = Relay::to(postgres.port());
        let url = relay.url(&postgres.url(), postgres.port());
        let source = Source::new("main", settings(&url, driver), 1);
        run(async {
            let holder = crate::rig::source(postgres, Driver::Pipelined);
            let texts = ["select pg_advisory_xact_lock_shared(11)", "select 2", "select 3"];
            pipeline(&source, &texts, soon()).await;
            let before = relay.kinds().len();
            let mut lock = holder.begin(Beginning::default(), soon()).await.unwrap();
            lock.query("select pg_advisory_xact_lock(11)", &[]).await.unwrap();
            let sent = async {
                let begun = Instant::now();
                while relay.kinds().len() < before + 9 {
                    assert!(
                        begun.elapsed() < PATIENCE,
                        "{driver:?}: {:?}",
                        &relay.kinds()[before..]
                    );
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                lock.commit().await.unwrap();
            };
            let (outcomes, ()) = tokio::join!(pipeline(&source, &texts, soon()), sent);
            assert_eq!(&relay.kinds()[before..], b"BESBESBES");
            assert_eq!(first(outcomes[2].as_ref().unwrap()), "3");
        });
    }
}

#[test]
fn a_pipeline_of_large_statements_with_large_results_comes_to_its_end() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            let large = "x".repeat(1 << 20);
            let given: Vec<_> = (0..48)
                .map(|number: usize| {
                    format!(
                        "{number}{}",
                        &large[..if number.is_multiple_of(3) { 7 } else { 1 << 20 }]
                    )
                })
                .collect();
            let parameters: Vec<_> = given.iter().map(|given| [Some(given.as_bytes())]).collect();
            let asks: Vec<_> = parameters
                .iter()
                .map(|parameters| Ask::new("select $1::text", parameters))
                .collect();
            for _ in 0..2 {
                let outcomes = source.pipeline(&asks, soon()).await;
                for (outcome, given) in outcomes.iter().zip(&given) {
                    assert!(first(outcome.as_ref().unwrap()) == given);
                }
            }
        }
    });
}

#[test]
fn a_result_of_a_pipeline_that_is_too_large_leaves_the_others() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let mut settings = settings(&postgres.url(), driver);
            settings.result_bytes_max = 1000;
            let source = Source::new("main", settings, 1);
            let endless = "select repeat('x', 100), generate_series(1, 1000000000)";
            for _ in 0..2 {
                let outcomes = pipeline(&source, &["select 1", endless, "select 3"], soon()).await;
                assert_eq!(first(outcomes[0].as_ref().unwrap()), "1");
                let too_large = PgError::TooLarge {
                    result_bytes_max: 1000,
                };
                assert_eq!(outcomes[1].as_ref().unwrap_err(), &too_large);
                assert_eq!(first(outcomes[2].as_ref().unwrap()), "3");
            }
        }
    });
}

#[test]
fn what_of_a_pipeline_is_over_in_time_is_told_and_the_rest_is_cancelled() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            let pid = value(&source, "select pg_backend_pid()", &[]).await;
            let texts = [
                "select 1",
                "select pg_sleep(1000)",
                "select pg_sleep(2000)",
                "select 4",
            ];
            // The second time all are sent together.
            for _ in 0..2 {
                let outcomes = pipeline(&source, &texts, Instant::now() + Duration::from_millis(300)).await;
                assert_eq!(first(outcomes[0].as_ref().unwrap()), "1");
                for outcome in &outcomes[1..] {
                    assert!(matches!(outcome, Err(PgError::TimedOut { .. })), "{outcome:?}");
                }
            }
            assert_eq!(
                value(&source, "select pg_backend_pid()", &[]).await,
                pid,
                "{driver:?}"
            );
        }
    });
}

#[test]
fn a_pipeline_whose_connection_ends_says_why_and_what_is_behind_has_an_outcome_too() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            let end = "select pg_terminate_backend(pg_backend_pid()) from pg_sleep(0)";
            for text in ["select 1", "select 3"] {
                value(&source, text, &[]).await;
            }
            let outcomes = pipeline(&source, &["select 1", end, "select 3", "select 1"], soon()).await;
            assert_eq!(first(outcomes[0].as_ref().unwrap()), "1");
            assert!(
                matches!(&outcomes[1], Err(PgError::Server(error)) if error.code == "57P01"),
                "{driver:?}: {outcomes:?}"
            );
            for outcome in &outcomes[2..] {
                // Statements not sent yet go to the next connection.
                assert!(
                    matches!(outcome, Ok(_) | Err(PgError::Broken { .. })),
                    "{outcome:?}"
                );
            }
            crate::rig::works(&source).await;
        }
    });
}

#[test]
fn statements_of_a_pipeline_whose_result_has_changed_are_prepared_anew() {
    let postgres = Postgres::start();
    let mut admin = postgres.admin();
    for driver in BOTH {
        admin
            .batch_execute("drop table if exists parts; create table parts (a int); insert into parts values (1); grant all on parts to benchmarkdbuser")
            .unwrap();
        let source = source(&postgres, driver);
        run(async {
            let texts = ["select * from parts", "select 2", "select * from parts"];
            pipeline(&source, &texts, soon()).await;
            std::thread::scope(|scope| {
                scope.spawn(|| admin.batch_execute("alter table parts add b text").unwrap());
            });
            let outcomes = pipeline(&source, &texts, soon()).await;
            let columns = |at: usize| outcomes[at].as_ref().unwrap().columns.len();
            assert_eq!((columns(0), columns(1), columns(2)), (2, 1, 2));
        });
    }
}
