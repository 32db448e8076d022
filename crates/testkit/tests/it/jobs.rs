//! Durable jobs: what was acknowledged is done, at least once, whatever dies; and what is done is not done again.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_testkit::{Client, Folder, Response, Server, Setup, blocks, command, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    support::metric,
    upgrade::{Successor, upgrade},
};

/// Notes each attempt in the file `ran`, then does what the body says.
pub(crate) const HANDLER: &str = "
import { appendFileSync, existsSync } from 'node:fs';
import { reply } from 'forebay';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const note = (line) => appendFileSync('ran', `${line}\\n`);

export default async (request) => {
  const job = request.headers.get('forebay-job');
  const attempt = request.headers.get('forebay-attempt');
  const scheduled = request.headers.get('forebay-scheduled');
  if (scheduled) return note(`scheduled ${scheduled}`);
  const text = await request.text();
  if (text === 'bytes') return reply(new Uint8Array([0xff, 0x00]), { status: 201, headers: { 'x-kind': 'bytes' } });
  if (!text.startsWith('{')) return { job, attempt, text };
  const asked = JSON.parse(text);
  note(`begin ${asked.name} ${attempt}`);
  if (asked.gate) while (!existsSync(asked.gate)) await pause(2);
  if (asked.exit && attempt === '1') process.kill(process.pid, 'SIGKILL');
  if (asked.fails && Number(attempt) <= asked.fails) return reply('failed', { status: asked.status ?? 500 });
  if (asked.length) return 'x'.repeat(asked.length);
  note(`end ${asked.name} ${attempt}`);
  return { job, attempt, name: asked.name, user: request.user?.subject, path: request.path };
};
";

/// A server with its store in `data`, and these keys of `durable` and of the pool. `rest` has further keys of the route, and sections.
fn setup_with(data: &Folder, durable: &str, pool: &str, rest: &str) -> Setup {
    let store = data.path().join("data");
    let folder = data.path().join("work");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let config = format!(
        "[store]\npath = \"{}\"\n[pool.work]\nhandler = \"work.mjs\"\nruntime = \"node\"\ncwd = \"{}\"\n{pool}\n\
         [[route]]\npath = \"/tasks\"\npool = \"work\"\ndurable = {{ {durable} }}\n{rest}",
        store.display(),
        folder.display(),
    );
    Setup::new(&config).file("work.mjs", HANDLER).threads(1).admin()
}

/// One worker that runs up to eight jobs, and pauses that tests can wait for.
pub(crate) fn setup(data: &Folder) -> Setup {
    setup_with(data, "backoff = \"100ms\"", POOL, "")
}

pub(crate) const POOL: &str = "workers = { min = 1, max = 1 }\nconcurrency = 8";

pub(crate) fn send(server: &Server, method: &str, target: &str, fields: &str, body: &str) -> Response {
    server.connect().ask(method, target, fields, body)
}

/// Has a job accepted, and returns its address.
pub(crate) fn accept(server: &Server, fields: &str, body: &Value) -> String {
    let body = body.to_string();
    let response = send(server, "POST", "/tasks", fields, &body);
    assert_eq!(response.status, 202, "{}", response.text());
    let address = response.header("location").expect("it has an address").to_owned();
    assert_eq!(
        address,
        format!(
            "/tasks/jobs/{}",
            response.json()["id"].as_str().expect("it has an id")
        )
    );
    address
}

/// The job, once it is over.
pub(crate) fn over(server: &Server, address: &str) -> Value {
    let mut job = Value::Null;
    wait_until("the job to be over", || {
        let response = server.get(&format!("{address}?wait=20s"));
        assert_eq!(response.status, 200, "{}", response.text());
        job = response.json();
        job["state"] == "done" || job["state"] == "failed"
    });
    job
}

pub(crate) fn job(server: &Server, address: &str) -> Value {
    server.get(address).json()
}

/// The lines that the handler has written.
pub(crate) fn noted(data: &Folder) -> Vec<String> {
    let ran = data.read("work/ran").unwrap_or_default();
    ran.lines().map(str::to_owned).collect()
}

pub(crate) fn wait_for_note(data: &Folder, line: &str) {
    wait_until(line, || noted(data).iter().any(|noted| noted == line));
}

pub(crate) fn count(data: &Folder, line: &str) -> usize {
    noted(data).iter().filter(|noted| *noted == line).count()
}

pub(crate) fn open(data: &Folder, gate: &str) {
    data.write(&format!("work/{gate}"), "");
}

/// The response of the handler, as JSON.
pub(crate) fn answer(job: &Value) -> Value {
    let body = job["response"]["body"].as_str().expect("a body that is text");
    serde_json::from_str(body).expect("JSON")
}

pub(crate) fn jobs(server: &Server, words: &[&str]) -> String {
    let words: Vec<&str> = ["jobs"].iter().chain(words).copied().collect();
    let output = server.command(&words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn a_request_is_answered_with_the_address_of_its_job_which_has_the_handlers_response() {
    let data = Folder::new();
    let server = setup(&data).start();
    let response = send(
        &server,
        "POST",
        "/tasks?a=1",
        "",
        "{\"name\":\"a\",\"gate\":\"go\"}",
    );
    assert_eq!(response.status, 202);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let address = response.header("location").unwrap().to_owned();
    wait_for_note(&data, "begin a 1");
    let running = job(&server, &address);
    assert_eq!(
        (&running["state"], &running["attempts"]),
        (&json!("running"), &json!(1))
    );
    let early = server.get(&format!("{address}?wait=1ms")).json();
    assert_eq!(early["state"], "running");
    open(&data, "go");
    let done = over(&server, &address);
    assert_eq!(done["state"], "done", "{done}");
    let id = address.rsplit('/').next().unwrap();
    let expected = json!({ "job": id, "attempt": "1", "name": "a", "path": "/tasks" });
    assert_eq!(answer(&done), expected);
    assert_eq!(done["response"]["status"], 200);
    assert!(done["endedMs"].as_u64() >= done["acceptedMs"].as_u64(), "{done}");
    let bytes = send(&server, "POST", "/tasks", "", "bytes");
    let done = over(&server, bytes.header("location").unwrap());
    assert_eq!(
        (&done["response"]["status"], &done["response"]["base64"]),
        (&json!(201), &json!("/wA="))
    );
    let headers = done["response"]["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["x-kind", "bytes"])), "{done}");
    for (method, target, status) in [
        ("GET", "/tasks", 405),
        ("POST", &*address, 405),
        ("GET", "/tasks/jobs/none", 404),
        ("GET", &*format!("{address}?wait=soon"), 400),
        ("GET", &*format!("{address}?until=1"), 400),
    ] {
        let response = send(&server, method, target, "", "");
        assert_eq!(response.status, status, "{method} {target}: {}", response.text());
    }
}

#[test]
fn what_was_acknowledged_is_done_though_the_server_is_killed_in_every_state_and_what_is_done_stays_so() {
    let data = Folder::new();
    kill_in_every_state(&data, setup(&data).start(), || setup(&data).start());
}

/// Kills a server that has a job in each state, and checks what its successor makes of them.
pub(crate) fn kill_in_every_state(data: &Folder, mut killed: Server, successor: impl FnOnce() -> Server) {
    let done = accept(&killed, "", &json!({ "name": "done" }));
    assert_eq!(over(&killed, &done)["state"], "done");
    let running = accept(&killed, "", &json!({ "name": "running", "gate": "go" }));
    wait_for_note(data, "begin running 1");
    let waiting = accept(&killed, "forebay-delay: 1s\r\n", &json!({ "name": "waiting" }));
    let retrying = accept(&killed, "", &json!({ "name": "retrying", "fails": 1 }));
    let failed = accept(
        &killed,
        "",
        &json!({ "name": "failed", "fails": 9, "status": 400 }),
    );
    assert_eq!(over(&killed, &failed)["state"], "failed");
    // The answer is the promise: nothing is waited for after it.
    let last = accept(&killed, "", &json!({ "name": "last" }));
    killed.kill();
    let server = successor();
    open(data, "go");
    for (name, address) in [
        ("waiting", &waiting),
        ("last", &last),
        ("retrying", &retrying),
        ("running", &running),
    ] {
        let job = over(&server, address);
        assert_eq!(job["state"], "done", "{name}: {job}");
        assert_eq!(answer(&job)["name"], name);
    }
    assert_eq!(job(&server, &running)["attempts"], 2);
    assert_eq!(job(&server, &failed)["state"], "failed");
    assert_eq!(job(&server, &done)["state"], "done");
    assert_eq!(count(data, "end done 1"), 1);
    assert!(!noted(data).contains(&"begin done 2".to_owned()));
    assert!(!noted(data).contains(&"begin failed 2".to_owned()));
}

#[test]
fn a_job_whose_worker_dies_or_takes_too_long_is_tried_again() {
    let data = Folder::new();
    let keys = "backoff = \"100ms\", timeout = \"1s\", attempts = 3";
    let server = setup_with(&data, keys, POOL, "").start();
    let dies = accept(&server, "", &json!({ "name": "dies", "exit": true }));
    let job = over(&server, &dies);
    assert_eq!(
        (&job["state"], &job["attempts"]),
        (&json!("done"), &json!(2)),
        "{job}"
    );
    let killed = accept(&server, "", &json!({ "name": "killed", "gate": "go" }));
    wait_for_note(&data, "begin killed 1");
    let worker = server.wait_for_workers(1)[0];
    worker.signal(Signal::KILL);
    wait_for_note(&data, "begin killed 2");
    open(&data, "go");
    assert_eq!(over(&server, &killed)["state"], "done");
    let late = accept(&server, "", &json!({ "name": "late", "gate": "never" }));
    let job = over(&server, &late);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("failed"), &json!(3)));
    assert!(
        job["error"].as_str().unwrap().contains("durable.timeout"),
        "{job}"
    );
}

#[test]
fn an_error_of_the_handler_is_retried_and_one_of_the_request_is_a_dead_letter_at_once() {
    let data = Folder::new();
    let server = setup_with(&data, "backoff = \"100ms\", attempts = 3", POOL, "").start();
    let twice = accept(&server, "", &json!({ "name": "twice", "fails": 2 }));
    let job = over(&server, &twice);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("done"), &json!(3)));
    let always = accept(&server, "", &json!({ "name": "always", "fails": 3 }));
    let job = over(&server, &always);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("failed"), &json!(3)));
    assert_eq!(job["error"], "the handler has answered with status 500");
    let wrong = accept(
        &server,
        "",
        &json!({ "name": "wrong", "fails": 1, "status": 422 }),
    );
    let failed = over(&server, &wrong);
    assert_eq!(
        (&failed["state"], &failed["attempts"]),
        (&json!("failed"), &json!(1))
    );
    assert_eq!(
        failed["response"],
        json!({ "status": 422, "headers": [["content-type", "text/plain; charset=utf-8"]], "body": "failed" })
    );
    let long = accept(&server, "", &json!({ "name": "long", "length": 2 << 20 }));
    let job = over(&server, &long);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("failed"), &json!(1)));
    assert!(job["error"].as_str().unwrap().contains("1048576 bytes"), "{job}");

    let id = |address: &str| address.rsplit('/').next().unwrap().to_owned();
    let listed = jobs(&server, &["list", "--state", "failed"]);
    let lines: Vec<&str> = listed.lines().skip(1).collect();
    assert!(
        lines[0].starts_with(&id(&long)) && lines[1].starts_with(&id(&wrong)),
        "{listed}"
    );
    assert!(
        lines[1].contains("POST /tasks") && lines[1].ends_with("status 422"),
        "{listed}"
    );
    let shown: Value = serde_json::from_str(&jobs(&server, &["show", &id(&wrong)])).unwrap();
    assert_eq!(shown["request"]["method"], "POST");
    assert!(
        shown["request"]["body"].as_str().unwrap().contains("wrong"),
        "{shown}"
    );
    // Its second attempt is done.
    assert_eq!(
        jobs(&server, &["retry", &id(&wrong)]),
        "jobs that begin again: 1\n"
    );
    let job = over(&server, &wrong);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("done"), &json!(2)));
    assert_eq!(jobs(&server, &["drop", &id(&long)]), "jobs removed: 1\n");
    assert_eq!(server.get(&long).status, 404);
    assert_eq!(
        jobs(&server, &["retry", "--failed"]),
        "jobs that begin again: 1\n"
    );
    assert_eq!(over(&server, &always)["state"], "done");
    assert_eq!(
        jobs(&server, &["list", "--state", "failed"]),
        "there are no such jobs\n"
    );
    let all: Value =
        serde_json::from_str(&jobs(&server, &["list", "--json", "--route", "POST /tasks"])).unwrap();
    assert_eq!(all["jobs"].as_array().unwrap().len(), 3, "{all}");
    let refused = server.command(&["jobs", "retry", &id(&wrong)]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("the job is over: it is `done`"),
        "{said}"
    );
    assert_eq!(
        metric(
            &server,
            "forebay_jobs_total{route=\"POST /tasks\",outcome=\"done\"}"
        ),
        3
    );
    assert_eq!(
        metric(
            &server,
            "forebay_jobs_total{route=\"POST /tasks\",outcome=\"failed\"}"
        ),
        3
    );
    let status = String::from_utf8(server.command(&["status"]).stdout).unwrap();
    let line = status
        .lines()
        .skip_while(|line| !line.starts_with("JOBS OF"))
        .nth(1);
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[..6], ["POST", "/tasks", "0", "0", "3", "3"], "{status}");
}

#[test]
fn a_key_is_one_job_however_often_it_is_asked_for() {
    let data = Folder::new();
    let mut server = setup(&data).start();
    let keyed =
        |server: &Server, body: &str| send(server, "POST", "/tasks", "idempotency-key: \"k\"\r\n", body);
    let first = keyed(&server, "{\"name\":\"a\"}");
    let address = first.header("location").unwrap().to_owned();
    assert_eq!(over(&server, &address)["state"], "done");
    let again = keyed(&server, "{\"name\":\"a\"}");
    assert_eq!((again.status, again.header("location")), (202, Some(&*address)));
    assert_eq!(again.json()["state"], "done");
    server.kill();
    let server = setup(&data).start();
    let again = keyed(&server, "{\"name\":\"a\"}");
    assert_eq!(again.header("location"), Some(&*address));
    let other = keyed(&server, "{\"name\":\"b\"}");
    assert_eq!(other.status, 422, "{}", other.text());
    assert!(
        other.detail().contains("belongs to another request"),
        "{}",
        other.detail()
    );
    let wrong = send(&server, "POST", "/tasks", "idempotency-key: a b\r\n", "{}");
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    assert_eq!(noted(&data), ["begin a 1", "end a 1"]);
}

#[test]
fn a_job_that_waits_can_be_delayed_and_cancelled_and_one_that_runs_cannot() {
    let data = Folder::new();
    let server = setup(&data).start();
    let later = accept(&server, "forebay-delay: 1h\r\n", &json!({ "name": "later" }));
    let waiting = job(&server, &later);
    let delay = waiting["dueMs"].as_u64().unwrap() - waiting["acceptedMs"].as_u64().unwrap();
    assert_eq!((&waiting["state"], delay), (&json!("waiting"), 3_600_000));
    let running = accept(&server, "", &json!({ "name": "running", "gate": "go" }));
    wait_for_note(&data, "begin running 1");
    let refused = send(&server, "DELETE", &running, "", "");
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(send(&server, "DELETE", &later, "", "").status, 204);
    assert_eq!(server.get(&later).status, 404);
    assert_eq!(send(&server, "DELETE", &later, "", "").status, 404);
    open(&data, "go");
    assert_eq!(over(&server, &running)["state"], "done");
    let refused = send(&server, "DELETE", &running, "", "");
    assert_eq!(
        (refused.status, refused.detail()),
        (409, "the job is over: it is `done`".to_owned())
    );
    for wrong in ["soon", "-1s", "8761h"] {
        let refused = send(
            &server,
            "POST",
            "/tasks",
            &format!("forebay-delay: {wrong}\r\n"),
            "{}",
        );
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text());
    }
    // A job that waits for its time can be told to begin.
    let later = accept(&server, "forebay-delay: 1h\r\n", &json!({ "name": "now" }));
    jobs(&server, &["retry", later.rsplit('/').next().unwrap()]);
    assert_eq!(over(&server, &later)["attempts"], 1);
    assert!(!noted(&data).iter().any(|line| line.contains("later")));
}

#[test]
fn jobs_of_a_route_with_priority_begin_first_and_no_more_run_than_may() {
    let data = Folder::new();
    let more = "[[route]]\npath = \"/urgent\"\npool = \"work\"\ndurable = { priority = \"high\" }\n\
                [[route]]\npath = \"/narrow\"\npool = \"work\"\ndurable = { at_a_time = 1 }\n";
    let one = "workers = { min = 1, max = 1 }\nconcurrency = 2";
    let server = setup_with(&data, "", one, more).start();
    let to = |path: &str, name: &str, gate: &str| {
        let body = json!({ "name": name, "gate": gate }).to_string();
        let response = send(&server, "POST", path, "", &body);
        assert_eq!(response.status, 202, "{}", response.text());
        response.header("location").unwrap().to_owned()
    };
    let first = to("/narrow", "first", "a");
    let second = to("/narrow", "second", "b");
    wait_for_note(&data, "begin first 1");
    let third = to("/tasks", "third", "c");
    // It takes the place that the second may not have.
    wait_for_note(&data, "begin third 1");
    let fourth = to("/tasks", "fourth", "d");
    let urgent = to("/urgent", "urgent", "d");
    open(&data, "c");
    wait_for_note(&data, "begin urgent 1");
    assert_eq!(job(&server, &second)["state"], "waiting");
    assert_eq!(job(&server, &fourth)["state"], "waiting");
    for gate in ["a", "b", "d"] {
        open(&data, gate);
    }
    for address in [first, second, third, fourth, urgent] {
        assert_eq!(over(&server, &address)["state"], "done");
    }
}

#[test]
fn jobs_of_a_route_with_parameters_are_below_its_path() {
    let data = Folder::new();
    let more = "[[route]]\npath = \"/orders/:id/mail\"\npool = \"work\"\nmethods = [\"PUT\"]\ndurable = {}\n\
                [[route]]\npath = \"/tree/*\"\npool = \"work\"\ndurable = {}\n\
                [[route]]\npath = \"/\"\npool = \"work\"\ndurable = {}\n";
    let server = setup_with(&data, "", POOL, more).start();
    for (method, target, below) in [
        ("PUT", "/orders/7/mail", "/orders/7/mail/jobs/"),
        ("POST", "/tree/a/b%20c", "/tree/jobs/"),
        ("POST", "/", "/jobs/"),
    ] {
        let response = send(&server, method, target, "", "{\"name\":\"a\"}");
        assert_eq!(response.status, 202, "{}", response.text());
        let address = response.header("location").unwrap().to_owned();
        assert!(address.starts_with(below), "{target}: {address}");
        assert_eq!(answer(&over(&server, &address))["path"], target);
        // It is a job of that route only.
        let id = address.rsplit('/').next().unwrap();
        assert_eq!(server.get(&format!("/tasks/jobs/{id}")).status, 404);
    }
}

#[test]
fn so_many_jobs_are_open_and_no_more() {
    let data = Folder::new();
    let server = setup_with(&data, "open_max = 2", POOL, "").start();
    for name in ["a", "b"] {
        accept(&server, "forebay-delay: 1h\r\n", &json!({ "name": name }));
    }
    let refused = send(&server, "POST", "/tasks", "", "{}");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(
        refused.detail().contains("durable.open_max"),
        "{}",
        refused.detail()
    );
    assert_eq!(metric(&server, "forebay_jobs_waiting{route=\"POST /tasks\"}"), 2);
    assert!(metric(&server, "forebay_jobs_bytes{route=\"POST /tasks\"}") > 0);
}

#[test]
fn a_job_is_told_of_to_those_only_who_have_asked_for_it() {
    let data = Folder::new();
    let auth = "auth = [\"robots\", \"others\"]\n[auth.robots.tokens.one]\ntoken = \"ONE\"\n[auth.robots.tokens.two]\ntoken = \"TWO\"\n[auth.others.tokens.one]\ntoken = \"OTHER\"\n";
    let server = setup_with(&data, "", POOL, auth)
        .env("ONE", "first-secret")
        .env("TWO", "second-secret")
        .env("OTHER", "third-secret")
        .start();
    let (one, two) = (
        "authorization: Bearer first-secret\r\n",
        "authorization: Bearer second-secret\r\n",
    );
    assert_eq!(send(&server, "POST", "/tasks", "", "{}").status, 401);
    // A client cannot send the fields that only the server sets.
    let claim = format!("{one}forebay-job: x\r\nforebay-attempt: 7\r\nidempotency-key: k\r\n");
    let address = accept(&server, &claim, &json!({ "name": "a" }));
    wait_until("the job to be done", || {
        send(&server, "GET", &address, one, "").json()["state"] == "done"
    });
    let answered = answer(&send(&server, "GET", &address, one, "").json());
    assert_eq!(
        (&answered["user"], &answered["attempt"]),
        (&json!("one"), &json!("1"))
    );
    let shown = jobs(&server, &["show", address.rsplit('/').next().unwrap()]);
    assert!(
        shown.contains("idempotency-key") && !shown.contains("secret") && !shown.contains("identity"),
        "{shown}"
    );
    // The same subject of another section is another client.
    let namesake = "authorization: Bearer third-secret\r\n";
    for (fields, status) in [("", 401), (two, 404), (namesake, 404)] {
        for method in ["GET", "DELETE"] {
            assert_eq!(
                send(&server, method, &address, fields, "").status,
                status,
                "{method} {fields}"
            );
        }
    }
    // A key is its client's own.
    let other = accept(
        &server,
        &format!("{two}idempotency-key: k\r\n"),
        &json!({ "name": "b" }),
    );
    assert_ne!(other, address);
}

#[test]
fn a_client_cannot_make_an_ordinary_request_look_like_a_job() {
    let data = Folder::new();
    let plain = "[[route]]\npath = \"/plain\"\npool = \"work\"\n";
    let server = setup_with(&data, "", POOL, plain).start();
    let told = send(
        &server,
        "POST",
        "/plain",
        "forebay-job: x\r\nforebay-attempt: 2\r\nforebay-scheduled: now\r\n",
        "text",
    );
    assert_eq!(
        told.json(),
        json!({ "job": null, "attempt": null, "text": "text" })
    );
}

/// The times for which jobs of a schedule have run, in seconds since 1970.
pub(crate) fn scheduled(data: &Folder) -> Vec<i64> {
    let noted = noted(data);
    let times = noted.iter().filter_map(|line| line.strip_prefix("scheduled "));
    let mut times: Vec<i64> = times.map(seconds).collect();
    times.sort_unstable();
    times
}

/// Seconds since 1970. A process for each time, but not for each look at it.
fn seconds(time: &str) -> i64 {
    static KNOWN: Mutex<BTreeMap<String, i64>> = Mutex::new(BTreeMap::new());
    let parse = || {
        let output = Command::new("date")
            .args(["--date", time, "+%s"])
            .output()
            .expect("`date` is there");
        let seconds = String::from_utf8(output.stdout).expect("a number");
        seconds.trim().parse().expect("a time")
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry(time.to_owned()).or_insert_with(parse)
}

#[test]
fn a_schedule_has_a_job_at_each_time_and_one_for_those_that_were_missed() {
    let data = Folder::new();
    let every_second = "schedule = \"* * * * * *\", time_zone = \"Asia/Tokyo\"";
    let setup = || setup_with(&data, every_second, POOL, "");
    let mut server = setup().start();
    wait_until("three jobs", || scheduled(&data).len() >= 3);
    assert!(noted(&data)[0].ends_with("+09:00"));
    let listed = jobs(&server, &["list"]);
    let lines = listed.lines().skip_while(|line| !line.starts_with("SCHEDULE OF"));
    let words: Vec<&str> = lines.skip(1).flat_map(str::split_whitespace).collect();
    assert_eq!(
        words[..9],
        ["POST", "/tasks", "*", "*", "*", "*", "*", "*", "Asia/Tokyo"],
        "{listed}"
    );
    assert!(words[9].ends_with('Z'), "{listed}");
    server.kill();
    let before = scheduled(&data);
    let last = *before.last().unwrap();
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
            .cast_signed()
    };
    wait_until("four times to pass", || now() > last + 4);
    let _server = setup().start();
    wait_until("two more jobs", || scheduled(&data).len() >= before.len() + 2);
    let after: Vec<i64> = scheduled(&data).split_off(before.len());
    // One that was cut off by the kill runs again.
    let missed = after.iter().filter(|time| (last + 1..=last + 4).contains(*time));
    assert!((1..=2).contains(&missed.count()), "{before:?} {after:?}");
}

#[test]
fn jobs_go_on_through_a_reload_and_wait_while_their_route_is_gone() {
    let data = Folder::new();
    let setup = setup(&data);
    let server = setup.start();
    let config = server.folder().read("forebay.toml").unwrap();
    let running = accept(&server, "", &json!({ "name": "running", "gate": "go" }));
    wait_for_note(&data, "begin running 1");
    assert!(server.command(&["reload"]).status.success());
    let after = accept(&server, "", &json!({ "name": "after" }));
    assert_eq!(over(&server, &after)["state"], "done");
    open(&data, "go");
    assert_eq!(over(&server, &running)["attempts"], 1);
    let later = accept(&server, "forebay-delay: 1h\r\n", &json!({ "name": "later" }));
    server
        .folder()
        .write("forebay.toml", config.replace("durable = {", "#"));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(server.get(&later).status, 404);
    jobs(&server, &["retry", later.rsplit('/').next().unwrap()]);
    let oldest = || metric_of(&server, "forebay_jobs_oldest_seconds{route=\"POST /tasks\"}");
    // Had it begun, the next one would not be due for so long.
    wait_until("it to be due and left alone", || oldest() >= 1.0);
    assert!(!noted(&data).iter().any(|line| line.contains("later")));
    server.folder().write("forebay.toml", config);
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(over(&server, &later)["state"], "done");
}

pub(crate) fn metric_of(server: &Server, series: &str) -> f64 {
    let metrics = server.admin().get("/metrics");
    let mut lines = metrics.text().lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

#[test]
fn jobs_go_on_through_an_upgrade_and_none_runs_in_both_processes() {
    let data = Folder::new();
    let server = setup(&data).start();
    let running = accept(&server, "", &json!({ "name": "running", "gate": "go" }));
    wait_for_note(&data, "begin running 1");
    let later = accept(&server, "forebay-delay: 2s\r\n", &json!({ "name": "later" }));
    let _last: Successor = std::thread::scope(|scope| {
        let upgrading = scope.spawn(|| upgrade(&server));
        // The new process runs jobs while the one before ends its own.
        let mut meanwhile = None;
        wait_until("the new process to run jobs", || {
            let before = server.process();
            let address = accept(&server, "", &json!({ "name": "meanwhile" }));
            over(&server, &address);
            meanwhile = Some(address);
            server.serving() != before
        });
        open(&data, "go");
        upgrading.join().unwrap()
    });
    let done = over(&server, &running);
    assert_eq!(
        (&done["state"], &done["attempts"]),
        (&json!("done"), &json!(1)),
        "{done}"
    );
    assert_eq!(over(&server, &later)["attempts"], 1);
    assert_eq!(count(&data, "end running 1") + count(&data, "end later 1"), 2);
}

#[test]
fn a_job_that_is_cut_off_by_a_stop_runs_again_with_the_next_server() {
    let data = Folder::new();
    let mut server = setup(&data).server("drain_max = \"500ms\"").start();
    let address = accept(&server, "", &json!({ "name": "cut", "gate": "go" }));
    wait_for_note(&data, "begin cut 1");
    server.terminate();
    server.wait();
    open(&data, "go");
    let server = setup(&data).start();
    let job = over(&server, &address);
    // A stop of the server is no attempt of the job.
    assert_eq!(
        (&job["state"], &job["attempts"]),
        (&json!("done"), &json!(1)),
        "{job}"
    );
}

#[test]
fn a_full_store_takes_no_job_and_loses_none() {
    let data = Folder::new();
    let store = data.path().join("data");
    let config = format!(
        "[store]\npath = \"{}\"\nmap_max = \"4MiB\"\n[pool.work]\nhandler = \"work.mjs\"\nruntime = \"node\"\n{POOL}\n\
         [[route]]\npath = \"/tasks\"\npool = \"work\"\ndurable = {{}}\n",
        store.display()
    );
    let server = Setup::new(&config)
        .file("work.mjs", HANDLER)
        .threads(1)
        .admin()
        .start();
    let running = json!({ "name": "running", "gate": "go", "length": 200 * 1024 });
    let running = accept(&server, "", &running);
    let ran = || server.folder().read("ran").unwrap_or_default();
    wait_until("the job to run", || ran().contains("begin running 1"));
    let text = json!({ "name": "a", "padding": "x".repeat(64 * 1024) }).to_string();
    let mut accepted = Vec::new();
    let full = loop {
        let response = send(&server, "POST", "/tasks", "forebay-delay: 1h\r\n", &text);
        if response.status != 202 {
            break response;
        }
        accepted.push(response.header("location").unwrap().to_owned());
        assert!(accepted.len() < 100, "the store has room for more than it may");
    };
    assert_eq!(full.status, 507, "{}", full.text());
    // Its end is stored as soon as there is room for it.
    server.folder().write("go", "");
    server.wait_for_log(&["how a job has ended is not stored yet", "map_max"]);
    assert_eq!(job(&server, &running)["state"], "running");
    let last = accepted.pop().expect("there was room for some");
    for address in accepted {
        assert_eq!(send(&server, "DELETE", &address, "", "").status, 204);
    }
    let done = over(&server, &running);
    assert_eq!((&done["state"], &done["attempts"]), (&json!("done"), &json!(1)));
    assert_eq!(done["response"]["body"].as_str().map(str::len), Some(200 * 1024));
    jobs(&server, &["retry", last.rsplit('/').next().unwrap()]);
    assert_eq!(answer(&over(&server, &last))["name"], "a");
}

#[test]
fn the_guide_does_what_it_says() {
    const GUIDE: &str = include_str!("../../../../docs/guide/jobs.md");
    let handler = blocks(GUIDE, "js")[0];
    let setup = Setup::new(blocks(GUIDE, "toml")[0]).file("mails.mjs", handler);
    let server = setup.admin().start();
    let binary = command(&[]).get_program().display().to_string();
    let console = blocks(GUIDE, "console").concat();
    let exchanges: Vec<(&str, &str)> = console
        .split("$ ")
        .skip(1)
        .map(|exchange| exchange.split_once('\n').expect("a line"))
        .collect();
    assert_eq!(exchanges.len(), 4);
    for (command, shown) in exchanges {
        let command = command
            .replace("127.0.0.1:8080", &server.address().to_string())
            .replace("forebay jobs", &format!("{binary} jobs"));
        let output = Command::new("timeout")
            .args(["30", "sh", "-c", &command])
            .current_dir(server.folder().path())
            .output()
            .expect("a shell runs within a time");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim_end(), shown.trim_end(), "{command}: {output:?}");
    }
}

/// Has clients of these servers send jobs until 300 are acknowledged and as many attempts begun, kills one of the servers, and returns the
/// names and addresses of what was acknowledged.
pub(crate) fn kill_under_load(
    targets: [SocketAddr; 4],
    data: &Folder,
    killed: &mut Server,
) -> BTreeMap<String, String> {
    let acknowledged = Mutex::new(BTreeMap::new());
    let is_killed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (client, target) in targets.into_iter().enumerate() {
            let (acknowledged, is_killed) = (&acknowledged, &is_killed);
            scope.spawn(move || {
                let mut connection = Client::tcp(target);
                for number in 0.. {
                    let name = format!("{client}-{number}");
                    let body = json!({ "name": name }).to_string();
                    let length = body.len();
                    let request =
                        format!("POST /tasks HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}");
                    let sent = connection.try_send(request.as_bytes());
                    // The server was killed; whether this one was stored, nobody was told.
                    let Ok(response) = sent.and_then(|()| connection.try_response("POST")) else {
                        break;
                    };
                    assert_eq!(response.status, 202, "{}", response.text());
                    let address = response.header("location").expect("it has an address").to_owned();
                    acknowledged
                        .lock()
                        .expect("no client panics")
                        .insert(name, address);
                    if is_killed.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        wait_until(
            "some jobs to be acknowledged, and some of them to be done",
            || acknowledged.lock().expect("no client panics").len() > 300 && noted(data).len() > 300,
        );
        killed.kill();
        is_killed.store(true, Ordering::Relaxed);
    });
    acknowledged.into_inner().expect("no client panics")
}

/// Waits until all these jobs are done.
pub(crate) fn wait_for_all(server: &Server, addresses: &BTreeMap<String, String>) {
    for (name, address) in addresses {
        let job = over(server, address);
        assert_eq!(
            (&job["state"], &answer(&job)["name"]),
            (&json!("done"), &json!(name)),
            "{job}"
        );
    }
}

#[test]
fn every_job_that_was_acknowledged_under_load_is_done_after_a_kill() {
    let data = Folder::new();
    let mut killed = setup(&data).start();
    let acknowledged = kill_under_load([killed.address(); 4], &data, &mut killed);
    let server = setup(&data).start();
    wait_for_all(&server, &acknowledged);
    // Jobs that were done before the kill were not done again: only those that ran at that time.
    let noted = noted(&data);
    let twice = acknowledged
        .keys()
        .filter(|name| noted.contains(&format!("begin {name} 2")));
    assert!(twice.count() <= 8, "as many as run at a time");
    // Some were stored without an answer to their clients.
    wait_until("no job to be open", || {
        let of = |name: &str| metric(&server, &format!("forebay_jobs_{name}{{route=\"POST /tasks\"}}"));
        of("waiting") + of("running") + of("bytes") == 0
    });
}
