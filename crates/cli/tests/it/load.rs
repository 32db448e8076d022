//! `forebay load` as a user sees it: its output, and its exit codes.

use std::{
    fs::File,
    net::TcpListener,
    process::{Child, Stdio},
};

use forebay_testkit::{Folder, Process, http_target, wait_for, wait_until};
use rustix::process::Signal;

use crate::run::{Ended, Serving, forebay, run};

/// All paths that the other tools' benchmarks request, and what they answer.
const SEEDS: [(&str, &str); 11] = [
    ("/local", r#"{ status = "success" }"#),
    ("/helloworld", r#"{ hello = "world" }"#),
    ("/mgweb/helloworld", r#"{ hello = "world 123" }"#),
    (
        "/mgweb/userx/1",
        r#"{ key = 1, data = { firstName = "Rob", lastName = "Tweed" } }"#,
    ),
    (
        "/mgweb/user/1",
        r#"{ key = 1, data = { firstName = "Rob", lastName = "Tweed" } }"#,
    ),
    ("/json/000000000000000b", r#"{ title = "Article" }"#),
    ("/v1/Article/11", r#"{ title = "Article" }"#),
    ("/e1/Article/11", r#"{ title = "Article" }"#),
    ("/execute/internal/workflow", "{ ok = true }"),
    ("/queries", "[]"),
    ("/queries2", "[]"),
];

/// A configuration with these routes.
pub(crate) fn seeds() -> String {
    let route = |(path, json)| format!("[[route]]\npath = \"{path}\"\nrespond = {{ json = {json} }}\n");
    SEEDS.map(route).concat()
}

/// A server, and the folder in which its commands run.
pub(crate) struct Target {
    pub(crate) serving: Serving,
    pub(crate) folder: Folder,
}

impl Target {
    pub(crate) fn start() -> Self {
        let folder = Folder::new();
        folder.write("forebay.toml", seeds());
        folder.write("benchmark1.json", r#"{"a": 1}"#);
        Self {
            serving: Serving::start(folder.path(), &[]),
            folder,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.serving.address())
    }

    /// Runs `forebay load` with a line; `HOST:PORT` in it stands for this server.
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
        format!("GET http://{address}/local: 4 connections on 1 thread, 1,000 requests\n")
    );
    assert!(ended.out.contains("1,000 answers in"), "{ended:?}");
    let quiet = target.load("http://HOST:PORT/local -n 10 -c 4 --quiet");
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}

#[test]
fn json_is_one_object_and_all_there_is_on_standard_output() {
    let target = Target::start();
    let ended = target.load("http://HOST:PORT/local -n 500 -c 5 --json --html page.html --save run.json");
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = json(&ended);
    assert_eq!(report["requests"]["total"], 500);
    assert_eq!(report["statuses"]["200"], 500);
    for key in ["p50", "p95", "p99", "p99_9", "max", "mean"] {
        assert!(report["latency_ms"][key].as_f64().unwrap() > 0.0, "{key}");
    }
    for file in ["page.html", "run.json"] {
        assert!(!target.folder.read(file).unwrap().is_empty(), "{file}");
    }
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
             try: start the server first\n"
        )
    );
}

#[test]
fn impossible_options_end_with_2_before_a_connection_is_made() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let refused = |line: &str, complaint: &str| {
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(folder.path(), &words);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{line}: {ended:?}");
        assert!(ended.err.contains(complaint), "{line}: {ended:?}");
    };
    for (line, complaint) in [
        ("-c 0", "expected at least 1"),
        ("-c 2 -t 3", "3 threads are too many for 2 connections"),
        ("--pipeline 4 --no-keepalive", "pipelining needs keep-alive"),
        ("-d soon", "expected a duration"),
        (
            "--json=nowhere/result.json",
            "lies in a folder that does not exist",
        ),
        ("--body-file none.json", "cannot read none.json"),
        ("--server-pid 4194305", "no process has the pid 4194305"),
        ("-H Accept", "expected \"Name: value\""),
        (
            "--http2",
            "`--http2` is no longer there: h2load of nghttp2 measures HTTP/2",
        ),
        (
            "--csv=latency.csv",
            "`--csv` is no longer there: --json has every figure",
        ),
        (
            "--on-port -- node x.mjs",
            "`--on-port` is no longer there: start the server before",
        ),
    ] {
        refused(&format!("{url} {line}"), complaint);
    }
    refused("hose -t", "-t: its N is missing");
    refused("serve", "`load serve` is no longer there: `forebay serve`");
    let remote = run(folder.path(), &["load", "http://192.0.2.1/"]);
    assert_eq!(remote.code, 2);
    assert!(
        remote.err.contains("192.0.2.1:80 is not this machine") && remote.err.contains("--allow-remote"),
        "{remote:?}"
    );
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a refused command line has connected");
}

#[test]
fn answers_that_are_not_as_expected_are_counted() {
    let target = Target::start();
    let ended = target.load("http://HOST:PORT/local -n 20 -c 2 --expect-body ~success --json");
    assert_eq!(json(&ended)["requests"]["failed"], 0, "{ended:?}");
    let ended = target.load("http://HOST:PORT/local -n 20 -c 2 --expect-body ~nothing --json");
    assert_eq!(json(&ended)["errors"]["mismatch"], 20, "{ended:?}");
    let ended = target.load("http://HOST:PORT/nowhere -n 20 -c 2 --json");
    assert_eq!(json(&ended)["errors"]["status"], 20, "{ended:?}");
    let ended = target.load("http://HOST:PORT/nowhere -n 20 -c 2 --json --expect-status 404");
    assert_eq!(json(&ended)["requests"]["failed"], 0, "{ended:?}");
}

/// A command whose output goes to files; it is killed on drop.
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
    // A line of progress: by then there are responses.
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
    // It accepts connections and never responds: the first interrupt waits for outstanding responses.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let folder = Folder::new();
    let line = format!("load {url} -d 1h --timeout 1h -c 1 --warmup 0");
    let words: Vec<&str> = line.split(' ').collect();
    let mut running = Running::start(&folder, &words);
    running.wait_until_told("3600s");
    // The trial connection, and one that carries a request.
    let (_trial, _) = silent.accept().unwrap();
    let (_loaded, _) = silent.accept().unwrap();
    running.signal(Signal::INT);
    running.signal(Signal::INT);
    let told = wait_for("the command to end", || {
        // Two simultaneous signals may be merged into one.
        running.signal(Signal::INT);
        running.child.try_wait().unwrap()
    });
    assert_eq!(told.code(), Some(130));
}

#[test]
fn the_help_has_a_line_for_each_option_and_fits_on_two_screens() {
    let folder = Folder::new();
    let help = run(folder.path(), &["load", "--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    assert!(help.out.lines().count() <= 100, "{}", help.out);
    let long: Vec<&str> = help
        .out
        .lines()
        .filter(|line| line.chars().count() > 100)
        .collect();
    assert_eq!(long, [""; 0], "lines that a terminal would wrap");
}

#[test]
fn assertions_that_do_not_hold_end_with_3() {
    let folder = Folder::new();
    let server = http_target::Server::start(1);
    let url = server.url("/");
    let load = |words: &[&str]| {
        let own = ["load", &url, "-n", "2k", "-c", "2", "--quiet"];
        run(folder.path(), &[&own, words].concat())
    };
    let held = load(&["--assert", "errors<1%,p50<1min"]);
    assert_eq!(held.code, 0, "{held:?}");
    assert!(held.err.contains("errors<1% holds"), "{held:?}");
    let broken = load(&["--assert", "p50<1ns", "--assert", "errors<1%"]);
    assert_eq!(broken.code, 3, "{broken:?}");
    assert!(broken.err.contains("p50<1ns does not hold"), "{broken:?}");
    assert!(
        broken.err.contains("1 of 2 assertions did not hold"),
        "{broken:?}"
    );
    for text in ["p50", "regression<5%"] {
        assert_eq!(load(&["--assert", text]).code, 2, "{text}");
    }
    for words in [
        &["--find-rate", "--slo", "rps>5"][..],
        &["--find-best", "--save", "x"],
    ] {
        assert_eq!(
            run(folder.path(), &[&["load", &url], words].concat()).code,
            2,
            "{words:?}"
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
