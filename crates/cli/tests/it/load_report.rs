//! `forebay load report` as a user sees it: saved runs, printed again and compared.

use forebay_testkit::{Folder, http_target::Server};
use serde_json::Value;

use crate::run::{Ended, run};

/// A server to load, and a folder for saved runs.
struct Saved {
    server: Server,
    folder: Folder,
}

impl Saved {
    fn new() -> Self {
        Self {
            server: Server::start(1),
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
    let first = saved.forebay("http://HOST:PORT/ -n 500 -c 5 --quiet --save run.json --html run.html");
    assert_eq!(saved.forebay("report run.json").out, first.out);
    saved.forebay("report run.json --html again.html --save again.json");
    for form in ["html", "json"] {
        let read = |name: &str| saved.folder.read(&format!("{name}.{form}")).unwrap();
        assert_eq!(read("again"), read("run"), "{form}");
    }
    let json = value(&saved.forebay("report run.json --json").out);
    assert_eq!(json["requests"]["total"], 500);
}

#[test]
fn runs_are_drawn_together_and_set_beside_each_other() {
    let saved = Saved::new();
    saved.forebay("http://HOST:PORT/ -n 300 -c 3 --quiet --save one.json --title one");
    saved.forebay("http://HOST:PORT/ -n 200 -c 2 --quiet --save two.json");
    saved.forebay("report one.json two.json --html all.html");
    let page = saved.folder.read("all.html").unwrap();
    assert!(page.contains("one (one.json)") && page.contains("two.json"));
    assert_eq!(page.matches("<figure>").count(), 2);
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
            "report closed.json open.json --save both.json",
            "--save takes one run",
        ),
    ] {
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(saved.folder.path(), &words);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{line}: {ended:?}");
        assert!(ended.err.contains(reason), "{line}: {ended:?}");
    }
}

#[test]
fn a_page_of_a_search_has_its_finding() {
    let saved = Saved::new();
    saved.forebay("http://HOST:PORT/ --find-best -c 4 -d 0.05 --quiet --html best.html");
    assert!(saved.folder.read("best.html").unwrap().contains("Best: "));
}

#[test]
fn a_run_in_stages_says_so() {
    let saved = Saved::new();
    let ended = saved.forebay("http://HOST:PORT/ --stage 200ms:1,200ms:3 --quiet");
    let told = "load in stages, on at most 3 connections: 1 connection, then 3 connections";
    assert!(ended.out.contains(told), "{ended:?}");
}
