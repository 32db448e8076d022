//! Databases that disappear and return under load, and what clients and metrics see; with both drivers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use forebay_testkit::{Postgres, Server, Setup, wait_until};
use serde_json::json;

use crate::support::metric;

const DRIVERS: [&str; 2] = ["async", "blocking"];

fn server(postgres: &Postgres, driver: &str, keys: &str) -> Server {
    Setup::new(&format!(
        "[sql.main]\nurl = \"{}\"\ndriver = \"{driver}\"\n{keys}\n\
         [[route]]\npath = \"/echo/:it\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", query = \"select :it::text as it from pg_sleep(0.001)\", result = \"value\" }}\n\
         [[route]]\npath = \"/divide/:it\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", query = \"select 1 / :it::int from pg_sleep(0.02)\", result = \"csv\" }}",
        postgres.url()
    ))
    .admin()
    .start()
}

#[test]
fn no_client_gets_another_ones_answer_or_none_when_all_connections_are_killed_under_load() {
    const CLIENTS: usize = 512;
    const THREADS: usize = 8;
    let postgres = Postgres::start();
    for driver in DRIVERS {
        let server = server(&postgres, driver, "");
        let is_over = AtomicBool::new(false);
        let (good, cut) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (server, is_over, good, cut) = (&server, &is_over, &good, &cut);
                scope.spawn(move || {
                    let mut clients: Vec<_> = (0..CLIENTS / THREADS).map(|_| server.connect()).collect();
                    let mut turn = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        turn += 1;
                        let marker = |client: usize| format!("{driver}-{thread}-{client}-{turn}");
                        for (number, client) in clients.iter_mut().enumerate() {
                            client.request("GET", &format!("/echo/{}", marker(number)));
                        }
                        for (number, client) in clients.iter_mut().enumerate() {
                            let answer = client.response();
                            match answer.status {
                                200 => {
                                    assert_eq!(answer.json(), json!(marker(number)));
                                    good.fetch_add(1, Ordering::Relaxed);
                                }
                                502 | 503 => drop(cut.fetch_add(1, Ordering::Relaxed)),
                                other => panic!("{driver}: {other} {}", answer.detail()),
                            }
                        }
                    }
                });
            }
            let more = || {
                let wanted = good.load(Ordering::Relaxed) + CLIENTS;
                wait_until("more good answers", || good.load(Ordering::Relaxed) >= wanted);
            };
            for _ in 0..3 {
                more();
                assert!(postgres.kill_backends() > 0);
            }
            more();
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(cut.load(Ordering::Relaxed) > 0, "{driver}: nothing was under way");
        let in_flight = "forebay_sql_statements_in_flight{database=\"main\"}";
        assert_eq!(metric(&server, in_flight), 0, "{driver}");
        assert_eq!(server.get("/echo/last").json(), json!("last"), "{driver}");
    }
}

#[test]
fn readiness_says_which_database_is_down_and_the_log_has_a_line_when_it_goes_and_one_when_it_is_back() {
    for driver in DRIVERS {
        let mut postgres = Postgres::start();
        let server = server(&postgres, driver, "");
        let ready = || server.admin().get("/health/ready");
        wait_until("the database to be reached", || ready().status == 200);
        assert_eq!(ready().json()["databases"]["main"]["state"], "ready");
        postgres.stop();
        wait_until("the server to notice", || ready().status == 503);
        let told = ready().json();
        assert_eq!(told["databases"]["main"]["state"], "failing", "{driver}: {told}");
        for _ in 0..100 {
            assert_eq!(server.get("/echo/x").status, 503, "{driver}");
        }
        // The connection is refused, or closed while the server is still ending.
        server.wait_for_log(&["the database is down"]);
        let status = server.admin().get("/status").json();
        assert_eq!(status["databases"][0]["reachable"], false, "{driver}: {status}");
        postgres.start_again();
        wait_until("the database to be reached again", || ready().status == 200);
        wait_until("an answer", || server.get("/echo/x").status == 200);
        server.wait_for_log(&["the database is back"]);
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("cannot connect")).count();
        assert!(lines <= 3, "{driver}: {lines} lines\n{log}");
        assert_eq!(
            metric(&server, "forebay_sql_reachable{database=\"main\"}"),
            1,
            "{driver}"
        );
    }
}

#[test]
fn statements_are_counted_by_database_and_by_route_and_slow_ones_are_told_of() {
    for driver in DRIVERS {
        let server = server(Postgres::shared(), driver, "slow_query = \"10ms\"");
        for path in ["/divide/1", "/divide/0", "/divide/x", "/divide/1"] {
            server.get(path);
        }
        let of = |family: &str, label: &str| metric(&server, &format!("forebay_sql_{family}{{{label}}}"));
        let route = "route=\"GET /divide/:it\"";
        wait_until("all to be over", || of("route_statements_in_flight", route) == 0);
        assert_eq!(
            of("route_statements_total", &format!("{route},outcome=\"done\"")),
            2,
            "{driver}"
        );
        assert_eq!(
            of("route_statements_total", &format!("{route},outcome=\"data\"")),
            2,
            "{driver}"
        );
        assert_eq!(
            of("route_errors_total", &format!("{route},class=\"22\"")),
            2,
            "{driver}"
        );
        assert_eq!(
            of("errors_total", "database=\"main\",class=\"22\""),
            2,
            "{driver}"
        );
        assert_eq!(of("route_rows_total", route), 2, "{driver}");
        assert_eq!(of("rows_total", "database=\"main\""), 2, "{driver}");
        for family in ["route_wait_seconds_count", "route_execution_seconds_count"] {
            assert_eq!(of(family, route), 4, "{driver} {family}");
        }
        assert_eq!(of("execution_seconds_count", "database=\"main\""), 4, "{driver}");
        server.wait_for_log(&["a slow statement", "select 1 / $1::int from pg_sleep(0.02)"]);
    }
}
