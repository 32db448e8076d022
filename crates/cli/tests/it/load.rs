//! `forebay load` from the outside: what it prints where, and how it ends.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
};

use forebay_testkit::{Folder, Process, wait_for, wait_until};
use rustix::process::Signal;

use crate::run::{Ended, Serving, forebay, run};

/// Everything that the founding benchmarks ask for, from memory.
const SEEDS: &str = r#"
[[route]]
path = "/local"
respond = { json = { status = "success" } }
[[route]]
path = "/helloworld"
respond = { json = { hello = "world" } }
[[route]]
path = "/mgweb/helloworld"
respond = { json = { hello = "world 123" } }
[[route]]
path = "/mgweb/userx/1"
respond = { json = { key = 1, data = { firstName = "Rob", lastName = "Tweed" } } }
[[route]]
path = "/mgweb/user/1"
respond = { json = { key = 1, data = { firstName = "Rob", lastName = "Tweed" } } }
[[route]]
path = "/json/000000000000000b"
respond = { json = { title = "Article" } }
[[route]]
path = "/v1/Article/11"
respond = { json = { title = "Article" } }
[[route]]
path = "/e1/Article/11"
respond = { json = { title = "Article" } }
[[route]]
path = "/execute/internal/workflow"
respond = { json = { ok = true } }
[[route]]
path = "/queries"
respond = { json = [] }
[[route]]
path = "/queries2"
respond = { json = [] }
"#;

/// A server, and the folder in which its commands run.
struct Target {
    serving: Serving,
    folder: Folder,
}

impl Target {
    fn start() -> Self {
        let folder = Folder::new();
        folder.write("forebay.toml", SEEDS);
        folder.write("benchmark1.json", r#"{"a": 1}"#);
        Self {
            serving: Serving::start(folder.path(), &[]),
            folder,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.serving.address())
    }

    /// Runs `forebay load` with a line; `HOST:PORT` in it is this server's.
    fn load(&self, line: &str) -> Ended {
        let line = line.replace("HOST:PORT", &self.serving.address().to_string());
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        run(self.folder.path(), &words)
    }
}

fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn a_run_prints_its_result_to_standard_output_and_what_it_does_to_standard_error() {
    let target = Target::start();
    let ended = target.load("http://HOST:PORT/local -n 1k -c 4 --engine epoll");
    assert_eq!(ended.code, 0, "{ended:?}");
    let address = target.serving.address();
    assert_eq!(
        ended.err,
        format!("GET http://{address}/local: 4 connections on 1 thread, 1000 requests\n")
    );
    assert!(ended.out.contains("1,000 answers in"), "{ended:?}");
    let quiet = target.load("http://HOST:PORT/local -n 10 -c 4 --quiet");
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}

#[test]
fn json_is_one_object_and_all_there_is_on_standard_output() {
    let target = Target::start();
    let ended = target.load(
        "http://HOST:PORT/local -n 500 -c 5 --json --csv=latency.csv --hgrm=latency.hgrm --ndjson=slices",
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = json(&ended);
    assert_eq!(report["requests"]["total"], 500);
    assert_eq!(report["statuses"]["200"], 500);
    for key in ["p50", "p95", "p99", "p99_9", "max", "mean"] {
        assert!(report["latency_ms"][key].as_f64().unwrap() > 0.0, "{key}");
    }
    for file in ["latency.csv", "latency.hgrm", "slices"] {
        assert!(!target.folder.read(file).unwrap().is_empty(), "{file}");
    }
}

/// Runs command lines as they stand in a document, but for how long they last: 0.1 s instead of 1 to 15, where a line says.
fn run_as_written(lines: &[&str]) {
    let target = Target::start();
    for line in lines {
        let ended = target.load(line);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        let figure = match line.split(' ').next().unwrap() {
            "autocannon" => " requests in ",
            "hose" => " GETS/sec",
            "ab" => "Failed requests:        0\n",
            "go-wrk" => "Requests per second:",
            "jmeter" => "\nTOTAL ",
            _ => "\nRequests/sec:",
        };
        let printed = format!("{}{}", ended.out, ended.err);
        assert!(printed.contains(figure), "{line}: {ended:?}");
    }
}

#[test]
fn every_command_line_of_qoper8_and_of_mg_web_runs() {
    run_as_written(&[
        "autocannon -c 1 -d 0.1 http://HOST:PORT/local",
        "autocannon -c 6 -d 0.1 http://HOST:PORT/local",
        "autocannon -c 8 -d 0.1 http://HOST:PORT/local",
        "autocannon -c 32 -d 0.1 http://HOST:PORT/helloworld",
        "autocannon -c 128 -d 0.1 -w 4 http://HOST:PORT/local",
        "autocannon -c 64 -d 0.1 http://HOST:PORT/mgweb/helloworld",
        "autocannon -c 64 -d 0.1 http://HOST:PORT/mgweb/userx/1",
        "autocannon -c 64 -d 0.1 http://HOST:PORT/mgweb/user/1",
    ]);
}

#[test]
fn every_command_line_of_opo_runs() {
    run_as_written(&[
        "hose -t 2 -c 20 -p json/000000000000000b HOST:PORT",
        "hose -t 2 -c 20 -d 0.1 -p json/000000000000000b HOST:PORT -k",
        "hose -t 2 -c 20 -d 0.1 -p v1/Article/11 HOST:PORT",
        "hose -t 2 -c 20 -d 0.1 -p v1/Article/11 HOST:PORT -k",
        "hose -t 2 -c 20 -d 0.1 -p e1/Article/11 HOST:PORT",
        "hose -t 2 -c 20 -d 0.1 -p e1/Article/11 HOST:PORT -k",
        "hose -p json/000000000000000b -d 0.1 -t 2 HOST:PORT",
        "hose -p v1/Article/11 -d 0.1 -t 2 HOST:PORT",
    ]);
}

#[test]
fn every_command_line_of_rengine_and_of_light_4j_runs() {
    run_as_written(&[
        "ab -p benchmark1.json -T application/json -n 1000 -c 200 http://HOST:PORT/execute/internal/workflow",
        "ab -p benchmark1.json -T application/json -n 2000 -c 1000 http://HOST:PORT/execute/internal/workflow",
        "go-wrk -t 2 -m 10000 http://HOST:PORT/queries?queries=10",
        "go-wrk -t 2 -m 10000 http://HOST:PORT/queries2?queries=10",
        "jmeter --threads 2,4,8 --ramp-up 0 --loops forever --duration 0.1 http://HOST:PORT/queries?queries=10",
        "jmeter --threads 2,4,8 --ramp-up 0 --loops forever --duration 0.1 http://HOST:PORT/queries2?queries=10",
        // What TechEmpower measures light-java with.
        "wrk -t2 -c10 -d0.1s --latency http://HOST:PORT/local",
        "wrk2 -t2 -c10 -d0.1s -R500 http://HOST:PORT/local",
        "jmeter --threads 2,4 --ramp-up 0.1 --loops 3 http://HOST:PORT/local",
        "ab -n 20 -c 4 -R 5 http://HOST:PORT/local",
    ]);
}

#[test]
fn connections_of_http_1_0_stay_open_where_both_sides_say_so() {
    let target = Target::start();
    for (line, opened) in [
        ("http://HOST:PORT/local -n 40 -c 2 --json --http1.0", 2..=2),
        (
            "http://HOST:PORT/local -n 40 -c 2 --json --http1.0 --no-keepalive",
            40..=41,
        ),
    ] {
        let ended = target.load(line);
        let report = json(&ended);
        assert_eq!(report["statuses"]["200"], 40, "{ended:?}");
        assert_eq!(report["requests"]["failed"], 0, "{ended:?}");
        let connections = report["connections"]["opened"].as_u64().unwrap();
        assert!(opened.contains(&connections), "{line}: {ended:?}");
    }
    let ab = target.load("ab -k -n 40 -c 2 http://HOST:PORT/local");
    assert!(ab.out.contains("Keep-Alive requests:    40\n"), "{ab:?}");
}

#[test]
fn users_that_start_one_after_the_other_each_make_their_requests() {
    let target = Target::start();
    let ended = target.load("http://HOST:PORT/local -n 40 -c 8 --connect-rate 200 --engine epoll --json");
    let report = json(&ended);
    assert_eq!(report["run"]["connect_rate"], 200.0, "{ended:?}");
    assert!(
        ended
            .err
            .contains("8 connections on 1 thread, opened at 200 a second"),
        "{ended:?}"
    );
    assert_eq!(report["requests"]["total"], 40);
    let ended = target.load("jmeter --threads 4 --ramp-up 0.1 --loops 3 http://HOST:PORT/local");
    assert!(ended.err.contains("opened at 40 a second"), "{ended:?}");
    assert!(ended.out.contains("HTTP Request (4)         12 "), "{ended:?}");
}

#[test]
fn a_number_as_go_wrks_method_is_explained() {
    let target = Target::start();
    let ended = target.load("go-wrk -t 2 -m 200 http://HOST:PORT/local");
    assert!(
        ended.err.contains("go-wrk itself takes -m as the method"),
        "{ended:?}"
    );
    assert!(ended.out.contains("200"), "{ended:?}");
}

#[test]
fn where_nothing_listens_the_next_step_is_told() {
    let folder = Folder::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended = run(folder.path(), &["load", &free.to_string(), "-d", "60"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    assert_eq!(
        ended.err,
        format!(
            "error: nothing listens on {free}\n  because: Connection refused (os error 111)\n  \
             try: start the server first, or let the load start it: `--on-port -- CMD`\n"
        )
    );
}

#[test]
fn impossible_options_end_with_2_before_a_connection_is_made() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    for (words, complaint) in [
        (&["-c", "0"][..], "expected at least 1"),
        (
            &["-c", "2", "-t", "3"],
            "3 threads are too many for 2 connections",
        ),
        (
            &["--pipeline", "4", "--no-keepalive"],
            "--pipeline needs keep-alive",
        ),
        (&["-d", "soon"], "expected a duration"),
        (
            &["--json", "--csv"],
            "two results cannot both go to standard output",
        ),
        (
            &["--json=nowhere/result.json"],
            "lies in a folder that does not exist",
        ),
        (&["--body-file", "none.json"], "cannot read none.json"),
        (&["--server-pid", "4194305"], "no process has the pid 4194305"),
        (&["-H", "Accept"], "expected \"Name: value\""),
    ] {
        let ended = run(folder.path(), &[&["load", &url], words].concat());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains(complaint), "{words:?}: {ended:?}");
    }
    let remote = run(folder.path(), &["load", "http://192.0.2.1/"]);
    assert_eq!(remote.code, 2);
    assert!(
        remote.err.contains("192.0.2.1:80 is not this machine") && remote.err.contains("--allow-remote"),
        "{remote:?}"
    );
    for words in [
        &["ab", "-P", "me:secret", &url][..],
        &["wrk", "-s", "x.lua", &url],
        &["hose", "-t"],
    ] {
        let ended = run(folder.path(), &[&["load"], words].concat());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{words:?}: {ended:?}");
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a refused command line has connected");
}

#[test]
fn answers_that_are_not_as_expected_are_counted() {
    let target = Target::start();
    let ended =
        target.load("http://HOST:PORT/local -n 20 -c 2 --expect-json {\"status\":\"success\"} --json");
    assert_eq!(json(&ended)["requests"]["failed"], 0, "{ended:?}");
    let ended = target.load("http://HOST:PORT/local -n 20 -c 2 --expect-body ~nothing --json");
    assert_eq!(json(&ended)["errors"]["mismatch"], 20, "{ended:?}");
    let ended = target.load("http://HOST:PORT/nowhere -n 20 -c 2 --json");
    assert_eq!(json(&ended)["errors"]["status"], 20, "{ended:?}");
    let ended = target.load("http://HOST:PORT/nowhere -n 20 -c 2 --json --expect-status 404");
    assert_eq!(json(&ended)["requests"]["failed"], 0, "{ended:?}");
}

/// A command whose output goes to files; it is killed when dropped.
struct Running {
    child: Child,
    logs: Folder,
}

impl Running {
    fn start(folder: &Folder, words: &[&str]) -> Self {
        let logs = Folder::new();
        let file = |name: &str| Stdio::from(File::create(logs.path().join(name)).unwrap());
        let child = forebay(folder.path(), words)
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Self { child, logs }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by an earlier one.
        if let Some(process) = Process::with_pid(self.child.id()) {
            process.signal(signal);
        }
    }

    fn end(&mut self) -> Ended {
        let status = wait_for("the command to end", || self.child.try_wait().unwrap());
        Ended {
            code: status.code().expect("it ended by itself"),
            out: self.logs.read("out").unwrap(),
            err: self.logs.read("err").unwrap(),
        }
    }

    fn wait_until_told(&self, part: &str) {
        wait_until(part, || self.logs.read("err").unwrap().contains(part));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_interrupt_prints_what_was_measured_until_then() {
    let target = Target::start();
    let url = target.url("/local");
    let words = ["load", &url, "-d", "1h", "--warmup", "0", "--json", "-c", "2"];
    let mut running = Running::start(&target.folder, &words);
    // A line of progress: by then there are answers.
    running.wait_until_told("measuring");
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = json(&ended);
    assert_eq!(report["interrupted"], true);
    assert!(report["requests"]["total"].as_u64().unwrap() > 0, "{ended:?}");
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    // It accepts connections and never answers: the first interrupt waits for answers that are due.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let folder = Folder::new();
    let words = [
        "load",
        &url,
        "-d",
        "1h",
        "--timeout",
        "1h",
        "-c",
        "1",
        "--warmup",
        "0",
    ];
    let mut running = Running::start(&folder, &words);
    running.wait_until_told("3600s");
    // The trial connection, and one that carries a request.
    let (_trial, _) = silent.accept().unwrap();
    let (_loaded, _) = silent.accept().unwrap();
    running.signal(Signal::INT);
    running.signal(Signal::INT);
    let told = wait_for("the command to end", || {
        // Two signals that come together may be one.
        running.signal(Signal::INT);
        running.child.try_wait().unwrap()
    });
    assert_eq!(told.code(), Some(130));
}

#[test]
fn a_server_is_started_loaded_and_stopped() {
    let folder = Folder::new();
    folder.write("forebay.toml", SEEDS);
    let binary = env!("CARGO_BIN_EXE_forebay");
    let words = [
        "load",
        "--on-port",
        "/local",
        "-n",
        "100",
        "-c",
        "2",
        "--json",
        "--",
    ];
    let command = [binary, "serve", "--listen", "127.0.0.1:0", "--admin", "off"];
    let ended = run(folder.path(), &[&words[..], &command].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = json(&ended);
    assert_eq!(report["requests"]["total"], 100);
    assert_eq!(report["statuses"]["200"], 100);
    let status = run(folder.path(), &["status"]);
    assert_eq!(status.code, 4, "the server still runs: {status:?}");
}

#[test]
fn a_command_that_does_not_serve_is_told_so() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["load", "--on-port", "-n", "1", "--", "false"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .err
            .contains("`false` has ended (exit status: 1) before it listened"),
        "{ended:?}"
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", taken.local_addr().unwrap());
    let ended = run(folder.path(), &["load", "--on-port", &url, "--", "sleep", "60"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("something listens on"), "{ended:?}");
}

/// `forebay load serve` on a free port.
fn calibration() -> Serving {
    let folder = Folder::new();
    Serving::spawn(folder.path(), forebay(folder.path(), &["load", "serve"]))
}

#[test]
fn the_server_of_load_counts_what_the_report_counts() {
    let folder = Folder::new();
    let mut serving = calibration();
    let url = format!("http://{}/bytes/100", serving.address());
    let ended = run(
        folder.path(),
        &[
            "load", &url, "-n", "5k", "-c", "16", "-t", "2", "--json", "--quiet",
        ],
    );
    assert_eq!(json(&ended)["requests"]["total"], 5000, "{ended:?}");
    serving.process().signal(Signal::INT);
    assert_eq!(serving.wait().code(), Some(0));
    let printed = serving.printed();
    let counted: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(counted["paths"]["/bytes/100"]["answered"], 5000, "{printed}");
}

#[test]
fn a_server_for_calibration_serves_this_machine_only() {
    let folder = Folder::new();
    for address in ["0.0.0.0:0", "192.0.2.1:80", "nowhere"] {
        let ended = run(folder.path(), &["load", "serve", "--listen", address]);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{address}: {ended:?}");
    }
}

/// Runs a search against a server for calibration, and returns what it found.
fn search(words: &[&str]) -> serde_json::Value {
    let folder = Folder::new();
    let serving = calibration();
    let url = format!("http://{}/", serving.address());
    let words: Vec<String> = words.iter().map(|word| word.replace("URL", &url)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = run(
        folder.path(),
        &[&["load", &url, "--json", "--quiet"], &words[..]].concat(),
    );
    assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
    json(&ended)
}

#[test]
fn the_best_number_of_connections_is_found_with_its_curve() {
    let best = &search(&["--find-best", "-c", "4", "-d", "0.05"])["find_best"];
    let chosen = best["connections"].as_u64().unwrap();
    assert!((1..=4).contains(&chosen), "{best}");
    assert!(best["curve"].as_array().unwrap().len() >= 3, "{best}");
    assert!(!best["reason"].as_str().unwrap().is_empty(), "{best}");
}

#[test]
fn failures_of_a_search_are_parts_of_what_was_asked_for() {
    let folder = Folder::new();
    let serving = calibration();
    let (right, wrong) = (
        format!("http://{}/", serving.address()),
        format!("http://{}/status/500", serving.address()),
    );
    let ended = run(
        folder.path(),
        &[
            "load",
            &wrong,
            "--find-best",
            "-c",
            "2",
            "-d",
            "0.05",
            "--json",
            "--quiet",
        ],
    );
    let found = json(&ended);
    let curve = found["find_best"]["curve"].as_array().unwrap();
    assert!(curve.iter().all(|point| point["failed"] == 1.0), "{found}");
    let ended = run(
        folder.path(),
        &[
            "load", &right, "--vs", &wrong, "-d", "0.4", "-c", "2", "--warmup", "0", "--quiet",
        ],
    );
    let of_servers = ended.out.split("\nB / A").next().unwrap();
    assert!(of_servers.contains("failed 100.00 %"), "{ended:?}");
    assert_eq!(of_servers.matches("failed").count(), 1, "{ended:?}");
    assert!(
        ended
            .out
            .contains("\nVerdict  errors: B failed 100.00 % of its requests (status "),
        "{ended:?}"
    );
    let bail = run(folder.path(), &["load", &right, "--find-best", "--bail", "1"]);
    assert_eq!(bail.code, 2, "{bail:?}");
    assert!(bail.err.contains("--bail is for a single run"), "{bail:?}");
}

#[test]
fn a_server_beside_another_has_a_ratio_and_one_beside_itself() {
    let found = search(&["--vs", "URL", "-d", "0.5", "-c", "2", "--warmup", "0"]);
    for ratio in ["per_second", "p50", "p99", "self"] {
        assert!(
            found["versus"][ratio]["value"].as_f64().unwrap() > 0.0,
            "{ratio}: {found}"
        );
    }
    let command = format!("exec {} load serve --listen $PORT", env!("CARGO_BIN_EXE_forebay"));
    let started = &search(&["--vs-cmd", &command, "-d", "0.5", "-c", "2", "--warmup", "0"])["versus"];
    assert_eq!(started["pairs"].as_array().unwrap().len(), 2, "{started}");
    let verdict = found["verdict"].as_str().unwrap();
    assert!(["clean", "noisy"].contains(&verdict), "{found}");
    assert_ne!(started["urls"][0], started["urls"][1], "{started}");
}

#[test]
fn the_ladder_of_a_known_protocol_has_its_rungs() {
    let ladder = search(&["--preset", "tfb", "-d", "0.05"]);
    let rungs = ladder["rungs"].as_array().unwrap();
    let connections: Vec<u64> = rungs
        .iter()
        .map(|rung| rung["connections"].as_u64().unwrap())
        .collect();
    assert_eq!(connections, [16, 32, 64, 128, 256, 512]);
}

#[test]
fn a_run_until_the_rate_is_known_has_a_report() {
    let narrow = search(&["--until-ci", "90%", "-d", "0.5", "-c", "2", "--warmup", "0"]);
    assert!(narrow["requests"]["total"].as_u64().unwrap() > 0, "{narrow}");
    assert!(narrow["machine"]["cores"].as_u64().unwrap() > 0, "{narrow}");
    assert!(narrow["environment"]["kernel"].is_string(), "{narrow}");
}

#[test]
fn requests_come_from_templates_lists_recordings_scenarios_and_files() {
    let folder = Folder::new();
    let mut serving = calibration();
    let address = serving.address();
    folder.write("users.csv", "size\n7\n8\n");
    folder.write("urls.txt", "/bytes/21\n/bytes/22\nPOST /echo\n");
    folder.write("body", "x=1");
    let entry = |path: &str| {
        format!(r#"{{"request": {{"method": "GET", "url": "http://{address}{path}", "headers": []}}}}"#)
    };
    let elsewhere = r#"{"request": {"method": "GET", "url": "http://192.0.2.1/", "headers": []}}"#;
    folder.write(
        "shop.har",
        format!(
            r#"{{"log": {{"entries": [{}, {elsewhere}]}}}}"#,
            entry("/bytes/31")
        ),
    );
    folder.write(
        "shop.json",
        r#"[{"method": "POST", "path": "/echo", "body": {"size": 41}, "extract": {"size": {"json": "$.size"}}},
            {"path": "/bytes/{{size}}"}]"#,
    );
    folder.write("raw.txt", "GET /bytes/51 HTTP/1.1\r\nX-Id: 5\r\n\r\n");
    let load = |line: &str, count: u64| {
        let line = line.replace("HOST:PORT", &address.to_string());
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(folder.path(), &[&words[..], &["--json"]].concat());
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        assert_eq!(json(&ended)["requests"]["total"], count, "{line}: {ended:?}");
        assert_eq!(json(&ended)["requests"]["failed"], 0, "{line}: {ended:?}");
        ended.err
    };
    load("http://HOST:PORT/bytes/{{counter}} --template -n 3 -c 1", 3);
    load(
        "http://HOST:PORT/bytes/{{csv.size}} --template --csv-data users.csv -n 4 -c 1",
        4,
    );
    load(
        "http://HOST:PORT/echo -F name=Rob -F file=@body --expect-body ~Rob -n 2 -c 1",
        2,
    );
    load(
        "http://HOST:PORT/echo -b hello --chunked --cookie a=1 --user ann:x --expect-body hello -n 1 -c 1",
        1,
    );
    load(
        "http://HOST:PORT/bytes/61 --expect-header content-length:61 --bind 127.0.0.1 --ipv4 -n 1 -c 1",
        1,
    );
    load("http://HOST:PORT/ --urls urls.txt -n 6 -c 1", 6);
    let told = load("http://HOST:PORT/ --har shop.har -n 2 -c 1", 2);
    assert!(
        told.contains("1 requests of shop.har are left out: they go to other servers"),
        "{told}"
    );
    load("http://HOST:PORT/ --requests shop.json -n 4 -c 1", 4);
    let hose = [
        "load",
        "hose",
        "-r",
        "raw.txt",
        "-d",
        "0.1",
        "-c",
        "2",
        "-k",
        &address.to_string(),
    ];
    let hosed = run(folder.path(), &hose);
    assert_eq!(hosed.code, 0, "{hosed:?}");
    serving.process().signal(Signal::INT);
    serving.wait();
    let printed = serving.printed();
    let counted: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    for (path, count) in [
        ("/bytes/1", 1),
        ("/bytes/2", 1),
        ("/bytes/7", 2),
        ("/bytes/8", 2),
        ("/bytes/21", 2),
        ("/bytes/22", 2),
        ("/echo", 7),
        ("/bytes/31", 2),
        ("/bytes/41", 2),
    ] {
        assert_eq!(counted["paths"][path]["answered"], count, "{path}: {printed}");
    }
    assert!(
        counted["paths"]["/bytes/51"]["answered"].as_u64().unwrap() > 0,
        "{printed}"
    );
}

#[test]
fn requests_that_cannot_be_sent_are_refused() {
    let folder = Folder::new();
    folder.write("empty", "");
    folder.write("wrong.json", "{\"steps\": [{\"pth\": \"/\"}]}");
    for (words, complaint) in [
        (&["http://127.0.0.1:9/{{cuonter}}", "--template"][..], "cuonter"),
        (
            &["http://127.0.0.1:9/", "--csv-data", "empty"],
            "--csv-data needs --template",
        ),
        (
            &["http://127.0.0.1:9/", "--shuffle"],
            "--shuffle needs --urls, --har, --access-log or --body-lines",
        ),
        (
            &["http://127.0.0.1:9/", "--urls", "empty"],
            "there is no request in it",
        ),
        (&["http://127.0.0.1:9/", "--har", "empty"], "not a HAR file"),
        (&["http://127.0.0.1:9/", "--requests", "wrong.json"], "pth"),
        (
            &["http://127.0.0.1:9/", "--urls", "nowhere"],
            "cannot read nowhere",
        ),
        (&["http://127.0.0.1:9/", "-F", "name"], "form field"),
        (
            &["http://127.0.0.1:9/", "--cacert", "empty"],
            "certificates need https",
        ),
        (&["https://127.0.0.1:9/", "--cacert", "empty"], "empty"),
    ] {
        let ended = run(folder.path(), &[&["load"], words].concat());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains(complaint), "{words:?}: {ended:?}");
    }
}

#[test]
fn a_search_for_the_rate_can_be_interrupted() {
    let folder = Folder::new();
    let serving = calibration();
    let url = format!("http://{}/", serving.address());
    let words = [
        "load",
        &url,
        "--json",
        "--find-rate",
        "--slo",
        "p50<1min,errors<50%",
        "-d",
        "0.05",
        "-c",
        "1",
    ];
    let mut running = Running::start(&folder, &words);
    running.wait_until_told("asked");
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    let found = json(&ended);
    assert_eq!(found["interrupted"], true, "{ended:?}");
    assert_eq!(found["find_rate"]["tried"][0]["rate"], 500.0, "{ended:?}");
}

#[test]
fn a_search_for_the_rate_sends_as_it_is_told() {
    let folder = Folder::new();
    let serving = calibration();
    let url = format!("http://{}/delay/1", serving.address());
    let first_p50 = |arrivals: &str| {
        let words = [
            "load",
            &url,
            "--json",
            "--find-rate",
            "--slo",
            "p50<1min,errors<50%",
            "-d",
            "0.2",
            "-c",
            "1",
            "--arrivals",
            arrivals,
        ];
        let mut running = Running::start(&folder, &words);
        running.wait_until_told("asked");
        running.signal(Signal::INT);
        let ended = running.end();
        let found = json(&ended);
        let first = &found["find_rate"]["tried"][0];
        assert_eq!(first["rate"], 500.0, "{ended:?}");
        first["latency_ms"]["p50"].as_f64().unwrap()
    };
    // Of a hundred at once on one connection, most wait for fifty others that take a millisecond each.
    assert!(first_p50("burst:100") > 40.0);
}

#[test]
fn assertions_that_do_not_hold_end_with_3() {
    let folder = Folder::new();
    let serving = calibration();
    let url = format!("http://{}/", serving.address());
    let load = |words: &[&str]| {
        let mut command = forebay(
            folder.path(),
            &[&["load", &url, "-n", "2k", "-c", "2", "--quiet"], words].concat(),
        );
        crate::run::ended(
            &command
                .env("GITHUB_STEP_SUMMARY", folder.path().join("page.md"))
                .output()
                .unwrap(),
        )
    };
    let held = load(&[
        "--assert",
        "errors<1%,p50<1min",
        "--save",
        "saved.json",
        "--junit",
        "held.xml",
    ]);
    assert_eq!(held.code, 0, "{held:?}");
    assert!(held.err.contains("errors<1% holds"), "{held:?}");
    assert!(folder.read("held.xml").unwrap().contains("failures=\"0\""));
    let broken = load(&[
        "--assert",
        "p50<1ns",
        "--assert",
        "errors<1%",
        "--junit",
        "broken.xml",
        "--compare",
        "saved.json",
    ]);
    assert_eq!(broken.code, 3, "{broken:?}");
    assert!(broken.err.contains("p50<1ns does not hold"), "{broken:?}");
    assert!(
        broken.err.contains("1 of 2 assertions did not hold"),
        "{broken:?}"
    );
    assert!(broken.err.contains("compared with the saved run"), "{broken:?}");
    assert!(folder.read("broken.xml").unwrap().contains("failures=\"1\""));
    assert!(folder.read("page.md").unwrap().contains("p50"));
    for words in [
        &["--assert", "p50"][..],
        &["--assert", "regression<5%"],
        &["--compare", "none.json"],
        &["--junit", "x"],
    ] {
        assert_eq!(load(words).code, 2, "{words:?}");
    }
    for words in [
        &["--find-rate", "--slo", "rps>5"][..],
        &["--find-best", "--csv=x"],
    ] {
        assert_eq!(
            run(folder.path(), &[&["load", &url], words].concat()).code,
            2,
            "{words:?}"
        );
    }
}

#[test]
fn names_are_resolved_for_each_connection_when_that_is_asked_for() {
    let target = Target::start();
    let port = target.serving.address().port();
    let ended = target.load(&format!(
        "http://localhost:{port}/local -n 20 -c 2 --no-keepalive --dns-each --ipv4 --json"
    ));
    let report = json(&ended);
    assert_eq!(report["requests"]["total"], 20, "{ended:?}");
    assert_eq!(report["requests"]["failed"], 0, "{ended:?}");
}

#[test]
fn ab_shows_the_request_and_the_first_answer_when_it_is_asked_to() {
    let target = Target::start();
    let ended = target.load("ab -v 4 -n 3 http://HOST:PORT/nowhere");
    for part in [
        "INFO: GET header == \n---\nGET /nowhere HTTP/1.0\r\n",
        "LOG: header received:\nHTTP/1.1 404 Not Found\r\n",
        "LOG: Response code = 404\n",
        "WARNING: Response code not 2xx (404), 3 times\n",
    ] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn other_tools_flags_are_listed() {
    let folder = Folder::new();
    for tool in ["autocannon", "ab", "hose", "go-wrk", "wrk", "wrk2", "jmeter"] {
        let help = run(folder.path(), &["load", tool, "--help"]);
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{tool}");
        assert!(
            help.out.starts_with(&format!("Usage: forebay load {tool}")),
            "{help:?}"
        );
    }
}

#[test]
fn the_warm_up_ends_by_itself_and_the_report_says_how_it_went() {
    let target = Target::start();
    let ended = target.load("http://HOST:PORT/local -c 2 -d 0.1 --json");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended
            .err
            .contains("100ms after a warm-up until it is steady (500ms to 5s)\n"),
        "{ended:?}"
    );
    let warm_up = &json(&ended)["warm_up"];
    let seconds = warm_up["seconds"].as_f64().unwrap();
    assert!((0.5..6.0).contains(&seconds), "{warm_up}");
    assert!(warm_up["requests"].as_u64().unwrap() > 0, "{warm_up}");
    // A busy machine may keep the server from being steady, but not the report from saying so.
    assert_eq!(warm_up["steady"].as_bool().unwrap(), seconds < 5.0, "{warm_up}");
}

/// A line for `sh` that leaves two processes outside of its group, a child and a daemon, and then becomes a server.
fn server_that_leaves_others(folder: &Folder) -> String {
    let stays =
        |name: &str| format!("setsid sh -c 'echo $$ > {name}.new; mv {name}.new {name}; exec sleep 1000'");
    let line = format!(
        "{} & ({} &) ; until [ -e child ] && [ -e daemon ]; do :; done; exec {} load serve --listen $PORT",
        stays("child"),
        stays("daemon"),
        env!("CARGO_BIN_EXE_forebay")
    );
    folder.write("start.sh", line);
    "sh start.sh".to_owned()
}

#[test]
fn what_a_started_server_leaves_outside_of_its_group_ends_with_it() {
    let folder = Folder::new();
    let command = server_that_leaves_others(&folder);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/");
    let words: Vec<&str> = ["load", "--on-port", &url, "-n", "10", "-c", "1", "--"]
        .into_iter()
        .chain(command.split(' '))
        .collect();
    let ended = run(folder.path(), &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    for name in ["child", "daemon"] {
        let pid: u32 = folder.read(name).unwrap().trim().parse().unwrap();
        wait_until("the process to be gone", || !is_alive(pid));
    }
}

/// Whether a process runs; one that has ended and waits for its parent does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn of_a_server_with_several_listeners_the_first_is_loaded_and_the_others_are_told() {
    let folder = Folder::new();
    folder.write(
        "two.mjs",
        r#"import { createServer } from "node:http";
           for (const name of ["one", "two"]) createServer((_, answer) => answer.end(name)).listen(0, "127.0.0.1");"#,
    );
    let words = [
        "load",
        "--on-port",
        "/",
        "-n",
        "10",
        "-c",
        "1",
        "--",
        "node",
        "two.mjs",
    ];
    let ended = run(folder.path(), &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    let note = ended
        .err
        .lines()
        .find(|line| line.contains("note: the command listens on 127.0.0.1:"));
    let note = note.unwrap_or_else(|| panic!("{ended:?}"));
    let loaded = note.split_whitespace().nth(5).unwrap();
    assert!(ended.err.contains(&format!("GET http://{loaded}/:")), "{ended:?}");
    assert!(note.contains("first and on 127.0.0.1:"), "{note}");
}

/// A proxy that answers everything itself, and the heads that it gets.
fn proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = heads.clone();
    // It ends with the process.
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = BufReader::new(connection.unwrap());
            let mut head = String::new();
            while connection.read_line(&mut head).is_ok_and(|length| length > 0) {
                if head.ends_with("\r\n\r\n") {
                    kept.lock().unwrap().push(std::mem::take(&mut head));
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    connection.get_mut().write_all(answer).unwrap();
                }
            }
        }
    });
    (address, heads)
}

#[test]
fn a_proxy_is_told_the_whole_url_or_asked_for_a_connection() {
    let folder = Folder::new();
    let (proxy, heads) = proxy();
    let load = |line: String, codes: [i32; 2]| {
        let words: Vec<&str> = std::iter::once("load").chain(line.split(' ')).collect();
        let ended = run(folder.path(), &words);
        assert!(codes.contains(&ended.code), "{line}: {ended:?}");
        std::mem::take(&mut *heads.lock().unwrap())
    };
    let url = "http://127.0.0.1:9/a?b=1";
    let expected = "GET http://127.0.0.1:9/a?b=1 HTTP/1.1\r\nproxy-authorization: Basic YTpi\r\nhost: 127.0.0.1:9\r\n\r\n";
    let seen = load(format!("{url} -n 2 -c 1 --proxy a:b@{proxy}"), [0, 0]);
    assert_eq!(seen, [expected, expected]);
    // ab adds fields of its own.
    let seen = load(format!("ab -k -n 1 -X {proxy} -P a:b {url}"), [0, 0]);
    assert!(
        seen[0].starts_with("GET http://127.0.0.1:9/a?b=1 HTTP/1.") && seen[0].contains("Basic YTpi"),
        "{seen:?}"
    );
    // What the proxy answers is no tunnel's end, as it says more than its head.
    let seen = load(format!("{url} -n 1 -c 1 --proxy {proxy} --proxytunnel"), [1, 1]);
    assert!(
        seen[0].starts_with("CONNECT 127.0.0.1:9 HTTP/1.1\r\n"),
        "{seen:?}"
    );
    let seen = load(format!("http://192.0.2.1/ -n 1 -c 1 --proxy {proxy}"), [2, 2]);
    assert!(seen.is_empty(), "a server elsewhere behind a proxy is elsewhere");
}
