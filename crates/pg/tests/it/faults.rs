//! Servers that are not there, not there any more, or not what they should be.

use std::{
    cell::Cell,
    net::{Ipv4Addr, TcpListener},
    rc::Rc,
    time::Duration,
};

use forebay_pg::{Driver, PgError, Source, Stage};
use forebay_testkit::Postgres;

use crate::rig::{BOTH, query, run, settings, source, value, works};

fn source_of(url: &str, driver: Driver) -> Source {
    Source::new("main", settings(url, driver), 1)
}

#[test]
fn who_cannot_log_in_is_told_why() {
    let postgres = Postgres::shared();
    let url = postgres.url();
    let (user, place) = url.split_once('@').unwrap();
    let (user, _) = user.rsplit_once(':').unwrap();
    let (address, rest) = place.split_once('/').unwrap();
    let (_, options) = rest.split_once('?').unwrap();
    run(async {
        for driver in BOTH {
            for (url, part) in [
                (format!("{user}:wrong@{place}"), "password authentication failed"),
                (format!("{user}@{place}"), "the URL has none"),
                (
                    url.replace(rest, &format!("nowhere?{options}")),
                    "\"nowhere\" does not exist",
                ),
                (url.replace("disable", "verify-full"), "the server has no TLS"),
                (url.replace(address, "127.0.0.1:1"), "refused"),
            ] {
                let error = query(&source_of(&url, driver), "select 1", &[])
                    .await
                    .unwrap_err();
                let text = error.to_string();
                assert!(text.contains(part), "{text}");
                assert!(!text.contains("wrong"), "{text}");
            }
        }
    });
}

#[test]
fn what_takes_too_long_says_what_it_was() {
    let postgres = Postgres::shared();
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent = format!("postgres://u@{}/d?sslmode=disable", silent.local_addr().unwrap());
    let limit = Duration::from_millis(50);
    run(async {
        for driver in BOTH {
            let mut slow = settings(&postgres.url(), driver);
            slow.statement_timeout = limit;
            let error = query(&Source::new("main", slow, 1), "select pg_sleep(1000)", &[]).await;
            let what = Stage::Statement;
            assert_eq!(error.unwrap_err(), PgError::TimedOut { what, limit });

            let mut unconnected = settings(&silent, driver);
            unconnected.connect_timeout = limit;
            let error = query(&Source::new("main", unconnected, 1), "select 1", &[]).await;
            let what = Stage::Connect;
            assert_eq!(error.unwrap_err(), PgError::TimedOut { what, limit });
        }
        let mut busy = settings(&postgres.url(), Driver::Blocking);
        let limit = Duration::from_millis(500);
        busy.acquire_timeout = limit;
        let busy = Source::new("main", busy, 1);
        value(&busy, "select 1", &[]).await;
        let (_, error) = tokio::join!(
            query(&busy, "select pg_sleep(1.5)", &[]),
            query(&busy, "select 1", &[])
        );
        let what = Stage::Acquire;
        assert_eq!(error.unwrap_err(), PgError::TimedOut { what, limit });

        let mut unconnected = settings(&silent, Driver::Pipelined);
        unconnected.acquire_timeout = limit;
        let error = query(&Source::new("main", unconnected, 1), "select 1", &[]).await;
        assert_eq!(error.unwrap_err(), PgError::TimedOut { what, limit });
    });
}

#[test]
fn a_server_that_stops_is_told_and_one_that_comes_back_is_used_again() {
    for driver in BOTH {
        let mut postgres = Postgres::start();
        let source = source(&postgres, driver);
        run(async {
            value(&source, "select 1", &[]).await;
            std::thread::scope(|scope| scope.spawn(|| postgres.stop()).join().unwrap());
            for _ in 0..3 {
                let error = query(&source, "select 1", &[]).await.unwrap_err();
                let is_told = matches!(
                    error,
                    PgError::Connect { .. } | PgError::Broken { .. } | PgError::Server(_)
                );
                assert!(is_told, "{error:?}");
            }
            std::thread::scope(|scope| scope.spawn(|| postgres.start_again()).join().unwrap());
            works(&source).await;
        });
    }
}

#[test]
fn when_all_connections_are_killed_every_statement_has_an_outcome_and_the_next_ones_work() {
    let postgres = Postgres::start();
    for driver in BOTH {
        let mut settings = settings(&postgres.url(), driver);
        settings.connections_max = 4;
        let source = Source::new("main", settings, 1);
        run(async {
            let is_over = Rc::new(Cell::new(false));
            let good = Rc::new(Cell::new(0));
            let tasks: Vec<_> = (0..50)
                .map(|task| {
                    let (source, is_over) = (source.clone(), Rc::clone(&is_over));
                    let good = Rc::clone(&good);
                    tokio::task::spawn_local(async move {
                        let mut turn = 0;
                        while !is_over.get() {
                            turn += 1;
                            let marker = format!("{task}/{turn}");
                            match query(&source, "select $1 from pg_sleep(0.002)", &[Some(&marker)]).await {
                                Ok(rows) => {
                                    assert_eq!(rows.rows[0].text(0), Some(marker.as_bytes()));
                                    good.set(good.get() + 1);
                                }
                                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                            }
                        }
                    })
                })
                .collect();
            let more = async || {
                let wanted = good.get() + 200;
                while good.get() < wanted {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            more().await;
            let killed = std::thread::scope(|scope| scope.spawn(|| postgres.kill_backends()).join().unwrap());
            assert!(killed > 0);
            more().await;
            is_over.set(true);
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(source.in_flight(), 0);
            works(&source).await;
        });
    }
}
