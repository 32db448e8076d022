//! Runs of `forebay load` that choose their loads themselves.

use forebay_testkit::{Folder, http_target::Server};
use rustix::process::Signal;

use crate::{
    load::{Running, SEEDS, json},
    run::run,
};

/// Runs a search against a test server, and returns its finding.
fn search(words: &[&str]) -> serde_json::Value {
    let folder = Folder::new();
    folder.write("forebay.toml", SEEDS);
    let server = Server::start(1);
    let url = server.url("/");
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
    let server = Server::start(1);
    let (right, wrong) = (server.url("/"), server.url("/status/500"));
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
    let command = format!(
        "exec {} serve --listen 127.0.0.1:$PORT --admin off",
        env!("CARGO_BIN_EXE_forebay")
    );
    let started = &search(&["--vs-cmd", &command, "-d", "0.5", "-c", "2", "--warmup", "0"])["versus"];
    assert_eq!(started["pairs"].as_array().unwrap().len(), 2, "{started}");
    let verdict = found["verdict"].as_str().unwrap();
    assert!(["clean", "noisy"].contains(&verdict), "{found}");
    assert_ne!(started["urls"][0], started["urls"][1], "{started}");
}

#[test]
fn a_search_for_the_rate_can_be_interrupted() {
    let folder = Folder::new();
    let server = Server::start(1);
    let url = server.url("/");
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
