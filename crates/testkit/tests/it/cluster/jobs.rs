//! Durable jobs in JetStream, which all front ends of a cluster share.

use std::{collections::BTreeMap, sync::Mutex};

use forebay_testkit::{Folder, Server, Setup, blocks, free_port, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Gate, Nats, Stranger, wait_for_hosts};
use crate::jobs::{
    HANDLER, POOL, accept, answer, count, job, jobs, kill_in_every_state, kill_under_load, metric_of, noted,
    open, over, scheduled, send, wait_for_all, wait_for_note,
};

const DURABLE: &str = "backoff = \"100ms\", bytes_max = \"16MiB\"";

/// A broker with JetStream, and the folder that all handlers write to.
struct Cluster {
    nats: Nats,
    data: Folder,
}

impl Cluster {
    fn start() -> Self {
        let mut cluster = Self::stopped(&[]);
        cluster.nats.run();
        cluster
    }

    fn stopped(arguments: &[&str]) -> Self {
        let data = Folder::new();
        let streams = data.path().join("streams").display().to_string();
        let nats = Nats::stopped(&[&["-js", "-sd", &*streams], arguments].concat());
        Self { nats, data }
    }

    fn setup(&self, cluster: &str, durable: &str) -> Setup {
        self.setup_at(&self.nats.url(), cluster, POOL, durable)
    }

    fn setup_at(&self, nats: &str, cluster: &str, pool: &str, durable: &str) -> Setup {
        let work = self.data.path().join("work");
        std::fs::create_dir_all(&work).expect("a folder can be made");
        let config = format!(
            "[cluster]\nnats = \"{nats}\"\n{cluster}\n[pool.work]\nhandler = \"work.mjs\"\nruntime = \"node\"\ncwd = \"{}\"\n{pool}\n\
             [[route]]\npath = \"/tasks\"\npool = \"work\"\ndurable = {{ {durable} }}\n",
            work.display()
        );
        Setup::new(&config).file("work.mjs", HANDLER).threads(1).admin()
    }

    fn front(&self) -> Server {
        self.setup("job_replicas = 1", DURABLE).start()
    }
}

/// Waits until a front end takes jobs.
fn wait_for_queue(front: &Server) {
    wait_until("a job to be accepted", || {
        send(front, "POST", "/tasks", "", "ready").status == 202
    });
}

fn id(address: &str) -> &str {
    address.rsplit('/').next().expect("a last part")
}

#[test]
fn every_front_end_accepts_jobs_runs_them_and_tells_their_state() {
    let cluster = Cluster::start();
    let one = cluster.front();
    wait_for_queue(&one);
    let response = send(&one, "POST", "/tasks?a=1", "", "{\"name\":\"a\",\"gate\":\"go\"}");
    let address = response.header("location").unwrap().to_owned();
    wait_for_note(&cluster.data, "begin a 1");
    let other = cluster.front();
    wait_for_queue(&other);
    assert_eq!(job(&other, &address)["state"], "running");
    let refused = other.command(&["jobs", "drop", id(&address)]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the job is running"));
    open(&cluster.data, "go");
    let done = over(&other, &address);
    let expected = json!({ "job": id(&address), "attempt": "1", "name": "a", "path": "/tasks" });
    assert_eq!(answer(&done), expected);
    let bytes = send(&one, "POST", "/tasks", "", "bytes");
    let done = over(&other, bytes.header("location").unwrap());
    assert_eq!(
        (&done["response"]["status"], &done["response"]["base64"]),
        (&json!(201), &json!("/wA="))
    );
    for target in [
        "/tasks/jobs/none",
        "/tasks/jobs/*",
        "/tasks/jobs/00000000000000000000000000000000",
    ] {
        assert_eq!(one.get(target).status, 404, "{target}");
    }
    drop(one);
    let alone = accept(&other, "", &json!({ "name": "alone" }));
    assert_eq!(over(&other, &alone)["state"], "done");
}

#[test]
fn attempts_delays_and_dead_letters_are_those_of_the_store() {
    let cluster = Cluster::start();
    let front = cluster
        .setup("job_replicas = 1", &format!("{DURABLE}, attempts = 3"))
        .start();
    wait_for_queue(&front);
    let twice = accept(&front, "", &json!({ "name": "twice", "fails": 2 }));
    let done = over(&front, &twice);
    assert_eq!((&done["state"], &done["attempts"]), (&json!("done"), &json!(3)));
    let always = accept(&front, "", &json!({ "name": "always", "fails": 3 }));
    let failed = over(&front, &always);
    assert_eq!(
        (&failed["state"], &failed["attempts"]),
        (&json!("failed"), &json!(3))
    );
    let wrong = accept(&front, "", &json!({ "name": "wrong", "fails": 1, "status": 422 }));
    assert_eq!(over(&front, &wrong)["response"]["body"], "failed");
    let listed = jobs(&front, &["list", "--state", "failed"]);
    let lines: Vec<&str> = listed.lines().skip(1).collect();
    assert!(
        lines[0].starts_with(id(&wrong)) && lines[1].starts_with(id(&always)),
        "{listed}"
    );
    let shown: Value = serde_json::from_str(&jobs(&front, &["show", id(&wrong)])).unwrap();
    assert!(
        shown["request"]["body"].as_str().unwrap().contains("wrong"),
        "{shown}"
    );
    assert_eq!(jobs(&front, &["retry", id(&wrong)]), "jobs that begin again: 1\n");
    let done = over(&front, &wrong);
    assert_eq!(
        (&done["state"], &done["attempts"]),
        (&json!("done"), &json!(2)),
        "{done}"
    );
    assert_eq!(jobs(&front, &["drop", id(&always)]), "jobs removed: 1\n");
    assert_eq!(front.get(&always).status, 404);
    let refused = front.command(&["jobs", "retry", id(&wrong)]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the job is over: it is `done`"));

    let later = accept(&front, "forebay-delay: 1h\r\n", &json!({ "name": "later" }));
    assert_eq!(job(&front, &later)["state"], "waiting");
    let cancelled = accept(&front, "forebay-delay: 1h\r\n", &json!({ "name": "cancelled" }));
    let soon = accept(&front, "forebay-delay: 2s\r\n", &json!({ "name": "soon" }));
    let listed = jobs(&front, &["list", "--state", "waiting"]);
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert_eq!(send(&front, "DELETE", &cancelled, "", "").status, 204);
    assert_eq!(front.get(&cancelled).status, 404);
    assert_eq!(over(&front, &soon)["state"], "done");
    let soon = job(&front, &soon);
    assert!(
        soon["begunMs"].as_u64().unwrap() - soon["acceptedMs"].as_u64().unwrap() >= 2000,
        "{soon}"
    );
    // A job that is retried by hand begins before its time, once.
    jobs(&front, &["retry", id(&later)]);
    assert_eq!(over(&front, &later)["attempts"], 1);
    assert!(!noted(&cluster.data).iter().any(|line| line.contains("cancelled")));
    wait_until("the figures to be read", || {
        metric_of(
            &front,
            "forebay_jobs_total{route=\"POST /tasks\",outcome=\"failed\"}",
        ) >= 2.0
            && metric_of(&front, "forebay_jobs_waiting{route=\"POST /tasks\"}") < 1.0
    });
}

#[test]
fn a_retry_by_hand_that_another_front_end_is_faster_to_begin_loses_no_job() {
    let cluster = Cluster::start();
    let gate = Gate::start(&cluster.nats);
    let slow = format!("nats://127.0.0.1:{}", gate.port);
    let durable = format!("{DURABLE}, at_a_time = 1");
    let slow = cluster
        .setup_at(&slow, "job_replicas = 1", POOL, &durable)
        .start();
    wait_for_queue(&slow);
    let first = accept(&slow, "", &json!({ "name": "first" }));
    assert_eq!(over(&slow, &first)["state"], "done");
    // It has no room for another job.
    accept(&slow, "", &json!({ "name": "busy", "gate": "never" }));
    wait_for_note(&cluster.data, "begin busy 1");
    let later = accept(
        &slow,
        "forebay-delay: 1h\r\n",
        &json!({ "name": "later", "gate": "go", "fails": 1 }),
    );
    let fast = cluster.front();
    wait_for_queue(&fast);
    gate.hold(format!("$KV.forebay-main-jobs.job.{} ", id(&later)));
    std::thread::scope(|scope| {
        let retried = scope.spawn(|| jobs(&slow, &["retry", id(&later)]));
        wait_for_note(&cluster.data, "begin later 1");
        gate.open();
        assert_eq!(retried.join().unwrap(), "jobs that begin again: 1\n");
    });
    open(&cluster.data, "go");
    let done = over(&fast, &later);
    assert_eq!((&done["state"], &done["attempts"]), (&json!("done"), &json!(2)));
}

#[test]
fn what_was_acknowledged_is_done_though_its_front_end_is_killed_in_every_state() {
    let cluster = Cluster::start();
    let front = || {
        let front = cluster.front();
        wait_for_queue(&front);
        front
    };
    kill_in_every_state(&cluster.data, front(), front);
}

#[test]
fn a_front_end_that_was_taken_for_dead_ends_no_job_of_its_successor() {
    let cluster = Cluster::start();
    let silent = cluster.front();
    wait_for_queue(&silent);
    let address = accept(&silent, "", &json!({ "name": "a", "gate": "go" }));
    wait_for_note(&cluster.data, "begin a 1");
    silent.process().signal(Signal::STOP);
    let front = cluster.front();
    wait_for_queue(&front);
    let renewed = accept(&front, "", &json!({ "name": "renewed", "gate": "later" }));
    wait_for_note(&cluster.data, "begin renewed 1");
    wait_for_note(&cluster.data, "begin a 2");
    silent.process().signal(Signal::CONT);
    // The worker of the one that was stopped could end its attempt now, but that has been given up.
    wait_until("it works again", || {
        send(&silent, "POST", "/tasks", "", "ready").status == 202
    });
    assert_eq!(job(&front, &address)["state"], "running");
    open(&cluster.data, "go");
    let done = over(&front, &address);
    assert_eq!(
        (&done["attempts"], &answer(&done)["attempt"]),
        (&json!(2), &json!("2")),
        "{done}"
    );
    // This one has run for longer than a lease, which was renewed.
    let later = accept(&front, "forebay-delay: 5s\r\n", &json!({ "name": "later" }));
    assert_eq!(over(&front, &later)["state"], "done");
    open(&cluster.data, "later");
    assert_eq!(over(&front, &renewed)["attempts"], 1);
    assert_eq!(count(&cluster.data, "begin renewed 1"), 1);
}

#[test]
fn a_key_that_all_front_ends_get_at_once_is_one_job() {
    const KEYS: usize = 40;
    let cluster = Cluster::start();
    let fronts = [cluster.front(), cluster.front()];
    fronts.iter().for_each(wait_for_queue);
    let addresses = Mutex::new(BTreeMap::<usize, Vec<String>>::new());
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (front, addresses, barrier) = (&fronts[client % 2], &addresses, &barrier);
            scope.spawn(move || {
                for key in 0..KEYS {
                    barrier.wait();
                    let fields = format!("idempotency-key: \"k{key}\"\r\n");
                    let address = accept(front, &fields, &json!({ "name": format!("k{key}") }));
                    addresses.lock().unwrap().entry(key).or_default().push(address);
                }
            });
        }
    });
    for (key, addresses) in addresses.into_inner().unwrap() {
        assert!(
            addresses.iter().all(|address| *address == addresses[0]),
            "{key}: {addresses:?}"
        );
        assert_eq!(over(&fronts[0], &addresses[0])["state"], "done");
        assert_eq!(count(&cluster.data, &format!("begin k{key} 1")), 1);
    }
    let other = send(
        &fronts[1],
        "POST",
        "/tasks",
        "idempotency-key: \"k1\"\r\n",
        "{\"name\":\"b\"}",
    );
    assert_eq!(other.status, 422, "{}", other.text());
}

#[test]
fn a_key_whose_removed_job_has_left_it_behind_stands_for_a_new_job() {
    let cluster = Cluster::start();
    let front = cluster.front();
    wait_for_queue(&front);
    let fields = "idempotency-key: \"k\"\r\nforebay-delay: 2s\r\n";
    let keyed = || accept(&front, fields, &json!({ "name": "a" }));
    let removed = keyed();
    // So much is done by a front end that dies while it removes a job.
    let record = format!("$KV.forebay-main-jobs.job.{}", id(&removed));
    cluster.nats.publish(&record, "");
    wait_until("the job to be removed", || front.get(&removed).status == 404);
    let new = keyed();
    assert_ne!(new, removed);
    // The rest of it can still be removed, except the key, which belongs to the new job.
    assert_eq!(jobs(&front, &["drop", id(&removed)]), "jobs removed: 1\n");
    assert!(!front.command(&["jobs", "drop", id(&removed)]).status.success());
    assert_eq!(keyed(), new);
    assert_eq!(over(&front, &new)["state"], "done");
    assert_eq!(count(&cluster.data, "begin a 1"), 1);
}

#[test]
fn a_key_expires_with_its_job_though_the_front_end_that_ended_the_job_is_killed_before_that_is_noted() {
    let cluster = Cluster::start();
    let gate = Gate::start(&cluster.nats);
    let behind = format!("nats://127.0.0.1:{}", gate.port);
    let mut killed = cluster
        .setup_at(&behind, "job_replicas = 1", POOL, DURABLE)
        .start();
    wait_for_queue(&killed);
    let fields = "idempotency-key: \"k\"\r\n";
    let address = accept(&killed, fields, &json!({ "name": "a", "gate": "go" }));
    wait_for_note(&cluster.data, "begin a 1");
    let front = cluster.front();
    wait_for_queue(&front);
    let mut keys = Stranger::subscribed(&cluster.nats, "$KV.forebay-main-jobs.key.*");
    gate.hold("$KV.forebay-main-jobs.key.".to_owned());
    open(&cluster.data, "go");
    assert_eq!(over(&front, &address)["state"], "done");
    killed.kill();
    while !keys.line().starts_with("Nats-TTL:") {}
    assert_eq!(
        accept(&front, fields, &json!({ "name": "a", "gate": "go" })),
        address
    );
}

#[test]
fn a_job_whose_worker_host_dies_runs_on_another_one() {
    let cluster = Cluster::start();
    let pool = format!("{POOL}\nat = \"cluster\"");
    let setup = || cluster.setup_at(&cluster.nats.url(), "job_replicas = 1", &pool, DURABLE);
    let front = setup().start();
    let mut killed = setup().work_on("work").start();
    wait_for_hosts(&front, 1);
    let address = accept(&front, "", &json!({ "name": "a", "gate": "go" }));
    wait_for_note(&cluster.data, "begin a 1");
    let _host = setup().work_on("work").start();
    wait_for_hosts(&front, 2);
    killed.kill();
    wait_for_note(&cluster.data, "begin a 2");
    open(&cluster.data, "go");
    assert_eq!(over(&front, &address)["attempts"], 2);
}

#[test]
fn jobs_in_three_copies_survive_the_loss_of_a_server_and_are_refused_without_a_majority() {
    let cluster = Cluster::stopped(&[]);
    let ports = [free_port(), free_port(), free_port()];
    let routes = ports.map(|port| format!("nats://127.0.0.1:{port}")).join(",");
    let mut servers = [0, 1, 2].map(|number| {
        let streams = cluster.data.path().join(format!("streams {number}"));
        let listen = format!("nats://127.0.0.1:{}", ports[number]);
        let name = format!("server-{number}");
        let streams = streams.display().to_string();
        Nats::stopped(&[
            "-js",
            "-sd",
            &*streams,
            "--name",
            &*name,
            "--cluster_name",
            "three",
            "--cluster",
            &*listen,
            "--routes",
            &*routes,
        ])
    });
    servers.iter_mut().for_each(Nats::run);
    let urls = servers.each_ref().map(Nats::url).join(",");
    let front = cluster.setup_at(&urls, "job_replicas = 3", POOL, DURABLE).start();
    wait_for_queue(&front);
    let running = accept(&front, "", &json!({ "name": "running", "gate": "go" }));
    let later = accept(&front, "forebay-delay: 1h\r\n", &json!({ "name": "later" }));
    wait_for_note(&cluster.data, "begin running 1");
    servers[0].stop();
    // Another server leads now, whichever was lost.
    wait_for_queue(&front);
    wait_until("its state to be known", || front.get(&later).status == 200);
    open(&cluster.data, "go");
    wait_until("its state to be known", || front.get(&running).status == 200);
    assert_eq!(over(&front, &running)["state"], "done");
    // The servers that are left may still be choosing who leads the stream.
    wait_until("the retry", || {
        let retried = front.command(&["jobs", "retry", id(&later)]);
        retried.status.success() || front.get(&later).json()["state"] == "done"
    });
    assert_eq!(over(&front, &later)["state"], "done");
    servers[1].stop();
    wait_until("jobs to be refused", || {
        let refused = send(&front, "POST", "/tasks", "", "{}");
        refused.status == 503 && refused.detail().contains("JetStream")
    });
}

#[test]
fn each_time_of_a_schedule_has_one_job_whatever_number_of_front_ends_there_is() {
    let cluster = Cluster::start();
    let setup = || cluster.setup("job_replicas = 1", &every_two_seconds());
    let mut fronts = [setup().start(), setup().start(), setup().start()];
    wait_for_times(&cluster, 3);
    fronts[0].kill();
    let count = scheduled(&cluster.data).len();
    // A job that the killed front end was running comes later, and may run twice.
    let twice = wait_for_times(&cluster, count + 3);
    assert!(twice.len() <= 1, "{twice:?}");
}

#[test]
fn a_schedule_whose_times_were_noted_by_a_clock_that_was_ahead_goes_on_with_a_warning() {
    let cluster = Cluster::start();
    let mut noted = Stranger::subscribed(&cluster.nats, "$KV.forebay-main-jobs.schedule.*");
    let setup = || cluster.setup("job_replicas = 1", &every_two_seconds());
    let fronts = [setup().start(), setup().start()];
    wait_for_times(&cluster, 1);
    let message = std::iter::repeat_with(|| noted.line()).find(|line| line.contains("MSG "));
    let message = message.expect("lines without an end");
    let subject = message.split(' ').nth(1).expect("a subject");
    for _ in 0..2 {
        let count = scheduled(&cluster.data).len();
        cluster.nats.publish(subject, "4000000000000");
        assert_eq!(wait_for_times(&cluster, count + 2), [0; 0]);
    }
    wait_until("a warning", || {
        fronts.iter().any(|front| front.log().contains("clock is slow"))
    });
}

fn every_two_seconds() -> String {
    format!("{DURABLE}, schedule = \"*/2 * * * * *\"")
}

/// Waits until so many times in a row of that schedule have had their jobs, and returns those that have had more than one.
fn wait_for_times(cluster: &Cluster, count: usize) -> Vec<i64> {
    let mut twice = Vec::new();
    wait_until("the job of each time", || {
        let mut times = scheduled(&cluster.data);
        let again = times.windows(2).filter(|pair| pair[0] == pair[1]);
        twice = again.map(|pair| pair[0]).collect();
        times.dedup();
        times.len() >= count && times.windows(2).all(|pair| pair[1] - pair[0] == 2)
    });
    twice
}

#[test]
fn jobs_survive_a_broker_that_is_killed_and_are_refused_meanwhile() {
    let mut cluster = Cluster::start();
    let front = cluster.front();
    wait_for_queue(&front);
    let running = accept(&front, "", &json!({ "name": "running", "gate": "go" }));
    wait_for_note(&cluster.data, "begin running 1");
    let waiting = accept(&front, "forebay-delay: 2s\r\n", &json!({ "name": "waiting" }));
    cluster.nats.stop();
    wait_until("jobs to be refused", || {
        let refused = send(&front, "POST", "/tasks", "", "{}");
        refused.status == 503
            && refused.detail().contains("NATS at nats://")
            && refused.header("retry-after").is_some()
    });
    assert_eq!(front.get(&running).status, 503);
    // It ends while the broker is away, and that is noted when it is back.
    open(&cluster.data, "go");
    wait_for_note(&cluster.data, "end running 1");
    cluster.nats.run();
    for address in [&running, &waiting] {
        wait_until("the broker to be back", || front.get(address).status == 200);
        let job = over(&front, address);
        assert_eq!(
            (&job["state"], &job["attempts"]),
            (&json!("done"), &json!(1)),
            "{job}"
        );
    }
}

#[test]
fn streams_that_vanish_from_the_broker_are_made_anew_and_the_loss_is_logged() {
    let mut cluster = Cluster::start();
    let front = cluster.front();
    wait_for_queue(&front);
    accept(&front, "", &json!({ "name": "running", "gate": "go" }));
    wait_for_note(&cluster.data, "begin running 1");
    cluster.nats.stop();
    std::fs::remove_dir_all(cluster.data.path().join("streams"))
        .expect("the folder of the broker can be removed");
    cluster.nats.run();
    open(&cluster.data, "go");
    // Without a request: the end of an attempt is stored in vain, which ends it.
    for stream in ["stream `forebay-main-jobs-", "stream `KV_forebay-main-jobs`"] {
        front.wait_for_log(&[stream, "the durable jobs in it are lost"]);
    }
    wait_for_queue(&front);
}

#[test]
fn an_attempt_whose_broker_is_away_for_long_is_given_up_before_another_may_begin() {
    let mut cluster = Cluster::start();
    let front = cluster.front();
    wait_for_queue(&front);
    let address = accept(&front, "", &json!({ "name": "a", "gate": "go" }));
    wait_for_note(&cluster.data, "begin a 1");
    cluster.nats.stop();
    front.wait_for_log(&["how a job has ended is not stored yet", id(&address)]);
    open(&cluster.data, "go");
    cluster.nats.run();
    wait_until("the broker to be back", || front.get(&address).status == 200);
    assert_eq!(over(&front, &address)["state"], "done");
    assert_eq!(count(&cluster.data, "begin a 1"), 2);
}

#[test]
fn a_broker_that_is_away_at_start_is_named_and_waited_for() {
    let mut cluster = Cluster::stopped(&[]);
    let front = cluster.front();
    let refused = send(&front, "POST", "/tasks", "", "{}");
    assert_eq!(refused.status, 503);
    assert!(
        refused.detail().contains("NATS at nats://127.0.0.1:"),
        "{}",
        refused.detail()
    );
    front.wait_for_log(&["jobs that are due cannot begin", "NATS at nats://"]);
    cluster.nats.run();
    wait_for_queue(&front);
}

#[test]
fn a_broker_that_cannot_keep_jobs_is_named_with_what_it_lacks() {
    let why = |front: &Server, text: &str| {
        wait_until(text, || {
            let refused = send(front, "POST", "/tasks", "", "{}");
            assert_eq!(refused.status, 503, "{}", refused.text());
            refused.detail().contains(text)
        });
        front.wait_for_log(&["jobs that are due cannot begin", text]);
    };
    let cluster = Cluster::start();
    let front = cluster.setup("job_replicas = 3", DURABLE).start();
    why(&front, "with 3 replicas (cluster.job_replicas)");
    let plain = Cluster {
        nats: Nats::start(),
        data: Folder::new(),
    };
    why(&plain.front(), "no server has it (`nats-server --jetstream`)");
}

#[test]
fn a_full_queue_refuses_jobs_until_there_is_room() {
    let cluster = Cluster::start();
    let front = cluster
        .setup("job_replicas = 1", "open_max = 2, bytes_max = \"16MiB\"")
        .start();
    wait_for_queue(&front);
    wait_until("the queue to be empty", || {
        jobs(&front, &["list", "--state", "running"]).starts_with("there are no")
    });
    let accept = || {
        let mut address = None;
        wait_until("room for a job", || {
            let response = send(&front, "POST", "/tasks", "forebay-delay: 1h\r\n", "{}");
            address = response.header("location").map(str::to_owned);
            address.is_some()
        });
        address.unwrap()
    };
    let first = accept();
    accept();
    let full = send(&front, "POST", "/tasks", "", "{}");
    assert_eq!(full.status, 503, "{}", full.text());
    assert!(
        full.header("retry-after").is_some() && full.detail().contains("durable.open_max"),
        "{}",
        full.detail()
    );
    assert_eq!(send(&front, "DELETE", &first, "", "").status, 204);
    accept();
    // A reload changes the limit of the stream.
    let config = front.folder().read("forebay.toml").unwrap();
    front
        .folder()
        .write("forebay.toml", config.replace("open_max = 2", "open_max = 3"));
    assert!(front.command(&["reload"]).status.success());
    accept();
    assert_eq!(send(&front, "POST", "/tasks", "", "{}").status, 503);
    let long = send(&front, "POST", "/tasks", "", &"x".repeat(1 << 20));
    assert_eq!(long.status, 413, "{}", long.text());
    assert!(long.detail().contains("max_payload"), "{}", long.detail());
}

#[test]
fn clusters_on_one_broker_have_their_own_jobs() {
    let cluster = Cluster::start();
    let fronts = ["one", "other"].map(|name| {
        let keys = format!("job_replicas = 1\nname = \"{name}\"");
        let front = cluster.setup(&keys, DURABLE).start();
        wait_for_queue(&front);
        front
    });
    let keyed = |front: &Server| accept(front, "idempotency-key: \"k\"\r\n", &json!({ "name": "a" }));
    let addresses = fronts.each_ref().map(keyed);
    assert_ne!(addresses[0], addresses[1]);
    assert_eq!(fronts[1].get(&addresses[0]).status, 404);
    for (front, address) in fronts.iter().zip(&addresses) {
        assert_eq!(over(front, address)["state"], "done");
    }
    assert_eq!(count(&cluster.data, "begin a 1"), 2);
}

#[test]
fn every_job_that_was_acknowledged_under_load_is_done_after_the_kill_of_a_front_end() {
    let cluster = Cluster::start();
    let mut killed = cluster.front();
    let front = cluster.front();
    [&killed, &front].into_iter().for_each(wait_for_queue);
    let targets = [&killed, &front, &killed, &front].map(Server::address);
    let acknowledged = kill_under_load(targets, &cluster.data, &mut killed);
    wait_for_all(&front, &acknowledged);
}

#[test]
fn the_configuration_of_the_guide_is_that_of_a_cluster() {
    let guide = include_str!("../../../../../docs/guide/jobs.md");
    let cluster = Cluster::start();
    let written = blocks(guide, "toml")[2].replace("nats://127.0.0.1:4222", &cluster.nats.url());
    let handler = blocks(guide, "js")[0];
    let setup = || Setup::new(&written).file("mails.mjs", handler).admin();
    let fronts = [setup().start(), setup().start()];
    let mut address = None;
    wait_until("a mail to be accepted", || {
        let response = fronts[0].post("/mails", b"{\"to\":\"a@example.org\"}");
        address = response.header("location").map(str::to_owned);
        address.is_some()
    });
    assert_eq!(over(&fronts[1], &address.unwrap())["state"], "done");
}
