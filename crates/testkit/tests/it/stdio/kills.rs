//! No loss: each request gets exactly one response, its own, however often controllers are killed.

use std::time::{Duration, Instant};

use forebay_testkit::{Load, Setup, wait_until};

use super::{
    Dialect,
    sdk::{CONTROLLER, WAYS},
};
use crate::support::{metric, soak};

/// Requests of a long run, of all dialects together, unless `FOREBAY_SOAK_REQUESTS` sets another number.
const SOAK_REQUESTS: usize = 10_000_000;

/// Kills of a short run.
const KILLS: usize = 5;

/// A pool `api` to be killed, and the shortest life of its workers.
fn victims() -> Vec<(String, Setup, Duration)> {
    let keys = "workers = { min = 2, max = 2 }\nconcurrency = 8";
    let odd = Dialect::BOTH.map(|dialect| {
        let setup = dialect.odd(keys);
        (
            format!("{dialect:?} without the SDK"),
            setup,
            Duration::from_millis(150),
        )
    });
    let ours = WAYS[1..].iter().map(|(way, own)| {
        let setup = Setup::new(&format!(
            "[pool.api]\nhandler = \"controller.mjs\"\n{keys}\n{own}\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
        ));
        let setup = setup.file("controller.mjs", CONTROLLER).admin();
        ((*way).to_owned(), setup, Duration::from_millis(600))
    });
    odd.into_iter().chain(ours).collect()
}

fn soak_requests() -> usize {
    let said = std::env::var("FOREBAY_SOAK_REQUESTS").ok();
    said.map_or(SOAK_REQUESTS, |text| {
        text.parse().expect("FOREBAY_SOAK_REQUESTS is a whole number")
    })
}

#[test]
fn every_request_is_answered_once_through_many_kills() {
    let victims = victims();
    let requests = if soak() {
        soak_requests() / victims.len()
    } else {
        usize::MAX
    };
    let (mut sent, mut all_kills, mut answered) = (0, 0, 0);
    for (name, setup, life) in victims {
        let server = setup.start();
        wait_until("the pool to answer", || {
            server.post("/pool/echo", b"1").status == 200
        });
        let load = Load::on(&server, "/pool/echo")
            .connections(16)
            .requests(requests)
            .json()
            .pause_after_refusal(Duration::from_millis(2));
        let running = load.start();
        let mut kills = 0;
        let mut killed = Instant::now();
        while !running.is_finished() {
            wait_until("a worker to kill", || {
                running.is_finished() || killed.elapsed() > life && server.workers().len() == 2
            });
            if let [first, second] = &server.workers()[..] {
                [first, second][kills % 2].kill();
                kills += 1;
                killed = Instant::now();
            }
            if kills >= KILLS && !soak() {
                load.end();
            }
        }
        let report = running.join().expect("the load does not panic");
        report.assert_each_answered(&[200, 502, 503]);
        // A short run may be over before.
        assert!(kills >= KILLS || soak(), "{name}: {kills} workers were killed");
        assert!(kills > 0, "{name}: nobody was killed");
        assert!(report.with_status(200) > report.sent / 2, "{name}: {report}");
        let count = |name: &str| {
            metric(
                &server,
                &format!("forebay_pool_jobs_{name}_total{{pool=\"api\"}}"),
            )
        };
        wait_until("the sums to be right", || {
            let died = metric(
                &server,
                "forebay_pool_jobs_failed_total{pool=\"api\",reason=\"worker_died\"}",
            );
            count("accepted") == count("answered") + count("faulted") + count("cancelled") + died
        });
        eprintln!(
            "{name}: {} requests, {kills} kills, {} answered 502 or 503, none lost",
            report.sent,
            report.sent - report.with_status(200)
        );
        sent += report.sent;
        all_kills += kills;
        answered += report.by_status.values().sum::<usize>();
    }
    assert_eq!(answered, sent, "each request has one answer");
    eprintln!("{sent} requests, {all_kills} kills, {answered} answers");
}
