//! The text of `forebay.toml`. Files and programs that it names do not exist, so most results are errors with their positions.

#![no_main]

use std::path::Path;

use forebay_server::config::{Config, Environment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let environment = Environment {
        env: &|name| (name.len() < 4).then(|| format!("\"{name}\" [x]\n")),
        find_program: &|_| None,
        cores: 2,
    };
    let read = Config::parse(text, Path::new("/nowhere/forebay.toml"), &environment);
    if let Err(error) = &read {
        assert!(!error.to_string().is_empty());
    }
    let again = Config::parse(text, Path::new("/nowhere/forebay.toml"), &environment);
    assert_eq!(format!("{read:?}"), format!("{again:?}"), "the same text says the same");
});
