//! Runs of `forebay load` that choose their loads themselves.

use forebay_testkit::{Folder, http_target::Server};
use rustix::process::Signal;

use crate::{
    load::{Running, json, seeds},
    run::{Ended, run},
};

/// Runs `forebay load` with a line of words separated by spaces, of which `HOST` stands for a server.
fn load(server: &Server, line: &str) -> Ended {
    let line = line.replace("HOST", &server.address().to_string());
    let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
    run(Folder::new().path(), &words)
}

#[test]
fn the_best_number_of_connections_is_found_with_its_curve() {
    let found = json(&load(&Server::start(1), "HOST --find-best -c 4 -d 0.05 --json"));
    let best = &found["find_best"];
    assert!((1..=4).contains(&best["connections"].as_u64().unwrap()), "{best}");
    assert!(best["curve"].as_array().unwrap().len() >= 3, "{best}");
    assert!(!best["reason"].as_str().unwrap().is_empty(), "{best}");
}

#[test]
fn failures_of_a_search_are_parts_of_what_was_asked_for() {
    let server = Server::start(1);
    let found = json(&load(&server, "HOST/status/500 --find-best -c 2 -d 0.05 --json"));
    let curve = found["find_best"]["curve"].as_array().unwrap();
    assert!(curve.iter().all(|point| point["failed"] == 1.0), "{found}");
    let ended = load(&server, "HOST --vs HOST/status/500 -d 0.4 -c 2 --warmup 0");
    let of_servers = ended.out.split("\nB / A").next().unwrap();
    assert!(of_servers.contains("failed 100.00 %"), "{ended:?}");
    assert_eq!(of_servers.matches("failed").count(), 1, "{ended:?}");
    let verdict = "\nVerdict  errors: B failed 100.00 % of its requests (status ";
    assert!(ended.out.contains(verdict), "{ended:?}");
    let bail = load(&server, "HOST --find-best --bail 1");
    assert_eq!(bail.code, 2, "{bail:?}");
    assert!(bail.err.contains("--bail is for a single run"), "{bail:?}");
}

#[test]
fn a_server_beside_another_has_a_ratio_and_one_beside_itself() {
    let found = json(&load(
        &Server::start(1),
        "HOST --vs HOST -d 0.5 -c 2 --warmup 0 --json",
    ));
    for ratio in ["per_second", "p50", "p99", "self"] {
        let value = found["versus"][ratio]["value"].as_f64();
        assert!(value.unwrap() > 0.0, "{ratio}: {found}");
    }
    let verdict = found["verdict"].as_str().unwrap();
    assert!(["clean", "noisy"].contains(&verdict), "{found}");
}

#[test]
fn a_server_that_a_command_starts_is_compared_and_stopped() {
    let (folder, server) = (Folder::new(), Server::start(1));
    folder.write("forebay.toml", seeds());
    let url = server.url("/");
    let versus = |command: &str| {
        let words = [
            "load", &url, "--json", "-d", "0.5", "-c", "2", "--warmup", "0", "--vs-cmd", command,
        ];
        run(folder.path(), &words)
    };
    let binary = env!("CARGO_BIN_EXE_forebay");
    let found = json(&versus(&format!(
        "exec {binary} serve --listen 127.0.0.1:$PORT --admin off"
    )));
    let started = &found["versus"];
    assert_eq!(started["pairs"].as_array().unwrap().len(), 2, "{started}");
    assert_ne!(started["urls"][0], started["urls"][1], "{started}");
    let status = run(folder.path(), &["status"]);
    assert_eq!(status.code, 4, "the server still runs: {status:?}");
    let ended = versus("false");
    let why = "`false` has ended (exit status: 1) before it listened";
    assert!(ended.code == 1 && ended.err.contains(why), "{ended:?}");
}

#[test]
fn the_highest_rate_that_keeps_a_promise_is_found_and_confirmed() {
    // Each response takes 2 ms, so one connection carries at most 500 requests a second.
    let line = "HOST/delay/2 --find-rate --slo p50<1s,errors<50% -c 1 -d 0.2 --warmup 0 --json";
    let found = json(&load(&Server::start(1), line));
    let rate = found["find_rate"]["per_second"].as_f64().unwrap();
    assert!((1.0..600.0).contains(&rate), "{found}");
    assert!(found["find_rate"]["confirmed"]["per_second"].is_f64(), "{found}");
    assert!(
        found["find_rate"]["tried"].as_array().unwrap().len() >= 3,
        "{found}"
    );
}

#[test]
fn a_run_ends_after_too_many_failures_and_shows_what_the_server_used() {
    let server = Server::start(1);
    let ended = load(&server, "HOST/status/500 --bail 50 -d 1h -c 1 --warmup 0");
    assert!(ended.err.contains("ended early"), "{ended:?}");
    let own = std::process::id();
    let found = json(&load(
        &server,
        &format!("HOST -d 0.5 -c 1 --warmup 0 --server-pid {own} --json"),
    ));
    assert!(found["server"]["cpu_seconds"].as_f64().unwrap() > 0.0, "{found}");
}

#[test]
fn a_search_for_the_rate_can_be_interrupted() {
    let (folder, server) = (Folder::new(), Server::start(1));
    let url = server.url("/");
    let slo = "p50<1min,errors<50%";
    let words = [
        "load",
        &url,
        "--json",
        "--find-rate",
        "--slo",
        slo,
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
