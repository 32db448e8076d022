//! The `Cache-Control` field.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::cache_control(bytes));
