//! Several servers with one store in a database: they have the same releases, and do each durable run once.

use std::{sync::Barrier, thread};

use forebay_testkit::{Postgres, Server, Setup, postgres::Schema, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    support::metric,
    workflow_releases::{import, workflow},
    workflow_runs::{RUNS, accept, after, post, setup_with, state, told},
};

fn setup(schema: &Schema, keys: &str) -> Setup {
    setup_with(&format!("url = \"{}\"", schema.url()), keys)
}

/// A server on which the workflow `wait` ends at once, and says that it ran there.
fn quick(schema: &Schema, name: &str) -> Server {
    let rule = format!("function process() {{ return new ScriptResult(true, {{ by: '{name}' }}); }}");
    setup(schema, RUNS).file("flows/rules/wait.js", rule).start()
}

/// Makes the locks of all servers that run now end. Nobody extends them again.
fn end_locks(schema: &Schema) {
    schema.run("delete from SCHEMA.locks");
}

/// Numbers of the owners of locks.
fn owners(schema: &Schema) -> Vec<i64> {
    let owners = schema.filled("select distinct owner from SCHEMA.locks");
    let owners = Postgres::shared()
        .admin()
        .query(&owners, &[])
        .expect("the server answers");
    owners.iter().map(|owner| owner.get(0)).collect()
}

fn keyed(server: &Server, workflow: &str, key: &str, n: u32) -> Value {
    let response = post(
        server,
        workflow,
        &format!("idempotency-key: {key}\r\n"),
        &json!({ "n": n }),
    );
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["valueMap"].clone()
}

#[test]
fn what_is_published_at_one_server_is_in_force_at_all() {
    let schema = Schema::new();
    let config = format!(
        "[store]\nurl = \"{}\"\n[workflow]\nstore = \"Workflow\"\n[[route]]\npath = \"/workflow/*\"\nworkflow = {{}}\n",
        schema.url()
    );
    let servers = [(); 2].map(|()| Setup::new(&config).threads(1).start());
    let version = |server: &Server| {
        let response = server.post("/workflow/version", b"{}");
        response.json()["valueMap"]["version"].as_u64()
    };
    for (at, number) in [(0, 1), (1, 2)] {
        let release = import(&servers[at], number).to_string();
        workflow(&servers[at], &["publish", &release, "--by", "ada"]);
        for server in &servers {
            wait_until("the release", || version(server) == Some(u64::from(number)));
        }
    }
    workflow(&servers[0], &["rollback", "--by", "ada"]);
    for server in &servers {
        wait_until("the release before", || version(server) == Some(1));
    }
}

#[test]
fn a_key_is_one_run_whichever_server_is_asked() {
    let schema = Schema::new();
    let start = |_| {
        setup(&schema, RUNS)
            .file("flows/slow.json", after(300, "count"))
            .start()
    };
    let servers = [0, 1].map(start);
    let counts: Vec<Value> = thread::scope(|scope| {
        let asked = (0..6).map(|at| {
            scope.spawn({
                let server = &servers[at % 2];
                move || keyed(server, "slow", "k", 1)["runs"].clone()
            })
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(counts, vec![json!(1); 6]);
    // At the same moment, too.
    let barrier = Barrier::new(2);
    for n in 10..60 {
        thread::scope(|scope| {
            let asks = servers.each_ref().map(|server| {
                scope.spawn(|| {
                    barrier.wait();
                    keyed(server, "count", &n.to_string(), n)
                })
            });
            for ask in asks {
                assert_eq!(ask.join().unwrap(), json!({"runs": 1}));
            }
        });
    }
    let other = post(&servers[1], "slow", "idempotency-key: k\r\n", &json!({"n": 2}));
    assert_eq!(other.status, 422, "{}", other.text());
    // The state of a run can be asked for anywhere.
    accept(&servers[0], "wait", "w", &json!({}));
    assert_eq!(state(&servers[1], "wait", "w"), "running");
    assert_eq!(servers[1].get("/workflow/count?run=w").status, 404);
    accept(&servers[1], "wait", "w", &json!({}));
    assert_eq!(
        metric(&servers[1], "forebay_workflow_runs_in_flight{workflow=\"wait\"}"),
        0
    );
    let other = post(&servers[1], "wait", "idempotency-key: w\r\n", &json!({"n": 2}));
    assert_eq!(other.status, 422, "{}", other.text());
}

#[test]
fn the_runs_of_a_server_that_dies_are_taken_over_for_those_who_wait_elsewhere_too() {
    let schema = Schema::new();
    let mut killed = setup(&schema, RUNS).start();
    for key in ["a", "b"] {
        accept(&killed, "wait", key, &json!({"n": 0}));
    }
    wait_until("both to run", || {
        metric(&killed, "forebay_workflow_runs_in_flight{workflow=\"wait\"}") == 2
    });
    let [owner] = owners(&schema)[..] else {
        panic!("one server has locks")
    };
    let server = quick(&schema, "other");
    let waited = thread::scope(|scope| {
        let waits = scope.spawn(|| keyed(&server, "wait", "a", 0));
        wait_until("the one who waits", || {
            metric(&server, "forebay_workflow_kept_runs_open") == 1
        });
        killed.kill();
        schema.run(&format!("delete from SCHEMA.locks where owner = {owner}"));
        waits.join().unwrap()
    });
    assert_eq!(waited, json!({"by": "other"}));
    assert_eq!(told(&server, "wait", "b")["result"]["valueMap"], waited);
    assert_eq!(metric(&server, "forebay_workflow_kept_runs_open"), 0);
}

#[test]
fn every_accepted_run_ends_whichever_servers_are_killed() {
    let schema = Schema::new();
    let start = || {
        let before = owners(&schema);
        let server = setup(&schema, RUNS)
            .file("flows/slow.json", after(200, "count"))
            .start();
        let owner = owners(&schema).into_iter().find(|owner| !before.contains(owner));
        (server, owner.expect("it has a lock"))
    };
    let mut survivor = setup(&schema, RUNS)
        .file("flows/slow.json", after(200, "count"))
        .start();
    let mut accepted = 0;
    for _ in 0..4 {
        let (mut next, owner) = start();
        for server in [&next, &survivor, &next, &survivor, &next] {
            accept(server, "slow", &accepted.to_string(), &json!({"n": accepted}));
            accepted += 1;
        }
        next.kill();
        schema.run(&format!("delete from SCHEMA.locks where owner = {owner}"));
    }
    for run in 0..accepted {
        let told = told(&survivor, "slow", &run.to_string());
        assert_eq!(told["state"], "done", "run {run}: {told}");
    }
    wait_until("all to be over", || {
        metric(&survivor, "forebay_workflow_kept_runs_open") == 0
    });
    survivor.terminate();
    assert!(survivor.wait().success());
    assert_eq!(owners(&schema), Vec::<i64>::new());
}

#[test]
fn what_a_server_leaves_when_it_stops_is_taken_over_at_once() {
    let schema = Schema::new();
    let mut stopped = setup(&schema, "runs = { global = \"Runs\", at_a_time = 1 }")
        .server("drain_max = \"1s\"")
        .start();
    for run in 0..4 {
        accept(&stopped, "slow", &run.to_string(), &json!({"n": run}));
    }
    let server = setup(&schema, RUNS).start();
    stopped.terminate();
    assert!(stopped.wait().success());
    assert_eq!(
        owners(&schema).len(),
        1,
        "the lock of the one that has stopped is gone"
    );
    for run in 0..4 {
        let told = told(&server, "slow", &run.to_string());
        assert_eq!(told["state"], "done", "{told}");
    }
}

#[test]
fn a_server_that_was_suspended_cannot_end_a_run_that_another_one_has() {
    let schema = Schema::new();
    let start = |name: &str, delay_ms: u32| {
        let rule = format!("function process() {{ return new ScriptResult(true, {{ by: '{name}' }}); }}");
        setup(&schema, RUNS)
            .file("flows/slow.json", after(delay_ms, "by"))
            .file("flows/rules/by.js", rule)
            .start()
    };
    let suspended = start("first", 500);
    accept(&suspended, "slow", "k", &json!({}));
    wait_until("the run", || state(&suspended, "slow", "k") == "running");
    suspended.process().signal(Signal::STOP);
    end_locks(&schema);
    let server = start("second", 5000);
    server.wait_for_log(&["runs that another server has left are run"]);
    suspended.process().signal(Signal::CONT);
    wait_until("the first to give it up", || {
        metric(&suspended, "forebay_workflow_kept_runs_open") == 0
    });
    assert_eq!(state(&server, "slow", "k"), "running");
    for server in [&server, &suspended] {
        assert_eq!(
            told(server, "slow", "k")["result"]["valueMap"],
            json!({"by": "second"})
        );
    }
}

#[test]
fn a_server_that_has_lost_its_lock_gives_its_runs_up_and_takes_others_later() {
    let schema = Schema::new();
    let first = setup(&schema, RUNS).start();
    accept(&first, "wait", "w", &json!({}));
    wait_until("the run", || state(&first, "wait", "w") == "running");
    end_locks(&schema);
    let second = quick(&schema, "second");
    assert_eq!(
        told(&second, "wait", "w")["result"]["valueMap"],
        json!({"by": "second"})
    );
    wait_until("the first to give it up", || {
        metric(&first, "forebay_workflow_runs_in_flight{workflow=\"wait\"}") == 0
    });
    assert_eq!(
        told(&first, "wait", "w")["result"]["valueMap"],
        json!({"by": "second"})
    );
    first.wait_for_log(&["the lock of this server's durable runs is lost"]);
    wait_until("its lock", || {
        post(&first, "count", "idempotency-key: c\r\n", &json!({"n": 1})).status == 200
    });
    assert_eq!(keyed(&second, "count", "c", 1), json!({"runs": 1}));
}
