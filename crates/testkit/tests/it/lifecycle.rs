//! The number of workers, and when they start and end.

use forebay_testkit::{Client, Load, Server, wait_until};

use crate::support::{ONE_WORKER, Runtime, TOOLBOX, node, noted, open, wait_for_note, wait_until_ready};

/// Sends requests that keep `count` workers busy until the gate opens.
fn occupy(server: &Server, count: usize) -> Vec<Client> {
    (0..count)
        .map(|number| {
            let mut client = server.connect();
            client.request("GET", &format!("/hold/gate/{number}"));
            client
        })
        .collect()
}

#[test]
fn workers_are_started_on_demand_up_to_the_maximum_and_retired_when_idle() {
    for runtime in Runtime::BOTH {
        let keys = "workers = { min = 1, max = 3 }\nidle_retire = \"300ms\"";
        let server = runtime.pool(TOOLBOX, keys).start();
        server.wait_for_workers(1);
        let mut busy = occupy(&server, 6);
        wait_until("three to run", || noted(&server).len() == 3);
        assert_eq!(server.workers().len(), 3, "{runtime:?}");
        open(&server, "gate");
        for client in &mut busy {
            assert_eq!(client.response().status, 200);
        }
        server.wait_for_workers(1);
        assert_eq!(server.get("/pid").status, 200);
    }
}

#[test]
fn a_pool_without_a_minimum_has_no_process_until_it_is_asked() {
    let keys = "workers = { min = 0, max = 1 }\nidle_retire = \"300ms\"";
    let server = node(TOOLBOX, keys).start();
    assert_eq!(server.get("/here").status, 200);
    assert!(server.workers().is_empty());
    let first = server.get("/pid");
    assert_eq!(first.status, 200, "the first request waits for the start");
    server.wait_for_workers(0);
    let second = server.get("/pid");
    assert_eq!(second.status, 200);
    assert_ne!(first.text(), second.text());
}

#[test]
fn recycling_replaces_workers_without_a_failed_request() {
    for (name, keys, body_bytes) in [
        ("jobs", "recycle = { jobs = 500 }", 0),
        ("age", "recycle = { age = \"300ms\" }", 0),
    ] {
        for runtime in Runtime::BOTH {
            let keys = format!("workers = {{ min = 2, max = 2 }}\n{keys}");
            let server = runtime.pool(TOOLBOX, &keys).start();
            wait_until_ready(&server);
            let before = server.wait_for_workers(2);
            let load = Load::on(&server, "/echo").connections(8).body_bytes(body_bytes);
            let running = load.start();
            wait_until("both workers to be replaced", || {
                before.iter().all(|worker| !worker.is_alive())
            });
            load.end();
            let report = running.join().expect("the load does not panic");
            report.assert_each_answered(&[200]);
            assert!(report.sent > 0, "{name} on {runtime:?}");
        }
    }
}

#[test]
fn a_worker_that_has_grown_too_large_is_replaced() {
    let keys = format!("{ONE_WORKER}\nrecycle = {{ rss = \"200MiB\" }}");
    let server = node(TOOLBOX, &keys).start();
    let before = server.post("/grow/1", b"");
    assert_eq!(server.post("/grow/300", b"").text(), before.text());
    wait_until("another worker", || {
        let now = server.get("/pid");
        assert_eq!(now.status, 200, "its replacement is ready first");
        now.text() != before.text()
    });
}

const HOOKS: &str = r"
    import { appendFileSync } from 'node:fs';
    import { router } from 'forebay';
    const note = (line) => appendFileSync('ran', `${line}\n`);
    note('handler loaded');
    export default router()
        .onStart(async (ctx) => {
            await new Promise((resolve) => setTimeout(resolve, 5));
            ctx.state.greeting = 'prepared';
            note('hook started');
        })
        .onStop(async () => {
            await new Promise((resolve) => setTimeout(resolve, 5));
            note('hook stopped');
        })
        .get('/*', (request, ctx) => `${ctx.state.greeting} ${globalThis.fromStart}`);
";

#[test]
fn start_modules_and_hooks_run_once_in_each_worker_before_its_first_request_and_after_its_last() {
    let start = "import { appendFileSync } from 'node:fs'; globalThis.fromStart = 'early'; appendFileSync('ran', 'start module\\n');";
    for runtime in Runtime::BOTH {
        let keys = format!("{ONE_WORKER}\nstart = \"start.mjs\"");
        let mut server = runtime.pool(HOOKS, &keys).file("start.mjs", start).start();
        for _ in 0..3 {
            assert_eq!(server.get("/").text(), "prepared early", "{runtime:?}");
        }
        server.terminate();
        assert!(server.wait().success());
        let notes = noted(&server);
        assert_eq!(
            notes,
            ["start module", "handler loaded", "hook started", "hook stopped"],
            "{runtime:?}"
        );
    }
}

#[test]
fn a_worker_gets_only_the_environment_it_was_given() {
    let keys = format!("{ONE_WORKER}\nenv = {{ COLOUR = \"blue\" }}\nenv_pass = [\"FOREBAY_BUN\"]");
    let server = node(TOOLBOX, &keys).start();
    let value = |name: &str| server.get(&format!("/env/{name}")).json()["value"].clone();
    assert_eq!(value("COLOUR"), "blue");
    assert!(value("PATH").is_string());
    assert!(value("FOREBAY_BUN").is_string(), "passed because it is named");
    assert!(
        value("CARGO_MANIFEST_DIR").is_null(),
        "in the server's environment, and not passed"
    );
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
}

#[test]
fn a_request_that_runs_while_its_worker_is_retired_is_answered() {
    let keys = "workers = { min = 1, max = 1 }\nrecycle = { age = \"200ms\" }";
    let server = node(TOOLBOX, keys).start();
    wait_until_ready(&server);
    let worker = server.wait_for_workers(1)[0];
    let mut running = server.connect();
    running.request("GET", "/hold/gate/running");
    wait_for_note(&server, "begin running");
    wait_until("the replacement", || server.workers().len() == 2);
    let other = server.get("/pid");
    assert_eq!(other.status, 200, "the replacement takes what comes");
    open(&server, "gate");
    let answer = running.response();
    assert_eq!(answer.text(), format!("running {}", worker.pid));
    wait_until("the old worker to end", || !worker.is_alive());
}
