//! A statement of TQL, in both encodings.

#![no_main]

use forebay_records::{Settings, tql::Statement};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let settings = Settings::default();
    for read in [Statement::read_json, Statement::read_friendly] {
        if let Err(error) = read(bytes, &settings) {
            assert!(error.position.line >= 1 && error.position.column >= 1, "{error}");
        }
    }
});
