//! The crates depend on each other as ARCHITECTURE.md says, and in no other way.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;

/// `from -> to` of every arrow between crates of this workspace. Dependencies of tests alone do not count.
const ARROWS: [(&str, &str); 6] = [
    ("forebay", "forebay-load"),
    ("forebay", "forebay-server"),
    ("forebay", "forebay-typescript"),
    ("forebay-pool", "forebay-wire"),
    ("forebay-server", "forebay-pool"),
    ("forebay-testkit", "forebay-wire"),
];

#[test]
fn crates_depend_on_each_other_only_along_the_documented_arrows() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let mut found = BTreeSet::new();
    for package in packages {
        let dependencies = package["dependencies"].as_array().unwrap();
        for dependency in dependencies
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
        {
            let to = dependency["name"].as_str().unwrap();
            if names.contains(to) {
                found.insert((package["name"].as_str().unwrap(), to));
            }
        }
    }
    assert_eq!(found, BTreeSet::from(ARROWS));
}
