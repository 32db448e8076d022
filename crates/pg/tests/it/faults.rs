//! Servers that are missing, disappear, or misbehave.

use std::{
    cell::Cell,
    net::{Ipv4Addr, TcpListener},
    rc::Rc,
    time::{Duration, Instant},
};

use forebay_pg::{Ask, Code, Driver, PgError, Source, Stage};
use forebay_testkit::Postgres;

use crate::{
    relay::{CUT, Relay},
    rig::{BOTH, PATIENCE, query, run, settings, source, value, works},
};

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

        // For statements sent together, waiting for a connection has the same time limit as the statements.
        for driver in BOTH {
            let waiting = Source::new("main", settings(&silent, driver), 1);
            let asks = ["select 1", "select 2"].map(|text| Ask::new(text, &[]));
            let outcomes = waiting.pipeline(&asks, Instant::now() + limit).await;
            let (what, limit) = (Stage::Statement, PATIENCE);
            let late = PgError::TimedOut { what, limit };
            for outcome in outcomes {
                assert_eq!(outcome.unwrap_err(), late, "{driver:?}");
            }
        }
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
fn a_connection_that_ends_in_the_middle_of_a_row_is_told_to_its_own_statements_and_to_no_other() {
    let postgres = Postgres::shared();
    let relay = Relay::to(postgres.port());
    let url = relay.url(&postgres.url(), postgres.port());
    let cut = std::str::from_utf8(CUT).unwrap();
    // In two halves, so that only the server's answer contains the marker.
    let (half, other) = cut.split_at(3);
    let text = "select repeat('x', 3000) || $1 || $2 || repeat('y', 30000) from generate_series(1, 3)";
    let rows = "select case n when 500 then $1 || $2 else 'x' end from generate_series(1, 1000) n";
    run(async {
        for driver in BOTH {
            let source = source_of(&url, driver);
            for turn in 0..5 {
                let before = format!("before {turn}");
                assert_eq!(value(&source, "select $1", &[Some(&before)]).await, before);
                let cut = query(&source, text, &[Some(half), Some(other)]).await;
                assert_eq!(cut.unwrap_err().code(), Code::Broken, "{driver:?}");
                let after = format!("after {turn}");
                assert_eq!(value(&source, "select $1", &[Some(&after)]).await, after);

                let parameters = [Some(half.as_bytes()), Some(other.as_bytes())];
                let deadline = Instant::now() + PATIENCE;
                let mut stream = source.stream(rows, &parameters, deadline).await.unwrap();
                let mut come = 0;
                let error = loop {
                    match stream.next().await {
                        Ok(row) => {
                            assert_eq!(row.unwrap().text(0), Some(&b"x"[..]));
                            come += 1;
                        }
                        Err(error) => break error,
                    }
                };
                assert_eq!((error.code(), come < 500), (Code::Broken, true), "{come}");
            }
            assert_eq!(source.in_flight(), 0);
        }
    });
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
