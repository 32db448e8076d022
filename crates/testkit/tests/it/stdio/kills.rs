//! Zero lost: each request is answered once, and by its own answer, however often controllers are killed.

use std::time::{Duration, Instant};

use forebay_testkit::{Load, wait_until};

use super::Dialect;
use crate::support::{metric, soak};

/// Requests of a long run, of all dialects together.
const SOAK_REQUESTS: usize = 10_000_000;

#[test]
fn every_request_is_answered_once_through_many_kills() {
    let requests = if soak() {
        SOAK_REQUESTS / Dialect::BOTH.len()
    } else {
        20_000
    };
    for dialect in Dialect::BOTH {
        let server = dialect
            .odd("workers = { min = 2, max = 2 }\nconcurrency = 8")
            .start();
        wait_until("the pool to answer", || server.post("/echo", b"1").status == 200);
        let load = Load::on(&server, "/echo")
            .connections(16)
            .requests(requests)
            .json()
            .pause_after_refusal(Duration::from_millis(2));
        let running = load.start();
        let mut kills = 0;
        let mut killed = Instant::now();
        while !running.is_finished() {
            // Each of the two gets to answer between its kills.
            if killed.elapsed() > Duration::from_millis(150)
                && let Some(&worker) = server.workers().get(kills % 2)
            {
                worker.kill();
                kills += 1;
                killed = Instant::now();
            }
            std::thread::yield_now();
        }
        let report = running.join().expect("the load does not panic");
        report.assert_each_answered(&[200, 502, 503]);
        assert!(kills > 3, "{kills} workers were killed");
        assert!(report.with_status(200) > requests / 2, "{report:?}");
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
            "{dialect:?}: {requests} requests, {kills} kills, {} answered 502 or 503",
            requests - report.with_status(200)
        );
    }
}
