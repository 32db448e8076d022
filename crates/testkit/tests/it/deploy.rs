//! The files of `deploy/` work with the binary, and agree with each other.

use std::path::Path;

use forebay_testkit::{Folder, Setup};

/// The text of a file of `deploy`.
fn text_of(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(name);
    std::fs::read_to_string(path).expect("it is there")
}

/// The first number after a word.
fn number(text: &str, word: &str) -> u32 {
    let (_, rest) = text.split_once(word).expect("the word is there");
    let digits: String = rest
        .chars()
        .skip_while(|letter| !letter.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().expect("a number follows")
}

#[test]
fn the_configuration_serves_what_lies_in_the_folders_of_the_environment() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows");
    let data = Folder::new();
    let whole = text_of("forebay.toml");
    // The testkit generates its own addresses.
    let (_, below) = whole.split_once("[store]").expect("it has a store");
    let server = Setup::new(&format!("[store]{below}"))
        .env("APP", &examples.display().to_string())
        .env("DATA", &data.path().display().to_string())
        .start();
    let answer = server.post("/workflow/hello", b"{}");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(data.path().join("store").exists());
}

#[test]
fn whoever_stops_the_server_waits_for_longer_than_it_takes() {
    let drain = number(&text_of("forebay.toml"), "drain_max");
    assert!(number(&text_of("forebay.service"), "TimeoutStopSec") > drain);
    assert!(number(&text_of("compose.yaml"), "stop_grace_period") > drain);
    let passed = text_of("forebay.socket");
    let (_, address) = passed.split_once("ListenStream=").expect("it listens");
    let address = address.lines().next().expect("a line");
    assert!(text_of("forebay.toml").contains(&format!("listen = [\"{address}\"]")));
    for (file, used) in [
        ("forebay.service", "Type=notify\n"),
        ("forebay.service", "serve -c /etc/forebay/forebay.toml"),
        ("Dockerfile", "COPY deploy/forebay.toml /etc/forebay/forebay.toml"),
        ("compose.yaml", "dockerfile: deploy/Dockerfile"),
    ] {
        assert!(text_of(file).contains(used), "{file}");
    }
}
