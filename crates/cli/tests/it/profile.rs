//! `forebay profile`: functions that are known to work are in it.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use forebay_testkit::{Folder, wait_for};
use serde_json::Value;

use crate::run::{Ended, Serving, run};

const CONFIG: &str = r#"
[pool.node]
handler = "handler.mjs"
runtime = "node"
workers = { min = 2, max = 2 }

[pool.bun]
handler = "handler.mjs"
runtime = "bun"
workers = { min = 1, max = 1 }

[pool.lines]
handler = "handler.mjs"
runtime = "node"
protocol = "jsonl"
workers = { min = 1, max = 1 }

[script.inside]
handler = "handler.mjs"

[[route]]
path = "/node/:name"
pool = "node"

[[route]]
path = "/bun"
pool = "bun"

[[route]]
path = "/lines"
pool = "lines"

[[route]]
path = "/inside"
script = "inside"

[[route]]
path = "/memory"
respond = { text = "here" }
"#;

const HANDLER: &str = "function turnsInCircles() {\n  let sum = 0\n  for (let i = 0; i < 20000; i++) sum += i * i % 7\n  return sum\n}\n\
    export default function answers() {\n  return String(turnsInCircles())\n}\n";

fn serving() -> (Folder, Serving) {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    folder.write("handler.mjs", HANDLER);
    let serving = Serving::start(folder.path(), &[]);
    (folder, serving)
}

/// Profiles a route under a load of its own, and looks at a target of it.
fn profile(serving: &Serving, route: &str, target: &str, words: &[&str]) -> Ended {
    let url = format!("http://{}{target}", serving.address());
    let own = ["profile", route, "--load", &url, "--connections", "4", "--for"];
    serving.run(&[&own, words].concat())
}

fn json(ended: &Ended) -> Value {
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Whether one of a process's stacks has all these functions, outer ones first.
fn has_stack(process: &Value, functions: &[&str]) -> bool {
    let stacks = process["stacks"].as_array().unwrap();
    stacks.iter().any(|stack| {
        let mut frames = stack["frames"].as_array().unwrap().iter();
        functions
            .iter()
            .all(|function| frames.any(|frame| frame.as_str().unwrap().contains(function)))
    })
}

#[test]
fn the_server_and_each_worker_of_a_route_are_in_its_profile() {
    let (folder, serving) = serving();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (html, folded) = (path("profile.html"), path("profile.folded"));
    let ended = profile(
        &serving,
        "/node/:name",
        "/node/x",
        &["1s", "--json", "--html", &html, "--folded", &folded],
    );
    let told = json(&ended);
    assert!(told["requests"]["route"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(told["routes"][0], "/node/:name");
    let processes = told["processes"].as_array().unwrap();
    let names: Vec<&str> = processes
        .iter()
        .map(|process| process["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["server", "worker 1 of pool node", "worker 2 of pool node"]
    );
    assert!(
        has_stack(&processes[0], &["io-", "poll", "forebay_server::front::"]),
        "{}",
        processes[0]
    );
    for worker in &processes[1..] {
        assert!(
            has_stack(worker, &["answers handler.mjs:6", "turnsInCircles handler.mjs:1"]),
            "{worker}"
        );
    }
    let page = folder.read("profile.html").unwrap();
    assert!(page.contains("turnsInCircles handler.mjs:1</span>"), "{page}");
    let folded = folder.read("profile.folded").unwrap();
    let line = folded
        .lines()
        .find(|line| line.contains("turnsInCircles"))
        .unwrap();
    assert!(
        line.starts_with("worker ") && line.contains(";answers handler.mjs:6;"),
        "{line}"
    );
    assert!(line.rsplit(' ').next().unwrap().parse::<u64>().is_ok(), "{line}");
}

#[test]
fn a_table_has_the_functions_of_each_process() {
    let (_folder, serving) = serving();
    let ended = profile(&serving, "/node/:name", "/node/x", &["500ms"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("/node/:name: "), "{ended:?}");
    for part in [
        "\nserver, process ",
        "\nworker 2 of pool node (node/",
        "SELF",
        "turnsInCircles handler.mjs:1",
    ] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn a_script_is_seen_as_the_engine_that_runs_it() {
    let (_folder, serving) = serving();
    let told = json(&profile(&serving, "/inside", "/inside", &["1s", "--json"]));
    let processes = told["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{told}");
    assert!(has_stack(&processes[0], &["JS_CallInternal"]), "{told}");
}

#[test]
fn workers_without_a_profiler_are_named() {
    let (_folder, serving) = serving();
    for (route, runtime) in [("/bun", Some("bun")), ("/lines", None)] {
        let told = json(&profile(&serving, route, route, &["100ms", "--json"]));
        assert_eq!(told["processes"].as_array().unwrap().len(), 1, "{told}");
        let unseen = &told["unseen"][0];
        // A worker that speaks lines does not say what it runs in.
        let (told_runtime, _) = unseen["runtime"].as_str().unwrap().split_once('/').unzip();
        assert_eq!(told_runtime, runtime, "{told}");
        assert_eq!(
            unseen["why"],
            "its runtime has no profiler that the server can ask"
        );
    }
}

#[test]
fn the_next_step_is_told_where_there_is_nothing_to_profile() {
    let (folder, serving) = serving();
    let silent = serving.run(&["profile", "/memory", "--for", "10ms"]);
    assert_eq!(silent.code, 1, "{silent:?}");
    assert!(
        silent
            .err
            .contains("error: no request came to /memory while it was profiled"),
        "{silent:?}"
    );
    assert!(
        silent.err.contains("`--load URL` sends requests meanwhile"),
        "{silent:?}"
    );
    let unknown = serving.run(&["profile", "/none", "--for", "10ms"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(
        unknown
            .err
            .contains("there is no route `/none`; there are: /node/:name, /bun"),
        "{unknown:?}"
    );
    let long = serving.run(&["profile", "/memory", "--for", "2m"]);
    assert!(long.err.contains("1 <= N <= 60000"), "{long:?}");
    drop(serving);
    let gone = run(folder.path(), &["profile", "/memory"]);
    assert_eq!(gone.code, 4, "{gone:?}");
    assert!(gone.err.contains("cannot reach a server at"), "{gone:?}");
}

#[test]
fn the_load_of_a_profile_goes_to_another_machine_only_when_that_is_allowed() {
    let (_folder, serving) = serving();
    // Nothing ever connects to it.
    let words = ["profile", "/memory", "--load", "http://255.255.255.255:9/"];
    let refused = serving.run(&words);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("needs --allow-remote"), "{refused:?}");
    let allowed = serving.run(&[&words[..], &["--allow-remote"]].concat());
    let tried = "cannot connect to 255.255.255.255:9";
    assert!(allowed.err.contains(tried), "{allowed:?}");
}

/// Asks for the longest profile, as a client that may leave, and returns when it is being taken.
fn long_profile(folder: &Folder, serving: &Serving, route: &str) -> UnixStream {
    wait_for("a profile that is being taken", || {
        let mut client = UnixStream::connect(folder.path().join("forebay.sock")).unwrap();
        let body = format!("{{\"route\":\"{route}\",\"for_ms\":60000}}");
        let length = body.len();
        let request =
            format!("POST /profiles HTTP/1.1\r\nhost: forebay\r\ncontent-length: {length}\r\n\r\n{body}");
        client.write_all(request.as_bytes()).unwrap();
        client.set_nonblocking(true).unwrap();
        // The second that asks is refused; that may be this one.
        let other = wait_for("somebody who is refused", || {
            let other = serving.run(&["profile", "/memory", "--for", "1ms"]);
            let refused = other.err.contains("a profile is already running");
            (refused || client.read(&mut [0]).is_ok()).then_some(refused)
        });
        other.then_some(client)
    })
}

#[test]
fn a_profile_ends_with_whoever_has_asked_for_it_in_the_server_and_in_workers() {
    let (folder, serving) = serving();
    for worker in ["\"worker\":1", "\"worker\":2"] {
        serving.wait_for_log(&["worker ready", "\"pool\":\"node\"", worker]);
    }
    let client = long_profile(&folder, &serving, "/node/:name");
    drop(client);
    // Much earlier than the minute that was asked for.
    let told = wait_for("the next profile, with both workers", || {
        let next = profile(&serving, "/node/:name", "/node/x", &["100ms", "--json"]);
        let told = (next.code == 0).then(|| json(&next))?;
        (told["processes"].as_array().unwrap().len() == 3).then_some(told)
    });
    assert!(told["unseen"].as_array().unwrap().is_empty(), "{told}");
}

#[test]
fn one_profile_is_taken_at_a_time_and_the_server_serves_meanwhile() {
    let (_folder, serving) = serving();
    let over = AtomicBool::new(false);
    let refused = thread::scope(|scope| {
        // Either may be the one that is refused: both try until it was the second.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                profile(&serving, "/memory", "/memory", &["500ms"]);
            }
        });
        let refused = wait_for("a second profile that is refused", || {
            let second = serving.run(&["profile", "/memory", "--for", "1ms"]);
            second.err.contains("a profile is already running").then_some(second)
        });
        assert_eq!(serving.get("/memory").status, 200);
        over.store(true, Ordering::Relaxed);
        refused
    });
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(profile(&serving, "/memory", "/memory", &["100ms"]).code, 0);
}
