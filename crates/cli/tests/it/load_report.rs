//! `forebay load report` from the outside: saved runs, printed again, added, and beside each other.

use forebay_load::{
    serve::{Options, Server},
    target::Address,
};
use forebay_testkit::Folder;
use serde_json::Value;

use crate::run::{Ended, run};

/// A server to aim at, and a folder with what is saved.
struct Saved {
    server: Server,
    folder: Folder,
}

impl Saved {
    fn new() -> Self {
        let server = Server::start(&Options {
            address: Address::Tcp(([127, 0, 0, 1], 0).into()),
            threads: 1,
            seed: 1,
        });
        Self {
            server: server.unwrap(),
            folder: Folder::new(),
        }
    }

    fn forebay(&self, line: &str) -> Ended {
        let line = line.replace("HOST:PORT", &self.server.address().to_string());
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(self.folder.path(), &words);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        ended
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_saved_run_prints_again_what_it_printed_in_every_form() {
    let saved = Saved::new();
    let first = saved.forebay(
        "http://HOST:PORT/ -n 500 -c 5 --quiet --save run.json --html run.html --csv=run.csv --hgrm=run.hgrm",
    );
    assert_eq!(saved.forebay("report run.json").out, first.out);
    saved.forebay("report run.json --html again.html --csv=again.csv --hgrm=again.hgrm --save again.json");
    for form in ["html", "csv", "hgrm", "json"] {
        let read = |name: &str| saved.folder.read(&format!("{name}.{form}")).unwrap();
        assert_eq!(read("again"), read("run"), "{form}");
    }
    let wrk = saved.forebay("report run.json --style wrk").out;
    assert!(wrk.contains("500 requests in"), "{wrk}");
    let json = value(&saved.forebay("report run.json --json").out);
    assert_eq!(json["requests"]["total"], 500);
}

#[test]
fn runs_are_added_drawn_together_and_set_beside_each_other() {
    let saved = Saved::new();
    saved.forebay("http://HOST:PORT/ -n 300 -c 3 --quiet --save one.json --title one");
    saved.forebay("http://HOST:PORT/ -n 200 -c 2 --quiet --save two.json");
    let both = saved.forebay("report --merge one.json two.json --json --save both.json");
    assert!(both.err.contains("did not run at the same time"), "{both:?}");
    let both = value(&both.out);
    assert_eq!(
        (
            &both["requests"]["total"],
            &both["latency_ms"]["count"],
            &both["run"]["connections"]
        ),
        (&500.into(), &500.into(), &5.into())
    );
    saved.forebay("report both.json");
    saved.forebay("report one.json two.json --html all.html");
    let page = saved.folder.read("all.html").unwrap();
    assert!(page.contains("1: one, 3 connections") && page.contains("2: two.json, 2 connections"));
    let compared = saved.forebay("report --compare one.json two.json").out;
    assert!(
        compared.starts_with("A  one (one.json)\nB  two.json\n"),
        "{compared}"
    );
    assert!(compared.contains("p99"), "{compared}");
    let compared = value(&saved.forebay("report --compare one.json two.json --json").out);
    assert!(
        compared["compare"]["figures"]["p50"]["change"].is_number(),
        "{compared}"
    );
}

#[test]
fn what_cannot_be_used_is_refused_with_the_reason() {
    let saved = Saved::new();
    saved.forebay("http://HOST:PORT/ -n 20 -c 2 --quiet --save closed.json --json=plain.json");
    saved.forebay("http://HOST:PORT/ -n 20 -c 2 --rate 1000 --quiet --save open.json");
    saved.folder.write("text", "not json");
    for (line, reason) in [
        ("report missing.json", "cannot use missing.json"),
        ("report text", "it is not JSON"),
        ("report plain.json", "a saved run is what --save writes"),
        (
            "report --compare closed.json",
            "--compare takes two files, found 1",
        ),
        (
            "report --merge closed.json open.json",
            "runs with different kinds of load cannot be added",
        ),
        (
            "report closed.json open.json --save both.json",
            "--save needs --merge",
        ),
        (
            "report closed.json --json --csv",
            "cannot both go to standard output",
        ),
    ] {
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(saved.folder.path(), &words);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{line}: {ended:?}");
        assert!(ended.err.contains(reason), "{line}: {ended:?}");
    }
}

#[test]
fn every_request_is_a_line_of_the_log_and_every_slice_one_of_its_own() {
    let saved = Saved::new();
    saved.forebay(
        "http://HOST:PORT/ http://HOST:PORT/status/500 -n 300 -c 2 --quiet --log requests.csv --ndjson=slices --json=run.json \
         --prometheus load.prom",
    );
    let log = saved.folder.read("requests.csv").unwrap();
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("start_unix_s,latency_ms,status,bytes,class"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 300);
    let failed = rows.iter().filter(|row| row[4] == "status").count();
    assert!(
        failed > 0 && rows.iter().all(|row| (row[2] == "500") == (row[4] == "status")),
        "{log}"
    );
    let report = value(&saved.folder.read("run.json").unwrap());
    assert_eq!(report["errors"]["status"], failed);
    let slices = saved.folder.read("slices").unwrap();
    let answers: u64 = slices
        .lines()
        .map(|line| value(line)["requests"].as_u64().unwrap())
        .sum();
    assert_eq!(answers, 300);
    let metrics = saved.folder.read("load.prom").unwrap();
    assert!(
        metrics.contains("\nforebay_load_failures{method=\"GET\","),
        "{metrics}"
    );
    assert!(!saved.folder.path().join("load.prom.new").exists());
    // Each URL has figures of its own, and the first answer is told.
    let urls = report["urls"].as_array().unwrap();
    assert_eq!(urls.len(), 2);
    assert_eq!(
        (&urls[0]["failures"], &urls[1]["failures"]),
        (&0.into(), &failed.into())
    );
    assert_eq!(report["first_answer"]["body_bytes"], 13);
    assert_eq!(
        report["first_answer"]["sha256"],
        "dffd6021bb2bd5b0af676290809ec3a53191dd81c7f70a4b28688a362182986f"
    );
}

#[test]
fn slices_are_written_while_the_run_lasts() {
    let saved = Saved::new();
    let line = format!(
        "load http://{}/ -d 600 -c 1 --warmup 0 --quiet --ndjson=slices",
        saved.server.address()
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut running = crate::run::forebay(saved.folder.path(), &words)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    forebay_testkit::wait_until("a slice with answers", || {
        let slices = saved.folder.read("slices").unwrap_or_default();
        slices
            .lines()
            .any(|line| line.ends_with('}') && value(line)["requests"].as_u64() > Some(0))
    });
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn what_failed_leaves_the_latency_when_that_is_asked_for() {
    let saved = Saved::new();
    let count = |line: &str| {
        let report = value(&saved.forebay(line).out);
        (
            report["requests"]["total"].clone(),
            report["latency_ms"]["count"].clone(),
        )
    };
    let line = "http://HOST:PORT/ http://HOST:PORT/status/500 -n 100 -c 2 --no-keepalive --quiet --json";
    assert_eq!(count(line), (100.into(), 100.into()));
    let report = value(&saved.forebay(&format!("{line} --exclude-errors")).out);
    let failed = report["errors"]["status"].as_u64().unwrap();
    assert!(failed > 0);
    assert_eq!(report["requests"]["total"], 100);
    assert_eq!(report["latency_ms"]["count"], 100 - failed);
    assert_eq!(report["urls"][1]["latency_ms"]["count"], 0);
}

#[test]
fn a_page_of_a_search_has_all_its_runs() {
    let saved = Saved::new();
    saved.forebay("http://HOST:PORT/ --find-best -c 4 -d 0.05 --quiet --html best.html");
    let best = saved.folder.read("best.html").unwrap();
    for shown in ["Best: ", "1 connection<", "2 connections<", "4 connections<"] {
        assert!(best.contains(shown), "{shown}");
    }
    saved.forebay(
        "http://HOST:PORT/ --vs http://HOST:PORT/bytes/20 -d 1 -c 2 --warmup 0 --quiet --html versus.html",
    );
    let versus = saved.folder.read("versus.html").unwrap();
    assert_eq!(versus.matches("<details class=\"run\">").count(), 2);
    assert!(versus.contains("B / A") && versus.contains("/bytes/20, 2 connections"));
}

#[test]
fn a_run_in_stages_says_so_and_explains_itself() {
    let saved = Saved::new();
    let ended =
        saved.forebay("http://HOST:PORT/ --stage 200ms:1,200ms:3 --quiet --explain --html stages.html");
    assert!(
        ended
            .out
            .contains("load in stages, on at most 3 connections: 1 connection, then 3 connections"),
        "{ended:?}"
    );
    assert!(
        ended.out.contains("What this run says") && ended.out.contains("\n  Stages\n"),
        "{ended:?}"
    );
    let page = saved.folder.read("stages.html").unwrap();
    assert!(page.contains("0.2 s: 3 connections"), "{page}");
}
