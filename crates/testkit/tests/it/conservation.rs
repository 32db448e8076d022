//! Accepted = answered + rejected with a reason, whatever happens.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use forebay_testkit::{Client, Load, Server, wait_until};

use crate::support::{Runtime, TOOLBOX, metric, soak, wait_until_ready};

/// The sum of all series of a metric of the pool `api`.
fn sum(server: &Server, name: &str) -> u64 {
    let metrics = server.admin().get("/metrics");
    let prefix = format!("{name}{{pool=\"api\"");
    let series = metrics.text().lines().filter(|line| line.starts_with(&prefix));
    series
        .map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|value| value.parse::<u64>().ok())
                .expect("a whole number")
        })
        .sum()
}

/// Repeats requests of one kind until the storm is over. Returns how many of them were answered.
fn insist(server: &Server, over: &AtomicBool, target: &str, leaves: bool) -> u64 {
    let mut answered = 0;
    while !over.load(Ordering::Relaxed) {
        let mut client: Client = server.connect();
        client.request("GET", target);
        if !leaves {
            let answer = client.response();
            assert!(
                [200, 500, 502, 503, 504].contains(&answer.status),
                "{target}: {answer:?}"
            );
            answered += 1;
        }
    }
    answered
}

#[test]
fn every_accepted_job_ends_once_through_kills_faults_timeouts_overload_and_leaving_clients() {
    let length = Duration::from_secs(if soak() { 120 } else { 3 });
    for runtime in Runtime::BOTH {
        let keys = "workers = { min = 2, max = 3 }\nqueue_max = 12\nrun_timeout = \"150ms\"\nkill_grace = \"50ms\"\nidle_retire = \"100ms\"\n\
             recycle = { jobs = 2000 }\nretry = \"idempotent\"";
        let server = runtime.pool(TOOLBOX, keys).admin().start();
        wait_until_ready(&server);
        let over = AtomicBool::new(false);
        let load = Load::on(&server, "/turn").connections(24);
        let running = load.start();
        thread::scope(|scope| {
            for (target, leaves) in [
                ("/throw", false),
                ("/exit/1", false),
                ("/spin", false),
                ("/wait/never/x", false),
                ("/pid", true),
                ("/wait/never/y", true),
            ] {
                let (server, over) = (&server, &over);
                scope.spawn(move || insist(server, over, target, leaves));
            }
            let begun = Instant::now();
            let mut kills = 0;
            while begun.elapsed() < length {
                let queued = metric(&server, "forebay_pool_queue_jobs{pool=\"api\"}");
                // A job that is retried returns to its place in the queue, beyond the bound for new ones.
                assert!(queued <= 12 + 3, "{queued} jobs wait");
                if begun.elapsed() > Duration::from_millis(400) * (kills + 1) {
                    kills += 1;
                    server
                        .workers()
                        .into_iter()
                        .for_each(forebay_testkit::Process::kill);
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        load.end();
        let report = running.join().expect("the load does not panic");
        report.assert_each_answered(&[200, 502, 503, 504]);
        wait_until("the last job to end", || {
            let accepted = sum(&server, "forebay_pool_jobs_accepted_total");
            let ended = ["answered", "faulted", "cancelled", "failed"]
                .map(|end| sum(&server, &format!("forebay_pool_jobs_{end}_total")));
            // Requests of clients that have left may still be read, so the queue is polled as long as the sums.
            let queued = metric(&server, "forebay_pool_queue_jobs{pool=\"api\"}");
            accepted == ended.iter().sum::<u64>() && accepted > 0 && queued == 0
        });
        wait_until("the queue to hold no bytes", || {
            metric(&server, "forebay_pool_queue_bytes{pool=\"api\"}") == 0
        });
        let started = sum(&server, "forebay_pool_workers_started_total");
        wait_until(
            "the workers that were started to be there or to have ended",
            || {
                let ended = sum(&server, "forebay_pool_workers_ended_total");
                sum(&server, "forebay_pool_workers_started_total") == ended + server.workers().len() as u64
            },
        );
        assert!(started > 5, "{started} workers were started");
        wait_until("the pool to answer", || server.get("/pid").status == 200);
    }
}
