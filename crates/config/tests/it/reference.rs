//! `docs/reference/` must match the program.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_config::{Config, Environment, reference, schema};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

/// Compares a file with its generated content, or writes it if `FOREBAY_REFRESH` is set.
fn assert_fresh(name: &str, made: &str) {
    let file = docs().join(name);
    if std::env::var_os("FOREBAY_REFRESH").is_some() {
        fs::write(&file, made).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == made,
        "docs/reference/{name} is stale; refresh it: FOREBAY_REFRESH=1 cargo test -p forebay-config --test it reference"
    );
}

#[test]
fn the_schema_for_editors_is_fresh() {
    assert_fresh("forebay.schema.json", &schema());
}

#[test]
fn the_reference_of_keys_is_fresh() {
    assert_fresh("configuration.md", &reference());
}

#[test]
fn every_configuration_in_the_documents_checks() {
    let folder = std::env::temp_dir().join(format!("fbd-{}", std::process::id()));
    for name in ["handlers", "public", "workflows"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::write(folder.join("handlers/api.mjs"), "").unwrap();
    fs::write(folder.join("order.schema.json"), "{}").unwrap();
    let find_program = |name: &str| Some(Path::new("/bin").join(name));
    let environment = Environment {
        env: &|_| None,
        find_program: &find_program,
        cores: 2,
        io_threads: None,
    };
    for name in ["configuration.md", "routing.md"] {
        let document = fs::read_to_string(docs().join(name)).unwrap();
        let blocks = forebay_testkit::blocks(&document, "toml");
        assert!(!blocks.is_empty(), "{name} has no configuration");
        for block in blocks {
            let checked = Config::parse(block, &folder.join("forebay.toml"), &environment);
            assert!(checked.is_ok(), "{name}: {}", checked.unwrap_err());
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}
