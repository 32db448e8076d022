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
pub(crate) const SEEDS: &str = r#"
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
pub(crate) struct Target {
    pub(crate) serving: Serving,
    pub(crate) folder: Folder,
}

impl Target {
    pub(crate) fn start() -> Self {
        let folder = Folder::new();
        folder.write("forebay.toml", SEEDS);
        folder.write("benchmark1.json", r#"{"a": 1}"#);
        Self {
            serving: Serving::start(folder.path(), &[]),
            folder,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.serving.address())
    }

    /// Runs `forebay load` with a line; `HOST:PORT` in it is this server's.
    pub(crate) fn load(&self, line: &str) -> Ended {
        let line = line.replace("HOST:PORT", &self.serving.address().to_string());
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        run(self.folder.path(), &words)
    }
}

pub(crate) fn json(ended: &Ended) -> serde_json::Value {
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
pub(crate) struct Running {
    child: Child,
    logs: Folder,
}

impl Running {
    pub(crate) fn start(folder: &Folder, words: &[&str]) -> Self {
        let logs = Folder::new();
        let file = |name: &str| Stdio::from(File::create(logs.path().join(name)).unwrap());
        let child = forebay(folder.path(), words)
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Self { child, logs }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended by an earlier one.
        if let Some(process) = Process::with_pid(self.child.id()) {
            process.signal(signal);
        }
    }

    pub(crate) fn end(&mut self) -> Ended {
        let status = wait_for("the command to end", || self.child.try_wait().unwrap());
        Ended {
            code: status.code().expect("it ended by itself"),
            out: self.logs.read("out").unwrap(),
            err: self.logs.read("err").unwrap(),
        }
    }

    pub(crate) fn wait_until_told(&self, part: &str) {
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

/// `forebay load serve` on a free port.
pub(crate) fn calibration() -> Serving {
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
