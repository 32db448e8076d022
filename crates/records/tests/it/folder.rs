//! Records in a store in a folder.

use std::path::PathBuf;

#[path = "both/mod.rs"]
mod both;

const FEWER_CASES: u32 = 1;

type Home = tempfile::TempDir;

fn home() -> (Home, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}
