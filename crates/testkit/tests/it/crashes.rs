//! Workers that die: by themselves, by their handler, by a signal from outside.

use std::time::{Duration, Instant};

use forebay_testkit::{Client, Load, Process, Report, Server, wait_until, watch};

use crate::support::{ONE_WORKER, Runtime, TOOLBOX, node, noted, open, wait_for_note, wait_until_ready};

#[test]
fn a_request_whose_worker_dies_gets_502_and_those_behind_it_another_worker() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        wait_until_ready(&server);
        let worker = server.wait_for_workers(1)[0];
        let mut running = server.connect();
        running.request("GET", "/hold/gate/running");
        wait_for_note(&server, "begin running");
        let mut behind: Vec<_> = (0..10)
            .map(|number| {
                let mut client = server.connect();
                client.request("GET", &format!("/hold/gate/{number}"));
                client
            })
            .collect();
        worker.kill();
        let answer = running.response();
        assert_eq!(answer.status, 502, "{runtime:?}");
        assert!(
            answer.detail().contains("ended while it ran the request"),
            "{}",
            answer.detail()
        );
        open(&server, "gate");
        for client in &mut behind {
            let answer = client.response();
            assert_eq!(answer.status, 200);
            assert!(!answer.text().ends_with(&format!(" {}", worker.pid)));
        }
    }
}

#[test]
fn every_way_to_die_costs_one_answer_each() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        for target in [
            "/exit/0",
            "/exit/3",
            "/kill-self",
            "/throw-later",
            "/reject-unheard",
        ] {
            let before = server.get("/pid");
            assert_eq!(server.get(target).status, 502, "{target} on {runtime:?}");
            let after = server.get("/pid");
            assert_eq!(after.status, 200);
            assert_ne!(before.text(), after.text(), "{target} on {runtime:?}");
        }
    }
}

#[test]
fn an_idempotent_request_runs_again_once_where_the_route_says_so() {
    let keys = format!("{ONE_WORKER}\nretry = \"idempotent\"");
    let server = node(TOOLBOX, &keys).start();
    assert_eq!(server.get("/once/a").text(), "again a");
    assert_eq!(server.folder().read("a").as_deref(), Some("xx"), "it ran twice");
    assert_eq!(server.post("/once/b", b"").status, 502, "POST is not idempotent");
    assert_eq!(server.folder().read("b").as_deref(), Some("x"), "it ran once");
    assert_eq!(server.get("/exit/1").status, 502, "the second time is the last");
    let never = node(TOOLBOX, ONE_WORKER).start();
    assert_eq!(
        never.get("/once/a").status,
        502,
        "nothing runs again unless it may"
    );
    assert_eq!(never.folder().read("a").as_deref(), Some("x"));
}

#[test]
fn a_handler_that_throws_is_answered_with_500_and_keeps_its_worker() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        let worker = server.get("/pid");
        for target in ["/throw", "/reject", "/bigint", "/circle", "/function"] {
            let answer = server.get(target);
            assert_eq!(answer.status, 500, "{target} on {runtime:?}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert!(
                !answer.text().contains("secret"),
                "the cause is for the log: {}",
                answer.text()
            );
            assert!(!answer.text().contains("api.mjs"), "no stack: {}", answer.text());
        }
        server.wait_for_log(&["a secret about the inside"]);
        assert_eq!(server.get("/pid").text(), worker.text());
    }
}

/// Repeatedly kills the worker that has been ready longest while `load` runs to its end; returns the report and the number of kills.
/// Workers that are still starting are spared: where a start takes longer than the time between two kills, none would ever finish.
fn kill_under(server: &Server, load: &Load, every: Duration) -> (Report, usize) {
    let mut admin = server.admin();
    let begun = Instant::now();
    let mut kills = 0;
    let report = watch(load.start(), || {
        assert_eq!(
            admin.get("/health/ready").status,
            200,
            "the pool is never unready"
        );
        let due = begun.elapsed() >= every * (kills as u32 + 1);
        if let Some(worker) = due.then(|| ready_worker(&mut admin)).flatten() {
            worker.kill();
            kills += 1;
        }
    });
    (report, kills)
}

/// The worker of the first pool that has been ready longest.
fn ready_worker(admin: &mut Client) -> Option<Process> {
    let status = admin.get("/status").json();
    let workers = status["pools"][0]["workers"].as_array()?;
    let ready = workers.iter().find(|worker| worker["phase"] == "ready")?;
    Process::with_pid(ready["pid"].as_u64()? as u32)
}

/// One million with `FOREBAY_SOAK=1`.
#[test]
fn workers_killed_twice_a_second_cost_at_most_one_502_each_and_nothing_else() {
    let requests = if crate::support::soak() { 1_000_000 } else { 60_000 };
    for runtime in Runtime::BOTH {
        let server = runtime
            .pool(TOOLBOX, "workers = { min = 2, max = 2 }")
            .admin()
            .start();
        wait_until("both workers to be ready", || {
            server.admin().get("/health/ready").status == 200
        });
        let load = Load::on(&server, "/echo").connections(32).requests(requests);
        let (report, kills) = kill_under(&server, &load, Duration::from_millis(500));
        report.assert_each_answered(&[200, 502]);
        assert!(kills > 0, "too fast to be killed: {:?}", report.elapsed);
        assert!(
            report.with_status(502) <= kills,
            "{runtime:?}: {kills} kills: {report}"
        );
        assert_eq!(server.get("/here").status, 200);
    }
}

#[test]
fn a_pool_that_cannot_start_says_why_backs_off_and_recovers() {
    let source = r"
        import { appendFileSync, existsSync } from 'node:fs';
        appendFileSync('ran', 'start\n');
        if (!existsSync('database')) {
            console.error('no database at port 5432');
            throw new Error('refused to start');
        }
        export default () => 'works';
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        wait_until("a refusal", || server.get("/").status == 503);
        let refused = server.get("/");
        assert!(refused.header("retry-after").is_some());
        server.wait_for_log(&["ERROR", "api", "refused to start"]);
        server.wait_for_log(&["no database at port 5432"]);
        // Pauses double from 100 ms: four starts take 700 ms at least, a fifth one 1.5 s.
        let begun = Instant::now();
        wait_until("five starts", || {
            assert_eq!(server.get("/").status, 503, "nothing is ever kept waiting");
            noted(&server).len() >= 5
        });
        assert!(
            begun.elapsed() > Duration::from_millis(700),
            "{runtime:?}: {:?}",
            begun.elapsed()
        );
        open(&server, "database");
        wait_until("the pool to recover", || server.get("/").status == 200);
        assert_eq!(server.get("/").text(), "works");
    }
}
