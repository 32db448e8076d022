//! The application that `forebay new --template records` writes, and the page of an OpenAPI document, used in Chromium as a person would:
//! `tests/site`.

use std::process::Command;

use crate::run::{node, workspace};

/// Runs one file of tests; its output is printed when a test fails.
fn passes(file: &str) {
    let folder = workspace().join("crates/cli/tests/site");
    let output = Command::new(node())
        .args(["--test", "--test-reporter=spec", "--test-timeout=300000"])
        .arg(folder.join(file))
        .env("FOREBAY_NODE", node())
        .env("FOREBAY_BINARY", env!("CARGO_BIN_EXE_forebay"))
        .env(
            "FOREBAY_CACHE_DIR",
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"),
        )
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{file}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn lists_are_paged_sorted_and_searched() {
    passes("lists.test.mjs");
}

#[test]
fn records_are_made_edited_and_deleted_and_nothing_is_overwritten_unseen() {
    passes("changes.test.mjs");
}

#[test]
fn what_records_contain_stays_text_and_keeps_its_digits() {
    passes("contents.test.mjs");
}

#[test]
fn what_goes_wrong_is_said_and_nothing_entered_is_lost() {
    passes("faults.test.mjs");
}

#[test]
fn everybody_can_use_the_page() {
    passes("access.test.mjs");
}

#[test]
fn its_json_is_exact() {
    passes("json.test.mjs");
}

#[test]
fn the_page_of_an_openapi_document_shows_it_to_everybody() {
    passes("openapi.test.mjs");
}
