//! The head of a request.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::http_head(bytes));
