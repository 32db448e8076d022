//! The application that `forebay new --template records` writes, used in Chromium as a person would: `tests/site`.

use std::process::Command;

use crate::run::workspace;

/// Runs one file of tests; what it printed is told when a test of it fails.
fn passes(file: &str) {
    let folder = workspace().join("crates/cli/tests/site");
    let output = Command::new(std::env::var_os("FOREBAY_NODE").unwrap_or_else(|| "node".into()))
        .args(["--test", "--test-reporter=spec", "--test-timeout=300000"])
        .arg(folder.join(file))
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
